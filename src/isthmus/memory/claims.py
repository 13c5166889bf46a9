"""The links that may write a target topic: one writer each, and never in a circle.

A mirror with the same offsets leaves no room for a second writer; links that map offsets share a topic among
themselves. A topic that came back to where it started would be copied for ever. Where links contradict each other the
earlier one in the configuration keeps the topic, so that adding a link never stops one that runs.

Controllers coordinate through the ledgers. A link writes that it wants a topic, then reads what others wrote, and only
then begins: of two that do so at once, the one that reads last sees both. Which of them goes on is decided by their
names, which both see alike (docs/decisions/names.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem

Selects = Callable[[TargetTopic], bool]
"""Whether the writers of a topic matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of one link to write one topic, made from one of its source. Clusters are ids. With mapped offsets
    (`is_mapped`) it leaves room for others that map theirs too.

    A link that `is_resting` has written the topic and is not run now, or is run and had the topic refused
    (`is_refused`): it keeps no other link from writing it, but it may be part of a circle. A link that only wants the
    topic so far (`is_wanted`) has written nothing. Of a link into a cluster that was not heard it is only known that it
    is declared (`is_declared`).

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
    is_refused: bool = False
    is_wanted: bool = False
    is_declared: bool = False
    tree: str = ""

    @property
    def rank(self) -> tuple[str, str, str]:
        """The order of links that want a topic at once: the first one goes on."""
        return self.link, self.source_id, self.target_id

    def leaves_room_for(self, other: Claim) -> bool:
        """Whether both may write one topic."""
        return self.is_mapped and other.is_mapped and self.tree == other.tree


class Outflow(NamedTuple):
    """A declared link that carries all topics of its namespaces (`naming`) out of a cluster, whose ledger says so."""

    link: str
    source_id: str
    target_id: str
    naming: NamespaceNaming
    is_mapped: bool = False

    def claim(self, topic: str) -> Claim | None:
        """Return its claim to a topic of its target, `None` if that is not in its namespaces."""
        source_topic = self.naming.to_source(topic)
        if source_topic is None:
            return None
        return Claim(
            link=self.link,
            source_topic=SourceTopic(source_topic),
            target_topic=TargetTopic(topic),
            source_id=self.source_id,
            target_id=self.target_id,
            is_mapped=self.is_mapped,
            is_declared=True,
        )


class ToldClaims(NamedTuple):
    """What the ledger of a cluster holds of links that others run: all that write topics which `selects` matches, and
    the declared ones that lead out of it.
    """

    cluster_id: str
    selects: Selects
    claims: tuple[Claim, ...]
    outflows: tuple[Outflow, ...] = ()


class Settled(NamedTuple):
    """Whether a link may begin with a topic: not because of `problem`, and not yet while it `waits`."""

    problem: Problem | None = None
    waits: bool = False


