"""The plan that a run would make at its first look, after the ends of both logs were compared, as lanes do.

A step of its own, for commands that only show it: a run has its lanes look for themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from isthmus.deadline import Deadline
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import SourceRoutes, TargetRoutes
from isthmus.engine.mapped.outlook import mapped_outlook
from isthmus.engine.outlook import USUAL_DOUBT, Outlook
from isthmus.engine.same.judgement import (
    Judgement,
    Sight,
    first_check,
    is_left_at,
    outlook_of,
    unanswered,
)
from isthmus.engine.same.tail import TailLook, Tails
from isthmus.engine.source import Bounds
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.admin.brokers import topic_operations
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.timestamps import offsets_by_time
from isthmus.kafka.outcomes import Outcomes
from isthmus.kafka.session import ClientSession
from isthmus.lanes.maps import lane_cursors
from isthmus.lanes.waiting import ASKED_MAX, holders
from isthmus.ledger.documents.kinds import Document
from isthmus.ledger.handover import is_in_order, marks_left, milestones_left
from isthmus.ledger.keeping import require_kept
from isthmus.memory.claims import Claims
from isthmus.memory.filtering import filters_of
from isthmus.memory.identity import checked_identity
from isthmus.memory.links import now_ms, pauses, read_ledger, recorded_topics
from isthmus.memory.livesettings import settings_of
from isthmus.memory.others import claims_around, selection
from isthmus.memory.parted import parted_topics
from isthmus.memory.switching import check_choice
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import OpenTransaction, waited_for
from isthmus.model.lane import Lane, LaneKey, LaneMark, LaneState, Milestone
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopicPartition, TargetTopic, TargetTopicPartition, TopicT
from isthmus.model.offsets import Cursor
from isthmus.model.problem import Problem
from isthmus.model.process.timings import USUAL
from isthmus.model.state import AGED_S
from isthmus.model.text.wording import format_count
from isthmus.topics.checks.validation import validate_plan
from isthmus.topics.firstlook import begun_before, first_look_of
from isthmus.topics.observation import ObservedLink, observe, seen_again
from isthmus.topics.outlooks import Seen, with_pauses, with_places, with_rights, with_seen
from isthmus.topics.plan import Action, LinkPlan, TopicPlan
from isthmus.topics.planning import at_start, find_diverged, plan_link, with_parted
from isthmus.topics.reloading import awaiting_reload

_AT_ONCE: Final = 512
_RANGES_S: Final = 2.0
_NO_LEADER: Final = Unreachable("it has no leader")


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """A link as it was observed, the plan a run would make of it, and the target's ledger."""

    observed: ObservedLink
    plan: LinkPlan
    documents: Mapping[str, Document]


