"""Pairs of offsets as MirrorMaker 2 emits them: at which offset of the target a record of the source is."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.kafka.admin.internal_topics import InternalTopics, is_missing
from isthmus.kafka.client import Client
from isthmus.kafka.log.contents import stored_records
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.appending import CurrentAppender
from isthmus.lanes.maps import LinkMaps
from isthmus.ledger.documents.kinds import Document
from isthmus.loops.loop import LinkView
from isthmus.memory.links import now_ms
from isthmus.model.kafka.mirrormaker_records import OffsetSync, SyncKey, offset_sync_of
from isthmus.model.lane import Lane
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.mirrormaker import SyncsPlace
from isthmus.model.translation import OffsetMap

INTERVAL_S: Final = 1.0
_BETWEEN_MAX: Final = 16
"""The maximum number of pairs emitted for the records copied between two looks."""
_READ_BACK_OFFSETS: Final = 200_000
"""Pairs further back than this are not read: emitting such a pair again does no harm."""
Pairs = dict[SyncKey, OffsetSync]
PairAt = Callable[[int], tuple[int, int] | None]
"""Maps an offset of the source to the last record copied at or before it: its offsets at the source and target."""


class Course(NamedTuple):
    """The records of a lane that pairs can be emitted for: the first one, the last one, and those between."""

    key: SyncKey
    first: tuple[int, int] | None
    last: tuple[int, int]
    at: PairAt


class OffsetSyncLoop:
    """Pairs of offsets of all lanes of one link, in the order of the source."""

    name = "mm2-offset-syncs"

    def __init__(self) -> None:
        self._topics = InternalTopics(self.name)
        self._appender = CurrentAppender()
        self._emitted: Pairs | None = None
        self._emitted_in: tuple[str, str, uuid.UUID | None] | None = None
        self._seen: dict[SyncKey, int] = {}
        self._maps: LinkMaps | None = None
        self._documents: Mapping[str, Document] | None = None

    def interval_s(self, link: Link) -> float | None:
        """How often lanes are looked at, in seconds."""
        return None if link.mm2.offset_syncs is SyncsPlace.OFF else INTERVAL_S

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Whether the topic is missing.

        :raises ClusterError: The cluster it belongs to cannot be asked.
        """
        return await self._topics.look(*_place(view))

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Create the topic, and emit the current pairs of lanes.

        :raises ClusterError: The cluster rejects the topic or the records.
        """
        client, topic = _place(view)
        left = await self._topics.create(client, changes)
        if is_missing(topic, left):
            return left
        try:
            emitted = await self._read_back(client, topic)
            due = [pair for course in await self._courses(view, emitted) for pair in self._due(view, course, emitted)]
            if due:
                await self._appender.to(client, topic).append([pair.record for pair in due], now_ms=now_ms())
                emitted.update((pair.key, pair) for pair in due)
        except ClusterError:
            # Some of it may have been written.
            self._emitted = None
            self._topics.doubt()
            raise
        return left

    async def aclose(self) -> None:
        """Close the connection."""
        self._appender.close()

    async def _read_back(self, client: Client, topic: str) -> Pairs:
        place = (client.cluster.alias, topic, self._topics.topic_id(client, topic))
        if self._emitted is None or self._emitted_in != place:
            self._emitted, self._emitted_in = {}, None
            if place[2] is not None:
                self._emitted.update(await _read_pairs(client, topic))
                self._emitted_in = place
        return self._emitted

    async def _courses(self, view: LinkView, emitted: Pairs) -> list[Course]:
        """Return the course of each lane that has copied anything."""
        if self._maps is None or self._documents is not view.documents:
            self._maps, self._documents = LinkMaps(view.link.name, view.documents), view.documents
        self._maps.look()
        lanes = [lane for topic in view.plan.topics for lane in topic.lanes]
        same = {lane: view.reports[lane.key].position for lane in lanes if _has_copied(view, lane)}
        not_emitted = [lane for lane in same if not _is_same(emitted.get(_key(lane)))]
        new = [(lane.target_topic, lane.partition) for lane in not_emitted]
        starts = (await log_ranges(view.target, new)).values if new else {}
        found = []
        for lane, position in same.items():
            log = starts.get((lane.target_topic, lane.partition))
            first = None if log is None or log.start >= position else (log.start, log.start)
            found.append(Course(_key(lane), first, (position - 1, position - 1), same_at))
        for lane in lanes:
            known = self._maps.of((lane.target_topic, lane.partition)) if lane.is_mapped else None
            if known is not None and known.offsets.ranges:
                begin, end = known.offsets.ranges[0], known.offsets.ranges[-1]
                first = (begin.source_begin, begin.target_begin)
                last = (end.source_end - 1, end.target_end - 1)
                found.append(Course(_key(lane), first, last, copies_at(known.offsets)))
        return found

    def _due(self, view: LinkView, course: Course, emitted: Pairs) -> Iterator[OffsetSync]:
        stands_still = self._seen.get(course.key) == course.last[0]
        self._seen[course.key] = course.last[0]
        return pairs_due(course, emitted.get(course.key), view.link.mm2.offset_lag_max, stands_still=stands_still)


def pairs_due(course: Course, emitted: OffsetSync | None, lag_max: int, *, stands_still: bool) -> Iterator[OffsetSync]:
    """Yield the pairs to emit for a lane, in the order of the source; `emitted` is the last pair emitted before.

    A lane without an emitted pair starts at its first record. So does a lane whose last pair no longer matches its map:
    it is another copy. A lane that moved back emits its current position. In these cases readers forget older pairs.
    A lane that advanced by no more than `lag_max` records emits a pair only once it `stands_still`.
    """
    last = course.last
    if (
        emitted is not None
        and emitted.upstream <= last[0]
        and course.at(emitted.upstream) != (emitted.upstream, emitted.downstream)
    ):
        emitted = None
    if emitted is None or last[0] < emitted.upstream:
        begin = course.first if emitted is None else None
        if begin is not None and begin[0] < last[0]:
            yield OffsetSync(course.key, *begin)
            yield from _between(course, begin[0], lag_max)
        yield OffsetSync(course.key, *last)
    elif last[0] > emitted.upstream and (stands_still or last[0] - emitted.upstream > lag_max):
        yield from _between(course, emitted.upstream, lag_max)
        yield OffsetSync(course.key, *last)


def _between(course: Course, begin: int, lag_max: int) -> Iterator[OffsetSync]:
    end = course.last[0]
    step = max(lag_max + 1, (end - begin) // _BETWEEN_MAX + 1)
    before = begin
    for offset in range(begin + step, end, step):
        pair = course.at(offset)
        if pair is not None and before < pair[0] < end:
            before = pair[0]
            yield OffsetSync(course.key, *pair)


def same_at(offset: int) -> tuple[int, int]:
    return offset, offset


def copies_at(offsets: OffsetMap) -> PairAt:
    def at(offset: int) -> tuple[int, int] | None:
        index = bisect_right(offsets.ranges, offset, key=lambda one: one.source_begin) - 1
        if index < 0:
            return None
        one = offsets.ranges[index]
        record = min(offset, one.source_end - 1)
        return record, record + one.shift

    return at


def _is_same(emitted: OffsetSync | None) -> bool:
    return emitted is not None and emitted.upstream == emitted.downstream


def _has_copied(view: LinkView, lane: Lane) -> bool:
    report = view.reports.get(lane.key)
    return not lane.is_mapped and report is not None and report.position > 0


def _key(lane: Lane) -> SyncKey:
    return SyncKey(lane.source_topic, lane.partition)


def _place(view: LinkView) -> tuple[Client, str]:
    place = view.link.mm2.offset_syncs
    client = view.source if place is SyncsPlace.SOURCE else view.target
    return client, view.link.mm2_names.offset_syncs(place)


async def _read_pairs(client: Client, topic: str) -> Pairs:
    """Read the last pair of each partition, within the last `_READ_BACK_OFFSETS`; none without the right to read."""
    emitted: Pairs = {}
    try:
        async for record in stored_records(client, topic, offsets_max=_READ_BACK_OFFSETS):
            try:
                pair = offset_sync_of(record)
            except ValueError:
                continue
            emitted[pair.key] = pair
    except NotAuthorized:
        return {}
    return emitted
