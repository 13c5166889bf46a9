"""What the ends of both logs say of a lane, from values alone."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from isthmus.engine.outlook import state_of
from isthmus.engine.same.filler import filler
from isthmus.engine.same.judgement import (
    Judgement,
    Sight,
    Weight,
    among_fillers,
    compare,
    first_check,
    gap_before,
    is_copy,
    is_hole,
    lost,
    may_be_let_go,
    outlook_of,
    unanswered,
    undecodable,
    weigh,
    written_beyond,
)
from isthmus.engine.source import Bounds
from isthmus.engine.state.belief import TailCheck
from isthmus.errors import NotAuthorized, Unreachable
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, stamp
from isthmus.kafka.log.tail import NoBatch
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.transactions import lone_producer_id, marker_producer_ids
from isthmus.model.lane import Gap, LaneKey, LaneMark, LaneState, Milestone
from isthmus.model.links.remedies import HeldOffsets, keep_or_delete
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem
from testing.records.stored import PLAIN, marker, one, patched, stored

OURS, MARKERS, THEIRS = 7, 8, 99
WEST = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))
RECORDS = [PLAIN._replace(value=b"%d" % n) for n in range(6)]
SOURCE = one(stored(10, RECORDS, codec=4))
HOLES = one(stored(10, RECORDS[:2] + RECORDS[5:], deltas=[0, 1, 5]))


def sight(position: int, start: int = 0, end: int = 1000, target_start: int = 0) -> Sight:
    """A target that ends at `position`, and a source with these bounds."""
    return Sight(
        key=LaneKey(TargetTopic("orders"), 0),
        target=WEST,
        position=position,
        source=Bounds(start, end),
        target_start=target_start,
    )


def weight(seen: Sight, tail: bytes | NoBatch, check: TailCheck = TailCheck.PRODUCER) -> Weight:
    """What the last batch is worth, where `OURS` and `MARKERS` are our producer ids."""
    return weigh(seen, check, (OURS, MARKERS), tail if isinstance(tail, NoBatch) else one(tail))


def test_records_of_others_are_compared_and_ours_after_a_handover() -> None:
    """A producer id of ours is enough where the owner before left in good order, and nowhere else."""
    ours, theirs = stored(10, RECORDS, producer_id=OURS), stored(10, RECORDS, producer_id=THEIRS)
    assert weight(sight(16), ours) is Weight.BELIEVED
    assert weight(sight(16), theirs) is Weight.DOUBTED
    assert weight(sight(16), ours, TailCheck.CONTENT) is Weight.DOUBTED


def test_nothing_is_compared_with_what_the_source_does_not_have() -> None:
    """A log that is empty, or ends before the source begins, is judged by its offsets."""
    theirs = stored(10, RECORDS, producer_id=THEIRS)
    for seen in (sight(16, start=16), sight(16, start=50)):
        assert weight(seen, theirs, TailCheck.CONTENT) is Weight.BELIEVED
    for known in NoBatch:
        assert weight(sight(16), known, TailCheck.CONTENT) is Weight.BELIEVED


def test_what_is_open_at_the_source_is_not_beyond_it() -> None:
    """A lane that is whole copies it: the target is beyond its source only behind the end of its log."""
    open_there = replace(sight(16), source=Bounds(0, 12, 16))
    assert not open_there.is_beyond
    assert replace(open_there, source=Bounds(0, 12, 15)).is_beyond
    assert replace(open_there, source=Bounds(0, 12)).is_beyond


def test_what_lies_beyond_the_source_is_ours_or_somebody_elses() -> None:
    """That the link wrote it shows that the source has lost records; anybody else's record behind all that was compared
    is a foreign write at the first look. Of what was never compared, and of what belongs to a transaction of a
    coordinator, that is not certain until the source stays behind.
    """
    lone, beyond = lone_producer_id(5), replace(sight(16, end=12), believed_end=12)
    for own in (
        stored(10, RECORDS, producer_id=OURS),
        marker(15, MARKERS, commit=True),
        stored(10, RECORDS, producer_id=lone),
    ):
        assert weight(beyond, own) is Weight.BELIEVED
    assert weight(beyond, NoBatch.DELETED) is Weight.BELIEVED
    assert weight(beyond, stored(10, RECORDS, producer_id=THEIRS)) is Weight.FOREIGN
    assert weight(beyond, stored(10, RECORDS)) is Weight.FOREIGN
    assert weight(beyond, marker(15, THEIRS, commit=False)) is Weight.UNCLEAR
    assert weight(replace(beyond, believed_end=-1), stored(10, RECORDS, producer_id=THEIRS)) is Weight.UNCLEAR
    proven = replace(beyond, believed_end=16, is_known=True)
    assert weight(proven, stored(10, RECORDS, producer_id=THEIRS)) is Weight.BELIEVED
    problem = written_beyond(beyond, one(stored(10, RECORDS, producer_id=THEIRS)))
    assert f"producer {THEIRS}, which is not this link" in problem.message
    assert "orders-0" in problem.hint
    found = outlook_of(beyond, Judgement(beyond=problem), continues_after_gap=True)
    assert (found.state, found.problem) == (LaneState.FOREIGN_WRITE, problem)


def test_a_batch_is_foreign_only_behind_all_that_was_compared() -> None:
    """One that ends where the comparison ended may be a copy of this link; a log that was compared and found empty has
    none. Records of a transaction may be copies as well, as their coordinator writes their end.
    """
    theirs, beyond = stored(10, RECORDS, producer_id=THEIRS), sight(16, end=12)
    assert weight(replace(beyond, believed_end=15), theirs) is Weight.FOREIGN
    assert weight(replace(beyond, believed_end=16), theirs) is Weight.UNCLEAR
    assert weight(replace(beyond, believed_end=0), theirs) is Weight.FOREIGN
    in_transaction = stored(10, RECORDS, producer_id=THEIRS, transactional=True)
    assert weight(replace(beyond, believed_end=12), in_transaction) is Weight.UNCLEAR


def test_a_hole_is_an_offset_without_a_record_in_a_log_that_goes_on() -> None:
    """Before the first batch that is there, between the records of one, or where no batch follows; a control record is
    none.
    """
    assert is_hole(None, 12)
    assert is_hole(HOLES, 9)
    assert [offset for offset in range(10, 16) if is_hole(HOLES, offset)] == [12, 13, 14]
    assert not is_hole(one(marker(12, THEIRS, commit=True)), 12)


def test_an_end_of_a_transaction_that_is_another_is_explained() -> None:
    """Where both sides have the end of a transaction, and not the same, a failover aborted what the source committed;
    a record at one side is another producer's, or one of ours from elsewhere.
    """
    seen = sight(16)
    aborted, committed = (one(marker(15, THEIRS, commit=commit)) for commit in (False, True))
    ended = compare(seen, (OURS,), aborted, committed).problem
    assert ended is not None
    assert "aborted an open transaction, and the source has committed it since" in ended.message
    assert "orders" in ended.hint
    for tail, source in ((aborted, SOURCE), (one(stored(10, RECORDS, producer_id=THEIRS)), committed)):
        other = compare(seen, (OURS,), tail, source).problem
        assert other is not None
        assert "aborted an open transaction, and the source" not in other.message


def filled(offset_end: int, *, moved: int = 0) -> Batch:
    """The last 100 fillers of a log that ends there, where `moved` others stand before them."""
    batch, begin = filler(100, 1), offset_end - 100
    header = stamp(batch, OURS, 0, begin - moved)
    return one(patched(bytes(header) + bytes(batch.view[HEADER_BYTES:]), begin))


def test_fillers_behind_something_else_are_not_alone() -> None:
    """What is deleted with fillers is fillers: the sequence of the last ones tells where they were to stand, and a lane
    that has only filled knows every other record as somebody else's.
    """
    seen = sight(200, start=500)
    assert weigh(seen, TailCheck.CONTENT, (OURS,), filled(200)) is Weight.FILLERS
    assert weigh(seen, TailCheck.CONTENT, (OURS,), filled(200, moved=1)) is Weight.MIXED
    theirs = one(stored(194, RECORDS, producer_id=THEIRS))
    assert weigh(seen, TailCheck.CONTENT, (OURS,), theirs) is Weight.BELIEVED
    assert weigh(replace(seen, is_filling=True), TailCheck.CONTENT, (OURS,), theirs) is Weight.MIXED
    problem = among_fillers(seen)
    assert "at most 200 records" in problem.hint
    assert "orders-0" in problem.hint
    assert "another producer writes" in problem.message


def test_fillers_are_recognised_before_the_source_begins() -> None:
    """Fillers stand for what the source has deleted; above its start they would be records of somebody else."""
    batch = filled(100)
    assert weigh(sight(100, start=500), TailCheck.CONTENT, (), batch) is Weight.FILLERS
    assert weigh(sight(100, start=100), TailCheck.CONTENT, (), batch) is Weight.FILLERS
    assert weigh(sight(100, start=50), TailCheck.CONTENT, (), batch) is Weight.DOUBTED


def test_a_lane_that_left_something_at_its_source_began_with_fillers() -> None:
    """Before its beginning fillers are ours, and a record is held against the source, which still has one there."""
    left = replace(sight(100, start=50), begin=200)
    assert weigh(left, TailCheck.CONTENT, (), filled(100)) is Weight.FILLERS
    assert weigh(left, TailCheck.CONTENT, (), one(stored(94, RECORDS, producer_id=OURS))) is Weight.DOUBTED
    assert weigh(replace(left, position=201), TailCheck.CONTENT, (), filled(201)) is Weight.DOUBTED
    assert weigh(replace(left, position=50), TailCheck.CONTENT, (), one(stored(44, RECORDS))) is Weight.BELIEVED


def test_foreign_record_is_told_with_what_to_do() -> None:
    """Another record than the source's ends the lane; what is in the target is not thrown away unseen."""
    judged = compare(sight(16), (OURS,), one(stored(10, [PLAIN] * 6, producer_id=THEIRS)), SOURCE)
    assert judged.state is LaneState.FOREIGN_WRITE
    assert judged.problem is not None
    assert f"at offset 15 is not the source's record but one of producer {THEIRS}" in judged.problem.message
    assert judged.problem.hint.startswith("Deny WRITE")
    assert "isthmus verify --topic orders" in judged.problem.hint


