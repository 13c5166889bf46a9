"""The maps of a lease's mapped lanes, kept in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from isthmus.engine.brokers.aside import aside
from isthmus.engine.mapped.places import Known
from isthmus.engine.mapped.transit import SEGMENT_RANGES, Transit
from isthmus.errors import ClusterError, ConfigError
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.ledger.documents.kinds import DepartureDocument, Document, MapDocument, TransformDocument
from isthmus.ledger.generations import in_force
from isthmus.ledger.link import newest
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.maps import current, lane_map, needless, newest_segment, trimmed_ordinal
from isthmus.ledger.records import Deletion, Entry, LedgerChange, in_batches
from isthmus.ledger.view import Bookmark, LedgerView
from isthmus.model.lane import Lane, LaneKey
from isthmus.model.naming import TargetTopicPartition
from isthmus.model.offsets import Cursor, Departure, Skips, Stretch
from isthmus.model.problem import Problem
from isthmus.model.translation import OffsetMap
from isthmus.spark.leases.departures import LaneDepartures, find_departed
from isthmus.spark.leases.lease import LeaseSpec

_RANGES_S = 2.0
_DEPART_S = 2.0


class _Look(NamedTuple):
    """All entries of the ledger, and the offset up to which it was read."""

    entries: Sequence[Entry]
    position: int


class LedgerMaps:
    """The maps of mapped lanes in the ledger: the cursor of each lane, and its ranges of offsets.

    A lease writes into segments of its own, so that no late write replaces another's: see `MapDocument`. It continues
    former segments that hold at most half of `segment_ranges`. A lane that comes back to the lease gets new segments:
    its former ones stay valid, and may be about an earlier topic of the same name. Each time a lane is loaded its
    segments are marked with the position up to which the ledger was read: a later owner has read further, as the end of
    the lease before is written there.

    Where changed records come from is stored before they are sent (`LaneDepartures`). Writes about lanes with changed
    records keep their order: an earlier cursor that came late would need departures that are deleted.
    """

    def __init__(self, target: Client, spec: LeaseSpec, *, segment_ranges: int = SEGMENT_RANGES) -> None:
        self._target = target
        self._segment_ranges = segment_ranges
        self._link = spec.context.link
        self._name = f"{spec.controller}.{spec.slot}.{spec.generation}"
        self._writer, self._ordered = LedgerWriter(target), LedgerWriter(target, in_order=True)
        self._has_changed = False
        self._has_lost = False
        self._stored: dict[LaneKey, int] = {}
        self._transforms: dict[LaneKey, list[TransformDocument]] = {}
        self._departures: dict[LaneKey, LaneDepartures] = {}
        self._lanes: dict[LaneKey, Lane] = {}
        self._begins: dict[LaneKey, int] = {}
        self._trimmed: dict[LaneKey, int] = {}
        self._numbers: dict[LaneKey, int] = {}
        self._taken_at: dict[LaneKey, int] = {}
        self._saved: dict[LaneKey, Cursor] = {}
        self._final: set[LaneKey] = set()
        self._unsaved: dict[str, LedgerChange] = {}
        self._replaced: dict[LaneKey, list[str]] = {}
        self._writing = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._looking: asyncio.Task[_Look] | None = None

    async def load(self, lanes: Collection[Lane]) -> Mapping[LaneKey, Known | Problem]:
        """Load what is known of these lanes, or why that is invalid; lanes that have not begun are missing.

        :raises ClusterError: The ledger cannot be read.
        """
        wanted = {MapDocument.key_of(self._link, str(lane.key)): lane for lane in lanes}
        found: dict[str, dict[str, MapDocument]] = {prefix: {} for prefix in wanted}
        departures: dict[LaneKey, list[DepartureDocument]] = {lane.key: [] for lane in lanes}
        transforms: dict[LaneKey, list[TransformDocument]] = {lane.key: [] for lane in lanes}
        kinds = (MapDocument, DepartureDocument, TransformDocument)
        prefixes = {kind.key_of(self._link, str(lane.key)) for kind in kinds for lane in lanes}
        entries, position = await self._entries()
        # The map is written again and again: only its newest documents are decoded.
        documents = await aside(newest, [entry for entry in entries if _lane_prefix(entry.key) in prefixes])
        for document in MapDocument.find_all(documents.values()):
            found[_lane_prefix(document.key)][document.key] = document
        for departure in DepartureDocument.find_all(documents.values()):
            departures[LaneKey(departure.topic, departure.partition)].append(departure)
        for written in TransformDocument.find_all(documents.values()):
            transforms[LaneKey(written.topic, written.partition)].append(written)
        for prefix, lane in wanted.items():
            known_at = [self._taken_at.get(lane.key, -1), *(each.taken_at for each in found[prefix].values())]
            known_at += [each.taken_at for each in departures[lane.key]]
            # A ledger that was lost starts at offset 0: the mark has to be above those that were written before.
            self._taken_at[lane.key] = max(position, max(known_at) + 1)
        starts = await self._log_starts([wanted[prefix] for prefix, segments in found.items() if len(segments) > 1])
        resumed: dict[LaneKey, Known | Problem] = {}
        for prefix, segments in found.items():
            lane = wanted[prefix]
            known = self._resume_lane(lane, segments.values(), starts.get((lane.target_topic, lane.partition), 0))
            known = self._resume_departures(lane, departures[lane.key], known)
            own = [each for each in transforms[lane.key] if each.is_of(lane.source_topic_id, lane.target_topic_id)]
            self._transforms[lane.key] = own
            if known is not None:
                resumed[lane.key] = known
            # Thousands of maps take seconds: other leases have their turn in between.
            await asyncio.sleep(0)
        return resumed

    async def _entries(self) -> _Look:
        """Read the whole ledger. Lanes of several brokers are placed at once: calls during a look share the next one,
        which begins after all of them asked.
        """
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            # All callers may be cancelled before it fails.
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._looking)

    async def _look(self) -> _Look:
        async with self._reading:
            self._looking = None
            view, end = LedgerView(self._target), Bookmark()
            try:
                entries = (await view.look(is_patient=True)).entries
                view.mark(end)
                return _Look(entries, end.position)
            finally:
                view.close()

    async def _log_starts(self, lanes: Collection[Lane]) -> Mapping[TargetTopicPartition, int]:
        """Read the starts of the target's logs, if it answers: deleted records need no map."""
        try:
            found = await log_ranges(
                self._target, [(lane.target_topic, lane.partition) for lane in lanes], timeout_s=_RANGES_S
            )
        except ClusterError:
            return {}
        return {key: log.start for key, log in found.values.items()}

    def _resume_lane(self, lane: Lane, found: Collection[MapDocument], log_start: int) -> Known | Problem | None:
        """Resume a lane from its last segments, in a segment of this lease that replaces them."""
        if lane.key in self._lanes:
            self._numbers[lane.key] = self._numbers.get(lane.key, 0) + 1
            self._saved.pop(lane.key, None)
            self._trimmed.pop(lane.key, None)
            self._begins.pop(lane.key, None)
            self._final.discard(lane.key)
        self._lanes[lane.key] = lane
        segments = current(segment for segment in found if segment.is_of(lane.source_topic_id, lane.target_topic_id))
        # Segments of earlier topics of these names are invalid, and so are those of a lane that went back.
        valid = {segment.key for segment in segments}
        self._replaced[lane.key] = [segment.key for segment in found if segment.key not in valid]
        if not segments:
            return None
        try:
            whole = lane_map(segments)
        except ConfigError as error:
            return Problem(
                f"the ledger's map of its records cannot be true: {error}",
                "Copy the topic again under another name (topics.naming), and report it: this should not happen.",
            )
        last: list[MapDocument] = []
        for segment in reversed(whole.segments):
            if sum(len(each.ranges) for each in (segment, *last)) > self._segment_ranges // 2:
                break
            last.insert(0, segment)
        kept = whole.segments[: len(whole.segments) - len(last)]
        gone = needless(kept, log_start)
        self._begins[lane.key] = whole.begin
        self._trimmed[lane.key] = max([trimmed_ordinal(segments), *(segment.cursor.ordinal for segment in gone)])
        # Only a final segment proves that nothing was in flight: a task without one may have died before it saved.
        taken_at = newest_segment(segments).taken_at
        is_final = any(segment.is_final for segment in segments if segment.taken_at == taken_at)
        ordinal_begin = min((segment.ordinal_begin for segment in last), default=whole.cursor.ordinal)
        self._replaced[lane.key] += [segment.key for segment in (*gone, *last)]
        ranges = OffsetMap.of(one for segment in last for one in segment.ranges).ranges
        return Known(whole.cursor, ordinal_begin, ranges, is_final)

    def _resume_departures(
        self, lane: Lane, found: Collection[DepartureDocument], known: Known | Problem | None
    ) -> Known | Problem | None:
        """Add what departed to what is known of a lane, and prepare its next departures."""
        key, former = lane.key, self._departures.get(lane.key)
        self._stored.pop(key, None)
        transform = known.cursor.transform if isinstance(known, Known) else ""
        self._has_changed |= bool(lane.transform or transform)
        self._departures[key] = LaneDepartures(
            partial(self._build_departure, lane, self._taken_at[key]),
            found=[each.key for each in found],
            part=0 if former is None else former.part,
        )
        if not isinstance(known, Known) or not transform:
            return known
        valid = [each for each in found if each.is_of(lane.source_topic_id, lane.target_topic_id)]
        return known._replace(departed=find_departed(valid, known.cursor.ordinal))

    async def begin(self, cursors: Mapping[Lane, Cursor]) -> None:
        """Write where lanes begin, or go on, before any of their records is appended.

        :raises ClusterError: The ledger cannot be written.
        """
        for lane, cursor in cursors.items():
            self._lanes[lane.key] = lane
            self._begins.setdefault(lane.key, cursor.source_offset)
            self._put(self._build_document(lane.key, Transit(cursor)))
            self._put_transform(lane.key, cursor)
        await self._write()

    async def depart(self, departures: Mapping[LaneKey, Departure]) -> None:
        """Write where records come from that were changed, before they are sent.

        :raises ClusterError: The ledger cannot be written. The same departures may be given again.
        """
        own = [self._departures[key] for key in departures]
        for key, departure in departures.items():
            self._departures[key].take(departure, self._stored.get(key, -1))
        changes = [change for each in own for change in each.changes()]
        for batch in in_batches(sorted(changes, key=_is_deletion)):
            await self._ordered.append(batch, term_s=_DEPART_S)
        for each in own:
            each.note_written(changes)

    async def save(
        self, transits: Mapping[LaneKey, Transit], *, final: Collection[LaneKey] = (), term_s: float
    ) -> None:
        """Write the cursors of lanes that have moved; lanes for which this lease sends nothing more are `final`.

        :raises ClusterError: The ledger cannot be written; unwritten documents are written the next time.
        """
        if self._has_lost:
            await self._write_lost(term_s)
        for key, transit in transits.items():
            if transit.cursor == self._saved.get(key):
                if key in final and key not in self._final:
                    self._put_final(key, transit)
                continue
            document = replace(self._build_document(key, transit), is_final=key in final)
            self._put(document)
            self._put_transform(key, transit.cursor)
            self._saved[key] = transit.cursor
            if key in final:
                self._final.add(key)
            for replaced in self._replaced.pop(key, ()):
                if replaced != document.key:
                    self._unsaved[replaced] = Deletion(replaced)
            if transit.is_full:
                transit.begin_segment()
                self._numbers[key] = self._numbers.get(key, 0) + 1
        await self._write(term_s=term_s)

    def _put_final(self, key: LaneKey, transit: Transit) -> None:
        """Write a final segment without ranges: those of the current one are written already."""
        self._final.add(key)
        self._numbers[key] = self._numbers.get(key, 0) + 1
        self._put(replace(self._build_document(key, Transit(transit.cursor)), is_final=True))

    def _put_transform(self, key: LaneKey, cursor: Cursor) -> None:
        """Write from where on a lane's records are changed by another transform than before, or anew by the same."""
        lane, written = self._lanes[key], self._transforms.setdefault(key, [])
        last = in_force(written, cursor)[-1:]
        if not last and not cursor.transform:
            return
        if last and (last[0].transform, last[0].rewound) == (cursor.transform, cursor.rewound):
            return
        document = TransformDocument(
            link=self._link,
            topic=key.topic,
            partition=key.partition,
            source_topic_id=lane.source_topic_id,
            target_topic_id=lane.target_topic_id,
            ordinal=cursor.ordinal,
            transform=cursor.transform,
            source_offset=cursor.source_offset,
            target_offset=cursor.target_offset,
            rewound=cursor.rewound,
            taken_at=self._taken_at.get(key, -1),
        )
        written.append(document)
        self._put(document)

    def note_loss(self) -> None:
        """Write all that is known again at the next `save`, as the ledger was created again."""
        self._saved.clear()
        for each in self._departures.values():
            each.write_again()
        self._has_lost = True

    async def _write_lost(self, term_s: float) -> None:
        """Write again what only this lease knows any more: without the departures of records that are on their way, a
        crash would end their lanes.
        """
        departed = [change for each in self._departures.values() for change in each.changes()]
        again = [change for change in departed if not _is_deletion(change)]
        for batch in in_batches(again):
            await self._ordered.append(batch, term_s=term_s)
        for each in self._departures.values():
            each.note_written(again)
        for written in self._transforms.values():
            for document in written:
                self._put(document)
        self._has_lost = False

    def close(self) -> None:
        self._writer.close()
        self._ordered.close()

    def _build_departure(
        self, lane: Lane, taken_at: int, part: int, number: int, stretches: Sequence[Stretch], skips: Sequence[Skips]
    ) -> DepartureDocument:
        return DepartureDocument(
            link=self._link,
            topic=lane.target_topic,
            partition=lane.partition,
            source_topic_id=lane.source_topic_id,
            target_topic_id=lane.target_topic_id,
            part=f"{self._name}.{part}",
            taken_at=taken_at,
            round=number,
            stretches=tuple(stretches),
            skips=tuple(skips),
        )

    def _build_document(self, key: LaneKey, transit: Transit) -> MapDocument:
        return MapDocument(
            link=self._link,
            topic=key.topic,
            partition=key.partition,
            segment=f"{self._name}.{self._numbers.get(key, 0)}",
            ordinal_begin=transit.ordinal_begin,
            ranges=tuple(transit.ranges),
            cursor=transit.cursor,
            begin=self._begins[key],
            trimmed_ordinal=self._trimmed.get(key, -1),
            source_topic_id=self._lanes[key].source_topic_id,
            target_topic_id=self._lanes[key].target_topic_id,
            taken_at=self._taken_at.get(key, -1),
        )

    def _put(self, document: Document) -> None:
        self._unsaved[document.key] = document

    async def _write(self, *, term_s: float = 30.0) -> None:
        # One write at a time: older documents must not come later.
        async with self._writing:
            # Deletions come after the documents that replace the deleted ones.
            unsaved = sorted(self._unsaved.values(), key=_is_deletion)
            writer = self._ordered if self._has_changed else self._writer
            for batch in in_batches(unsaved):
                await writer.append(batch, term_s=term_s)
                for change in batch:
                    if isinstance(change, MapDocument):
                        self._stored[LaneKey(change.topic, change.partition)] = change.cursor.ordinal
                    if self._unsaved.get(change.key) is change:
                        del self._unsaved[change.key]


def _is_deletion(change: LedgerChange) -> bool:
    return isinstance(change, Deletion)


def _lane_prefix(key: str) -> str:
    """Return the prefix of the keys of all segments of a lane's map."""
    return key.rpartition("/")[0]
