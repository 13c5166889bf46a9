"""Where mapped lanes go on: what the ledger knows of them, held against what the target's logs hold of ours.

The end of the target's log says nothing: others write there too. But every batch of ours carries our producer id and
the sequence of its first record, which is its ordinal. So the log itself says how many records have arrived, whatever
became of the request that brought them, and whether or not the broker remembers our producer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, Protocol

from isthmus.cluster.reading import LogReader, OffsetRange, StoredBatch
from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, Unreachable
from isthmus.lane.aside import aside
from isthmus.lane.mapped.flagging import flagged, selection_of
from isthmus.lane.mapped.outlook import deleted, lost, missed, untold, way_out
from isthmus.lane.mapped.recount import Arrived, Recount, Sourced, compared_anew, counted_anew, ordinal_of
from isthmus.lane.mapped.rewinding import last_held
from isthmus.lane.mapped.scanning import Searched, scan
from isthmus.lane.mapped.transit import Transit
from isthmus.lane.mapped.witness import last_copied
from isthmus.lane.outlook import RETRY_S, USUAL_DOUBT, Doubt, state_of, unreplicated
from isthmus.lane.pieces import Piece
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.rebatch import records_of
from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun, Look
from isthmus.lane.source import Bounds
from isthmus.lane.writer import LogLook, ProducerState
from isthmus.model.copyflags import is_done_with
from isthmus.model.lane import Lane, LaneKey, LaneState
from isthmus.model.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, Cursor
from isthmus.model.problem import Problem
from isthmus.model.translation import MappedRange
from isthmus.wire import codes
from isthmus.wire.batch import SEQUENCE_MASK
from isthmus.wire.connection import Connection
from isthmus.wire.offsets import (
    EARLIEST_LOCAL_FROM,
    READ_UNCOMMITTED,
    Offset,
    PartitionKey,
    epoch_ends,
    list_offsets,
)

_AT_ONCE: Final = 16
_LEAP_S: Final = 10.0
_SEARCH_S: Final = 1.0
_LOOK_ON_OFFSETS: Final = 1_000
_SOURCE_BYTES: Final = 64 << 20
_log = logging.getLogger(__name__)


class Known(NamedTuple):
    """What the ledger knows of a mapped lane: how far it was, and the ranges from `ordinal_begin` on, which are to be
    written down once more. It `is_final` if nothing of the lane came behind that, by the word of who had it last.
    """

    cursor: Cursor
    ordinal_begin: int
    ranges: tuple[MappedRange, ...] = ()
    is_final: bool = False


class MapStore(Protocol):
    """Where the maps of mapped lanes are kept. Both raise `ClusterError` where that does not answer."""

    async def load(self, lanes: Collection[Lane]) -> Mapping[LaneKey, Known | Problem]:
        """What is known of these lanes by now, or why it is of no use; those that have not begun are missing."""

    async def begin(self, cursors: Mapping[Lane, Cursor]) -> None:
        """Write down where lanes begin, or go on, before anything of them is appended."""

    async def save(self, transits: Mapping[LaneKey, Transit], *, term_s: float) -> None:
        """Write down how far lanes are that have moved."""


@dataclass(slots=True)
class _Search:
    """What earlier looks at a lane have brought. `awaited_end` has to be replicated first, -1 while it is unknown. From
    `unseen_from` on the target has deleted offsets of which nobody knows what they held, and the log was read up to
    `scanned_to`, in that leader epoch; -1 without such.
    """

    awaited_end: int = -1
    unseen_from: int = -1
    scanned_to: int = -1
    scanned_epoch: int = -1
    ordinal_end: int = -1
    looked_at: float = 0.0
    doubts: int = 0


class Places:
    """Finds the places of mapped lanes."""

    def __init__(
        self,
        source: Routes,
        target: Routes,
        producer: ProducerIdentity,
        store: MapStore | None,
        *,
        settle_s: float,
        doubt: Doubt = USUAL_DOUBT,
        search_s: float = _SEARCH_S,
    ) -> None:
        self._source, self._target = source, target
        self._source_log = LogReader(source.client)
        # Open transactions of others hide nothing of ours.
        self._target_log = LogReader(target.client, isolation=READ_UNCOMMITTED)
        self._producer_id = producer.producer_id
        self._store = store
        self._settle_s = settle_s
        self._doubt = doubt
        self._search_s = search_s
        self._searches: dict[LaneRun, _Search] = {}
        self._rooms: dict[tuple[int, int], asyncio.Semaphore] = {}

    async def find(
        self, looks: Sequence[Look], may_write: Callable[[], bool] = lambda: True
    ) -> dict[LaneRun, float | None]:
        """The seconds after which to look again for each lane, `None` for those that are placed or have ended. Where
        there is much to search, that is done bit by bit, so that no lane waits for another.
        """
        if not looks:
            return {}
        try:
            await self._begin([look for look in looks if look.run.transit is None], may_write)
        except ClusterError as error:
            for look in looks:
                look.run.fail(state_of(error, LaneState.TARGET_UNAVAILABLE), str(error), error.hint)
            return {look.run: RETRY_S for look in looks}
        deadline = Deadline(self._search_s)
        delays = await asyncio.gather(*(self._guarded(look, deadline) for look in looks))
        return {look.run: delay for look, delay in zip(looks, delays, strict=True)}

    async def look_on(self, runs: Iterable[LaneRun], may_write: Callable[[], bool]) -> None:
        """Note for lanes with nothing on its way how far the target's log is: what comes of them lies behind that, and
        whoever looks for their places next needs not read what others wrote before. Who may not write any more by the
        time of the answer knows nothing: the next owner may have written before that end.
        """
        before = {run: run.transit.cursor for run in runs if _is_quiet(run) and run.transit is not None}
        epochs: dict[PartitionKey, int] = {}

        async def ends(connection: Connection, led: dict[PartitionKey, int]) -> dict[PartitionKey, Offset]:
            epochs.update(led)
            return await list_offsets(connection, led, LATEST)

        told = await self._target.ask((run.target for run in before), ends)
        for run, cursor in before.items():
            end, epoch = told.get(run.target), epochs.get(run.target, -1)
            if not isinstance(end, Offset) or end.error_code or epoch < 0 or run.transit is None:
                continue
            is_far = end.offset - max(cursor.target_offset, cursor.looked_to) >= _LOOK_ON_OFFSETS
            # What was sent meanwhile and not answered may lie before the end that was told.
            if is_far and may_write() and _is_quiet(run) and run.transit.cursor == cursor:
                run.transit.cursor = replace(cursor, looked_to=end.offset, looked_epoch=epoch)

    async def _begin(self, looks: Sequence[Look], may_write: Callable[[], bool]) -> None:
        """Learn how far lanes are, or say where they begin. Where nothing came behind that by the word of who had them
        last, it is said that this holds no more.
        """
        if not looks:
            return
        if self._store is None:
            raise ValueError("mapped lanes need a place for their maps")
        known = await self._store.load([look.run.lane for look in looks])
        new = [look for look in looks if look.run.lane.key not in known]
        begun = await self._origins(new)
        said = {run.lane: cursor for run, cursor in begun.items()} | _gone_on(looks, known)
        if not may_write():
            # What was read may be older than the word of the next owner.
            return
        if said:
            await self._store.begin(said)
        for run, _, _ in looks:
            if run in begun:
                run.transit = Transit(begun[run], is_final=True)
                continue
            found = known.get(run.lane.key)
            if isinstance(found, Problem):
                run.fail(LaneState.FAILED, found.message, found.hint)
            elif found is not None:
                run.transit = Transit.known(said.get(run.lane, found.cursor), *found[1:])

    async def _origins(self, looks: Sequence[Look]) -> dict[LaneRun, Cursor]:
        """Where lanes begin; those whose source does not tell now are left out."""
        at: dict[PartitionKey, int] = {
            look.run.source: look.run.lane.start
            for look in looks
            if look.run.lane.start not in (EARLIEST, LATEST) and look.run.lane.begin_offset < 0
        }
        asking = partial(list_offsets, timestamp=at)
        if EARLIEST_LOCAL in at.values():
            asking = partial(asking, min_version=EARLIEST_LOCAL_FROM)
        told = await self._source.ask(at, asking) if at else {}
        origins: dict[LaneRun, Cursor] = {}
        for run, target, source in looks:
            offset = {EARLIEST: source.start, LATEST: source.stable_end}.get(run.lane.start)
            left_out, epoch = 0, -1
            if run.lane.begin_offset >= 0:
                offset, left_out, epoch = run.lane.begin_offset, run.lane.begin_left_out, run.lane.begin_epoch
            if offset is None:
                answer = told.get(run.source)
                if answer is None or isinstance(answer, ClusterError) or answer.error_code:
                    run.hinder(LaneState.SOURCE_UNAVAILABLE, *_untold_origin(run, answer))
                    continue
                offset = answer.offset if answer.offset >= 0 else source.stable_end
            # A link that comes back to a topic has its producer still, and the leader may remember it: it counts on.
            first = 0 if target.producer is None else target.producer.last_sequence + 1
            origins[run] = Cursor(
                offset,
                first,
                target.log_end,
                source_epoch=epoch,
                first_ordinal=first,
                left_out=left_out,
                selection=run.lane.selection,
            )
        return origins

    async def _guarded(self, look: Look, deadline: Deadline) -> float | None:
        run = look.run
        if run.transit is None:
            return RETRY_S
        try:
            async with self._room(run):
                return await self._find(look, run.transit, deadline)
        except ClusterError as error:
            side = LaneState.SOURCE_UNAVAILABLE
            if error.cluster == self._target.client.cluster.alias:
                side = LaneState.TARGET_UNAVAILABLE
            run.fail(state_of(error, side), str(error), error.hint)
        except ValueError as error:
            run.fail(LaneState.BLOCKED, f"what lies behind the lane's place cannot be decoded: {error}")
        return self._doubt.pause_s

    def _room(self, run: LaneRun) -> asyncio.Semaphore:
        """So many are looked for at once of those that the same brokers lead: a silent one keeps no others waiting."""
        leaders = self._source.leader(*run.source), self._target.leader(*run.target)
        source, target = (-1 if leader is None else leader.node_id for leader in leaders)
        return self._rooms.setdefault((source, target), asyncio.Semaphore(_AT_ONCE))

    async def _find(self, look: Look, transit: Transit, deadline: Deadline) -> float | None:
        run, seen, limit = look
        search = self._searches.setdefault(run, _Search())
        if search.awaited_end < 0 or seen.log_end < search.awaited_end:
            search.awaited_end = seen.log_end
        if seen.high_watermark < search.awaited_end:
            problem = unreplicated(run.lane.key, search.awaited_end, seen.high_watermark)
            run.hinder(LaneState.TARGET_UNAVAILABLE, problem.message, problem.hint)
            return RETRY_S / 2
        end, search.awaited_end = search.awaited_end, -1
        if not await self._is_there(run, transit, limit, end):
            return self._beyond(run, search, limit, transit.cursor)
        found = await self._scan(look, transit, search, end, deadline)
        if found.is_lost and await self._rewinds(run, transit, end):
            found = await self._scan(look, transit, search, end, deadline)
        if found.is_lost:
            self._end(run, LaneState.DIVERGED, _lost_at_target(run, transit.cursor))
            return None
        if _is_told(look, transit):
            search.unseen_from = -1
        else:
            await self._note_unseen(look, search, found)
        # What arrived stays true, however much comes later: it is noted at once, and need not be read again.
        if not await self._counts(run, transit, found, limit, seen.leader_epoch):
            return self._beyond(run, search, limit, transit.cursor)
        if found.is_cut:
            search.unseen_from = search.scanned_to = -1
        if found.is_whole:
            return await self._settled(look, transit, search, end)
        search.doubts = 0
        return 0.0

    async def _settled(self, look: Look, transit: Transit, search: _Search, end: int) -> float | None:
        """Go on from where the lane was found, once nothing of it comes any more."""
        run, seen, limit = look
        reached = Searched(max(transit.cursor.ordinal, _remembered(seen.producer, transit.cursor)), end)
        now, held_until = time.monotonic(), run.writer.held_until
        # What a broker over its quota holds back comes in when it reads on.
        is_settled = now - search.looked_at >= self._settle_s and search.looked_at >= held_until
        if run.writer.abandoned and (reached.ordinal_end != search.ordinal_end or not is_settled):
            search.ordinal_end, search.looked_at, search.doubts = reached.ordinal_end, now, 0
            return max(self._settle_s, held_until - now)
        if search.unseen_from >= 0:
            start = await _log_start(self._target, run.target)
            self._end(run, LaneState.FAILED, untold(run.lane, search.unseen_from, start))
            return None
        # The target may have deleted by now what arrived last.
        if not await self._counts(run, transit, reached, limit, seen.leader_epoch):
            return self._beyond(run, search, limit, transit.cursor)
        self._searches.pop(run, None)
        transit.is_final = True
        await self._leap(run, transit)
        if self._passes_gap(run, transit, limit):
            run.writer.placed(transit.cursor.ordinal)
            leader = self._source.leader(*run.source)
            if leader is not None:
                run.believe_tail(leader.epoch)
        return None

    async def _counts(self, run: LaneRun, transit: Transit, found: Searched, limit: Bounds, leader_epoch: int) -> bool:
        """Take over what was found to have arrived, and how far was looked; whether the source has it."""
        recount = await self._recount(run, transit.cursor, found, limit)
        if recount is None:
            return False
        cursor = recount.cursor
        if leader_epoch >= 0 and found.scanned_to > cursor.target_offset:
            cursor = replace(cursor, looked_to=found.scanned_to, looked_epoch=leader_epoch)
        if cursor != transit.cursor:
            transit.resume(cursor, recount.ranges)
        return True

    async def _is_there(self, run: LaneRun, transit: Transit, limit: Bounds, end: int) -> bool:
        """Whether the source has what was copied before the lane's place, as far as that can be known. What it does not
        have of what was left out there is read anew.
        """
        cursor = transit.cursor
        if min(limit.stable_end, transit.lost_from) < cursor.copied_to:
            return False
        if transit.is_doubted or limit.stable_end < cursor.source_offset or self._is_unwatched(run, cursor):
            witness = await last_copied(self._source_log, self._target_log, self._producer_id, run, transit, end)
            if witness.is_lost:
                return False
            transit.believe(witness.epoch)
        return True

    def _is_unwatched(self, run: LaneRun, cursor: Cursor) -> bool:
        """Whether the source may have lost what was copied without a word: no leader epoch is known that it could hold
        against its log, and it has another leader than when that was last looked at.
        """
        leader = self._source.leader(*run.source)
        has_moved = leader is None or leader.epoch != run.source_epoch
        return cursor.has_appended and cursor.source_epoch < 0 and run.read_epoch < 0 and has_moved

    def _beyond(self, run: LaneRun, search: _Search, limit: Bounds, cursor: Cursor) -> float | None:
        """The source has not what was copied: a new leader may not know better yet."""
        search.doubts += 1
        if search.doubts < self._doubt.looks:
            why = f"the source ends at {limit.stable_end}, and has not all that was copied"
            run.fail(LaneState.SOURCE_UNAVAILABLE, why)
            return self._doubt.pause_s
        self._end(run, LaneState.DIVERGED, lost(run.lane, cursor, limit))
        return None

    def _end(self, run: LaneRun, state: LaneState, problem: Problem) -> None:
        self._searches.pop(run, None)
        run.fail(state, problem.message, problem.hint)

    async def _leap(self, run: LaneRun, transit: Transit) -> None:
        """Go past what another leaf got since the lane was here last, and select by what the lane is told now. Both are
        written down before anything is appended behind it: whoever counts what arrived has to know from where, and
        what was selected.
        """
        before, selection = transit.cursor, run.lane.selection
        after = replace(before, selection=selection)
        if before.selection not in (None, selection):
            # A late word of the owner before, of the same place, must not bring back the former selection.
            after = replace(after, rewound=before.rewound + 1)
        after = run.lane.begun(after)
        if after == before:
            return
        transit.resume(after)
        if self._store is None or after.reach == before.reach:
            # So it was selected before, as far as anybody knows.
            return
        try:
            await self._store.save({run.lane.key: transit}, term_s=_LEAP_S)
        except ClusterError:
            transit.resume(before)
            raise

    def _passes_gap(self, run: LaneRun, transit: Transit, limit: Bounds) -> bool:
        """Whether the lane may go on although the source begins above its place."""
        cursor = transit.cursor
        if cursor.source_offset >= limit.start:
            return True
        gap = missed(run.lane, cursor, limit)
        if gap is not None and not run.lane.continues_after_gap:
            problem = deleted(run.lane, gap)
            run.fail(LaneState.DATA_GAP, problem.message, problem.hint)
            return False
        if gap is not None and gap not in run.gaps:
            run.gaps.append(gap)
        transit.resume(replace(cursor, source_offset=limit.start, left_out=0))
        return True

    # The target's log

    async def _scan(self, look: Look, transit: Transit, search: _Search, end: int, deadline: Deadline) -> Searched:
        """What of ours lies behind the lane's place, before `end`: the first stretch that was not searched before."""
        run, seen, _ = look
        cursor, state = transit.cursor, seen.producer
        if state is not None and 0 <= state.last_sequence == (cursor.ordinal - 1) & SEQUENCE_MASK:
            return Searched(cursor.ordinal, end, is_whole=True)
        begin = await self._searched_to(run, cursor, seen.leader_epoch)
        if search.scanned_epoch == seen.leader_epoch:
            begin = max(begin, search.scanned_to)
        found = await scan(self._target_log, run.target, self._producer_id, cursor, begin, end, deadline=deadline)
        if found.is_short:
            if await _log_start(self._target, run.target) < end:
                raise _unread(self._target, run.target, found.scanned_to, end)
            if found.unseen_from < 0:
                found.unseen_from = found.scanned_to
            found.scanned_to, found.is_whole = end, True
        return found

    async def _note_unseen(self, look: Look, search: _Search, found: Searched) -> None:
        """Note what the target has deleted before anybody looked what of the lane lay there. How far was looked is not
        written down then, as that would say that nothing did.
        """
        if found.arrived or search.scanned_epoch != look.target.leader_epoch:
            search.unseen_from = -1
        if search.unseen_from < 0:
            search.unseen_from = found.unseen_from
        if search.unseen_from >= 0:
            start = await _log_start(self._target, look.run.target)
            if start < 0:
                raise _cut_short(self._target, look.run.target, search.unseen_from)
            search.scanned_to, search.scanned_epoch = found.scanned_to, look.target.leader_epoch
            found.scanned_to = min(found.scanned_to, search.unseen_from)

    async def _searched_to(self, run: LaneRun, cursor: Cursor, leader_epoch: int) -> int:
        """Where nobody has looked for records of ours yet. A log that was cut off since may have taken some of ours
        before that: the leader epoch of the look ends there.
        """
        if cursor.looked_to <= cursor.target_offset or cursor.looked_epoch < 0:
            return cursor.target_offset
        if cursor.looked_epoch != leader_epoch:
            asked = {run.target: cursor.looked_epoch}
            told = await self._target.ask(asked, lambda connection, led: epoch_ends(connection, led, asked))
            end = told.get(run.target)
            if not isinstance(end, Offset) or end.error_code or end.offset < cursor.looked_to:
                return cursor.target_offset
        return cursor.looked_to

    async def _rewinds(self, run: LaneRun, transit: Transit, end: int) -> bool:
        """Whether the lane went back to its last record that the target holds, by what its map tells of them."""
        if run.lane.level:
            # Others may have distributed what was lost: it would come to them once more.
            return False
        before = transit.cursor
        found = await last_held(self._target_log, run.target, self._producer_id, transit, end)
        if found is None:
            return False
        transit.rewind(found.ordinal_end, found.range)
        lost = before.ordinal - transit.cursor.ordinal
        _log.warning(
            "%s: the target lost %d records of ours (unclean leader election) and gets them again", run.lane.key, lost
        )
        return True

    # The source's log

    async def _recount(self, run: LaneRun, cursor: Cursor, found: Searched, limit: Bounds) -> Recount | None:
        """How far the lane is; `None` if the source has fewer records than were copied of it, or others."""
        if found.ordinal_end == cursor.ordinal:
            return Recount(cursor, [])
        recount = await self._recounted(run, cursor, found, limit)
        begin = max(cursor.source_offset, limit.start)
        # What is deleted while it is read is missing: others would be taken for what was copied.
        if not 0 <= await _log_start(self._source, run.source) <= begin:
            raise _cut_short(self._source, run.source, begin)
        return recount

    async def _recounted(self, run: LaneRun, cursor: Cursor, found: Searched, limit: Bounds) -> Recount | None:
        """The same by what the source gives, of which nothing may be deleted meanwhile."""
        deleted = max(limit.start - cursor.source_offset, 0)
        if deleted or run.lane.is_compacted:
            return await self._compared(run, cursor, found, limit, deleted)
        read, epochs, reached = Transit(cursor), set[int](), cursor.source_offset
        span = OffsetRange(*run.source, cursor.source_offset, limit.stable_end)
        async with aclosing(self._source_log.read(span)) as answers:
            async for stored in answers:
                if not await aside(_taken, read, stored, run.lane, found.ordinal_end, reached, epochs):
                    # A cleaner was here, whether or not the topic is compacted still: it may have taken copied ones.
                    return await self._compared(run, cursor, found, limit, deleted)
                reached = stored[-1].batch.offset_end
                if read.read_ordinal >= found.ordinal_end:
                    break
        if read.read_ordinal < found.ordinal_end:
            if reached < limit.stable_end:
                raise _unread(self._source, run.source, reached, limit.stable_end)
            return None
        recount = await aside(counted_anew, read, _without_gaps(found, cursor.ordinal))
        # The source may have had another leader since, which lost what was copied and has others in its place.
        if epochs != {cursor.source_epoch} and not await self._has_all(run, cursor, found, limit):
            return None
        return recount

    async def _compared(
        self, run: LaneRun, cursor: Cursor, found: Searched, limit: Bounds, deleted: int
    ) -> Recount | None:
        """The same of a source that may have lost some of what was copied, record by record."""
        held = await aside(found.held)
        count = found.ordinal_end - cursor.ordinal if held else 0
        source, is_whole = await self._records(run, cursor, limit, count)
        if not is_whole:
            # The rest is compared once this is counted.
            found.cut(cursor.ordinal + len(source))
            held = [one for one in held if one.ordinal < found.ordinal_end]
        recount = await aside(compared_anew, cursor, held, source, deleted=deleted)
        return recount._replace(cursor=replace(recount.cursor, ordinal=found.ordinal_end))

    async def _has_all(self, run: LaneRun, cursor: Cursor, found: Searched, limit: Bounds) -> bool:
        """Whether the target holds what the source has now; a target may give times of its own."""
        held = {one.ordinal: one.record for one in await aside(found.held)}
        ordinal = cursor.ordinal
        async with aclosing(self._copyable(run, cursor, limit)) as answers:
            async for records in answers:
                for record, _ in records:
                    there = held.pop(ordinal, None)
                    if there is not None and there[2:] != record[2:]:
                        return False
                    ordinal += 1
                if not held:
                    break
        return not held

    async def _records(self, run: LaneRun, cursor: Cursor, limit: Bounds, count: int) -> tuple[list[Sourced], bool]:
        """The first `count` records of the source that are copied from the cursor on, or as many as there are; and
        whether that is all, as memory holds only so many.
        """
        found: list[Sourced] = []
        size = 0
        if not count:
            return found, True
        async with aclosing(self._copyable(run, cursor, limit)) as answers:
            async for records in answers:
                found += records
                size += sum(len(record.key or b"") + len(record.value or b"") for record, _ in records)
                if len(found) >= count:
                    break
                if size >= _SOURCE_BYTES:
                    return found, False
        return found[:count], True

    async def _copyable(self, run: LaneRun, cursor: Cursor, limit: Bounds) -> AsyncGenerator[list[Sourced], None]:
        """The records of the source that are copied from the cursor on, as they are copied, answer by answer."""
        span = OffsetRange(*run.source, max(cursor.source_offset, limit.start), limit.stable_end)
        async with aclosing(self._source_log.read(span)) as answers:
            async for stored in answers:
                yield await aside(_copyable_of, stored, run.lane, cursor, span.offset_begin)


