"""The data source as users of Spark's own Kafka source know it: topics as DataFrames."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual

import isthmus.spark
from isthmus.local import LocalCluster
from isthmus.spark.dataframes.reading import RangeGroup
from isthmus.spark.datasource import LogSource
from testing.records import oracle, topics, transactions
from testing.records.compaction import Compacted, keys
from testing.records.topics import SEPTEMBER, Given

pytestmark = pytest.mark.integration

PARTITIONS: Final = 3
COLUMNS: Final = (
    "key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>"
)


@pytest.fixture
def config(east: LocalCluster, tmp_path: Path) -> str:
    """The path of a configuration file with this cluster."""
    path = tmp_path / "isthmus.yaml"
    path.write_text(f"clusters: {{east: {{bootstrap_servers: {east.bootstrap_servers!r}}}}}\n")
    return str(path)


def filled(cluster: LocalCluster, name: str, count: int = 30, partitions: int = PARTITIONS) -> str:
    """A topic of plain records, that at offset n of a partition n seconds into the first of September."""
    topics.create(cluster, name, partitions=partitions)
    for partition in range(partitions):
        given = [Given(b"k", b"%d-%d" % (partition, n), [], SEPTEMBER + n * 1000) for n in range(count)]
        topics.produce(cluster, name, given, partition=partition, batch_num_messages=10)
    return name


def seen(rows: Iterable[Row], partition: int = 0) -> list[oracle.Seen]:
    """Rows as the oracle shows records."""
    return [
        oracle.Seen(
            row.offset,
            (row.timestampType + 1, row.ms),
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers or ()),
        )
        for row in sorted(rows, key=lambda row: row.offset)
        if row.partition == partition
    ]


def collected(frame: DataFrame) -> list[Row]:
    """The rows, with their timestamps in ms."""
    return frame.withColumn("ms", F.unix_millis("timestamp")).collect()


def places(frame: DataFrame) -> list[tuple[int, int]]:
    """The places of rows."""
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


@pytest.mark.parametrize("isolation", oracle.ISOLATIONS)
def test_rows_are_what_a_consumer_reads(
    spark: SparkSession,
    config: str,
    east: LocalCluster,
    topic: Callable[[str], str],
    chance: random.Random,
    isolation: oracle.Isolation,
) -> None:
    """Without `register`: keys, values, headers and timestamps as librdkafka has them at either isolation, null and
    empty ones too, out of transactions that were committed and aborted.
    """
    name = topic("rows")
    topics.create(east, name, partitions=PARTITIONS)
    transactions.interleave(east, name, chance, steps=40, partitions=PARTITIONS)
    given = {"kafka.isolation.level": isolation, "subscribe": name}

    frame = spark.read.format("isthmus").options(config=config, cluster="east", **given).load()
    rows = collected(frame)

    assert ",".join(":".join(column) for column in frame.dtypes) == COLUMNS
    expected = oracle.records(east.bootstrap_servers, name, isolation, partitions=PARTITIONS)
    assert [seen(rows, partition) for partition in range(PARTITIONS)] == expected
    assert {row.topic for row in rows} == {name}
    assert all(row.headers is None or row.headers for row in rows)


def test_a_compacted_topic_is_read_over_its_holes(
    spark: SparkSession, config: str, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """As the cleaner left it."""
    compacted = Compacted(east, topic("compacted"))
    for _ in range(3):
        compacted.write(keys("k", 10))
    compacted.write([b"last"])
    compacted.await_cleaning(11)

    rows = collected(
        spark.read.format("isthmus").options(config=config, cluster="east", subscribe=compacted.name).load()
    )

    assert [seen(rows)] == oracle.records(east.bootstrap_servers, compacted.name)


def test_aborted_records_are_rows_where_they_are_asked_for(
    spark: SparkSession, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """By their own column; whatever is registered needs no file."""
    name = topic("aborted")
    topics.create(east, name)
    transactions.abort(east, name, [Given(b"k", b"v", [], SEPTEMBER)] * 3, name)
    topics.produce(east, name, [Given(b"k", b"w", [], SEPTEMBER)])
    isthmus.spark.register(spark, [east.cluster()])

    def read() -> DataFrameReader:
        return spark.read.format("isthmus").options(cluster="east", subscribe=name)

    assert [row.offset for row in read().load().collect()] == [4]
    marked = read().schema("IS_ABORTED BOOLEAN, offset BIGINT").load().orderBy("offset").collect()
    assert [tuple(row) for row in marked] == [(True, 0), (True, 1), (True, 2), (False, 4)]
    assert read().option("includeHeaders", "false").load().columns[-1] == "timestampType"


def test_options_say_where_to_begin_and_to_end(
    spark: SparkSession, config: str, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """By offsets and by times, for each partition or for all, of topics, patterns and single partitions."""
    name = filled(east, topic("bounds"))

    def read(**options: str) -> list[tuple[int, int]]:
        options = {"subscribe": name, **options} if "assign" not in options else options
        return places(spark.read.format("isthmus").options(config=config, cluster="east", **options).load())

    def each(*values: int) -> str:
        return json.dumps({name: {str(n): value for n, value in enumerate(values)}})

    assert read(startingOffsets=each(28, -2, 29), endingOffsets=each(-1, 2, 30)) == [
        *((0, n) for n in (28, 29)),
        *((1, n) for n in (0, 1)),
        (2, 29),
    ]
    assert read(startingTimestamp=str(SEPTEMBER + 27_500), endingTimestamp=str(SEPTEMBER + 29_000)) == [
        (partition, 28) for partition in range(PARTITIONS)
    ]
    late = each(SEPTEMBER + 29_000, SEPTEMBER + 90_000, SEPTEMBER + 28_001)
    assert read(startingOffsetsByTimestamp=late, startingOffsetsByTimestampStrategy="latest") == [(0, 29), (2, 29)]
    with pytest.raises(PySparkException, match=r"no record of .*-1 is as late as startingOffsetsByTimestamp"):
        read(startingOffsetsByTimestamp=late)
    assert read(assign=json.dumps({name: [2]}), endingOffsets=json.dumps({name: {"2": 1}})) == [(2, 0)]
    pattern = spark.read.format("isthmus").options(config=config, cluster="east", subscribePattern=name[:-1] + ".")
    assert len(places(pattern.load())) == 30 * PARTITIONS


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kafka.bootstrap.servers": "h:1"}, "option kafka.bootstrap.servers of the data source"),
        ({"startingOffset": "earliest"}, "Did you mean startingOffsets"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "it lacks"),
        ({"cluster": "north"}, "there is no cluster named north"),
        ({"config": "/nowhere.yaml"}, "nowhere.yaml"),
    ],
)
def test_mistakes_are_refused_before_anything_is_read(
    spark: SparkSession, config: str, east: LocalCluster, topic: Callable[[str], str], options: dict[str, str], why: str
) -> None:
    """With the option and what to do."""
    name = filled(east, topic("mistakes"), 1)

    with pytest.raises(PySparkException, match=why):
        spark.read.format("isthmus").options(
            **{"config": config, "cluster": "east", "subscribe": name, **options}
        ).load().count()


def test_a_column_of_another_type_is_refused(spark: SparkSession, config: str) -> None:
    """Spark would notice in the middle of a job."""
    read = spark.read.format("isthmus").options(config=config, cluster="east", subscribe="x")

    with pytest.raises(PySparkException, match="column offset of the data source is bigint, not string"):
        read.schema("offset STRING").load().count()


def test_deleted_records_are_an_error_unless_they_may_be_lost(
    spark: SparkSession, config: str, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """The error names the partition and the offsets."""
    name = filled(east, topic("lost"), partitions=1)
    topics.delete_records(east, name, 5)
    read = spark.read.format("isthmus").options(config=config, cluster="east", subscribe=name)
    named = read.option("startingOffsets", json.dumps({name: {"0": 2}}))

    with pytest.raises(PySparkException, match=rf"records of {name}-0 \[2, 5\) were deleted"):
        named.load().count()
    assert named.option("failOnDataLoss", "false").load().count() == 25
    assert spark.read.format("isthmus").options(config=config, cluster="east", subscribe=name).load().count() == 25


def scanned(frame: DataFrame) -> int:
    """How many rows the source gave Spark for a query."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    frame._jdf.queryExecution().toRdd().count()
    return int(plan.collectLeaves().head().metrics().apply("numOutputRows").value())


