"""The topics and lanes of a link while it runs: found, planned, created, and kept up to date."""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.admin.topics import known_absent
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Metadata, TopicMetadata
from isthmus.kafka.transactions.aborting import abort_mirrored
from isthmus.memory.claims import Claims
from isthmus.model.kafka.topic import Rebuilt, Settings, TopicIds
from isthmus.model.lane import Lane, LaneKey, LaneState
from isthmus.model.link import Link
from isthmus.model.links.deadletters import dead_letters_of
from isthmus.model.links.firstlook import FirstLook
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import NamedTopics, SourceTopic, TargetTopic
from isthmus.model.offsets import LATEST
from isthmus.model.problem import Problem, problem_of
from isthmus.model.process.timings import USUAL
from isthmus.model.selection import TopicPattern
from isthmus.topics.checks.settling import Neighbours, Settling, refuse_topic
from isthmus.topics.checks.unmatched import tell_unmatched, unmatched_topic_patterns, unmatched_topics
from isthmus.topics.checks.upstream import tell_unseen, unseen_sources
from isthmus.topics.checks.validation import validate_plan
from isthmus.topics.execution import Applied, apply
from isthmus.topics.firstlook import begun_before
from isthmus.topics.names import find_topics
from isthmus.topics.observation import ObservedLink, observe, seen_again
from isthmus.topics.plan import LinkPlan, TopicPlan
from isthmus.topics.planning import at_start, find_diverged, plan_link, with_parted
from isthmus.topics.preflight import is_compacted

_UNFINISHED_RETRY_S: Final = 5.0
_FORGOTTEN: Final = frozenset({LaneState.SOURCE_DELETED, LaneState.TOPIC_RECREATED})

Remember = Callable[[Mapping[TargetTopic, TopicIds]], Awaitable[None]]
"""Writes down which topics were paired, before the first of their lanes runs."""
Begin = Callable[[Collection[TopicPlan], Collection[TargetTopic]], Awaitable[None]]
"""Writes down where the lanes of topics begin, before they run; given also which of these topics were known before."""
Note = Callable[[FirstLook], Awaitable[None]]
"""Writes down the first look for topics, before the first lane of a topic it found runs."""

