"""Rows of tables."""

from __future__ import annotations

from isthmus.cli.tables.rows import LEASE_COLUMNS, PLACED_COLUMNS, lease_row, placed_row
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.model.process.leases import LeaseProgress
from isthmus.model.state import AGED_S

FLIGHTS = tuple(LaneKey(TargetTopic("flights"), number) for number in range(3))


def test_a_lease_is_shown_with_where_it_is_and_what_it_has() -> None:
    """How busy its worker is in percent; the age of its word only if that is old."""
    lease = LeaseProgress(
        slot=1,
        generation=7,
        executor="4",
        host="node-2",
        pid=99,
        busy=0.123,
        records_per_s=40.0,
        age_s=1.0,
        partitions=FLIGHTS,
    )
    row = lease_row("east-west", lease)
    assert row.keys() == {column.name for column in LEASE_COLUMNS}
    assert row == {
        "link": "east-west",
        "lease": "1.7",
        "executor": "4",
        "host": "node-2",
        "pid": 99,
        "busy": "12%",
        "records_per_second": 40.0,
        "partitions": 3,
        "as_of": "now",
        "lanes": "flights 0-2",
    }
    old = lease_row("east-west", LeaseProgress(slot=0, generation=1, age_s=AGED_S * 3))
    assert (old["as_of"], old["busy"], old["pid"]) == ("30 s ago", "", None)
    assert lease_row("east-west", LeaseProgress(slot=0, generation=1))["as_of"] == ""


def test_a_partition_is_shown_with_its_lease() -> None:
    """Which partition is where."""
    row = placed_row("east-west", LeaseProgress(slot=0, generation=2, executor="driver", host="h"), FLIGHTS[1])
    assert row.keys() == {column.name for column in PLACED_COLUMNS}
    assert [*row.values()] == ["east-west", "flights", 1, "0.2", "driver", "h"]
