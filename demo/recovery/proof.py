"""What became of every acknowledged record, by consumers that know nothing of Isthmus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from demo.oracle import is_record
from demo.recovery.application import NUMBER, Acknowledged
from demo.topics import Topic


@dataclass(frozen=True, slots=True)
class Missing:
    """Acknowledged records that a new leader does not have: `told` ones were counted by failover, `unheard` ones were
    acknowledged after the source was last heard, and `untold` ones would be lost without a word.
    """

    told: int
    unheard: int
    untold: int


def missing_at(
    promotion: Mapping[str, Any], topic: Topic, acknowledged: Mapping[int, Acknowledged], at: float
) -> Missing:
    """What `isthmus link failover -o json`, given at that time, makes of the records that were acknowledged."""
    found: Counter[str] = Counter()
    partitions = {each["partition"]: each for each in promotion["partitions"] if each["topic"] == topic.name}
    for record in acknowledged.values():
        partition = partitions[record.partition]
        if record.offset < partition["target_end"]:
            continue
        if record.offset < (partition["source_end"] or 0):
            found["told"] += 1
        elif record.at >= at - partition["source_end_age_seconds"]:
            found["unheard"] += 1
        else:
            found["untold"] += 1
    return Missing(found["told"], found["unheard"], found["untold"])


def numbers_in(bootstrap_servers: str, topic: Topic) -> Counter[int]:
    """The numbers of all records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "demo-proof",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: Counter[int] = Counter()
    unfinished = topic.partitions
    try:
        consumer.assign([TopicPartition(topic.name, partition, 0) for partition in range(topic.partitions)])
        while unfinished:
            for message in consumer.consume(10_000, timeout=0.1):
                if is_record(message):
                    found[int(dict(message.headers() or [])[NUMBER] or -1)] += 1
                else:
                    unfinished -= 1
    finally:
        consumer.close()
    return found