@dataclass(slots=True)
class Claims:
    """The claims of the links of this process that were granted so far, in the order of the configuration, and those of
    others as they were last heard.
    """

    _own: dict[tuple[str, TargetTopic], Claim] = field(default_factory=dict)
    _granted: dict[tuple[str, TargetTopic], list[Claim]] = field(default_factory=dict)
    _others: dict[tuple[str, TargetTopic], dict[str, Claim]] = field(default_factory=dict)
    _held: dict[tuple[str, TargetTopic], Claim] = field(default_factory=dict)
    _heard: set[str] = field(default_factory=set)
    _outflows: dict[str, tuple[Outflow, ...]] = field(default_factory=dict)
    _left_to: dict[tuple[str, TargetTopic], set[tuple[str, str]]] = field(default_factory=dict)
    """The links of others that ran, by name and target, when they closed a circle with a topic of ours."""

    def hear(self, heard: ToldClaims) -> None:
        """Take in what others claim now, in place of what they claimed of the same topics before."""
        self._heard.add(heard.cluster_id)
        self._outflows[heard.cluster_id] = heard.outflows
        for key in [key for key in self._others if key[0] == heard.cluster_id and heard.selects(key[1])]:
            del self._others[key]
        for claim in heard.claims:
            self._others.setdefault((claim.target_id, claim.target_topic), {})[claim.link] = claim

    def grant(self, claim: Claim) -> Problem | None:
        """Grant a claim, or return why not. A claim that was granted before is granted again, and one that is held is
        not checked against others any more.
        """
        held = self._held.get((claim.link, claim.target_topic))
        is_held = held == claim
        problem = _describe_conflict(claim, self._find_conflict(claim, among_others=not is_held))
        if not is_held or problem is not None:
            self.release(claim.link, claim.target_topic)
        else:
            self._drop(claim.link, claim.target_topic)
        if problem is None:
            self._left_to.pop((claim.link, claim.target_topic), None)
            self._own[claim.link, claim.target_topic] = claim
            self._granted.setdefault((claim.target_id, claim.target_topic), []).append(claim)
        return problem

    def is_held(self, link: str, topic: TargetTopic) -> bool:
        """Whether the link may write the topic, as far as others are concerned too."""
        return (link, topic) in self._held

    def settle(self, link: str, topic: TargetTopic, *, is_wanted: bool) -> Settled:
        """Decide whether a link that was granted a topic, has written so, and has read the others since, may begin with
        it; if so it holds it from now on. It wrote that the topic `is_wanted`, or that it was begun before.
        """
        claim = self._own[link, topic]
        conflict = self._find_conflict(claim)
        if not conflict:
            self._held[link, topic] = claim
            return Settled()
        wanted = [one for one in conflict if one.is_wanted]
        is_last = is_wanted and all(one.rank < claim.rank for one in wanted)
        return Settled(_describe_conflict(claim, conflict), waits=bool(wanted) and not is_last)

    def unseen(self, link: str, topic: TargetTopic) -> list[Claim]:
        """Return the links of others that bring a topic from clusters not heard: what is written there is unknown."""
        claim = self._own.get((link, topic))
        waiting = [] if claim is None else [(claim.source_id, claim.source_topic)]
        seen: set[tuple[str, str]] = set()
        found: list[Claim] = []
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            for upstream in self._writers(place[0], TargetTopic(place[1]), among_others=True):
                if upstream.is_resting or upstream.tree:
                    continue
                if upstream.source_id in self._heard:
                    waiting.append((upstream.source_id, upstream.source_topic))
                else:
                    found.append(upstream)
        return found

    def release(self, link: str, topic: TargetTopic) -> None:
        """Drop the claim of a link that does not want the topic any more."""
        self._held.pop((link, topic), None)
        self._drop(link, topic)

    def _drop(self, link: str, topic: TargetTopic) -> None:
        claim = self._own.pop((link, topic), None)
        if claim is not None:
            self._granted[claim.target_id, topic].remove(claim)

    def doubt(self, link: str) -> None:
        """Hold nothing of a link that has not run for a while: others may have begun with the topics it wrote."""
        self._held = {key: claim for key, claim in self._held.items() if key[0] != link}

    def keep(self, link: str, is_wanted: Callable[[Claim], bool]) -> None:
        """Release the topics of a link that are no longer wanted, whether it had begun with them or not."""
        for topic in [topic for (name, topic), claim in self._own.items() if name == link and not is_wanted(claim)]:
            self.release(link, topic)

    def release_all(self, link: str) -> None:
        """Release all topics of a link that runs no more."""
        for topic in [topic for name, topic in self._own if name == link]:
            self.release(link, topic)
        for key in [key for key in self._left_to if key[0] == link]:
            del self._left_to[key]

    def _find_conflict(self, claim: Claim, *, among_others: bool = True) -> list[Claim]:
        """Return the claim that leaves no room for this one, or those that close a circle with it, if there are any."""
        writers = self._writers(claim.target_id, claim.target_topic, among_others=among_others)
        rivals = (one for one in writers if one.link != claim.link and not one.is_resting)
        rival = next((one for one in rivals if not one.leaves_room_for(claim)), None)
        return self._find_circle(claim, among_others=among_others) if rival is None else [rival]

    def _writers(self, cluster: str, topic: TargetTopic, *, among_others: bool) -> list[Claim]:
        """Return the claims that write the topic: of links of this process, and of others and those that rest."""
        granted = self._granted.get((cluster, topic), [])
        running = {one.link for one in granted}
        others = self._others.get((cluster, topic), {}).values() if among_others else ()
        return [*granted, *(one for one in others if one.link not in running)]

    def _declared_into(self, cluster: str, topic: str) -> Iterator[Claim]:
        """Yield the claims to a topic of a cluster that was not heard, by the other ends of declared links."""
        for outflow in chain.from_iterable(self._outflows.values()):
            if outflow.target_id == cluster not in self._heard and (claim := outflow.claim(topic)) is not None:
                yield claim

    def _find_circle(self, claim: Claim, *, among_others: bool) -> list[Claim]:
        """Return the links by which the claim's source gets the topic from the claim's target, if any, under any name:
        with other names it would get a longer one in every round.

        Where all of them keep offsets and the records come back into the topic they are from, a link that rests is in
        no one's way: a mirror that is turned round finds its own records where they belong. With mapped offsets they
        would come a second time, under another name they would be copied once more.
        """
        waiting: list[tuple[str, str, list[Claim]]] = [(claim.source_id, claim.source_topic, [])]
        seen: set[tuple[str, str, bool, bool]] = set()
        while waiting:
            cluster, topic, links = waiting.pop()
            rests, is_mapped = self._rests(claim, links), any(link.is_mapped for link in links)
            # Of two ways to one place one may be in the way, and the other not.
            if (cluster, topic, rests, is_mapped) in seen:
                continue
            seen.add((cluster, topic, rests, is_mapped))
            declared = self._declared_into(cluster, topic) if among_others else ()
            for upstream in (*self._writers(cluster, TargetTopic(topic), among_others=among_others), *declared):
                is_itself = (upstream.link, upstream.target_id) == (claim.link, claim.target_id)
                if is_itself or (claim.tree and upstream.tree == claim.tree):
                    continue
                path = [upstream, *links]
                if upstream.source_id != claim.target_id:
                    waiting.append((upstream.source_id, upstream.source_topic, path))
                elif not (_is_turned_round(claim, path) and self._rests(claim, path)):
                    self._note_left_to(claim, path)
                    return path
        return []

    def _rests(self, claim: Claim, path: list[Claim]) -> bool:
        """Whether one of the links rests. A link that ran when it closed this circle keeps the topic while it is
        silent, as it comes back: else an outage would turn a mirror round, and refuse it afterwards.
        """
        left_to = self._left_to.get((claim.link, claim.target_topic), ())
        return any(one.is_resting and (one.is_refused or (one.link, one.target_id) not in left_to) for one in path)

    def _note_left_to(self, claim: Claim, path: list[Claim]) -> None:
        own = self._own.values()
        running = {(one.link, one.target_id) for one in path if not one.is_resting and one not in own}
        self._left_to.setdefault((claim.link, claim.target_topic), set()).update(running)


