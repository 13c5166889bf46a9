"""What is said of a target topic that stands in the way: what deleting it loses, and how that is kept."""

from __future__ import annotations

from isthmus.model.cluster import Cluster, Security
from isthmus.model.links.remedies import (
    HeldOffsets,
    console_consumer,
    explain_recreated,
    keep_or_delete,
    keep_or_delete_unknown,
)

WEST = Cluster(alias="west", bootstrap_servers=("w1:9092", "w2:9092"))


def test_what_is_lost_is_counted() -> None:
    """Every stretch is named, all together are counted, and all ways out are there."""
    told = keep_or_delete("orders", WEST, [HeldOffsets(0, 10, 15), HeldOffsets(2, 0, 1000)])
    assert "offsets [10, 15) of orders-0, offsets [0, 1000) of orders-2, at most 1,005 records" in told
    assert "exclude orders from the link (topics.exclude)." in told
    assert "with --way mapped the topic keeps them" in told
    assert "`isthmus link recover LINK --topic orders` sets them aside in a quarantine topic" in told
    assert "--partition 0 --offset 10 --max-messages 5" in told
    assert "likewise for the others" in told
    assert told.endswith("then delete the target topic and run again.")
    assert "at most 1 record." in keep_or_delete("orders", WEST, [HeldOffsets(0, 10, 11)])


def test_nothing_to_lose() -> None:
    """Where the target has nothing of its own nobody is sent to copy it first."""
    told = keep_or_delete("orders", WEST, [HeldOffsets(1, 5, 5)])
    assert told == (
        "`isthmus link recover LINK --topic orders` deletes the target topic and has it filled again: its partition 1 "
        "has no record that the source lacks."
    )
    assert "console-consumer" not in keep_or_delete("orders", WEST, [])


def test_many_stretches_are_not_all_named() -> None:
    """A long list is cut short, the count is of all."""
    told = keep_or_delete("orders", WEST, [HeldOffsets(partition, 0, 10) for partition in range(40)])
    assert "orders-4 and 35 more partitions, at most 400 records" in told
    assert "orders-5," not in told


def test_unknown_extent() -> None:
    """Where nobody has counted what others wrote, verification does."""
    told = keep_or_delete_unknown("orders", WEST, 3)
    assert "`isthmus verify --topic orders` lists and counts" in told
    assert "--partition 3 --offset FIRST_OFFSET --max-messages COUNT" in told


def test_unknown_end() -> None:
    """A log whose end was not seen is to be kept to its end, whatever that is."""
    told = explain_recreated("orders", WEST, [HeldOffsets(0, 7, -1)])
    assert "orders-0 from offset 7 on, however many records that are" in told
    assert "--offset 7 --timeout-ms" in told


def test_command_reads_a_log_from_its_beginning() -> None:
    """Offset 0 may be gone: a consumer that asks for it would begin at the end and keep nothing."""
    command = console_consumer("orders", WEST, HeldOffsets(0, 0, 9))
    assert (
        "--bootstrap-server w1:9092,w2:9092 --topic orders --partition 0 --offset earliest --max-messages 9" in command
    )
    assert "consumer.config" not in command


def test_command_for_a_cluster_with_a_login() -> None:
    """Where a login is needed its file is named, and no secret is told."""
    secured = Cluster(alias="west", bootstrap_servers=("w:9093",), security=Security(protocol="SASL_SSL"))
    assert "--consumer.config CLIENT_PROPERTIES" in console_consumer("orders", secured, HeldOffsets(0, 3, 9))
