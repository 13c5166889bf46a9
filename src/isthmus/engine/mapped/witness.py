"""Checks whether a source still has the last record copied from it, if its leader epoch proves nothing."""

from __future__ import annotations

from contextlib import aclosing
from typing import NamedTuple

from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.engine.mapped.flagging import flagged
from isthmus.engine.mapped.recount import ours
from isthmus.engine.mapped.transit import Transit
from isthmus.engine.run import LaneRun
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.model.copyflags import is_done_with


class Witness(NamedTuple):
    """Whether the source's last copied record `is_lost`; else its leader epoch, -1 if unknown because one of the two
    sides does not hold the record any more.
    """

    is_lost: bool
    epoch: int = -1


async def last_copied(
    source_log: LogReader, target_log: LogReader, producer_id: int, run: LaneRun, transit: Transit, end: int
) -> Witness:
    """Check whether the source has the lane's last record at the target, or another one in its place.

    A record that either side has deleted or compacted away proves nothing. If the lane's ranges are not known, the last
    record may lie before offsets that were left out, as a control record: then such an offset proves nothing.

    :raises ClusterError: One side does not answer.
    :raises ValueError: The records of one side cannot be decoded.
    """
    cursor, is_exact = transit.cursor, False
    offset = cursor.copied_to - 1
    if transit.ranges and transit.ranges[-1].target_end == cursor.target_offset:
        offset, is_exact = transit.ranges[-1].source_end - 1, True
    # Another leaf got the record right before the lane's beginning.
    if not cursor.has_appended or offset < 0 or (not is_exact and run.lane.begin_copied_to == cursor.copied_to):
        return Witness(is_lost=False)
    held = await _read_last_held(target_log, producer_id, run, transit, end)
    if held is None:
        return Witness(is_lost=False)
    async with aclosing(source_log.read(OffsetRange(*run.source, offset, offset + 1))) as answers:
        async for stored in answers:
            for batch, is_aborted in stored:
                if batch.base_offset > offset:
                    continue
                if batch.is_control or is_aborted or is_done_with(batch.producer_id, run.lane.level):
                    return Witness(is_lost=is_exact)
                found = [one for one in records_of(batch) if one.offset == offset]
                if found and _is_alike(run, found[0], held):
                    return Witness(is_lost=False, epoch=batch.leader_epoch)
                # A hole is made by a log cleaner only, even if the topic is not compacted now.
                return Witness(is_lost=bool(found) and (is_exact or _is_copied(run, found)))
    return Witness(is_lost=False)


def _is_copied(run: LaneRun, found: list[Record]) -> bool:
    """Whether there is a record that is not left out for its flags."""
    flags = run.lane.flags
    return bool(found if flags is None else flagged(found, run.lane.level, flags).records)


def _is_alike(run: LaneRun, found: Record, held: Record) -> bool:
    """Whether the two records are the same. Timestamps may differ, as the target may set its own, and headers of
    distributors, by their configuration at the time.
    """
    is_same = (found.key, found.value) == (held.key, held.value)
    return is_same and (run.lane.level > 0 or found.headers == held.headers)


async def _read_last_held(log: LogReader, producer_id: int, run: LaneRun, transit: Transit, end: int) -> Record | None:
    """Read the lane's last record at the target; None if it is not at its offset."""
    cursor = transit.cursor
    place = cursor.target_offset - 1
    if place >= end:
        return None
    async with aclosing(log.read(OffsetRange(*run.target, place, place + 1))) as answers:
        async for stored in answers:
            for batch, _ in stored:
                arrived = ours(batch, producer_id, cursor)
                if arrived is not None and arrived.is_aligned(cursor):
                    return next((one for one in records_of(batch) if one.offset == place), None)
    return None