def test_control_record_too_many_is_told_apart() -> None:
    """Where a control record stands for a record of the source, the setting that avoids that is named too."""
    judged = compare(sight(16), (OURS,), one(marker(15, 1, commit=False)), SOURCE)
    assert judged.state is LaneState.FOREIGN_WRITE
    assert judged.problem is not None
    assert "at offset 15 is a control record where the source has a record" in judged.problem.message
    assert "transaction.partition.verification.enable=false" in judged.problem.hint
    assert "isthmus verify --topic orders" in judged.problem.hint
    assert "--partition 0 " in judged.problem.hint


def test_ends_that_coordinators_wrote_may_come_again() -> None:
    """A copy that a coordinator ended is one, and its transaction may still be ending; not so with our own ends."""
    control, source = marker(15, THEIRS, commit=False), marker(15, 55, commit=False)
    assert compare(sight(16), (OURS,), one(control), one(source)).ending == {-1, 55}
    assert compare(sight(16), (OURS,), one(control), NoBatch.HOLE).ending == {-1}
    for producer in (OURS, lone_producer_id(55)):
        judged = compare(sight(16), (OURS,), one(marker(15, producer, commit=False)), one(source))
        assert (judged.state, judged.ending) == (None, frozenset())


def test_a_hole_of_the_source_is_a_fact() -> None:
    """A record where the source is known to have none is somebody else's; a control record is as it should be."""
    assert compare(sight(16), (OURS,), one(stored(10, RECORDS)), NoBatch.HOLE).state is LaneState.FOREIGN_WRITE
    assert compare(sight(16), (OURS,), one(marker(15, 1, commit=False)), NoBatch.HOLE).state is None


