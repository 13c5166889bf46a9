"""Finds where mapped lanes continue: compares their progress in the ledger with our batches in the target's logs.

The end of the target's log proves nothing, as others write there too. But every batch of ours carries our producer id
and the sequence of its first record, which is its ordinal. So the log shows how many records have arrived, with or
without an answer to their request, and whether or not the broker still keeps the state of our producer.
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

from isthmus.deadline import Deadline
from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import records_of
from isthmus.engine.brokers.aside import aside
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import Routes, SourceRoutes, TargetRoutes
from isthmus.engine.mapped.flagging import flagged, selection_of
from isthmus.engine.mapped.outlook import deleted, lost, missed, unexplained, untold, way_out
from isthmus.engine.mapped.recount import Arrived, Recount, Sourced, compared_anew, counted_anew, ordinal_of
from isthmus.engine.mapped.rewinding import last_held
from isthmus.engine.mapped.scanning import Searched, scan
from isthmus.engine.mapped.transit import NONE_DEPARTED, Transit
from isthmus.engine.mapped.witness import last_copied
from isthmus.engine.outlook import RETRY_S, USUAL_DOUBT, Doubt, state_of, unreplicated
from isthmus.engine.run import LaneRun, Look
from isthmus.engine.source import Bounds
from isthmus.engine.state.writer import LogLook, ProducerState
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import SEQUENCE_MASK
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.listoffsets import EARLIEST_LOCAL_FROM, READ_UNCOMMITTED, Offset, epoch_ends, list_offsets
from isthmus.kafka.log.reading import LogReader, OffsetRange, StoredBatch
from isthmus.model.copyflags import is_done_with
from isthmus.model.lane import NO_END, Lane, LaneKey, LaneState
from isthmus.model.naming import SourceTopicPartition, TargetTopicPartition, TopicT
from isthmus.model.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, Cursor, Departure
from isthmus.model.problem import Problem
from isthmus.model.translation import MappedRange

_AT_ONCE: Final = 16
_LEAP_S: Final = 10.0
_SEARCH_S: Final = 1.0
_LOOK_ON_OFFSETS: Final = 1_000
_SOURCE_BYTES: Final = 64 << 20
_log = logging.getLogger(__name__)


class Known(NamedTuple):
    """The state of a mapped lane in the ledger: its cursor, and the ranges from `ordinal_begin` on, which are to be
    stored again. It `is_final` if the previous owner reported that no record of the lane lies behind the cursor.
    `departed` are the records behind it that the previous owner had changed and may have sent.
    """

    cursor: Cursor
    ordinal_begin: int
    ranges: tuple[MappedRange, ...] = ()
    is_final: bool = False
    departed: Departure = NONE_DEPARTED


class _Unexplained(Exception):
    """It is not known which records of the source have arrived: the lane cannot go on."""


class MapStore(Protocol):
    """The store of the maps of mapped lanes. All methods raise `ClusterError` if it does not answer."""

    async def load(self, lanes: Collection[Lane]) -> Mapping[LaneKey, Known | Problem]:
        """Load the state of these lanes, or why it cannot be used; lanes that have not begun are missing."""

    async def begin(self, cursors: Mapping[Lane, Cursor]) -> None:
        """Store where lanes begin or continue, before any record of them is appended."""

    async def save(self, transits: Mapping[LaneKey, Transit], *, term_s: float) -> None:
        """Store the progress of lanes that have moved."""

    async def depart(self, departures: Mapping[LaneKey, Departure]) -> None:
        """Store where records come from that were changed, before they are sent. The same ones may come again."""


@dataclass(slots=True)
class _Search:
    """The results of earlier looks at a lane. `awaited_end` has to be replicated first, -1 while it is unknown. From
    `unseen_from` on the target deleted offsets that may have held records of ours, and the log was read up to
    `scanned_to` in leader epoch `scanned_epoch`; -1 if there are none.
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
        source: SourceRoutes,
        target: TargetRoutes,
        producer: ProducerIdentity,
        store: MapStore | None,
        *,
        settle_s: float,
        doubt: Doubt = USUAL_DOUBT,
        search_s: float = _SEARCH_S,
    ) -> None:
        self._source, self._target = source, target
        self._source_log = LogReader(source.client)
        # Uncommitted, so that open transactions of others do not hide our records.
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
        """Return the seconds after which to look again for each lane, `None` for those that are placed or have ended.
        Long searches are done in parts, so that no lane waits for another.
        """
        if not looks:
            return {}
        try:
            await self._begin([look for look in looks if look.run.needs_progress], may_write)
        except ClusterError as error:
            for look in looks:
                look.run.fail(state_of(error, LaneState.TARGET_UNAVAILABLE), str(error), error.hint)
            return {look.run: RETRY_S for look in looks}
        deadline = Deadline(self._search_s)
        delays = await asyncio.gather(*(self._find_guarded(look, deadline) for look in looks))
        return {look.run: delay for look, delay in zip(looks, delays, strict=True)}

    async def look_on(self, runs: Iterable[LaneRun], may_write: Callable[[], bool]) -> None:
        """Note the target's log end for lanes with no request in flight: their next records lie behind it, so that the
        next search need not read what others wrote before. The answer is ignored if this owner may not write any more
        by then: the next owner may have written before that end.
        """
        before = {run: run.transit.cursor for run in runs if _is_quiet(run) and run.transit is not None}
        epochs: dict[TargetTopicPartition, int] = {}

        async def ends(
            connection: Connection, led: dict[TargetTopicPartition, int]
        ) -> dict[TargetTopicPartition, Offset]:
            epochs.update(led)
            return await list_offsets(connection, led, LATEST)

        reported = await self._target.ask((run.target for run in before), ends)
        for run, cursor in before.items():
            end, epoch = reported.get(run.target), epochs.get(run.target, -1)
            if not isinstance(end, Offset) or end.error_code or epoch < 0 or run.transit is None:
                continue
            is_far = end.offset - max(cursor.target_offset, cursor.looked_to) >= _LOOK_ON_OFFSETS
            # Records sent meanwhile without an answer may lie before the reported end.
            if is_far and may_write() and _is_quiet(run) and run.transit.cursor == cursor:
                run.transit.look_on(end.offset, epoch)

    async def _begin(self, looks: Sequence[Look], may_write: Callable[[], bool]) -> None:
        """Load the progress of lanes, or store where they begin. Where the previous owner's cursor was final, store
        that this does not hold any more.
        """
        if not looks:
            return
        if self._store is None:
            raise ValueError("mapped lanes need a place for their maps")
        known = await self._store.load([look.run.lane for look in looks])
        unknown = [look for look in looks if look.run.lane.key not in known]
        # The ledger was lost: what is known here of these lanes is all there is.
        kept = {look.run: look.run.transit for look in unknown if look.run.transit is not None}
        begun = await self._find_origins([look for look in unknown if look.run not in kept])
        stored = {run.lane: cursor for run, cursor in begun.items()} | _continued_cursors(looks, known)
        stored |= {run.lane: transit.cursor for run, transit in kept.items()}
        if not may_write():
            # The next owner may have stored newer state than was read.
            return
        if stored:
            await self._store.begin(stored)
        for run, _, _ in looks:
            self._searches.pop(run, None)
            if run in kept:
                kept[run].confirm()
            if run in begun:
                run.begin(Transit(begun[run], is_final=True))
                continue
            found = known.get(run.lane.key)
            if isinstance(found, Problem):
                run.fail(LaneState.FAILED, found.message, found.hint)
            elif found is not None:
                run.begin(Transit.known(stored.get(run.lane, found.cursor), *found[1:]))

    async def _find_origins(self, looks: Sequence[Look]) -> dict[LaneRun, Cursor]:
        """Find where lanes begin. Lanes whose source does not answer now are left out."""
        at: dict[SourceTopicPartition, int] = {
            look.run.source: look.run.lane.start
            for look in looks
            if look.run.lane.start not in (EARLIEST, LATEST) and look.run.lane.begin_offset < 0
        }
        asking = partial(list_offsets, timestamp=at)
        if EARLIEST_LOCAL in at.values():
            asking = partial(asking, min_version=EARLIEST_LOCAL_FROM)
        reported = await self._source.ask(at, asking) if at else {}
        origins: dict[LaneRun, Cursor] = {}
        for run, target, source in looks:
            offset = {EARLIEST: source.start, LATEST: source.stable_end}.get(run.lane.start)
            left_out, epoch = 0, -1
            if run.lane.begin_offset >= 0:
                offset, left_out, epoch = run.lane.begin_offset, run.lane.begin_left_out, run.lane.begin_epoch
            if offset is None:
                answer = reported.get(run.source)
                if answer is None or isinstance(answer, ClusterError) or answer.error_code:
                    run.hinder(LaneState.SOURCE_UNAVAILABLE, *_explain_unknown_origin(run, answer))
                    continue
                offset = answer.offset if answer.offset >= 0 else source.stable_end
            # If a link returns to a topic, the leader may still keep the state of its producer: continue its sequence.
            first = 0 if target.producer is None else target.producer.last_sequence + 1
            origins[run] = Cursor(
                offset,
                first,
                target.log_end,
                source_epoch=epoch,
                first_ordinal=first,
                left_out=left_out,
                selection=run.lane.selection,
                transform=run.lane.transform,
            )
        return origins

    async def _find_guarded(self, look: Look, deadline: Deadline) -> float | None:
        run = look.run
        if run.transit is None or run.needs_progress:
            return RETRY_S
        try:
            async with self._room(run):
                return await self._find(look, run.transit, deadline)
        except ClusterError as error:
            side = LaneState.SOURCE_UNAVAILABLE
            if error.cluster == self._target.client.cluster.alias:
                side = LaneState.TARGET_UNAVAILABLE
            run.fail(state_of(error, side), str(error), error.hint)
        except _Unexplained:
            self._end(run, LaneState.FAILED, unexplained(run.lane))
            return None
        except ValueError as error:
            run.fail(LaneState.BLOCKED, f"what lies behind the lane's place cannot be decoded: {error}")
        return self._doubt.pause_s

    def _room(self, run: LaneRun) -> asyncio.Semaphore:
        """Limit the searches at once of lanes with the same two leaders, so that a silent broker delays no others."""
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
        if not await self._is_at_source(run, transit, limit, end):
            return self._doubt_or_end(run, search, limit, transit.cursor)
        found = await self._scan(look, transit, search, end, deadline)
        if found.is_lost and await self._rewind(run, transit, end):
            found = await self._scan(look, transit, search, end, deadline)
        if found.is_lost:
            self._end(run, LaneState.DIVERGED, _lost_at_target(run, transit.cursor))
            return None
        if _is_progress_known(look, transit):
            search.unseen_from = -1
        else:
            await self._note_unseen(look, search, found)
        # Note the arrived records at once, so that they need not be read again.
        if not await self._advance(run, transit, found, limit, seen.leader_epoch):
            return self._doubt_or_end(run, search, limit, transit.cursor)
        if found.is_cut:
            search.unseen_from = search.scanned_to = -1
        if found.is_whole:
            return await self._settle(look, transit, search, end)
        search.doubts = 0
        return 0.0

    async def _settle(self, look: Look, transit: Transit, search: _Search, end: int) -> float | None:
        """Place the lane where it was found, once no earlier request of it can arrive any more."""
        run, seen, limit = look
        reached = Searched(max(transit.cursor.ordinal, _count_remembered(seen.producer, transit.cursor)), end)
        now, held_until = time.monotonic(), run.writer.held_until
        # Requests that a broker has not read yet because of a quota (KIP-219) arrive when it reads on.
        is_settled = now - search.looked_at >= self._settle_s and search.looked_at >= held_until
        if run.writer.abandoned and (reached.ordinal_end != search.ordinal_end or not is_settled):
            search.ordinal_end, search.looked_at, search.doubts = reached.ordinal_end, now, 0
            return max(self._settle_s, held_until - now)
        if search.unseen_from >= 0:
            start = await _log_start(self._target, run.target)
            self._end(run, LaneState.FAILED, untold(run.lane, search.unseen_from, start))
            return None
        # The target may have deleted the last arrived records by now.
        if not await self._advance(run, transit, reached, limit, seen.leader_epoch):
            return self._doubt_or_end(run, search, limit, transit.cursor)
        self._searches.pop(run, None)
        transit.finish()
        await self._skip_copied(run, transit)
        if self._passes_gap(run, transit, limit):
            run.writer.placed(transit.cursor.ordinal)
            leader = self._source.leader(*run.source)
            if leader is not None:
                run.belief.believe(leader.epoch)
        return None

    async def _advance(self, run: LaneRun, transit: Transit, found: Searched, limit: Bounds, leader_epoch: int) -> bool:
        """Advance the transit by the arrived records and the search position. Return whether the source has them."""
        if transit.cursor.transform:
            return await self._advance_changed(run, transit, found, limit, leader_epoch)
        recount = await self._recount(run, transit.cursor, found, limit)
        if recount is None:
            return False
        cursor = recount.cursor
        if leader_epoch >= 0 and found.scanned_to > cursor.target_offset:
            cursor = replace(cursor, looked_to=found.scanned_to, looked_epoch=leader_epoch)
        if cursor != transit.cursor:
            transit.resume(cursor, recount.ranges)
        return True

    async def _advance_changed(
        self, run: LaneRun, transit: Transit, found: Searched, limit: Bounds, leader_epoch: int
    ) -> bool:
        """Advance the transit as `_advance` does, by the stored stretches: the source is not read, as its records were
        changed.

        :raises _Unexplained: The stretches do not cover all arrived records.
        """
        has_arrived = found.ordinal_end > transit.cursor.ordinal
        if not transit.covers(found.ordinal_end):
            raise _Unexplained
        for one in _fill_gaps(found, transit.cursor.ordinal):
            transit.appended(one.length, one.target_begin)
        if leader_epoch >= 0 and found.scanned_to > transit.cursor.target_offset:
            transit.look_on(found.scanned_to, leader_epoch)
        if not has_arrived:
            return True
        # Until the source is known to have them, also if the question fails.
        transit.doubt(NO_END)
        cursor = transit.cursor
        is_there = cursor.copied_to <= min(limit.stable_end, transit.lost_from)
        if not is_there or not await self._has_epoch(run, cursor, limit):
            return False
        transit.believe(cursor.source_epoch)
        return True

    async def _has_epoch(self, run: LaneRun, cursor: Cursor, limit: Bounds) -> bool:
        """Whether the source has the copied records, by the leader epoch of the last one: a log that lost any of them
        goes on in a later epoch, and its earlier ones end before. Without an epoch nothing speaks against it.

        :raises ClusterError: The source does not answer.
        """
        if cursor.source_epoch < 0 or cursor.copied_to <= limit.start:
            return True
        asked = {run.source: cursor.source_epoch}
        reported = await self._source.ask(asked, lambda connection, led: epoch_ends(connection, led, asked))
        end = reported.get(run.source)
        if not isinstance(end, Offset) or end.error_code:
            raise _unread_error(self._source, run.source, cursor.copied_to, limit.stable_end)
        return end.offset >= cursor.copied_to

    async def _is_at_source(self, run: LaneRun, transit: Transit, limit: Bounds, end: int) -> bool:
        """Whether the source has the records copied before the lane's place, as far as that can be known. If it has
        lost offsets that were left out there, they are read again.
        """
        cursor = transit.cursor
        if min(limit.stable_end, transit.lost_from) < cursor.copied_to:
            return False
        is_in_doubt = transit.is_doubted or limit.stable_end < cursor.source_offset
        if cursor.transform:
            # The records of both sides differ.
            if is_in_doubt and not await self._has_epoch(run, cursor, limit):
                return False
            if is_in_doubt:
                transit.believe(cursor.source_epoch)
        elif is_in_doubt or self._is_unwatched(run, cursor):
            witness = await last_copied(self._source_log, self._target_log, self._producer_id, run, transit, end)
            if witness.is_lost:
                return False
            transit.believe(witness.epoch)
        return True

    def _is_unwatched(self, run: LaneRun, cursor: Cursor) -> bool:
        """Whether the source may have lost copied records unnoticed: no leader epoch is known that it could compare
        with its log, and it has another leader than at the last check.
        """
        leader = self._source.leader(*run.source)
        has_moved = leader is None or leader.epoch != run.belief.source_epoch
        return cursor.has_appended and cursor.source_epoch < 0 and run.intake.read_epoch < 0 and has_moved

    def _doubt_or_end(self, run: LaneRun, search: _Search, limit: Bounds, cursor: Cursor) -> float | None:
        """The source lacks copied records: end the lane after enough looks, as a new leader may lag."""
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

    async def _skip_copied(self, run: LaneRun, transit: Transit) -> None:
        """Skip records that another leaf got since this lane last ran, and use the lane's present selection and
        transform. All are stored before any record is appended behind: a later count of the arrived records needs to
        know where it begins, and how they were made.
        """
        before, selection = transit.cursor, run.lane.selection
        after = replace(before, selection=selection, transform=run.lane.transform)
        if before.selection not in (None, selection) or before.transform != run.lane.transform:
            # A late save of the previous owner, for the same place, must not restore the former selection.
            after = replace(after, rewound=before.rewound + 1)
        after = run.lane.find_start(after)
        # Records that are changed count from the stored place on. So it has to be this one, also if it was just found.
        # Where a lane went back or lost its transform, what was written of how its records were made holds no more.
        is_due = bool(after.transform or after.rewound) or after.reach != before.reach
        if after == before and not is_due:
            return
        transit.go_on(after)
        if self._store is not None and is_due:
            # Else the stored selection is the same as far as known.
            try:
                await self._store.save({run.lane.key: transit}, term_s=_LEAP_S)
            except ClusterError:
                transit.go_on(before)
                raise
        transit.resume(after)

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
        if gap is not None:
            run.missing.pass_gap(gap)
        transit.resume(replace(cursor, source_offset=limit.start, left_out=0))
        return True

    # The target's log

    async def _scan(self, look: Look, transit: Transit, search: _Search, end: int, deadline: Deadline) -> Searched:
        """Search the next stretch of the target's log behind the lane's place, before `end`, for batches of ours."""
        run, seen, _ = look
        cursor, state = transit.cursor, seen.producer
        if state is not None and 0 <= state.last_sequence == (cursor.ordinal - 1) & SEQUENCE_MASK:
            return Searched(cursor.ordinal, end, is_whole=True)
        begin = await self._find_search_begin(run, cursor, seen.leader_epoch)
        if search.scanned_epoch == seen.leader_epoch:
            begin = max(begin, search.scanned_to)
        found = await scan(self._target_log, run.target, self._producer_id, cursor, begin, end, deadline=deadline)
        if found.is_short:
            if await _log_start(self._target, run.target) < end:
                raise _unread_error(self._target, run.target, found.scanned_to, end)
            if found.unseen_from < 0:
                found.unseen_from = found.scanned_to
            found.scanned_to, found.is_whole = end, True
        return found

    async def _note_unseen(self, look: Look, search: _Search, found: Searched) -> None:
        """Note offsets that the target deleted before they were searched for records of the lane. The stored search
        position stays before them then, as it would claim that no record of the lane lay there.
        """
        if found.arrived or search.scanned_epoch != look.target.leader_epoch:
            search.unseen_from = -1
        if search.unseen_from < 0:
            search.unseen_from = found.unseen_from
        if search.unseen_from >= 0:
            start = await _log_start(self._target, look.run.target)
            if start < 0:
                raise _cut_short_error(self._target, look.run.target, search.unseen_from)
            search.scanned_to, search.scanned_epoch = found.scanned_to, look.target.leader_epoch
            found.scanned_to = min(found.scanned_to, search.unseen_from)

    async def _find_search_begin(self, run: LaneRun, cursor: Cursor, leader_epoch: int) -> int:
        """Return the offset from which to search the target's log: the end of the last search. It is the lane's place
        if there was none, or if the log may have been truncated below that end since: records of ours may be lost. It
        was not if the leader epoch of that search is the present one, or ends at that end or above.
        """
        if cursor.looked_to <= cursor.target_offset or cursor.looked_epoch < 0:
            return cursor.target_offset
        if cursor.looked_epoch != leader_epoch:
            asked = {run.target: cursor.looked_epoch}
            reported = await self._target.ask(asked, lambda connection, led: epoch_ends(connection, led, asked))
            end = reported.get(run.target)
            if not isinstance(end, Offset) or end.error_code or end.offset < cursor.looked_to:
                return cursor.target_offset
        return cursor.looked_to

    async def _rewind(self, run: LaneRun, transit: Transit, end: int) -> bool:
        """Rewind the lane to its last record that the target holds, by its map. Return whether it was rewound."""
        if run.lane.level:
            # Others may have distributed the lost records: they would get them a second time.
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
        """Find the lane's cursor; `None` if the source has fewer records than were copied, or other ones."""
        if found.ordinal_end == cursor.ordinal:
            return Recount(cursor, [])
        recount = await self._count_read(run, cursor, found, limit)
        begin = max(cursor.source_offset, limit.start)
        # Records deleted during the count are missing: others would be taken for the copied ones.
        if not 0 <= await _log_start(self._source, run.source) <= begin:
            raise _cut_short_error(self._source, run.source, begin)
        return recount

    async def _count_read(self, run: LaneRun, cursor: Cursor, found: Searched, limit: Bounds) -> Recount | None:
        """Find the lane's cursor by reading the source, whose log may not lose records meanwhile."""
        deleted = max(limit.start - cursor.source_offset, 0)
        if deleted or run.lane.is_compacted:
            return await self._count_by_comparing(run, cursor, found, limit, deleted)
        read, epochs, reached = Transit(cursor), set[int](), cursor.source_offset
        span = OffsetRange(*run.source, cursor.source_offset, limit.stable_end)
        async with aclosing(self._source_log.read(span)) as answers:
            async for stored in answers:
                if not await aside(_take_answer, read, stored, run.lane, found.ordinal_end, reached, epochs):
                    # A log cleaner made holes, even if the topic is not compacted now: copied records may be gone.
                    return await self._count_by_comparing(run, cursor, found, limit, deleted)
                reached = stored[-1].batch.offset_end
                if read.read_ordinal >= found.ordinal_end:
                    break
        if read.read_ordinal < found.ordinal_end:
            if reached < limit.stable_end:
                raise _unread_error(self._source, run.source, reached, limit.stable_end)
            return None
        recount = await aside(counted_anew, read, _fill_gaps(found, cursor.ordinal))
        # The source may have had another leader since, with other records in place of the copied ones.
        if epochs != {cursor.source_epoch} and not await self._has_all(run, cursor, found, limit):
            return None
        return recount

    async def _count_by_comparing(
        self, run: LaneRun, cursor: Cursor, found: Searched, limit: Bounds, deleted: int
    ) -> Recount | None:
        """Find the lane's cursor record by record: the source may have lost some of the copied records."""
        held = await aside(found.held)
        count = found.ordinal_end - cursor.ordinal if held else 0
        source, is_whole = await self._read_records(run, cursor, limit, count)
        if not is_whole:
            # The rest is compared once this is counted.
            found.cut(cursor.ordinal + len(source))
            held = [one for one in held if one.ordinal < found.ordinal_end]
        recount = await aside(compared_anew, cursor, held, source, deleted=deleted)
        return recount._replace(cursor=replace(recount.cursor, ordinal=found.ordinal_end))

    async def _has_all(self, run: LaneRun, cursor: Cursor, found: Searched, limit: Bounds) -> bool:
        """Whether the target holds the source's present records. Timestamps are ignored: the target may set its own."""
        held = {one.ordinal: one.record for one in await aside(found.held)}
        ordinal = cursor.ordinal
        async with aclosing(self._read_copyable(run, cursor, limit)) as answers:
            async for records in answers:
                for record, _ in records:
                    there = held.pop(ordinal, None)
                    if there is not None and there[2:] != record[2:]:
                        return False
                    ordinal += 1
                if not held:
                    break
        return not held

    async def _read_records(
        self, run: LaneRun, cursor: Cursor, limit: Bounds, count: int
    ) -> tuple[list[Sourced], bool]:
        """Read the first `count` records of the source that are copied from the cursor on, or as many as there are.
        Return them and whether they are complete: memory limits how many are read.
        """
        found: list[Sourced] = []
        size = 0
        if not count:
            return found, True
        async with aclosing(self._read_copyable(run, cursor, limit)) as answers:
            async for records in answers:
                found += records
                size += sum(len(record.key or b"") + len(record.value or b"") for record, _ in records)
                if len(found) >= count:
                    break
                if size >= _SOURCE_BYTES:
                    return found, False
        return found[:count], True

    async def _read_copyable(self, run: LaneRun, cursor: Cursor, limit: Bounds) -> AsyncGenerator[list[Sourced], None]:
        """Yield the records of the source from the cursor on as they are copied, answer by answer."""
        span = OffsetRange(*run.source, max(cursor.source_offset, limit.start), limit.stable_end)
        async with aclosing(self._source_log.read(span)) as answers:
            async for stored in answers:
                yield await aside(_select_copyable, stored, run.lane, cursor, span.offset_begin)


