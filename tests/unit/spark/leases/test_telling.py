"""What leases tell of their lanes adds up to what was copied, whatever becomes of lanes, leases and sessions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, encode
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.engine import Engine
from isthmus.engine.run import LaneRun
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneKey, LaneMark, LaneReport, LaneState, Milestone
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.spark.leases.progress import RunProgress
from isthmus.spark.leases.telling import Milestones, Telling

LANES: Final = {
    LaneKey(TargetTopic("orders"), partition): Lane(
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.UUID(int=2),
        partition=partition,
    )
    for partition in range(2)
}
FIRST, SECOND = LANES


def report(records: int, *, state: LaneState = LaneState.ACTIVE, key: LaneKey = FIRST) -> LaneReport:
    """A lane that has copied so much."""
    problem = None if state is LaneState.ACTIVE else Problem("why")
    return LaneReport(key=key, state=state, position=records, records=records, size_bytes=records, problem=problem)


def test_idle_lanes_are_told_now_and_then_only() -> None:
    """What was told before is told again when all is told."""
    telling = Telling()
    reports = [report(5), report(0, key=SECOND)]
    assert telling.due(reports, LANES, is_full=False) == reports
    telling.note_reported(reports)
    assert telling.due(reports, LANES, is_full=False) == []
    assert telling.due([report(6), reports[1]], LANES, is_full=False) == [report(6)]
    assert telling.due(reports, LANES, is_full=True) == reports


def test_what_a_lease_that_ends_has_not_told_yet() -> None:
    """How far its own lanes came since, standing as they were told, unless they themselves have ended: that the lease
    did is no state of theirs. Where it never was it says nothing of.
    """
    telling, ended = Telling(), LaneState.STOPPED
    assert telling.untold([report(5, state=ended)], LANES) == [replace(report(5, state=ended), problem=None)]
    assert telling.untold([replace(report(0, state=ended), position=-1)], LANES) == []
    telling.note_reported([report(5), report(0, key=SECOND)])
    last = [report(6, state=ended), report(0, state=ended, key=SECOND)]
    assert telling.untold(last, LANES) == [report(6)]
    diverged = report(5, state=LaneState.DIVERGED)
    assert telling.untold([diverged], LANES) == [diverged]
    assert telling.untold(last, {SECOND: LANES[SECOND]}) == []
    assert telling.untold([replace(report(5), source_end=9)], LANES) == [replace(report(5), source_end=9)]


def test_a_lane_that_was_given_up_is_told_only_for_its_counts() -> None:
    """Its state is no business of the lease any more: as long as nothing was copied in the end, nothing is said."""
    telling = Telling()
    telling.note_reported([report(5)])
    assert telling.due([report(5, state=LaneState.STOPPED)], {}, is_full=True) == []
    (last,) = telling.due([report(7, state=LaneState.DATA_GAP)], {}, is_full=False)
    assert (last.records, last.state, last.problem) == (7, LaneState.STOPPED, None)
    telling.note_reported([last])
    assert telling.due([report(7, state=LaneState.DATA_GAP)], {}, is_full=True) == []


def test_a_lane_that_comes_back_is_told_anew() -> None:
    """The driver has forgotten how it stood, even where it stands as before."""
    telling = Telling()
    telling.note_reported([report(5)])
    telling.forget_lanes([FIRST, SECOND])
    assert telling.due([report(5)], LANES, is_full=False) == [report(5)]


def test_the_last_word_has_the_counts_of_all_lanes_the_lease_ever_had() -> None:
    """Whoever takes the receipt may have missed what was told before."""
    telling = Telling()
    telling.note_reported([report(5), report(3, key=SECOND)])
    last = telling.last([report(5, state=LaneState.STOPPED), report(3, key=SECOND)], {SECOND: LANES[SECOND]})
    assert [(r.key, r.records, r.state) for r in last] == [
        (FIRST, 5, LaneState.STOPPED),
        (SECOND, 3, LaneState.ACTIVE),
    ]
    assert telling.last([report(0, state=LaneState.STOPPED)], {}) == []


def milestone(position: int, epoch: int = 5, *, key: LaneKey = FIRST) -> Milestone:
    """So far a lane has been."""
    return Milestone(
        topic=key.topic,
        partition=key.partition,
        source_topic_id=uuid.UUID(int=1),
        target_topic_id=uuid.UUID(int=2),
        position=position,
        source_epoch=epoch,
    )


def test_a_new_leader_epoch_is_told_at_once_and_other_milestones_now_and_then() -> None:
    """A document holds all lanes, those the lease has given up too, and nothing is told twice."""
    milestones = Milestones()
    assert milestones.due(is_full=True) == ()
    for reached, at_once in ((milestone(10), True), (milestone(20), False), (milestone(20, 6), True)):
        milestones.note_milestones([reached])
        due = milestones.due(is_full=False)
        assert due == ((reached,) if at_once else ())
        milestones.note_reported(due)
    milestones.note_milestones([milestone(30, 6)])
    assert milestones.due(is_full=True) == (milestone(30, 6),)
    milestones.note_reported(milestones.furthest)
    milestones.note_milestones([milestone(30, 6), milestone(31, 5)])
    assert milestones.due(is_full=True) == (), "it rests, and goes by no older epoch"
    milestones.note_milestones([milestone(3, key=SECOND)])
    assert milestones.due(is_full=False) == (milestone(30, 6), milestone(3, key=SECOND))
    milestones.note_reported(())
    assert milestones.due(is_full=False), "what could not be told is due still"


def test_lanes_at_their_marks_have_milestones() -> None:
    """As of the lane between these two topics: the mark alone does not say which they are. A lane that rests, or was
    further before, has nothing to tell.
    """
    milestones = Milestones()

    milestones.note_marks(LANES, [LaneMark(*FIRST, 10, 5)])
    milestones.note_reported(milestones.due(is_full=True))
    for position in (10, 9):
        milestones.note_marks(LANES, [LaneMark(*FIRST, position, 5)])
        assert milestones.furthest == (milestone(10),)
        assert milestones.due(is_full=True) == ()
    milestones.note_marks({FIRST: replace(LANES[FIRST], target_topic_id=uuid.UUID(int=3))}, [LaneMark(*FIRST, 4, 5)])
    assert len(milestones.furthest) == 2


@dataclass(slots=True)
class Lease:
    """A lease as its task runs it, without brokers: what it copies is said to be durable."""

    slot: int
    generation: int
    engine: Engine
    lanes: dict[LaneKey, Lane] = field(default_factory=dict)
    telling: Telling = field(default_factory=Telling)
    flying: list[tuple[LaneRun, int]] = field(default_factory=list)

    def send(self, key: LaneKey, records: int) -> None:
        """A batch of the lane is on its way."""
        run = self.engine.lanes[key]
        run.intake.read_offset, run.writer.position = max(run.intake.read_offset, 0), max(run.writer.position, 0)
        batch = encode([Record(run.intake.read_offset + n, 1, None, b"v", []) for n in range(records)], 0)
        run.offer(iter([Piece(batch, is_plain=True, is_aborted=False)]))
        run.writer.sent(records)
        self.flying.append((run, records))

    def answer(self) -> int:
        """All that was sent is durable; how many records."""
        answered = sum(records for _, records in self.flying)
        for run, records in self.flying:
            run.writer.answered(codes.NONE, run.writer.position)
            self.engine.advanced(run, 1, records)
        self.flying.clear()
        return answered


class World:
    """A link's leases, the lanes they have, and its progress as the driver knows it."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self.progress = RunProgress()
        self.copied = 0
        self._make = make
        self._generation = 0
        self._seen: dict[LaneKey, int] = {}
        self.leases = [self._lease(slot) for slot in range(2)]
        for slot, key in enumerate(LANES):
            self.resume(key, slot)

    def _lease(self, slot: int) -> Lease:
        self._generation += 1
        return Lease(slot, self._generation, self._make())

    def _holder(self, key: LaneKey) -> Lease | None:
        return next((lease for lease in self.leases if key in lease.lanes), None)

    def resume(self, key: LaneKey, slot: int) -> None:
        """The lane runs, in a lease that has it already or else in this one."""
        if self._holder(key) is None:
            self.leases[slot].lanes[key] = LANES[key]
            self.leases[slot].engine.add([LANES[key]])

    def pause(self, key: LaneKey, slot: int) -> None:
        """The lane stops; what is in flight may still be answered."""
        lease = self._holder(key)
        if lease is not None:
            del lease.lanes[key]
            lease.engine.remove([key])
            lease.telling.forget_lanes([key])
            self.progress.forget([key])

    def copy(self, key: LaneKey, records: int) -> None:
        """Something is read and sent."""
        lease = self._holder(key)
        if lease is not None:
            lease.send(key, records + 1)

    def answer(self, key: LaneKey, slot: int) -> None:
        """The target answers."""
        self.copied += self.leases[slot].answer()

    def tell(self, key: LaneKey, slot: int) -> None:
        """A lease writes its progress into the ledger, where the driver reads it."""
        lease = self.leases[slot]
        due = lease.telling.due(lease.engine.lanes.reports(), lease.lanes, is_full=False)
        lease.telling.note_reported(due)
        self.progress.take(slot, lease.generation, due, [], 0.0)

    def miss(self, key: LaneKey, slot: int) -> None:
        """A lease writes its progress into the ledger just before it ends: the receipt is there sooner."""
        lease = self.leases[slot]
        lease.telling.note_reported(lease.telling.due(lease.engine.lanes.reports(), lease.lanes, is_full=False))
        self.hand_over(key, slot)

    def hand_over(self, key: LaneKey, slot: int) -> None:
        """A lease ends, and the next one of its slot has its lanes."""
        self._succeed(slot, self.leases[slot].lanes)

    def move(self, key: LaneKey, slot: int) -> None:
        """A lane moves to another lease at a hand-over of the one that had it."""
        lease = self._holder(key)
        if lease is not None:
            self._succeed(lease.slot, {k: lane for k, lane in lease.lanes.items() if k != key})
            self.resume(key, slot)

    def _succeed(self, slot: int, lanes: dict[LaneKey, Lane]) -> None:
        lease = self.leases[slot]
        self.copied += lease.answer()
        last = lease.telling.last(lease.engine.lanes.reports(), lease.lanes)
        self.progress.close(slot, lease.generation, last, [], 0.0)
        successor = self.leases[slot] = self._lease(slot)
        successor.lanes = dict(lanes)
        successor.engine.add(lanes.values())

    def begin_anew(self, key: LaneKey, slot: int) -> None:
        """A cluster was away and the session is another one; what leases said before they were lost counts."""
        for lease in list(self.leases):
            self.copied += lease.answer()
            self.tell(key, lease.slot)
            self.leases[lease.slot] = self._lease(lease.slot)
        self.progress.begin()

    def check(self) -> None:
        """No count is lower than before, and none is higher than what was copied."""
        counts = {key: count.records for key, count in self.progress.counts.items()}
        assert all(counts.get(key, 0) >= records for key, records in self._seen.items()), (self._seen, counts)
        assert self.progress.records == sum(counts.values()) <= self.copied
        self._seen = counts


