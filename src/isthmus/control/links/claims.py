"""Which link may write which target topic: one writer each, and never in a circle.

A mirror of same offsets leaves no room for a second writer; links that map offsets share a topic among themselves. And
a topic that came back to where it started would be copied for ever. Where links contradict each other the earlier one
in the configuration keeps the topic, so that adding a link never stops one that runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One link wants to write one topic, made of one of its source. Clusters are ids. With mapped offsets (`is_mapped`)
    it leaves room for others that map theirs too.
    """

    link: str
    source_topic: SourceTopic
    target_topic: TargetTopic
    source_id: str
    target_id: str
    is_mapped: bool = False


@dataclass(slots=True)
class Claims:
    """The claims that were granted so far, in the order of the configuration."""

    _granted: dict[tuple[str, TargetTopic], list[Claim]] = field(default_factory=dict)

    def grant(self, claim: Claim) -> Problem | None:
        """Grant a claim, or tell why not. Asking again for what was granted is granted again."""
        held = self._granted.setdefault((claim.target_id, claim.target_topic), [])
        others = [one for one in held if one.link != claim.link]
        rival = next((one for one in others if not (one.is_mapped and claim.is_mapped)), None)
        if rival is not None:
            return Problem(
                f"link {rival.link} writes this target topic already",
                f"Exclude the topic from one of {rival.link} and {claim.link}, or map its offsets in both "
                "(topics.offsets: mapped).",
            )
        path = self._path(claim)
        if path:
            return Problem(
                f"the topic would run in a circle with {', '.join(path)}",
                f"Exclude the topic from one of the links: {', '.join([*path, claim.link])}.",
            )
        held[:] = [*others, claim]
        return None

    def release(self, link: str, topic: TargetTopic) -> None:
        """The link does not want the topic any more."""
        for (_, name), held in self._granted.items():
            if name == topic:
                held[:] = [claim for claim in held if claim.link != link]

    def release_all(self, link: str) -> None:
        """The link runs no more."""
        for held in self._granted.values():
            held[:] = [claim for claim in held if claim.link != link]

    def _path(self, claim: Claim) -> list[str]:
        """The links by which the claim's source gets the topic from the claim's target, if any, under any name: with
        other names it would get a longer one in every round.
        """
        waiting: list[tuple[str, str, list[str]]] = [(claim.source_id, claim.source_topic, [])]
        seen: set[tuple[str, str]] = set()
        while waiting:
            cluster, topic, names = waiting.pop()
            if (cluster, topic) in seen:
                continue
            seen.add((cluster, topic))
            for upstream in self._granted.get((cluster, TargetTopic(topic)), ()):
                if upstream.link == claim.link:
                    continue
                if upstream.source_id == claim.target_id:
                    return [upstream.link, *names]
                waiting.append((upstream.source_id, upstream.source_topic, [upstream.link, *names]))
        return []
