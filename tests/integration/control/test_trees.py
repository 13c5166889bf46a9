"""Trees of real clusters: producers on each, and every message once on each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.local import LocalCluster
from tests.integration.control.running import Running, running
from tests.integration.lane import oracle, topics
from tests.integration.lane.topics import Given

pytestmark = pytest.mark.integration

TERM_S: Final = 180.0
PARTITIONS: Final = 2
AHEAD_MS: Final = {"south": 3_600_000}
"""By how much the clocks of producers differ: nothing in a tree goes by time."""
ISTHMUS: Final = (sys.executable, "-c", "from isthmus.cli.app import main; main()")
Clusters = Mapping[str, LocalCluster]


@pytest.fixture(scope="module")
def four(east: LocalCluster, west: LocalCluster) -> Iterator[Clusters]:
    """Four clusters."""
    with ExitStack() as stack:
        more = {
            name: stack.enter_context(LocalCluster.start(name, brokers=1, heap_mb=256)) for name in ("north", "south")
        }
        yield {"east": east, "west": west, **more}


def file_of(clusters: Clusters, tree: Any, name: str) -> dict[str, Any]:
    """The configuration file of a tree."""
    return {
        "clusters": {alias: {"bootstrap_servers": each.bootstrap_servers} for alias, each in clusters.items()},
        "trees": [{"name": name, "clusters": tree, "topics": [name]}],
    }


def produce(cluster: LocalCluster, origin: str, name: str, numbers: Sequence[int], codec: str) -> None:
    """Records that tell their cluster and their number, in both partitions; many small batches."""
    writing = topics.producer(cluster, compression_type=codec, batch_num_messages=7, enable_idempotence=True)
    for number in numbers:
        for partition in range(PARTITIONS):
            at = topics.SEPTEMBER + number + AHEAD_MS.get(origin, 0)
            given = Given(origin.encode(), b"%d" % number, [("from", origin.encode())], at)
            topics.send(writing, name, [given], partition=partition)
    topics.flush(writing)


def commit(cluster: LocalCluster, origin: str, name: str, numbers: Sequence[int]) -> None:
    """The same in a transaction, beside one that is aborted."""
    for outcome in ("abort", "commit"):
        writing = topics.producer(cluster, transactional_id=f"{name}-{origin}", transaction_timeout_ms=60_000)
        writing.init_transactions(TERM_S)
        writing.begin_transaction()
        for number in numbers:
            for partition in range(PARTITIONS):
                value = b"%d" % number if outcome == "commit" else b"aborted"
                given = Given(origin.encode(), value, [], topics.SEPTEMBER + number)
                topics.send(writing, name, [given], partition=partition)
        if outcome == "commit":
            writing.commit_transaction(TERM_S)
        else:
            writing.flush(TERM_S)
            writing.abort_transaction(TERM_S)


def read(cluster: LocalCluster, name: str) -> dict[tuple[int, str], list[int]]:
    """What librdkafka reads: by partition and origin the numbers in their order."""
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for partition, seen in enumerate(oracle.records(cluster.bootstrap_servers, name, partitions=PARTITIONS)):
        for record in seen:
            found[partition, (record.key or b"").decode()].append(int(record.value or b""))
    return dict(found)


def has_all(clusters: Clusters, name: str, written: Mapping[str, int]) -> bool:
    """Whether as many records are on every cluster as were written on all of them."""
    total = sum(written.values()) * PARTITIONS
    time.sleep(0.3)  # to read everything again and again would keep brokers from their work
    return all(sum(map(len, read(each, name).values())) >= total for each in clusters.values())


def check(clusters: Clusters, name: str, written: Mapping[str, int]) -> None:
    """Every message once on every cluster, in the order of its producer."""
    wanted = {(partition, origin): list(range(n)) for partition in range(PARTITIONS) for origin, n in written.items()}
    for alias, cluster in clusters.items():
        found = read(cluster, name)
        twice = {key: [n for n, c in Counter(numbers).items() if c > 1][:5] for key, numbers in found.items()}
        assert found == {key: numbers for key, numbers in wanted.items() if numbers}, (alias, twice)


@pytest.mark.parametrize(
    "tree",
    [[["east", "west"], ["north", "south"]], [["east", ["west", "north"]], "south"]],
    ids=["balanced", "unbalanced"],
)
def test_every_message_comes_to_every_cluster_once(
    four: Clusters, topic: Callable[[str], str], spark: SparkSession, tree: Any
) -> None:
    """Whatever the tree: with small batches, codecs and transactions, of what was there and of what comes."""
    name = topic("distributed")
    used = {alias: each for alias, each in four.items() if alias in json.dumps(tree)}
    for number, (alias, cluster) in enumerate(used.items()):
        topics.create(cluster, name, partitions=PARTITIONS)
        produce(cluster, alias, name, range(60), ("none", "lz4", "zstd", "gzip")[number])
    configuration = config.parse(json.dumps(file_of(used, tree, name)))
    written = dict.fromkeys(used, 60)

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            await run.until(lambda: asyncio.to_thread(has_all, used, name, written))
            for alias, cluster in used.items():
                await asyncio.to_thread(commit, cluster, alias, name, range(60, 80))
                written[alias] += 20
            await run.until(lambda: asyncio.to_thread(has_all, used, name, written))
            # Nobody has anything left to do: no message goes round.
            await run.until(lambda: all(t.lag_records == 0 for link in run.links for t in link.topics))
            assert (await run.end()).exit_code == 0

    asyncio.run(scenario())
    check(used, name, written)


def test_a_killed_process_loses_and_doubles_nothing(
    four: Clusters, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Distributors that are killed while everybody produces go on where they were, on three clusters of one node."""
    name = topic("killed")
    used = {alias: four[alias] for alias in ("east", "west", "north")}
    for cluster in used.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file = tmp_path / "isthmus.yaml"
    file.write_text(json.dumps({**file_of(used, list(used), name), "spark": {"master": "local[2]"}}))
    written = dict.fromkeys(used, 0)
    producing = threading.Event()
    producing.set()

    def write(alias: str) -> None:
        while producing.is_set() or written[alias] == 0:
            produce(used[alias], alias, name, range(written[alias], written[alias] + 20), "lz4")
            written[alias] += 20
            time.sleep(0.1)

    def run() -> subprocess.Popen[bytes]:
        command = [*ISTHMUS, "run", "-c", str(file)]
        # A process group of its own: what it has started is killed with it.
        return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + TERM_S
        while not all(sum(map(len, read(each, name).values())) >= count for each in used.values()):
            assert time.monotonic() < deadline
            time.sleep(0.3)

    command = [*ISTHMUS, "tree", "plan", name, "-c", str(file)]
    planned = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=TERM_S, check=True)
    assert len(json.loads(planned.stdout)["links"]) == 6, "each copies to both others"
    writers = [threading.Thread(target=write, args=[alias], daemon=True) for alias in used]
    for writer in writers:
        writer.start()
    first = run()
    try:
        wait_for(400)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(TERM_S)
    second = run()
    try:
        producing.clear()
        for writer in writers:
            writer.join(TERM_S)
        wait_for(sum(written.values()) * PARTITIONS)
    finally:
        second.send_signal(signal.SIGINT)
        second.wait(TERM_S)
    check(used, name, written)


