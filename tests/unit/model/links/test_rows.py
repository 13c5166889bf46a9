"""Rows of how links stand, for people and for queries."""

from __future__ import annotations

from isthmus.model.lane import Gap, LaneState
from isthmus.model.links.rows import PartitionRow, partition_rows, progress_table
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState
from testing.values.standing import link_at, partition_of, topic_at

FOREIGN = Problem("another producer wrote to it", "isthmus link recover", "ISTH-PLAN-REFUSED")


def test_each_partition_has_a_row() -> None:
    """Under the names that JSON has; what is unknown is null, and no -1 gets into a sum."""
    behind = partition_of("orders", 0, target_end=4, lag_s=1.23456, gaps=(Gap(0, 3), Gap(5, 6)))
    failed = partition_of("orders", 1, state=LaneState.FOREIGN_WRITE, source_end=-1, problem=FOREIGN)
    first, second = (row.as_dict() for row in partition_rows([link_at(topic_at("orders", behind, failed))]))
    assert first == {
        "link": "east-west",
        "source": "east",
        "target": "west",
        "link_state": "ACTIVE",
        "topic": "orders",
        "source_topic": "orders",
        "partition": 0,
        "state": "ACTIVE",
        "state_age_seconds": 0.0,
        "offsets": "same",
        "source_end": 10,
        "target_end": 4,
        "copied_end": None,
        "lag_records": 6,
        "lag_seconds": 1.235,
        "waiting_records": 0,
        "waiting_seconds": None,
        "records_per_second": None,
        "lost_offsets": 4,
        "problem_code": None,
        "problem": None,
        "hint": None,
    }
    assert (second["source_end"], second["lag_records"], second["state"]) == (None, None, "FOREIGN_WRITE")
    assert (second["problem_code"], second["problem"], second["hint"]) == (
        FOREIGN.code,
        FOREIGN.message,
        FOREIGN.hint,
    )


def test_nothing_that_has_no_partition_is_left_out() -> None:
    """A link that cannot be read has a row, and so has a topic of which no partition is known."""
    away = link_at(state=LinkState.UNAVAILABLE, link="away", problem=Problem("no broker answered"))
    empty = topic_at("orders", state=LaneState.STARTING)
    links = [away, link_at(type(empty)(topic=empty.topic, source_topic=empty.source_topic, state=empty.state))]
    link, topic = partition_rows(links)
    assert link == PartitionRow(
        link="away", source="east", target="west", link_state=LinkState.UNAVAILABLE, problem="no broker answered"
    )
    assert (topic.topic, topic.partition, topic.state) == ("orders", None, LaneState.STARTING)


def test_a_table_has_a_row_for_each_topic() -> None:
    """And its title counts; ages are shown only where something is old."""
    links = (link_at(topic_at("orders"), topic_at("clicks", target_end=4)),)
    found = progress_table(links)
    assert found.title == "1 link: 1 ACTIVE; 2 topics: 2 ACTIVE; lag 6 records"
    assert [(row["topic"], row["lag_records"]) for row in found.rows] == [("orders", 0), ("clicks", 6)]
    assert "as_of" not in found.columns
    old = progress_table((link_at(topic_at("orders", state_age_s=70.0)),))
    assert "1 min ago" in old.as_text()


def test_a_link_with_a_problem_has_a_row_for_it() -> None:
    """Beside those of its topics: none of them has that problem."""
    found = progress_table((link_at(topic_at("orders"), state=LinkState.FAILED, problem=Problem("fenced")),))
    assert [row.get("topic") for row in found.rows] == [None, "orders"]
    assert "fenced" in found.as_text()
    assert "fenced" in found.as_html()
