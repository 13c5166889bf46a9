"""What a mapped lane will find at its source, by how far it was copied: for those who only want to know. Pure."""

from __future__ import annotations

from isthmus.lane.outlook import Outlook
from isthmus.lane.source import Bounds
from isthmus.model.lane import Gap, Lane, LaneState
from isthmus.model.offsets import EARLIEST, Cursor
from isthmus.model.problem import Problem


def mapped_outlook(lane: Lane, cursor: Cursor | None, source: Bounds) -> Outlook:
    """What becomes of a lane that goes on there, `None` if it is yet to begin. Where the target ends says nothing."""
    if cursor is None:
        return Outlook()
    if source.stable_end < cursor.source_offset:
        return Outlook(state=LaneState.DIVERGED, problem=_lost(lane, cursor, source))
    has_copied = lane.start != EARLIEST or cursor.has_copies
    if source.start <= cursor.source_offset or not has_copied:
        return Outlook()
    gap = Gap(cursor.source_offset, source.start)
    return Outlook(gap=gap) if lane.continues_after_gap else Outlook(state=LaneState.DATA_GAP, problem=_deleted(gap))


def _lost(lane: Lane, cursor: Cursor, source: Bounds) -> Problem:
    return Problem(
        f"the source ends at {source.stable_end}, and everything before offset {cursor.source_offset} was copied: it "
        "lost records (unclean leader election), or the topic was refilled",
        f"They stay at the target; `isthmus verify --topic {lane.target_topic}` names them. Copy the topic anew under "
        "another name (topics.naming).",
    )


def _deleted(gap: Gap) -> Problem:
    return Problem(
        f"the source deleted offsets [{gap.offset_begin}, {gap.offset_end}) before they were copied",
        "Set on_data_gap: continue on the link to record the gap and go on. A longer retention at the source avoids "
        "this.",
    )
