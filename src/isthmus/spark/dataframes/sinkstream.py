"""The sink of `df.writeStream.format("isthmus")`: every micro-batch is an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from isthmus.errors import ConfigError, SparkMissing
from isthmus.model.cluster import Cluster
from isthmus.spark.dataframes.sink import SinkMessage, SinkSetup, task_context
from isthmus.spark.dataframes.sinkpositions import EpochIdentity

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError as error:
    raise SparkMissing(
        "this Spark has no sinks of streams in Python that take Arrow, which came with Spark 4.1",
        hint="Upgrade Spark to 4.1 or newer, or write each micro-batch as a batch: foreachBatch with the options name "
        "and epoch, see docs/spark.md.",
    ) from error

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class StreamSinkWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches. The query's id, which belongs to its checkpoint, and the batch's number say what was
    written already.
    """

    def __init__(
        self, options: Mapping[str, str], clusters: Mapping[str, Cluster], schema: StructType, *, overwrite: bool
    ) -> None:
        self._setup = SinkSetup(options, clusters, schema, overwrite=overwrite)
        if self._setup.settings.epoch is not None:
            raise ConfigError(
                "the option epoch is for batches: the epochs of a stream are its micro-batches",
                field="epoch",
                hint="Leave it out.",
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkMessage:
        setup, context = self._setup, task_context()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        assert query is not None  # noqa: S101  # Spark sets both for every micro-batch
        assert batch is not None  # noqa: S101
        identity = EpochIdentity(
            name=setup.settings.name or query,
            owner=query,
            epoch=int(batch),
            job=setup.job,
            consecutive=True,
            takes_over=setup.settings.takes_over,
        )
        return setup.write(identity, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        self._setup.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        self._setup.abort(messages)