ACTIONS: Final = (
    *(World.copy, World.copy, World.copy, World.answer, World.answer),
    *(World.pause, World.pause, World.resume, World.resume, World.move),
    *(World.tell, World.miss, World.hand_over, World.begin_anew),
)
STEPS: Final = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(list(LANES)), st.integers(0, 1)), min_size=20, max_size=60
)


@given(STEPS)
def test_counts_never_go_back_and_end_with_the_exact_sum(
    steps: list[tuple[Callable[[World, LaneKey, int], None], LaneKey, int]],
) -> None:
    """Pauses, hand-overs, moves and new sessions lower no count, and all that was copied is counted once."""

    async def scenario() -> None:
        nowhere = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))
        async with Client(nowhere) as client:
            producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
            world = World(lambda: Engine(source=client, target=client, producer=producer, link="link"))
            for step, key, number in steps:
                step(world, key, number)
                world.check()
            for slot in range(2):
                world.hand_over(FIRST, slot)
            world.check()
            assert world.progress.records == world.copied
            assert world.progress.size_bytes >= world.copied

    asyncio.run(scenario())


def test_what_was_told_before_a_lane_was_given_up_is_not_told_again() -> None:
    """It is told once that the lane was given up. The records of a lane that has left are counted once, and how it
    stood is not repeated at the end.
    """
    telling = Telling()
    telling.note_reported([report(5)])
    telling.forget_lanes([FIRST])
    (left,) = telling.due([report(5)], {}, is_full=False)
    assert (left.state, left.records) == (LaneState.STOPPED, 5)
    telling.note_reported([left])
    assert telling.due([report(5)], {}, is_full=True) == []
    (last,) = telling.last([report(5, state=LaneState.REFUSED)], {})
    assert (last.state, last.records, last.problem) == (LaneState.STOPPED, 5, None)
