"""Timestamps are the same on both sides, whoever stamped them at the source."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from testing.records import oracle, topics
from testing.records.transactions import interleave
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_append_times_are_kept(mirror: Mirror, topic: TopicNamer, chance: random.Random, codec: str) -> None:
    """What the source's broker stamped is what a CreateTime target shows; so are batches from before it did."""
    name = topic("stamped")
    topics.create(mirror.source, name)
    topics.create(mirror.target, name)
    for n, stamping in enumerate(("CreateTime", "LogAppendTime", "LogAppendTime", "CreateTime")):
        topics.configure(mirror.source, name, message_timestamp_type=stamping)
        given = topics.some(100 + n, chance)
        topics.produce(mirror.source, name, given, compression_type=codec, batch_num_messages=20)

    mirror.copy(name)

    assert oracle.assert_same(mirror.source, mirror.target, name, same_timestamp_type=False) == 406


def test_append_times_of_aborted_records_are_kept(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Stamps of the source's broker survive in aborted transactions too."""
    name = topic("stamped")
    topics.create(mirror.source, name, message_timestamp_type="LogAppendTime")
    topics.create(mirror.target, name)
    interleave(mirror.source, name, chance, steps=30)

    mirror.copy(name)

    oracle.assert_same(mirror.source, mirror.target, name, same_timestamp_type=False)
