"""Which link may write which target topic: one writer each, and never in a circle.

A mirror of same offsets leaves no room for a second writer, and a topic that came back to where it
started would be copied for ever. Where links contradict each other the earlier one in the
configuration keeps the topic, so that adding a link never stops one that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One link wants to write one topic, made of one of its source. Clusters are ids."""

    link: str
    source_topic: SourceTopic
    target_topic: TargetTopic
    source_id: str
    target_id: str


@dataclass(slots=True)
class Claims:
    """The claims that were granted so far, in the order of the configuration."""

    _granted: dict[tuple[str, TargetTopic], Claim] = field(default_factory=dict)

    def grant(self, claim: Claim) -> Problem | None:
        """Grant a claim, or tell why not. Asking again for what was granted is granted again."""
        holder = self._granted.get((claim.target_id, claim.target_topic))
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
        self._granted[claim.target_id, claim.target_topic] = claim
        return None

    def _path(self, claim: Claim) -> Iterator[str]:
        """The links by which the claim's source gets the topic from the claim's target, if any, under any name: with
        other names it would get a longer one in every round.
        """
        # A topic has one writer per cluster, so going upstream there is one way only.
        names: list[str] = []
        cluster, topic = claim.source_id, claim.source_topic
        while (upstream := self._granted.get((cluster, TargetTopic(topic)))) is not None and upstream is not claim:
            names.append(upstream.link)
            cluster, topic = upstream.source_id, upstream.source_topic
            if cluster == claim.target_id:
                yield from reversed(names)
                return
            if (cluster, topic) == (claim.source_id, claim.source_topic):
                return
