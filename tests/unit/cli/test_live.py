"""Progress while a run lasts: speeds, rows, and news told once."""

from __future__ import annotations

import pytest

from isthmus.cli.live import LiveProgress, Rates
from isthmus.cli.status import status_rows
from isthmus.control.progress import LinkProgress, PartitionProgress, TopicProgress, topic_of
from isthmus.model.lane import LaneState, Problem
from isthmus.model.state import LinkState


def link(*topics: TopicProgress, state: LinkState = LinkState.ACTIVE, records: int = 0) -> LinkProgress:
    """A link with some topics."""
    return LinkProgress(link="l", source="east", target="west", state=state, topics=topics, records=records)


def partition(number: int, state: LaneState = LaneState.ACTIVE, problem: Problem | None = None) -> PartitionProgress:
    """A partition that is a hundred records behind."""
    return PartitionProgress(
        topic="orders", partition=number, state=state, target_end=0, source_end=100, problem=problem
    )


def test_rates_are_those_of_the_last_seconds() -> None:
    """A burst long ago does not count; a count that starts over is no negative speed."""
    rates = Rates()
    assert rates.rate("x", 0, 0.0) == 0.0
    assert rates.rate("x", 1000, 1.0) == 1000.0
    for second in range(2, 10):
        rate = rates.rate("x", 1000 + 10 * second, float(second))
    assert rate == pytest.approx(10.0)
    assert rates.rate("x", 0, 10.0) == 0.0


def test_news_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A state that needs attention is told when it comes and when it goes, not in between."""
    shown = LiveProgress()
    broken = topic_of("orders", [partition(0, LaneState.TARGET_UNAVAILABLE, Problem("no leader"))])
    sound = topic_of("orders", [partition(0)])
    for topic in (sound, broken, broken, sound, sound):
        shown.show([link(topic)])
    told = [line for line in capsys.readouterr().err.splitlines() if "l/orders" in line]
    assert told == ["l/orders: TARGET_UNAVAILABLE: no leader", "l/orders: ACTIVE"]


def test_rows_are_topics_or_partitions() -> None:
    """A row for each topic, or each partition, and one for a link that has none."""
    topic = topic_of("orders", [partition(0), partition(1)])
    rows = status_rows([link(topic), link(state=LinkState.STOPPED)], by_partition=False)
    assert [row.get("topic") for row in rows] == ["orders", None]
    assert (rows[0]["lag_records"], rows[1]["state"]) == (200, "STOPPED")
    rows = status_rows([link(topic)], by_partition=True)
    assert [(row["partition"], row["lag_records"]) for row in rows] == [(0, 100), (1, 100)]
