"""Finds what faults are done to: who leads a partition, who controls a cluster, which topics are mirrored."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.protocol.admin import DescribeQuorumRequest

from isthmus.errors import ClusterError
from isthmus.local import LocalBroker
from isthmus.local.probe import ask
from soak.faults.catalogue import NotNow
from soak.judge.evidence import PartitionKey
from soak.scene import TERM_S, Scene, leader
from soak.side import BROKERS, Side

_ASK_S = 5.0


def some_partition(scene: Scene, chance: random.Random) -> PartitionKey:
    """A partition of a topic that every fault may touch, and that is mirrored.

    :raises NotNow: There is none.
    """
    mirrored = [key for key in scene.watch.newest["target"] if key[0] in scene.topics]
    if not mirrored:
        raise NotNow("nothing is mirrored that could be chosen")
    return chance.choice(sorted(mirrored))


def some_leader(scene: Scene, side: Side, chance: random.Random) -> tuple[LocalBroker, dict[str, Any]]:
    """The broker that leads some mirrored partition, and what to tell of it.

    :raises NotNow: There is none.
    """
    key = some_partition(scene, chance)
    return _broker(side, leader(side, key)), {"side": side.name, "leader of": f"{key[0]}-{key[1]}"}


def leaders(side: Side) -> dict[PartitionKey, int]:
    """The broker that leads each partition, -1 where none does; topics go by their names at the source.

    :raises KafkaException: The cluster does not answer.
    """
    topics = side.admin.list_topics(timeout=TERM_S).topics
    return {
        (side.names.at_source(name), number): partition.leader
        for name, topic in topics.items()
        for number, partition in topic.partitions.items()
    }


def coordinator(side: Side, chance: random.Random) -> tuple[LocalBroker, dict[str, Any]]:
    """A broker that coordinates transactions or groups.

    :raises NotNow: There is none.
    """
    known = side.admin.list_topics(timeout=TERM_S).topics
    topic = chance.choice(("__transaction_state", "__consumer_offsets"))
    if topic not in known:
        raise NotNow(f"the {side.name} has no {topic} yet")
    partition = chance.choice(sorted(known[topic].partitions))
    return _broker(side, leader(side, (topic, partition))), {"side": side.name, "leads": f"{topic}-{partition}"}


def controller(side: Side) -> LocalBroker:
    """The node that leads the quorum of controllers.

    :raises NotNow: Nobody tells.
    """
    topic = DescribeQuorumRequest.TopicData
    asked = topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])
    for broker in side.cluster.brokers:
        try:
            told = ask(broker.admin_port, DescribeQuorumRequest(topics=[asked]), cluster=side.name, timeout_s=_ASK_S)
        except ClusterError:
            continue
        leads = told.topics[0].partitions[0].leader_id if told.topics else -1
        if leads > 0:
            return side.broker(leads)
    raise NotNow(f"no controller of the {side.name} can be found")


def some_broker(side: Side, chance: random.Random) -> LocalBroker:
    return side.broker(chance.randint(1, BROKERS))


def configure(side: Side, kind: ResourceType, name: str, **configs: object) -> None:
    """Change dynamic configs; `None` takes one back. The dots of a name are written as underscores.

    :raises KafkaException: The cluster refused.
    """
    resource = ConfigResource(kind, side.names.called(name))
    for key, value in configs.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        text = "" if value is None else str(value)
        resource.add_incremental_config(ConfigEntry(key.replace("_", "."), text, incremental_operation=operation))
    side.admin.incremental_alter_configs([resource])[resource].result(TERM_S)


@contextmanager
def one_in_sync(scene: Scene, key: PartitionKey, follower: int) -> Iterator[None]:
    """While the block lasts the leader of a partition of the target, which has one follower, refuses what is appended:
    two replicas have to be in sync, and the follower's broker is dead. More than there are replicas cannot be asked
    for: brokers take the smaller number.
    """
    configure(scene.target, ResourceType.TOPIC, key[0], min_insync_replicas=2)
    scene.target.broker(follower).kill()
    try:
        scene.until(lambda: in_sync(scene.target, key) == 1, "the follower is out of sync")
        yield
    finally:
        scene.target.broker(follower).start(wait=False)
        configure(scene.target, ResourceType.TOPIC, key[0], min_insync_replicas=1)


def in_sync(side: Side, key: PartitionKey) -> int:
    """How many replicas of a partition are in sync; the topic goes by its name at the source."""
    called = side.names.called(key[0])
    return len(side.admin.list_topics(called, timeout=TERM_S).topics[called].partitions[key[1]].isrs)


@contextmanager
def repeating(work: Callable[[], object], every_s: Callable[[], float]) -> Iterator[None]:
    """Do something again and again while the block lasts; what fails is tried again."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s()):
            try:
                work()
            except Exception:  # noqa: BLE001, S112  # the cluster is being broken meanwhile: the next time counts
                continue

    thread = threading.Thread(target=run, name="repeating")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _broker(side: Side, node_id: int) -> LocalBroker:
    if node_id <= 0:
        raise NotNow(f"there is no leader at the {side.name}")
    return side.broker(node_id)
