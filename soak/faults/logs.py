"""Logs and topics change under the mirror: rows 10 to 14 and 29."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions, ResourceType

from isthmus.local import LocalBroker
from soak.faults.catalogue import MIRRORS, NotNow, Told, fault
from soak.faults.finding import configure, some_broker
from soak.mirrors.isthmus import LINK, Isthmus
from soak.scene import TERM_S, Scene, create_topic, leader
from soak.side import Side

_MORE: Final = 100


@fault(10, lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def source_retention_outruns(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """While a topic is not copied, its source deletes what is too old."""
    victim = scene.victim("outrun", chance)
    with _held(scene, victim.topic):
        before = scene.copied(victim.key)
        scene.suffers(victim.topic, "source lost records")
        configure(scene.source, ResourceType.TOPIC, victim.topic, retention_ms=1000, segment_ms=1000)
        scene.until(lambda: _start(scene, "source", victim.key) > before + _MORE, "the source deleted records")
        configure(scene.source, ResourceType.TOPIC, victim.topic, retention_ms=-1, segment_ms=None)
    yield {"topic": victim.topic, "copied": before}


@fault(11, lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def source_records_deleted(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Somebody deletes records of the source that were not copied."""
    victim = scene.victim("deleted", chance)
    with _held(scene, victim.topic):
        before = scene.copied(victim.key)
        scene.until(lambda: _high(scene, "source", victim.key) > before + _MORE, "the source goes on")
        scene.suffers(victim.topic, "source lost records")
        _delete_records(scene.source, victim.key, before + _MORE)
    yield {"topic": victim.topic, "copied": before, "deleted to": before + _MORE}


@fault(11, lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def source_copied_records_deleted(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Somebody deletes records of the source that were copied."""
    victim = scene.victim("trimmed-source", chance)
    to = scene.copied(victim.key)
    _delete_records(scene.source, victim.key, to)
    yield {"topic": victim.topic, "deleted to": to}


@fault(11, lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def target_records_deleted(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Somebody deletes records of the target: some, or all of them."""
    victim = scene.victim("trimmed-target", chance)
    high = scene.copied(victim.key)
    # -1 is Kafka's word for the end of the log, wherever that is.
    to = chance.choice((high // 2, -1))
    scene.suffers(victim.topic, "target trimmed")
    _delete_records(scene.target, victim.key, to)
    yield {"topic": victim.topic, "deleted to": to}


@fault(12, lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def source_topic_recreated(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A topic of the source is deleted and created anew, with other records."""
    victim = scene.victim("recreated", chance)
    victim.writer.end()
    victim.writer.wait()
    scene.suffers(victim.topic, "source recreated")
    delete_topic(scene, scene.source, victim.topic)
    create_topic(scene.source, victim.topic, partitions=1)
    scene.victims.begin(victim.topic, suffix="-again")
    yield {"topic": victim.topic}


@fault(13, lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def target_topic_deleted(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A topic of the target is deleted, and maybe somebody else creates another of its name."""
    victim = scene.victim("lost", chance)
    scene.suffers(victim.topic, "target recreated")
    delete_topic(scene, scene.target, victim.topic)
    is_recreated = chance.random() < 0.5
    if is_recreated:
        create_topic(scene.target, victim.topic, partitions=1)
    yield {"topic": victim.topic, "recreated": is_recreated}


@fault(14, lasts_s=(5.0, 10.0), mirrors=MIRRORS)
def partitions_added(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A topic of the source grows while it is written; that of the target may have grown before."""
    victim = scene.victim("grown", chance)
    count = chance.randint(2, 4)
    is_ahead = chance.random() < 0.4
    for side in (scene.target, scene.source) if is_ahead else (scene.source,):
        called = side.names.called(victim.topic)
        side.admin.create_partitions([NewPartitions(called, count)])[called].result(TERM_S)
    keys = [(victim.topic, partition) for partition in range(count)]
    scene.until(lambda: all(leader(scene.source, key) > 0 for key in keys), "the new partitions have leaders")
    victim.writer.partitions = count
    yield {"topic": victim.topic, "partitions": count, "target first": is_ahead}


@fault(29, "target brokers", lasts_s=(5.0, 15.0))
def target_disk_full(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the target can write no more: no file may grow."""
    yield from _full(some_broker(scene.target, chance))


@fault(29, "source brokers", lasts_s=(5.0, 15.0))
def source_disk_full(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """A broker of the source can write no more: no file may grow."""
    yield from _full(some_broker(scene.source, chance))


def _full(broker: LocalBroker) -> Iterator[Told]:
    """A limit on the size of its files fails every write, as a full disk does; a broker without a disk ends itself."""
    pid = broker.pid
    if pid is None:
        raise NotNow("the broker does not run")
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
    yield {"broker": broker.node_id}
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    # What it could not write may be half there: it looks again when it starts.
    broker.kill()
    broker.start(wait=False)


@contextmanager
def _held(scene: Scene, topic: str) -> Iterator[None]:
    """Have the mirror not copy a topic: by its own command if it has one, else by standing still."""
    mirror = scene.supervisor.mirror
    if isinstance(mirror, Isthmus):
        called = scene.target.names.called(topic)
        scene.history.tell("paused", topic=topic, phase="begin")
        paused = mirror.call("pause", LINK, "--topic", called)
        if paused.returncode:
            raise NotNow(f"isthmus pause: {paused.stderr.strip()}")
        try:
            yield
        finally:
            resumed = mirror.call("resume", LINK, "--topic", called)
            if resumed.returncode == 0:
                scene.history.tell("paused", topic=topic, phase="end")
            scene.history.tell("command", command="resume", topic=topic, code=resumed.returncode)
        return
    frozen = scene.supervisor.signal_all(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in frozen:
            process.send(signal.SIGCONT)


def _start(scene: Scene, side: str, key: tuple[str, int]) -> int:
    ends = scene.watch.newest[side].get(key)
    return 0 if ends is None else ends.start


def _high(scene: Scene, side: str, key: tuple[str, int]) -> int:
    ends = scene.watch.newest[side].get(key)
    return 0 if ends is None else ends.high


def _delete_records(side: Side, key: tuple[str, int], to: int) -> None:
    for future in side.admin.delete_records([TopicPartition(side.names.called(key[0]), key[1], to)]).values():
        future.result(TERM_S)


def delete_topic(scene: Scene, side: Side, name: str) -> None:
    called = side.names.called(name)
    side.admin.delete_topics([called])[called].result(TERM_S)
    scene.until(lambda: called not in side.admin.list_topics(timeout=TERM_S).topics, f"{called} is deleted")
