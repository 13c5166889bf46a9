"""Count the records of all clusters of a tree at once, as DataFrames.

`standings` has a row for each different record of a partition, with arrays that have an element for each cluster. All
other results come from these rows: a record with too many or too few copies on a cluster shows in its own row, and the
order of records is compared by windows over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isthmus.model.trees.treeverdict import TreeFaultKind

CERTAIN_FIELDS: Final = "lane INT, origin INT, cluster INT, deleted_before BIGINT, to_come_from BIGINT"
FINDING_FIELDS: Final = ("lane", "cluster", "kind", "offset", "origin", "origin_offset", "other_offset")


def standings(rows: DataFrame, clusters: int, partitions: int) -> DataFrame:
    """Build a row for each different record of a lane, from rows of `STANDING_FIELDS`.

    By cluster: how often it is there (`here`), and was at the first look (`early`); how often it came in there
    (`local`), and before the first look (`early_local`); the `first` and the `last` offset that it has there. And the
    sums `came_in` and `came_in_early` over all clusters.
    """

    def by_cluster(of: Callable[[Column], Column]) -> Column:
        return F.array(*(of(F.col("cluster") == number) for number in range(clusters)))

    is_local, is_early = F.col("is_local"), F.col("is_early")
    return (
        rows.repartition(partitions, "lane", "digest")
        .groupBy("lane", "digest")
        .agg(
            by_cluster(F.count_if).alias("here"),
            by_cluster(lambda there: F.count_if(there & is_early)).alias("early"),
            by_cluster(lambda there: F.count_if(there & is_local)).alias("local"),
            by_cluster(lambda there: F.count_if(there & is_local & is_early)).alias("early_local"),
            by_cluster(lambda there: F.min(F.when(there, F.col("offset")))).alias("first"),
            by_cluster(lambda there: F.max(F.when(there, F.col("offset")))).alias("last"),
            F.count_if(is_local).alias("came_in"),
            F.count_if(is_local & is_early).alias("came_in_early"),
        )
    )


def totals(standing: DataFrame, clusters: int) -> DataFrame:
    """Count the records: lane, `here` and `local` by cluster, and the number of different ones that are `suspect`."""

    def sums(name: str) -> Column:
        return F.array(*(F.sum(F.col(name)[number]) for number in range(clusters))).alias(name)

    return standing.groupBy("lane").agg(sums("here"), sums("local"), F.count_if(_is_suspect()).alias("suspect"))


def pairs(standing: DataFrame) -> DataFrame:
    """Records of one cluster beside where another has them: lane, origin, cluster, at_origin, at_cluster, and `before`,
    where the one stands on the cluster that came in right before it.

    Records that are alike cannot be distinguished: the first of them belongs to the first, and the last to the last, if
    both clusters have as many and none came in on another cluster.
    """
    origin = (F.array_position("local", F.col("came_in")) - 1).cast("int")
    of_one = standing.where(F.size(F.filter("local", lambda count: count > 0)) == 1).withColumn("origin", origin)
    each = (
        of_one.where(F.col("here")[F.col("origin")] == F.col("came_in"))
        .select("lane", "origin", "came_in", "here", "first", "last", F.posexplode("here").alias("cluster", "count"))
        .where((F.col("cluster") != F.col("origin")) & (F.col("count") == F.col("came_in")))
    )

    def place(name: str) -> Column:
        return F.struct(
            F.col(name)[F.col("origin")].alias("at_origin"), F.col(name)[F.col("cluster")].alias("at_cluster")
        )

    ends = F.when(F.col("came_in") > 1, F.array(place("first"), place("last"))).otherwise(F.array(place("first")))
    placed = each.select("lane", "origin", "cluster", F.explode(ends).alias("place")).select(
        "lane", "origin", "cluster", "place.at_origin", "place.at_cluster"
    )
    in_order = Window.partitionBy("lane", "origin", "cluster").orderBy("at_origin")
    return placed.withColumn("before", F.lag("at_cluster").over(in_order))


def reaches(paired: DataFrame) -> DataFrame:
    """From `pairs`: lane, origin, cluster, the `first` and the `last` offset at the origin, and in how many places the
    order breaks (`breaks`).
    """
    return paired.groupBy("lane", "origin", "cluster").agg(
        F.min("at_origin").alias("first"), F.max("at_origin").alias("last"), F.count_if(_breaks()).alias("breaks")
    )


def out_of_order(paired: DataFrame) -> DataFrame:
    """Return the places where the order breaks, as findings."""
    return paired.where(_breaks()).select(
        "lane",
        "cluster",
        F.lit(TreeFaultKind.OUT_OF_ORDER).alias("kind"),
        F.col("at_cluster").alias("offset"),
        "origin",
        F.col("at_origin").alias("origin_offset"),
        F.col("before").alias("other_offset"),
    )


def _breaks() -> Column:
    return F.col("at_cluster") < F.col("before")


def faults(standing: DataFrame, certain: DataFrame, compacted_lanes: Collection[int]) -> DataFrame:
    """Find records with too many or too few copies: lane, cluster, and how often one is `doubled`, `missing`,
    `waiting`, `deleted`, `unjudged`; with its offsets `first` and `last` there, and where it came in: `origin`,
    `origin_offset`.

    `certain` has a row of `CERTAIN_FIELDS` for every two clusters. Doubled records of a compacted topic cannot be
    judged: a log cleaner may have removed the record of which one is the copy.
    """
    each = standing.where(_is_suspect()).select(
        "lane", "digest", "came_in", "came_in_early", "early", "first", "last", "early_local",
        F.posexplode("here").alias("cluster", "count"),
    ).select(
        "*",
        F.col("early")[F.col("cluster")].alias("copies"),
        F.greatest(F.col("came_in_early") - F.col("count"), F.lit(0)).alias("lacking"),
    )  # fmt: skip
    is_judged = (F.col("came_in") > 0) & ~F.col("lane").isin([*compacted_lanes])
    surplus = F.greatest(F.col("copies") - F.col("came_in"), F.lit(0))
    there = each.where(surplus > 0).select(
        "lane",
        "cluster",
        F.when(is_judged, surplus).otherwise(0).alias("doubled"),
        *(F.lit(0).cast("bigint").alias(name) for name in ("missing", "waiting", "deleted")),
        F.when(is_judged, 0).otherwise(surplus).alias("unjudged"),
        F.col("first")[F.col("cluster")].alias("first"),
        F.col("last")[F.col("cluster")].alias("last"),
        F.lit(None).cast("int").alias("origin"),
        F.lit(None).cast("bigint").alias("origin_offset"),
    )
    return there.unionByName(_find_lacking(each.where("lacking > 0"), certain))


def _is_suspect() -> Column:
    """Whether there are too many or too few of a record on some cluster."""
    return (
        (F.col("came_in") == 0)
        | F.exists("early", lambda count: count > F.col("came_in"))
        | F.exists("here", lambda count: count < F.col("came_in_early"))
    )


def _find_lacking(each: DataFrame, certain: DataFrame) -> DataFrame:
    """Count for records that a cluster lacks how many are missing there, still to come, or deleted."""
    origins = each.select(
        "lane", "digest", "cluster", "lacking", "first", "last", F.posexplode("early_local").alias("origin", "count")
    ).where((F.col("count") > 0) & (F.col("origin") != F.col("cluster")))
    judged = origins.join(F.broadcast(certain), ["lane", "origin", "cluster"]).select(
        "*", F.col("first")[F.col("origin")].alias("at_first"), F.col("last")[F.col("origin")].alias("at_last")
    )
    is_to_come = F.col("at_last") >= F.col("to_come_from")
    is_deleted = ~is_to_come & (F.col("at_first") < F.col("deleted_before"))
    counted = judged.groupBy("lane", "digest", "cluster").agg(
        F.first("lacking").alias("lacking"),
        F.sum(F.when(is_to_come, F.col("count")).otherwise(0)).alias("to_come"),
        F.sum(F.when(is_deleted, F.col("count")).otherwise(0)).alias("gone"),
        F.min(F.struct("origin", "at_first")).alias("place"),
    )
    # Of records that are alike it is unknown which one is lacking: one that may be explained is no fault.
    waiting = F.least("lacking", "to_come")
    deleted = F.least(F.col("lacking") - waiting, F.col("gone"))
    return counted.select(
        "lane",
        "cluster",
        F.lit(0).cast("bigint").alias("doubled"),
        (F.col("lacking") - waiting - deleted).alias("missing"),
        waiting.alias("waiting"),
        deleted.alias("deleted"),
        F.lit(0).cast("bigint").alias("unjudged"),
        F.lit(None).cast("bigint").alias("first"),
        F.lit(None).cast("bigint").alias("last"),
        F.col("place.origin").alias("origin"),
        F.col("place.at_first").alias("origin_offset"),
    )


def fault_totals(fault: DataFrame) -> DataFrame:
    """Sum the counts of `faults` by lane and cluster."""
    names = ("doubled", "missing", "waiting", "deleted", "unjudged")
    return fault.groupBy("lane", "cluster").agg(*(F.sum(name).alias(name) for name in names))


def wrong(fault: DataFrame) -> DataFrame:
    """Return the doubled and missing records, as findings."""
    doubled = fault.where("doubled > 0").select(
        "lane",
        "cluster",
        F.lit(TreeFaultKind.DOUBLED).alias("kind"),
        F.col("last").alias("offset"),
        F.lit(None).cast("int").alias("origin"),
        F.lit(None).cast("bigint").alias("origin_offset"),
        F.col("first").alias("other_offset"),
    )
    missing = fault.where("missing > 0").select(
        "lane",
        "cluster",
        F.lit(TreeFaultKind.MISSING).alias("kind"),
        F.lit(None).cast("bigint").alias("offset"),
        "origin",
        "origin_offset",
        F.lit(None).cast("bigint").alias("other_offset"),
    )
    return doubled.unionByName(missing)


def first_of_each(findings: DataFrame, findings_max: int) -> DataFrame:
    """Return the first findings of each kind, lane and cluster."""
    in_order = Window.partitionBy("lane", "cluster", "kind").orderBy(F.coalesce("offset", "origin_offset"))
    return (
        findings.withColumn("place", F.row_number().over(in_order))
        .where(F.col("place") <= findings_max)
        .select(*FINDING_FIELDS)
        .orderBy(*FINDING_FIELDS)
    )
