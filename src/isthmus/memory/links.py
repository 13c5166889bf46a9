"""What the ledger holds of a link, as the values control works with."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from isthmus.errors import IsthmusError, Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import (
    ControllerDocument,
    Document,
    ForgottenDocument,
    GapDocument,
    GroupDocument,
    LeaseDocument,
    LinkDocument,
    LoopDocument,
    PauseDocument,
    ProgressDocument,
    RecoveryDocument,
    TaskPauseDocument,
    TopicDocument,
    TransactionNamesDocument,
    VerificationDocument,
)
from isthmus.ledger.documents.loops import verify_loop
from isthmus.ledger.leases import leases_of
from isthmus.ledger.link import newest
from isthmus.ledger.records import Entry
from isthmus.ledger.view import Bookmark, LedgerView
from isthmus.model.kafka.topic import Rebuilt, TopicIds
from isthmus.model.lane import Gap, LaneKey, LaneReport, LaneState
from isthmus.model.links.pauses import Pause, Pauses
from isthmus.model.links.progress import GroupProgress
from isthmus.model.links.promotion import TornTransaction
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem, problem_of
from isthmus.model.process.leases import LeaseProgress
from isthmus.model.state import AGED_S, ControllerState

_MS_PER_S: Final = 1000
_NEVER_MS: Final = -1
_UNTAKEN_MIN: Final = 1_000
_ADDING_UP: Final = (ControllerDocument.KIND, ProgressDocument.KIND)
"""Kinds whose earlier records count as well: who ran the link, and lanes that the newest record leaves out."""
HEARING_S: Final = 4.0
"""A task may have heard of a source's log so much before its report: it says since when (`heard_ms`) only after 3 s."""


class Silence(NamedTuple):
    """For how long (s) a repeated record has not come: at least and at most, as was seen until the last look, and by
    the timestamp of the last record, whose clock may be wrong.
    """

    least_s: float
    most_s: float
    told_s: float

    @property
    def likely_s(self) -> float:
        """The silence by clocks, limited by what was seen."""
        return min(max(self.told_s, self.least_s), self.most_s)


def recorded_topics(link: str, documents: Mapping[str, Document]) -> dict[TargetTopic, TopicIds]:
    """Return the topics of the link that were paired with their sources, by target topic."""
    forgotten = {
        document.topic: TopicIds(
            source_topic=document.source_topic,
            source=document.source_topic_id,
            target=document.topic_id,
            is_forgotten=True,
        )
        for document in ForgottenDocument.find_all(documents.values(), link)
    }
    return forgotten | {
        document.target_topic: TopicIds(
            source_topic=document.source_topic,
            source=document.source_topic_id,
            target=document.target_topic_id,
            is_mapped=document.is_mapped,
            left=document.left,
            first_partitions=document.first_partitions,
            settles=document.settles,
        )
        for document in TopicDocument.find_all(documents.values(), link)
        if document.target_topic_id != NO_TOPIC_ID
    }


def names_of_transactions(link: str, documents: Mapping[str, Document]) -> tuple[TornTransaction, ...]:
    """Return the transactions that the lanes of a link were seen to copy, as far as known, the newest last."""
    document = TransactionNamesDocument.find(documents, link)
    return () if document is None else document.names


def pauses(link: str, documents: Mapping[str, Document]) -> Pauses:
    """Return what an operator has paused of a link."""
    return Pauses.from_pauses(
        Pause(part=document.part, since_ms=document.since_ms, by=document.by)
        for document in documents.values()
        if isinstance(document, PauseDocument | TaskPauseDocument) and document.link == link
    )


def rebuilt_topics(link: str, documents: Mapping[str, Document]) -> dict[TargetTopic, Rebuilt]:
    """Return the topics of the link that an operator had deleted and created again because they had diverged."""
    return {
        document.topic: Rebuilt(document.topic_id, document.rebuilt_id, document.settles)
        for document in RecoveryDocument.find_all(documents.values(), link)
        if document.rebuilt_id != NO_TOPIC_ID
    }


class _Lease(NamedTuple):
    """The task that wrote a document."""

    controller: int
    slot: int
    generation: int


