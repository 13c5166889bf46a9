"""Positions by the maps of mapped lanes: exact where the map tells, and nothing where it does not."""

from __future__ import annotations

import uuid
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from isthmus.groups.returning import home_position
from isthmus.lanes.maps import LinkMaps, gapless_from, lane_cursors, mapped_position
from isthmus.ledger.documents.kinds import Document, MapDocument, TopicDocument
from isthmus.ledger.maps import LaneMap, lane_map, needless
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange, OffsetMap

TOPIC = TargetTopic("orders")

# What lies at the source: how many records of others came before its copy, None where it was not to be copied.
logs = st.lists(st.none() | st.integers(0, 2), max_size=25)


def document(segment: str, ordinal_begin: int, ranges: list[MappedRange], cursor: Cursor) -> MapDocument:
    return MapDocument(
        link="east-west",
        topic=TOPIC,
        partition=0,
        segment=segment,
        ordinal_begin=ordinal_begin,
        ranges=tuple(ranges),
        cursor=cursor,
    )


def segments_of(log: list[int | None], cuts: list[int]) -> tuple[list[MapDocument], dict[int, int]]:
    """The segments of a lane that has copied all of it, cut behind some of its records; and where each record went."""
    where: dict[int, int] = {}
    documents: list[MapDocument] = []
    ranges: list[MappedRange] = []
    begin, end = 0, 0
    for source, others in enumerate(log):
        if others is None:
            continue
        where[source] = end + others
        end = where[source] + 1
        ranges.append(MappedRange(source, where[source], 1))
        if len(where) in cuts:
            cursor = Cursor(source + 1, len(where), end)
            documents.append(document(f"{len(where)}", begin, ranges, cursor))
            ranges, begin = [], len(where)
    documents.append(document("last", begin, ranges, Cursor(len(log), len(where), end)))
    return documents, where


@given(logs, st.lists(st.integers(1, 25)), st.integers(0, 30))
def test_a_position_is_where_its_next_record_went(log: list[int | None], cuts: list[int], position: int) -> None:
    """However the map is cut: all records before the position lie before it at the target, and all others do not."""
    documents, where = segments_of(log, cuts)
    found = mapped_position(lane_map(documents), position)
    assert found is not None
    assert all((target >= found.offset) == (source >= position) for source, target in where.items())
    assert found.is_reached == (position <= len(log))


@given(logs, st.lists(st.integers(1, 25)), st.integers(0, 30), st.integers(0, 25))
def test_a_lost_segment_skips_nothing(log: list[int | None], cuts: list[int], position: int, lost: int) -> None:
    """Where a part of the map is gone, a position is told exactly or not at all, or to be the end of what is known."""
    documents, where = segments_of(log, cuts)
    left = [one for number, one in enumerate(documents) if number != lost]
    found = mapped_position(lane_map(left), position) if left else None
    if found is not None:
        assert all(target >= found.offset for source, target in where.items() if source >= position)
    if found is not None and found.is_reached:
        assert all(target < found.offset for source, target in where.items() if source < position)


@given(logs, st.lists(st.integers(1, 25)), st.integers(0, 80))
def test_a_position_goes_home_to_its_next_record(log: list[int | None], cuts: list[int], position: int) -> None:
    """What was read of the copy lies before it in the original, and of what was copied nothing else does."""
    documents, where = segments_of(log, cuts)
    found = home_position(lane_map(documents), position)
    assert found is not None
    assert all((source >= found) == (target >= position) for source, target in where.items())


@given(logs, st.lists(st.integers(1, 25)), st.integers(0, 80), st.integers(0, 25))
def test_a_lost_segment_skips_nothing_on_the_way_home(
    log: list[int | None], cuts: list[int], position: int, lost: int
) -> None:
    """Where a part of the map is gone, no record of the original that was not read lies before the position."""
    documents, where = segments_of(log, cuts)
    left = [one for number, one in enumerate(documents) if number != lost]
    found = home_position(lane_map(left), position) if left else None
    if found is not None:
        assert all(source >= found for source, target in where.items() if target >= position)


