"""Compares the progress of a mapped lane with its source, for runs and plans. Pure."""

from __future__ import annotations

from isthmus.engine.outlook import Outlook
from isthmus.engine.source import Bounds
from isthmus.model.lane import Gap, Lane, LaneState
from isthmus.model.offsets import EARLIEST, Cursor
from isthmus.model.problem import Problem


def mapped_outlook(lane: Lane, cursor: Cursor | None, source: Bounds) -> Outlook:
    """The state of a lane that continues at `cursor`, `None` if it is yet to begin. The target does not matter."""
    if cursor is None:
        return Outlook()
    # Another leaf got the records before the lane's beginning meanwhile.
    cursor = lane.find_start(cursor)
    if source.stable_end < cursor.copied_to:
        return Outlook(state=LaneState.DIVERGED, problem=lost(lane, cursor, source))
    gap = missed(lane, cursor, source)
    if gap is None or lane.continues_after_gap:
        return Outlook(gap=gap)
    return Outlook(state=LaneState.DATA_GAP, problem=deleted(lane, gap))


def missed(lane: Lane, cursor: Cursor, source: Bounds) -> Gap | None:
    """The offsets that the source deleted before they were copied. Before the lane's beginning nothing is missing."""
    has_begun = lane.start != EARLIEST or lane.begin_offset >= 0 or cursor.has_copies
    return Gap(cursor.source_offset, source.start) if has_begun and cursor.source_offset < source.start else None


def lost(lane: Lane, cursor: Cursor, source: Bounds) -> Problem:
    """The problem that the source does not have the copied records any more."""
    what = f"records up to offset {cursor.copied_to} or behind were copied"
    if source.stable_end >= cursor.copied_to:
        what = f"not all that was copied up to offset {cursor.copied_to} or behind is there any more"
    return Problem(
        f"the source ends at {source.stable_end}, and {what}: it lost records (unclean leader election), or the topic "
        "was refilled",
        kept_at_target(lane),
    )


def kept_at_target(lane: Lane) -> str:
    """Advise the operator about records that only the target has now."""
    return f"They stay at the target; `isthmus verify --topic {lane.target_topic}` names them. {way_out(lane)}"


def untold(lane: Lane, begin: int, start: int) -> Problem:
    """The problem that the target deleted the records from `begin` on that show the lane's progress."""
    what, longer = f"the target deleted its offsets [{begin}, {start})", "retention"
    if start <= begin:
        what, longer = f"the target's log cleaner took offsets from {begin} on", "min.compaction.lag.ms"
    return Problem(
        f"{what} before it was written down which of them the link wrote, and nothing is remembered there of the "
        "link's producer: what lay there would be copied again",
        f"A longer {longer} or producer.id.expiration.ms at the target avoids this. {way_out(lane)}",
    )


def unexplained(lane: Lane) -> Problem:
    """The problem that changed records have arrived and that it is not stored where they come from."""
    return Problem(
        "the target has changed records of the link of which the ledger does not have where they come from: it was "
        "lost, or lost acknowledged writes. What comes next at the source is not known",
        f"`isthmus verify` cannot tell either, as records are changed. {way_out(lane)}",
    )


def way_out(lane: Lane) -> str:
    """Advise the operator of a lane that cannot go on. In a tree the topic cannot get another name."""
    if lane.level:
        return (
            "Have the cluster that lost records leave the tree and come back: it gets all that the others have "
            "(docs/trees.md, When a partition stops)."
        )
    return "Copy the topic again under another name (topics.naming)."


def deleted(lane: Lane, gap: Gap) -> Problem:
    """The problem that the lane cannot go on without leaving out records that the source has deleted."""
    return Problem(
        f"the source deleted offsets [{gap.offset_begin}, {gap.offset_end}) before they were copied",
        f"Set on_data_gap: continue on the {'tree' if lane.level else 'link'} to record the gap and go on. A longer "
        "retention at the source avoids this.",
    )
