"""The status of links: ends and lags by the logs, states by the ledger.

What cannot be read now is shown as it was last seen, with its age: by an earlier look, or by the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, NamedTuple, Self

from isthmus.access.readers import unread_still
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.topics import selected_topics
from isthmus.kafka.client import Client
from isthmus.kafka.log.ages import record_times
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.metadata import NO_TOPIC_ID, TopicMetadata
from isthmus.kafka.session import ClientSession
from isthmus.lanes.maps import lane_cursors
from isthmus.lanes.waiting import ASKED_MAX, holders
from isthmus.ledger.documents.kinds import EndedPartition, TopicDocument
from isthmus.local.host import liveness_of
from isthmus.memory.closed import find_reserved
from isthmus.memory.filtering import apply_overrides
from isthmus.memory.links import LedgerMemory, LinkMemory, ledger_within, now_ms, read_ledger
from isthmus.memory.parted import going_on
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import AbortedPolicy, OpenTransaction
from isthmus.model.lane import Gap, LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.links.pauses import NO_PAUSES, Pauses
from isthmus.model.links.progress import ControllerProgress, LinkProgress, PartitionProgress, TopicProgress, topic_of
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TopicT
from isthmus.model.offsets import Cursor, OffsetPolicy
from isthmus.model.problem import Problem, problem_of
from isthmus.model.process.whereabouts import Liveness
from isthmus.model.state import LOST, UNHEARD, ControllerState, LaneEvidence, LinkEvidence, lane_state, link_state
from isthmus.namespaces.reservations import ReservationsLoop
from isthmus.status.silence import explain_silence, lost_lanes
from isthmus.status.tasks import tasks_of
from isthmus.synchronous.synchronous import standing
from isthmus.topics.names import named_topics
from isthmus.topics.observation import find_treatment
from isthmus.topics.reloading import awaiting_reload

PATIENCE_S: Final = 20.0
"""The longest time for one step of a look: longer than its brokers are tried for one after the other."""
_RANGES_S: Final = 3.0
_AGED_MAX: Final = 200
"""The number of lagging partitions for which the age of the oldest record to copy is looked up."""
_MS_PER_S: Final = 1000
_NOWHERE: Final = Cursor(-1, 0, 0)
_NO_SUCH_TOPIC: Final = Problem("the source has no such topic", "Nothing more is copied of it.")


class _End(NamedTuple):
    """An end of a log (-1 while unknown) and since when it may be old, on the monotonic clock."""

    offset: int
    seen_at: float


class _Ends(NamedTuple):
    """Both ends of a lane."""

    source: _End
    target: _End


_UNSEEN: Final = _Ends(_End(-1, 0.0), _End(-1, 0.0))


@dataclass(slots=True)
class _Side(Generic[TopicT]):
    """One cluster's answers: the topics it has, and the logs of their partitions."""

    problem: Problem | None = None
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    ranges: Mapping[tuple[TopicT, int], LogRange] = field(default_factory=dict)
    at: float = 0.0
    cluster_id: str | None = None

    @property
    def is_away(self) -> bool:
        return self.problem is not None

    def find(self, topic: TopicT) -> TopicMetadata | None:
        """Return the topic, if it is there as far as the cluster answered."""
        found = self.topics.get(topic)
        return None if found is None or found.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION else found

    def lacks(self, key: tuple[TopicT, int]) -> bool:
        """Whether the cluster said that the partition is not there. A broker may also have said that it cannot tell."""
        found = self.topics.get(key[0])
        if found is None or found.error_code not in (codes.NONE, codes.UNKNOWN_TOPIC_OR_PARTITION):
            return False
        return not self.has_partition(key)

    def has_partition(self, key: tuple[TopicT, int]) -> bool:
        """Whether the partition is there, as far as the cluster answered."""
        found = self.find(key[0])
        return found is not None and any(p.partition == key[1] for p in found.partitions)


