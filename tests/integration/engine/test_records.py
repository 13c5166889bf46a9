"""Every kind of record and batch arrives at its own offset with its own bytes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_kind(mirror: Mirror, topic: TopicNamer, chance: random.Random, codec: str) -> None:
    """Keys, values, headers and timestamps are the same for any codec, with an empty partition beside them."""
    name = topic("kinds")
    topics.create_both(mirror.source, mirror.target, name, partitions=3)
    for partition, idempotent in ((0, True), (2, False)):
        given = topics.some(1500, chance)
        settings = {"compression_type": codec, "enable_idempotence": idempotent, "batch_num_messages": 200}
        topics.produce(mirror.source, name, given, partition=partition, **settings)

    reports = mirror.copy(name)

    assert sum(report.records for report in reports.values()) == 3000
    assert oracle.assert_same(mirror.source, mirror.target, name, partitions=3) == 3000


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batches_of_one_record_are_joined(mirror: Mirror, topic: TopicNamer, chance: random.Random, codec: str) -> None:
    """A source of one record a batch is the same at the target, in far fewer batches."""
    name = topic("single")
    topics.create_both(mirror.source, mirror.target, name)
    given = topics.some(2000, chance)
    topics.produce(mirror.source, name, given, compression_type=codec, batch_num_messages=1)

    mirror.copy(name)

    assert oracle.assert_same(mirror.source, mirror.target, name) == 2000
    assert len(oracle.batches(mirror.target, name)) < 2000 / 10


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_a_megabyte(mirror: Mirror, topic: TopicNamer, chance: random.Random, codec: str) -> None:
    """Records as large as a topic takes pass, between small ones."""
    name = topic("large")
    topics.create_both(mirror.source, mirror.target, name, partitions=2)
    for partition in (0, 1):
        large = [Given(b"k", chance.randbytes(1_040_000), [], topics.SEPTEMBER + n) for n in range(6)]
        small = topics.some(50, chance)
        topics.produce(
            mirror.source,
            name,
            [*small, *large, *small],
            partition=partition,
            compression_type=codec,
            message_max_bytes=1_048_588,
        )

    mirror.copy(name)

    assert oracle.assert_same(mirror.source, mirror.target, name, partitions=2) == 212


def test_console_consumer_sees_the_same(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Kafka's own consumer prints the same lines for both sides."""
    name = topic("console")
    topics.create_both(mirror.source, mirror.target, name)
    given = [record._replace(value=b"v%d" % n) for n, record in enumerate(topics.some(300, chance))]
    topics.produce(mirror.source, name, given, compression_type="zstd", batch_num_messages=30)

    mirror.copy(name)

    here, there = (
        oracle.printed_records(cluster.admin_bootstrap_servers, name, "read_committed", count=300)
        for cluster in (mirror.source, mirror.target)
    )
    assert len(here) == 300
    assert there == here
