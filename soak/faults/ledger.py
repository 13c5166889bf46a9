"""What the mirror remembers is lost, cut or forged: row 28."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import ResourceType

from soak.faults.catalogue import ISTHMUS, TRANSFORM, NotNow, Told, fault
from soak.faults.finding import configure
from soak.scene import TERM_S, Scene

_LEDGER: Final = "__isthmus.ledger"


@fault(28, "ledger", lasts_s=(5.0, 15.0), mirrors=ISTHMUS)
def ledger_deleted(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """The topic in which Isthmus remembers is deleted."""
    _partitions(scene)
    _is_expendable(scene)
    scene.target.admin.delete_topics([_LEDGER])[_LEDGER].result(TERM_S)
    yield {}


@fault(28, "ledger", lasts_s=(5.0, 15.0), mirrors=ISTHMUS)
def ledger_emptied(scene: Scene, _chance: random.Random) -> Iterator[Told]:
    """All records are deleted from the topic in which Isthmus remembers."""
    _is_expendable(scene)
    everything = [TopicPartition(_LEDGER, partition, -1) for partition in range(_partitions(scene))]
    # Of what is only compacted brokers let nobody delete.
    configure(scene.target, ResourceType.TOPIC, _LEDGER, cleanup_policy="compact,delete", retention_ms=-1)
    try:
        for future in scene.target.admin.delete_records(everything).values():
            future.result(TERM_S)
        yield {}
    finally:
        configure(scene.target, ResourceType.TOPIC, _LEDGER, cleanup_policy="compact", retention_ms=None)


@fault(28, "ledger", lasts_s=(5.0, 15.0), mirrors=ISTHMUS | TRANSFORM)
def ledger_forged(scene: Scene, chance: random.Random) -> Iterator[Told]:
    """Somebody writes what makes no sense into the topic in which Isthmus remembers."""
    partitions = _partitions(scene)
    producer = Producer({"bootstrap.servers": scene.target.servers, "log_level": 0})
    for number in range(20):
        key = chance.choice((b"lane/soak", b"\xff\x00", b"{}", b"", chance.randbytes(8)))
        value = chance.choice((b"{}", b"\x00\xff", b"[]", b'{"schema_version": 99}', None, chance.randbytes(30)))
        producer.produce(_LEDGER, partition=number % partitions, key=key, value=value)
    if producer.flush(TERM_S):
        raise NotNow("the ledger took no record")
    yield {"records": 20}


def _is_expendable(scene: Scene) -> None:
    """Where offsets are mapped it holds the places of all lanes: they are lost with it if nobody runs just then."""
    if scene.conditions.is_mapped:
        raise NotNow("the ledger holds the places of mapped lanes")


def _partitions(scene: Scene) -> int:
    found = scene.target.admin.list_topics(timeout=TERM_S).topics.get(_LEDGER)
    if found is None:
        raise NotNow("there is no ledger yet")
    return len(found.partitions)