def _taken(
    read: Transit, stored: Iterable[StoredBatch], lane: Lane, ordinal_end: int, offset: int, epochs: set[int]
) -> bool:
    """Take what an answer of the source holds from an offset on, as it was selected then, and its leader epochs up to a
    record; whether all offsets are there up to that one.
    """
    level, flags = selection_of(lane, read.cursor)
    for batch, is_aborted in stored:
        if read.read_ordinal < ordinal_end:
            epochs.add(batch.leader_epoch)
            if batch.base_offset > offset or not batch.is_dense:
                return False
        offset = batch.offset_end
        read.take(Piece(batch, False, is_aborted), bytes_max=lane.batch_bytes_max, level=level, flags=flags)
    return True


def _copyable_of(stored: Iterable[StoredBatch], lane: Lane, cursor: Cursor, begin: int) -> list[Sourced]:
    """The records of an answer of the source that are copied, from an offset on."""
    level, flags = selection_of(lane, cursor)
    found: list[Sourced] = []
    for batch, is_aborted in stored:
        if not batch.is_control and not is_aborted and not is_done_with(batch.producer_id, level):
            records = [one for one in records_of(batch) if one.offset >= begin]
            records = records if flags is None else flagged(records, level, flags).records
            found += [Sourced(record, batch.leader_epoch) for record in records]
    return found


