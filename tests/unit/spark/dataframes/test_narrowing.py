"""Conditions of queries that leave less to read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import datasource as spark

from isthmus.kafka.log.reading import OffsetRange
from isthmus.spark.dataframes.batch import PushedFilters
from isthmus.spark.dataframes.narrowing import Narrowing, conditions_of

SPAN = OffsetRange("flights", 1, 10, 20)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def narrowing(*filters: spark.Filter) -> Narrowing:
    return Narrowing(tuple(conditions_of(filters)))


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ([spark.EqualTo(("partition",), 1), spark.EqualTo(("topic",), "flights")], True),
        ([spark.EqualTo(("Partition",), 2)], False),
        ([spark.In(("topic",), ("a", "b"))], False),
        ([spark.Not(spark.In(("topic",), ("a", "b")))], True),
        ([spark.Not(spark.EqualTo(("partition",), 1))], False),
        ([spark.GreaterThan(("partition",), 1)], False),
        ([spark.LessThanOrEqual(("partition",), 1)], True),
        ([spark.StringStartsWith(("topic",), "fl")], True),
        ([spark.StringEndsWith(("topic",), "x"), spark.IsNotNull(("topic",))], True),
        ([spark.EqualTo(("headers", "key"), "x"), spark.EqualTo(("value",), b"x")], True),
    ],
)
def test_partitions_that_no_row_is_wanted_of_are_left_out(filters: list[spark.Filter], kept: bool) -> None:
    """Conditions that are not understood leave everything in."""
    assert narrowing(*filters).may_hold("flights", 1) is kept


@pytest.mark.parametrize(
    ("filters", "begin", "end"),
    [
        ([spark.EqualTo(("offset",), 12)], 12, 13),
        ([spark.GreaterThan(("offset",), 12)], 13, 20),
        ([spark.GreaterThanOrEqual(("offset",), 12), spark.LessThan(("offset",), 15)], 12, 15),
        ([spark.LessThanOrEqual(("offset",), 12)], 10, 13),
        ([spark.In(("offset",), (14, 11))], 11, 15),
        ([spark.Not(spark.EqualTo(("offset",), 12))], 10, 20),
        ([spark.EqualTo(("offset",), 99)], 99, 99),
        ([spark.EqualTo(("offset",), None)], 10, 20),
    ],
)
def test_a_range_is_cut_to_the_offsets_that_are_wanted(filters: list[spark.Filter], begin: int, end: int) -> None:
    """To none at all, if need be."""
    assert narrowing(*filters).narrow(SPAN)[2:] == (begin, end)


@pytest.mark.parametrize(
    ("condition", "since_ms"),
    [
        (spark.GreaterThanOrEqual(("timestamp",), NOON), NOON_MS),
        (spark.GreaterThan(("timestamp",), NOON), NOON_MS + 1),
        (spark.GreaterThan(("timestamp",), NOON + timedelta(microseconds=500)), NOON_MS + 1),
        (spark.GreaterThanOrEqual(("timestamp",), NOON + timedelta(microseconds=500)), NOON_MS + 1),
        (spark.EqualTo(("timestamp",), NOON), NOON_MS),
        (spark.LessThan(("timestamp",), NOON), None),
        (spark.GreaterThan(("timestamp",), NOON.replace(tzinfo=None)), None),
    ],
)
def test_the_earliest_time_that_is_wanted(condition: spark.Filter, since_ms: int | None) -> None:
    """Only a lower bound says where to begin: later records may have earlier times."""
    assert narrowing(condition).since_ms == since_ms


def test_spark_evaluates_all_conditions_too() -> None:
    """What is pushed down is left to Spark as well; a reader counts as one that takes no filters."""
    pushed = PushedFilters()
    filters = [spark.EqualTo(("partition",), 1)]

    assert pushed(filters) == filters
    assert pushed.narrowing == narrowing(*filters)
    assert getattr(pushed, "__func__", None) is spark.DataSourceReader.pushFilters
