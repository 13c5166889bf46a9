"""From the producer's clock to an independent consumer at the target, while somebody copies."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from bench.cases import LatencyCase
from bench.contenders import Contender, python_command
from bench.copying import CopyFailed, Running, running
from bench.payload import RECORD_BYTES
from bench.pouring import Pour
from bench.rig import Rig, Side

_STAMP_BYTES: Final = 8
_REACH_S: Final = 120.0
_TAIL_S: Final = 10.0


def latency_of(rig: Rig, contender: Contender | None, case: LatencyCase, folder: Path, label: str) -> dict[str, float]:
    """Latencies in ms with a contender, or with none: then the consumer reads the source itself.

    :raises CopyFailed: Records did not arrive.
    """
    topic = f"bench-{case.name}-{label}"
    rig.source.create(topic, case.partitions)
    filling = Pour(
        bootstrap_servers=rig.source.bootstrap_servers,
        topic=topic,
        partitions=case.partitions,
        batches=1,
        codec="none",
        batch_records=1,
    )
    try:
        if contender is None:
            return _measured(rig.source, topic, rig, topic, case, folder, label)
        copy = rig.copy(filling, label=label, folder=folder)
        with running(rig, contender, copy) as run:
            _reach(rig, run, filling)
            return _measured(rig.target, run.target_topic, rig, topic, case, folder, label)
    finally:
        rig.source.drop([topic])


def _reach(rig: Rig, run: Running, filling: Pour) -> None:
    """Send one record to every partition until all have arrived: from then on the contender is at work."""
    producer = Producer({"bootstrap.servers": filling.bootstrap_servers})
    for partition in range(filling.partitions):
        producer.produce(filling.topic, value=bytes(RECORD_BYTES), partition=partition)
    producer.flush()
    deadline = time.monotonic() + _REACH_S
    while sum(rig.target.ends(run.target_topic, filling.partitions)) < filling.partitions:
        if time.monotonic() > deadline or run.has_ended:
            raise CopyFailed(f"nothing arrived within {_REACH_S:.0f} s")
        time.sleep(0.1)


def _measured(
    side: Side, arrives_in: str, rig: Rig, topic: str, case: LatencyCase, folder: Path, label: str
) -> dict[str, float]:
    consumer = Consumer({"bootstrap.servers": side.bootstrap_servers, "group.id": "bench", "enable.auto.commit": False})
    try:
        consumer.assign(
            [TopicPartition(arrives_in, partition, OFFSET_BEGINNING) for partition in range(case.partitions)]
        )
        records = case.records_per_s * (case.warm_up_s + case.term_s)
        task = {
            "bootstrap_servers": rig.source.bootstrap_servers,
            "topic": topic,
            "partitions": case.partitions,
            "records_per_s": case.records_per_s,
            "records": records,
        }
        arguments, environment = python_command("bench.latency", task)
        pid = os.posix_spawn(arguments[0], arguments, environment)
        try:
            latencies_ms = _receive(consumer, records)
        finally:
            os.waitpid(pid, 0)
    finally:
        consumer.close()
    counted = sorted(latencies_ms[case.records_per_s * case.warm_up_s :])
    return {
        "p50_ms": counted[len(counted) // 2],
        "p99_ms": counted[len(counted) * 99 // 100],
        "max_ms": counted[-1],
    }


def _receive(consumer: Consumer, records: int) -> list[float]:
    latencies_ms: list[float] = []
    heard_at = time.monotonic()
    while len(latencies_ms) < records:
        message = consumer.poll(0.5)
        if message is None:
            if time.monotonic() - heard_at > _TAIL_S:
                raise CopyFailed(f"{records - len(latencies_ms)} of {records} records did not arrive")
            continue
        now_ns = time.time_ns()
        if message.error():
            raise KafkaException(message.error())
        heard_at = time.monotonic()
        sent_ns = int.from_bytes((message.value() or b"")[:_STAMP_BYTES], "big")
        if sent_ns:
            latencies_ms.append((now_ns - sent_ns) / 1e6)
    return latencies_ms


def send(bootstrap_servers: str, topic: str, partitions: int, records_per_s: int, records: int) -> None:
    """Send records at a steady pace, each beginning with the time it was handed to the producer."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
    filling = bytes(RECORD_BYTES - _STAMP_BYTES)
    begin = time.monotonic()
    for number in range(records):
        wait_s = begin + number / records_per_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        stamp = time.time_ns().to_bytes(_STAMP_BYTES, "big")
        producer.produce(topic, value=stamp + filling, partition=number % partitions)
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    send(**json.loads(sys.argv[1]))
