"""Topics of which a remote tier holds the older part, on a broker with Kafka's own LocalTieredStorage (KIP-405)."""

from __future__ import annotations

import os
import random
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.local.jars import class_path
from isthmus.local.java import find_java
from isthmus.local.locks import load_lock, parse_lock
from isthmus.local.tools import kafka_tool
from isthmus.model.naming import PrefixNaming
from isthmus.model.offsets import OffsetPolicy, RemotePolicy
from isthmus.model.text.plain import plain
from isthmus.topics.preflight import TopicMode
from testing.patience import TERM_S, UNFENCED
from testing.records import oracle, topics
from testing.runs.running import configuration_of, link_of

pytestmark = pytest.mark.integration

_LOCK: Final = (
    "org.apache.kafka:kafka-storage:4.3.1:jar:test "
    "sha256:f3236936854c13815ffaa7f35a3f2d6861c125616cba5395b538b8680dded886 638839"
)
_STORAGE: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


def storage_classes(folder: Path) -> str:
    """Where the broker finds the remote tier, and the one class that it wants of the clients of its own release."""
    clients = next(jar for jar in load_lock("mm2-4.3.1").jars if jar.artifact == "kafka-clients")
    held = class_path(parse_lock("clients", f"{clients} sha256:{clients.sha256} {clients.size_bytes}"), find_java())
    missing = folder / "logcontext.jar"
    with zipfile.ZipFile(held) as jar, zipfile.ZipFile(missing, "w") as few:
        for name in jar.namelist():
            if name.startswith("org/apache/kafka/common/utils/LogContext"):
                few.writestr(name, jar.read(name))
    return os.pathsep.join((class_path(parse_lock("tiered", _LOCK), find_java()), str(missing)))


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A source that moves what is old into a folder."""
    properties = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": _STORAGE,
        "remote.log.storage.manager.class.path": storage_classes(tmp_path_factory.mktemp("classes")),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rsm.config.dir": str(tmp_path_factory.mktemp("tier")),
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
    }
    with LocalCluster.start("tiered", brokers=1, heap_mb=256, properties={**UNFENCED, **properties}) as cluster:
        yield cluster


def told_start(cluster: LocalCluster, topic: str, when: str) -> int:
    """Where a log begins, as Kafka's own tool tells it."""
    arguments = ("--bootstrap-server", cluster.admin_bootstrap_servers, "--topic", topic, "--time", when)
    return int(kafka_tool("org.apache.kafka.tools.GetOffsetShell", *arguments).stdout.rsplit(":", 1)[1])


