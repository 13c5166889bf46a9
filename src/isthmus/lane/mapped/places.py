"""Where mapped lanes go on: what the ledger knows of them, held against what the target's logs hold of ours.

The end of the target's log says nothing: others write there too. But every batch of ours carries our producer id and
the sequence of its first record, which is its ordinal. So the log itself says how many records have arrived, whatever
became of the request that brought them, and whether or not the broker remembers our producer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple, Protocol

from isthmus.cluster.reading import LogReader, OffsetRange
from isthmus.errors import ClusterError
from isthmus.lane.mapped.flagging import flagged
from isthmus.lane.mapped.outlook import deleted, lost, missed, way_out
from isthmus.lane.mapped.recount import Arrived, Held, Recount, are_alike, compared_anew, counted_anew, ordinal_of, ours
from isthmus.lane.mapped.rewinding import last_held
from isthmus.lane.mapped.transit import Transit
from isthmus.lane.mapped.witness import last_copied
from isthmus.lane.outlook import RETRY_S, USUAL_DOUBT, Doubt, state_of, unreplicated
from isthmus.lane.pieces import Piece
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.rebatch import Record, records_of
from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun, Look
from isthmus.lane.source import Bounds
from isthmus.lane.writer import ProducerState
from isthmus.model.copyflags import is_done_with
from isthmus.model.lane import Lane, LaneKey, LaneState
from isthmus.model.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, Cursor
from isthmus.model.problem import Problem
from isthmus.model.translation import MappedRange
from isthmus.wire.batch import SEQUENCE_MASK, Batch
from isthmus.wire.offsets import EARLIEST_LOCAL_FROM, READ_UNCOMMITTED, PartitionKey, list_offsets

_AT_ONCE: Final = 16
_LEAP_S: Final = 10.0
_log = logging.getLogger(__name__)


class Known(NamedTuple):
    """What the ledger knows of a mapped lane: how far it was, and the ranges from `ordinal_begin` on, which are to be
    written down once more.
    """

    cursor: Cursor
    ordinal_begin: int
    ranges: tuple[MappedRange, ...] = ()


class MapStore(Protocol):
    """Where the maps of mapped lanes are kept. Both raise `ClusterError` where that does not answer."""

    async def load(self, lanes: Collection[Lane]) -> Mapping[LaneKey, Known | Problem]:
        """What is known of these lanes by now, or why it is of no use; those that have not begun are missing."""

    async def begin(self, cursors: Mapping[Lane, Cursor]) -> None:
        """Write down where lanes begin, before anything of them is appended."""

    async def save(self, transits: Mapping[LaneKey, Transit], *, term_s: float) -> None:
        """Write down how far lanes are that have moved."""


@dataclass(slots=True)
class _Search:
    """What earlier looks at a lane have brought. `awaited_end` has to be replicated first, -1 while it is unknown."""

    awaited_end: int = -1
    ordinal_end: int = -1
    looked_at: float = 0.0
    doubts: int = 0


@dataclass(slots=True)
class _Found:
    """What the target's log holds of ours from the cursor on."""

    ordinal_end: int
    arrived: list[Arrived] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    is_lost: bool = False

    @property
    def held(self) -> list[Held]:
        """The records themselves."""
        return [
            Held(arrived.ordinal + record.offset - arrived.target_begin, record)
            for arrived, batch in zip(self.arrived, self.batches, strict=True)
            for record in records_of(batch)
            if record.offset >= arrived.target_begin
        ]


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
    ) -> None:
        self._source, self._target = source, target
        self._source_log = LogReader(source.client)
        # Open transactions of others hide nothing of ours.
        self._target_log = LogReader(target.client, isolation=READ_UNCOMMITTED)
        self._producer_id = producer.producer_id
        self._store = store
        self._settle_s = settle_s
        self._doubt = doubt
        self._searches: dict[LaneRun, _Search] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def find(self, looks: Sequence[Look]) -> dict[LaneRun, float | None]:
        """The seconds after which to look again for each lane, `None` for those that are placed or have ended."""
        if not looks:
            return {}
        try:
            await self._begin([look for look in looks if look.run.transit is None])
        except ClusterError as error:
            for look in looks:
                look.run.fail(state_of(error, LaneState.TARGET_UNAVAILABLE), str(error), error.hint)
            return {look.run: RETRY_S for look in looks}
        delays = await asyncio.gather(*(self._guarded(look) for look in looks))
        return {look.run: delay for look, delay in zip(looks, delays, strict=True)}

    async def _begin(self, looks: Sequence[Look]) -> None:
        """Learn how far lanes are, or say where they begin."""
        if not looks:
            return
        if self._store is None:
            raise ValueError("mapped lanes need a place for their maps")
        known = await self._store.load([look.run.lane for look in looks])
        new = [look for look in looks if look.run.lane.key not in known]
        begun = await self._origins(new)
        if begun:
            await self._store.begin({run.lane: cursor for run, cursor in begun.items()})
        for run, _, _ in looks:
            if run in begun:
                run.transit = Transit(begun[run])
                continue
            found = known.get(run.lane.key)
            if isinstance(found, Problem):
                run.fail(LaneState.FAILED, found.message, found.hint)
            elif found is not None:
                run.transit = Transit.known(*found)

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
            if run.lane.begin_offset >= 0:
                offset = run.lane.begin_offset
            if offset is None:
                answer = told.get(run.source)
                if answer is None or isinstance(answer, ClusterError) or answer.error_code:
                    continue
                offset = answer.offset if answer.offset >= 0 else source.stable_end
            # A link that comes back to a topic has its producer still, and the leader may remember it: it counts on.
            first = 0 if target.producer is None else target.producer.last_sequence + 1
            origins[run] = Cursor(offset, first, target.log_end, first_ordinal=first)
        return origins

    async def _guarded(self, look: Look) -> float | None:
        run = look.run
        if run.transit is None:
            return RETRY_S
        try:
            async with self._room:
                return await self._find(look, run.transit)
        except ClusterError as error:
            side = LaneState.SOURCE_UNAVAILABLE
            if error.cluster == self._target.client.cluster.alias:
                side = LaneState.TARGET_UNAVAILABLE
            run.fail(state_of(error, side), str(error), error.hint)
        except ValueError as error:
            run.fail(LaneState.BLOCKED, f"what lies behind the lane's place cannot be decoded: {error}")
        return self._doubt.pause_s

    async def _find(self, look: Look, transit: Transit) -> float | None:
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
        cursor = transit.cursor
        found = await self._scan(run, cursor, end, seen.producer)
        if found.is_lost and await self._rewinds(run, transit, end):
            cursor = transit.cursor
            found = await self._scan(run, cursor, end, seen.producer)
        if found.is_lost:
            problem = _lost_at_target(run, cursor)
            run.fail(LaneState.DIVERGED, problem.message, problem.hint)
            self._searches.pop(run, None)
            return None
        now, held_until = time.monotonic(), run.writer.held_until
        # What a broker over its quota holds back comes in when it reads on.
        is_settled = now - search.looked_at >= self._settle_s and search.looked_at >= held_until
        if run.writer.abandoned and (found.ordinal_end != search.ordinal_end or not is_settled):
            search.ordinal_end, search.looked_at = found.ordinal_end, now
            return max(self._settle_s, held_until - now)
        recount = await self._recount(run, cursor, found, limit)
        if recount is None:
            return self._beyond(run, search, limit, cursor)
        self._searches.pop(run, None)
        transit.resume(recount.cursor, recount.ranges)
        await self._leap(run, transit)
        if self._passes_gap(run, transit, limit):
            run.writer.placed(transit.cursor.ordinal)
            leader = self._source.leader(*run.source)
            if leader is not None:
                run.believe_tail(leader.epoch)
        return None

    async def _is_there(self, run: LaneRun, transit: Transit, limit: Bounds, end: int) -> bool:
        """Whether the source has what was copied before the lane's place, as far as that can be known. What it does not
        have of what was left out there is read anew.
        """
        cursor = transit.cursor
        if min(limit.stable_end, transit.lost_from) < cursor.copied_to:
            return False
        if transit.is_doubted or limit.stable_end < cursor.source_offset:
            witness = await last_copied(self._source_log, self._target_log, self._producer_id, run, transit, end)
            if witness.is_lost:
                return False
            transit.believe(witness.epoch)
        return True

    def _beyond(self, run: LaneRun, search: _Search, limit: Bounds, cursor: Cursor) -> float | None:
        """The source has not what was copied: a new leader may not know better yet."""
        search.doubts += 1
        if search.doubts < self._doubt.looks:
            why = f"the source ends at {limit.stable_end}, and has not all that was copied"
            run.fail(LaneState.SOURCE_UNAVAILABLE, why)
            return self._doubt.pause_s
        self._searches.pop(run, None)
        problem = lost(run.lane, cursor, limit)
        run.fail(LaneState.DIVERGED, problem.message, problem.hint)
        return None

    async def _leap(self, run: LaneRun, transit: Transit) -> None:
        """Go past what another leaf got since the lane was here last. It is written down before anything is appended
        behind it: whoever counts what arrived has to know from where.
        """
        before = transit.cursor
        if before.source_offset >= run.lane.begin_offset or self._store is None:
            return
        transit.resume(replace(before, source_offset=run.lane.begin_offset, left_out=0))
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

    async def _scan(self, run: LaneRun, cursor: Cursor, end: int, state: ProducerState | None) -> _Found:
        """What of ours lies at or behind the cursor's target offset, before `end`."""
        if (
            state is not None
            and state.last_sequence >= 0
            and state.last_sequence == (cursor.ordinal - 1) & SEQUENCE_MASK
        ):
            return _Found(cursor.ordinal)
        # From the last record that is known to be ours: without it the log is another one than before.
        begin = cursor.target_offset - (1 if cursor.has_appended else 0)
        found = _Found(cursor.ordinal, is_lost=begin >= end and cursor.has_appended)
        is_first = True
        span = OffsetRange(*run.target, begin, end)
        async with aclosing(self._target_log.read(span)) as answers:
            async for stored in answers:
                for batch, _ in stored:
                    arrived = ours(batch, self._producer_id, cursor)
                    if is_first and cursor.has_appended and batch.base_offset <= begin:
                        found.is_lost = arrived is None or not arrived.is_aligned(cursor)
                    is_first = False
                    if arrived is not None and arrived.ordinal_end > found.ordinal_end:
                        found.arrived.append(arrived.since(found.ordinal_end))
                        found.batches.append(batch)
                        found.ordinal_end = arrived.ordinal_end
        if state is not None and state.last_sequence >= 0:
            # The target may have deleted by now what arrived last.
            found.ordinal_end = max(found.ordinal_end, ordinal_of(state.last_sequence, cursor.ordinal) + 1)
        return found

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

    async def _recount(self, run: LaneRun, cursor: Cursor, found: _Found, limit: Bounds) -> Recount | None:
        """How far the lane is; `None` if the source has fewer records than were copied of it, or others."""
        if found.ordinal_end == cursor.ordinal:
            return Recount(cursor, [])
        deleted = max(limit.start - cursor.source_offset, 0)
        if deleted or run.lane.is_compacted:
            source = await self._records(run, cursor, limit, found.ordinal_end - cursor.ordinal)
            recount = compared_anew(cursor, found.held, source, deleted=deleted)
            return recount._replace(cursor=replace(recount.cursor, ordinal=found.ordinal_end))
        read, epochs = Transit(cursor), set[int]()
        span = OffsetRange(*run.source, cursor.source_offset, limit.stable_end)
        async with aclosing(self._source_log.read(span)) as answers:
            async for stored in answers:
                for batch, is_aborted in stored:
                    piece = Piece(batch, False, is_aborted)
                    lane = run.lane
                    if read.read_ordinal < found.ordinal_end:
                        epochs.add(batch.leader_epoch)
                    read.take(piece, bytes_max=lane.batch_bytes_max, level=lane.level, flags=lane.flags)
                if read.read_ordinal >= found.ordinal_end:
                    break
        if read.read_ordinal < found.ordinal_end:
            return None
        recount = counted_anew(read, _without_gaps(found, cursor.ordinal))
        if epochs == {cursor.source_epoch}:
            return recount
        # The source has had another leader since, which may have lost what was copied and have others in its place.
        source = await self._records(run, cursor, limit, found.ordinal_end - cursor.ordinal)
        if not are_alike(found.held, source, cursor.ordinal):
            return None
        return recount

    async def _records(self, run: LaneRun, cursor: Cursor, limit: Bounds, count: int) -> list[Record]:
        """The first `count` committed records of the source from the cursor on, or as many as there are."""
        records: list[Record] = []
        span = OffsetRange(*run.source, max(cursor.source_offset, limit.start), limit.stable_end)
        async with aclosing(self._source_log.read(span)) as answers:
            async for stored in answers:
                for batch, is_aborted in stored:
                    if not batch.is_control and not is_aborted and not is_done_with(batch.producer_id, run.lane.level):
                        found = [r for r in records_of(batch) if r.offset >= span.offset_begin]
                        flags = run.lane.flags
                        records += found if flags is None else flagged(found, run.lane.level, flags).records
                if len(records) >= count:
                    break
        return records[:count]


def _without_gaps(found: _Found, ordinal: int) -> list[Arrived]:
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


def _lost_at_target(run: LaneRun, cursor: Cursor) -> Problem:
    return Problem(
        f"the target has not at offset {cursor.target_offset - 1} any more what was appended there, nor what came "
        "before: it lost records (unclean leader election)",
        f"`isthmus verify --topic {run.lane.target_topic}` names what is missing. {way_out(run.lane)}",
    )