@dataclass(slots=True)
class LinkMemory:
    """What the ledger holds of a link.

    `reports` are the newest of each lane by the newest controller, `last_known` the newest by any controller.
    `controller` is the newest controller's own document, `None` after its farewell or if none ever came. `heard_ms` is
    when it was heard last, by its own clock, including its farewell; -1 for never.
    """

    link: str
    documents: dict[str, Document] = field(default_factory=dict)
    reports: dict[LaneKey, LaneReport] = field(default_factory=dict)
    last_known: dict[LaneKey, LaneReport] = field(default_factory=dict)
    controller: ControllerDocument | None = None
    heard_ms: int = _NEVER_MS
    _generation: int = -1
    _written_ms: dict[str, int] = field(default_factory=dict)
    _reporters: dict[LaneKey, _Lease] = field(default_factory=dict)
    _reported_ms: dict[_Lease, int] = field(default_factory=dict)
    _hearing: dict[_Lease, set[LaneKey]] = field(default_factory=dict)
    _source_ms: dict[LaneKey, int] = field(default_factory=dict)

    @classmethod
    def of(cls, link: str, entries: Iterable[Entry]) -> Self:
        """Return the memory of a ledger that is read from its beginning."""
        memory = cls(link)
        memory.take_all([entry for entry in entries if entry.link == link])
        return memory

    @property
    def identity(self) -> LinkDocument | None:
        """Both clusters of the link and its producers, `None` where that was never written."""
        return LinkDocument.find(self.documents, self.link)

    @property
    def topics(self) -> dict[TargetTopic, TopicDocument]:
        """The topics of the link, by target topic."""
        return {each.target_topic: each for each in TopicDocument.find_all(self.documents.values())}

    @property
    def gaps(self) -> dict[LaneKey, tuple[Gap, ...]]:
        """What the source had deleted before it was copied, in offset order."""
        found = sorted(
            (d.topic, d.partition, d.offset_begin, d.offset_end) for d in GapDocument.find_all(self.documents.values())
        )
        gaps: dict[LaneKey, tuple[Gap, ...]] = {}
        for topic, partition, begin, end in found:
            key = LaneKey(topic, partition)
            gaps[key] = (*gaps.get(key, ()), Gap(begin, end))
        return gaps

    def groups(self, now_ms: int) -> tuple[GroupProgress, ...]:
        """Return the consumer groups of the link. A standing is as old as the controller's last word."""
        found = GroupDocument.find_all(self.documents.values())
        return tuple(
            GroupProgress(
                group=d.group,
                standing=d.standing,
                age_s=_age_s(max(self.heard_ms, self._written_ms[d.key]), now_ms),
                problem=d.problem,
            )
            for d in sorted(found, key=lambda document: document.group)
        )

    def loops(self, now_ms: int) -> tuple[LoopProgress, ...]:
        """Return what the link synchronizes beside its data, as the controller last reported it, with what an operator
        has paused since.
        """
        found = LoopDocument.find_all(self.documents.values())
        paused = self.paused
        looped = tuple(
            LoopProgress(
                loop=d.loop,
                state=LoopState(d.state),
                problem=d.problem,
                age_s=_age_s(max(self.heard_ms, self._written_ms[d.key]), now_ms),
            ).paused_by(is_paused=paused.stops(d.loop))
            for d in sorted(found, key=lambda document: document.loop)
            if d.state in set(LoopState)
        )
        verified = VerificationDocument.find(self.documents, self.link)
        age_s = 0.0 if verified is None else _age_s(self._written_ms[verified.key], now_ms)
        return (*looped, verify_loop(verified, age_s=age_s))

    def leases(self, now_ms: int) -> tuple[LeaseProgress, ...]:
        """Return the leases that run, none if there is no controller or it is silent for too long."""
        if self.controller is None or not self.controller_state(now_ms).runs:
            return ()
        return leases_of(
            self.link, self.documents, self.controller.generation, lambda each: self.document_age_s(each, now_ms)
        )

    @property
    def paused(self) -> Pauses:
        return pauses(self.link, self.documents)

    def controller_state(self, now_ms: int) -> ControllerState:
        """Return whether a controller runs the link, as far as the ledger knows."""
        if self.controller is None:
            return ControllerState.NONE
        return ControllerState.from_age(self.heard_age_s(now_ms), held_s=self.controller.held_s)

    def heard_age_s(self, now_ms: int) -> float | None:
        """Return how long ago (s) the controller was heard last, `None` for never."""
        return None if self.heard_ms == _NEVER_MS else _age_s(self.heard_ms, now_ms)

    def report_age_s(self, key: LaneKey, now_ms: int) -> float | None:
        """Return how long ago (s) the last known report of a lane was confirmed, `None` where there is none.

        A task writes down the lanes that changed: those it leaves out are as they were.
        """
        lease = self._reporters.get(key)
        return None if lease is None else _age_s(self._reported_ms[lease], now_ms)

    def has_lost_task(self, key: LaneKey, now_ms: int) -> bool:
        """Return whether the task that last reported a lane has ended, and none has reported it for long since: the
        next one reports it within a moment.
        """
        lease = self._reporters.get(key)
        if lease is None or (self.report_age_s(key, now_ms) or 0.0) <= AGED_S:
            return False
        document = LeaseDocument.find(self.documents, self.link, str(lease.slot))
        is_same = document is not None and document.controller == lease.controller
        return document is not None and is_same and lease.generation <= document.ended_through

    def source_age_s(self, key: LaneKey, now_ms: int) -> float | None:
        """Return how long ago (s) the source of a lane was last heard, at most; `None` where it never was, infinite
        where the clocks disagree.

        A task hears the sources of the lanes that it reports as ACTIVE. For others, and for those it has given up, it
        is when their ends were last seen to move, or the last time they were reported.
        """
        lease = self._reporters.get(key)
        if lease is not None and key in self._hearing.get(lease, ()):
            return age_most_s(self._reported_ms[lease], now_ms) + HEARING_S
        heard_ms = self._source_ms.get(key)
        return None if heard_ms is None else age_most_s(heard_ms, now_ms) + HEARING_S

    def document_age_s(self, document: Document, now_ms: int) -> float:
        """Return how long ago (s) a document of the ledger was written."""
        return _age_s(self._written_ms[document.key], now_ms)

    def take_all(self, entries: Sequence[Entry]) -> None:
        """Take in the next records of the ledger about the link. A record that a later one of the same key replaces in
        full is skipped: decoding it would take longest.

        :raises PlanRefused: A newer Isthmus wrote a record that counts.
        """
        newest_of = {entry.key: entry for entry in entries}
        for entry in entries:
            if entry is newest_of[entry.key] or entry.kind in _ADDING_UP:
                self.take(entry)

    def take(self, entry: Entry) -> None:
        """Take in the next record of the ledger about the link.

        :raises PlanRefused: A newer Isthmus wrote the record.
        """
        if entry.value is None:
            gone = self.documents.pop(entry.key, None)
            self._written_ms.pop(entry.key, None)
            if isinstance(gone, ControllerDocument):
                self.controller = None
                self.heard_ms = entry.timestamp
            return
        document = entry.decode()
        if document is None:
            return
        if isinstance(document, ControllerDocument) and document.generation >= self._generation:
            self.controller = document
            self.heard_ms = entry.timestamp
            self._begin(document.generation)
        elif isinstance(document, ProgressDocument) and document.controller >= self._generation:
            self._begin(document.controller)
            self._take_progress(document, entry.timestamp)
        self.documents[entry.key] = document
        self._written_ms[entry.key] = entry.timestamp

    def _take_progress(self, document: ProgressDocument, at_ms: int) -> None:
        lease = _Lease(document.controller, document.slot, document.generation)
        before_ms = self._reported_ms.get(lease, at_ms)
        self._reported_ms[lease] = at_ms
        # A lease that has given up a lane does not count once another lease has reported that lane.
        found = {
            each.key: each
            for each in document.reports
            if each.state is not LaneState.STOPPED or self._reporters.get(each.key, lease) == lease
        }
        if document.is_full:
            for key in self._hearing.get(lease, set()) - found.keys():
                self._note_silence(key, before_ms)
        for key, report in found.items():
            self._note_hearing(lease, report, before_ms)
            # A task that begins while the source is lost has never heard it.
            before = self.last_known.get(key, report)
            if report.source_end < 0 <= before.source_end:
                report = replace(
                    report,
                    source_end=before.source_end,
                    source_log_end=before.source_log_end,
                    stable_end=before.stable_end,
                )
            if report.position < 0 <= before.position:
                report = replace(report, position=before.position)
            self.last_known[key] = report
        self._reporters.update(dict.fromkeys(found, lease))
        self.reports.update(found)

    def _note_hearing(self, lease: _Lease, report: LaneReport, before_ms: int) -> None:
        """Note that a lease hears the source of a lane from now on, or else until when it did."""
        key, before = report.key, self.last_known.get(report.key)
        if report.source_end >= 0 and report.heard_ms < 0 and report.state is LaneState.ACTIVE:
            former = self._reporters.get(key, lease)
            if former != lease:
                self._hearing.get(former, set()).discard(key)
            self._hearing.setdefault(lease, set()).add(key)
            return
        self._note_silence(key, before_ms)
        is_moved = before is None or (before.source_end, before.source_log_end) != (
            report.source_end,
            report.source_log_end,
        )
        if report.source_end >= 0 and (report.heard_ms >= 0 or is_moved):
            heard_ms = report.heard_ms if report.heard_ms >= 0 else before_ms
            self._source_ms[key] = max(self._source_ms.get(key, heard_ms), heard_ms)

    def _note_silence(self, key: LaneKey, at_ms: int) -> None:
        """Note until when the lease heard the source of a lane that it no longer hears."""
        lease = self._reporters.get(key)
        if lease is not None and key in self._hearing.get(lease, ()):
            self._hearing[lease].discard(key)
            self._source_ms[key] = min(self._reported_ms[lease], at_ms)

    def copy(self) -> LinkMemory:
        """Return a copy of what is known now, which later reads do not change."""
        copied = copy(self)
        for name in ("documents", "reports", "last_known", "_written_ms", "_reporters", "_reported_ms", "_source_ms"):
            setattr(copied, name, dict(getattr(self, name)))
        copied._hearing = {lease: set(keys) for lease, keys in self._hearing.items()}
        return copied

    def _begin(self, generation: int) -> None:
        """Discard the reports of an earlier controller's lanes: they no longer count as their state."""
        if generation > self._generation:
            self._generation = generation
            self.reports.clear()