def _unread(routes: Routes, key: PartitionKey, offset: int, end: int) -> Unreachable:
    """A log gives less than it has: that says nothing of what it holds."""
    alias = routes.client.cluster.alias
    return Unreachable(
        f"{alias} gives nothing of {key[0]}-{key[1]} from offset {offset} on, although it ends at {end}",
        cluster=alias,
        hint="Isthmus reads again within seconds; if this stays, look at the log of the broker that leads it.",
    )


def _untold_origin(run: LaneRun, answer: Offset | ClusterError | None) -> tuple[str, str]:
    """What to say where the source does not tell at which offset a lane begins."""
    what = f"the source does not tell where {run.source[0]}-{run.source[1]} is to be read from"
    if isinstance(answer, ClusterError):
        return f"{what}: {answer}", answer.hint
    said = "" if answer is None else f": its leader says {codes.name_of(answer.error_code)}"
    return what + said, "Check that broker; the lane begins by itself when it answers."


def _cut_short(routes: Routes, key: PartitionKey, begin: int) -> Unreachable:
    """A log does not tell whether it still has all that was to be read of it."""
    alias = routes.client.cluster.alias
    return Unreachable(
        f"{alias} does not say that {key[0]}-{key[1]} still begins at offset {begin} or before, where it was read from",
        cluster=alias,
        hint="Isthmus reads again within seconds.",
    )


