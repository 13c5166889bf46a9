"""The two clusters of a verification: queried by the driver, and read as DataFrames by Spark."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession

from isthmus.kafka.log.spans import spans_of
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster
from isthmus.model.translation import MappedRange
from isthmus.spark.compare.links import comparison
from isthmus.spark.compare.links.extent import ComparedSlice
from isthmus.spark.compare.projection import CommittedRows, Projection
from isthmus.spark.compare.tally import Pair
from isthmus.spark.compare.watch import OnVerified, run_coroutine, run_watched
from isthmus.spark.logs import Copying, Logs
from isthmus.spark.ranges import NumberedRange, grouped_for_slots, read_rows

if TYPE_CHECKING:
    import pyarrow as pa

_TARGET: Final = 1
"""The side of an odd number."""

Views = dict[int, CommittedRows | Projection]
"""The views of mapped partitions, by the numbers of ranges."""

PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")


class Sides:
    """A source and a target, read with `spark`. Reads are shown by `progress` and in the Spark UI.

    `copying` is how the distributor between them copies, if there is one: records it does not copy count as aborted.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: Cluster,
        target: Cluster,
        progress: OnVerified | None,
        *,
        may_lack_aborted: bool = False,
        copying: Copying | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.may_lack_aborted = may_lack_aborted
        self._copying = {source.alias: copying} if copying else {}
        self.spark = spark
        self._progress = progress

    def in_session(self, build: Callable[[SparkSession], SparkSession]) -> Sides:
        """Return the same sides, read in another session of the same application."""
        found = copy.copy(self)
        found.spark = build(self.spark)
        return found

    def ask(self, question: Callable[..., Coroutine[Any, Any, ResultT]], *given: Any) -> ResultT:
        """Run `question(source_client, target_client, *given)` and return its answer.

        :raises ClusterError: A cluster does not answer.
        """

        async def ask() -> ResultT:
            async with ClientSession() as session:
                return await question(session.client(self.source), session.client(self.target), *given)

        return run_coroutine(ask())

    def rows(self, what: str, build: Callable[[], DataFrame]) -> list[Row]:
        """Collect the rows of the DataFrame that `build` makes, with the help of `read`.

        :raises ClusterError: A cluster could not be read by a worker.
        """
        return self._run_watched(what, lambda: build().collect())

    def _run_watched(self, what: str, work: Callable[[], ResultT]) -> ResultT:
        description = f"verify {self.source.alias} to {self.target.alias}: {what}"
        return run_watched(self.spark, description, self._progress, work)

    def compare_slices(
        self,
        what: str,
        compare: Callable[[Logs, Pair], ResultT],
        slices: Iterable[tuple[int, ComparedSlice]],
    ) -> list[tuple[int, ResultT]]:
        """Return the results of `compare` for slices, by their numbers. It runs in Spark's workers and reads both sides
        there.

        :raises ClusterError: A cluster could not be read by a worker.
        """
        clusters, copying = self.clusters, self._copying
        sized = [((number, self._build_pair(part)), 2 * part.size_bytes) for number, part in slices]
        groups = self.group(sized)

        def task(parts: Iterable[list[tuple[int, Pair]]]) -> Iterator[tuple[int, ResultT]]:
            with Logs(clusters, copying) as logs:
                for part in parts:
                    for number, pair in part:
                        yield number, compare(logs, pair)

        def work() -> list[tuple[int, ResultT]]:
            # Without DataFrames: planning and compiling queries takes Spark longer than comparing a gigabyte.
            return self.spark.sparkContext.parallelize(groups, len(groups)).mapPartitions(task).collect()

        return self._run_watched(what, work) if groups else []

    def read(
        self, mode: str, fields: str, parts: Iterable[tuple[int, ComparedSlice]], *, keeps_others: bool = False
    ) -> DataFrame:
        """Return rows of the data source in this mode, for the ranges of both sides, numbered as in `comparison`.

        Rows of mapped partitions have the source's offsets; records that others wrote to the target are left out,
        unless the neighbours of a record are needed (`keeps_others`).

        Only for use in `build`: it calls the JVM, which must not be interrupted. It does not use the data source, for
        which Spark starts two more Python processes for every plan.
        """
        clusters, copying = self.clusters, self._copying
        names = [field.split()[0] for field in fields.split(",")]
        parts = list(parts)
        views = _build_views(parts, keeps_others=keeps_others)
        groups = self.group(list(self._ranges(parts)))

        def task(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part in numbers:
                for number in part.column(0).to_pylist():
                    rows = read_rows(clusters, mode, names, groups[number], copying)
                    yield from map(partial(_apply_view, views), rows) if views else rows

        count = max(len(groups), 1)
        rows = self.spark.range(0, len(groups), 1, count).mapInArrow(task, fields)
        # Compare in as many partitions as were read.
        return comparison.together(rows, count)

    @property
    def clusters(self) -> dict[str, Cluster]:
        return {self.source.alias: self.source, self.target.alias: self.target}

    def group(self, sized: list[tuple[PartT, int]]) -> list[list[PartT]]:
        """Group parts for tasks of equal size."""
        return grouped_for_slots(sized, self.spark.sparkContext.defaultParallelism)

    def _build_pair(self, part: ComparedSlice) -> Pair:
        return Pair(self.source.alias, part.source, self.target.alias, part.target, part.ranges)

    def _ranges(self, parts: Iterable[tuple[int, ComparedSlice]]) -> Iterator[tuple[NumberedRange, int]]:
        for number, part in parts:
            for side, (alias, span) in enumerate(((self.source.alias, part.source), (self.target.alias, part.target))):
                # A span of a mapped target may hold much that belongs to others.
                is_sparse = side == _TARGET and part.ranges is not None
                for each in spans_of(span, part.ranges or ()) if is_sparse else (span,):
                    if not each.is_empty:
                        yield (2 * number + side, alias, each), part.size_bytes


def _build_views(parts: Sequence[tuple[int, ComparedSlice]], *, keeps_others: bool) -> Views:
    ranges: dict[int, list[MappedRange]] = defaultdict(list)
    for number, part in parts:
        if part.extent.lane is not None:
            ranges[number] += part.extent.lane.offsets.ranges if part.ranges is None else part.ranges
    targets: Views = {
        2 * number + _TARGET: Projection(sorted({*found}), keeps_others=keeps_others)
        for number, found in ranges.items()
    }
    return targets if keeps_others else targets | {2 * number: CommittedRows() for number in ranges}


def _apply_view(views: Views, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as the comparison sees them. All rows of a batch belong to one range."""
    view = views.get(rows.column("range")[0].as_py()) if rows.num_rows else None
    return rows if view is None else view.rows(rows)
