"""Topics as streams: what micro-batches hold, whatever happens to topics, brokers and the query."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import SEPTEMBER, Given
from testing.runs.command import ROOT

pytestmark = pytest.mark.integration

QUIET_S: Final = 5
Places = list[tuple[str, int, int]]


class Stream:
    """Queries with one checkpoint, and the places of the rows that they got, batch by batch."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, folder: Path) -> None:
        self._spark = spark
        self._checkpoint = str(folder / "checkpoint")
        self._config = folder / "isthmus.yaml"
        self._config.write_text(f"clusters: {{east: {{bootstrap_servers: {cluster.bootstrap_servers!r}}}}}\n")
        self._lock = threading.Lock()
        self.batches: dict[int, Places] = {}
        self.tasks: dict[int, set[tuple[int, int]]] = {}

    def _take(self, frame: DataFrame, batch: int) -> None:
        rows = frame.select("topic", "partition", "offset", F.spark_partition_id().alias("task")).collect()
        with self._lock:
            self.batches[batch] = [(row.topic, row.partition, row.offset) for row in rows]
            self.tasks[batch] = {(row.partition, row.task) for row in rows}

    def places(self) -> Places:
        """All rows so far, in the order of batches and tasks."""
        with self._lock:
            return [place for batch in sorted(self.batches) for place in self.batches[batch]]

    @contextmanager
    def running(self, *, is_once: bool = False, **options: str) -> Iterator[StreamingQuery]:
        """A query that runs until the block ends; `is_once` ends by itself."""
        read = self._spark.readStream.format("isthmus").options(config=str(self._config), cluster="east", **options)
        writing = read.load().writeStream.foreachBatch(self._take).option("checkpointLocation", self._checkpoint)
        query = (writing.trigger(availableNow=True) if is_once else writing).start()
        try:
            yield query
        finally:
            query.stop()

    def once(self, **options: str) -> list[dict[str, Any]]:
        """Run a query up to what is there; the progress of its batches."""
        with self.running(is_once=True, **options) as query:
            assert query.awaitTermination(int(TERM_S))
            return [json.loads(each.json) for each in query.recentProgress]

    def until(self, query: StreamingQuery, count: int) -> None:
        """Wait until so many rows are there."""
        deadline = time.monotonic() + TERM_S
        while len(self.places()) < count:
            if (error := query.exception()) is not None:
                raise error
            assert time.monotonic() < deadline, f"{len(self.places())} rows of {count}"
            time.sleep(0.05)


@pytest.fixture
def stream(spark: SparkSession, east: LocalCluster, tmp_path: Path) -> Stream:
    """Queries on this cluster."""
    return Stream(spark, east, tmp_path)


def write(cluster: LocalCluster, name: str, count: int, *, partition: int = 0) -> None:
    given = [Given(b"k", b"%d" % n, [], SEPTEMBER) for n in range(count)]
    topics.produce(cluster, name, given, partition=partition, batch_num_messages=7)


def offsets(name: str, partition: int, begin: int, end: int) -> Places:
    return [(name, partition, offset) for offset in range(begin, end)]


