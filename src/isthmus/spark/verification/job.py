"""The verification itself: what is read when, and what becomes of it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession

from isthmus.cluster.slices import SLICE_BYTES
from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.spark.datasource import NumberedRange, grouped, ranges_option, register
from isthmus.spark.verification import comparison, explanation
from isthmus.spark.verification.assembly import (
    FINDINGS_MAX,
    SliceFindings,
    SliceTotals,
    one_sided,
    slice_findings,
    topic_verdicts,
)
from isthmus.spark.verification.extent import ComparedSlice
from isthmus.spark.verification.failure import our_errors
from isthmus.spark.verification.survey import (
    Bounds,
    compacted_topics,
    log_starts,
    survey,
    whole_logs,
)
from isthmus.spark.verification.verdict import Kind, Verdict
from isthmus.spark.verification.watch import Progress, watched
from isthmus.wire.client import Client

EXPLAINED_MAX: Final = 20
"""For how many findings it is read again what differs."""
_RETENTION_ROUNDS: Final = 3
_GROUP_BYTES_MIN: Final = 1 << 20
_PARTS_PER_SLOT: Final = 2

ResultT = TypeVar("ResultT")


def verify(
    spark: SparkSession,
    source: Cluster,
    target: Cluster,
    topics: Mapping[str, str],
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    allow_lag: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """Compare the logs of two clusters on Spark: every record's offset, timestamp, key, value, headers and visibility.

    Whole batches are compared by digests of their bytes; only where those differ are records decoded. Compared is what
    both logs still hold, up to the source's last stable offset at the start. What the target does not have by then is
    missing, unless `allow_lag`. Records that one side's log cleaner has removed already are no difference.

    :param topics: Source topics and the target topics that hold their copies.
    :param since_ms: Compare from the first record with this timestamp (ms since the epoch) or a later one.
    :param until_ms: Compare up to the first record with this timestamp or a later one.
    :param progress: Told what is being done; called from a thread of its own.
    :raises ClusterError: A source topic does not exist, or a cluster could not be read.
    """
    if len(set(topics.values())) < len(topics):
        raise ConfigError("two source topics have the same target topic", hint="Name each target topic once.")
    if source.alias == target.alias and source != target:
        raise ConfigError(f"both clusters have the alias {source.alias}", hint="Give each its own.")
    verification = _Verification(spark, source, target, topics, progress)
    return verification.run(Bounds(since_ms, until_ms, allow_lag))


class _Verification:
    def __init__(
        self,
        spark: SparkSession,
        source: Cluster,
        target: Cluster,
        topics: Mapping[str, str],
        progress: Progress | None,
    ) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._topics = topics
        self._progress = progress
        # The format stays registered; a name of its own keeps it from what else the session reads.
        self._format = f"isthmus_verification_{secrets.token_hex(4)}"
        register(spark, [source, target], name=self._format)

    def run(self, bounds: Bounds) -> Verdict:
        began = time.monotonic()
        surveyed = self._ask(survey, self._topics, bounds)
        slices = dict(enumerate(surveyed.slices))
        totals = self._totals(slices)
        found: dict[int, SliceFindings] = {}
        suspects: dict[int, ComparedSlice] = {}
        for number, part in slices.items():
            told = totals[number]
            alone = one_sided(part, told)
            if alone is not None:
                found[number] = alone
            elif not told.is_equal:
                suspects[number] = part
        found |= self._compared(suspects)
        found |= self._explained(slices, found)
        return Verdict(
            source=self._source.alias,
            target=self._target.alias,
            topics=topic_verdicts(slices, totals, found, surveyed.extents, surveyed.problems),
            read_bytes=sum(told.read_bytes for told in totals.values()),
            elapsed_s=round(time.monotonic() - began, 3),
        )

    def _totals(self, slices: Mapping[int, ComparedSlice]) -> dict[int, SliceTotals]:
        """The fast path: batches as bytes."""
        totals = dict.fromkeys(slices, SliceTotals())
        if not slices:
            return totals
        batches = self._read("batches", comparison.BATCH_FIELDS, self._numbered(slices.items()))
        rows = self._collect(comparison.slice_totals(batches), "batches")
        return totals | {row.slice: SliceTotals(*row[1:]) for row in rows}

    def _compared(self, suspects: Mapping[int, ComparedSlice]) -> dict[int, SliceFindings]:
        """The records of slices whose batches are not alike on both sides."""
        found: dict[int, SliceFindings] = {}
        for _ in range(_RETENTION_ROUNDS):
            if not suspects:
                return {}
            starts = self._ask(log_starts, {part.extent for part in suspects.values()})
            suspects = {
                number: clipped
                for number, part in suspects.items()
                if not (clipped := part.from_offset(starts[part.extent])).is_empty
            }
            found = self._differences(suspects)
            # One log may lose its oldest records before they are read, and the other one after.
            suspects = {number: part for number, part in suspects.items() if number in found}
            now = self._ask(log_starts, {part.extent for part in suspects.values()})
            if all(now[extent] == starts[extent] for extent in now):
                break
        return found | self._without_cleaned(suspects, found)

    def _differences(self, suspects: Mapping[int, ComparedSlice]) -> dict[int, SliceFindings]:
        records = self._read("records", comparison.RECORD_FIELDS, self._numbered(suspects.items()))
        differing = comparison.findings(comparison.differences(records), FINDINGS_MAX)
        return slice_findings(self._collect(differing, "records where batches differ"))

    def _without_cleaned(
        self, suspects: Mapping[int, ComparedSlice], found: Mapping[int, SliceFindings]
    ) -> dict[int, SliceFindings]:
        """New findings for slices of compacted topics that have records on one side only."""
        one_sided = {n: part for n, part in suspects.items() if n in found and found[n].is_one_sided}
        if not one_sided:
            return {}
        compacted = self._ask(compacted_topics, {part.extent for part in one_sided.values()})
        affected = {n: part for n, part in one_sided.items() if part.extent.source_topic in compacted}
        if not affected:
            return {}
        # Keys are compared over partitions, so all slices of one have the same number here.
        extents = list(dict.fromkeys(part.extent for part in affected.values()))
        places = {extent: number for number, extent in enumerate(extents)}
        parts = [(places[part.extent], part) for part in affected.values()]
        records = self._read("records", comparison.KEYED_RECORD_FIELDS, self._numbered(parts))
        logs = self._ask(whole_logs, extents)
        keys = self._read("records", comparison.KEY_FIELDS, self._numbered(logs))
        differing = comparison.differences_of_keys(records, comparison.keys_held(keys))
        rows = self._collect(comparison.findings(differing, FINDINGS_MAX), "keys of compacted topics")
        of_extent = slice_findings(rows)
        first = {part.extent: n for n, part in reversed(affected.items())}
        return {
            n: of_extent.get(places[part.extent], SliceFindings()) if first[part.extent] == n else SliceFindings()
            for n, part in affected.items()
        }

    def _explained(
        self, slices: Mapping[int, ComparedSlice], found: Mapping[int, SliceFindings]
    ) -> dict[int, SliceFindings]:
        """The findings with what differs in the first records of some."""
        places = [
            (number, at)
            for number, one in sorted(found.items())
            for at, finding in enumerate(one.findings)
            if finding.kind is Kind.DIFFERENT
        ][:EXPLAINED_MAX]
        if not places:
            return {}
        parts = [slices[number].at_offset(found[number].findings[at].offset_begin) for number, at in places]
        records = self._read("records", explanation.RECORD_PARTS, self._numbered(enumerate(parts)))
        fields = explanation.differing_fields(row.asDict() for row in self._collect(records, "what differs"))
        told = {number: list(found[number].findings) for number, _ in places}
        for index, (number, at) in enumerate(places):
            told[number][at] = replace(told[number][at], fields=fields.get(index, ()))
        return {number: replace(found[number], findings=tuple(findings)) for number, findings in told.items()}

    def _numbered(self, parts: Iterable[tuple[int, ComparedSlice]]) -> Iterator[tuple[NumberedRange, int]]:
        """The ranges of both sides, numbered as `comparison` has it, with their sizes."""
        for number, part in parts:
            for side, (alias, span) in enumerate(
                ((self._source.alias, part.source), (self._target.alias, part.target))
            ):
                if not span.is_empty:
                    yield (2 * number + side, alias, span), part.size_bytes

    def _read(self, mode: str, fields: str, ranges: Iterable[tuple[NumberedRange, int]]) -> DataFrame:
        sized = list(ranges)
        share = sum(size_bytes for _, size_bytes in sized) // (
            self._spark.sparkContext.defaultParallelism * _PARTS_PER_SLOT
        )
        groups = list(grouped(sized, group_bytes=max(_GROUP_BYTES_MIN, min(share, SLICE_BYTES))))
        reader = self._spark.read.format(self._format).schema(fields)
        rows = reader.options(mode=mode, ranges=ranges_option(groups)).load()
        # What is read in so many parts is compared in as many.
        return comparison.together(rows, max(len(groups), 1))

    def _collect(self, rows: DataFrame, what: str) -> list[Row]:
        description = f"verify {self._source.alias} to {self._target.alias}: {what}"
        with our_errors(), watched(self._spark, description, self._progress):
            return rows.collect()

    def _ask(self, question: Callable[..., Coroutine[Any, Any, ResultT]], *given: Any) -> ResultT:
        async def ask() -> ResultT:
            async with Client(self._source) as source, Client(self._target) as target:
                return await question(source, target, *given)

        return _settled(ask())


def _settled(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine, also where an event loop runs already, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()
