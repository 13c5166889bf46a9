"""What a distributor of a tree says of a position by the time of its record, where clocks of producers differ."""

from __future__ import annotations

from typing import Any, Final

import pytest

from isthmus import config
from isthmus.groups.memory import GroupMemory
from isthmus.groups.plan import PositionPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.trees.distribution import DistributedReview, _Due
from isthmus.groups.trees.times import RecordTime
from isthmus.kafka.client import Client
from isthmus.memory.links import now_ms
from isthmus.model.kafka.group import Committed
from isthmus.model.trees.positions import PositionKey

LINK = config.parse(
    "clusters: {east: {bootstrap_servers: '127.0.0.1:1'}, west: {bootstrap_servers: '127.0.0.1:2'}}\n"
    "trees: [{name: t, clusters: [east, west], topics: [x], groups: ['*'], margin_s: 60}]\n"
).link("t.east.1")
AT: Final[tuple[Any, int]] = ("x", 0)
MARGIN, HOUR = 60_000, 3_600_000


def judged(stamp: RecordTime) -> tuple[DistributedReview, _Due]:
    """What is made of a group's position at the record with this time."""
    assert LINK.distributor is not None
    source, target = Client(LINK.source), Client(LINK.target)
    review = DistributedReview(LINK, LINK.distributor, source, target, GroupMemory(LINK.name, {}), {})
    due = _Due()
    review._judge(PositionKey("billing", *AT), due, Committed(7), {}, {(AT, 7): stamp})
    return review, due


def plan(review: DistributedReview, due: _Due, standing: Standing) -> PositionPlan:
    """The position as it is told, that would have this standing where clocks are alike."""
    position = PositionPlan(
        topic=AT[0],
        partition=0,
        target_topic=AT[0],
        source=Committed(0),
        translated=5,
        committed=Committed(5),
        log_start=0,
        high_watermark=9,
        standing=standing,
    )
    return review._position(position, due, {AT: Committed(7)}, {AT: Committed(5)})


@pytest.mark.parametrize(
    ("late_ms", "held_back_ms", "standing"),
    [(0, 0, Standing.IN_STEP), (MARGIN, 0, Standing.IN_STEP), (MARGIN + 1, MARGIN + 1, Standing.CLOCKS_DIFFER)],
)
def test_a_position_is_held_back_by_what_records_are_late(late_ms: int, held_back_ms: int, standing: Standing) -> None:
    """Once that is more than the margin, and then the group is told not to be in step; what is due still is."""
    time_ms = now_ms() - HOUR
    review, due = judged(RecordTime(time_ms, late_ms, is_end=False))

    assert due.entries[AT].timestamp_ms == time_ms - MARGIN - held_back_ms
    assert (due.news, due.others) == ({AT}, {})
    assert plan(review, due, Standing.IN_STEP).standing is standing
    assert plan(review, due, Standing.DUE).standing is Standing.DUE


def test_of_a_record_from_the_future_nothing_is_said() -> None:
    """What the target has stays as it is, and why is told."""
    _, due = judged(RecordTime(now_ms() + HOUR, 0, is_end=False))

    assert due.entries == {}
    assert due.others == {AT: Standing.CLOCKS_DIFFER}
