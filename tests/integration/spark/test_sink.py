"""DataFrames and streams written to Kafka, judged by consumers of another library."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isthmus.errors import BrokerRefused, ClusterError, EpochRefused
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.local import LocalCluster
from isthmus.spark.dataframes.sinklog import POSITIONS_TOPIC, PositionLogs
from isthmus.spark.dataframes.sinkpositions import EpochIdentity, partition_of
from isthmus.spark.dataframes.sinktask import (
    EpochTask,
    TaskOutcome,
    TaskSettings,
    abort_epoch,
    commit_epoch,
    fence,
    write_task,
)
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.oracle import Seen

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
ROWS: Final = 2_000
TASKS: Final = 3


class SinkRig:
    """A session, a cluster that it writes to, and a topic there."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, folder: Path, topic: str) -> None:
        self.spark, self.cluster, self.folder, self.topic = spark, cluster, folder, topic
        config = folder / "isthmus.yaml"
        config.write_text(f"clusters: {{west: {{bootstrap_servers: {cluster.bootstrap_servers!r}}}}}\n")
        self.options = {"config": str(config), "cluster": "west", "topic": topic}

    def rows(self, begin: int = 0, end: int = ROWS, *, tasks: int = TASKS) -> DataFrame:
        """Numbers as values, in order within each task, and every tenth of them as a key."""
        number = F.col("id").cast("string")
        return self.spark.range(begin, end, 1, tasks).select(
            F.when(F.col("id") % 10 == 0, number).cast("binary").alias("key"), number.alias("value")
        )

    def write(self, frame: DataFrame, **options: str) -> None:
        frame.write.format("isthmus").options(**{**self.options, **options}).mode("append").save()

    def stream(self, *, checkpoint: str = "checkpoint", **options: str) -> None:
        """Write what is in the files of folder `input`, one file a batch, and none twice."""
        read = self.spark.readStream.schema("value STRING").option("maxFilesPerTrigger", 1)
        writing = read.json(str(self.folder / "input")).writeStream.format("isthmus")
        place = str(self.folder / checkpoint)
        query = (
            writing.options(**{**self.options, "checkpointLocation": place, **options})
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(TERM_S))

    def add_file(self, batch: int, rows: int = 100) -> None:
        (self.folder / "input").mkdir(exist_ok=True)
        lines = [json.dumps({"value": f"{batch}-{n}"}) for n in range(rows)]
        (self.folder / "input" / f"{batch}.json").write_text("\n".join(lines))

    def seen(self, topic: str = "", *, partitions: int = 3) -> list[list[Seen]]:
        """What a consumer at read_committed gets."""
        return oracle.records(self.cluster.bootstrap_servers, topic or self.topic, partitions=partitions)

    def values(self, topic: str = "") -> list[str]:
        return sorted((record.value or b"").decode() for part in self.seen(topic) for record in part)

    def positions(self, name: str) -> list[Seen]:
        return oracle.records(self.cluster.bootstrap_servers, POSITIONS_TOPIC, partitions=16)[partition_of(name)]


@pytest.fixture
def rig(spark: SparkSession, west: LocalCluster, tmp_path: Path, topic: TopicNamer) -> SinkRig:
    """A topic of three partitions."""
    rig = SinkRig(spark, west, tmp_path, topic("sink"))
    topics.create(west, rig.topic, partitions=3)
    return rig


def numbers(end: int = ROWS, begin: int = 0) -> list[str]:
    return sorted(str(n) for n in range(begin, end))


