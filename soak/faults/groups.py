"""Consumer groups are stormed, deleted, and used at the target: row 43."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from soak.faults.catalogue import MIRRORS, NotNow, Told, fault
from soak.faults.finding import repeating
from soak.positions import Surveyor
from soak.scene import TERM_S, Scene
from soak.side import Side

_PREFIX: Final = "soak.group-"
_JOINED_S: Final = 90.0
_CARRIED_S: Final = 120.0


@fault(43, lasts_s=(10.0, 20.0), mirrors=MIRRORS)
def source_rebalances(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Consumers of a group of the source come, commit and go all the time."""
    group = _name("storm", chance)
    scene.history.tell("touched", group=group)
    topic = scene.topics[0]

    def come_and_go() -> None:
        protocol = chance.choice(("classic", "consumer"))
        with _member(scene.source, f"{group}-{protocol}", topic, protocol) as member:
            if member.poll(chance.uniform(0.2, 2.0)) is not None:
                member.commit(asynchronous=False)

    with (
        repeating(come_and_go, lambda: chance.uniform(0.0, 0.3)),
        repeating(come_and_go, lambda: chance.uniform(0.0, 0.3)),
    ):
        yield {"group": group}


@fault(43, lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def source_group_deleted(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A group of the source is deleted that was carried."""
    group = _name("deleted", chance)
    scene.history.tell("touched", group=group)
    _carried(scene, group, 1)
    for future in scene.source.admin.delete_consumer_groups([group]).values():
        future.result(TERM_S)
    yield {"group": group}


@fault(43, lasts_s=(5.0, 20.0), mirrors=MIRRORS)
def group_used_at_target(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A consumer joins a group at the target and commits there, while others commit at the source."""
    group, place = _name("used", chance), (scene.topics[0], 0)
    scene.history.tell("touched", group=group)
    _carried(scene, group, 1)
    end = scene.copied(place)
    if end < 10:
        raise NotNow("there is too little at the target")
    expected = chance.randint(2, end)
    with _member(scene.target, group, place[0], chance.choice(("classic", "consumer"))) as member:
        member.commit(offsets=[_place(scene.target, place, expected)], asynchronous=False)
        _commit(
            scene.source, group, place, chance.randint(2, max(2, min(end, scene.watch.newest["source"][place].high)))
        )
        yield {"group": group, "committed": expected}
        found = _position(scene.target, group, place)
        if found is not None:
            scene.history.tell("kept", group=group, expected=expected, found=found)


def _name(label: str, chance: random.Random) -> str:
    return f"{_PREFIX}{label}-{chance.randrange(1 << 20):05x}"


def _carried(scene: Scene, group: str, offset: int) -> None:
    """A group that stands at both sides."""
    place = (scene.topics[0], 0)
    _commit(scene.source, group, place, offset)

    def is_carried() -> bool:
        found = _position(scene.target, group, place)
        # Where offsets are mapped it has some other one there.
        return found is not None if scene.conditions.is_mapped else found == offset

    scene.until(is_carried, f"{group} is carried", term_s=_CARRIED_S)


def _place(side: Side, place: tuple[str, int], offset: int) -> TopicPartition:
    return TopicPartition(side.names.called(place[0]), place[1], offset)


def _position(side: Side, group: str, place: tuple[str, int]) -> int | None:
    surveyor = Surveyor(side)
    try:
        return surveyor.positions([group], [place]).get(group, {}).get(place)
    finally:
        surveyor.close()


def _commit(side: Side, group: str, place: tuple[str, int], offset: int) -> None:
    consumer = _consumer(side, group)
    try:
        consumer.commit(offsets=[_place(side, place, offset)], asynchronous=False)
    finally:
        consumer.close()


@contextmanager
def _member(side: Side, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """A consumer that has its partitions."""
    consumer = _consumer(side, group, protocol)
    try:
        consumer.subscribe([side.names.called(topic)])
        deadline = time.monotonic() + _JOINED_S
        while not consumer.assignment():
            consumer.poll(0.1)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{group} got no partitions")
        yield consumer
    finally:
        # Where its coordinator is away the group will notice by itself.
        with suppress(KafkaException):
            consumer.close()


def _consumer(side: Side, group: str, protocol: str = "classic") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": side.servers,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "socket.timeout.ms": 20_000,
            "log_level": 0,
        }
    )