Forget = Callable[[Collection[TargetTopic]], Awaitable[None]]
"""Deletes from the ledger topics that the source has no more."""
Positions = Callable[[], Mapping[LaneKey, int]]
"""The next source offsets to copy of lanes that run, -1 while unknown."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Side:
    """The properties of a topic at one cluster in which a change shows."""

    topic_id: uuid.UUID
    partition_count: int
    error_code: int

    @classmethod
    def of(cls, topic: TopicMetadata | None) -> _Side | None:
        """Return the side, `None` where there is no such topic."""
        if topic is None or topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        return cls(topic.topic_id, len(topic.partitions), topic.error_code)


@dataclass(frozen=True, slots=True)
class _Shape:
    source: _Side | None
    target: _Side | None
    is_refused: bool = False
    letters: _Side | None = None

    def lacks_side_of(self, earlier: _Shape) -> bool:
        """Whether a topic is gone that was there earlier."""
        return any(
            now is None and before is not None
            for now, before in (
                (self.source, earlier.source),
                (self.target, earlier.target),
                (self.letters, earlier.letters),
            )
        )


_NOWHERE: Final = _Shape(None, None)


class TopicLoop:
    """The topics that one link mirrors now. `recorded` are the topic ids of earlier runs, `first_look` is their first
    look for topics. `has_claimed` is set once the link has first chosen what it writes. `namespaces` are the pairs of a
    declared link whose topics were looked for.

    Call `refresh` every few seconds: it costs a metadata request per cluster unless something has
    changed. A topic that fails keeps none of the others from running.
    """

    def __init__(
        self,
        link: Link,
        source: Client,
        target: Client,
        *,
        claims: Claims,
        recorded: Mapping[TargetTopic, TopicIds],
        remember: Remember,
        begin: Begin | None = None,
        neighbours: Neighbours | None = None,
        first_look: FirstLook | None = None,
        note: Note | None = None,
        forget: Forget | None = None,
        has_claimed: asyncio.Event,
        positions: Positions = dict,
        refused_s: float = USUAL.refused_s,
    ) -> None:
        self._link = link
        self._source, self._target = source, target
        self._claims = claims
        self._recorded = dict(recorded)
        self._remember = remember
        self._begin = begin
        self._settling = Settling(link.name, claims, neighbours)
        self._first_look, self._note, self._forget = first_look, note, forget
        self._former: dict[TargetTopic, TopicIds] = {}
        self._has_claimed = has_claimed
        self._positions = positions
        self._begun_with: dict[TargetTopic, Settings] = {}
        self._refused_s = refused_s
        self._parted: dict[TargetTopic, TopicIds] = {}
        self._filled_ends: dict[TargetTopic, tuple[uuid.UUID, dict[int, int]]] = {}
        self._begun: set[TargetTopic] = set()
        self._creates = True
        self._names = NamedTopics()
        self._topics: dict[TargetTopic, TopicPlan] = {}
        self._shapes: dict[TargetTopic, _Shape] = {}
        self._suspected: dict[TargetTopic, _Shape] = {}
        self._looked_at: dict[TargetTopic, float] = {}
        self._unmatched: tuple[TopicPattern, ...] = ()
        self._unseen: set[Problem] = set()
        self._plan: LinkPlan | None = None
        self.namespaces: tuple[NamespaceMap, ...] = ()

    def follow(self, link: Link) -> None:
        """Apply other settings: topics no longer selected are dropped, all others are planned again."""
        self._link = link
        self.namespaces = tuple(each for each in self.namespaces if each in link.namespaces)
        for name, topic in list(self._topics.items()):
            if link.topics.target_of(topic.source_topic) != name:
                del self._topics[name]
        self._claims.keep(link.name, lambda each: link.topics.target_of(each.source_topic) == each.target_topic)
        kept = {name: own for name, own in self._names.sources.items() if name in self._topics}
        self._names = NamedTopics(sources=kept)
        self._shapes.clear()
        self._suspected.clear()
        self._unmatched = ()

    def forgotten(self, name: TargetTopic) -> None:
        """Drop a topic that the source no longer has, or has created again: a new one begins from the start unless the
        target's is in its way. Keep other topics in mind.
        """
        if name in self._topics and self._topics[name].state in _FORGOTTEN:
            ids = self._recorded.pop(name, None)
            if ids is not None and not ids.is_mapped:
                self._recorded[name] = replace(ids, is_forgotten=True)
            for known in (self._topics, self._shapes, self._looked_at, self._suspected):
                known.pop(name, None)
            sources = {topic: own for topic, own in self._names.sources.items() if topic != name}
            self._names = NamedTopics(sources=sources, refused=self._names.refused)

    def recall(self, recorded: Mapping[TargetTopic, TopicIds]) -> None:
        """Take over what others have `recorded` of topics that do not run: a follower that became a leader is no longer
        recorded, and is written down again when it is attached again.
        """
        running = {name: ids for name, ids in self._recorded.items() if name in self._topics}
        self._recorded = {name: ids for name, ids in recorded.items() if name not in self._topics} | running
        self._begun &= self._topics.keys()

    def accept(self, rebuilt: Mapping[TargetTopic, Rebuilt], parted: Mapping[TargetTopic, TopicIds]) -> None:
        """Begin again with topics that an operator has deleted and created again on purpose: all others are stopped for
        that. Continue with mapped offsets in those that are `parted`.
        """
        for name in parted.keys() | self._parted.keys():
            if parted.get(name) != self._parted.get(name):
                self._shapes.pop(name, None)
        self._parted = dict(parted)
        for name, ids in rebuilt.items():
            recorded = self._recorded.get(name)
            if recorded is not None and recorded.target == ids.former:
                self._former[name] = self._recorded.pop(name)
                self._begun_with[name] = ids.settles
                self._shapes.pop(name, None)

    @property
    def plan(self) -> LinkPlan | None:
        """The plan as it is being carried out, `None` before the first `refresh`."""
        if self._plan is None:
            return None
        return replace(self._plan, topics=tuple(self._topics[name] for name in sorted(self._topics)))

    def plan_with(self, kept: Mapping[TargetTopic, Problem]) -> LinkPlan | None:
        """Return the plan, with the reasons why these topics are not deleted at the target."""
        plan = self.plan
        if plan is None or not kept:
            return plan
        return replace(plan, topics=tuple(replace(each, kept=kept.get(each.topic)) for each in plan.topics))

    @property
    def looked_s(self) -> dict[TargetTopic, float]:
        """How long ago each topic was looked at on both sides (s)."""
        now = time.monotonic()
        return {name: now - at for name, at in self._looked_at.items()}

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes that are to run now."""
        return tuple(lane for name in sorted(self._topics) for lane in self._topics[name].lanes)

    async def refresh(self, *, is_paused: bool = False) -> None:
        """Look for changes, and create what is missing; while `is_paused`, continue with what there is.

        :raises ClusterError: A cluster as a whole did not answer; everything stays as it was.
        """
        if is_paused and self._plan is not None:
            return
        self._creates = not is_paused
        shapes, before = await self._look(), dict(self._shapes)
        due = self._due(shapes)
        if due or self._plan is None:
            try:
                await self._renew(due)
            except BaseException:
                # The changes are looked into again, and so are those that came meanwhile.
                for name in self._shapes.keys() & due:
                    if name in before:
                        self._shapes[name] = before[name]
                    else:
                        del self._shapes[name]
                raise
        await self._note_look([name for name, shape in shapes.items() if shape.source is not None])
        self.namespaces = self._link.namespaces

    async def settle(self) -> None:
        """Set the final configuration of targets whose prefix is filled by now, without waiting.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        filling = [name for name, topic in self._topics.items() if topic.is_filling]
        if filling and self._creates:
            await self._renew(filling)

    async def _look(self) -> dict[TargetTopic, _Shape]:
        found = await find_topics(self._source, self._link.topics)
        await self._tell_unmatched(found.metadata)
        # A topic that is gone at the source keeps its name, so that its lane is reported.
        kept = {**self._selected_before(), **self._names.sources, **found.names.sources}
        self._names = NamedTopics(sources=kept, refused=found.names.refused)
        refused = found.names.refused
        names = sorted({*kept, *self._topics})
        asked = [name for name in names if name not in refused]
        has_letters = (name for name in asked if name in kept and self._link.has_dead_letters(kept[name]))
        letters = {name: dead_letters_of(self._link.name, name) for name in has_letters}
        at_target = (await self._target.metadata([*asked, *letters.values()])).topics if asked else {}
        # A topic that was forgotten while the target was asked is not looked for any more.
        return {
            name: _Shape(
                _Side.of(found.at_source(name)),
                _Side.of(at_target.get(name)),
                name in refused,
                _Side.of(at_target.get(letters.get(name, ""))),
            )
            for name in names
            if name in self._names.sources or name in self._topics
        }

    @property
    def _known(self) -> frozenset[TargetTopic]:
        """The topics that were mirrored before, and were not to be forgotten."""
        return frozenset(name for name, ids in self._recorded.items() if not ids.is_forgotten)

    def _selected_before(self) -> dict[TargetTopic, SourceTopic]:
        """Return selected topics that were mirrored: a look at the source alone does not show that a topic is gone."""
        return {
            name: ids.source_topic
            for name, ids in self._recorded.items()
            if not ids.is_forgotten and self._link.topics.target_of(ids.source_topic) == name
        }

    async def _let_go(self, topics: Iterable[TopicPlan], before: Mapping[TargetTopic, TopicPlan]) -> None:
        """Warn once of topics that the source has no more, and forget them if the link says so: those that it selects
        by a pattern, and that every broker of the source reports not to have.
        """
        gone = [topic for topic in topics if topic.state is LaneState.SOURCE_DELETED]
        for topic in gone:
            known = before.get(topic.topic)
            if known is None or known.state is not LaneState.SOURCE_DELETED:
                _log.warning("link %s: %s", self._link.name, topic.notes[0].message)
        if self._link.on_source_deleted != "forget" or self._forget is None:
            return
        asked = [topic for topic in gone if topic.source_topic not in self._link.topics.literals]
        absent = await known_absent(self._source, [topic.source_topic for topic in asked])
        if names := [topic.topic for topic in asked if topic.source_topic in absent]:
            # Their lanes have ended, and no other task continues the transactions they left open.
            for each in await abort_mirrored(self._target, names):
                _log.warning("link %s: aborted the transaction of %s in %s", self._link.name, each.owner, each.topic)
            await self._forget(names)
            for name in names:
                self.forgotten(name)

    async def _tell_unmatched(self, found: Metadata) -> None:
        """Warn once of each pattern that matches nothing. Its topics may come later: it is no failure."""
        unmatched = unmatched_topic_patterns(self._link, found)
        if set(unmatched) - set(self._unmatched):
            tell_unmatched(self._link, await unmatched_topics(self._link, found, self._source))
        self._unmatched = unmatched

    def _due(self, shapes: Mapping[TargetTopic, _Shape]) -> list[TargetTopic]:
        """Return the topics to be looked at closely."""
        now = time.monotonic()
        due: list[TargetTopic] = []
        for name, shape in shapes.items():
            before = self._shapes.get(name, _NOWHERE)
            if shape == before:
                self._suspected.pop(name, None)
            if name not in self._topics or (shape != before and self._confirm(name, shape)):
                self._shapes[name] = shape
                due.append(name)
            elif now - self._looked_at.get(name, now) > _retry_s(self._topics[name], self._refused_s):
                due.append(name)
        return due

    def _confirm(self, name: TargetTopic, shape: _Shape) -> bool:
        """Note a change and tell whether it was seen twice where a topic went: a new broker may not know it yet."""
        if not shape.lacks_side_of(self._shapes.get(name, _NOWHERE)):
            return True
        if self._suspected.pop(name, None) == shape:
            return True
        self._suspected[name] = shape
        return False

    async def _renew(self, due: Collection[TargetTopic]) -> None:
        if self._plan is not None:
            # When a link begins this was just done.
            await self._settling.hear({name: self._names.sources[name] for name in due})
        plan = await self._settling.settle(await self._plan_topics(due))
        unseen = set(unseen_sources(self._link, plan.topics, self._claims)) - self._unseen
        tell_unseen(self._link, unseen)
        self._unseen |= unseen
        applied = await apply(plan, self._target) if self._creates else Applied()
        topics = {topic.topic: topic for topic in plan.topics}
        if applied.changed:
            created = {name: topics[name] for name in applied.changed if topics[name].creation is not None}
            self._begun_with.update((name, tuple(topic.final.items())) for name, topic in created.items())
            again = await self._plan_topics(applied.changed)
            topics.update((topic.topic, topic) for topic in again.topics)
            # Changes made by this loop itself need no closer look.
            shapes = await self._look()
            self._shapes.update((name, shapes[name]) for name in applied.changed)
        for name, error in applied.errors.items():
            topics[name] = _with_error(topics[name], error)
        for name in due:
            self._looked_at[name] = time.monotonic()
        await self._write_down(topics.values())
        # A topic that was let go of, or forgotten, meanwhile does not come back.
        topics = {
            name: each
            for name, each in topics.items()
            if name in self._names.sources
            and (name in self._names.refused or self._link.topics.target_of(each.source_topic) == name)
        }
        before = dict(self._topics)
        self._topics.update(topics)
        await self._let_go(topics.values(), before)
        for name, topic in topics.items():
            if name in self._topics and not _is_made_of(topic, self._shapes.get(name, _NOWHERE).source):
                del self._shapes[name]
        self._plan = plan if self._plan is None else self._plan

    async def _plan_topics(self, topics: Collection[TargetTopic]) -> LinkPlan:
        observed = await observe(self._link, self._source, self._target, names=self._names.only(topics))
        observed = self._with_filling(observed)
        first = observed.pairs.keys() - self._begun
        counts = at_start(observed, self._recorded)
        for name in first & self._recorded.keys():
            if name not in counts:
                ids = self._recorded.pop(name)
                if not ids.is_forgotten:
                    self._former[name] = ids
        self._begun |= first
        if self._first_look is not None:
            self._first_look = self._first_look.with_waiting(begun_before(observed, self._former))
        recorded = with_parted(observed, self._recorded, self._parted)

        def make_plan(observed: ObservedLink) -> LinkPlan:
            return plan_link(observed, self._claims, recorded, self._first_look)

        observed = await seen_again(observed, lambda seen: find_diverged(make_plan(seen)), self._source, self._target)
        plan = make_plan(observed)
        if self._creates:
            plan = await validate_plan(plan, self._target)
        # Links choose their topics one after the other, and create them at the same time.
        self._has_claimed.set()
        return plan

    def _with_filling(self, observed: ObservedLink) -> ObservedLink:
        """Add where compacted sources ended when they were first seen so: later records are written under that policy,
        and a source that is written all the time would never be caught up with. Records that a source has lost since do
        not count.
        """
        pairs, positions = dict(observed.pairs), self._positions()
        for name, pair in observed.pairs.items():
            pair = replace(
                pair,
                settles=self._begun_with.get(name, ()),
                positions={key.partition: position for key, position in positions.items() if key.topic == name},
            )
            pairs[name] = pair
            known = self._filled_ends.get(name)
            if not is_compacted(pair.source):
                self._filled_ends.pop(name, None)
                continue
            if known is None or known[0] != pair.source.topic_id:
                known = self._filled_ends[name] = (pair.source.topic_id, {})
            for partition, log in pair.source_ranges.items():
                known[1][partition] = min(known[1].get(partition, log.end), log.end)
            pairs[name] = replace(pair, filled_ends=dict(known[1]))
        return replace(observed, pairs=pairs)

    async def _write_down(self, topics: Collection[TopicPlan]) -> None:
        """Write down which topics are paired, before anything is copied."""
        began = {
            topic.topic: TopicIds(
                source_topic=topic.source_topic,
                source=topic.lanes[0].source_topic_id,
                target=topic.lanes[0].target_topic_id,
                is_mapped=topic.lanes[0].is_mapped,
                left=topic.left,
                first_partitions=topic.first_partitions,
                settles=tuple(sorted(topic.final.items())),
            )
            for topic in topics
            if topic.lanes
        }
        if self._begin is not None:
            # First: a topic that is recorded without it was begun by a release that did not write it down.
            await self._begin(topics, self._known)
        new = {name: ids for name, ids in began.items() if self._recorded.get(name) != ids}
        if new:
            await self._remember(new)
            self._recorded.update(new)

    async def _note_look(self, there: Collection[TargetTopic]) -> None:
        """Write down the first look, if later topics begin elsewhere. Topics that were `there` and have not begun yet
        continue to wait.
        """
        topics, look = self._link.topics, self._first_look
        if topics.start != LATEST or self._note is None:
            return
        known = self._known
        waiting = (self._names.sources[name] for name in there if name not in known)
        found = FirstLook.of(topics, (each for each in waiting if look is None or not look.is_later(each, topics)))
        if found != look:
            await self._note(found)
            self._first_look = found


def _is_made_of(topic: TopicPlan, seen: _Side | None) -> bool:
    """Whether a plan was made of the source as it was seen before: the broker that was asked for more may not know a
    new partition yet, and no change would show from then on.
    """
    if seen is None or topic.reasons:
        return True
    return topic.partition_count == seen.partition_count and {lane.source_topic_id for lane in topic.lanes} <= {
        seen.topic_id
    }


def _retry_s(topic: TopicPlan, refused_s: float) -> float:
    """Return for how long a topic without changes is left alone."""
    if topic.state is LaneState.SOURCE_DELETED or topic.reasons or any(p.refusal is not None for p in topic.partitions):
        return refused_s
    is_finished = len(topic.lanes) == topic.partition_count and not topic.is_filling
    return math.inf if is_finished else _UNFINISHED_RETRY_S


def _with_error(topic: TopicPlan, error: ClusterError) -> TopicPlan:
    """Return a topic that could not be changed as planned; partitions that are there continue."""
    problem = problem_of(error)
    if topic.lanes:
        return replace(topic, notes=(*topic.notes, problem))
    return refuse_topic(
        topic, problem, LaneState.NOT_AUTHORIZED if isinstance(error, NotAuthorized) else LaneState.REFUSED
    )