def test_what_the_source_has_just_deleted_proves_nothing() -> None:
    """Its log began below a moment ago: whoever looks again knows where it begins now."""
    judged = compare(sight(16), (OURS,), one(stored(10, RECORDS)), NoBatch.DELETED)
    assert judged.state is LaneState.SOURCE_UNAVAILABLE
    assert judged.problem is not None
    assert "looks again" in judged.problem.hint


def test_a_source_that_has_changed_is_no_foreign_write() -> None:
    """If the log ends where it was left, and what is there is not the source's any more, the source lost records."""
    tail, changed = one(stored(10, RECORDS, producer_id=OURS)), one(stored(10, [PLAIN] * 6))
    for is_known, state in ((True, LaneState.DIVERGED), (False, LaneState.FOREIGN_WRITE)):
        judged = compare(replace(sight(16), is_known=is_known), (OURS,), tail, changed)
        assert judged.state is state
        assert judged.problem is not None
        assert "offset 15" in judged.problem.message
        assert "unclean leader election" in judged.problem.message
        assert "isthmus verify --topic orders" in judged.problem.hint
        assert "--partition 0 " in judged.problem.hint


@pytest.mark.parametrize(("end", "is_lost"), [(-1, False), (0, True), (12, True), (13, False), (14, False)])
def test_an_epoch_that_ends_before_what_was_copied_of_it_was_truncated(end: int, is_lost: bool) -> None:
    """A lane was at 13 in that epoch, and is at 16: from the epoch's end on only the target has what it has."""
    ids = uuid.UUID(int=1), uuid.UUID(int=2)
    been = Milestone(
        topic=TargetTopic("orders"),
        partition=0,
        source_topic_id=ids[0],
        target_topic_id=ids[1],
        position=13,
        source_epoch=5,
    )
    message = (
        f"the source's log was truncated to {end} (unclean leader election); offsets [{end}, 13) that were copied are "
        "gone there"
    )
    hint = keep_or_delete("orders", WEST, [HeldOffsets(0, end, 16)])
    expected = Judgement(state=LaneState.DIVERGED, problem=Problem(message, hint), proven_end=end)
    assert lost(sight(16), been, end) == (expected if is_lost else None)