@contextlib.asynccontextmanager
async def _asking(side: _Side[Any], client: Client, patience_s: float) -> AsyncIterator[None]:
    """Mark a cluster as away that does not answer, or not within `patience_s`. A single request may be waited for as
    long as a client quota holds its broker back, and a look makes many.
    """
    alias, began = client.cluster.alias, time.monotonic()
    try:
        async with asyncio.timeout(patience_s):
            yield
    except ClusterError as error:
        side.problem = problem_of(error)
    except TimeoutError:
        why = "a client quota holds its answers back" if client.muted_until > began else "its brokers are slow, or hang"
        hint = "`isthmus doctor` shows which quotas count, and which brokers answer."
        side.problem = problem_of(
            Unreachable(f"{alias} did not answer within {patience_s:g} s: {why}", cluster=alias, hint=hint)
        )


@dataclass(slots=True)
class _Reading:
    """One look at a link: the answers of both clusters and of the ledger. Nothing is raised.

    `ledger_problem` is why its ledger could not be read, `patience_s` how long a step of the look may take.
    """

    link: Link
    known: LinkMemory
    ledger_problem: Problem | None = None
    patience_s: float = PATIENCE_S
    source: _Side[SourceTopic] = field(default_factory=_Side)
    target: _Side[TargetTopic] = field(default_factory=_Side)
    sources: Mapping[TargetTopic, SourceTopic] = field(default_factory=dict)
    recorded: Mapping[TargetTopic, TopicDocument] = field(default_factory=dict)
    awaiting: frozenset[TargetTopic] = frozenset()
    lost: frozenset[LaneKey] = frozenset()
    liveness: Liveness = Liveness.UNKNOWN
    ended: Mapping[LaneKey, EndedPartition] = field(default_factory=dict)
    gaps: Mapping[LaneKey, tuple[Gap, ...]] = field(default_factory=dict)
    paused: Pauses = NO_PAUSES
    cursors: Mapping[LaneKey, Cursor] = field(default_factory=dict)
    controller: ControllerState = ControllerState.UNKNOWN
    times: Mapping[SourceTopicPartition, int] = field(default_factory=dict)
    waiting_times: Mapping[SourceTopicPartition, int] = field(default_factory=dict)
    moving: frozenset[SourceTopicPartition] = frozenset()
    transactions: tuple[OpenTransaction, ...] = ()

    async def take(self, source: Client, target: Client, before: _Reading | None) -> None:
        """Look at both clusters; the failure of one does not hide the other."""
        self._recall()
        await self._select(source)
        self._name()
        await self._find(target)
        lanes = [lane for found in self.partitions().values() for lane in found]
        # The target first, so that it is never ahead of the source.
        await self._measure(self.target, target, [lane for lane in lanes if self.target.has_partition(lane)])
        keys = [self.at_source(lane) for lane in lanes]
        await self._measure(self.source, source, [key for key in keys if self.source.has_partition(key)])
        await self._doubt(target)
        if not self.source.is_away:
            async with _asking(self.source, source, self.patience_s):
                self.times = await record_times(source, dict(list(self._oldest().items())[:_AGED_MAX]))
                await self._hold(source, before)

    async def _hold(self, source: Client, before: _Reading | None) -> None:
        """Look how long partitions have waited for open transactions, and for which: a transaction that holds back an
        end which has moved since the look before has not done so for long.
        """
        held = {key: log for key, log in self.source.ranges.items() if log.stable_end < log.end}
        seen = {} if before is None else before.source.ranges
        self.moving = frozenset(
            key for key, log in held.items() if key in seen and seen[key].stable_end != log.stable_end
        )
        # If there are too many to ask about, those that were held back for longer come first.
        asked = sorted(held, key=lambda key: key in self.moving)[:ASKED_MAX]
        if asked:
            self.waiting_times = await record_times(source, {key: held[key].stable_end for key in asked})
        still = {key: held[key] for key in asked if key not in self.moving}
        if still:
            self.transactions = await holders(source, still)

    def at_source(self, lane: LaneKey) -> SourceTopicPartition:
        """Return the partition at the source that is copied into one at the target."""
        return self.sources[lane.topic], lane.partition

    def is_mapped(self, topic: TargetTopic) -> bool:
        """Whether records of the topic have other offsets at the target."""
        known = self.recorded.get(topic)
        if known is not None and (known.is_mapped or known.target_topic_id != NO_TOPIC_ID):
            return known.is_mapped
        source = self.sources.get(topic)
        is_changed = source is not None and self.link.transform_of(source) is not None
        return is_changed or self.link.topics.offsets is OffsetPolicy.MAPPED

    def copied_end(self, lane: LaneKey) -> int:
        """Return the source offset up to which everything was copied, -1 while that is unknown."""
        if self.is_mapped(lane.topic):
            report = self.known.last_known.get(lane)
            return self.cursors.get(lane, _NOWHERE).find_copied_end(-1 if report is None else report.position)
        return self.target.ranges[lane].end if lane in self.target.ranges else -1

    def _name(self) -> None:
        """Find out which topics the link selects: of the source's now, or of those it had when it last answered."""
        topics = self.link.topics
        known = {name: d.source_topic for name, d in self.recorded.items() if topics.target_of(d.source_topic) == name}
        found = named_topics(topics, [*self.source.topics, *topics.literals])
        self.sources = dict(sorted({**known, **found.sources}.items()))

    def partitions(self) -> dict[TargetTopic, list[LaneKey]]:
        """Return the partitions of these topics: the source's, or else those that the target or the ledger knows."""
        remembered: dict[TargetTopic, set[int]] = {}
        for key in self.known.last_known:
            remembered.setdefault(key.topic, set()).add(key.partition)
        found = {}
        for name, source in self.sources.items():
            described = self.source.find(source) or self.target.find(name)
            numbers = {p.partition for p in described.partitions} if described else set()
            found[name] = [LaneKey(name, number) for number in sorted(numbers or remembered.get(name, set()))]
        return found

    def _recall(self) -> None:
        if self.ledger_problem is not None:
            self.target.problem = self.ledger_problem
            return
        # Each of these goes through all documents: once a look, not once a partition.
        self.recorded, self.gaps, self.paused = self.known.topics, self.known.gaps, self.known.paused
        self.ended = {LaneKey(name, each.partition): each for name, d in self.recorded.items() for each in d.ended}
        self.cursors = lane_cursors(self.link.name, self.known.documents)
        self.controller = self.known.controller_state(now_ms())
        document = self.known.controller
        if document is not None:
            self.liveness = liveness_of(document.whereabouts)
        if self.liveness is Liveness.DEAD:
            # Its process ended on this very host: there is no need to wait for its silence.
            self.controller = ControllerState.SILENT
        if self.controller.runs:
            self.awaiting = awaiting_reload(self.link, self.known.documents)
            self.lost = lost_lanes(self.link.name, self.known.documents)

    async def _doubt(self, target: Client) -> None:
        """Take back that a controller is silent, where the target may not have taken its word."""
        silent_s = self.known.heard_age_s(now_ms())
        if self.controller is not ControllerState.SILENT or self.liveness is Liveness.DEAD or silent_s is None:
            return
        problem = await explain_silence(target, silent_s)
        if problem is not None:
            self.controller, self.target.problem = ControllerState.UNKNOWN, self.target.problem or problem

    async def _select(self, source: Client) -> None:
        async with _asking(self.source, source, self.patience_s):
            self.source.topics = (await selected_topics(source, self.link.topics)).topics

    async def _find(self, target: Client) -> None:
        names = list(self.sources)
        if (names or self.link.namespaces) and not self.target.is_away:
            async with _asking(self.target, target, self.patience_s):
                found = await target.metadata(names)
                self.target.topics, self.target.cluster_id = found.topics, found.cluster_id

    async def _measure(self, side: _Side[TopicT], client: Client, partitions: Collection[tuple[TopicT, int]]) -> None:
        side.at = time.monotonic()
        if side.is_away or not partitions:
            return
        async with _asking(side, client, self.patience_s):
            side.ranges = (await log_ranges(client, partitions, timeout_s=_RANGES_S)).values

    def _oldest(self) -> dict[SourceTopicPartition, int]:
        """Return the first offsets still to copy, where there are any."""
        begins = {}
        for lanes in self.partitions().values():
            for lane in lanes:
                log, copied_end = self.source.ranges.get(self.at_source(lane)), self.copied_end(lane)
                # Where the target does not answer, the first offset to copy is unknown.
                is_known = copied_end >= 0 or not (self.target.is_away or self.target.has_partition(lane))
                if log is not None and is_known:
                    begins[self.at_source(lane)] = max(copied_end, log.start)
        return {key: at for key, at in begins.items() if at < self.source.ranges[key].stable_end}


