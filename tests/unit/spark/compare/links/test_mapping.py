"""Which offsets of mapped partitions are compared, and with what."""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.log.slices import Slice
from isthmus.ledger.documents.kinds import MapDocument, TopicDocument, decode_document, encode_document
from isthmus.ledger.maps import LaneMap
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import LeftInTier
from isthmus.model.links.verdict import Discrepancy, DiscrepancyKind
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor, OffsetPolicy
from isthmus.model.translation import MappedRange, OffsetMap
from isthmus.spark.compare.links.assembly import SliceFindings, SliceTotals, one_sided, topic_verdicts
from isthmus.spark.compare.links.extent import ComparedRange, compared_slices, extent_of
from isthmus.spark.compare.links.mapping import NOT_BEGUN, mapping_of

NAMES = (SourceTopic("orders"), TargetTopic("copy"), 3)
copies = st.lists(st.none() | st.integers(0, 3), max_size=20)
offsets = st.integers(0, 40)


def lane_of(copied: list[int | None]) -> tuple[LaneMap, dict[int, int]]:
    """The map of a lane that got this far, by how many records of others come before each copy; and where each went."""
    where: dict[int, int] = {}
    end = 0
    for source, others in enumerate(copied):
        if others is not None:
            where[source] = end + others
            end = where[source] + 1
    found = OffsetMap.of(MappedRange(source, target, 1) for source, target in where.items())
    return LaneMap(found, Cursor(len(copied), len(where), end)), where


def log(start: int, end: int) -> LogRange:
    return LogRange(start, end, end)


SOME, WHERE = lane_of([3, 0, 0, None, 5, 0, None])


def extent(source: LogRange, target: LogRange, lane: LaneMap = SOME, **bounds: Any) -> ComparedRange:
    return extent_of(NAMES, source, lane.seen_by_source(target), lane=lane, **bounds)


def test_what_a_lane_left_out_at_its_beginning_is_compared() -> None:
    """Where it is known where the lane began, and the target has deleted nothing of it, all from there on counts."""
    found = OffsetMap.of([MappedRange(7, 20, 3)])
    known = LaneMap(found, Cursor(10, 3, 23), begin=5)
    assert known.seen_by_source(log(0, 23)) == log(5, 10)
    assert known.seen_by_source(log(21, 23)) == log(8, 10)
    assert LaneMap(found, Cursor(10, 3, 23)).seen_by_source(log(0, 23)) == log(7, 10)
    assert LaneMap(OffsetMap(), Cursor(10, 0, 20), begin=5).seen_by_source(log(0, 20)) == log(5, 10)


@given(copies, offsets, offsets)
def test_a_target_seen_by_its_source(copied: list[int | None], start: int, size: int) -> None:
    """From the first record that it still holds, up to the first that it does not hold yet."""
    lane, where = lane_of(copied)
    seen = lane.seen_by_source(log(start, start + size))
    for source, target in where.items():
        if source >= seen.start:
            assert target >= start
        if source < seen.end:
            assert target < start + size
    held = [source for source, target in where.items() if start <= target < start + size]
    assert all(seen.start <= source < seen.end for source in held)


@given(copies, st.integers(0, 20), st.integers(0, 20))
def test_parts_of_a_mapped_slice(copied: list[int | None], begin: int, size: int) -> None:
    """Whatever part of it is looked at: its ranges are those of its offsets, and the target is read where they lie."""
    lane, where = lane_of(copied)
    found = extent(log(0, 20), log(0, 99), lane)
    for whole in compared_slices(found, [Slice(found.source, 100)]):
        for part in (whole, whole.from_offset(begin), whole.within(begin, begin + size), whole.at_offset(begin)):
            assert part.ranges is not None
            named = {one.source_begin + n for one in part.ranges for n in range(one.length)}
            inside = {s for s in where if part.source.offset_begin <= s < part.source.offset_end}
            assert named == {s for s in inside if s >= found.offset_begin}
            targets = [where[s] for s in named]
            assert part.target[2:] == ((min(targets), max(targets) + 1) if targets else (0, 0))


@given(copies, st.lists(st.integers(1, 19), max_size=4))
def test_slices_name_each_range_once(copied: list[int | None], borders: list[int]) -> None:
    """However the source is cut, also through a range: together its slices look at all that was copied, and at nothing
    else; what the source has lost is in the last of them.
    """
    lane, where = lane_of(copied)
    found = extent(log(0, 15), log(0, 99), lane)
    cuts = [found.offset_begin, *sorted({b for b in borders if found.offset_begin < b < found.offset_end})]
    cuts.append(found.offset_end)
    parts = [Slice(found.source._replace(offset_begin=b, offset_end=e), 10) for b, e in pairwise(cuts) if b < e]
    named = [
        (one.source_begin + n, one.target_begin + n)
        for part in compared_slices(found, parts)
        for one in part.ranges or ()
        for n in range(one.length)
    ]
    assert named == sorted(where.items())


def numbers(found: ComparedRange) -> tuple[int, int, int, int]:
    return found.offset_begin, found.offset_end, found.target_end, found.lag


