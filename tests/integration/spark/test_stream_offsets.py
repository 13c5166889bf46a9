"""What Spark's planning process is answered: the reader of streams driven as Spark drives it, on real brokers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from isthmus.errors import ClusterError
from isthmus.local import LocalCluster
from isthmus.spark.dataframes.batch import LogSourceReader
from isthmus.spark.dataframes.options import GivenOptions
from isthmus.spark.dataframes.selection import ReadSettings
from isthmus.spark.dataframes.stream import LogStreamReader
from testing.records import topics, transactions
from testing.records.topics import SEPTEMBER, Given

pytestmark = pytest.mark.integration

NAMES: Final = ("partition", "offset")
HUNG_S: Final = 35.0
"""Longer than one attempt to read waits, shorter than a query does."""
LATE: Final = str(SEPTEMBER + 2_000)
Offsets = dict[str, Any]


@contextmanager
def reader(cluster: LocalCluster, **options: str) -> Iterator[LogStreamReader]:
    """A planning process of its own."""
    settings = ReadSettings.of_stream(GivenOptions(options))
    made = LogStreamReader(cluster.cluster(), settings, NAMES)
    try:
        yield made
    finally:
        made.stop()


def write(cluster: LocalCluster, name: str, count: int, *, partition: int = 0, ms: int = 0) -> None:
    topics.produce(cluster, name, [Given(b"k", b"v", [], SEPTEMBER + ms)] * count, partition=partition)


def latest(made: LogStreamReader, start: Offsets) -> Offsets:
    return made.latestOffset(start, made.getDefaultReadLimit())


def rows(made: LogStreamReader | LogSourceReader, planned: Any) -> list[tuple[int, int]]:
    return [tuple(row.values()) for part in planned for batch in made.read(part) for row in batch.to_pylist()]


def written(name: str, *offsets: int, topic_id: str) -> Offsets:
    return {name: {"id": topic_id, "offsets": {str(n): offset for n, offset in enumerate(offsets)}}}


def test_a_first_batch_that_was_cut_off_has_the_same_rows_again(
    east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Spark keeps only where it ends: another process would begin at the end as it is by then."""
    name = topic("first")
    topics.create(east, name)
    write(east, name, 5)
    with reader(east, subscribe=name) as made:
        start = made.initialOffset()
        write(east, name, 3)
        end = latest(made, start)
        first = rows(made, made.partitions(start, end))
    write(east, name, 4)

    with reader(east, subscribe=name) as made:
        again = rows(made, made.partitions(made.initialOffset(), json.loads(json.dumps(end))))
        following = latest(made, end)
        assert rows(made, made.partitions(end, following)) == [(0, offset) for offset in range(8, 12)]

    assert first == again == [(0, 5), (0, 6), (0, 7)]
    assert "begins" not in following[name]


