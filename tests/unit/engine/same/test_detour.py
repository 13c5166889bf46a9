"""What cannot pass as the bytes it is: how it is taken apart, counted and refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import records_of
from isthmus.engine.run import LaneRun, Refused
from isthmus.engine.same.aborts import LoneTransaction
from isthmus.engine.same.detour import Detour
from isthmus.engine.same.markers import Markers
from isthmus.engine.state.intake import Usability
from isthmus.engine.state.missing import Prefix
from isthmus.engine.state.phase import Phase
from isthmus.engine.state.writer import ProducerState
from isthmus.errors import Unreachable
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.transactions import lone_producer_id
from isthmus.model.lane import Gap, LaneState
from testing.records.stored import PLAIN, marker, one, stored
from testing.values.engines import Part
from testing.values.leader import Led, OneLeader, with_leader
from testing.values.looks import lane_of

RECORDS = [PLAIN._replace(value=b"%d" % n) for n in range(8)]
ABORTED = 7


def taken(run: LaneRun, engine: Part, led: Led | None = None, *, has_coordinator: bool = False) -> None:
    """Let the detour take the lane as far as it may. It knows the transaction of `ABORTED`, which a coordinator knows
    too and is open, or which we write alone.
    """
    run.phase = Phase.FLOWING

    async def work(routes: OneLeader) -> None:
        detour = Detour(engine, routes)
        known: Transaction | LoneTransaction = LoneTransaction(transactional_id="ours", producer_id=9)
        if has_coordinator:
            known = Transaction(routes.client, "ours")
            known.is_open = True
        detour._aborts._known[run, lone_producer_id(ABORTED)] = known
        await detour.take(run)

    with_leader(led or Led(), work)


def test_holes_of_a_lane_count_together() -> None:
    """Each is small enough, all are too many: the lane stops at the one that goes beyond the limit."""
    run = lane_of(position=0, holes_max=5)
    run.intake.read_from(0)
    for offset in (3, 7):
        run.offer(iter([Piece(one(stored(offset, RECORDS[:1])), is_plain=True, is_aborted=False)]))
    taken(run, Part())
    assert (run.writer.position, run.state, run.missing.holes) == (3, LaneState.STARTING, 3)
    run.intake.take(1)
    run.writer.position += 1
    with pytest.raises(Refused):
        taken(run, Part())
    assert (run.writer.position, run.state) == (4, LaneState.REFUSED)


def test_aborted_data_stays_aborted_in_every_part() -> None:
    """A batch too large for the target is taken apart; its parts are told apart by the producer they had."""
    batch = one(stored(0, RECORDS, producer_id=7, transactional=True))
    run = lane_of(position=0, batch_bytes_max=batch.size_bytes // 2)
    run.intake.read_from(0)
    run.offer(iter([Piece(batch, is_plain=False, is_aborted=True)]))
    taken(run, Part(allowed=[True, False]))
    assert len(run.intake.pending) > 1
    assert all(piece.is_aborted and not piece.is_plain for piece in run.intake.pending)
    assert {piece.batch.producer_id for piece in run.intake.pending} == {7}
    assert [record.value for piece in run.intake.pending for record in records_of(piece.batch)] == [
        r.value for r in RECORDS
    ]


def test_ordinary_data_is_plain_in_every_part() -> None:
    """Then the fast path goes on with it."""
    batch = one(stored(0, RECORDS))
    run = lane_of(position=0, batch_bytes_max=batch.size_bytes // 2)
    run.intake.read_from(0)
    run.offer(iter([Piece(batch, is_plain=False, is_aborted=False)]))
    taken(run, Part())
    assert len(run.intake.pending) > 1
    assert all(piece.is_plain and not piece.is_aborted for piece in run.intake.pending)


def test_records_a_header_promises_have_to_be_there() -> None:
    """A batch that says it is whole and lacks a record is damaged: a hole would be made of it silently."""
    batch = one(stored(0, RECORDS[:3], deltas=[0, 0, 2]))
    assert batch.is_dense
    run = lane_of(position=1)
    run.intake.read_from(0)
    run.offer(iter([Piece(batch, is_plain=False, is_aborted=False)]))
    with pytest.raises(Refused):
        taken(run, Part())
    assert (run.state, run.intake.usability is Usability.SPOILT) == (LaneState.BLOCKED, True)
    assert run.writer.position == 1


def test_a_batch_that_was_written_in_part_goes_on_where_the_target_ends() -> None:
    """What is there already is not sent again."""
    run = lane_of(position=3)
    run.intake.read_from(0)
    run.offer(iter([Piece(one(stored(0, RECORDS)), is_plain=True, is_aborted=False)]))
    taken(run, Part())
    (piece,) = run.intake.pending
    assert (piece.batch.base_offset, piece.batch.offset_end, piece.is_plain) == (3, 8, True)


def test_what_was_written_already_is_left_out() -> None:
    """Batches that end before the target does are dropped, and count."""
    run = lane_of(one(stored(0, RECORDS)), position=8)
    taken(run, Part())
    assert (list(run.intake.pending), run.tally.records) == ([], 8)


def test_nothing_is_taken_where_writing_is_forbidden() -> None:
    """Neither a request nor anything that would be one."""
    run, led = lane_of(one(stored(5, RECORDS)), position=0), Led()
    taken(run, Part(allowed=[False]), led)
    assert (led.asked, run.writer.position, run.missing.holes) == ([], 0, 0)


class Gone(Led):
    """A leader that takes appends and answers none."""

    def post_frame(self, *given: Any, **more: Any) -> asyncio.Future[Any]:
        answer = super().post_frame(*given, **more)
        answer.set_exception(Unreachable("gone", cluster="nowhere"))
        return answer


def test_a_filler_without_an_answer_may_be_in_the_log() -> None:
    """Or arrive there later: the lane settles before it goes on."""
    run = lane_of(position=0)
    run.missing.prefix = Prefix(10, is_stored=False)
    with pytest.raises(Unreachable):
        taken(run, Part(), Gone())
    assert (run.writer.position, run.writer.in_flight, run.writer.abandoned) == (0, False, True)


def with_piece(piece: Piece) -> LaneRun:
    """A lane that stands where the piece begins."""
    run = lane_of(position=piece.batch.base_offset)
    run.intake.read_from(piece.batch.base_offset)
    run.offer(iter([piece]))
    return run


def with_marker() -> LaneRun:
    """A lane at the end of a committed transaction."""
    return with_piece(Piece(one(marker(5, ABORTED, commit=True)), is_plain=False, is_aborted=False))


def with_end() -> LaneRun:
    """A lane at the end of an aborted transaction."""
    return with_piece(Piece(one(marker(5, ABORTED, commit=False)), is_plain=False, is_aborted=False))


def with_aborted_data() -> LaneRun:
    """A lane at records of an aborted transaction."""
    batch = one(stored(5, RECORDS, producer_id=ABORTED, transactional=True))
    return with_piece(Piece(batch, is_plain=False, is_aborted=True))


def with_gap() -> LaneRun:
    """A lane at offsets that the source has deleted, which it goes past."""
    run = lane_of(position=5, continues_after_gap=True)
    run.missing.gaps.append(Gap(5, 12))
    return run


def with_prefix(position: int) -> LaneRun:
    """A lane whose source has deleted its first ten records."""
    run = lane_of(position=position)
    run.missing.prefix = Prefix(10, is_stored=position > 0)
    return run


def with_fillers_to_write() -> LaneRun:
    """None of the fillers is there yet."""
    return with_prefix(0)


def with_fillers_to_delete() -> LaneRun:
    """All of the fillers are there."""
    return with_prefix(10)


@pytest.mark.parametrize(
    ("lane", "allowed", "has_coordinator"),
    [
        (with_marker, [True, False], False),
        (with_end, [True, False], True),
        (with_gap, [True, True, False], False),
        (with_fillers_to_write, [True, True, False], False),
        (with_fillers_to_delete, [True, True, False], False),
        (with_aborted_data, [True, False], False),
    ],
)
def test_permission_is_asked_for_after_whatever_was_waited_for(
    lane: Callable[[], LaneRun], allowed: list[bool], has_coordinator: bool
) -> None:
    """One that lapsed while a leader was looked up lets nothing leave, and nothing is in doubt afterwards."""
    run, led = lane(), Gone()
    position = run.writer.position
    with pytest.raises(Refused):
        taken(run, Part(allowed), led, has_coordinator=has_coordinator)
    # At most the question was asked whether control records are taken: of a partition that no topic has.
    assert [topic.partition_indexes for request in led.asked for topic in request.markers[0].topics] in (
        [],
        [[2**31 - 1]],
    )
    assert led.posted == []
    assert (run.writer.position, run.writer.in_flight, run.writer.abandoned, run.transactions.ending) == (
        position,
        False,
        False,
        set(),
    )


@pytest.mark.parametrize(
    "lane", [with_marker, with_gap, with_fillers_to_write, with_fillers_to_delete, with_aborted_data]
)
def test_permission_is_asked_for_again_when_bytes_leave(lane: Callable[[], LaneRun]) -> None:
    """A process may be paused before they do: every request takes the engine's own question along."""
    run, led, engine = lane(), Gone(), Part()
    with contextlib.suppress(Unreachable):
        taken(run, engine, led)
    assert led.permissions == [engine.may_send] * len(led.permissions)
    assert len(led.asked) + len(led.posted) == len(led.permissions) > 0


