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

    A link that `is_resting` has written the topic and is not run now: it keeps nobody from writing it, but it may be
    part of a circle.

    Distributors of one `tree` share its topics with each other, and with no link that mirrors. Among them there are no
    circles: copy flags end them.
    """

    link: str
    source_topic: SourceTopic
    target_topic: TargetTopic
    source_id: str
    target_id: str
    is_mapped: bool = False
    is_resting: bool = False
    tree: str = ""

    def leaves_room_for(self, other: Claim) -> bool:
        """Whether both may write one topic."""
        return self.is_mapped and other.is_mapped and self.tree == other.tree


@dataclass(slots=True)
class Claims:
    """The claims that were granted so far, in the order of the configuration."""

    _granted: dict[tuple[str, TargetTopic], list[Claim]] = field(default_factory=dict)
    _resting: dict[tuple[str, TargetTopic], dict[str, Claim]] = field(default_factory=dict)

    def grant(self, claim: Claim) -> Problem | None:
        """Grant a claim, or tell why not. Asking again for what was granted is granted again."""
        if claim.is_resting:
            self._resting.setdefault((claim.target_id, claim.target_topic), {})[claim.link] = claim
            return None
        held = self._granted.setdefault((claim.target_id, claim.target_topic), [])
        others = [one for one in held if one.link != claim.link]
        rival = next((one for one in others if not one.leaves_room_for(claim)), None)
        if rival is not None and rival.tree != claim.tree:
            tree = rival.tree or claim.tree
            return Problem(
                f"link {rival.link} writes this target topic already, and it is one of tree {tree}",
                f"A topic of a tree is written by its own distributors: exclude it there or in {claim.link}.",
            )
        if rival is not None:
            return Problem(
                f"link {rival.link} writes this target topic already",
                f"Exclude the topic from one of {rival.link} and {claim.link}, or map its offsets in both "
                "(topics.offsets: mapped).",
            )
        path = self._path(claim)
        if path:
            names = [link.link for link in path]
            resting = [link.link for link in path if link.is_resting]
            hint = f"Exclude the topic from one of the links: {', '.join([*names, claim.link])}."
            if resting:
                hint += (
                    f" What is not run any more counts until it is forgotten: isthmus forget {resting[0]} --at CLUSTER."
                )
            return Problem(f"the topic would run in a circle with {', '.join(names)}", hint)
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

    def _upstream(self, cluster: str, topic: TargetTopic) -> list[Claim]:
        """What is written into the topic: by links that run, and by those that rest and are not among these."""
        granted = self._granted.get((cluster, topic), [])
        running = {one.link for one in granted}
        resting = self._resting.get((cluster, topic), {}).values()
        return [*granted, *(one for one in resting if one.link not in running)]

    def _path(self, claim: Claim) -> list[Claim]:
        """The links by which the claim's source gets the topic from the claim's target, if any, under any name: with
        other names it would get a longer one in every round.

        Where all of them keep offsets, one that rests stands in nobody's way: a mirror that is turned round finds its
        own records where they belong. With mapped offsets they would come a second time.
        """
        waiting: list[tuple[str, str, list[Claim]]] = [(claim.source_id, claim.source_topic, [])]
        seen: set[tuple[str, str]] = set()
        while waiting:
            cluster, topic, links = waiting.pop()
            if (cluster, topic) in seen:
                continue
            seen.add((cluster, topic))
            for upstream in self._upstream(cluster, TargetTopic(topic)):
                if upstream.link == claim.link or (claim.tree and upstream.tree == claim.tree):
                    continue
                path = [upstream, *links]
                if upstream.source_id == claim.target_id:
                    is_mapped = claim.is_mapped or any(link.is_mapped for link in path)
                    if is_mapped or not any(link.is_resting for link in path):
                        return path
                else:
                    waiting.append((upstream.source_id, upstream.source_topic, path))
        return []
