"""Brokers die, freeze, stutter, move their leaders, restart and lack replicas: rows 1 to 7, 49, 52 and 53."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from confluent_kafka import ElectionType, TopicPartition
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from isthmus.local import LocalBroker
from isthmus.local.probe import ask
from soak.faults.catalogue import CHANGING, ISTHMUS, MIRRORS, NotNow, Told, fault
from soak.faults.finding import (
    controller,
    coordinator,
    leaders,
    one_in_sync,
    repeating,
    some_broker,
    some_leader,
    some_partition,
)
from soak.scene import TERM_S, Scene
from soak.side import BROKERS, Side

_STUTTER_S = 0.2


@fault(1, "target brokers")
def target_leader_killed(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The leader of a partition of the target is killed."""
    broker, told = some_leader(scene, scene.target, chance)
    yield from killed(broker, told)


@fault(2, "source brokers")
def source_leader_killed(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The leader of a partition of the source is killed."""
    broker, told = some_leader(scene, scene.source, chance)
    yield from killed(broker, told)


@fault(3, "source brokers")
def source_controller_killed(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """The leader of the source's controllers is killed."""
    yield from killed(controller(scene.source), {"side": "source"})


@fault(3, "target brokers")
def target_controller_killed(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """The leader of the target's controllers is killed."""
    yield from killed(controller(scene.target), {"side": "target"})


@fault(4, "target brokers", lasts_s=(2.0, 10.0))
def all_target_brokers_killed(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """All brokers of the target are killed, and started in any order."""
    yield from _all_killed(scene.target, chance)


@fault(4, "source brokers", lasts_s=(2.0, 10.0))
def all_source_brokers_killed(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """All brokers of the source are killed, and started in any order."""
    yield from _all_killed(scene.source, chance)


@fault(5, "target brokers", lasts_s=(3.0, 120.0))
def target_leader_frozen(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The leader of a partition of the target stands still, maybe for so long that others take over, and goes on."""
    broker, told = some_leader(scene, scene.target, chance)
    yield from frozen(broker, told)


@fault(5, "source brokers", lasts_s=(3.0, 120.0))
def source_leader_frozen(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The leader of a partition of the source stands still, maybe for so long that others take over, and goes on."""
    broker, told = some_leader(scene, scene.source, chance)
    yield from frozen(broker, told)


@fault(6, "target brokers")
def target_coordinator_lost(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A coordinator of transactions or groups of the target is killed or frozen."""
    broker, told = coordinator(scene.target, chance)
    yield from chance.choice((killed, frozen))(broker, told)


@fault(6, "source brokers")
def source_coordinator_lost(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A coordinator of transactions or groups of the source is killed or frozen."""
    broker, told = coordinator(scene.source, chance)
    yield from chance.choice((killed, frozen))(broker, told)


@fault(7, "target brokers", lasts_s=(10.0, 20.0))
def target_leaders_moved(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Replicas of the target are reassigned and leaders elected, again and again."""
    yield from _leaders_moved(scene, scene.target, chance)


@fault(7, "source brokers", lasts_s=(10.0, 20.0))
def source_leaders_moved(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Replicas of the source are reassigned and leaders elected, again and again."""
    yield from _leaders_moved(scene, scene.source, chance)


@fault(7, "target brokers", lasts_s=(1.0, 3.0))
def target_rolled(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The brokers of the target are restarted in good order, one after another."""
    yield from _rolled(scene.target, chance)


@fault(7, "source brokers", lasts_s=(1.0, 3.0))
def source_rolled(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """The brokers of the source are restarted in good order, one after another."""
    yield from _rolled(scene.source, chance)


@fault(49, "target brokers", lasts_s=(10.0, 20.0))
def target_broker_stutters(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the target stands still for 0.2 s again and again, as with a disk that stalls."""
    yield from stutters(some_broker(scene.target, chance), chance)


@fault(49, "source brokers", lasts_s=(10.0, 20.0))
def source_broker_stutters(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the source stands still for 0.2 s again and again, as with a disk that stalls."""
    yield from stutters(some_broker(scene.source, chance), chance)


@fault(52, "target brokers", lasts_s=(15.0, 60.0), mirrors=MIRRORS)
def target_below_min_isr(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A topic of the target has fewer replicas in sync than it asks for: its leader refuses what is appended."""
    first, second = chance.sample(range(1, BROKERS + 1), 2)
    victim = scene.victim("few-replicas", chance, replicas=[[first, second]], is_at_target=True, min_insync_replicas=1)
    with one_in_sync(scene, victim.key, second):
        yield {"topic": victim.topic, "broker": second}


@fault(53, "target brokers", "mirror", lasts_s=(15.0, 60.0), mirrors=ISTHMUS | CHANGING)
def target_leader_frozen_at_start(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the target stands still, and the mirror begins anew: what other brokers lead is copied meanwhile."""
    broker, told = some_leader(scene, scene.target, chance)
    others = sorted(key for key, led_by in leaders(scene.target).items() if led_by not in (-1, broker.node_id))
    broker.pause()
    scene.history.tell("beside frozen", phase="begin", others=[key for key in others if key[0] in scene.topics])
    try:
        scene.supervisor.kill()
        yield {**told, "broker": broker.node_id, "did": "froze"}
    finally:
        scene.history.tell("beside frozen", phase="end")
        broker.resume()


def killed(broker: LocalBroker, told: Told) -> Iterator[Told]:
    broker.kill()
    yield {**told, "broker": broker.node_id}
    broker.start(wait=False)


def frozen(broker: LocalBroker, told: Told) -> Iterator[Told]:
    broker.pause()
    try:
        yield {**told, "broker": broker.node_id, "did": "froze"}
    finally:
        broker.resume()


def _all_killed(side: Side, chance: random.Random) -> Iterator[Told]:
    for broker in chance.sample(side.cluster.brokers, BROKERS):
        broker.kill()
    order = chance.sample(side.cluster.brokers, BROKERS)
    yield {"order": [broker.node_id for broker in order]}
    for broker in order:
        broker.start(wait=False)


def _rolled(side: Side, chance: random.Random) -> Iterator[Told]:
    order = chance.sample(side.cluster.brokers, BROKERS)
    for broker in order:
        broker.terminate()
        broker.start()
        side.await_in_sync(TERM_S)
    yield {"order": [broker.node_id for broker in order]}


def stutters(broker: LocalBroker, chance: random.Random) -> Iterator[Told]:
    def stutter() -> None:
        broker.pause()
        try:
            time.sleep(_STUTTER_S)
        finally:
            broker.resume()

    with repeating(stutter, lambda: chance.uniform(0.05, 0.5)):
        yield {"broker": broker.node_id}


def _leaders_moved(scene: Scene, side: Side, chance: random.Random) -> Iterator[Told]:
    client = side.admin

    def move() -> None:
        topic, partition = some_partition(scene, chance)
        topic = side.names.called(topic)
        found = client.list_topics(topic, timeout=TERM_S).topics[topic].partitions[partition]
        if len(found.replicas) != BROKERS:
            raise NotNow("it is on fewer brokers")
        order = chance.sample(found.replicas, BROKERS)
        asked = AlterPartitionReassignmentsRequest.ReassignableTopic
        wanted = asked(name=topic, partitions=[asked.ReassignablePartition(partition_index=partition, replicas=order)])
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=10_000, allow_replication_factor_change=False, topics=[wanted]
        )
        ask(some_broker(side, chance).admin_port, request, cluster=side.name)
        client.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, partition)]).result(TERM_S)

    with repeating(move, lambda: chance.uniform(0.3, 1.5)):
        yield {"side": side.name}
