"""Whether a source still has the last record that was copied of it: for sources that do not know its leader epoch."""

from __future__ import annotations

from contextlib import aclosing
from typing import NamedTuple

from isthmus.cluster.reading import LogReader, OffsetRange
from isthmus.lane.mapped.flagging import flagged
from isthmus.lane.mapped.recount import ours
from isthmus.lane.mapped.transit import Transit
from isthmus.lane.rebatch import Record, records_of
from isthmus.lane.run import LaneRun
from isthmus.model.copyflags import is_done_with


class Witness(NamedTuple):
    """What the source has of the last record: whether it `is_lost`, else in which leader epoch, -1 where that is not
    known, as one of the two sides does not hold it any more.
    """

    is_lost: bool
    epoch: int = -1


async def last_copied(
    source_log: LogReader, target_log: LogReader, producer_id: int, run: LaneRun, transit: Transit, end: int
) -> Witness:
    """The source has the record that the target holds, or something else in its place.

    What either side has deleted or compacted away proves nothing. Of a lane whose ranges are not known the last record
    may lie before what was left out, as an end of a transaction: what is no record to be copied proves nothing there.

    :raises ClusterError: One side does not answer.
    :raises ValueError: Its records cannot be decoded.
    """
    cursor, is_exact = transit.cursor, False
    offset = cursor.copied_to - 1
    if transit.ranges and transit.ranges[-1].target_end == cursor.target_offset:
        offset, is_exact = transit.ranges[-1].source_end - 1, True
    # Right before where a lane begins another leaf got what there is.
    if not cursor.has_appended or offset < 0 or (not is_exact and run.lane.begin_copied_to == cursor.copied_to):
        return Witness(is_lost=False)
    held = await _held(target_log, producer_id, run, transit, end)
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
                # Only a log cleaner makes holes, whether or not its topic is compacted still.
                return Witness(is_lost=bool(found) and (is_exact or _is_copied(run, found)))
    return Witness(is_lost=False)


def _is_copied(run: LaneRun, found: list[Record]) -> bool:
    """Whether there is a record, and not one that is left out for its flags."""
    flags = run.lane.flags
    return bool(found if flags is None else flagged(found, run.lane.level, flags).records)


def _is_alike(run: LaneRun, found: Record, held: Record) -> bool:
    """Whether a record is the one that is held. A target may give times of its own, and distributors headers, by what
    they were told when they copied it.
    """
    is_same = (found.key, found.value) == (held.key, held.value)
    return is_same and (run.lane.level > 0 or found.headers == held.headers)


async def _held(log: LogReader, producer_id: int, run: LaneRun, transit: Transit, end: int) -> Record | None:
    """The last record of the lane that its target holds, if it lies where it was put."""
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
