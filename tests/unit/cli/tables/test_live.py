"""Progress while a run lasts: speeds, rows, and news told once."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from isthmus.cli.tables.live import LiveProgress, Rates, bar, progress_grid
from isthmus.cli.tables.rows import progress_names, status_rows
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress, topic_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState


def link(*topics: TopicProgress, state: LinkState = LinkState.ACTIVE, records: int = 0) -> LinkProgress:
    """A link with some topics."""
    return LinkProgress(link="l", source="east", target="west", state=state, topics=topics, records=records)


def partition(number: int, state: LaneState = LaneState.ACTIVE, problem: Problem | None = None) -> PartitionProgress:
    """A partition that is a hundred records behind."""
    return PartitionProgress(
        topic=TargetTopic("orders"), partition=number, state=state, target_end=0, source_end=100, problem=problem
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
    broken = topic_of(
        TargetTopic("orders"), SourceTopic("orders"), [partition(0, LaneState.TARGET_UNAVAILABLE, Problem("no leader"))]
    )
    sound = topic_of(TargetTopic("orders"), SourceTopic("orders"), [partition(0)])
    for topic in (sound, broken, broken, sound, sound):
        shown.show([link(topic)])
    told = [line.partition(" isthmus: ")[2] for line in capsys.readouterr().err.splitlines() if "l/orders" in line]
    assert told == ["l/orders: TARGET_UNAVAILABLE: no leader", "l/orders: ACTIVE"]


def test_a_topic_is_told_by_the_state_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    """What is calm is called ACTIVE only if it is; that a lane starts anew is no news."""
    shown = LiveProgress()
    for state in (LaneState.SOURCE_UNAVAILABLE, LaneState.STARTING, LaneState.SOURCE_DELETED, LaneState.PAUSED):
        problem = Problem("no leader") if state is LaneState.SOURCE_UNAVAILABLE else None
        shown.show([link(topic_of(TargetTopic("orders"), SourceTopic("orders"), [partition(0, state, problem)]))])
    told = [line.partition(" isthmus: ")[2] for line in capsys.readouterr().err.splitlines() if "l/orders" in line]
    assert told == ["l/orders: SOURCE_UNAVAILABLE: no leader", "l/orders: SOURCE_DELETED", "l/orders: PAUSED"]


def test_nothing_is_told_while_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for a link that copies each time; of an idle one a single line, however long it stays so."""
    shown, idle = LiveProgress(line_s=0.0), link(records=7)
    for each in (link(records=5), link(records=6), idle, idle, idle, link(records=8)):
        shown.show([each])
    told = [line.partition(" isthmus: ")[2] for line in capsys.readouterr().err.splitlines()]
    counts = [line.partition(" copied")[0] for line in told if " copied" in line]
    assert counts == [f"l: {count} records" for count in (5, 6, 7, 8)]


def test_rows_are_topics_or_partitions() -> None:
    """A row for each topic, or each partition, and one for a link that has none."""
    topic = topic_of(TargetTopic("orders"), SourceTopic("orders"), [partition(0), partition(1)])
    rows = status_rows([link(topic), link(state=LinkState.STOPPED)], by_partition=False)
    assert [row.get("topic") for row in rows] == ["orders", None]
    assert (rows[0]["lag_records"], rows[1]["state"]) == (200, "STOPPED")
    rows = status_rows([link(topic)], by_partition=True)
    assert [(row["partition"], row["lag_records"]) for row in rows] == [(0, 100), (1, 100)]


def test_names_are_what_wait_takes() -> None:
    """`-o name` has links with their topics, and partitions where these are asked for."""
    topic = topic_of(TargetTopic("orders"), SourceTopic("orders"), [partition(0), partition(1)])
    links = [link(topic), replace(link(), link="m")]
    assert progress_names(links) == ["l/orders", "m"]
    assert progress_names(links, by_partition=True) == ["l/orders-0", "l/orders-1", "m"]


def drawn(links: list[LinkProgress], *, height: int = 24, rates: Rates | None = None, now: float = 0.0) -> list[str]:
    """The lines of the live table on a terminal of 80 columns."""
    console = Console(file=io.StringIO(), width=80, height=height, color_system=None)
    with console.capture() as capture:
        console.print(progress_grid(links, rates or Rates(), now, height=height))
    return capture.get().splitlines()