def test_extents_of_mapped_partitions() -> None:
    """What was copied is compared; what the source has behind it is missing, or a lag; what others have is nothing."""
    assert numbers(extent(log(0, 7), log(0, 50))) == (0, 7, 7, 0)
    assert numbers(extent(log(0, 9), log(0, 50))) == (0, 9, 7, 0)
    assert numbers(extent(log(0, 9), log(0, 50), allow_lag=True)) == (0, 7, 7, 2)
    assert numbers(extent(log(1, 9), log(5, 50), until=6)) == (2, 6, 6, 0)
    assert numbers(extent(log(0, 9), log(7, 50))) == (4, 9, 7, 0)
    assert numbers(extent(log(0, 9), log(0, 11))) == (0, 9, 4, 0)
    assert numbers(extent(log(2, 9), log(3, 11), NOT_BEGUN)) == (2, 9, 2, 0)


def test_what_the_source_lost_is_extra() -> None:
    """It is told by the source's offsets, with where it lies at the target."""
    found = extent(log(0, 2), log(0, 50))
    first, last = compared_slices(found, [Slice(found.source, 100)])
    assert (first.ranges, last.ranges) == ((MappedRange(0, 3, 2),), (MappedRange(2, 5, 1), MappedRange(4, 11, 2)))
    findings = one_sided(last, SliceTotals(target_records=3))
    assert findings is not None
    totals = {0: SliceTotals(2, 2, 20, 40, True, 5), 1: SliceTotals(0, 3, 0, 30, False)}
    (topic,) = topic_verdicts({0: first, 1: last}, totals, {1: findings}, [found], {})
    (told,) = topic.partitions[0].findings
    assert told == Discrepancy(kind=DiscrepancyKind.EXTRA, offset_begin=2, offset_end=6, records=3, target_offset=5)
    assert str(told) == "extra at offsets 2 to 5, at the target 5"
    assert (topic.offsets, topic.left_out) == (OffsetPolicy.MAPPED, 5)


def test_findings_in_no_range_have_no_place() -> None:
    """A record that was not copied has no offset at the target."""
    found = extent(log(0, 7), log(0, 50))
    (part,) = compared_slices(found, [Slice(found.source, 100)])
    missing = tuple(
        Discrepancy(kind=DiscrepancyKind.MISSING, offset_begin=at, offset_end=at + 1, records=1) for at in (1, 3)
    )
    told = SliceFindings(missing, {DiscrepancyKind.MISSING: 2})
    (topic,) = topic_verdicts({0: part}, {0: SliceTotals(7, 5)}, {0: told}, [found], {})
    assert [one.target_offset for one in topic.partitions[0].findings] == [WHERE[1], None]


def test_what_a_ledger_says() -> None:
    """The maps of one link; a topic is mapped with all its partitions, and a map that cannot be true is told."""

    def document(
        link: str,
        topic: str,
        partition: int,
        segment: str,
        *ranges: MappedRange,
        ordinal_begin: int = 0,
        trimmed_ordinal: int = -1,
    ) -> MapDocument:
        return MapDocument(
            link=link,
            topic=TargetTopic(topic),
            partition=partition,
            segment=segment,
            ordinal_begin=ordinal_begin,
            ranges=ranges,
            cursor=Cursor(5, 5, 5),
            trimmed_ordinal=trimmed_ordinal,
        )

    given = [
        document("one", "copy", 0, "1", MappedRange(0, 0, 5)),
        document("two", "other", 0, "1", MappedRange(0, 0, 5)),
        document("one", "bad", 0, "1", MappedRange(0, 0, 5)),
        document("one", "bad", 0, "2", MappedRange(3, 9, 5)),
        document("one", "late", 1, "2", MappedRange(3, 9, 5), ordinal_begin=3),
        document("one", "trimmed", 0, "2", MappedRange(3, 9, 5), ordinal_begin=3, trimmed_ordinal=3),
    ]
    found = mapping_of("one", {each.key: each for each in given})
    assert set(found.lanes) == {("copy", 0), ("late", 1), ("trimmed", 0)}
    assert found.topics == {"copy", "bad", "late", "trimmed"}
    assert set(found.broken) == {"bad", "late"}
    assert "contradict" in found.broken["bad"]
    assert "lost the beginning" in found.broken["late"]
    named = {SourceTopic("orders"): TargetTopic("copy"), SourceTopic("plain"): TargetTopic("other")}
    lanes = found.lanes_of(
        named, [(SourceTopic(name), partition) for name, partition in (("orders", 0), ("orders", 1), ("plain", 0))]
    )
    assert {key: lane is NOT_BEGUN for key, lane in lanes.items()} == {("orders", 0): False, ("orders", 1): True}


def test_what_a_copy_leaves_at_its_source_is_not_compared() -> None:
    """A topic with the same offsets that began behind it may still hold fillers there."""
    topic = TopicDocument(
        link="link",
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic("copy"),
        target_topic_id=uuid.UUID(int=2),
        state="ACTIVE",
        left=(LeftInTier(3, 0, 12),),
    )
    assert mapping_of("link", {topic.key: topic}).begins == {("copy", 3): 12}
    assert mapping_of("other", {topic.key: topic}).begins == {}
    assert decode_document(topic.key, encode_document(topic)) == topic