class Load:
    """Producers on all clusters of a tree that `isthmus` runs as a program; `written` counts what they wrote."""

    def __init__(self, clusters: Clusters, name: str, file: Path) -> None:
        self.clusters, self.name, self.file = clusters, name, file
        self.written = dict.fromkeys(clusters, 0)
        self._is_over = {alias: threading.Event() for alias in clusters}
        self._writers = {alias: threading.Thread(target=self._write, args=[alias], daemon=True) for alias in clusters}
        for writer in self._writers.values():
            writer.start()

    def _write(self, alias: str) -> None:
        while not self._is_over[alias].is_set():
            begin = self.written[alias]
            produce(self.clusters[alias], alias, self.name, range(begin, begin + 20), "lz4")
            self.written[alias] += 20
            time.sleep(0.1)

    def end(self, *aliases: str) -> None:
        for alias in aliases or self.clusters:
            self._is_over[alias].set()
            self._writers[alias].join(TERM_S)

    def done(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*ISTHMUS, *words, "-c", str(self.file), "-o", "json"]
        return subprocess.run(command, capture_output=True, text=True, timeout=TERM_S, check=False)

    def call(self, *words: str) -> Any:
        done = self.done(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self) -> subprocess.Popen[bytes]:
        command = [*ISTHMUS, "run", "-c", str(self.file)]
        # A process group of its own: what it has started is killed with it.
        return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)

    def switch(self, cluster: str, to: str, *more: str) -> None:
        (found,) = self.call("tree", "switch", self.name, cluster, "2", "--to", to, *more)
        assert found["wanted"] == to

    def targets(self) -> dict[str, str]:
        found = self.call("tree", "targets", self.name)
        return {each["cluster"]: each["target"] for each in found if each["level"] == 2}

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TERM_S
        while not condition():
            assert time.monotonic() < deadline, self.call("status")
            time.sleep(0.3)

    def wait_until_everywhere(self, count: int, *, without: str = "") -> None:
        """Until so many records are on every cluster."""
        there = [cluster for alias, cluster in self.clusters.items() if alias != without]
        self.wait_for(lambda: all(sum(map(len, read(c, self.name).values())) >= count for c in there))


