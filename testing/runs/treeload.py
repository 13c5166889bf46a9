"""A tree of real clusters that `isthmus` runs as a program, with producers on each of them."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from isthmus.local import LocalCluster
from testing.patience import TERM_S, pause_s
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs import command

PARTITIONS: Final = 2
AHEAD_MS: Final = {"south": 3_600_000}
"""By how much the clocks of producers differ: nothing in a tree goes by time."""
Clusters = Mapping[str, LocalCluster]


def produce(cluster: LocalCluster, origin: str, name: str, numbers: Sequence[int], codec: str) -> None:
    """Records that tell their cluster and their number, in both partitions; many small batches."""
    send(producer(cluster, codec), origin, name, numbers)


def producer(cluster: LocalCluster, codec: str) -> Producer:
    return topics.producer(cluster, compression_type=codec, batch_num_messages=7, enable_idempotence=True)


def send(writing: Producer, origin: str, name: str, numbers: Sequence[int]) -> None:
    for number in numbers:
        for partition in range(PARTITIONS):
            at = topics.SEPTEMBER + number + AHEAD_MS.get(origin, 0)
            given = Given(origin.encode(), b"%d" % number, [("from", origin.encode())], at)
            topics.send(writing, name, [given], partition=partition)
    topics.flush(writing)


def read(cluster: LocalCluster, name: str) -> dict[tuple[int, str], list[int]]:
    """What librdkafka reads: by partition and origin the numbers in their order."""
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for partition, seen in enumerate(oracle.records(cluster.bootstrap_servers, name, partitions=PARTITIONS)):
        for record in seen:
            found[partition, (record.key or b"").decode()].append(int(record.value or b""))
    return dict(found)


def has(cluster: LocalCluster, name: str, count: int) -> bool:
    """Whether so many records are there. They are not read before there are as many offsets: that costs all others
    their share of the machine.
    """
    servers = cluster.bootstrap_servers
    try:
        highs = sum(oracle.ends(servers, name, partition).high for partition in range(PARTITIONS))
    except KafkaException:
        return False  # there is no such topic yet
    return highs >= count and sum(map(len, read(cluster, name).values())) >= count


def file_of(clusters: Clusters, tree: Any, name: str) -> dict[str, Any]:
    """The configuration file of a tree."""
    return {
        "clusters": {alias: {"bootstrap_servers": each.bootstrap_servers} for alias, each in clusters.items()},
        "trees": [{"name": name, "clusters": tree, "topics": [name]}],
    }


class Load:
    """Producers on all clusters of a tree that `isthmus` runs as a program, each with a little all the time;
    `written` counts what they wrote.
    """

    def __init__(self, clusters: Clusters, name: str, file: Path, level: int = 2) -> None:
        self.clusters, self.name, self.file, self.level = clusters, name, file, level
        self.written = dict.fromkeys(clusters, 0)
        self._is_over = {alias: threading.Event() for alias in clusters}
        self._writers = {alias: threading.Thread(target=self._write, args=[alias], daemon=True) for alias in clusters}
        for writer in self._writers.values():
            writer.start()

    def _write(self, alias: str) -> None:
        writing = producer(self.clusters[alias], "lz4")
        while not self._is_over[alias].wait(1.0):
            begin = self.written[alias]
            send(writing, alias, self.name, range(begin, begin + 20))
            self.written[alias] += 20

    def end(self, *aliases: str) -> None:
        for alias in aliases or self.clusters:
            self._is_over[alias].set()
            self._writers[alias].join(TERM_S)

    def done(self, *words: str, file: Path | None = None) -> subprocess.CompletedProcess[str]:
        return command.run(*words, "-c", file or self.file, "-o", "json")

    def call(self, *words: str) -> Any:
        done = self.done(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, told: Path = Path(os.devnull)) -> subprocess.Popen[bytes]:
        with told.open("wb") as stderr:
            # A process group of its own: what it has started is killed with it.
            return command.start("run", "-c", self.file, stderr=stderr, start_new_session=True)

    def switch(self, cluster: str, to: str, *more: str) -> None:
        (found,) = self.call("tree", "switch", self.name, cluster, str(self.level), "--to", to, *more)
        assert found["wanted"] == to

    def targets(self) -> dict[str, str]:
        found = self.call("tree", "targets", self.name)
        return {each["cluster"]: each["target"] for each in found if each["level"] == self.level}

    def doubted(self) -> dict[str, int]:
        """The leaves in doubt, and how many records they may lack."""
        found = self.call("tree", "targets", self.name)
        return {doubt["leaf"]: doubt["records_max"] for each in found for doubt in each["in_doubt"]}

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline, begun = time.monotonic() + TERM_S, time.monotonic()
        while not condition():
            assert time.monotonic() < deadline, self.call("status")
            time.sleep(pause_s(time.monotonic() - begun))
            begun = time.monotonic()

    def wait_until_everywhere(self, count: int, *, without: str = "") -> None:
        """Until so many records are on every cluster."""
        there = [cluster for alias, cluster in self.clusters.items() if alias != without]
        self.wait_for(lambda: all(has(cluster, self.name, count) for cluster in there))


def has_all(clusters: Clusters, name: str, written: Mapping[str, int]) -> bool:
    """Whether as many records are on every cluster as were written on all of them."""
    total = sum(written.values()) * PARTITIONS
    return all(has(each, name, total) for each in clusters.values())


def check(clusters: Clusters, name: str, written: Mapping[str, int]) -> None:
    """Every message once on every cluster, in the order of its producer."""
    wanted = {(partition, origin): list(range(n)) for partition in range(PARTITIONS) for origin, n in written.items()}
    for alias, cluster in clusters.items():
        found = read(cluster, name)
        twice = {key: [n for n, c in Counter(numbers).items() if c > 1][:5] for key, numbers in found.items()}
        assert found == {key: numbers for key, numbers in wanted.items() if numbers}, (alias, twice)