def test_a_first_batch_of_sparks_own_source_is_left_to_it(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """Where it began is not known here."""
    name = topic("own")
    topics.create(east, name)
    write(east, name, 5)

    with reader(east, subscribe=name) as made:
        start = made.initialOffset()
        with pytest.raises(ClusterError, match="was begun by Spark's own source"):
            made.partitions(start, {name: {"0": 5}})


def opened(cluster: LocalCluster, name: str) -> transactions.TransactionalProducer:
    """The producer of a transaction that is open in a topic: three records before it, two behind it."""
    topics.create(cluster, name)
    write(cluster, name, 3)
    writer = transactions.TransactionalProducer(cluster, name)
    writer.send(name, [Given(b"k", b"v", [], SEPTEMBER + 1_000)])
    write(cluster, name, 2, ms=5_000)
    return writer


def test_a_time_behind_an_open_transaction_is_no_mistake(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """A batch reads what is committed."""
    name = topic("open")
    writer = opened(east, name)

    def batch(**options: str) -> list[tuple[int, int]]:
        settings = ReadSettings.of_batch(GivenOptions({"subscribe": name, **options}))
        made = LogSourceReader(east.cluster(), settings, NAMES)
        return rows(made, made.partitions())

    assert batch(startingTimestamp=LATE) == []
    assert batch(endingTimestamp=LATE) == [(0, 0), (0, 1), (0, 2)]
    writer.end(commit=True)


def test_a_stream_waits_for_the_end_of_a_transaction(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """For longer than a log may be shorter than it was."""
    name = topic("waits")
    writer = opened(east, name)

    with reader(east, subscribe=name, startingTimestamp=LATE) as made:
        start = made.initialOffset()
        deadline = time.monotonic() + HUNG_S
        while time.monotonic() < deadline:
            assert latest(made, start) == start
        writer.end(commit=True)
        end = start
        while end == start:
            end = latest(made, start)
        assert rows(made, made.partitions(start, end))[:2] == [(0, 4), (0, 5)]


def test_a_task_waits_for_a_broker_that_stands_still(east3: LocalCluster, topic: Callable[[str], str]) -> None:
    """For longer than one attempt to read."""
    name = topic("task")
    topics.create(east3, name, assigned=[[2]])
    write(east3, name, 5)
    hung = east3.broker(2)
    with reader(east3, subscribe=name, startingOffsets="earliest") as made:
        start = made.initialOffset()
        planned = made.partitions(start, latest(made, start))
        hung.pause()
        resuming = threading.Timer(HUNG_S, hung.resume)
        resuming.start()
        try:
            assert rows(made, planned) == [(0, offset) for offset in range(5)]
        finally:
            resuming.join()


def test_a_stream_does_not_begin_behind_the_end(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """It would wait for ever, and then skip records."""
    name = topic("behind")
    topics.create(east, name)
    write(east, name, 3)
    options = {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 9}})}

    with (
        reader(east, **options) as made,
        pytest.raises(ClusterError, match=rf"{name}-0 of east ends at 3, before the offset 9"),
    ):
        made.initialOffset()
    with reader(east, failOnDataLoss="false", **options) as made:
        assert made.initialOffset()[name]["offsets"] == {"0": 3}


def test_a_topic_that_is_gone_is_noticed_by_one_that_ends(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """With `Trigger.AvailableNow` and a pattern too: what was not read of it is lost."""
    name = topic("gone")
    for each in ("a", "b"):
        topics.create(east, f"{name}-{each}")
        write(east, f"{name}-{each}", 3)
    options = {"subscribePattern": f"{name}-.", "startingOffsets": "earliest"}
    with reader(east, **options) as made:
        start = made.initialOffset()
    topics.delete(east, f"{name}-b")

    with reader(east, **options) as made:
        made.prepareForTriggerAvailableNow()
        with pytest.raises(ClusterError, match=f"{name}-b-0 has not been there"):
            latest(made, start)
    with reader(east, failOnDataLoss="false", **options) as made:
        made.prepareForTriggerAvailableNow()
        assert latest(made, start)[f"{name}-a"]["offsets"] == {"0": 3}


def test_a_broker_that_stands_still_delays_only_what_it_leads(east3: LocalCluster, topic: Callable[[str], str]) -> None:
    """Also when it has shown that there is more to read; and what it leads is waited for, by tasks as well."""
    name = topic("hung")
    topics.create(east3, name, assigned=[[1], [2]])
    for partition in range(2):
        write(east3, name, 5, partition=partition)
    # Broker 1 may be the controller, which the writes below need.
    hung = east3.broker(2)
    with (
        reader(east3, subscribe=name, startingOffsets="earliest") as made,
        reader(east3, subscribe=name, startingOffsets="earliest") as ending,
    ):
        start = made.initialOffset()
        first = latest(made, start)
        assert first[name]["offsets"] == {"0": 5, "1": 5}
        ending.prepareForTriggerAvailableNow()
        ending.initialOffset()
        hung.pause()
        try:
            # As if the batch before had not reached the partition.
            read = written(name, 5, 0, topic_id=first[name]["id"])
            took_s: list[float] = []
            for offset in range(6, 9):
                write(east3, name, 1)
                begun = time.monotonic()
                while read[name]["offsets"]["0"] < offset:
                    read = latest(made, read)
                took_s.append(time.monotonic() - begun)
                read = written(name, read[name]["offsets"]["0"], 0, topic_id=first[name]["id"])
            assert max(took_s) < HUNG_S / 10, took_s
            reached = latest(ending, start)
            assert reached[name]["offsets"] == {"0": 5, "1": 0}
        finally:
            hung.resume()
        assert latest(ending, reached)[name]["offsets"] == {"0": 5, "1": 5}