class Ended:
    """Control records as they were asked for: of a transaction, and whether as a commit, or of none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[int | None, bool]] = []

        async def end(_: Markers, run: LaneRun, producer: int, transaction: object, *, commit: bool = False) -> None:
            self.asked.append((producer, commit))
            run.writer.position += 1

        async def write(_: Markers, run: LaneRun, count: int, *, commit: bool) -> None:
            self.asked += [(None, commit)] * count
            run.writer.position += count

        monkeypatch.setattr(Markers, "end", end)
        monkeypatch.setattr(Markers, "write", write)


@pytest.mark.parametrize(("is_compacted", "ended"), [(False, ABORTED), (True, None)])
def test_a_commit_ends_nothing_that_may_be_aborted_data(
    monkeypatch: pytest.MonkeyPatch, ended: int | None, *, is_compacted: bool
) -> None:
    """What is open of its producer is of a lane that was whole. Of a compacted topic it may be aborted data whose end
    was cleaned away before it was copied: a commit would show that to everybody.
    """
    asked = Ended(monkeypatch).asked
    run = lane_of(position=5, is_compacted=is_compacted)
    run.transactions.alone = {lone_producer_id(ABORTED): ProducerState(0, 4, 4)}
    run.intake.read_from(5)
    run.offer(iter([Piece(one(marker(5, ABORTED, commit=True)), is_plain=False, is_aborted=False)]))
    run.phase = Phase.FLOWING
    with_leader(Led(), lambda routes: Detour(Part(), routes).take(run))
    assert asked == [(ended, True)]


def test_a_gap_ends_as_many_transactions_as_it_has_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of aborted data that is open follow behind it, if there are more."""
    asked = Ended(monkeypatch).asked
    run = lane_of(position=5)
    run.transactions.alone = {lone_producer_id(producer): ProducerState(0, 4, 4) for producer in (7, 8)}
    run.missing.gaps.append(Gap(5, 6))
    run.phase = Phase.FLOWING
    with_leader(Led(), lambda routes: Detour(Part(), routes).take(run))
    assert (asked, run.state) == ([(lone_producer_id(7), False)], LaneState.STARTING)