def test_what_a_tier_holds_is_copied_like_any_records(
    tiered: LocalCluster, west: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """A plan tells where the log begins on the source's own disks, and how much lies before; all of it arrives at the
    same offsets, and the target has no tier by that.
    """
    name = topic("tiered")
    topics.create(tiered, name, segment_bytes=1 << 20, local_retention_bytes=1, remote_storage_enable="true")
    for seed in range(4):
        topics.produce(tiered, name, topics.some(400, random.Random(seed), value_bytes=2000))
    deadline = time.monotonic() + TERM_S
    while (local := told_start(tiered, name, "earliest-local")) == 0:
        assert time.monotonic() < deadline, "nothing was moved into the tier"
    assert told_start(tiered, name, "earliest") == 0

    fabric = Fabric(configuration_of(link_of(tiered.cluster(), west.cluster(), name, name=name)), spark=spark)
    (planned,) = fabric.plan().links[0].topics
    start = planned.local_starts[0]
    assert local <= start < 1600
    assert plain(planned)["local_log_starts"] == {"0": start}
    (note,) = [each for each in planned.notes if "remote tier" in each.message]
    assert note.message.startswith(f"{start:,} offsets to copy")
    assert fabric.run(until="caught-up").exit_code == 0
    verdict = fabric.verify()[name]
    assert (verdict.equal, verdict.records) == (True, 1600)
    (done,) = fabric.plan().links[0].topics
    assert [each for each in done.notes if "remote tier" in each.message] == []
    what_a_tier_holds_is_left_there(tiered, west, name, spark)
    the_same_offsets_begin_behind_the_tier(tiered, west, name, spark)


def what_a_tier_holds_is_left_there(tiered: LocalCluster, west: LocalCluster, name: str, spark: SparkSession) -> None:
    """With `topics.remote: leave` the copy begins at the local log start, and what comes later follows; a plan says
    before where that is, and how much is left.
    """
    link = link_of(tiered.cluster(), west.cluster(), name, name=f"{name}-left")
    naming = PrefixNaming(target_prefix="left.")
    settings = replace(link.topics, offsets=OffsetPolicy.MAPPED, remote=RemotePolicy.LEAVE, naming=naming)
    fabric = Fabric(configuration_of(replace(link, topics=settings)), spark=spark)
    (planned,) = fabric.plan().links[0].topics
    start = planned.local_starts[0]
    assert planned.mode is TopicMode.MAPPED
    assert planned.partitions[0].lag_records == 1600 - start
    (note,) = [each for each in planned.notes if "are left there" in each.message]
    assert note.message.startswith(f"{start:,} offsets in the remote tier")
    assert fabric.run(until="caught-up").exit_code == 0
    topics.produce(tiered, name, topics.some(50, random.Random(9), value_bytes=2000))
    assert fabric.run(until="caught-up").exit_code == 0
    verdict = fabric.verify()[f"{name}-left"]
    assert verdict.equal
    (wanted,) = oracle.records(tiered.admin_bootstrap_servers, name)
    (copied,) = oracle.records(west.admin_bootstrap_servers, f"left.{name}")
    begun = 1650 - len(copied)
    assert start <= begun < 1600
    assert [(each.key, each.value) for each in copied] == [(each.key, each.value) for each in wanted[begun:]]
    (done,) = fabric.plan().links[0].topics
    assert [each for each in done.notes if "remote tier" in each.message] == []
    assert left_of(fabric, f"left.{name}") == [(0, begun, link.source.alias, name)]


def left_of(fabric: Fabric, topic: str) -> list[tuple[int, int, str, str]]:
    """Which offsets of which topic provenance says are in the tier of its cluster."""
    return [
        (each.offset_begin, each.offset_end, each.source_cluster, each.source_topic)
        for each in fabric.provenance(topic).origins
        if each.verb == "left in the source's tier"
    ]


def the_same_offsets_begin_behind_the_tier(
    tiered: LocalCluster, west: LocalCluster, name: str, spark: SparkSession
) -> None:
    """With the same offsets the target's log begins at the source's local log start, every record where the source has
    it; provenance tells whose tier holds what lies before.
    """
    link = link_of(tiered.cluster(), west.cluster(), name, name=f"{name}-same")
    naming = PrefixNaming(target_prefix="same.")
    settings = replace(link.topics, offsets=OffsetPolicy.AUTO, remote=RemotePolicy.LEAVE, naming=naming)
    fabric = Fabric(configuration_of(replace(link, topics=settings)), spark=spark)
    (planned,) = fabric.plan().links[0].topics
    start = planned.local_starts[0]
    assert (planned.mode, planned.lag_records) == (TopicMode.IDENTITY, 1650 - start)
    (note,) = [each for each in planned.notes if "are left there" in each.message]
    assert note.message.startswith(f"{start:,} offsets in the remote tier")
    assert fabric.run(until="caught-up").exit_code == 0
    topics.produce(tiered, name, topics.some(50, random.Random(10), value_bytes=2000))
    assert fabric.run(until="caught-up").exit_code == 0
    verdict = fabric.verify()[f"{name}-same"]
    begun = oracle.ends(west.admin_bootstrap_servers, f"same.{name}").start
    assert (verdict.equal, verdict.records) == (True, 1700 - begun)
    assert start <= begun < 1650
    (wanted,) = oracle.records(tiered.admin_bootstrap_servers, name)
    (copied,) = oracle.records(west.admin_bootstrap_servers, f"same.{name}")
    assert [(each.offset, each.key, each.value) for each in copied] == [
        (each.offset, each.key, each.value) for each in wanted[begun:]
    ]
    assert left_of(fabric, f"same.{name}") == [(0, begun, link.source.alias, name)]