def test_what_is_compared_tells_its_epoch() -> None:
    """The batch of the source that holds the last record says in which leader epoch it was written."""
    source = one(stored(10, RECORDS, leader_epoch=8))
    assert compare(sight(16), (OURS,), one(stored(10, RECORDS)), source).source_epoch == 8
    behind = one(stored(16, RECORDS, leader_epoch=9))
    judged = compare(sight(16), (OURS,), one(marker(15, 1, commit=False)), behind)
    assert (judged.state, judged.source_epoch) == (None, -1)
    assert judged.ending


@pytest.mark.parametrize(
    ("left", "is_in_order", "check"),
    [
        (100, True, TailCheck.PRODUCER),
        (100, False, TailCheck.CONTENT),
        (99, True, TailCheck.CONTENT),
        (101, True, TailCheck.CONTENT),
        (None, True, TailCheck.CONTENT),
    ],
)
def test_the_owner_before_vouches_for_where_it_ended(left: int | None, is_in_order: bool, check: TailCheck) -> None:
    """Its mark at the end of the log, and good order, are enough to believe a producer id; nothing else is."""
    mark = None if left is None else LaneMark(TargetTopic("orders"), 0, left, 7)
    assert first_check(mark, 100, is_in_order=is_in_order) is check


def test_damaged_batch_proves_nothing() -> None:
    """What cannot be decoded is waited for, and is no foreign write."""
    data = bytearray(stored(10, RECORDS, producer_id=THEIRS))
    data[-1] ^= 1
    judged = compare(sight(16), (OURS,), one(bytes(data)), SOURCE)
    assert judged.state is LaneState.BLOCKED
    assert judged.problem is not None
    assert "checksum" in judged.problem.message
    assert undecodable(ValueError("wrong")).state is LaneState.BLOCKED


@pytest.mark.parametrize(
    ("position", "start", "is_filling", "gap"),
    [
        (30, 57, False, Gap(30, 57)),
        (30, 57, True, None),
        (0, 57, False, None),
        (57, 57, False, None),
        (60, 57, False, None),
    ],
)
def test_gaps(position: int, start: int, is_filling: bool, gap: Gap | None) -> None:
    """A gap is what was deleted behind records that were copied, not before the first one."""
    assert gap_before(sight(position, start=start), is_filling=is_filling) == gap


def test_outlook_of_a_lane_that_may_go_on() -> None:
    """Nothing is wrong with an empty target, with a copy, or with one that is being filled."""
    for seen, judgement in (
        (sight(0, start=500), Judgement()),
        (sight(16), Judgement()),
        (sight(100, start=500), Judgement(has_fillers=True)),
    ):
        found = outlook_of(seen, judgement, continues_after_gap=False)
        assert (found.state, found.problem, found.gap) == (LaneState.ACTIVE, None, None)


