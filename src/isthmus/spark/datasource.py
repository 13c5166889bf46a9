"""The Spark data source `isthmus`: the logs of Kafka clusters as DataFrames, without a connector jar.

    register(spark, [east, west])
    spark.read.format("isthmus").option("cluster", "east").option("topics", "flights").load()

| option | meaning |
|---|---|
| `mode` | `records` (default): a row per record; `batches`: a row per stored record batch |
| `cluster`, `topics` | the alias of a registered cluster, and topics separated by commas |
| `ranges` | instead of these two: what exactly to read, as `ranges_option` writes it |

The columns are those of `isthmus.spark.rows`, by default without a few that are of little use to people. Name columns
in `schema(...)` and only they are computed. Logs are read up to their last stable offsets. Records of aborted
transactions are rows too and say so in `is_aborted`; control batches are rows in mode `batches` only.

Credentials never are options, which plans and the Spark UI would show. `register` hands Spark a
class that carries the clusters, and Spark pickles it for its Python workers as it does with any
function: through its own sockets, which `spark.authenticate` and `spark.network.crypto.enabled`
protect between hosts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from pyspark.sql.types import StructType

from isthmus.errors import ConfigError, SparkMissing
from isthmus.kafka import codes
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.log.slices import slices
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.rights import on_topic
from isthmus.spark.logs import require_cluster
from isthmus.spark.ranges import MODES, NumberedRange, group_ranges, read_rows
from isthmus.spark.rows import UNUSUAL_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ModuleNotFoundError as error:
    raise SparkMissing(
        "this Spark has no data sources in Python, which came with Spark 4.0",
        hint="Mirroring and `isthmus verify` need none.",
    ) from error

FORMAT: Final = "isthmus"


def register(spark: SparkSession, clusters: Iterable[Cluster], *, name: str = FORMAT) -> None:
    """Make clusters readable in this session as format `name`, each under its alias."""
    # A class made here cannot be imported, so Spark pickles it whole, with the clusters in it.
    source = type(
        "RegisteredSource",
        (LogSource,),
        {"clusters": {cluster.alias: cluster for cluster in clusters}, "format_name": name},
    )
    spark.dataSource.register(source)


def ranges_option(groups: Iterable[Iterable[NumberedRange]]) -> str:
    """Encode the value of the option `ranges`: each group is read by one Spark task.

    Rows show the number of their range in the column `range`; several ranges may have the same.
    """
    return json.dumps([[[number, alias, *span] for number, alias, span in group] for group in groups])


@dataclass(frozen=True)
class RangeGroup(InputPartition):
    """The ranges that one task reads."""

    ranges: tuple[NumberedRange, ...]


class LogSource(DataSource):
    """Gives Spark the schema and the reader. Only subclasses made by `register` know clusters."""

    clusters: ClassVar[Mapping[str, Cluster]] = {}
    format_name: ClassVar[str] = FORMAT

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def schema(self) -> StructType:
        schema = StructType()
        for name, column in MODES[self._mode()].items():
            if name not in UNUSUAL_COLUMNS:
                schema.add(name, column.spark)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        known = MODES[self._mode()]
        for name in schema.names:
            if name not in known:
                raise ConfigError(
                    f"the data source has no column {name!r} in mode {self._mode()}",
                    hint=f"It has {', '.join(known)}.",
                )
        return LogSourceReader(self.clusters, self.options, self._mode(), schema.names)

    def _mode(self) -> str:
        mode = str(self.options.get("mode", "records"))
        if mode not in MODES:
            raise ConfigError(f"the data source has no mode {mode!r}", hint=f"It has {', '.join(MODES)}.")
        return mode


class LogSourceReader(DataSourceReader):
    """Plans groups of ranges in Spark's planning process and reads them in its tasks."""

    def __init__(
        self,
        clusters: Mapping[str, Cluster],
        options: Mapping[str, str],
        mode: str,
        names: Sequence[str],
    ) -> None:
        self._clusters = dict(clusters)
        self._cluster = options.get("cluster", "")
        self._topics = [name.strip() for name in options.get("topics", "").split(",")]
        self._ranges = options.get("ranges")
        self._mode = mode
        self._names = list(names)

    def partitions(self) -> list[InputPartition]:
        groups: Iterable[Iterable[NumberedRange]]
        if self._ranges is None:
            groups = asyncio.run(self._whole_logs())
        else:
            groups = [
                [(number, alias, OffsetRange(*span)) for number, alias, *span in group]
                for group in json.loads(self._ranges)
            ]
        planned: list[InputPartition] = [RangeGroup(tuple(group)) for group in groups]
        # Spark reads an empty plan as one partition without a value; ours has no ranges.
        return planned or [RangeGroup(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeGroup)  # noqa: S101  # Spark gives back what it was given
        return read_rows(self._clusters, self._mode, self._names, partition.ranges)

    async def _whole_logs(self) -> list[list[NumberedRange]]:
        cluster = require_cluster(self._clusters, self._cluster)
        async with ClientSession() as session:
            client = session.client(cluster)
            metadata = await client.metadata(self._topics)
            for name, topic in metadata.topics.items():
                right = on_topic("DESCRIBE", name)
                codes.raise_for_code(topic.error_code, f"reading topic {name!r}", right, cluster=cluster.alias)
            keys = [(name, p.partition) for name, topic in sorted(metadata.topics.items()) for p in topic.partitions]
            found = await log_ranges(client, keys)
            for error in found.errors.values():
                raise error
            whole = [OffsetRange(*key, found.values[key].start, found.values[key].stable_end) for key in keys]
            cut = await slices(LogReader(client), whole)
        parts = [part for parts in cut for part in parts]
        return list(group_ranges(((n, cluster.alias, part.span), part.size_bytes) for n, part in enumerate(parts)))