@given(logs, st.lists(st.integers(1, 25)), st.integers(0, 30), st.data())
def test_what_a_lane_that_went_back_wrote_before_counts_no_more(
    log: list[int | None], cuts: list[int], position: int, data: st.DataObject
) -> None:
    """The target lost the last records, which went elsewhere then: whatever earlier segments say, late or not, the map
    is what is true now.
    """
    documents, where = segments_of(log, cuts)
    begin = data.draw(st.sampled_from(sorted({one.ordinal_begin for one in documents})))
    kept = data.draw(st.integers(begin, len(where)))
    there, end = dict(where), 1 + max((to for _, to in list(where.items())[:kept]), default=-1)
    there |= {source: end + 5 + number for number, source in enumerate(list(where)[kept:])}
    ranges = [MappedRange(source, to, 1) for source, to in list(there.items())[begin:]]
    target_end = ranges[-1].target_end if ranges else end
    again = document("again", begin, ranges, Cursor(len(log), len(where), target_end, rewound=1))
    told = data.draw(st.permutations([*documents, again]))

    found = lane_map(told)

    assert {source: found.offsets.within(source, source + 1)[0].target_begin for source in there} == there
    assert found.cursor == again.cursor
    assert lane_cursors("east-west", {one.key: one for one in told}) == {LaneKey(TOPIC, 0): again.cursor}
    at = mapped_position(found, position)
    assert at is not None
    assert all((target >= at.offset) == (source >= position) for source, target in there.items())


@given(logs, st.lists(st.integers(1, 25)), st.data())
def test_a_late_word_of_a_former_lease_cuts_off_nothing(
    log: list[int | None], cuts: list[int], data: st.DataObject
) -> None:
    """A lease that was frozen while another one took the lane over may say late that it went back, and where records
    went that the target has lost since: the map is what the last one wrote, in whatever order it came.
    """
    documents, where = segments_of(log, cuts)
    first = data.draw(st.integers(0, len(documents) - 1))
    documents = [replace(one, taken_at=70 if number < first else 90) for number, one in enumerate(documents)]
    begin, moved = data.draw(st.integers(0, len(where))), data.draw(st.integers(0, 9))
    ranges = [MappedRange(source, target + moved, 1) for source, target in list(where.items())[begin:]]
    cursor = Cursor(len(log) + 5, len(where) + 5, 99, rewound=data.draw(st.integers(0, 2)))
    late = replace(document("late", begin, ranges, cursor), taken_at=80)
    told = data.draw(st.permutations([*documents, late]))

    found = lane_map(told)

    assert found.cursor == documents[-1].cursor
    assert lane_cursors("east-west", {one.key: one for one in told}) == {LaneKey(TOPIC, 0): found.cursor}
    kept = {one.source_begin: one.target_begin for segment in documents[first:] for one in segment.ranges}
    assert {source: found.offsets.within(source, source + 1)[0].target_begin for source in kept} == kept


def test_what_an_older_release_wrote_after_a_newer_one_counts() -> None:
    """It went on behind a segment that says when its lease took the lane over, and says nothing of that itself; whoever
    wrote in between is gone. Then a newer release goes on again.
    """
    before = replace(document("new", 0, [MappedRange(0, 3, 5)], Cursor(5, 5, 8)), taken_at=40)
    went_on = document("old", 5, [MappedRange(7, 10, 4)], Cursor(11, 9, 14))
    found = lane_map([went_on, before])
    assert (found.offsets.ranges, found.cursor) == ((*before.ranges, *went_on.ranges), went_on.cursor)
    last = replace(document("newest", 9, [MappedRange(12, 20, 1)], Cursor(13, 10, 21)), taken_at=70)
    found = lane_map([last, went_on, before])
    assert found.offsets.ranges == (*before.ranges, *went_on.ranges, *last.ranges)
    assert found.cursor == last.cursor


def test_a_lane_that_has_copied_nothing_begins_where_it_says() -> None:
    """What it will append comes to lie there or behind, so a position may stand there already."""
    begun = LaneMap(OffsetMap(), Cursor(source_offset=7, ordinal=0, target_offset=40))
    found = [mapped_position(begun, position) for position in (0, 7, 8)]
    assert found == [(40, True), (40, True), (40, False)]


