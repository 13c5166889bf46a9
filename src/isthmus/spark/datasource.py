"""The Spark data source `isthmus`: the logs of Kafka clusters as DataFrames and streams, without a connector jar.

    spark.read.format("isthmus").options(config="isthmus.yaml", cluster="east", subscribe="flights").load()

Spark finds it by itself where Isthmus is installed (`pyspark_isthmus`). Options and columns are those of Spark's own
Kafka source; docs/spark.md describes them. One more option serves programs: `ranges`, what exactly to read of
registered clusters, as `ranges_option` writes it.

Credentials never are options, which plans and the Spark UI would show. The file is read where a query is planned, and
`register` hands Spark a class that carries the clusters. Either way Spark pickles clusters for its Python workers as it
does with any function: through its own sockets, which `spark.authenticate` and `spark.network.crypto.enabled` protect
between hosts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Final

import pyspark
from pyspark.sql.types import StructType

from isthmus.errors import SparkMissing
from isthmus.model.cluster import Cluster
from isthmus.spark.dataframes.hints import showing_hints
from isthmus.spark.dataframes.options import GivenOptions, find_cluster
from isthmus.spark.dataframes.selection import ReadSettings, mode_of
from isthmus.spark.ranges import NumberedRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
except ModuleNotFoundError as error:
    raise SparkMissing(
        f"Spark {pyspark.__version__} has no data sources in Python, which came with Spark 4.0",
        hint="Mirroring and `isthmus verify` need none.",
    ) from error

from isthmus.spark.dataframes.batch import LogSourceReader, RangesReader
from isthmus.spark.dataframes.columns import check_schema, default_schema
from isthmus.spark.dataframes.sink import BatchSinkWriter

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


class LogSource(DataSource):
    """Gives Spark the schema, the readers and the writers.

    Only subclasses made by `register` know clusters without a file.
    """

    clusters: ClassVar[Mapping[str, Cluster]] = {}
    format_name: ClassVar[str] = FORMAT

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    @showing_hints()
    def schema(self) -> StructType:
        options = GivenOptions(self.options)
        return default_schema(mode_of(options), includes_headers=options.flag("includeHeaders", True))

    @showing_hints()
    def reader(self, schema: StructType) -> DataSourceReader:
        options = GivenOptions(self.options)
        check_schema(mode_of(options), schema)
        if "ranges" in options:
            return RangesReader(self.clusters, mode_of(options), schema.names, options.text("ranges"))
        settings = ReadSettings.of_batch(options)
        return LogSourceReader(find_cluster(options, self.clusters), settings, schema.names)

    @showing_hints()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if find_spec("pyspark.sql.streaming.datasource") is None:
            raise SparkMissing(
                f"Spark {pyspark.__version__} has no streams in Python whose batches can be limited: 4.2 has them",
                hint="Read the topic with spark.read, or use Spark 4.2 or newer.",
            )
        from isthmus.spark.dataframes.stream import LogStreamReader

        options = GivenOptions(self.options)
        check_schema(mode_of(options), schema)
        settings = ReadSettings.of_stream(options)
        return LogStreamReader(find_cluster(options, self.clusters), settings, schema.names)

    @showing_hints()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchSinkWriter(self.options, self.clusters, schema, overwrite=overwrite)

    @showing_hints()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        # Before Spark 4.1 this cannot be imported.
        from isthmus.spark.dataframes.sinkstream import StreamSinkWriter

        return StreamSinkWriter(self.options, self.clusters, schema, overwrite=overwrite)