async def foresee(
    link: Link,
    session: ClientSession,
    claims: Claims,
    own: Collection[Link],
    clusters: Collection[Cluster] = (),
    *,
    look_s: float = USUAL.look_s,
) -> Foreseen:
    """Observe a link, plan it, and look for `look_s` at the ends of the logs it would continue. Nothing is changed.

    `own` are the links that are planned together; topics that links of others write are claimed before, there and at
    all `clusters` from which topics may come.

    :raises PlanRefused: The link was made for another source cluster, a distributor for another target or level, a
        newer Isthmus wrote its ledger, or the ledger's topic does not keep its records.
    :raises ClusterError: A cluster as a whole did not answer.
    """
    source, target = session.client(link.source), session.client(link.target)
    for heard in await claims_around(source, target, map(session.client, clusters), own, selection(own)):
        claims.hear(heard)
    await require_kept(target)
    observed = await observe(link, source, target)
    ledger = await read_ledger(target)
    documents = ledger.documents()
    is_run = ledger.of(link.name).controller_state(now_ms()).runs
    awaiting = awaiting_reload(link, documents) if is_run else frozenset[TargetTopic]()
    filters, settings = filters_of(link.name, documents), settings_of(link, documents)
    paused, known = pauses(link.name, documents), recorded_topics(link.name, documents)
    recorded = at_start(observed, known)
    former = {name: ids for name, ids in known.items() if name not in recorded and not ids.is_forgotten}
    look = first_look_of(link.name, documents)
    look = look and look.with_waiting(begun_before(observed, former))
    recorded = with_parted(observed, recorded, parted_topics(link.name, documents))

    def make_plan(observed: ObservedLink) -> LinkPlan:
        return plan_link(observed, claims, recorded, look)

    observed = await seen_again(observed, lambda seen: find_diverged(make_plan(seen)), source, target)
    plan = make_plan(observed)
    if plan.problem is not None:
        plan = replace(plan, filters=filters, settings=settings, pauses=paused.authored)
        return Foreseen(observed=observed, plan=plan, documents=documents)
    lanes = [lane for topic in plan.topics for lane in topic.lanes if not paused.covers(lane.target_topic)]
    cursors = lane_cursors(link.name, documents)
    await check_choice(link, source)
    ids = {"source_id": observed.source_id, "target_id": observed.target_id}
    producer = await checked_identity(link, documents, session, **ids)
    scout = _scout(link, documents, cursors, source, target, producer, lanes)
    observed = with_seen(observed, await scout.look(lanes, look_s))
    new = [lane for lane in lanes if lane.is_mapped and lane.key not in cursors]
    observed = with_places(observed, cursors, await _begins(observed, source, new))
    plan = make_plan(observed)
    copied = [topic for topic in plan.topics if topic.is_copied]
    at_source, at_target = await asyncio.gather(
        topic_operations(source, [topic.source_topic for topic in copied]),
        topic_operations(target, [topic.topic for topic in copied if topic.action is not Action.CREATE]),
    )
    observed = with_pauses(with_rights(observed, plan, at_source, at_target), plan, paused)
    plan = make_plan(observed)
    plan = await validate_plan(replace(plan, filters=filters, settings=settings, pauses=paused.authored), target)
    plan = _with_reloads(await _with_transactions(plan, source), awaiting)
    return Foreseen(observed=observed, plan=plan, documents=documents)


def _with_reloads(plan: LinkPlan, awaiting: Collection[TargetTopic]) -> LinkPlan:
    """Return the plan with which topics a run still changes by another transform than the file has."""
    topics = (replace(each, awaits_reload=each.is_copied and each.topic in awaiting) for each in plan.topics)
    return replace(plan, topics=tuple(topics)) if awaiting else plan


async def _with_transactions(plan: LinkPlan, source: Client) -> LinkPlan:
    """Return the plan with a note on each partition whose end waits for an open transaction."""
    held = {
        (topic.source_topic, one.partition): one.source
        for topic in plan.topics
        for one in topic.partitions
        if one.source is not None and one.waiting_records
    }
    if not held:
        return plan
    held = dict(list(held.items())[:ASKED_MAX])
    open_there = {(each.topic, each.partition): each for each in reversed(await holders(source, held))}
    now_s = time.time()
    topics = [
        replace(topic, notes=(*topic.notes, *waiting_notes(topic, open_there, now_s)))
        if topic.waiting_records
        else topic
        for topic in plan.topics
    ]
    return replace(plan, topics=tuple(topics))


def waiting_notes(
    topic: TopicPlan, open_there: Mapping[PartitionKey, OpenTransaction], now_s: float
) -> Iterator[Problem]:
    """Yield notes on partitions whose end waits for a transaction, unless that has just begun."""
    for one in topic.partitions:
        found = open_there.get((topic.source_topic, one.partition))
        age_s = None if found is None else found.age_s(now_s)
        if one.waiting_records and (age_s is None or age_s >= AGED_S):
            count = format_count(one.waiting_records, "offset waits", "offsets wait")
            yield Problem(
                f"partition {one.partition}: {count} for {waited_for(found, age_s)}",
                "They are copied when it ends. isthmus cluster reports transactions that no coordinator will end.",
            )


