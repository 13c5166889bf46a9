"""From findings in slices to verdicts."""

from __future__ import annotations

import json

from isthmus.kafka.log.reading import OffsetRange
from isthmus.model.kafka.log import LogRange
from isthmus.model.links.verdict import Discrepancy, DiscrepancyKind, PartitionVerdict, Verdict
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.text.plain import plain
from isthmus.spark.compare.links.assembly import (
    CLEANED,
    FINDINGS_MAX,
    SliceFindings,
    SliceTotals,
    one_sided,
    slice_findings,
    topic_verdicts,
)
from isthmus.spark.compare.links.extent import ComparedRange, ComparedSlice, extent_of


def extent(partition: int = 0, source_end: int = 100, target_end: int = 100) -> ComparedRange:
    return extent_of(
        (SourceTopic("orders"), TargetTopic("copy"), partition),
        LogRange(0, source_end, source_end),
        LogRange(0, target_end, target_end),
    )


def part_of(whole: ComparedRange, source: tuple[int, int], target: tuple[int, int]) -> ComparedSlice:
    return ComparedSlice(
        whole, OffsetRange("orders", whole.partition, *source), OffsetRange("copy", whole.partition, *target), 0
    )


def finding(kind: DiscrepancyKind, begin: int, end: int) -> Discrepancy:
    return Discrepancy(kind=kind, offset_begin=begin, offset_end=end, records=end - begin)


def verdict_of(whole: ComparedRange, *found: SliceFindings) -> PartitionVerdict:
    slices = {number: part_of(whole, (0, 10), (0, 10)) for number in range(len(found))}
    totals = {number: SliceTotals(10, 10, 100, 200, False) for number in slices}
    (topic,) = topic_verdicts(slices, totals, dict(enumerate(found)), [whole], {})
    return topic.partitions[0]


def test_findings_that_touch_are_one() -> None:
    """Slices end where they like; a run of missing records over their border is told as one."""
    verdict = verdict_of(
        extent(),
        slice_findings([(0, "missing", 5, 10, 5), (0, "missing", 1, 2, 5)])[0],
        slice_findings([(1, "missing", 10, 20, 10), (1, "different", 20, 21, 1)])[1],
    )

    assert verdict.findings == (
        finding(DiscrepancyKind.MISSING, 1, 2),
        finding(DiscrepancyKind.MISSING, 5, 20),
        finding(DiscrepancyKind.DIFFERENT, 20, 21),
    )
    assert (verdict.missing, verdict.different, verdict.extra, verdict.records) == (15, 1, 0, 20)


def test_counts_are_of_all_and_findings_the_first() -> None:
    """However much differs, a verdict names a few places of each kind and counts the rest."""
    rows = [(0, "extra", 2 * n, 2 * n + 1, 1000) for n in range(FINDINGS_MAX + 3)]

    verdict = verdict_of(extent(), slice_findings(rows)[0])

    assert verdict.extra == 1000
    assert verdict.findings == tuple(finding(DiscrepancyKind.EXTRA, 2 * n, 2 * n + 1) for n in range(FINDINGS_MAX))


def test_cleaned_records_are_counted_only() -> None:
    """What a log cleaner took is neither a difference nor a finding."""
    verdict = verdict_of(extent(), slice_findings([(0, CLEANED, 0, 3, 3)])[0])

    assert (verdict.cleaned, verdict.findings, verdict.is_equal) == (3, (), True)


def test_slices_read_on_one_side() -> None:
    """What only one side has is told from its batches, without looking at records."""
    whole = extent()

    def told(source: tuple[int, int], target: tuple[int, int], totals: SliceTotals) -> SliceFindings | None:
        return one_sided(part_of(whole, source, target), totals)

    assert told((0, 10), (0, 10), SliceTotals(10, 10, 1, 2, False)) is None
    assert told((10, 20), (10, 10), SliceTotals(7, 0, 1, 1, False)) == SliceFindings(
        (Discrepancy(kind=DiscrepancyKind.MISSING, offset_begin=10, offset_end=20, records=7),),
        {DiscrepancyKind.MISSING: 7},
    )
    assert told((20, 20), (20, 25), SliceTotals(0, 5, 0, 1, False)) == SliceFindings(
        (Discrepancy(kind=DiscrepancyKind.EXTRA, offset_begin=20, offset_end=25, records=5),),
        {DiscrepancyKind.EXTRA: 5},
    )
    # Nothing but control records behind the target's end: consumers miss nothing.
    assert told((10, 20), (10, 10), SliceTotals()) == SliceFindings()


def test_verdicts_of_topics() -> None:
    """Partitions stand in their order under their topic; a problem alone makes a topic differ."""
    extents = [extent(0), extent(1)]

    (topic,) = topic_verdicts({}, {}, {}, extents, {"orders": "west has 3 partitions of copy"})
    verdict = Verdict(source="east", target="west", topics=(topic,))

    assert [partition.partition for partition in topic.partitions] == [0, 1]
    assert (topic.source_topic, topic.target_topic) == ("orders", "copy")
    assert not verdict.equal
    assert json.loads(json.dumps(plain(verdict)))["topics"][0]["partitions"][1]["partition"] == 1


def test_findings_read_well() -> None:
    """A finding says in a few words what is where."""
    assert str(finding(DiscrepancyKind.MISSING, 7, 8)) == "missing at offset 7"
    assert str(finding(DiscrepancyKind.EXTRA, 7, 10)) == "extra at offsets 7 to 9"
    one = Discrepancy(
        kind=DiscrepancyKind.DIFFERENT, offset_begin=7, offset_end=8, records=1, fields=("value", "headers")
    )
    assert str(one) == "different at offset 7 (value, headers)"