class StatusReader:
    """Reads how links stand, again and again; from the second time on with rates, and with earlier answers.

    Without a session it has clients of its own: then use it with `async with`. A step of a look takes no longer than
    `patience_s`; by default the ledger is read for as long as that takes, and the other steps have `PATIENCE_S`.
    """

    def __init__(
        self, links: tuple[Link, ...], session: ClientSession | None = None, *, patience_s: float | None = None
    ) -> None:
        self._links = links
        self._ledger_s, self._patience_s = patience_s, PATIENCE_S if patience_s is None else patience_s
        self._is_session_ours = session is None
        self._session = session or ClientSession()
        self._before: dict[str, _Reading] = {}
        self._seen: dict[str, dict[LaneKey, _Ends]] = {link.name: {} for link in links}
        self._aborted: dict[str, AbortedPolicy] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_session_ours:
            await self._session.aclose()

    async def read(self) -> tuple[LinkProgress, ...]:
        """Read all links; a cluster that does not answer makes its links UNAVAILABLE."""
        ledgers = {link.target.alias: self._session.client(link.target) for link in self._links}
        reading = (_ledger(client, self._ledger_s) for client in ledgers.values())
        found = dict(zip(ledgers, await asyncio.gather(*reading), strict=True))
        return tuple(await asyncio.gather(*(self._read(link, found[link.target.alias]) for link in self._links)))

    async def _read(self, link: Link, ledger: LedgerMemory | Problem) -> LinkProgress:
        ledger_problem = ledger if isinstance(ledger, Problem) else None
        known = LinkMemory(link.name) if isinstance(ledger, Problem) else ledger.of(link.name)
        link = apply_overrides(link, known.documents)
        reading = _Reading(link, known, ledger_problem, self._patience_s)
        target = self._session.client(link.target)
        await reading.take(self._session.client(link.source), target, self._before.get(link.name))
        if link.name not in self._aborted and not reading.target.is_away:
            with contextlib.suppress(ClusterError, TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    self._aborted[link.name] = (await find_treatment(link, target)).policy
        before, seen = self._before.get(link.name), self._seen[link.name]
        topics, parted = [], going_on(link.name, known.documents)
        for name, keys in reading.partitions().items():
            seen.update((key, _ends(reading, key, seen.get(key))) for key in keys)
            partitions = [_partition(reading, before, key, seen[key]) for key in keys]
            topics.append(replace(_topic(reading, name, partitions), parted=parted.get(name)))
        self._before[link.name] = reading
        moment_ms, problem = now_ms(), reading.source.problem or reading.target.problem
        found = LinkProgress(
            link=link.name,
            source=link.source.alias,
            target=link.target.alias,
            state=link_state(
                LinkEvidence(
                    controller=reading.controller,
                    is_away=problem is not None,
                    is_paused=reading.paused.is_whole,
                    # Only its own process knows whether its lanes were heard: here a controller that lives is enough.
                    has_begun=True,
                    is_impaired=any(topic.is_unfinished for topic in topics),
                )
            ),
            controller=_controller(reading, moment_ms),
            topics=tuple(topics),
            groups=reading.known.groups(moment_ms),
            loops=tasks_of(link, reading.known.loops(moment_ms), controller=reading.controller, paused=reading.paused),
            leases=reading.known.leases(moment_ms),
            namespaces=link.namespaces,
            reserved={} if isinstance(ledger, Problem) else find_reserved(link, ledger, reading.target.cluster_id),
            pauses=reading.paused.authored,
            aborted=self._aborted.get(link.name),
            transactions=reading.transactions,
            problem=problem,
        )
        if not isinstance(ledger, Problem) and not any(map(_takes_rules_back, found.loops)):
            found = replace(found, unread=unread_still(ledger, reading.target.cluster_id, link.name))
        if not link.is_synchronous:
            return found
        memory = None if isinstance(ledger, Problem) else ledger
        # A look that has waited for the source in vain does not do it twice.
        source = None if reading.source.is_away else self._session.client(link.source)
        return replace(found, sync=await standing(link, source, found, memory))


def _takes_rules_back(loop: LoopProgress) -> bool:
    """Whether a controller takes back rules against readers, or reports why it cannot."""
    return loop.loop == ReservationsLoop.name and loop.state in (LoopState.ACTIVE, LoopState.IN_ERROR)


def _controller(reading: _Reading, moment_ms: int) -> ControllerProgress:
    age_s, document = reading.known.heard_age_s(moment_ms), reading.known.controller
    if document is None:
        return ControllerProgress(state=reading.controller, age_s=age_s)
    return ControllerProgress(
        state=reading.controller,
        age_s=age_s,
        host=document.host,
        pid=document.pid,
        started_ms=document.started_ms,
        version=document.version,
        described=document.described,
        liveness=reading.liveness,
    )


def _topic(reading: _Reading, name: TargetTopic, partitions: list[PartitionProgress]) -> TopicProgress:
    source = reading.sources[name]
    topic = replace(topic_of(name, source, partitions, reading.link), awaits_reload=name in reading.awaiting)
    document = reading.recorded.get(name)
    ended = None if document is None or not LaneState(document.state).is_terminal else document
    if ended is not None:
        age_s = reading.known.document_age_s(ended, now_ms())
        return replace(topic, state=LaneState(ended.state), problem=ended.problem, state_age_s=age_s)
    if not partitions:
        topic = replace(topic, state=lane_state(_evidence(reading, name, None)))
    is_missing = not reading.source.is_away and reading.source.find(source) is None
    if topic.state is LaneState.SOURCE_DELETED:
        return replace(topic, problem=None if document is None else document.problem)
    return replace(topic, problem=_NO_SUCH_TOPIC) if is_missing else topic


def _partition(reading: _Reading, before: _Reading | None, lane: LaneKey, ends: _Ends) -> PartitionProgress:
    known = reading.known
    now, moment_ms = time.monotonic(), now_ms()
    report: LaneReport | EndedPartition | None = known.reports.get(lane)
    reported_age_s = known.report_age_s(lane, moment_ms)
    if lane in reading.ended:
        report, reported_age_s = reading.ended[lane], known.document_age_s(reading.recorded[lane.topic], moment_ms)
    evidence = replace(
        _evidence(reading, lane.topic, report, reported_age_s or 0.0),
        has_lost_task=lane in reading.lost or known.has_lost_task(lane, moment_ms),
    )
    state = lane_state(evidence)
    is_reported = report is not None and state == report.state
    at_source = reading.at_source(lane)
    source = reading.source.ranges.get(at_source)
    cursor, is_mapped = reading.cursors.get(lane, _NOWHERE), reading.is_mapped(lane.topic)
    is_wrong = state.is_wrong and not is_mapped
    return PartitionProgress(
        topic=lane.topic,
        partition=lane.partition,
        state=state,
        source_end=ends.source.offset,
        target_end=ends.target.offset,
        source_start=0 if source is None else source.start,
        copied_end=reading.copied_end(lane) if is_mapped else None,
        proven_end=_proven_end(known.last_known.get(lane)) if is_wrong else None,
        copied_records=cursor.copied_records if is_mapped and reading.ledger_problem is None else None,
        flags_replaced=cursor.flags_replaced,
        skipped=cursor.skipped,
        filtered=cursor.filtered,
        lag_s=None if is_wrong else _lag_s(source, reading.copied_end(lane), reading.times.get(at_source), moment_ms),
        waiting_records=_waiting(source),
        waiting_s=_waiting_s(reading, at_source, moment_ms),
        is_waiting_anew=at_source in reading.moving,
        records_per_s=_rate(reading, before, lane),
        problem=_problem(evidence, state, report),
        gaps=reading.gaps.get(lane, ()),
        state_age_s=(reported_age_s or 0.0) if is_reported else 0.0,
        source_age_s=max(now - ends.source.seen_at, 0.0),
        target_age_s=max(now - ends.target.seen_at, 0.0),
    )


def _proven_end(report: LaneReport | None) -> int:
    return -1 if report is None else report.position


def _problem(known: LaneEvidence, state: LaneState, report: LaneReport | EndedPartition | None) -> Problem | None:
    if report is not None and state == report.state:
        return report.problem
    if state is not LaneState.STARTING:
        return None
    return LOST if known.has_lost_task else UNHEARD if known.is_unheard else None


def _evidence(
    reading: _Reading, topic: TargetTopic, report: LaneReport | EndedPartition | None, reported_age_s: float = 0.0
) -> LaneEvidence:
    reported = None if report is None else LaneState(report.state)
    return LaneEvidence(
        controller=reading.controller,
        ended=reported if reported is not None and reported.is_terminal else None,
        is_paused=reading.paused.covers(topic),
        source_is_away=reading.source.is_away,
        target_is_away=reading.target.is_away,
        is_at_source=reading.source.find(reading.sources[topic]) is not None,
        is_deleted=topic in reading.recorded and reading.recorded[topic].state == LaneState.SOURCE_DELETED,
        reported=reported,
        reported_s=reported_age_s,
    )


async def _ledger(client: Client, patience_s: float | None) -> LedgerMemory | Problem:
    """Read the ledger of a cluster, or return why that failed, or took longer than `patience_s`, if that is given."""
    if patience_s is not None:
        return await ledger_within(client, patience_s)
    try:
        return await read_ledger(client)
    except ClusterError as error:
        return problem_of(error)


def _ends(reading: _Reading, lane: LaneKey, before: _Ends | None) -> _Ends:
    """Return both ends as they are now, or else as they were last seen."""
    seen = before or _UNSEEN
    known, now, moment_ms = reading.known, time.monotonic(), now_ms()
    report, age_s = known.last_known.get(lane), known.report_age_s(lane, moment_ms)
    if report is not None and age_s is not None:
        heard_s = known.source_age_s(lane, moment_ms)
        reported = _End(report.source_end, now - (math.inf if heard_s is None else heard_s))
        placed = _End(report.position, now - age_s)
        seen = _Ends(
            max(seen.source, reported, key=_seen_at),
            # A mapped lane reports its position at the source.
            seen.target if reading.is_mapped(lane.topic) else max(seen.target, placed, key=_seen_at),
        )
    source, target = reading.source, reading.target
    key = reading.at_source(lane)
    source_end = _End(source.ranges[key].stable_end, source.at) if key in source.ranges else seen.source
    if lane in target.ranges:
        return _Ends(source_end, _End(target.ranges[lane].end, target.at))
    if not target.is_away and target.lacks(lane):
        # A partition that is not there yet holds no records.
        return _Ends(source_end, _End(0, target.at))
    return _Ends(source_end, seen.target)


def _seen_at(end: _End) -> tuple[bool, float]:
    return (end.offset >= 0, end.seen_at)


def _lag_s(source: LogRange | None, copied_end: int, oldest: int | None, moment_ms: int) -> float | None:
    if source is not None and copied_end >= source.stable_end:
        return 0.0
    return None if oldest is None else max((moment_ms - oldest) / _MS_PER_S, 0.0)


def _waiting(source: LogRange | None) -> int:
    """Return how many offsets at the source's end wait for open transactions: only the source knows that, and now."""
    return -1 if source is None else source.end - source.stable_end


def _waiting_s(reading: _Reading, at_source: SourceTopicPartition, moment_ms: int) -> float | None:
    """Return for how long they have, by the record's time or the coordinator's, whichever is earlier."""
    began = [each.started_ms for each in reading.transactions if (each.topic, each.partition) == at_source]
    known = [at for at in (reading.waiting_times.get(at_source), *began) if at is not None and at >= 0]
    return max((moment_ms - min(known)) / _MS_PER_S, 0.0) if known else None


def _rate(reading: _Reading, before: _Reading | None, key: LaneKey) -> float | None:
    if before is None or before.copied_end(key) < 0 or reading.copied_end(key) < 0:
        return None
    advanced = reading.copied_end(key) - before.copied_end(key)
    return max(advanced, 0) / max(reading.target.at - before.target.at, 0.001)