@pytest.mark.parametrize("options", [{}, {"compression": "zstd", "commit": "task"}])
def test_rows_are_records(rig: SinkRig, options: dict[str, str]) -> None:
    """Each row once, those of a task in their order within a partition, keys where Kafka's own producer puts them."""
    rig.write(rig.rows(), **options)

    assert rig.values() == numbers()
    own = topics.producer(rig.cluster, partitioner="murmur2_random")
    elsewhere = f"{rig.topic}-own"
    topics.create(rig.cluster, elsewhere, partitions=3)
    for n in range(0, ROWS, 10):
        own.produce(elsewhere, b"", str(n).encode())
    topics.flush(own)
    for ours, theirs in zip(rig.seen(), rig.seen(elsewhere), strict=True):
        assert {record.key for record in ours if record.key} == {record.key for record in theirs}
        for task in range(TASKS):
            span = range(task * ROWS // TASKS, (task + 1) * ROWS // TASKS)
            of_task = [int(record.value or b"") for record in ours if int(record.value or b"") in span]
            keyed = [n for n in of_task if n % 10 == 0]
            assert keyed == sorted(keyed)
            assert [n for n in of_task if n % 10] == sorted(n for n in of_task if n % 10)


def test_every_column_arrives(rig: SinkRig, topic: TopicNamer) -> None:
    """Topic, partition, timestamp and headers as the row says; a null value is a tombstone."""
    other = topic("other")
    topics.create(rig.cluster, other, partitions=3)
    at = datetime(2024, 9, 1, 12, 30, 15, 123_000, tzinfo=UTC)
    frame = rig.spark.createDataFrame(
        [
            (b"k", b"v", rig.topic, 2, at, [("h", b"1"), ("h", None)]),
            (b"gone", None, other, None, None, None),
        ],
        "key BINARY, value BINARY, topic STRING, partition INT, timestamp TIMESTAMP, "
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
    )
    frame.write.format("isthmus").options(config=rig.options["config"], cluster="west").mode("append").save()

    (record,) = rig.seen()[2]
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"1"), ("h", None)))
    assert record.timestamp[1] == int(at.timestamp() * 1000)
    (tombstone,) = [each for part in rig.seen(other) for each in part]
    assert (tombstone.key, tombstone.value) == (b"gone", None)


def test_a_named_batch_is_written_once(rig: SinkRig, topic: TopicNamer) -> None:
    """The same job again writes nothing, other rows are refused, and the next epoch goes on."""
    name = topic("job")
    rig.write(rig.rows(), name=name)
    rig.write(rig.rows(), name=name)
    assert rig.values() == numbers()
    with pytest.raises(PySparkException, match="other rows"):
        rig.write(rig.rows(1), name=name)
    rig.write(rig.rows(tasks=2), name=name)
    assert rig.values() == numbers()
    rig.write(rig.rows(ROWS, ROWS + 10), name=name, epoch="1")
    with pytest.raises(PySparkException, match="epoch 1 is at the target already"):
        rig.write(rig.rows(), name=name)
    assert rig.values() == numbers(ROWS + 10)
    assert len(rig.positions(name)) >= TASKS


def test_a_batch_without_a_name_leaves_no_position(rig: SinkRig) -> None:
    """It is written as often as it is called, and nobody has to keep anything of it."""
    rig.write(rig.rows(0, 10))
    rig.write(rig.rows(0, 10))

    assert rig.values() == sorted(numbers(10) * 2)
    found = oracle.records(rig.cluster.bootstrap_servers, POSITIONS_TOPIC, partitions=16)
    newest = {record.key: record.value for part in found for record in part}
    assert not any(rig.topic.encode() in (value or b"") for value in newest.values())
    assert sum(value is None for value in newest.values()) >= 2


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        (["CAST(NULL AS STRING) AS topic", "'v' AS value"], {"topic": ""}, "null in its column topic"),
        (["'v' AS value", "7 AS partition"], {}, "column partition: it has no partition 7"),
        (["'v' AS value"], {"topic": "no-such-topic"}, "west has no topic 'no-such-topic'"),
        (["'v' AS value"], {"compression": "brotli"}, "no codec 'brotli'"),
        (["1L AS value"], {}, "column value is bigint"),
        (["'v' AS value", "'x' AS colour"], {}, "no column 'colour'"),
        (["repeat('x', 2000000) AS value"], {}, "max.message.bytes of topic"),
    ],
)
def test_rows_that_cannot_be_written_are_named(
    rig: SinkRig, columns: list[str], options: dict[str, str], told: str
) -> None:
    """With what to do, and nothing of the job becomes visible, also not what other tasks have written."""
    with pytest.raises(PySparkException, match=told):
        rig.write(rig.spark.range(1).selectExpr(*columns), **options)
    assert rig.values() == []