def test_outlook_of_a_gap() -> None:
    """A gap stops a lane, unless it is told to go on; then it says what will be missing."""
    stopped = outlook_of(sight(30, start=57, target_start=10), Judgement(), continues_after_gap=False)
    assert stopped.state is LaneState.DATA_GAP
    assert stopped.problem is not None
    assert "[30, 57)" in stopped.problem.message
    assert "offsets [10, 30) of orders-0, at most 20 records" in stopped.problem.hint
    passed = outlook_of(sight(30, start=57), Judgement(), continues_after_gap=True)
    assert (passed.state, passed.problem, passed.gap) == (LaneState.ACTIVE, None, Gap(30, 57))


def test_outlook_beyond_the_source() -> None:
    """What only the target has is told: behind the source's end, and what retention took at the source."""
    found = outlook_of(sight(15, start=4, end=10, target_start=1), Judgement(), continues_after_gap=True)
    assert found.state is LaneState.DIVERGED
    assert found.problem is not None
    assert "[10, 15) exist only at the target" in found.problem.message
    assert "offsets [10, 15) of orders-0, offsets [1, 4) of orders-0, at most 8 records" in found.problem.hint


def test_outlook_of_a_doubted_end() -> None:
    """What the end of the log amounts to goes before its offsets."""
    judged = undecodable(ValueError("wrong"))
    assert outlook_of(sight(15, end=10), judged, continues_after_gap=True).state is LaneState.BLOCKED


def test_what_cannot_be_told_is_told_as_it_is() -> None:
    """The lane waits with the reason that was given, and with what to do."""
    for error, state in (
        (Unreachable("away", hint="wait"), LaneState.TARGET_UNAVAILABLE),
        (NotAuthorized("no READ", hint="grant it"), LaneState.NOT_AUTHORIZED),
    ):
        assert unanswered(error, LaneState.TARGET_UNAVAILABLE) == Judgement(
            state=state, problem=Problem(str(error), error.hint)
        )
    broken = undecodable(ValueError("its length is wrong"))
    assert (broken.state, broken.ending) == (LaneState.BLOCKED, frozenset())
    assert broken.problem is not None
    assert "its length is wrong" in broken.problem.message
    assert "Check the disks" in broken.problem.hint


def test_an_outlook_tells_why() -> None:
    """What was judged is passed on with its reason."""
    problem = Problem("a", "b")
    judged = Judgement(state=LaneState.BLOCKED, problem=problem)
    found = outlook_of(sight(15), judged, continues_after_gap=False)
    assert (found.state, found.problem) == (LaneState.BLOCKED, problem)


def test_missing_rights_are_no_outage() -> None:
    """A broker that forbids it does answer."""
    assert state_of(NotAuthorized("no"), LaneState.SOURCE_UNAVAILABLE) is LaneState.NOT_AUTHORIZED
    assert state_of(Unreachable("gone"), LaneState.SOURCE_UNAVAILABLE) is LaneState.SOURCE_UNAVAILABLE


@pytest.mark.parametrize("offset", [13, 15])
def test_boundaries_and_codecs_do_not_matter(offset: int) -> None:
    """A record is the source's wherever its batch begins and however it is compressed."""
    assert is_copy(one(stored(12, RECORDS[2:], codec=1)), SOURCE, offset, is_compacted=False)


def test_other_records_are_no_copy() -> None:
    """Another value, another timestamp, another place: somebody else's."""
    for tail in (
        stored(10, [*RECORDS[:5], PLAIN]),
        stored(10, [*RECORDS[:5], RECORDS[5]._replace(timestamp=1)]),
        stored(11, RECORDS),
    ):
        assert not is_copy(one(tail), SOURCE, 15, is_compacted=False)


def test_control_records_stand_where_the_source_has_no_record() -> None:
    """A marker or a hole of the source is a control record here, and a record of the source is none."""
    control = one(marker(13, 1, commit=False))
    assert is_copy(control, one(marker(13, 99, commit=False)), 13, is_compacted=False)
    assert is_copy(control, HOLES, 13, is_compacted=False)
    assert is_copy(control, None, 13, is_compacted=False)
    assert not is_copy(control, SOURCE, 13, is_compacted=False)


def test_a_transaction_ends_as_at_the_source() -> None:
    """Who lets go of a copy aborts what is open there; if the source committed it since, the lane cannot go on. Nor can
    the way back, where that source has it as its coordinator ended it.
    """
    aborted = one(marker(13, lone_producer_id(99), commit=False))
    for commit in (False, True):
        ended = one(marker(13, 99, commit=commit))
        assert is_copy(aborted, ended, 13, is_compacted=False) is not commit
        assert is_copy(ended, aborted, 13, is_compacted=False) is not commit


