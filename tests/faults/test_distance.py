"""A target or a source far away: what waiting costs is saved, and nothing else changes."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.findings import Level
from isthmus.model.link import Limits
from testing.brokers.proxy import HOST, behind_proxy
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.mirror import Mirror
from testing.runs.running import configuration_of, link_of
from testing.verbs import examine
from tests.faults.stream import DAY_MS

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
DELAY_S: Final = 0.02
BATCHES: Final = 120
BATCH_RECORDS: Final = 40
VALUE_BYTES: Final = 150
PARTITIONS: Final = 2


class Distant:
    """A cluster, and how to log in to it from far away."""

    def __init__(self, cluster: LocalCluster, port: int) -> None:
        self.cluster = cluster
        self.login = Cluster(alias=cluster.name, bootstrap_servers=(f"{HOST}:{port}",))


@pytest.fixture(scope="module")
def distant() -> Iterator[Distant]:
    """A cluster whose answers take `DELAY_S` there and as much back."""
    with behind_proxy("distant", delay_s=DELAY_S) as (cluster, proxy):
        yield Distant(cluster, proxy.port)


def filled(mirror: Mirror, name: str, chance: random.Random, *, age_ms: int, codec: str = "none") -> None:
    """A topic on both sides; the source holds batches of `BATCH_RECORDS`, too many to be joined for being small."""
    topics.create_both(mirror.source, mirror.target, name, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        fill(mirror.source, name, chance, partition=partition, age_ms=age_ms, codec=codec)


def fill(
    cluster: LocalCluster, name: str, chance: random.Random, *, partition: int = 0, age_ms: int = 0, codec: str = "none"
) -> None:
    """Produce `BATCHES` batches into a partition."""
    stamp = int(time.time() * 1000) - age_ms
    given = [Given(b"%d" % n, chance.randbytes(VALUE_BYTES), [], stamp + n) for n in range(BATCHES * BATCH_RECORDS)]
    settings = {"batch_num_messages": BATCH_RECORDS, "compression_type": codec}
    topics.produce(cluster, name, given, partition=partition, **settings)


@pytest.mark.parametrize(
    ("age_ms", "codec"),
    [
        (0, "none"),
        (3 * DAY_MS, "lz4"),
        (3 * DAY_MS, "gzip"),
    ],
)
def test_a_far_target_gets_larger_batches(
    distant: Distant, east: LocalCluster, topic: TopicNamer, chance: random.Random, age_ms: int, codec: str
) -> None:
    """Ordinary batches are joined where answers take long, whether several requests may be in flight or one."""
    name = topic("joined")
    mirror = Mirror(east, distant.cluster, target_login=distant.login)
    filled(mirror, name, chance, age_ms=age_ms, codec=codec)

    mirror.copy(name)

    assert (
        oracle.assert_same(east, distant.cluster, name, partitions=PARTITIONS) == PARTITIONS * BATCHES * BATCH_RECORDS
    )
    here, there = (oracle.batches(cluster, name) for cluster in (east, distant.cluster))
    assert len(there) < len(here) / 2


@pytest.mark.parametrize("age_ms", [0, 3 * DAY_MS])
def test_crashes_far_from_the_target(
    distant: Distant, east: LocalCluster, topic: TopicNamer, chance: random.Random, age_ms: int
) -> None:
    """Whatever was on its long way when an engine was cut off, every record stands once at its offset."""
    name = topic("crashed")
    mirror = Mirror(east, distant.cluster, target_login=distant.login)
    filled(mirror, name, chance, age_ms=age_ms)

    mirror.copy_with_crashes(name, chance, crashes=3)

    assert (
        oracle.assert_same(east, distant.cluster, name, partitions=PARTITIONS) == PARTITIONS * BATCHES * BATCH_RECORDS
    )


@contextmanager
def starved() -> Iterator[None]:
    """Every processor has two other things to do, all the time."""
    with ExitStack() as ending:
        for _ in range(2 * (os.cpu_count() or 1)):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            ending.callback(busy.wait)
            ending.callback(busy.kill)
        yield


def test_a_slow_target_is_not_a_far_one(
    east: LocalCluster, west3: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Near brokers without processor time to spare get the batches of the source, also where replicas acknowledge."""
    name = topic("starved")
    topics.create(east, name)
    topics.create(west3, name, replicas=3)
    fill(east, name, chance)
    # Slow enough for every distance to be known long before the end.
    limits = Limits(bytes_per_s=BATCHES * BATCH_RECORDS * VALUE_BYTES // 3)

    with starved():
        Mirror(east, west3).copy(name, engine={"limits": limits})

    assert oracle.batches(west3, name) == oracle.batches(east, name)


@pytest.mark.parametrize("far", ["source", "target"])
def test_doctor_says_beside_which_cluster_to_run(
    distant: Distant, east: LocalCluster, topic: TopicNamer, far: str
) -> None:
    """Round trips to both are measured; a far target is worth a word, as appends wait for answers, a far source not."""
    name = topic("placed")
    here, there = east.cluster(), distant.login
    source, target = (there, here) if far == "source" else (here, there)
    topics.create(distant.cluster if far == "source" else east, name)
    findings = asyncio.run(examine(configuration_of(link_of(source, target, name))))
    (found,) = [finding for finding in findings if finding.check == "distance"]
    assert (found.level is Level.WARN, "Run the link beside distant" in found.hint) == (far == "target",) * 2
    away_ms = {each[1]: float(each[2]) for each in re.finditer(r"(east|distant) (?:is )?([\d.]+) ms", found.message)}
    assert away_ms["distant"] >= 2 * DELAY_S * 1000
    assert away_ms["east"] < away_ms["distant"]


def test_a_far_source(distant: Distant, west: LocalCluster, topic: TopicNamer, chance: random.Random) -> None:
    """What is read from far away is the same."""
    name = topic("read")
    mirror = Mirror(distant.cluster, west, source_login=distant.login)
    filled(mirror, name, chance, age_ms=0, codec="lz4")

    mirror.copy(name)

    assert (
        oracle.assert_same(distant.cluster, west, name, partitions=PARTITIONS) == PARTITIONS * BATCHES * BATCH_RECORDS
    )