def test_nothing_is_visible_if_one_task_fails(rig: SinkRig) -> None:
    """A job is visible as a whole: the rows of other tasks are not there either. Those that Spark has killed in the
    middle hold no consumer back.
    """
    bad = F.when(F.col("value") == "0", F.lit(9)).cast("int")
    with pytest.raises(PySparkException, match="it has no partition 9"):
        rig.write(rig.rows(0, 1_000_000).withColumn("partition", bad))
    assert rig.values() == []
    rig.write(rig.rows())
    assert rig.values() == numbers()


def test_overwriting_is_refused(rig: SinkRig) -> None:
    """With the hint what to use."""
    with pytest.raises(PySparkException, match=r"(?s)cannot overwrite.*append"):
        rig.rows().write.format("isthmus").options(**rig.options).mode("overwrite").save()
    counted = rig.spark.readStream.format("rate").load().groupBy().count().selectExpr("CAST(count AS STRING) AS value")
    writing = counted.writeStream.format("isthmus").outputMode("complete").options(**rig.options)
    query = writing.option("checkpointLocation", str(rig.folder / "complete")).start()
    with pytest.raises(StreamingQueryException, match=r"(?s)cannot overwrite.*append"):
        query.awaitTermination(int(TERM_S))


def test_a_record_of_20_mb(rig: SinkRig, topic: TopicNamer) -> None:
    """It goes into a topic that takes it."""
    large = topic("large")
    topics.create(rig.cluster, large, partitions=3, max_message_bytes=32 << 20)
    size = 20 << 20
    frame = rig.spark.range(1).select(F.repeat(F.lit("x"), size).alias("value"))
    rig.write(frame, topic=large)

    (record,) = [each for part in rig.seen(large) for each in part]
    assert record.value == b"x" * size


def test_topics_that_take_only_small_batches(rig: SinkRig, topic: TopicNamer) -> None:
    """Batches are split until they fit."""
    small = topic("small")
    topics.create(rig.cluster, small, partitions=3, max_message_bytes=20_000)
    rig.write(rig.rows().withColumn("value", F.concat("value", F.repeat(F.lit(" "), 500))), topic=small)

    assert sorted(value.strip() for value in rig.values(small)) == numbers()


def test_streams_go_on_from_their_checkpoint(rig: SinkRig) -> None:
    """Every row of every batch once, whenever the query is started again."""
    for batch in range(2):
        rig.add_file(batch)
    rig.stream()
    rig.stream()
    rig.add_file(2)
    rig.stream()

    assert rig.values() == sorted(f"{batch}-{n}" for batch in range(3) for n in range(100))
    for part in rig.seen():
        rows = [tuple(map(int, (record.value or b"").split(b"-"))) for record in part]
        # Spark reads the files of one micro-batch in any order; the third came in one of its own.
        for file in range(3):
            assert [row for row in rows if row[0] == file] == sorted(row for row in rows if row[0] == file)
        assert [row[0] == 2 for row in rows] == sorted(row[0] == 2 for row in rows)


def test_foreach_batch_is_written_once(rig: SinkRig, topic: TopicNamer) -> None:
    """With a name and the number of the batch, as Spark may call it again."""
    name = topic("foreach")
    for batch in range(2):
        rig.add_file(batch)

    def write(frame: DataFrame, number: int) -> None:
        for _ in range(2):
            rig.write(frame, name=name, epoch=str(number))

    read = rig.spark.readStream.schema("value STRING").option("maxFilesPerTrigger", 1).json(str(rig.folder / "input"))
    writing = read.writeStream.foreachBatch(write).option("checkpointLocation", str(rig.folder / "foreach"))
    assert writing.trigger(availableNow=True).start().awaitTermination(int(TERM_S))

    assert rig.values() == sorted(f"{batch}-{n}" for batch in range(2) for n in range(100))


def test_two_queries_of_one_name(rig: SinkRig, topic: TopicNamer) -> None:
    """The second is refused, unless it is told to take over; then the first one is."""
    name = topic("shared")
    rig.add_file(0)
    rig.stream(name=name)
    with pytest.raises(StreamingQueryException, match=r"(?s)belongs to .*takeOver=true"):
        rig.stream(name=name, checkpoint="second")
    assert len(rig.values()) == 100
    rig.stream(name=name, checkpoint="second", takeOver="true")
    assert len(rig.values()) == 200
    rig.add_file(1)
    with pytest.raises(StreamingQueryException, match="belongs to"):
        rig.stream(name=name)
    rig.stream(name=name, checkpoint="second")
    assert len(rig.values()) == 300