class LedgerMemory:
    """What the ledger of a cluster holds of all its links, followed from look to look: see `read_ledger`.

    Records are decoded when they are needed, as most callers want the newest documents or those of one link; records of
    links that are not asked for are decoded too before there are many more of them than at first.
    """

    def __init__(self, client: Client) -> None:
        self._view = LedgerView(client)
        self._looking = asyncio.Lock()
        self._links: dict[str, LinkMemory] = {}
        self._untaken: dict[str, list[Entry]] = {}
        self._untaken_max = 0
        self._unlinked: dict[str, Entry] = {}
        self._came_s: dict[str, tuple[float, float]] = {}
        self._looked_s = -math.inf, -math.inf

    async def refresh(self) -> None:
        """Read what was written since the last look.

        :raises PlanRefused: A newer Isthmus wrote it.
        :raises ClusterError: The ledger cannot be read.
        """
        async with self._looking:
            before, begun_s = self._looked_s[0], lasting_s()
            news = await self._view.look()
            self._looked_s = begun_s, lasting_s()
            if news.is_other_log:
                for held in (self._links, self._untaken, self._unlinked, self._came_s):
                    held.clear()
                self._untaken_max, before = 0, -math.inf
            for entry in news.entries:
                link = entry.link
                if link:
                    self._untaken.setdefault(link, []).append(entry)
                elif entry.value is None:
                    self._unlinked.pop(entry.key, None)
                else:
                    self._unlinked[entry.key] = entry
                    # A record that was durable when the look before began cannot be this one.
                    self._came_s[entry.key] = before, self._looked_s[1]
            untaken = sum(map(len, self._untaken.values()))
            self._untaken_max = self._untaken_max or max(2 * untaken, _UNTAKEN_MIN)
            for link in list(self._untaken):
                # A link that was asked for is kept up to date.
                if link in self._links or untaken > self._untaken_max:
                    self._take(link)

    def mark(self, bookmark: Bookmark) -> None:
        """Set a bookmark to where the last look ended."""
        self._view.mark(bookmark)

    @property
    def links(self) -> list[str]:
        """The links that the ledger holds records of."""
        return sorted({*self._links, *self._untaken})

    def of(self, link: str) -> LinkMemory:
        """Return what is known of a link; the next look updates it.

        :raises PlanRefused: A newer Isthmus wrote a record of it.
        """
        self._take(link)
        return self._links.get(link) or LinkMemory(link)

    def documents(self) -> dict[str, Document]:
        """Return all documents of the ledger, by key.

        :raises PlanRefused: A newer Isthmus wrote some of it.
        """
        found = self.find_unlinked()
        for link in self.links:
            found |= self.of(link).documents if link in self._links else newest(self._untaken[link])
        return found

    def find_unlinked(self) -> dict[str, Document]:
        """Return the documents that belong to no link, by key.

        :raises PlanRefused: A newer Isthmus wrote some of it.
        """
        return newest(self._unlinked.values())

    def unlinked_written_ms(self) -> dict[str, int]:
        """Return when each of these documents was written (ms, by the writer's clock), by key."""
        return {key: entry.timestamp for key, entry in self._unlinked.items()}

    def unlinked_silences(self, now_ms: int) -> dict[str, Silence]:
        """Return for how long no new record of each of these documents has come, by key."""
        found, (begun_s, ended_s) = {}, self._looked_s
        for key, entry in self._unlinked.items():
            earliest_s, latest_s = self._came_s[key]
            told_s = _age_s(entry.timestamp, now_ms)
            found[key] = Silence(max(begun_s - latest_s, 0.0), ended_s - earliest_s, told_s)
        return found

    def close(self) -> None:
        self._view.close()

    def _take(self, link: str) -> None:
        entries = self._untaken.get(link, ())
        memory = self._links.get(link) or LinkMemory(link)
        memory.take_all(entries)
        if entries:
            self._links[link] = memory
            del self._untaken[link]