def _take_answer(
    read: Transit, stored: Iterable[StoredBatch], lane: Lane, ordinal_end: int, offset: int, epochs: set[int]
) -> bool:
    """Take the records of an answer of the source from `offset` on into `read`, by the selection of its cursor, and
    the leader epochs up to `ordinal_end`. Return whether no offset up to there is missing.
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


def _select_copyable(stored: Iterable[StoredBatch], lane: Lane, cursor: Cursor, begin: int) -> list[Sourced]:
    """Return the records of an answer of the source that are copied, from offset `begin` on."""
    level, flags = selection_of(lane, cursor)
    found: list[Sourced] = []
    for batch, is_aborted in stored:
        if not batch.is_control and not is_aborted and not is_done_with(batch.producer_id, level):
            records = [one for one in records_of(batch) if one.offset >= begin]
            records = records if flags is None else flagged(records, level, flags).records
            found += [Sourced(record, batch.leader_epoch) for record in records]
    return found


def _unread_error(routes: Routes[TopicT], key: tuple[TopicT, int], offset: int, end: int) -> Unreachable:
    """The error that a log returns fewer records than it has, which proves nothing about them."""
    alias = routes.client.cluster.alias
    return Unreachable(
        f"{alias} gives nothing of {key[0]}-{key[1]} from offset {offset} on, although it ends at {end}",
        cluster=alias,
        hint="Isthmus reads again within seconds; if this stays, look at the log of the broker that leads it.",
    )


def _explain_unknown_origin(run: LaneRun, answer: Offset | ClusterError | None) -> tuple[str, str]:
    """The message and hint if the source does not answer at which offset a lane begins."""
    what = f"the source does not report the offset from which {run.source[0]}-{run.source[1]} is to be read"
    if isinstance(answer, ClusterError):
        return f"{what}: {answer}", answer.hint
    reason = "" if answer is None else f": its leader says {codes.name_of(answer.error_code)}"
    return what + reason, "Check that broker; the lane begins by itself when it answers."


def _cut_short_error(routes: Routes[TopicT], key: tuple[TopicT, int], begin: int) -> Unreachable:
    """The error that a log start is unknown, or above where reading began, so that records may be missing."""
    alias = routes.client.cluster.alias
    return Unreachable(
        f"{alias} does not confirm that {key[0]}-{key[1]} still begins at offset {begin} or before, where the lane "
        "read it",
        cluster=alias,
        hint="Isthmus reads again within seconds.",
    )


async def _log_start(routes: Routes[TopicT], key: tuple[TopicT, int]) -> int:
    """Ask where a log begins now; -1 if its leader does not answer."""
    reported = (await routes.ask([key], partial(list_offsets, timestamp=EARLIEST))).get(key)
    return reported.offset if isinstance(reported, Offset) and not reported.error_code else -1


def _fill_gaps(found: Searched, ordinal: int) -> list[Arrived]:
    """The arrived records, and those in between that the target has deleted since, with target offset -1."""
    whole: list[Arrived] = []
    for one in found.arrived:
        if one.ordinal > ordinal:
            whole.append(Arrived(ordinal, -1, one.ordinal - ordinal))
        whole.append(one)
        ordinal = one.ordinal_end
    if found.ordinal_end > ordinal:
        whole.append(Arrived(ordinal, -1, found.ordinal_end - ordinal))
    return whole


def _continued_cursors(looks: Iterable[Look], known: Mapping[LaneKey, Known | Problem]) -> dict[Lane, Cursor]:
    """The cursors of lanes that are exactly where the previous owner left them."""
    found = ((look, known.get(look.run.lane.key)) for look in looks)
    return {
        look.run.lane: _mark_searched(each.cursor, look.target)
        for look, each in found
        if isinstance(each, Known) and each.is_final
    }


def _mark_searched(cursor: Cursor, target: LogLook) -> Cursor:
    """A final cursor, marked as searched up to the present log end, whatever the target deletes later."""
    if target.leader_epoch < 0 or target.log_end <= cursor.target_offset:
        return cursor
    return replace(cursor, looked_to=target.log_end, looked_epoch=target.leader_epoch)


def _is_progress_known(look: Look, transit: Transit) -> bool:
    """Whether the lane's progress is known whatever its target has deleted: the leader keeps the producer's state, or
    no record was sent that may lie behind.
    """
    state = look.target.producer
    is_remembered = state is not None and state.last_sequence >= 0
    return is_remembered or (transit.is_final and not look.run.writer.is_untold)


def _is_quiet(run: LaneRun) -> bool:
    """Whether no request of a lane may be on its way."""
    return run.phase.is_placed and not (run.is_over or run.is_writing or run.writer.abandoned)


def _count_remembered(state: ProducerState | None, cursor: Cursor) -> int:
    """The ordinal behind the last record of ours by the leader's producer state, 0 without one."""
    return 0 if state is None or state.last_sequence < 0 else ordinal_of(state.last_sequence, cursor.ordinal) + 1


def _lost_at_target(run: LaneRun, cursor: Cursor) -> Problem:
    return Problem(
        f"the target no longer has the record that was appended at offset {cursor.target_offset - 1}, nor the one "
        "before: it lost records (unclean leader election)",
        f"`isthmus verify --topic {run.lane.target_topic}` names the missing records. {way_out(run.lane)}",
    )