def test_a_deleted_checkpoint_does_not_look_like_an_old_one(rig: SinkRig) -> None:
    """An older copy of the checkpoint is refused, and the newer one goes on."""
    rig.add_file(0)
    rig.stream()
    shutil.copytree(rig.folder / "checkpoint", rig.folder / "older")
    for batch in (1, 2):
        rig.add_file(batch)
    rig.stream()
    with pytest.raises(StreamingQueryException, match="older copy of its checkpoint"):
        rig.stream(checkpoint="older")
    rig.add_file(3)
    rig.stream()

    assert rig.values() == sorted(f"{batch}-{n}" for batch in range(4) for n in range(100))


def test_what_is_read_is_written_as_it_is(rig: SinkRig, topic: TopicNamer) -> None:
    """The data source into the sink: same keys, values, headers and timestamps."""
    source = topic("source")
    topics.create(rig.cluster, source, partitions=3)
    given = [topics.Given(b"%d" % n, b"v%d" % n, [("h", b"%d" % n)], topics.SEPTEMBER + n) for n in range(50)]
    topics.produce(rig.cluster, source, given, partition=1)
    reading = {"config": rig.options["config"], "cluster": "west", "subscribe": source}

    rig.write(rig.spark.read.format("isthmus").options(**reading).load())

    def contents(name: str) -> list[list[Any]]:
        return [[record[1:] for record in part] for part in rig.seen(name)]

    assert contents(rig.topic) == contents(source)


def test_a_fenced_attempt_leaves_its_successor_alone(west: LocalCluster, topic: TopicNamer) -> None:
    """It cleans up behind itself, and the open transaction of the attempt that has taken its place is not aborted."""
    name = topic("successor")
    topics.create(west, name)

    async def scenario() -> None:
        async with Client(west.cluster()) as client:
            fenced, successor = Transaction(client, name), Transaction(client, name)
            for each in (fenced, successor):
                await each.initialize()
                await each.begin((name, 0))
            await fence(client, name, fenced.producer_id, fenced.epoch)
            await successor.end(commit=True)
            await successor.initialize()
            await successor.begin((name, 0))
            await fence(client, name, successor.producer_id, successor.epoch)
            with pytest.raises(BrokerRefused):
                await successor.end(commit=True)

    asyncio.run(scenario())


def test_rows_are_visible_when_the_call_returns(rig: SinkRig) -> None:
    """Whoever reads behind it gets them: no partition lacks the end of its transaction."""
    for n in range(5):
        rig.write(rig.rows(n * 10, n * 10 + 10), **({"commit": "task"} if n % 2 else {}))
        for partition in range(3):
            found = oracle.ends(rig.cluster.bootstrap_servers, rig.topic, partition)
            assert found.stable == found.high


def rows_of(*values: int) -> list[pa.RecordBatch]:
    return [pa.record_batch([pa.array([b"%d" % value for value in values], pa.binary())], ["value"])]


class Epoch:
    """An epoch of a sink whose tasks commit by themselves, written task by task."""

    def __init__(self, rig: SinkRig, name: str, job: str) -> None:
        self.cluster = rig.cluster.cluster()
        self.identity = EpochIdentity(name=name, owner="", epoch=0, job=job, consecutive=False)
        self.settings = TaskSettings(topic=rig.topic, codec=0, timeout_ms=60_000, commits=True)

    def write(self, task: int, *values: int) -> TaskOutcome:
        return write_task(self.cluster, self.identity, self.settings, (task, 0), rows_of(*values))


def test_tasks_that_commit_by_themselves_double_no_row_in_another_split(rig: SinkRig, topic: TopicNamer) -> None:
    """If an epoch is repeated that is there in part, the driver commits: only then all tasks have compared their rows.
    In the right split the epoch is completed.
    """
    name = topic("split")
    assert not Epoch(rig, name, "first").write(0, 0, 1).is_prepared
    assert rig.values() == ["0", "1"]
    other = Epoch(rig, name, "other")
    outcome = other.write(1, 1, 2)
    assert outcome.is_prepared
    with pytest.raises(EpochRefused, match="has other rows"):
        other.write(0, 0)
    abort_epoch(other.cluster, [outcome], names=[(name, "other")], forgets=False)
    assert rig.values() == ["0", "1"]
    again = Epoch(rig, name, "again")
    outcomes = [again.write(0, 0, 1), again.write(1, 2)]
    commit_epoch(again.cluster, outcomes, forgets=False)
    assert rig.values() == ["0", "1", "2"]


