"""MirrorMaker 2, killed under load, is taken over: every record is there, and none twice but those it had doubled."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import isthmus
from isthmus.cli.output import OutputFormat
from isthmus.cli.setup.imports import import_
from isthmus.errors import GateNotMet
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.flows import PARTITIONS, Flow, Side, contents, create, numbered
from testing.runs.running import ends
from tests.integration.mirrormaker.java import JavaMirror, until

pytestmark = pytest.mark.integration

_PAUSE_S = 0.01
_AT_ONCE = 20


@contextmanager
def load(side: Side, topic: str) -> Iterator[None]:
    """Records that are written all the while, each with a value of its own."""
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": side.servers, "linger.ms": 5})

    def write() -> None:
        number = 0
        while not ended.wait(_PAUSE_S):
            for _ in range(_AT_ONCE):
                partition = number % PARTITIONS
                producer.produce(topic, b"%d" % number, b"k%d" % (number % 7), partition, headers=[("n", b"x")])
                number += 1
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush()


def copied(flow: Flow) -> int:
    """How much the target holds."""
    return sum(max(end, 0) for end in asyncio.run(ends(flow.target.cluster, flow.remote(flow.stem), partitions=3)))


def taken_over(capsys: pytest.CaptureFixture[str], file: Path, to: Path, **options: Any) -> dict[str, Any]:
    """What the command says in JSON."""
    capsys.readouterr()
    import_(file, to=to, take_over=True, quiet="1s", output=OutputFormat.JSON, **options)
    (found,) = json.loads(capsys.readouterr().out)["take_over"]
    return dict(found)


def killed_at_work(flow: Flow, theirs: JavaMirror) -> None:
    """Kill it right after it has written something, some seconds from now."""
    time.sleep(3.0)
    before = copied(flow)
    while copied(flow) == before:
        time.sleep(0.05)
    theirs.kill()


@pytest.mark.parametrize("is_exactly_once", [False, True])
def test_killed_under_load(
    flow: Flow, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_exactly_once: bool
) -> None:
    """It is killed with -9, started again, killed again. While it runs it is not taken over, but waited for. Then
    Isthmus goes on: all records are there in their order, and as many more as it says MirrorMaker 2 had doubled. Again,
    it is done before.
    """
    create(flow.source, flow.stem)
    to = tmp_path / "isthmus.yaml"
    with JavaMirror(flow, tmp_path, is_exactly_once=is_exactly_once) as theirs:
        with load(flow.source, flow.stem):
            theirs.start()
            until(lambda: copied(flow) > 6_000, lambda: theirs.log)
            with pytest.raises(GateNotMet, match="has not stopped"):
                taken_over(capsys, theirs.file, to, timeout="2s")
            assert [each.name for each in tmp_path.iterdir() if each.name.startswith("isthmus")] == []
            if not is_exactly_once:
                theirs.kill()
                before = copied(flow)
                theirs.start()
                until(lambda: copied(flow) > before + 3_000, lambda: theirs.log)
            stopping = threading.Thread(target=killed_at_work, args=(flow, theirs))
            stopping.start()
            found = taken_over(capsys, theirs.file, to, whole=True, timeout=f"{TERM_S:g}s")
            stopping.join()
        assert {topic["outcome"] for topic in found["topics"]} == {"taken over"}

        with isthmus.open(to, spark=spark) as fabric:
            (planned,) = fabric.plan().links
            assert {topic.mode for topic in planned.topics} == {"mapped"}
            assert fabric.run(until="caught-up").exit_code == 0
            assert all(verdict.equal for verdict in fabric.verify().values())

    doubled = 0
    written, there = contents(flow.source, flow.stem), contents(flow.target, flow.remote(flow.stem))
    for ours, theirs_ in zip(written, there, strict=True):
        firsts: dict[bytes | None, oracle.Seen] = {}
        for seen in theirs_:
            firsts.setdefault(seen.value, seen)
        assert list(firsts.values()) == ours
        doubled += len(theirs_) - len(firsts)
    assert found["doubled"] == doubled
    assert (found["beyond"] > 0, doubled > 0) == (not is_exactly_once, not is_exactly_once)

    again = taken_over(capsys, theirs.file, to)
    assert {topic["outcome"] for topic in again["topics"]} == {"done before"}


def table(side: Side, topic: str) -> dict[bytes | None, bytes | None]:
    """The last value of each key."""
    (found,) = contents(side, topic, partitions=1)
    return {seen.key: seen.value for seen in found}


def gone_back(flow: Flow, topic: str, copied_end: int) -> None:
    """Give MirrorMaker 2 the position from which it is to go on, as docs/import.md says."""
    key = json.dumps(
        ["MirrorSourceConnector", {"cluster": flow.source.alias, "partition": 0, "topic": topic}], separators=(",", ":")
    )
    producer = Producer({"bootstrap.servers": flow.target.servers, "partitioner": "murmur2_random"})
    producer.produce(f"mm2-offsets.{flow.source.alias}.internal", b'{"offset":%d}' % (copied_end - 1), key.encode())
    assert producer.flush(TERM_S) == 0


def test_killed_while_it_repeats_and_gone_back_to(
    flow: Flow, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MirrorMaker 2 is killed before its first commit, and again while it repeats what it had copied: of a compacted
    topic each key has its last value when Isthmus has gone on. Then MirrorMaker 2 goes on from where Isthmus was, if
    it is told.
    """
    count, topic = 20_000, flow.stem
    create(flow.source, topic, partitions=1, cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": flow.source.servers, "linger.ms": 5})
    for number in range(count):
        # The last value of most keys lies in what is repeated last.
        producer.produce(topic, b"%d" % number, b"%d" % (number % 10_000 if number < 18_000 else number % 7))
    assert producer.flush(TERM_S) == 0
    # Slow enough to be killed within it, and without a commit.
    settings = {
        f"{flow.source.alias}.consumer.max.partition.fetch.bytes": "4096",
        f"{flow.target.alias}.offset.flush.interval.ms": "600000",
    }
    to = tmp_path / "isthmus.yaml"

    def remote_end() -> int:
        (end,) = asyncio.run(ends(flow.target.cluster, flow.remote(topic), partitions=1))
        return end

    with JavaMirror(flow, tmp_path, is_exactly_once=False, **settings) as theirs:
        theirs.start()
        until(lambda: remote_end() >= count, lambda: theirs.log)
        theirs.kill()
        theirs.start()
        until(lambda: remote_end() > count + 500, lambda: theirs.log)
        theirs.kill()
        repeated = remote_end() - count
        assert repeated < count, "it was not killed in time"
        found = taken_over(capsys, theirs.file, to, timeout=f"{TERM_S:g}s")
        (partition,) = found["topics"][0]["partitions"]
        assert (partition["begin"], partition["doubled"]) == (repeated, repeated)
        with isthmus.open(to, spark=spark) as fabric:
            assert fabric.run(until="caught-up").exit_code == 0
            assert all(verdict.equal for verdict in fabric.verify().values())
            (status,) = fabric.status()
        assert table(flow.target, flow.remote(topic)) == table(flow.source, topic)
        there = remote_end()
        assert there == 2 * count

        (progress,) = status.topics
        copied_end = progress.partitions[0].copied_end
        assert copied_end == count
        gone_back(flow, topic, copied_end)
        theirs.start()
        topics.produce(flow.source.cluster, topic, numbered(100))
        until(lambda: remote_end() >= there + 100, lambda: theirs.log)
        time.sleep(2.0)
        assert remote_end() == there + 100
