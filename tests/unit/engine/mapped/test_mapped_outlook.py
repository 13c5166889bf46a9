"""What a mapped lane will find at its source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.engine.mapped.outlook import mapped_outlook
from isthmus.engine.source import Bounds
from isthmus.model.lane import Gap, LaneState
from isthmus.model.offsets import EARLIEST, LATEST, Cursor
from tests.unit.engine.mapped.lanes import LANE

COPIED, EMPTY = Cursor(20, 15, 99), Cursor(20, 0, 84)


@pytest.mark.parametrize(
    ("cursor", "start", "source", "state"),
    [
        (None, EARLIEST, Bounds(30, 50), LaneState.ACTIVE),
        (COPIED, EARLIEST, Bounds(0, 20), LaneState.ACTIVE),
        (COPIED, EARLIEST, Bounds(20, 50), LaneState.ACTIVE),
        (COPIED, EARLIEST, Bounds(21, 50), LaneState.DATA_GAP),
        (COPIED, EARLIEST, Bounds(0, 19), LaneState.DIVERGED),
        (EMPTY, EARLIEST, Bounds(21, 50), LaneState.ACTIVE),
        (EMPTY, LATEST, Bounds(21, 50), LaneState.DATA_GAP),
    ],
    ids=["new", "at the end", "at the start", "deleted", "lost", "nothing wanted was lost", "what came since is gone"],
)
def test_the_source_decides(cursor: Cursor | None, start: int, source: Bounds, state: LaneState) -> None:
    """What it deleted before it was copied is a gap, unless nothing was copied yet of all that it holds."""
    found = mapped_outlook(replace(LANE, start=start), cursor, source)
    assert (found.state, found.problem is None, found.gap) == (state, state is LaneState.ACTIVE, None)


def test_a_gap_may_be_passed() -> None:
    """Then it is told, and nothing is refused."""
    found = mapped_outlook(replace(LANE, continues_after_gap=True), COPIED, Bounds(30, 50))
    assert (found.state, found.problem, found.gap) == (LaneState.ACTIVE, None, Gap(20, 30))


def test_a_tree_is_told_what_trees_have() -> None:
    """Names are the same on all its clusters, and it is no link that goes on behind a gap."""
    for level, gap, other in (
        (0, "on_data_gap: continue on the link", "topics.naming"),
        (2, "on the tree", "leave the"),
    ):
        told = [
            mapped_outlook(replace(LANE, level=level), COPIED, source) for source in (Bounds(21, 50), Bounds(0, 19))
        ]
        hints = [each.problem.hint for each in told if each.problem is not None]
        assert [gap in hints[0], other in hints[1]] == [True, True]