def test_the_live_table_has_no_more_lines_than_the_screen() -> None:
    """However many topics there are, every link is there, and the topics left out are counted."""
    topics = [
        topic_of(TargetTopic(f"orders-{number:03}"), SourceTopic(f"orders-{number:03}"), [partition(0)])
        for number in range(100)
    ]
    lines = drawn([link(*topics), link(*topics)])

    assert len(lines) < 24
    assert sum("l (east to west)" in line for line in lines) == 2
    shown = sum("orders-" in line for line in lines)
    assert sum("and 93 more" in line for line in lines) == 2
    assert shown == 2 * 7


def test_a_long_name_leaves_room_for_state_and_lag() -> None:
    """A name may take what is left, and no more."""
    name = "a-topic-with-a-very-long-name." * 8
    lines = drawn([link(topic_of(TargetTopic(name), SourceTopic(name), [partition(0, LaneState.SOURCE_UNAVAILABLE)]))])

    assert max(map(len, lines)) <= 80
    (line,) = [line for line in lines if "…" in line]
    assert line.split()[-4:] == ["SOURCE_UNAVAILABLE", "─" * 12, "100", "0"]


def test_what_is_not_known_is_not_shown_as_copied() -> None:
    """Until the ends are known there is no lag, no bar and no speed; learning them is no speed either."""
    rates, unknown = Rates(), PartitionProgress(topic=TargetTopic("orders"), partition=0, state=LaneState.STARTING)
    known = PartitionProgress(
        topic=TargetTopic("orders"), partition=0, state=LaneState.ACTIVE, target_end=1_000_000, source_end=1_000_100
    )
    (before,) = [
        line
        for line in drawn([link(topic_of(TargetTopic("orders"), SourceTopic("orders"), [unknown]))], rates=rates)
        if "orders" in line
    ]
    (after,) = [
        line
        for line in drawn([link(topic_of(TargetTopic("orders"), SourceTopic("orders"), [known]))], rates=rates, now=1.0)
        if "orders" in line
    ]

    assert before.split() == ["orders", "STARTING", "-", "unknown", "-"]
    assert after.split()[-2:] == ["100", "0"]


def test_rows_keep_their_places() -> None:
    """Trouble comes first, then long lags; small ones, which come and go, do not move a row."""

    def topic(name: str, lag: int, state: LaneState = LaneState.ACTIVE) -> TopicProgress:
        return topic_of(
            TargetTopic(name),
            SourceTopic(name),
            [PartitionProgress(topic=TargetTopic(name), partition=0, state=state, target_end=0, source_end=lag)],
        )

    topics = [topic("a", 0), topic("b", 7), topic("c", 5_000), topic("d", 9_000), topic("e", 0, LaneState.DATA_GAP)]
    lines = drawn([link(*topics)])
    assert [line.split()[0] for line in lines[3:]] == ["e", "c", "d", "a", "b"]


def test_bars() -> None:
    """A bar is full only when everything is copied."""
    assert bar(0, 10).plain == "─" * 12
    assert bar(999, 1000).plain == "━" * 11 + "─"
    assert bar(10, 10).plain == bar(0, 0).plain == "━" * 12


def test_a_topic_that_comes_into_view_has_the_speed_of_the_last_seconds() -> None:
    """What it did while the screen had no line for it is not told as what it does now."""

    def topic(name: str, target_end: int, source_end: int) -> TopicProgress:
        partition = PartitionProgress(
            topic=TargetTopic(name), partition=0, state=LaneState.ACTIVE, target_end=target_end, source_end=source_end
        )
        return topic_of(TargetTopic(name), SourceTopic(name), [partition])

    rates = Rates()
    for second in range(10):
        moment = [link(topic("urgent", 0, 100_000), topic("hidden", 5_000 if second else 0, 5_000))]
        assert not any("hidden" in line for line in drawn(moment, height=8, rates=rates, now=float(second)))
    (line,) = [line for line in drawn(moment, rates=rates, now=10.0) if "hidden" in line]
    assert line.split()[-1] == "0"
