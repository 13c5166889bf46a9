"""The verification of a link: compare batches, then blocks, then records, and build the verdict."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.model.links.verdict import DiscrepancyKind, Verdict
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.compare.blocks import offsets_of
from isthmus.spark.compare.links import comparison
from isthmus.spark.compare.links.assembly import (
    FINDINGS_MAX,
    SliceFindings,
    SliceTotals,
    one_sided,
    slice_findings,
    topic_verdicts,
)
from isthmus.spark.compare.links.changes import ChangedComparison, unknown_slices
from isthmus.spark.compare.links.explanation import RECORD_PARTS, differing_fields
from isthmus.spark.compare.links.extent import ComparedRange, ComparedSlice
from isthmus.spark.compare.links.generations import NO_TRANSFORMS, LinkTransforms
from isthmus.spark.compare.links.sides import Sides
from isthmus.spark.compare.links.survey import ComparisonBounds, compacted_topics, log_starts, survey, whole_logs
from isthmus.spark.compare.tally import batch_totals, unlike_blocks
from isthmus.spark.compare.watch import OnVerified
from isthmus.spark.logs import Copying

EXPLAINED_MAX: Final = 20
"""The maximum number of findings whose records are read again to explain what differs."""
_RETENTION_ROUNDS: Final = 3

Slices = Mapping[int, ComparedSlice]
Suspects = Mapping[int, Sequence[ComparedSlice]]
"""By slice, the parts of it that may differ."""
Findings = Mapping[int, SliceFindings]


def verify(
    spark: SparkSession,
    source: Cluster,
    target: Cluster,
    topics: Mapping[SourceTopic, TargetTopic],
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    allow_lag: bool = False,
    may_lack_aborted: bool = False,
    link: str | None = None,
    copying: Copying | None = None,
    transforms: LinkTransforms = NO_TRANSFORMS,
    progress: OnVerified | None = None,
) -> Verdict:
    """Compare the logs of two clusters on Spark: every record's offset, timestamp, key, value, headers and visibility.

    Whole batches are compared by digests of their bytes; where those differ, blocks of records by digests that do not
    depend on batches; and only where those differ too, records one by one. Compared is what both logs still hold, up to
    the source's last stable offset at the start. What the target does not have by then is missing, unless `allow_lag`.
    Records that one side's log cleaner has removed already are no difference. Where a link gives records other offsets
    at the target, each is compared with the one that the link's map names, and what is in no map is not looked at.
    Records that are changed on their way are made again, by the transform that made them, if that is known.

    :param topics: Source topics and the target topics that hold their copies.
    :param since_ms: Compare from the first record with this timestamp (ms since the epoch) or a later one.
    :param until_ms: Compare up to the first record with this timestamp or a later one.
    :param may_lack_aborted: That the target lacks an aborted record is no difference; such records are counted.
    :param link: The link whose maps count, which the target's ledger has.
    :param copying: How a distributor copies: what it leaves alone, as it was distributed before, is not looked for.
    :param transforms: Those of the link, if it changes records, with all of its topics.
    :param progress: Called with what is being done, several times a second.
    :raises ClusterError: A source topic does not exist, or a cluster could not be read.
    """
    if len(set(topics.values())) < len(topics):
        raise ConfigError("two source topics have the same target topic", hint="Name each target topic once.")
    if source.alias == target.alias and source != target:
        raise ConfigError(f"both clusters have the alias {source.alias}", hint="Give each its own.")
    sides = Sides(spark, source, target, progress, may_lack_aborted=may_lack_aborted, copying=copying)
    began = time.monotonic()
    surveyed = sides.ask(survey, topics, ComparisonBounds(since_ms, until_ms, allow_lag), link, transforms)
    slices = dict(enumerate(surveyed.slices))
    unknown = unknown_slices(slices, transforms, surveyed.unknown)
    changed = ChangedComparison(sides, link, transforms)
    changed.compare({n: part for n, part in slices.items() if part.transform and n not in unknown})
    others = {n: part for n, part in slices.items() if not part.transform and n not in unknown}
    totals, found = _compare_unchanged(sides, others)
    found |= unknown | changed.findings
    totals = dict.fromkeys(slices, SliceTotals()) | totals | changed.totals
    return Verdict(
        source=source.alias,
        target=target.alias,
        topics=topic_verdicts(slices, totals, found, surveyed.extents, surveyed.problems, changed.hints),
        read_bytes=sum(one.read_bytes for one in totals.values()),
        elapsed_s=round(time.monotonic() - began, 3),
    )


def _compare_unchanged(sides: Sides, slices: Slices) -> tuple[dict[int, SliceTotals], dict[int, SliceFindings]]:
    """Compare slices whose records are to be the same on both sides."""
    totals = _compute_totals(sides, slices)
    simple = {number: one_sided(part, totals[number]) for number, part in slices.items()}
    found = {number: findings for number, findings in simple.items() if findings is not None}
    suspects = {n: part for n, part in slices.items() if n not in found and not totals[n].is_equal}
    found |= _compare_records(sides, _unlike(sides, suspects))
    return totals, found | _explain(sides, slices, found)


def _compute_totals(sides: Sides, slices: Slices) -> dict[int, SliceTotals]:
    """Compare batches as bytes: the fast path."""
    totals = dict.fromkeys(slices, SliceTotals())
    if not slices:
        return totals

    compare = partial(batch_totals, may_lack_aborted=sides.may_lack_aborted)
    found = {number: SliceTotals(*one) for number, one in sides.compare_slices("batches", compare, slices.items())}
    # Only a comparison of records tells whether aborted records are left out, or have not come yet.
    lagging = {n: one._replace(is_equal=False) for n, one in found.items() if one.left_out and slices[n].lags}
    return totals | found | lagging


def _find_target_ends(sides: Sides, parts: Iterable[tuple[int, ComparedSlice]]) -> comparison.TargetEnds | None:
    """Return the offsets up to which the target may lack aborted records, for `comparison`."""
    return {n: part.extent.target_end for n, part in parts if part.lags} if sides.may_lack_aborted else None


def _unlike(sides: Sides, suspects: Slices) -> dict[int, list[ComparedSlice]]:
    """Find the parts of slices with unlike batches whose blocks are not alike either."""
    if not suspects:
        return {}

    unlike = sides.compare_slices("blocks of records where batches differ", unlike_blocks, suspects.items())
    return {n: [suspects[n].within(*span) for span in offsets_of(blocks)] for n, blocks in unlike if blocks}


def _compare_records(sides: Sides, suspects: Suspects) -> dict[int, SliceFindings]:
    """Compare the records of parts that may differ."""
    found: dict[int, SliceFindings] = {}
    for _ in range(_RETENTION_ROUNDS):
        if not suspects:
            return {}
        starts = sides.ask(log_starts, _list_extents(suspects))
        clipped = {n: [part.from_offset(starts[part.extent]) for part in parts] for n, parts in suspects.items()}
        left = {n: [part for part in parts if not part.is_empty] for n, parts in clipped.items()}
        found = _find_differences(sides, left)
        # One log may lose its oldest records before they are read, and the other one after.
        suspects = {number: parts for number, parts in left.items() if number in found}
        now = sides.ask(log_starts, _list_extents(suspects))
        if all(now[extent] == starts[extent] for extent in now):
            break
    return found | _drop_cleaned(sides, suspects, found)


def _list_extents(suspects: Suspects) -> set[ComparedRange]:
    return {part.extent for parts in suspects.values() for part in parts}


def _find_differences(sides: Sides, suspects: Suspects) -> dict[int, SliceFindings]:
    def build() -> DataFrame:
        records = sides.read("records", comparison.RECORD_FIELDS, _number_parts(suspects))
        differing = comparison.differences(records, ends=_find_target_ends(sides, _number_parts(suspects)))
        return comparison.findings(differing, FINDINGS_MAX)

    return slice_findings(sides.rows("records where blocks differ", build))


def _number_parts(suspects: Suspects) -> list[tuple[int, ComparedSlice]]:
    return [(number, part) for number, parts in suspects.items() for part in parts]


def _drop_cleaned(sides: Sides, suspects: Suspects, found: Findings) -> dict[int, SliceFindings]:
    """Return new findings for slices of compacted topics that have records on one side only."""
    lacking = {n: parts for n, parts in suspects.items() if n in found and found[n].is_one_sided}
    if not lacking:
        return {}
    compacted = sides.ask(compacted_topics, _list_extents(lacking))
    affected = {n: parts for n, parts in lacking.items() if parts[0].extent.source_topic in compacted}
    if not affected:
        return {}
    # Keys are compared within partitions, so all slices of one partition have the number of its first slice here.
    first = {parts[0].extent: n for n, parts in reversed(affected.items())}
    logs = sides.ask(whole_logs, list(first))

    def build() -> DataFrame:
        parts = [(first[part.extent], part) for _, part in _number_parts(affected)]
        records = sides.read("records", comparison.KEYED_RECORD_FIELDS, parts)
        keys = sides.read(
            "records", comparison.KEY_FIELDS, [(first[part.extent], part) for part in logs], keeps_others=True
        )
        held = comparison.keys_held(keys)
        differing = comparison.differences_of_keys(records, held, ends=_find_target_ends(sides, parts))
        return comparison.findings(differing, FINDINGS_MAX)

    return dict.fromkeys(affected, SliceFindings()) | slice_findings(sides.rows("keys of compacted topics", build))


def _explain(sides: Sides, slices: Slices, found: Findings) -> dict[int, SliceFindings]:
    """Return the findings with the fields that differ in the first records of some of them."""
    places = [
        (number, at)
        for number, one in sorted(found.items())
        for at, finding in enumerate(one.findings)
        if finding.kind is DiscrepancyKind.DIFFERENT
    ][:EXPLAINED_MAX]
    if not places:
        return {}

    def build() -> DataFrame:
        parts = [slices[number].at_offset(found[number].findings[at].offset_begin) for number, at in places]
        return sides.read("records", RECORD_PARTS, enumerate(parts))

    fields = differing_fields(row.asDict() for row in sides.rows("what differs", build))
    named = {number: list(found[number].findings) for number, _ in places}
    for index, (number, at) in enumerate(places):
        named[number][at] = replace(named[number][at], fields=fields.get(index, ()))
    return {number: replace(found[number], findings=tuple(findings)) for number, findings in named.items()}
