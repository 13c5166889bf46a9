"""What many links and many partitions in two slots cost: until all is copied, while nothing happens, and in memory.

    python -m bench.many [--links 16] [--partitions 10000] [--idle-s 60]

Half of the links go each way between two clusters of one broker. Every partition has one record. Memory is what the
processes have to themselves and their share of what they have in common (PSS), the JVM apart.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Final

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.processes import cpu_s, memory_mb
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.local import LocalCluster

_HEAP_MB: Final = 2048
_TERM_S: Final = 900.0
_PER_TOPIC: Final = 50
_AT_ONCE: Final = 20


def main() -> int:
    """Measure and print a line for each figure; 1 if not all was copied in time."""
    given = _arguments()
    with (
        tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder,
        LocalCluster.start("east", brokers=1, heap_mb=_HEAP_MB) as east,
        LocalCluster.start("west", brokers=1, heap_mb=_HEAP_MB) as west,
    ):
        ways = [(east, west), (west, east)]
        names = {f"link{number:02d}": ways[number % 2] for number in range(given.links)}
        topics = {name: _topics(name, given.partitions // given.links) for name in names}
        for name, (source, _) in names.items():
            fill(source, topics[name])
        file = Path(folder, "isthmus.yaml")
        file.write_text(_configuration(east, west, names))
        begun = time.monotonic()
        command = [str(Path(sys.executable).with_name("isthmus")), "run", "-c", str(file)]
        with Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
            try:
                if not _is_copied(process, names, topics, begun + _TERM_S):
                    _say("not everything was copied within", _TERM_S, "s")
                    return 1
                _say("from the start until every partition was copied", time.monotonic() - begun, "s")
                time.sleep(given.idle_s / 2)
                at, used = time.monotonic(), cpu_s(process.pid)
                time.sleep(given.idle_s)
                _say(
                    "of a core while nothing happens", (cpu_s(process.pid) - used) / (time.monotonic() - at) * 100, "%"
                )
                _tell_memory(process.pid)
            finally:
                process.terminate()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.many")
    parser.add_argument("--links", type=int, default=16)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--idle-s", type=float, default=60.0)
    return parser.parse_args()


def _topics(link: str, partitions: int) -> dict[str, int]:
    """The topics of a link and their partitions."""
    begins = range(0, partitions, _PER_TOPIC)
    return {f"{link}.{begin // _PER_TOPIC:03d}": min(_PER_TOPIC, partitions - begin) for begin in begins}


def fill(cluster: LocalCluster, topics: dict[str, int]) -> None:
    """Create topics of so many partitions, with a record in each."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    new = [NewTopic(name, partitions, 1) for name, partitions in topics.items()]
    for begin in range(0, len(new), _AT_ONCE):
        for future in admin.create_topics(new[begin : begin + _AT_ONCE]).values():
            future.result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50})
    for name, partitions in topics.items():
        for partition in range(partitions):
            producer.produce(name, b"v", partition=partition)
    producer.flush()


def _configuration(east: LocalCluster, west: LocalCluster, names: dict[str, tuple[LocalCluster, LocalCluster]]) -> str:
    clusters = {cluster.name: {"bootstrap_servers": cluster.bootstrap_servers} for cluster in (east, west)}
    links = [
        {"name": name, "source": source.name, "target": target.name, "topics": {"include": [f"{name}.*"]}}
        for name, (source, target) in names.items()
    ]
    return yaml.safe_dump({"clusters": clusters, "links": links, "spark": {"slots": 2}})


def _is_copied(
    process: Popen[bytes],
    names: dict[str, tuple[LocalCluster, LocalCluster]],
    topics: dict[str, dict[str, int]],
    deadline: float,
) -> bool:
    left = dict(names)
    while left and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.5)
        for name, (_, target) in list(left.items()):
            if asyncio.run(ends_of(target, topics[name])) == sum(topics[name].values()):
                del left[name]
    return not left


async def ends_of(cluster: LocalCluster, topics: dict[str, int]) -> int:
    """How many records all partitions of topics got."""
    async with Client(cluster.cluster()) as client:
        keys = [(name, partition) for name, partitions in topics.items() for partition in range(partitions)]
        return sum(log.end for log in (await log_ranges(client, keys)).values.values())


def _tell_memory(pid: int) -> None:
    for kind, size in memory_mb(pid).items():
        _say(f"of memory, {kind}", size, "MiB")


def _say(what: str, figure: float, unit: str) -> None:
    print(f"{figure:10.1f} {unit} {what}", flush=True)  # noqa: T201


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
