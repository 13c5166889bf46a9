"""Assemble a verdict from the findings in slices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from isthmus.model.links.verdict import (
    Discrepancy,
    DiscrepancyKind,
    NotCompared,
    PartitionVerdict,
    TopicVerdict,
)
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.spark.compare.links.extent import ComparedRange, ComparedSlice

CLEANED: Final = "cleaned"
"""The kind of a record that only one side has because the other side's log cleaner has removed it."""
LEFT_OUT: Final = "left out"
"""The kind of an aborted record that the target may lack, and does."""
FINDINGS_MAX: Final = 10
"""The maximum number of findings of each kind that a partition's verdict names."""


class SliceTotals(NamedTuple):
    """The totals from reading the batches of a slice. `left_out` counts only if `is_equal`; else records decide. What a
    transform leaves out is `filtered`, or `skipped`.
    """

    source_records: int = 0
    target_records: int = 0
    source_bytes: int = 0
    read_bytes: int = 0
    is_equal: bool = True
    left_out: int = 0
    filtered: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class SliceFindings:
    """The result of comparing the records of a slice: the first findings of each kind, and its number of records; and
    how many offsets could not be compared, with the first of them.
    """

    findings: tuple[Discrepancy, ...] = ()
    records: Mapping[str, int] = field(default_factory=dict)
    not_compared: int = 0
    uncompared: tuple[NotCompared, ...] = ()

    @property
    def is_one_sided(self) -> bool:
        """Whether there are records that only one side has."""
        return bool(self.records.get(DiscrepancyKind.MISSING) or self.records.get(DiscrepancyKind.EXTRA))


def one_sided(part: ComparedSlice, totals: SliceTotals) -> SliceFindings | None:
    """Return the findings of a slice that is read on one side only, without a comparison; else `None`."""
    if part.source.is_empty == part.target.is_empty:
        return None
    kind, span, records = (
        (DiscrepancyKind.EXTRA, part.seen, totals.target_records)
        if part.source.is_empty
        else (DiscrepancyKind.MISSING, part.source, totals.source_records)
    )
    if not records:
        return SliceFindings()
    finding = Discrepancy(kind=kind, offset_begin=span.offset_begin, offset_end=span.offset_end, records=records)
    return SliceFindings((finding,), {kind: records})


def slice_findings(rows: Iterable[Sequence[Any]]) -> dict[int, SliceFindings]:
    """Group the rows of `comparison.findings` (slice, kind, offset_begin, offset_end, total) by slice."""
    found: dict[int, SliceFindings] = {}
    for number, kind, begin, end, total in sorted(rows, key=lambda row: (row[0], row[1], row[2])):
        one = found.get(number, SliceFindings())
        findings = one.findings
        if kind not in (CLEANED, LEFT_OUT):
            findings += (
                Discrepancy(kind=DiscrepancyKind(kind), offset_begin=begin, offset_end=end, records=end - begin),
            )
        found[number] = SliceFindings(findings, {**one.records, kind: total})
    return found


def topic_verdicts(
    slices: Mapping[int, ComparedSlice],
    totals: Mapping[int, SliceTotals],
    found: Mapping[int, SliceFindings],
    extents: Sequence[ComparedRange],
    problems: Mapping[str, str],
    hints: Mapping[SourceTopic, str] = MappingProxyType({}),
) -> tuple[TopicVerdict, ...]:
    """Build the verdicts of all topics, from totals and findings by the numbers of slices."""
    mapped = {extent.source_topic for extent in extents if extent.lane is not None}
    of_extent: dict[ComparedRange, list[int]] = {extent: [] for extent in extents}
    for number, part in slices.items():
        of_extent[part.extent].append(number)
    topics: dict[tuple[SourceTopic, TargetTopic], list[PartitionVerdict]] = {}
    for extent, numbers in of_extent.items():
        verdict = _build_partition(
            extent,
            [totals[number] for number in numbers],
            [found[number] for number in numbers if number in found],
        )
        topics.setdefault((extent.source_topic, extent.target_topic), []).append(verdict)
    return tuple(
        TopicVerdict(
            source_topic=source,
            target_topic=target,
            partitions=tuple(partitions),
            problem=problems.get(source, ""),
            offsets=OffsetPolicy.MAPPED if source in mapped else OffsetPolicy.SAME,
            hint=hints.get(source, ""),
        )
        for (source, target), partitions in topics.items()
    )


def _build_partition(
    extent: ComparedRange, totals: Sequence[SliceTotals], found: Sequence[SliceFindings]
) -> PartitionVerdict:
    findings = [finding for one in found for finding in one.findings]
    return PartitionVerdict(
        partition=extent.partition,
        offset_begin=extent.offset_begin,
        offset_end=extent.offset_end,
        records=sum(one.source_records for one in totals),
        size_bytes=sum(one.source_bytes for one in totals),
        missing=_count(found, DiscrepancyKind.MISSING),
        extra=_count(found, DiscrepancyKind.EXTRA),
        different=_count(found, DiscrepancyKind.DIFFERENT),
        cleaned=_count(found, CLEANED),
        left_out=_count(found, LEFT_OUT)
        + sum(one.left_out for one in totals if one.is_equal or extent.lane is not None),
        lag=extent.lag,
        foreign=extent.foreign,
        waiting=extent.waiting,
        findings=tuple(
            _add_target_offset(extent, finding)
            for kind in DiscrepancyKind
            for finding in _first_of_kind(kind, findings)
        ),
        filtered=sum(one.filtered for one in totals),
        skipped=sum(one.skipped for one in totals),
        not_compared=sum(one.not_compared for one in found),
        uncompared=tuple(_join_alike(each for one in found for each in one.uncompared))[:FINDINGS_MAX],
    )


def _join_alike(uncompared: Iterable[NotCompared]) -> Iterator[NotCompared]:
    """Join adjacent offsets that could not be compared for one reason: the borders of slices are arbitrary."""
    last: NotCompared | None = None
    for each in sorted(uncompared, key=lambda one: one.offset_begin):
        if last is not None and (last.offset_end, last.reason) == (each.offset_begin, each.reason):
            last = replace(last, offset_end=each.offset_end)
        else:
            if last is not None:
                yield last
            last = each
    if last is not None:
        yield last


def _add_target_offset(extent: ComparedRange, finding: Discrepancy) -> Discrepancy:
    """Add the target's offset of the first record to a finding, if that offset is mapped and known."""
    ranges = extent.ranges(finding.offset_begin, finding.offset_begin + 1)
    return replace(finding, target_offset=ranges[0].target_begin) if ranges else finding


def _count(found: Iterable[SliceFindings], kind: str) -> int:
    return sum(one.records.get(kind, 0) for one in found)


def _first_of_kind(kind: DiscrepancyKind, findings: Iterable[Discrepancy]) -> list[Discrepancy]:
    of_kind = sorted((one for one in findings if one.kind is kind), key=lambda one: one.offset_begin)
    return list(_join_touching(of_kind))[:FINDINGS_MAX]


def _join_touching(findings: Iterable[Discrepancy]) -> Iterator[Discrepancy]:
    """Join adjacent findings of one kind, given in order: the borders of slices are arbitrary."""
    last: Discrepancy | None = None
    for finding in findings:
        if last is not None and last.offset_end == finding.offset_begin:
            last = replace(last, offset_end=finding.offset_end, records=last.records + finding.records)
        else:
            if last is not None:
                yield last
            last = finding
    if last is not None:
        yield last
