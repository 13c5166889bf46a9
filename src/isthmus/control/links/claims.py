"""Which link may write which target topic: one writer each, and never in a circle.

A mirror of same offsets leaves no room for a second writer, and a topic that came back to where it
started would be copied for ever. Where links contradict each other the earlier one in the
configuration keeps the topic, so that adding a link never stops one that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from isthmus.model.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One link wants to write one topic (of the same name on both sides). Clusters are ids."""

    link: str
    topic: str
    source_id: str
    target_id: str


@dataclass(slots=True)
class Claims:
    """The claims that were granted so far, in the order of the configuration."""

    _granted: dict[tuple[str, str], Claim] = field(default_factory=dict)

    def grant(self, claim: Claim) -> Problem | None:
        """Grant a claim, or tell why not. Asking again for what was granted is granted again."""
        holder = self._granted.get((claim.target_id, claim.topic))
        if holder is not None and holder.link != claim.link:
            return Problem(
                f"link {holder.link} writes this target topic already",
                f"Exclude the topic from one of {holder.link} and {claim.link}.",
            )
        path = list(self._path(claim))
        if path:
            return Problem(
                f"the topic would run in a circle with {', '.join(path)}",
                f"Exclude the topic from one of the links: {', '.join([*path, claim.link])}.",
            )
        self._granted[claim.target_id, claim.topic] = claim
        return None

    def _path(self, claim: Claim) -> Iterator[str]:
        """The links by which the claim's source gets the topic from the claim's target, if any."""
        # A topic has one writer per cluster, so going upstream there is one way only.
        names, cluster = [], claim.source_id
        while (upstream := self._granted.get((cluster, claim.topic))) is not None:
            names.append(upstream.link)
            cluster = upstream.source_id
            if cluster == claim.target_id:
                yield from reversed(names)
                return
            if cluster == claim.source_id:
                return