def test_batches_are_limited_and_in_order(stream: Stream, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """With `Trigger.AvailableNow` all that is there and no more, in batches of at most as many offsets as allowed; a
    partition's rows of a batch come from one task, by offset.
    """
    name = topic("limited")
    topics.create(east, name, partitions=2)
    write(east, name, 70)
    write(east, name, 30, partition=1)

    progress = stream.once(subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="20")

    assert sorted(stream.places()) == offsets(name, 0, 0, 70) + offsets(name, 1, 0, 30)
    assert all(len(places) <= 20 for places in stream.batches.values())
    assert len(stream.batches) >= 5
    for partition in range(2):
        found = [place[2] for place in stream.places() if place[1] == partition]
        assert found == sorted(found)
    assert all(len(tasks) == len({partition for partition, _ in tasks}) for tasks in stream.tasks.values())
    (source,) = progress[0]["sources"]
    read, latest = (json.loads(json.dumps(source[key])) for key in ("endOffset", "latestOffset"))
    assert latest[name]["offsets"] == {"0": 70, "1": 30}
    assert sum(read[name]["offsets"].values()) == 20

    write(east, name, 5)
    stream.once(subscribe=name, startingOffsets="earliest")
    assert len(stream.places()) == 105


def test_a_stream_begins_with_what_is_new(stream: Stream, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """By default; and it goes on where it stopped."""
    name = topic("latest")
    topics.create(east, name)
    write(east, name, 10)

    assert stream.once(subscribe=name)
    assert stream.places() == []
    write(east, name, 10)
    stream.once(subscribe=name)
    assert stream.places() == offsets(name, 0, 10, 20)


def test_new_partitions_and_topics_are_found(stream: Stream, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """While the query runs, from the beginnings of their logs."""
    name = topic("grows")
    topics.create(east, name)
    write(east, name, 5)

    with stream.running(subscribePattern=f"{name}.*") as query:
        deadline = time.monotonic() + TERM_S
        while not query.recentProgress:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        topics.create(east, f"{name}-next")
        write(east, f"{name}-next", 3)
        stream.until(query, 3)
        admin = AdminClient({"bootstrap.servers": east.admin_bootstrap_servers})
        admin.create_partitions([NewPartitions(name, 2)])[name].result(TERM_S)
        topics.await_served(east, name, partitions=2)
        write(east, name, 4, partition=1)
        stream.until(query, 7)

    assert sorted(stream.places()) == offsets(name, 1, 0, 4) + offsets(f"{name}-next", 0, 0, 3)


def test_a_topic_that_was_created_again_is_noticed(
    stream: Stream, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """An error, unless records may be lost: then it is read from its beginning."""
    name = topic("again")
    topics.create(east, name)
    write(east, name, 5)
    stream.once(subscribe=name, startingOffsets="earliest")
    topics.delete(east, name)
    topics.create(east, name)
    write(east, name, 8)

    with pytest.raises(StreamingQueryException, match=f"topic {name} was deleted and created again"):
        stream.once(subscribe=name)
    stream.once(subscribe=name, failOnDataLoss="false")
    assert stream.places() == offsets(name, 0, 0, 5) + offsets(name, 0, 0, 8)


def test_deleted_records_are_noticed(stream: Stream, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """An error that names them, unless they may be lost: then the checkpoint and the progress have their number."""
    name = topic("retention")
    topics.create(east, name)
    write(east, name, 5)
    stream.once(subscribe=name, startingOffsets="earliest")
    write(east, name, 20)
    topics.delete_records(east, name, 12)

    with pytest.raises(StreamingQueryException, match=rf"records of {name}-0 \[5, 12\) were deleted"):
        stream.once(subscribe=name)
    progress = stream.once(subscribe=name, failOnDataLoss="false")

    assert stream.places() == offsets(name, 0, 0, 5) + offsets(name, 0, 12, 25)
    assert progress[-1]["sources"][0]["endOffset"][name]["lost"] == {"0": 7}


def test_a_broker_that_stands_still_ends_nothing(
    stream: Stream, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """While it does not answer there is no batch, and no error; afterwards every record comes once."""
    name = topic("still")
    topics.create(east, name)
    write(east, name, 5)

    with stream.running(subscribe=name, startingOffsets="earliest") as query:
        stream.until(query, 5)
        east.brokers[0].pause()
        try:
            assert not query.awaitTermination(QUIET_S)
        finally:
            east.brokers[0].resume()
        write(east, name, 5)
        stream.until(query, 10)

    assert stream.places() == offsets(name, 0, 0, 10)


@pytest.mark.parametrize("killed", ["driver", "jvm"])
def test_a_batch_that_was_cut_off_comes_again_as_it_was(
    killed: str, east: LocalCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Killed with -9 in the middle of a batch, the query goes on with the same rows of the same batch, though more have
    arrived since, and no record is missing.
    """
    name = topic("killed")
    topics.create(east, name, partitions=2)
    for partition in range(2):
        write(east, name, 40, partition=partition)
    config = tmp_path / "isthmus.yaml"
    config.write_text(f"clusters: {{east: {{bootstrap_servers: {east.bootstrap_servers!r}}}}}\n")
    program = [sys.executable, "-m", "tests.integration.spark.streaming", str(config), name, str(tmp_path)]

    first = subprocess.run([*program, killed], cwd=ROOT, timeout=TERM_S, capture_output=True, text=True)
    assert first.returncode != 0, first.stderr
    begun = json.loads((tmp_path / "rows-1-first.json").read_text())
    write(east, name, 9)
    subprocess.run([*program, "nobody"], cwd=ROOT, timeout=TERM_S, check=True)

    assert json.loads((tmp_path / "rows-1-again.json").read_text()) == begun
    rows = [
        tuple(row)
        for path in tmp_path.glob("rows-*.json")
        if path.name not in ("rows-1-first.json",)
        for row in json.loads(path.read_text())
    ]
    expected = oracle.records(east.bootstrap_servers, name, partitions=2)
    assert sorted(rows) == [
        (partition, each.offset, (each.value or b"").decode()) for partition in range(2) for each in expected[partition]
    ]
