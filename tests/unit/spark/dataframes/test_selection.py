"""What options of Spark's own Kafka source mean here."""

from __future__ import annotations

import pytest

from isthmus.errors import ConfigError
from isthmus.kafka.log.listoffsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from isthmus.spark.dataframes.options import GivenOptions
from isthmus.spark.dataframes.selection import Bound, ReadSettings


def batch(**options: str) -> ReadSettings:
    return ReadSettings.of_batch(GivenOptions({"subscribe": "flights", **options}))


def stream(**options: str) -> ReadSettings:
    return ReadSettings.of_stream(GivenOptions({"subscribe": "flights", **options}))


def test_defaults_are_those_of_spark() -> None:
    """A batch reads all, a stream what is new; lost records are an error. Aborted ones are left out here."""
    assert (batch().starting.value, batch().ending.value, stream().starting.value) == (EARLIEST, LATEST, LATEST)
    assert batch().fails_on_loss
    assert batch().isolation == READ_COMMITTED
    assert batch(**{"kafka.isolation.level": "read_uncommitted"}).isolation == READ_UNCOMMITTED
    assert stream(MAXOFFSETSPERTRIGGER="7").offsets_max == 7


def test_topics_are_selected_by_name_pattern_or_partition() -> None:
    """A pattern matches whole names and no internal topic; of assigned topics only those partitions are read."""
    named = ReadSettings.of_batch(GivenOptions({"topics": "a, b"})).subscription
    pattern = ReadSettings.of_batch(GivenOptions({"subscribePattern": "fl.*"})).subscription
    assigned = ReadSettings.of_batch(GivenOptions({"assign": '{"a": [0, 2]}'})).subscription

    assert (named.asked, pattern.asked, assigned.asked) == (("a", "b"), None, ("a",))
    assert [pattern.selects(name, 0, is_internal=False) for name in ("flights", "a-flights")] == [True, False]
    assert not pattern.selects("flights", 0, is_internal=True)
    assert [assigned.selects("a", partition, is_internal=False) for partition in range(3)] == [True, False, True]


def test_a_timestamp_comes_before_offsets() -> None:
    """As in Spark: of three options for one side the first counts."""
    both = batch(startingTimestamp="5", startingOffsetsByTimestamp='{"flights": {"0": 6}}', startingOffsets="earliest")
    by_partition = batch(startingOffsetsByTimestamp='{"flights": {"0": 6}}', startingOffsets="earliest")

    assert (both.starting.value, both.starting.is_time) == (5, True)
    assert (by_partition.starting.each, by_partition.starting.is_time) == ({("flights", 0): 6}, True)


def test_offsets_by_partition_name_all_of_them() -> None:
    """One that is missing would be read from somewhere."""
    bound = Bound(each={("a", 0): 5, ("a", 1): LATEST}, option="startingOffsets")

    assert bound.values([("a", 0), ("a", 1)]) == {("a", 0): 5, ("a", 1): LATEST}
    with pytest.raises(ConfigError, match="it lacks a-2"):
        bound.values([("a", 0), ("a", 1), ("a", 2)])
    with pytest.raises(ConfigError, match="it names a-1, which is not read"):
        bound.values([("a", 0)])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "exactly one of subscribe, subscribePattern, assign is needed, there is: none"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "exactly one"),
        ({"subscribe": "a,,b"}, "a topic has no name"),
        ({"subscribePattern": "a("}, "subscribePattern"),
        ({"assign": '{"a": []}'}, "a has no list of partitions"),
        ({"assign": "a"}, "it is no JSON"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "a batch would read nothing"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -1}}'}, "a batch would read nothing"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "a batch would read nothing"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "-3 of a-0 is no whole number"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"x": 0}}'}, "a has no numbers of partitions"),
        ({"subscribe": "a", "startingTimestamp": "today"}, "'today' is no time"),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "earliest"}, "none of error, latest"),
        ({"subscribe": "a", "kafka.isolation.level": "all"}, "none of read_committed, read_uncommitted"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "5"}, "a batch has no such option"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"subscribe": "a", "minPartitions": "8"}, "it has no meaning here"),
        ({"subscribe": "a", "kafka.group.id": "g"}, "it has no meaning here"),
        ({"subscribe": "a", "startingOffset": "latest"}, "there is no such option"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, str], why: str) -> None:
    """Before anything is read, with the option's name and what to do."""
    with pytest.raises(ConfigError, match=why) as caught:
        ReadSettings.of_batch(GivenOptions(options))
    assert caught.value.hint
    assert caught.value.field


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    """Options for one are refused."""
    with pytest.raises(ConfigError, match="a stream has no such option"):
        stream(**{name: "latest"})


@pytest.mark.parametrize("value", ["0", "-1", "many", ""])
def test_a_limit_is_a_number(value: str) -> None:
    """Of at least one offset."""
    with pytest.raises(ConfigError, match="no whole number above 0"):
        stream(maxOffsetsPerTrigger=value)