def test_the_end_of_another_transaction_is_no_copy() -> None:
    """What was aborted here goes on at the source, where another transaction ended first."""
    aborted = one(marker(13, lone_producer_id(98), commit=False))
    assert not is_copy(aborted, one(marker(13, 99, commit=False)), 13, is_compacted=False)
    assert may_be_let_go(aborted)
    assert may_be_let_go(one(marker(13, lone_producer_id(98), commit=True)))


def test_a_control_record_of_no_transaction_is_a_copy_of_any_end() -> None:
    """Where records are copied once their transaction is committed, its end is a control record of the link's own."""
    for producer_id in marker_producer_ids(7, 13, 16):
        copied = one(marker(13, producer_id, commit=True))
        assert is_copy(copied, one(marker(13, 99, commit=True)), 13, is_compacted=False)
        assert not may_be_let_go(copied)


def test_control_records_stand_where_the_source_has_aborted_ones() -> None:
    """They were left out; a record that is there instead has to be the source's all the same."""
    control = one(marker(13, 1, commit=False))
    assert is_copy(control, SOURCE, 13, is_compacted=False, is_aborted=True)
    assert compare(sight(14), (), control, SOURCE, is_aborted=True).state is None
    assert compare(sight(14), (), control, SOURCE).state is LaneState.FOREIGN_WRITE
    assert not is_copy(one(stored(10, [PLAIN] * 6)), SOURCE, 13, is_compacted=False, is_aborted=True)


def test_cleaned_records_cannot_be_compared() -> None:
    """What the source's cleaner took since is believed; in a log that is not cleaned it is somebody else's."""
    tail = one(stored(10, RECORDS))
    assert is_copy(tail, HOLES, 13, is_compacted=True)
    assert not is_copy(tail, HOLES, 13, is_compacted=False)
    assert not is_copy(one(stored(10, [PLAIN] * 6)), HOLES, 15, is_compacted=True)


def test_the_epoch_is_that_of_the_record_before_the_position() -> None:
    """A batch that begins behind that record says nothing of it: there is a hole, and no epoch."""
    tail = one(stored(10, RECORDS, producer_id=OURS))
    epoch = SOURCE.leader_epoch
    assert epoch >= 0
    assert compare(sight(16), (OURS,), tail, SOURCE).source_epoch == epoch
    first = one(stored(15, RECORDS[:1], producer_id=OURS)), one(stored(15, RECORDS[:1]))
    assert compare(sight(16), (OURS,), *first).source_epoch == first[1].leader_epoch
    hole = one(marker(15, THEIRS, commit=False)), one(stored(20, RECORDS))
    assert compare(replace(sight(16), is_compacted=True), (OURS,), *hole).source_epoch == -1


def test_the_epoch_is_known_where_a_coordinator_ended_a_transaction() -> None:
    """As it is after any other record."""
    control, source = marker(15, THEIRS, commit=False), marker(15, 55, commit=False)
    judged = compare(sight(16), (OURS,), one(control), one(source))
    assert judged.ending
    assert judged.source_epoch == one(source).leader_epoch
    assert judged.source_epoch != -1


@pytest.mark.parametrize(
    ("is_compacted", "producer_id", "state"),
    [
        (True, THEIRS, None),
        (False, THEIRS, LaneState.FOREIGN_WRITE),
        (True, OURS, None),
        (False, OURS, None),
    ],
)
def test_what_the_source_lacks_is_a_copy_of_it_where_it_is_compacted(
    is_compacted: bool, producer_id: int, state: LaneState | None
) -> None:
    """A record that was copied may be gone at the source by then: a hole in its log is a cleaner's work, also where the
    topic is not compacted any more, and then what we wrote there came from the source.
    """
    seen, tail = replace(sight(16), is_compacted=is_compacted), one(stored(15, RECORDS[:1], producer_id=producer_id))
    assert compare(seen, (OURS,), tail, one(stored(20, RECORDS))).state is state


def test_a_record_of_ours_where_the_source_has_a_control_record_is_none_of_its() -> None:
    """That is no hole."""
    tail = one(stored(15, RECORDS[:1], producer_id=OURS))
    judged = compare(sight(16), (OURS,), tail, one(marker(15, THEIRS, commit=True)))
    assert judged.state is LaneState.FOREIGN_WRITE
