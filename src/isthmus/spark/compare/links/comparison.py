"""Compare two logs as DataFrames.

Both sides are read by one scan in which every slice has two ranges: number `2n` is slice `n` at the source, `2n + 1`
the same slice at the target. Rows that are alike on both sides cancel out, and the others differ. Counting instead of
joining also finds a row that one side has twice, and costs the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isthmus.model.links.verdict import DiscrepancyKind
from isthmus.spark.compare.links.assembly import CLEANED, LEFT_OUT

RECORD_FIELDS: Final = "range INT, offset BIGINT, timestamp_ms BIGINT, is_aborted BOOLEAN, digest BINARY"
KEYED_RECORD_FIELDS: Final = f"{RECORD_FIELDS}, key_digest BINARY, is_tombstone BOOLEAN"
KEY_FIELDS: Final = "range INT, offset BIGINT, key_digest BINARY"
TargetEnds = Mapping[int, int]
"""By slice, the end of the target, if the source goes on: records behind it count as missing, not as left out."""


def together(rows: DataFrame, partitions: int) -> DataFrame:
    """Repartition rows by slice, so that counting by slice needs no other exchange."""
    return rows.repartition(partitions, _slice())


def differences(records: DataFrame, *, ends: TargetEnds | None = None) -> DataFrame:
    """Find the offsets at which the sides differ, from rows of `RECORD_FIELDS`: slice, offset, kind.

    With `ends` the target may lack aborted records: their kind is `LEFT_OUT`.
    """
    differing = _count_alike(records).where("surplus <> 0").groupBy("slice", "offset")
    kind = F.when(_is_left_out(_kind(), F.bool_and("is_aborted"), ends), LEFT_OUT).otherwise(_kind())
    return differing.agg(kind.alias("kind"))


def differences_of_keys(records: DataFrame, held: DataFrame, *, ends: TargetEnds | None = None) -> DataFrame:
    """As `differences`, from rows of `KEYED_RECORD_FIELDS` of compacted topics; `held` is the result of `keys_held`.

    The log cleaners of both sides run at different times, so a record that one side lacks may be obsolete: its kind is
    `CLEANED` when that side has a later record of the same key, when it deletes a key of which that side has nothing
    before it, or when it belongs to an aborted transaction. A cleaner never puts two records at one offset.
    """
    one_sided = F.when(F.col("count") == 1, F.when(F.col("kind") == DiscrepancyKind.MISSING, -1).otherwise(1))
    differing = (
        _count_alike(records, "key_digest", "is_tombstone")
        .groupBy("slice", "offset")
        .agg(
            F.bool_or(F.col("surplus") != 0).alias("differs"),
            _kind().alias("kind"),
            F.sum("count").alias("count"),
            F.any_value("key_digest").alias("key_digest"),
            F.bool_and("is_tombstone").alias("is_tombstone"),
            F.bool_and("is_aborted").alias("is_aborted"),
        )
        .where("differs")
        # The side that lacks the record.
        .withColumn("side", one_sided)
    )
    joined = differing.join(held, ["slice", "side", "key_digest"], "left")
    is_obsolete = F.col("is_aborted") | F.coalesce(F.col("last") > F.col("offset"), F.lit(False)) | _deletes_nothing()
    kind = F.when(F.col("side").isNotNull() & is_obsolete, CLEANED).otherwise(F.col("kind"))
    # This kind takes precedence over CLEANED.
    kind = F.when(_is_left_out(F.col("kind"), F.col("is_aborted"), ends), LEFT_OUT).otherwise(kind)
    return joined.select("slice", "offset", kind.alias("kind"))


def keys_held(records: DataFrame) -> DataFrame:
    """Find the first and last offset of each key in the whole logs, from rows of `KEY_FIELDS`: slice, side, key_digest,
    first, last.

    Slices here are whole partitions, numbered as `differences_of_keys` is to see them.
    """
    return records.groupBy(_slice().alias("slice"), _side().alias("side"), "key_digest").agg(
        F.min("offset").alias("first"), F.max("offset").alias("last")
    )


def missing_of_keys(missing: DataFrame, held: DataFrame, partitions: Mapping[int, int]) -> DataFrame:
    """Judge records that the target lacks, as `differences_of_keys` does: slice, offset, kind, from rows with slice,
    offset, key_digest and is_tombstone. `held` is the result of `keys_held`, whose slices are `partitions`, by slice.
    """
    numbers = F.create_map(*(F.lit(each) for pair in partitions.items() for each in pair))
    lacking = missing.withColumn("partition", F.try_element_at(numbers, F.col("slice")))
    at_target = held.where("side = -1").select(F.col("slice").alias("partition"), "key_digest", "first", "last")
    joined = lacking.join(at_target, ["partition", "key_digest"], "left")
    is_obsolete = F.coalesce(F.col("last") > F.col("offset"), F.lit(False)) | _deletes_nothing()
    kind = F.when(is_obsolete, CLEANED).otherwise(DiscrepancyKind.MISSING)
    return joined.select("slice", "offset", kind.alias("kind"))


def _deletes_nothing() -> Column:
    """Whether a record deletes a key of which the side that lacks it has nothing before it."""
    return F.col("is_tombstone") & (F.col("first").isNull() | (F.col("first") > F.col("offset")))


def findings(differing: DataFrame, findings_max: int) -> DataFrame:
    """Join differing offsets to runs: slice, kind, offset_begin, offset_end, total.

    Of each kind the first `findings_max` runs of a slice are kept; `total` counts the offsets of all of them.
    """
    by_offset = Window.partitionBy("slice", "kind").orderBy("offset")
    run = F.col("offset") - F.row_number().over(by_offset)
    runs = (
        differing.withColumn("run", run)
        .groupBy("slice", "kind", "run")
        .agg(F.min("offset").alias("offset_begin"), (F.max("offset") + 1).alias("offset_end"))
    )
    by_run = Window.partitionBy("slice", "kind").orderBy("run")
    total = F.sum(F.col("offset_end") - F.col("offset_begin")).over(Window.partitionBy("slice", "kind"))
    return (
        runs.withColumn("total", total)
        .withColumn("place", F.row_number().over(by_run))
        .where(F.col("place") <= findings_max)
        .select("slice", "kind", "offset_begin", "offset_end", "total")
    )


def _slice() -> Column:
    return F.expr("range div 2").cast("int")


def _side() -> Column:
    """1 for rows of the source, -1 for rows of the target."""
    return F.expr("1 - 2 * (range % 2)")


def _count_alike(records: DataFrame, *more: str) -> DataFrame:
    """Group records that are equal in everything: their count, and the surplus of the source over the target."""
    alike = records.groupBy(_slice().alias("slice"), "offset", "timestamp_ms", "is_aborted", "digest", *more)
    return alike.agg(F.sum(_side()).alias("surplus"), F.count("*").alias("count"))


def _is_left_out(kind: Column, is_aborted: Column, ends: TargetEnds | None) -> Column:
    if ends is None:
        return F.lit(False)
    is_left_out = is_aborted & (kind == DiscrepancyKind.MISSING)
    if not ends:
        return is_left_out
    end = F.try_element_at(F.create_map(*(F.lit(each) for pair in ends.items() for each in pair)), F.col("slice"))
    return is_left_out & (end.isNull() | (F.col("offset") < end))


def _kind() -> Column:
    more_at_source = F.bool_or(F.col("surplus") > 0)
    more_at_target = F.bool_or(F.col("surplus") < 0)
    return (
        F.when(more_at_source & more_at_target, DiscrepancyKind.DIFFERENT)
        .when(more_at_source, DiscrepancyKind.MISSING)
        .otherwise(DiscrepancyKind.EXTRA)
    )