def _scout(
    link: Link,
    documents: Mapping[str, Document],
    cursors: Mapping[LaneKey, Cursor],
    source: Client,
    target: Client,
    producer: ProducerIdentity | None,
    lanes: Sequence[Lane],
) -> _Scout:
    # Marks that earlier leases left of the lanes are trusted, as by the next lease.
    left = {LaneKey(mark.topic, mark.partition): mark for mark in marks_left(link.name, documents)}
    been = {milestone.key: milestone for milestone in milestones_left(link.name, documents, lanes)}
    return _Scout(source, target, producer, left, been, cursors, is_in_order=is_in_order(link.name, documents))


async def _begins(observed: ObservedLink, source: Client, lanes: Sequence[Lane]) -> dict[LaneKey, int]:
    """Return where mapped lanes will begin at their source, for those that begin at a timestamp."""
    begins: dict[LaneKey, int] = {}
    asked = {_source(lane): lane for lane in lanes if lane.start >= 0}
    if not asked:
        return begins
    # For a source that does not answer it stays unknown.
    with contextlib.suppress(ClusterError):
        found = await offsets_by_time(source, {key: lane.start for key, lane in asked.items()})
        for key, offset in found.items():
            lane = asked[key]
            log = observed.pairs[lane.target_topic].source_ranges.get(lane.partition)
            if offset >= 0 or log is not None:
                begins[lane.key] = offset if log is None or offset >= 0 else log.stable_end
    return begins