async def read_ledger(client: Client) -> LedgerMemory:
    """Read the ledger of a cluster; nothing where there is none. Only records written since the last call with this
    client are read.

    :raises PlanRefused: A newer Isthmus wrote it.
    :raises ClusterError: The ledger cannot be read.
    """
    memory = client.companion(LedgerMemory)
    await memory.refresh()
    return memory


async def ledger_within(client: Client, patience_s: float) -> LedgerMemory | Problem:
    """Read the ledger of a cluster, as `read_ledger`, or return why that failed, or took longer than `patience_s`."""
    alias = client.cluster.alias
    try:
        async with asyncio.timeout(patience_s):
            return await read_ledger(client)
    except TimeoutError:
        hint = "Check that its brokers run, can be reached from here and are not held back by a client quota."
        why = f"{alias} does not show its ledger within {patience_s:g} s"
        return problem_of(Unreachable(why, cluster=alias, hint=hint))
    except IsthmusError as error:
        return problem_of(error)


async def recollect(link: str, client: Client) -> LinkMemory:
    """Read what the ledger at a target cluster holds of a link; nothing where there is no ledger.

    :raises PlanRefused: A newer Isthmus wrote it.
    :raises ClusterError: The ledger cannot be read.
    """
    return (await read_ledger(client)).of(link).copy()


def now_ms() -> int:
    """Return the wall clock. Another host's may differ, so controllers are judged by their heartbeat (hearing.py)."""
    return int(time.time() * 1000)


def age_most_s(then_ms: int, now_ms: int) -> float:
    """Return how long ago (s) another host saw something, for callers that must not take it for newer than it is:
    infinite where it lies more than a second in the future, as that host's clock is ahead by an unknown amount.
    """
    return math.inf if then_ms > now_ms + _MS_PER_S else _age_s(then_ms, now_ms)


def _age_s(then_ms: int, now_ms: int) -> float:
    """Return the age (s), at least 0: clocks of two hosts differ."""
    return max(now_ms - then_ms, 0) / _MS_PER_S
