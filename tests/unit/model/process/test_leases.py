"""Leases as they are shown."""

from __future__ import annotations

from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.model.process.leases import LeaseProgress, describe_partitions


def key(topic: str, number: int) -> LaneKey:
    """A partition."""
    return LaneKey(TargetTopic(topic), number)


def test_partitions_are_described_in_few_words() -> None:
    """By topic, in order, with runs of numbers."""
    keys = [key("flights", number) for number in (7, 2, 0, 1, 3)] + [key("bookings", 1)]
    assert describe_partitions(keys) == "bookings 1, flights 0-3 7"
    assert describe_partitions([]) == ""


def test_what_is_unknown_of_a_lease_is_null() -> None:
    """And partitions are topics with numbers."""
    lease = LeaseProgress(slot=1, generation=12, partitions=(key("flights", 0),))
    assert lease.name == "1.12"
    assert lease.as_dict() == {
        "slot": 1,
        "generation": 12,
        "executor": None,
        "host": None,
        "pid": None,
        "busy": None,
        "records_per_second": None,
        "heard_seconds_ago": None,
        "partitions": [{"topic": "flights", "partition": 0}],
    }
