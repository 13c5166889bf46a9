"""For how long partitions rest while a lease is succeeded, with a slot that is kept free for that and without one.

    python -m bench.handover [--seconds 90] [--term 15]

Records of 256 bytes are written to a source at a steady pace, 200 a second to each of four partitions, and read at the
target by an independent consumer, whose clock is that of the producer. Leases are short, so that there are many
hand-overs: what a record waits for longest is that. The runs: an embedded Spark with a slot of two kept free, and one
with a single slot; a standalone Spark with two executors of one slot each, all of which copy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from rich import box
from rich.console import Console
from rich.table import Table

from isthmus.local import LocalCluster
from testing.records import topics
from testing.runs.standalone import standalone_spark

_COMMAND: Final = (sys.executable, "-c", "from isthmus.cli.entry import main; main()")
_PARTITIONS: Final = 4
_PAUSE_S: Final = 0.005
_RECORD: Final = bytes(256)
_START_S: Final = 60.0


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.handover")
    parser.add_argument("--seconds", type=float, default=90.0, help="for how long each run is measured")
    parser.add_argument("--term", type=float, default=15.0, help="of a lease, in seconds")
    given = parser.parse_args()
    table = Table(box=box.MARKDOWN, title=f"Leases of {given.term:g} s")
    for title in ("Spark", "p50 ms", "p99 ms", "p99.9 ms", "longest, ms"):
        table.add_column(title, justify="left" if title == "Spark" else "right")
    with (
        LocalCluster.start("handover-east", brokers=1, heap_mb=768, fast_start=False) as east,
        LocalCluster.start("handover-west", brokers=1, heap_mb=768, fast_start=False) as west,
        tempfile.TemporaryDirectory(prefix="isthmus-handover-") as name,
        standalone_spark(Path(name)) as spark,
    ):
        ways: dict[str, Mapping[str, object]] = {
            "embedded, one slot of two is kept free": {"master": "local[2]"},
            "embedded, one slot": {"master": "local[1]"},
            "standalone, two executors, none is kept free": {"master": spark.master, "conf": spark.conf},
        }
        for number, (way, section) in enumerate(ways.items()):
            topic = f"handover-{number}"
            topics.create_both(east, west, topic, partitions=_PARTITIONS)
            with _running(east, west, topic, {**section, "lease_term_s": given.term}, Path(name)):
                waits_ms = _latencies(east, west, topic, given.seconds)
            ordered = sorted(waits_ms)
            figures = [ordered[min(len(ordered) * share // 1000, len(ordered) - 1)] for share in (500, 990, 999, 1000)]
            row = [way, *(f"{each:.1f}" for each in figures)]
            table.add_row(*row)
            sys.stderr.write(f"{' | '.join(row)} | load {os.getloadavg()[0]:.0f}\n")
    Console(width=140).print(table)
    return 0


@contextmanager
def _running(
    source: LocalCluster, target: LocalCluster, topic: str, spark: Mapping[str, object], folder: Path
) -> Iterator[None]:
    clusters = {
        name: {"bootstrap_servers": each.bootstrap_servers} for name, each in (("east", source), ("west", target))
    }
    link = {"name": topic, "source": "east", "target": "west", "topics": {"include": [topic]}}
    file = folder / f"{topic}.json"
    file.write_text(json.dumps({"clusters": clusters, "links": [link], "spark": spark}))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with (folder / f"{topic}.log").open("wb") as log:
        command = [*_COMMAND, "run", "-c", str(file)]
        with Popen(command, env=environment, stdin=DEVNULL, stdout=log, stderr=log) as driver:
            try:
                yield
            finally:
                driver.terminate()


def _latencies(source: LocalCluster, target: LocalCluster, topic: str, term_s: float) -> list[float]:
    """Return for how many ms each record was on its way."""
    consumer = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": "h", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(_PARTITIONS)])
    with ExitStack() as stack:
        stack.callback(consumer.close)
        over = threading.Event()
        writer = threading.Thread(target=_write, args=(source, topic, over), daemon=True)
        writer.start()
        stack.callback(over.set)
        time.sleep(_START_S)
        found: list[float] = []
        until = time.time() + term_s
        begun_ms = time.time() * 1000
        while time.time() < until:
            for message in consumer.consume(500, timeout=0.01):
                now_ms, sent_ms = time.time() * 1000, message.timestamp()[1]
                if sent_ms >= begun_ms:
                    found.append(now_ms - sent_ms)
    return found


def _write(source: LocalCluster, topic: str, over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "linger.ms": 0})
    while not over.wait(_PAUSE_S):
        for number in range(_PARTITIONS):
            producer.produce(topic, _RECORD, partition=number, timestamp=round(time.time() * 1000))
        producer.poll(0)
    producer.flush(10)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