def test_conditions_leave_less_to_read(
    spark: SparkSession, config: str, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A query that names a partition, offsets or a time is not given the rows of others."""
    name = filled(east, topic("conditions"))
    frame = spark.read.format("isthmus").options(config=config, cluster="east", subscribe=name).load()

    for condition, given in [
        ("partition = 1", 30),
        ("partition = 1 AND offset >= 25", 5),
        ("offset IN (3, 5)", 3 * PARTITIONS),
        (f"timestamp >= timestamp_millis({SEPTEMBER + 28_000})", 2 * PARTITIONS),
        ("topic = 'other'", 0),
        ("value IS NULL", 30 * PARTITIONS),
    ]:
        assert scanned(frame.where(condition)) == given, condition
    assert places(frame.where("partition = 1 AND offset >= 28")) == [(1, 28), (1, 29)]


def test_conditions_leave_fewer_ranges(config: str, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """What tasks are planned to read, without a Spark."""
    name = filled(east, topic("ranges"))

    def planned(*filters: Filter) -> list[tuple[int, int, int]]:
        source = LogSource(options={"config": config, "cluster": "east", "subscribe": name})
        reader = source.reader(source.schema())
        assert list(reader.pushFilters(list(filters))) == list(filters)
        groups = reader.partitions()
        spans = [span for group in groups if isinstance(group, RangeGroup) for _, _, span in group.ranges]
        return [(span.partition, span.offset_begin, span.offset_end) for span in spans]

    assert planned() == [(0, 0, 30), (1, 0, 30), (2, 0, 30)]
    assert planned(EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 25)) == [(1, 25, 30)]


def test_it_is_a_view_of_sql(spark: SparkSession, config: str, east: LocalCluster, topic: Callable[[str], str]) -> None:
    """A view with options."""
    name = filled(east, topic("sql"), partitions=1)
    view = name.replace("-", "_")

    spark.sql(
        f"CREATE TEMPORARY VIEW {view} USING isthmus OPTIONS (config '{config}', cluster 'east', subscribe '{name}')"
    )
    assert spark.table(view).agg(F.max("offset"), F.count("*")).collect() == [(29, 30)]
