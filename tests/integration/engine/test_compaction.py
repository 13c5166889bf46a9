"""Sources whose log cleaner took records: the others keep their offsets, up to a limit of holes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from isthmus.local import LocalCluster
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.lane import LaneState
from testing.records import oracle, topics
from testing.records.compaction import Compacted, keys
from testing.records.transactions import TransactionalProducer
from testing.runs.mirror import Mirror, all_are

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


@pytest.fixture(scope="module", autouse=True)
def _eager_cleaner(east: LocalCluster) -> None:
    """The log cleaner of the source looks for work all the time."""
    topics.configure_broker(east, log_cleaner_backoff_ms=100)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_holes_of_every_kind(mirror: Mirror, topic: TopicNamer, codec: str) -> None:
    """A leading hole, holes within batches, whole batches missing and batches kept empty."""
    source = Compacted(mirror.source, topic("holes"))
    plain = {"compression_type": codec, "enable_idempotence": False}
    source.write(keys("first", 30), **plain)  # all written again: a leading hole
    source.write(keys("a", 20) + keys("once", 20), **plain)  # the first half is written again
    source.write(keys("b", 25), **plain)  # a whole batch goes
    source.write(keys("c", 15), compression_type=codec, enable_idempotence=True)  # kept empty: the producer's last
    source.write(keys("mixed", 10) + keys("c", 15) + keys("first", 30), **plain)
    source.write(keys("b", 25) + keys("a", 20)[::2], **plain)
    source.write([*keys("a", 20)[1::2], b"last"], **plain)
    source.write([b"tail"], **plain)
    topics.create(mirror.target, source.name, cleanup_policy="compact")
    source.await_cleaning(20 + 15 + 25 + 20 + 30 + 10 + 2)
    stored = source.stored()
    assert stored[0][0] > 0, "no leading hole"
    assert any(count == 0 for _, _, count in stored), "no empty batch"
    assert any(0 < count < last - first + 1 for first, last, count in stored), "no hole within a batch"
    assert any(here[1] + 1 < there[0] for here, there in pairwise(stored)), "no missing batch"

    mirror.copy(source.name, is_compacted=True)

    assert oracle.assert_same(mirror.source, mirror.target, source.name) == 122


@pytest.mark.parametrize("aborted", [AbortedPolicy.COPY, AbortedPolicy.OMIT])
def test_compacted_transactions(mirror: Mirror, topic: TopicNamer, aborted: AbortedPolicy) -> None:
    """What the cleaner leaves of committed and aborted transactions looks the same to both kinds of consumers."""
    # Brokers stamp markers with their clock: older than all records, they never begin a segment of their own.
    source = Compacted(mirror.source, topic("transactions"), begin=int(time.time() * 1000) + 60_000)
    writing = TransactionalProducer(mirror.source, source.name)
    for commit in (True, False, True, False):
        writing.send(source.name, source.stamped(keys("k", 10) + keys(f"only-{commit}-", 5)))
        writing.end(commit=commit)
    source.write(keys("k", 5))
    source.write([b"tail"])
    topics.create(mirror.target, source.name, cleanup_policy="compact")
    source.await_cleaning(5 + 5 + 5 + 1)

    mirror.copy(source.name, is_compacted=True, aborted=aborted)

    isolations = oracle.ISOLATIONS if aborted is AbortedPolicy.COPY else oracle.ISOLATIONS[:1]
    oracle.assert_same(mirror.source, mirror.target, source.name, isolations=isolations)


def test_too_many_holes(mirror: Mirror, topic: TopicNamer) -> None:
    """More holes than allowed refuse the lane, which says how to allow them; then it goes on."""
    source = Compacted(mirror.source, topic("sparse"))
    for _ in range(3):
        source.write(keys("k", 50), enable_idempotence=False)
    source.write([b"tail"], enable_idempotence=False)
    topics.create(mirror.target, source.name, cleanup_policy="compact")
    source.await_cleaning(51)

    reports = mirror.copy(source.name, is_compacted=True, holes_max=99, until=all_are(LaneState.REFUSED))
    (report,) = reports.values()
    assert report.problem is not None
    assert "compaction_holes_max" in report.problem.hint
    mirror.copy(source.name, is_compacted=True, holes_max=100)

    assert oracle.assert_same(mirror.source, mirror.target, source.name) == 51


def test_crashes_among_holes(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Engines cut off while they fill holes are followed by one that ends with the same offsets."""
    source = Compacted(mirror.source, topic("crashed"))
    for n in range(12):
        source.write([*keys("k", 200), f"kept-{n}".encode()], enable_idempotence=False)
    source.write([b"tail"], enable_idempotence=False)
    topics.create(mirror.target, source.name, cleanup_policy="compact")
    source.await_cleaning(200 + 12 + 1)

    mirror.copy_with_crashes(source.name, chance, crashes=4, is_compacted=True)

    assert oracle.assert_same(mirror.source, mirror.target, source.name) == 213