def test_a_map_whose_ranges_are_all_gone_tells_nothing() -> None:
    """Records were copied, and nothing says where they lie."""
    assert mapped_position(LaneMap(OffsetMap(), Cursor(7, 7, 40)), 3) is None


def test_what_another_program_copied_is_not_guessed() -> None:
    """A lane that goes on where another program stopped knows where the end of that went, and nothing before; there
    and back. What was doubled behind it is not read again.
    """
    taken = Cursor(source_offset=20, ordinal=0, target_offset=50, continues_another=True)
    known = replace(document("taken-over.0", 0, [MappedRange(15, 25, 5)], taken), begin=15)
    lane = lane_map([known])
    assert [mapped_position(lane, at) for at in (14, 15, 19, 20, 21)] == [
        None,
        (25, True),
        (29, True),
        (50, True),
        (50, False),
    ]
    assert [home_position(lane, at) for at in (24, 25, 30, 50)] == [None, 15, 20, 20]
    gone_on = replace(taken, source_offset=23, ordinal=3, target_offset=53)
    lane = lane_map([known, replace(document("1.0.0", 0, [MappedRange(20, 50, 3)], gone_on), begin=15)])
    assert [mapped_position(lane, at) for at in (14, 19, 20, 23)] == [None, (29, True), (50, True), (53, True)]
    assert [home_position(lane, at) for at in (24, 49, 51)] == [None, 20, 21]


def test_what_went_on_behind_a_divergence() -> None:
    """Up to the last shared offset positions are the same, there and back; from there on they are past what is foreign,
    which the log holds in no range. Reports of the lane before do not count.
    """
    begun = Cursor(source_offset=12, ordinal=40, target_offset=20, first_ordinal=40, continues_another=True)
    parted = replace(document("parted", 40, [MappedRange(0, 0, 12)], begun), begin=0)
    lane = lane_map([parted])
    assert [mapped_position(lane, at) for at in (0, 11, 12, 13)] == [(0, True), (11, True), (20, True), (20, False)]
    assert [home_position(lane, at) for at in (0, 11, 12, 19, 20)] == [0, 11, 12, 12, 12]
    assert (begun.find_copied_end(19), lane.foreign(LogRange(5, 20, 20)), lane.foreign(LogRange(15, 22, 22))) == (
        12,
        8,
        5,
    )
    gone_on = replace(begun, source_offset=15, ordinal=43, target_offset=24)
    lane = lane_map([parted, replace(document("1.0.0", 40, [MappedRange(12, 21, 3)], gone_on), begin=0)])
    assert [mapped_position(lane, at) for at in (11, 12, 15)] == [(11, True), (21, True), (24, True)]
    assert (gone_on.find_copied_end(17), lane.foreign(LogRange(0, 30, 30)), lane.foreign(LogRange(24, 30, 30))) == (
        17,
        9,
        0,
    )


def test_from_where_on_a_map_is_whole() -> None:
    """Behind the last segment that is missing; segments may say the same twice."""
    first = document("1", 0, [MappedRange(0, 0, 5)], Cursor(5, 5, 5))
    again = document("2", 3, [MappedRange(3, 3, 4)], Cursor(7, 7, 7))
    later = document("3", 9, [MappedRange(12, 20, 4)], Cursor(16, 13, 24))
    assert gapless_from([again, first]) == 0
    assert gapless_from([later, again, first]) == 12
    assert mapped_position(lane_map([later, again, first]), 8) is None
    assert mapped_position(lane_map([later, again, first]), 6) == (6, True)


def test_the_ledger_is_looked_at_when_asked() -> None:
    """A document that comes later counts from the next look on; what cannot be true is no map."""
    documents: dict[str, Document] = {}
    maps = LinkMaps("east-west", documents)
    maps.look()
    assert not maps.is_mapped(TOPIC)
    one = document("1", 0, [MappedRange(0, 3, 5)], Cursor(5, 5, 8))
    documents[one.key] = one
    assert maps.of((TOPIC, 0)) is None
    maps.look()
    assert maps.is_mapped(TOPIC)
    known = maps.of((TOPIC, 0))
    assert known is not None
    assert known.cursor == one.cursor
    maps.look()
    assert maps.of((TOPIC, 0)) is known
    other = document("2", 5, [MappedRange(4, 100, 5)], Cursor(9, 9, 105))
    documents[other.key] = other
    maps.look()
    assert maps.is_mapped(TOPIC)
    assert maps.of((TOPIC, 0)) is None
    assert maps.of((TOPIC, 1)) is None


