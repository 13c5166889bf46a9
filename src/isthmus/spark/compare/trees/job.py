"""The verification of a tree: read records on all clusters, compare them, and build the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession

from isthmus.model.cluster import Cluster
from isthmus.model.copyflags import FlagsHeader
from isthmus.model.trees.tree import Tree
from isthmus.model.trees.treeverdict import TreeVerdict
from isthmus.spark.compare.trees import standings as counting
from isthmus.spark.compare.trees.assembly import LaneTotals, TreeFound, topic_verdicts
from isthmus.spark.compare.trees.judgement import CertainRange, Reach, TreeStandings
from isthmus.spark.compare.trees.records import STANDING_FIELDS, TreeSlice, standing_rows
from isthmus.spark.compare.trees.survey import logs_now, survey
from isthmus.spark.compare.watch import OnVerified, run_coroutine, run_watched
from isthmus.spark.ranges import grouped_for_slots

if TYPE_CHECKING:
    import pyarrow as pa

FINDINGS_MAX: Final = 10
"""The maximum number of findings of each kind that are named for a partition on a cluster."""

ResultT = TypeVar("ResultT")


def verify_tree(
    spark: SparkSession,
    tree: Tree,
    clusters: Mapping[str, Cluster],
    topics: Collection[str],
    *,
    header: FlagsHeader | None = None,
    in_doubt: Collection[str] = (),
    doubted: Collection[str] = (),
    switched: Collection[str] = (),
    progress: OnVerified | None = None,
) -> TreeVerdict:
    """Look on Spark whether every record of a tree is once on each of its clusters, in the order of its producer.

    All that consumers at read_committed see on all clusters is read. A record came in where no distributor wrote it;
    everywhere else there has to be one copy for it, and the copies of what came in on one cluster have to stand in the
    order in which it came in. What is on its way is no fault.

    :param clusters: The clusters of the tree, by their aliases.
    :param header: Where copy flags stand, if they do in a header.
    :param in_doubt: Leaves that may lack records which come late, for the verdict.
    :param doubted: These, and all clusters that get such records by way of them.
    :param switched: The leaves of subtrees whose distributor has gone over from one to another.
    :param progress: Called with what is being done, several times a second.
    :raises ClusterError: A cluster could not be read.
    """
    began = time.monotonic()
    verification = _Verification(spark, tree, clusters, header, progress)
    known, sized = run_coroutine(survey(verification.clusters, tree, topics, doubted, switched))
    found = verification.compare_records(known, sized, exactly=header is not None)
    wrong = found.wrong if header is None else ()
    if wrong:
        # The digests may differ only because numbers are written in more bytes than they need.
        again = [(part, size_bytes) for part, size_bytes in sized if part.lane in wrong]
        found = found.with_other(verification.compare_records(known, again, exactly=True), wrong)
    return TreeVerdict(
        tree=tree.name,
        clusters=tree.clusters,
        topics=topic_verdicts(known, found),
        in_doubt=tuple(sorted(in_doubt)),
        elapsed_s=round(time.monotonic() - began, 3),
    )


class _Verification:
    """One tree, and the Spark session that reads its clusters."""

    def __init__(
        self,
        spark: SparkSession,
        tree: Tree,
        clusters: Mapping[str, Cluster],
        header: FlagsHeader | None,
        progress: OnVerified | None,
    ) -> None:
        self.clusters = [clusters[alias] for alias in tree.clusters]
        self._spark = spark
        self._tree = tree
        self._header = header
        self._progress = progress

    def compare_records(
        self, known: TreeStandings, sized: Sequence[tuple[TreeSlice, int]], *, exactly: bool
    ) -> TreeFound:
        """Read and compare the records once. The findings themselves are returned only if `exactly`."""
        parts = grouped_for_slots(sized, self._spark.sparkContext.defaultParallelism)
        if not parts:
            return TreeFound()
        what = "records" if exactly else "records as they are stored"
        standing, totals = self._run_watched(what, lambda: self._compute_standings(parts, exactly=exactly))
        try:
            return self._judge(known, standing, totals, exactly=exactly)
        finally:
            standing.unpersist()

    def _compute_standings(
        self, parts: Sequence[Sequence[TreeSlice]], *, exactly: bool
    ) -> tuple[DataFrame, list[LaneTotals]]:
        """Compute the standing of each record, persisted on disk as it is used several times."""
        clusters, header = {each.alias: each for each in self.clusters}, self._header

        def task(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part in numbers:
                for number in part.column(0).to_pylist():
                    yield from standing_rows(clusters, parts[number], header, exactly=exactly)

        count = len(parts)
        rows = self._spark.range(0, count, 1, count).mapInArrow(task, STANDING_FIELDS)
        found = counting.standings(rows, len(clusters), count).persist(StorageLevel.DISK_ONLY)
        try:
            totals = counting.totals(found, len(clusters)).collect()
        except BaseException:
            found.unpersist()
            raise
        return found, [LaneTotals(row.lane, tuple(row.here), tuple(row.local), row.suspect) for row in totals]

    def _judge(
        self, known: TreeStandings, standing: DataFrame, totals: list[LaneTotals], *, exactly: bool
    ) -> TreeFound:
        def order() -> tuple[DataFrame, list[Row]]:
            paired = counting.pairs(standing)
            return counting.out_of_order(paired), counting.reaches(paired).collect()

        def faults(certain: list[CertainRange]) -> tuple[DataFrame, list[Row]]:
            ranges = self._spark.createDataFrame(certain, counting.CERTAIN_FIELDS)
            faulty = counting.faults(standing, ranges, known.compacted_lanes)
            return counting.wrong(faulty), counting.fault_totals(faulty).collect()

        def collect_findings(findings: list[DataFrame]) -> list[Row]:
            return counting.first_of_each(reduce(DataFrame.unionByName, findings), FINDINGS_MAX).collect()

        disordered, rows = self._run_watched("the order of records", order)
        findings = [disordered]
        reaches = {(row.lane, row.origin, row.cluster): Reach(row.first, row.last) for row in rows}
        found = TreeFound(totals, breaks={(row.lane, row.origin, row.cluster): row.breaks for row in rows})
        if any(each.suspect for each in totals):
            # Only after all was read: records deleted meanwhile count as deleted.
            certain = list(known.certain_ranges(reaches, run_coroutine(logs_now(self.clusters, known.late))))
            more, rows = self._run_watched("records that are too many or too few", lambda: faults(certain))
            found = found._replace(faults={(lane, cluster): (*each,) for lane, cluster, *each in rows})
            findings = [*findings, more]
        if not (exactly and found.wrong):
            return found
        return found._replace(findings=self._run_watched("what is wrong", lambda: collect_findings(findings)))

    def _run_watched(self, what: str, work: Callable[[], ResultT]) -> ResultT:
        return run_watched(self._spark, f"verify tree {self._tree.name}: {what}", self._progress, work)