def test_distributors_go_over_to_other_leaves_under_load(
    four: Clusters, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """While everybody produces, there and back, two at a time, and with a kill in the middle: every message is once on
    every cluster, and each producer's order is kept.
    """
    name = topic("switched")
    for cluster in four.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file = tmp_path / "isthmus.yaml"
    tree = [["east", "west"], ["north", "south"]]
    file.write_text(json.dumps({**file_of(four, tree, name), "spark": {"master": "local[2]"}}))
    load = Load(four, name, file)
    first = load.run()
    try:
        load.wait_until_everywhere(400)
        load.switch("east", "south", "--dry-run")
        assert load.targets() == {"east": "north", "west": "south", "north": "east", "south": "west"}
        load.switch("east", "south")
        time.sleep(1.5)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(TERM_S)
    second = load.run()
    try:
        load.wait_for(lambda: load.targets()["east"] == "south")
        (link,) = (each for each in load.call("status") if each["link"] == f"{name}.east.2")
        assert link["target"] == "south"
        load.wait_until_everywhere(sum(load.written.values()))
        # Back again, and another one the other way, at the same time.
        load.switch("east", "north")
        load.switch("west", "north")
        load.wait_for(lambda: (load.targets()["east"], load.targets()["west"]) == ("north", "north"))
        load.wait_until_everywhere(sum(load.written.values()))
        load.end()
        load.wait_until_everywhere(sum(load.written.values()) * PARTITIONS)
    finally:
        load.end()
        second.send_signal(signal.SIGINT)
        second.wait(TERM_S)
    check(four, name, load.written)


def test_a_cluster_comes_into_a_running_tree_and_leaves_it(
    four: Clusters, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """It gets all that there is, and all others get what is produced on it, while everybody produces; when it leaves
    nothing of it is missing anywhere.
    """
    name = topic("grown")
    for cluster in four.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file = tmp_path / "isthmus.yaml"
    tree = [["east", "west"], "north"]
    file.write_text(json.dumps({**file_of(four, tree, name), "spark": {"master": "local[2]"}}))
    load = Load(four, name, file)
    running = load.run()
    try:
        load.wait_until_everywhere(200)
        assert "no level is free" in load.done("tree", "add", name, "south", "--beside", "east").stderr
        planned = load.call("tree", "add", name, "south", "--beside", "north", "--dry-run")
        assert [each["name"].removeprefix(name) for each in planned["begun"]] == [".north.1", ".south.1", ".south.2"]
        load.call("tree", "add", name, "south", "--beside", "north")
        load.wait_until_everywhere(sum(load.written.values()))
        # Whoever copies to it goes over to another leaf first, and it waits for what was produced on it.
        load.switch("east", "south")
        load.wait_for(lambda: load.targets()["east"] == "south")
        refused = load.done("tree", "remove", name, "south")
        assert (refused.returncode, f"{name}.east.2 to north" in refused.stderr) == (5, True)
        load.end("south")
        load.wait_for(lambda: load.done("tree", "remove", name, "south").returncode == 0)
        load.wait_for(lambda: len(load.call("status")) == 5)
        load.end()
        load.wait_until_everywhere(sum(load.written.values()) * PARTITIONS, without="south")
    finally:
        load.end()
        running.send_signal(signal.SIGINT)
        running.wait(TERM_S)
    check({alias: each for alias, each in four.items() if alias != "south"}, name, load.written)


def test_a_tree_of_another_shape_is_refused(four: Clusters, topic: Callable[[str], str], spark: SparkSession) -> None:
    """Another target or level would bring everything once more; a cluster that is added above the others would not."""
    name = topic("shaped")
    used = {alias: four[alias] for alias in ("east", "west", "north")}
    for cluster in used.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    produce(four["east"], "east", name, range(10), "none")

    async def scenario(tree: Any, ends: Callable[[Running], bool]) -> None:
        configuration = config.parse(json.dumps(file_of(used, tree, name)))
        async with running(configuration, spark) as run:
            await run.until(lambda: ends(run))
            await run.end()

    def has_copied(run: Running) -> bool:
        return len(run.links) == 2 and sum(link.records for link in run.links) == 10 * PARTITIONS

    def is_refused(run: Running) -> bool:
        problems = {link.link: link.problem for link in run.links}
        problem = problems.get(f"{name}.east.2")
        return problem is not None and f"west got messages of east by {name}.east.1 until now" in problem.message

    def has_all_three(run: Running) -> bool:
        return has_all(used, name, {"east": 10})

    asyncio.run(scenario(["east", "west"], has_copied))
    asyncio.run(scenario(["east", ["west", "north"]], is_refused))
    asyncio.run(scenario([["east", "west"], "north"], has_all_three))
    check(used, name, {"east": 10, "west": 0, "north": 0})


def test_copy_flags_stand_in_a_header(four: Clusters, topic: Callable[[str], str], spark: SparkSession) -> None:
    """As Axual's distributors write them and read them: by them alone it is known what was distributed, and how far."""
    name = topic("flagged")
    for cluster in four.values():
        topics.create(cluster, name)
    mine = ("mine", b"1")
    given = {
        b"plain": [mine],
        b"level 1": [mine, ("f", b"\x01")],
        b"level 2": [("f", b"\x02"), mine],
        b"too wide": [mine, ("f", b"\x00\x01")],
        b"twice": [("f", b"\x01"), mine, ("f", b"\x01")],
    }
    writing = topics.producer(four["east"], compression_type="zstd")
    for key, headers in given.items():
        topics.send(writing, name, [Given(key, b"v", list(headers), topics.SEPTEMBER)])
    topics.flush(writing)
    file = file_of(four, [["east", "west"], ["north", "south"]], name)
    file["trees"][0] |= {"flags": "header", "header": {"name": "f"}}

    def seen(alias: str) -> dict[bytes, list[tuple[str, bytes | None]]]:
        (records,) = oracle.records(four[alias].bootstrap_servers, name)
        return {record.key or b"": list(record.headers) for record in records}

    def has_come(run: Running) -> bool:
        time.sleep(0.2)
        return len(seen("south")) == 3 and len(seen("west")) == 4

    async def scenario() -> None:
        async with running(config.parse(json.dumps(file)), spark) as run:
            await run.until(lambda: asyncio.to_thread(has_come, run))
            await run.until(lambda: all(t.lag_records == 0 for link in run.links for t in link.topics))
            assert (await run.end()).exit_code == 0

    asyncio.run(scenario())
    copied = (b"plain", b"too wide", b"twice")
    assert seen("east") == given
    assert seen("west") == {key: [mine, ("f", b"\x01")] for key in copied} | {b"level 2": [mine, ("f", b"\x03")]}
    assert seen("north") == {key: [mine, ("f", b"\x02")] for key in copied}
    assert seen("south") == {key: [mine, ("f", b"\x03")] for key in copied}