def _is_turned_round(claim: Claim, path: list[Claim]) -> bool:
    """Whether the records of a circle come back into the topic they are from, at their own offsets."""
    is_home = path[0].source_topic == SourceTopic(claim.target_topic)
    return is_home and not any(one.is_mapped for one in (claim, *path))


def _describe_conflict(claim: Claim, conflict: list[Claim]) -> Problem | None:
    """Return what a conflict means to an operator."""
    if not conflict:
        return None
    first, names = conflict[0], [one.link for one in conflict]
    if (first.target_id, first.target_topic) != (claim.target_id, claim.target_topic):
        resting = [one.link for one in conflict if one.is_resting]
        hint = f"Exclude the topic from one of the links: {', '.join([*names, claim.link])}."
        declared = [one.link for one in conflict if one.is_declared]
        if declared:
            hint += (
                f" Of {declared[0]} only the declaration is known here: add its target to clusters to have it asked."
            )
        if resting and _is_turned_round(claim, conflict):
            hint += (
                f" {resting[0]} is not run now, but was before: if this direction is to go on instead, run "
                f"{claim.link} again, or isthmus forget {resting[0]} --at CLUSTER."
            )
        elif resting:
            hint += (
                f" A link that is not run any more counts until it is forgotten: isthmus forget {resting[0]} --at "
                "CLUSTER."
            )
        return Problem(f"the topic would run in a circle with {', '.join(names)}", hint)
    if first.tree != claim.tree:
        tree = first.tree or claim.tree
        return Problem(
            f"link {first.link} writes this target topic already, and it is one of tree {tree}",
            f"A topic of a tree is written by its own distributors: exclude it there or in {claim.link}.",
        )
    does = "is about to write this target topic" if first.is_wanted else "writes this target topic already"
    return Problem(
        f"link {first.link} {does}",
        f"Exclude the topic from one of {first.link} and {claim.link}, or map its offsets in both "
        "(topics.offsets: mapped).",
    )
