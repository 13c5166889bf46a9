"""The two clusters of a verification: asked from the driver, and read as DataFrames by Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession

from isthmus.cluster.slices import SLICE_BYTES
from isthmus.model.cluster import Cluster
from isthmus.spark.datasource import NumberedRange, grouped, read_rows
from isthmus.spark.verification import comparison
from isthmus.spark.verification.extent import ComparedSlice
from isthmus.spark.verification.failure import our_errors
from isthmus.spark.verification.watch import Progress, watched
from isthmus.wire.client import Client

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES_MIN: Final = 1 << 20
_GROUPS_PER_SLOT: Final = 2

ResultT = TypeVar("ResultT")


class Sides:
    """A source and a target. What is read of them is described to `progress` and in the Spark UI."""

    def __init__(
        self,
        spark: SparkSession,
        source: Cluster,
        target: Cluster,
        progress: Progress | None,
        *,
        may_lack_aborted: bool = False,
    ) -> None:
        self.source = source
        self.target = target
        self.may_lack_aborted = may_lack_aborted
        self._spark = spark
        self._progress = progress

    def ask(self, question: Callable[..., Coroutine[Any, Any, ResultT]], *given: Any) -> ResultT:
        """The answer to `question(source_client, target_client, *given)`.

        :raises ClusterError: An answer did not come.
        """

        async def ask() -> ResultT:
            async with Client(self.source) as source, Client(self.target) as target:
                return await question(source, target, *given)

        return _settled(ask())

    def rows(self, what: str, build: Callable[[], DataFrame]) -> list[Row]:
        """The rows of the DataFrame that `build` makes of what `read` gives it.

        :raises ClusterError: A cluster could not be read by a worker.
        """
        description = f"verify {self.source.alias} to {self.target.alias}: {what}"
        with our_errors():
            return watched(self._spark, description, self._progress, lambda: build().collect())

    def read(self, mode: str, fields: str, parts: Iterable[tuple[int, ComparedSlice]]) -> DataFrame:
        """Rows of the data source in this mode, of both sides' ranges, numbered as `comparison` has it.

        For `build` alone: it speaks with the JVM, which must not be interrupted. Not by way of the data source, which
        has Spark start two more Python processes for every plan.
        """
        sized = list(self._ranges(parts))
        share = sum(size_bytes for _, size_bytes in sized) // (
            self._spark.sparkContext.defaultParallelism * _GROUPS_PER_SLOT
        )
        groups = list(grouped(sized, group_bytes=max(_GROUP_BYTES_MIN, min(share, SLICE_BYTES))))
        clusters = {self.source.alias: self.source, self.target.alias: self.target}
        names = [field.split()[0] for field in fields.split(",")]

        def read_group(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part in numbers:
                for number in part.column(0).to_pylist():
                    yield from read_rows(clusters, mode, names, groups[number])

        # A task for each group.
        tasks = self._spark.range(0, len(groups), 1, max(len(groups), 1))
        rows = tasks.mapInArrow(read_group, fields)
        # What is read in so many parts is compared in as many.
        return comparison.together(rows, max(len(groups), 1))

    def _ranges(self, parts: Iterable[tuple[int, ComparedSlice]]) -> Iterator[tuple[NumberedRange, int]]:
        for number, part in parts:
            for side, (alias, span) in enumerate(((self.source.alias, part.source), (self.target.alias, part.target))):
                if not span.is_empty:
                    yield (2 * number + side, alias, span), part.size_bytes


def _settled(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine, also where an event loop runs already, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()
