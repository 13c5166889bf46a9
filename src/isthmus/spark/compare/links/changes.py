"""The comparison of records that were changed on their way: Spark's tasks make them again, and compare."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame

from isthmus.errors import IsthmusError
from isthmus.kafka.client import Client
from isthmus.model.links.transform import OnError, Transform, TransformWay, unsteady_names
from isthmus.model.links.verdict import DiscrepancyKind
from isthmus.model.naming import SourceTopic
from isthmus.registry.lookup import SchemaBook, describe_registry, registry_of
from isthmus.spark.compare.links import comparison
from isthmus.spark.compare.links.assembly import (
    CLEANED,
    FINDINGS_MAX,
    SliceFindings,
    SliceTotals,
    slice_findings,
)
from isthmus.spark.compare.links.changed import ChangedFindings, ChangedSlice, unknown
from isthmus.spark.compare.links.extent import ComparedRange, ComparedSlice
from isthmus.spark.compare.links.generations import LinkTransforms
from isthmus.spark.compare.links.letters import NO_LETTERS, SourceLetters, read_letters
from isthmus.spark.compare.links.remaking import (
    CARRIED,
    CheckRows,
    check_by_functions,
    check_results,
    feed_ddl,
    feed_slices,
    read_findings,
)
from isthmus.spark.compare.links.sides import Sides
from isthmus.spark.compare.links.survey import compacted_topics, log_starts, source_compacted, whole_logs
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.transforms.expressions import Compiled, compile_sound, expression_session, project
from isthmus.spark.transforms.resolving import Subjects, all_subjects
from isthmus.spark.transforms.schemawatch import prepare_columns
from isthmus.spark.transforms.workers import function_workers

_RETENTION_ROUNDS: Final = 3
_FINDINGS: Final = CheckRows(lists_missing=False)
_MISSING: Final = CheckRows(lists_missing=True)
Slices = Mapping[int, ComparedSlice]


class ChangedComparison:
    """Compares slices whose records were changed by transforms of a link that are known.

    `totals` and `findings` are the results by slice, and `hints` say by topic what may be behind its findings.
    """

    def __init__(self, sides: Sides, link: str | None, transforms: LinkTransforms) -> None:
        self.totals: dict[int, SliceTotals] = {}
        self.findings: dict[int, SliceFindings] = {}
        self.hints: dict[SourceTopic, str] = {}
        self._sides = sides.in_session(lambda spark: expression_session(spark, in_bulk=True))
        self._link = link
        self._transforms, self._all = transforms.known, transforms
        self._compacted: Collection[str] = ()
        self._letters: Mapping[ComparedRange, SourceLetters] = {}
        self._lacking: dict[int, bytes] = {}
        self._compiled: Compiled | None = None

    def compare(self, slices: Slices) -> None:
        """Compare slices.

        :raises ClusterError: A cluster could not be read.
        """
        if not slices:
            return
        self._compacted = self._sides.ask(source_compacted, _list_extents(slices))
        lettered = {n: part for n, part in slices.items() if self._policy(part) is OnError.DEAD_LETTER}
        # After the survey: what lanes had passed by then is a letter by now, or none.
        self._letters = self._sides.ask(read_letters, self._link, _list_extents(lettered)) if lettered else {}
        found: dict[int, ChangedFindings] = {}
        left = slices
        for _ in range(_RETENTION_ROUNDS):
            starts = self._sides.ask(log_starts, _list_extents(left))
            clipped = {number: part.from_offset(starts[part.extent]) for number, part in left.items()}
            there = {number: part for number, part in clipped.items() if not part.is_empty}
            found |= dict.fromkeys(left, ChangedFindings()) | self._check(there)
            # One log may lose its oldest records before they are read, and the other one after.
            left = {number: part for number, part in there.items() if found[number].totals}
            now = self._sides.ask(log_starts, _list_extents(left)) if left else {}
            if all(now[extent] == starts[extent] for extent in now):
                break
        self.totals = {number: _totals(one) for number, one in found.items()}
        self.findings = {number: _findings(one) for number, one in found.items()}
        self._lacking = {number: one.lacking for number, one in found.items()}
        self.findings |= self._drop_cleaned(left)
        self.hints = dict(self._find_hints(slices, found))

    def _check(self, slices: Slices) -> dict[int, ChangedFindings]:
        """Make records again, and compare: by functions and by expressions."""
        found: dict[int, ChangedFindings] = {}
        for way in TransformWay:
            parts = {n: part for n, part in slices.items() if self._transforms[part.transform].way is way}
            rows = (
                self._sides.rows(f"records changed by {way}", partial(self._build, parts, _FINDINGS)) if parts else []
            )
            found |= read_findings((row[0], row[1]) for row in rows)
        for number in slices.keys() - found.keys():
            refused = {each.transform.digest: why for each, why in (self._compiled.refused if self._compiled else ())}
            reason = f"the transform cannot be applied: {refused.get(slices[number].transform, 'nothing came of it')}"
            found[number] = unknown(slices[number].source, reason)
        return found

    def _build(self, parts: Slices, results: CheckRows) -> DataFrame:
        """Return the rows of `results` for slices whose transforms work in one way."""
        way = self._transforms[next(iter(parts.values())).transform].way
        if way is TransformWay.SQL:
            return self._build_by_expressions(parts, results)
        used = {part.transform: self._transforms[part.transform] for part in parts.values()}
        with function_workers(self._sides.spark.sparkContext, used.values()):
            work = partial(check_by_functions, self._sides.clusters, used, results)
            return self._slices(parts, results).mapInArrow(work, results.ddl)

    def _build_by_expressions(self, parts: Slices, results: CheckRows) -> DataFrame:
        spark, clusters = self._sides.spark, self._sides.clusters
        topics: dict[str, set[SourceTopic]] = {}
        for part in parts.values():
            topics.setdefault(part.transform, set()).add(part.extent.source_topic)
        # Types are those of all topics that have a transform, as they are in a run.
        prepared = [
            self._prepare(self._transforms[digest], sorted(found | self._all.find_topics(digest)))
            for digest, found in topics.items()
        ]
        compiled = self._compiled = compile_sound(spark, prepared)
        sound = {each.digest for each in compiled.transforms}
        fed = self._slices({n: part for n, part in parts.items() if part.transform in sound}, results)
        rows = fed.mapInArrow(partial(feed_slices, clusters, compiled), feed_ddl(compiled))
        made = project(spark, rows, compiled, CARRIED)
        return made.mapInArrow(partial(check_results, clusters, compiled, results), results.ddl)

    def _prepare(self, transform: Transform, topics: Sequence[SourceTopic]) -> Prepared:
        """Prepare a transform to be applied again. Schemas that do not go with the others are set aside: their records
        are unknown.
        """
        if not transform.has_schemas:
            return Prepared(transform)
        try:
            subjects, registry = self._sides.ask(_find_subjects, all_subjects(transform, topics))
            return prepare_columns(
                self._sides.spark.sparkContext, transform, frozenset(topics), subjects, registry, frozenset()
            )
        except IsthmusError as error:
            return Prepared(transform, problem=f"{error.message} {error.hint}".strip())

    def _slices(self, parts: Slices, results: CheckRows) -> DataFrame:
        """Return rows of one column, one for each task, with its slices."""
        sides = self._sides
        sized = [(self._build_slice(number, part, results), 2 * part.size_bytes) for number, part in parts.items()]
        groups = [(pickle.dumps(group),) for group in sides.group(sized)]
        # Each task gets its own alone: maps may be long.
        rows = sides.spark.sparkContext.parallelize(groups, max(len(groups), 1))
        return sides.spark.createDataFrame(rows, "slices BINARY", verifySchema=False)

    def _policy(self, part: ComparedSlice) -> OnError:
        return self._transforms[part.transform].on_error

    def _build_slice(self, number: int, part: ComparedSlice, results: CheckRows) -> ChangedSlice:
        is_lettered = self._policy(part) is OnError.DEAD_LETTER
        letters = self._letters[part.extent] if is_lettered else NO_LETTERS
        return ChangedSlice(
            number=number,
            transform=part.transform,
            on_error=self._policy(part),
            source_alias=self._sides.source.alias,
            source=part.source,
            target_alias=self._sides.target.alias,
            target=part.target,
            ranges=part.ranges or (),
            copied_to=part.extent.target_end,
            compacted=part.extent.source_topic in self._compacted,
            letters=letters.within(part.source),
            unread=letters.unread,
            lacking=self._lacking[number] if results.lists_missing else b"",
        )

    def _drop_cleaned(self, suspects: Slices) -> dict[int, SliceFindings]:
        """Return new findings for slices of compacted topics in which records are missing: the target may have deleted
        them because of later ones. Their keys prove that, for which they are made again. What cannot be made again
        stays missing.
        """
        copied = {n: p for n, p in suspects.items() if p.extent.lane is not None and p.extent.lane.offsets.ranges}
        lacking = {n: p for n, p in copied.items() if self.findings[n].records.get(DiscrepancyKind.MISSING)}
        topics = self._sides.ask(compacted_topics, _list_extents(lacking)) if lacking else set()
        affected = {n: part for n, part in lacking.items() if part.extent.source_topic in topics}
        if not affected:
            return {}
        # Keys are compared within partitions, which have the number of their first slice.
        first = {part.extent: n for n, part in reversed(affected.items())}
        partitions = {n: first[part.extent] for n, part in affected.items()}
        logs = [part for part in self._sides.ask(whole_logs, list(first)) if not part.target.is_empty]

        def build() -> DataFrame:
            frames = [
                self._build(parts, _MISSING)
                for way in TransformWay
                if (parts := {n: p for n, p in affected.items() if self._transforms[p.transform].way is way})
            ]
            missing = reduce(DataFrame.unionByName, frames)
            keys = self._sides.read(
                "records", comparison.KEY_FIELDS, [(first[part.extent], part) for part in logs], keeps_others=True
            )
            kinds = comparison.missing_of_keys(missing, comparison.keys_held(keys), partitions)
            return comparison.findings(kinds, FINDINGS_MAX)

        again = slice_findings(self._sides.rows("keys of compacted topics", build))
        return {number: _merge(self.findings[number], again[number]) for number in affected if number in again}

    def _find_hints(self, slices: Slices, found: Mapping[int, ChangedFindings]) -> Iterator[tuple[SourceTopic, str]]:
        """Yield, for topics with findings, whether their transform may make other records each time. What is proven
        comes last, and so stands.
        """
        with_findings = [
            n for n in sorted(found) if any(self.findings[n].records.get(kind) for kind in DiscrepancyKind)
        ]
        for number in sorted(with_findings, key=lambda n: found[n].unsteady_at >= 0):
            part, at = slices[number], found[number].unsteady_at
            hint = _hint(self._transforms[part.transform], f"{part.source.topic}-{part.source.partition}", at)
            if hint:
                yield part.extent.source_topic, hint


async def _find_subjects(source: Client, _: Client, subjects: Collection[str]) -> tuple[Subjects, str]:
    """Return the schemas of subjects, and what the source's registry is called.

    :raises IsthmusError: There is no registry, or it does not answer.
    """
    registry = registry_of(source.cluster)
    async with SchemaBook(registry) as book:
        return await book.find_subjects(subjects), describe_registry(registry)


def _hint(transform: Transform, partition: str, unsteady_at: int) -> str:
    names = unsteady_names(transform)
    if unsteady_at >= 0:
        return (
            f"{transform.python} is not deterministic: called again, it made another record of offset {unsteady_at} of "
            f"{partition}; what it made before cannot be compared"
        )
    if names:
        return f"the transform is not deterministic ({', '.join(names)}): what it made before cannot be compared"
    if transform.python is not None:
        return (
            f"if {transform.python} is not deterministic (it reads the time, chance or a service), or was changed "
            "without its version, these may be no faults"
        )
    if transform.has_schemas:
        return (
            "if a later version of a schema has another type for a field that expressions read, or other fields where "
            "they read all, earlier copies were made otherwise: then these are no faults"
        )
    return ""


def _totals(found: ChangedFindings) -> SliceTotals:
    return SliceTotals(
        source_records=found.records,
        source_bytes=found.size_bytes,
        read_bytes=found.read_bytes,
        left_out=found.aborted,
        filtered=found.filtered,
        skipped=found.skipped,
    )


def _findings(found: ChangedFindings) -> SliceFindings:
    counts = {str(kind): count for kind, count in found.totals.items()}
    return SliceFindings(found.findings, counts | {CLEANED: found.cleaned}, found.not_compared, found.uncompared)


def _merge(before: SliceFindings, again: SliceFindings) -> SliceFindings:
    """Replace what was said of missing records by what their keys prove; `again` is of the same records."""
    others = tuple(each for each in before.findings if each.kind is not DiscrepancyKind.MISSING)
    cleaned = again.records.get(CLEANED, 0)
    missing = before.records.get(DiscrepancyKind.MISSING, 0) - cleaned
    counts = {**before.records, DiscrepancyKind.MISSING: missing, CLEANED: before.records.get(CLEANED, 0) + cleaned}
    return replace(before, findings=(*others, *again.findings), records=counts)


def _list_extents(slices: Slices) -> set[ComparedRange]:
    return {part.extent for part in slices.values()}


def unknown_slices(
    slices: Slices, transforms: LinkTransforms, topics: Mapping[SourceTopic, str]
) -> dict[int, SliceFindings]:
    """Return the results for slices that cannot be compared: nobody can say what should have become of their records.
    `topics` are those of which nothing is known, each with the reason.
    """
    found: dict[int, SliceFindings] = {}
    for number, part in slices.items():
        reason = topics.get(part.extent.source_topic, "") or transforms.why_unknown(part)
        if reason:
            found[number] = _findings(unknown(part.source, reason))
    return found