def test_topics_remember_whether_they_are_mapped() -> None:
    """One that has not begun is mapped if that was decided; maps of topics that had its name before count no more."""
    old, new = uuid.uuid4(), uuid.uuid4()
    topic = TopicDocument(
        link="east-west",
        source_topic=SourceTopic(TOPIC),
        source_topic_id=new,
        target_topic=TOPIC,
        target_topic_id=new,
        state="ACTIVE",
        is_mapped=True,
    )
    before = replace(
        document("1", 0, [MappedRange(0, 3, 5)], Cursor(5, 5, 8)), source_topic_id=old, target_topic_id=old
    )
    maps = LinkMaps("east-west", {topic.key: topic, before.key: before})
    maps.look()
    assert maps.is_mapped(TOPIC)
    assert maps.of((TOPIC, 0)) is None
    same = replace(topic, is_mapped=False)
    others = LinkMaps("east-west", {topic.key: same, before.key: before})
    others.look()
    assert not others.is_mapped(TOPIC)


@given(logs, st.lists(st.integers(1, 25)))
def test_how_far_a_lane_is_takes_no_map(log: list[int | None], cuts: list[int]) -> None:
    """It is what the map says, too; and where segments contradict each other it is known all the same."""
    segments, _ = segments_of(log, cuts)
    found: dict[str, Document] = {segment.key: segment for segment in segments}
    assert lane_cursors("east-west", found) == {LaneKey(TOPIC, 0): lane_map(segments).cursor}
    assert lane_cursors("west-east", found) == {}
    odd = document("odd", 0, [MappedRange(0, 99, 30)], Cursor(0, 0, 129))
    assert lane_cursors("east-west", {**found, odd.key: odd})[LaneKey(TOPIC, 0)].source_offset == len(log)


@example(log=[1, 2], cuts=[1], position=3, log_start=2)
@given(logs, st.lists(st.integers(1, 25)), st.integers(0, 30), st.integers(0, 80))
def test_a_map_without_what_the_target_deleted_tells_the_rest(
    log: list[int | None], cuts: list[int], position: int, log_start: int
) -> None:
    """Segments of deleted records may go: of all that is left the map says what it said before, and nothing is lost."""
    documents, where = segments_of(log, cuts)
    ordered = lane_map(documents).segments
    gone = needless(ordered[:-1], log_start)
    trimmed = max((one.cursor.ordinal for one in gone), default=-1)
    left = lane_map([*ordered[len(gone) : -1], replace(ordered[-1], trimmed_ordinal=trimmed)])
    there = {source: target for source, target in where.items() if target >= log_start}
    assert all(one.target_end <= log_start for segment in gone for one in segment.ranges)
    assert gapless_from(left.segments) == 0
    found, home = mapped_position(left, position), home_position(left, position)
    assert found is not None
    assert all((target >= found.offset) == (source >= position) for source, target in there.items())
    # Before the first record that is left there may have been one that was deleted.
    assert home is not None or (gone and position < min(there.values(), default=ordered[-1].cursor.target_offset))
    assert home is None or all((source >= home) == (target >= position) for source, target in there.items())
    target_end = ordered[-1].cursor.target_offset
    seen = left.seen_by_source(LogRange(log_start, target_end, target_end))
    assert not gone or (seen.start <= min(there, default=seen.end))


def test_a_lost_segment_is_missed_behind_what_was_deleted() -> None:
    """What a segment does not tell that should be there is not taken for deleted."""
    first = document("1", 0, [MappedRange(0, 0, 5)], Cursor(5, 5, 5))
    third = replace(document("3", 9, [MappedRange(12, 20, 4)], Cursor(16, 13, 24)), trimmed_ordinal=5)
    assert gapless_from([third]) == 12
    assert gapless_from([replace(third, trimmed_ordinal=9)]) == 0
    assert needless([replace(first, ranges=())], 5) == []