def test_tasks_that_linger_double_no_row(rig: SinkRig, topic: TopicNamer) -> None:
    """Tasks of a killed driver that are under way when its successor has another split commit nothing beside it."""
    name = topic("linger")
    late, successor = Epoch(rig, name, "late"), Epoch(rig, name, "successor")

    async def scenario() -> None:
        async with Client(late.cluster) as client:
            lingering = EpochTask(client, late.identity, late.settings, (0, 0))
            await lingering.begin()
            for rows in rows_of(0, 1):
                await lingering.take(rows)
            assert not (await asyncio.to_thread(successor.write, 1, 1, 2)).is_prepared
            with pytest.raises(ClusterError):
                await lingering.finish()

    asyncio.run(scenario())
    assert rig.values() == ["1", "2"]
    assert late.write(2, 0).is_prepared
    outcomes = [successor.write(0, 0), successor.write(1, 1, 2)]
    commit_epoch(successor.cluster, outcomes, forgets=False, in_parts=True)
    assert rig.values() == ["0", "1", "2"]


def test_a_repeated_epoch_is_completed_in_parts(rig: SinkRig, topic: TopicNamer) -> None:
    """What the coordinator has aborted, as it was open for too long, is left for the next time; all else is there."""
    name = topic("parts")
    Epoch(rig, name, "first").write(0, 0)
    second = Epoch(rig, name, "second")
    outcomes = [second.write(n, n) for n in range(3)]
    assert [each.is_prepared for each in outcomes] == [False, True, True]

    async def abort(one: TaskOutcome) -> None:
        async with Client(second.cluster) as client:
            await fence(client, one.position.transactional_id, one.producer_id, one.producer_epoch)

    asyncio.run(abort(outcomes[1]))
    with pytest.raises(EpochRefused, match=r"task 1 of epoch 0 .* all others are committed"):
        commit_epoch(second.cluster, outcomes, forgets=False, in_parts=True)
    assert rig.values() == ["0", "2"]
    third = Epoch(rig, name, "third")
    commit_epoch(third.cluster, [third.write(n, n) for n in range(3)], forgets=False, in_parts=True)
    assert rig.values() == ["0", "1", "2"]


def test_positions_that_would_be_deleted_are_refused(rig: SinkRig, topic: TopicNamer) -> None:
    """Rows would be written twice as soon as the positions are gone."""
    name = topic("policy")
    Epoch(rig, name, "first").write(0, 1)
    topics.configure(rig.cluster, POSITIONS_TOPIC, **{"cleanup.policy": "compact,delete"})
    try:

        async def scenario() -> None:
            async with Client(rig.cluster.cluster()) as client:
                with pytest.raises(EpochRefused, match=r"cleanup\.policy=compact,delete"):
                    await client.companion(PositionLogs).of(name).read(name)

        asyncio.run(scenario())
    finally:
        topics.configure(rig.cluster, POSITIONS_TOPIC, **{"cleanup.policy": "compact"})


def test_a_position_is_durable_before_the_first_row(rig: SinkRig, topic: TopicNamer) -> None:
    """Another run finds an open transaction by its position: a row without one would hold consumers back."""
    name = topic("before")
    epoch = Epoch(rig, name, "first")
    servers, place = rig.cluster.bootstrap_servers, partition_of(name)

    async def scenario() -> list[Seen]:
        async with Client(epoch.cluster) as client:
            task = EpochTask(client, epoch.identity, epoch.settings, (0, 0))
            await task.begin()
            await task._begin_writing()
            found = await asyncio.to_thread(oracle.records, servers, POSITIONS_TOPIC, "read_uncommitted", partitions=16)
            await task.abort()
            return [each for each in found[place] if json.loads(each.key or b"null") == [name, 0]]

    (position,) = asyncio.run(scenario())
    assert not json.loads(position.value or b"")["is_complete"]