async def _log_start(routes: Routes, key: PartitionKey) -> int:
    """Where a log begins now; -1 if its leader does not tell."""
    told = (await routes.ask([key], partial(list_offsets, timestamp=EARLIEST))).get(key)
    return told.offset if isinstance(told, Offset) and not told.error_code else -1


def _without_gaps(found: Searched, ordinal: int) -> list[Arrived]:
    """What arrived, with what the target has deleted since in between: that lies nowhere any more."""
    whole: list[Arrived] = []
    for one in found.arrived:
        if one.ordinal > ordinal:
            whole.append(Arrived(ordinal, -1, one.ordinal - ordinal))
        whole.append(one)
        ordinal = one.ordinal_end
    if found.ordinal_end > ordinal:
        whole.append(Arrived(ordinal, -1, found.ordinal_end - ordinal))
    return whole


def _gone_on(looks: Iterable[Look], known: Mapping[LaneKey, Known | Problem]) -> dict[Lane, Cursor]:
    """Where lanes go on that are where they were left."""
    found = ((look, known.get(look.run.lane.key)) for look in looks)
    return {
        look.run.lane: _looked_up_to(each.cursor, look.target)
        for look, each in found
        if isinstance(each, Known) and each.is_final
    }


def _looked_up_to(cursor: Cursor, target: LogLook) -> Cursor:
    """A place behind which nothing of the lane lies: that holds of all that the log has now, whatever it deletes."""
    if target.leader_epoch < 0 or target.log_end <= cursor.target_offset:
        return cursor
    return replace(cursor, looked_to=target.log_end, looked_epoch=target.leader_epoch)


def _is_told(look: Look, transit: Transit) -> bool:
    """Whether it is known how far a lane is, whatever its target has deleted: its leader remembers, or nothing was sent
    that may lie behind.
    """
    state = look.target.producer
    is_remembered = state is not None and state.last_sequence >= 0
    return is_remembered or (transit.is_final and not look.run.writer.is_untold)


def _is_quiet(run: LaneRun) -> bool:
    """Whether nothing of a lane may be on its way."""
    return run.phase.is_placed and not (run.is_over or run.is_writing or run.writer.abandoned)


def _remembered(state: ProducerState | None, cursor: Cursor) -> int:
    """How many records of ours arrived, as the leader remembers."""
    return 0 if state is None or state.last_sequence < 0 else ordinal_of(state.last_sequence, cursor.ordinal) + 1


def _lost_at_target(run: LaneRun, cursor: Cursor) -> Problem:
    return Problem(
        f"the target has not at offset {cursor.target_offset - 1} any more what was appended there, nor what came "
        "before: it lost records (unclean leader election)",
        f"`isthmus verify --topic {run.lane.target_topic}` names what is missing. {way_out(run.lane)}",
    )
