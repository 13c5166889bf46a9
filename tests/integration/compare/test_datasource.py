"""The data source as people use it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isthmus.errors import ConfigError
from isthmus.kafka.batches.batch import CODECS
from isthmus.kafka.log.reading import OffsetRange
from isthmus.local import LocalCluster
from isthmus.model.cluster import Secret, Security
from isthmus.spark.compare.failure import our_errors
from isthmus.spark.datasource import ranges_option, register
from testing.records import topics
from testing.records.pair import RECORDS, SECOND_MS, Pair, records
from testing.records.transactions import TransactionalProducer

pytestmark = pytest.mark.integration

CANARY: Final = "canary-6f1d"


@pytest.fixture
def registered(spark: SparkSession, east: LocalCluster, west: LocalCluster) -> SparkSession:
    """The session with both clusters, one of which has a password that it does not need."""
    needless = Security(username="u", password=Secret(CANARY))
    register(spark, [replace(east.cluster(), security=needless), west.cluster()])
    return spark


ROWS: Final = (
    "topic STRING, partition INT, offset BIGINT, timestamp_ms BIGINT, key BINARY, value BINARY, digest BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def logs(spark: SparkSession, topic: str, **options: str) -> DataFrame:
    return spark.read.format("isthmus").options(cluster="east", topics=topic, **options).load()


def test_records_are_rows(registered: SparkSession, pair: Pair) -> None:
    """Every record with its place, its time and its content; null is null."""
    topic = pair.topic("rows", partitions=2)
    pair.produce(topic, 0, 60)
    pair.produce(topic, 60, partition=1)

    read = registered.read.format("isthmus").options(cluster="east", topics=topic)
    rows = read.schema(ROWS).load().orderBy("timestamp_ms").collect()

    assert [row.timestamp_ms for row in rows] == [topics.SEPTEMBER + n * SECOND_MS for n in range(RECORDS)]
    assert [(row.partition, row.offset) for row in rows[58:62]] == [(0, 58), (0, 59), (1, 0), (1, 1)]
    assert [bytes(row.key) for row in rows] == [record.key for record in records()]
    assert [row.value and bytes(row.value) for row in rows] == [record.value for record in records()]
    assert [(header.key, bytes(header.value)) for header in rows[7].headers] == [("h", b"7")]
    assert {row.topic for row in rows} == {topic}
    assert len({bytes(row.digest) for row in rows}) == RECORDS


def test_batches_are_rows(registered: SparkSession, pair: Pair) -> None:
    """Every stored batch, markers too, with its codec and what became of its transaction."""
    topic = pair.topic("batches")
    writer = TransactionalProducer(pair.source, topic, compression_type="lz4")
    for commit in (True, False):
        writer.send(topic, [topics.Given(b"k", b"v" * 100, [], topics.SEPTEMBER)] * 10)
        writer.end(commit=commit)

    rows = logs(registered, topic, mode="batches").orderBy("base_offset").collect()

    seen = [(r.base_offset, r.offset_end, r.record_count, r.control_type, r.is_aborted, r.codec) for r in rows]
    assert seen == [
        (0, 10, 10, None, False, "lz4"),
        (10, 11, 1, "commit", False, "none"),
        (11, 21, 10, None, True, "lz4"),
        (21, 22, 1, "abort", False, "none"),
    ]
    assert [row.max_timestamp_ms for row in rows][::2] == [topics.SEPTEMBER] * 2
    assert {r.codec for r in rows} <= set(CODECS)


def test_only_named_columns_are_read(registered: SparkSession, pair: Pair) -> None:
    """A schema of some columns, in any order, gives these."""
    topic = pair.topic("named")
    pair.produce(topic)
    reader = registered.read.format("isthmus").options(cluster="east", topics=topic)

    found = reader.schema("is_tombstone BOOLEAN, offset BIGINT").load().orderBy("offset").collect()

    assert [row.asDict() for row in found[-2:]] == [
        {"is_tombstone": False, "offset": RECORDS - 2},
        {"is_tombstone": True, "offset": RECORDS - 1},
    ]


def test_secrets_are_in_no_plan(registered: SparkSession, pair: Pair) -> None:
    """Neither plans nor settings, which the Spark UI and event logs show, hold a password."""
    topic = pair.topic("secrets")
    found = logs(registered, topic).groupBy("partition").agg(F.count("*"))

    assert found.collect() == []
    shown = found._jdf.queryExecution().toString() + str(registered.sparkContext.getConf().getAll())
    assert "isthmus" in shown
    assert CANARY not in shown


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cluster": "south", "topics": "x"}, "no cluster 'south' is registered"),
        ({"cluster": "east", "topics": "nowhere"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"cluster": "east", "topics": "x", "mode": "words"}, "no mode 'words'"),
    ],
)
def test_mistakes_are_told(registered: SparkSession, options: dict[str, str], told: str) -> None:
    """What cannot be read says why."""
    with pytest.raises(PySparkException, match=told):
        registered.read.format("isthmus").options(**options).load().count()


def test_unknown_column_is_told(registered: SparkSession) -> None:
    """A column that does not exist is named, with those that do."""
    reader = registered.read.format("isthmus").options(cluster="east", topics="x").schema("colour STRING")

    with pytest.raises(PySparkException, match="no column 'colour'"):
        reader.load().count()


def test_error_of_a_task_is_raised_as_our_own(registered: SparkSession) -> None:
    """What goes wrong in a worker reaches the driver as the error it was."""
    ranges = ranges_option([[(0, "south", OffsetRange("x", 0, 0, 1))]])

    with pytest.raises(ConfigError, match="no cluster 'south' is registered"), our_errors():
        registered.read.format("isthmus").options(ranges=ranges).load().collect()