class _Scout:
    """Looks at partitions as their lanes will, a few requests per broker for all of them."""

    def __init__(
        self,
        source: Client,
        target: Client,
        producer: ProducerIdentity | None,
        left: Mapping[LaneKey, LaneMark],
        been: Mapping[LaneKey, Milestone],
        cursors: Mapping[LaneKey, Cursor],
        *,
        is_in_order: bool,
    ) -> None:
        self._source, self._target = source, target
        self._routes = SourceRoutes(source), TargetRoutes(target)
        self._tails = Tails(*self._routes, producer)
        self._left, self._been, self._is_in_order = left, been, is_in_order
        self._cursors = cursors

    async def look(self, lanes: Sequence[Lane], look_s: float) -> dict[LaneKey, Seen]:
        """Look at each lane; for those whose brokers do not answer within `look_s`, return the reason."""
        at_source, at_target = self._routes
        at_source.watch({lane.source_topic for lane in lanes})
        at_target.watch({lane.target_topic for lane in lanes})
        seen: dict[LaneKey, Seen] = {}
        waiting = lanes
        deadline = Deadline(look_s)
        for attempt in range(USUAL_DOUBT.looks):
            if attempt:
                await asyncio.sleep(USUAL_DOUBT.pause_s)
            seen.update(await self._look(waiting, deadline, _too_late(look_s)))
            waiting = [lane for lane in waiting if _is_doubtful(seen[lane.key])]
            if not waiting:
                break
        return seen

    async def _look(self, lanes: Sequence[Lane], deadline: Deadline, too_late: Unreachable) -> dict[LaneKey, Seen]:
        seen: dict[LaneKey, Seen] = {}
        for begin in range(0, len(lanes), _AT_ONCE):
            some = lanes[begin : begin + _AT_ONCE]
            try:
                async with asyncio.timeout(deadline.left_s):
                    seen.update(await self._look_at(some))
            except TimeoutError:
                unseen = _seen_without_answer(too_late, LaneState.TARGET_UNAVAILABLE)
                seen.update(dict.fromkeys((lane.key for lane in some), unseen))
        return seen

    async def _look_at(self, lanes: Sequence[Lane]) -> dict[LaneKey, Seen]:
        # The target first, so that it is never ahead of a source that a link is copying.
        targets = await _ranges(self._target, [_target(lane) for lane in lanes])
        sources = await _ranges(self._source, [_source(lane) for lane in lanes])
        await asyncio.gather(*(routes.refresh() for routes in self._routes if routes.is_stale))
        seen: dict[LaneKey, Seen] = {}
        sights: dict[LaneKey, Sight] = {}
        for lane in lanes:
            target, source = targets.values.get(_target(lane)), sources.values.get(_source(lane))
            if target is None:
                error = targets.errors.get(_target(lane), _NO_LEADER)
                seen[lane.key] = _seen_without_answer(error, LaneState.TARGET_UNAVAILABLE)
            elif source is None:
                error = sources.errors.get(_source(lane), _NO_LEADER)
                seen[lane.key] = _seen_without_answer(error, LaneState.SOURCE_UNAVAILABLE)
            elif lane.is_mapped:
                outlook = mapped_outlook(lane, self._cursors.get(lane.key), Bounds(source.start, source.stable_end))
                seen[lane.key] = Seen(outlook=outlook, source=source, target=target)
            else:
                sights[lane.key] = self._sight(lane, target, source)
        looks = [self._doubt(lane, sights[lane.key]) for lane in lanes if lane.key in sights]
        judged = await self._tails.judge(look for look in looks if look.sight.position > 0)
        for look in looks:
            lane, sight, judgement = look.lane, look.sight, Judgement()
            if lane.key in judged:
                sight, judgement = judged[lane.key]
            outlook = outlook_of(sight, judgement, continues_after_gap=lane.continues_after_gap)
            seen[lane.key] = Seen(
                outlook=outlook, source=sources.values[_source(lane)], target=targets.values[_target(lane)]
            )
        return seen

    def _doubt(self, lane: Lane, sight: Sight) -> TailLook:
        left = self._left.get(lane.key)
        check = first_check(left, sight.position, is_in_order=self._is_in_order)
        return TailLook(lane, sight, check, self._been.get(lane.key))

    def _sight(self, lane: Lane, target: LogRange, source: LogRange) -> Sight:
        been = self._left.get(lane.key) or self._been.get(lane.key)
        return Sight(
            key=lane.key,
            target=self._target.cluster,
            position=target.end,
            source=Bounds(source.start, source.stable_end, source.end),
            target_start=target.start,
            begin=lane.begin_offset,
            is_compacted=lane.is_compacted,
            is_known=is_left_at(been, target.end),
            believed_end=-1 if been is None else been.position,
        )


def _is_doubtful(seen: Seen) -> bool:
    """Whether a lane may have moved the target's log, or its source lagged, between the looks at both ends."""
    state, source, target = seen.outlook.state, seen.source, seen.target
    is_beyond = source is not None and target is not None and target.end > source.end
    may_lag = state is LaneState.FOREIGN_WRITE and is_beyond
    return may_lag or state in (LaneState.DIVERGED, LaneState.DATA_GAP) or seen.outlook.gap is not None


def _target(lane: Lane) -> TargetTopicPartition:
    return lane.target_topic, lane.partition


def _source(lane: Lane) -> SourceTopicPartition:
    return lane.source_topic, lane.partition


def _too_late(look_s: float) -> Unreachable:
    return Unreachable(
        f"looking at the ends of all logs took longer than {look_s:g} s",
        hint="Brokers that answer late are named by isthmus cluster describe; plan again when they have recovered.",
    )


def _seen_without_answer(error: ClusterError, state: LaneState) -> Seen:
    judgement = unanswered(error, state)
    return Seen(outlook=Outlook(state=judgement.state or state, problem=judgement.problem))


async def _ranges(client: Client, keys: Sequence[tuple[TopicT, int]]) -> Outcomes[tuple[TopicT, int], LogRange]:
    try:
        return await log_ranges(client, keys, timeout_s=_RANGES_S)
    except ClusterError as error:
        return Outcomes({}, dict.fromkeys(keys, error))
