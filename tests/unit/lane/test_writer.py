"""The writer against a model of a partition leader that forgets, delays, loses and restarts: exactly once."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from isthmus.lane.writer import Look, Place, ProducerState, Verdict, Writer
from isthmus.wire import codes
from isthmus.wire.batch import SEQUENCE_MASK

REMEMBERED: Final = 5
"""So many batches of a producer a leader remembers."""


class Request(NamedTuple):
    """Source offsets `[begin, begin + count)`: records of ours, or control records, which have no sequence."""

    begin: int
    size: int
    sequence: int | None


class Leader:
    """A partition as Kafka keeps it. `log` names for each of its offsets, from `begin` on, the source offset stored."""

    def __init__(self, begin: int) -> None:
        self.begin = self.high_watermark = begin
        self.log: list[int] = []
        self.remembered: list[tuple[int, int, int]] = []

    @property
    def end(self) -> int:
        return self.begin + len(self.log)

    def append(self, request: Request) -> tuple[int, int]:
        """The error code and base offset the leader would answer."""
        if request.sequence is None:
            return codes.NONE, self._write(request)
        last = (request.sequence + request.size - 1) & SEQUENCE_MASK
        for first_known, last_known, base in self.remembered:
            if (first_known, last_known) == (request.sequence, last):
                return codes.NONE, base
        if self.remembered and request.sequence != (self.remembered[-1][1] + 1) & SEQUENCE_MASK:
            return codes.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        base = self._write(request)
        self.remembered = [*self.remembered, (request.sequence, last, base)][-REMEMBERED:]
        return codes.NONE, base

    def _write(self, request: Request) -> int:
        base = self.end
        self.log += range(request.begin, request.begin + request.size)
        return base

    def truncate(self) -> None:
        """Another replica leads, which has what was replicated."""
        del self.log[self.high_watermark - self.begin :]
        self.remembered = [batch for batch in self.remembered if batch[2] < self.high_watermark]

    def look(self) -> Look:
        state = ProducerState(0, self.remembered[-1][1]) if self.remembered else None
        return Look(self.end, self.high_watermark, state)


class Lane(RuleBasedStateMachine):
    """Writers of one lane, one after the other, and everything that may happen to their requests.

    By assumption a successor begins when the writer before has ended, and what was abandoned arrives before the
    settling time is over, or never.
    """

    waits: bool = True

    @initialize(begin=st.sampled_from([0, 2**31 - 20, 2**31 - 3, 2**32 - 5]))
    def start(self, begin: int) -> None:
        """The log begins anywhere, as sequences wrap at 2^31."""
        self.leader = Leader(begin)
        self.writer = Writer(abandoned=True)
        self.late: list[Request] = []
        self.is_placed = self.settles = False

    # The writer

    @precondition(lambda self: not self.is_placed)
    @rule(waited=st.booleans())
    def look(self, waited: bool) -> None:
        """The resolver looks; `waited` that the settling time has passed since its look before."""
        if waited and self.waits:
            for request in self.late:
                self.leader.append(request)
            self.late = []
        if waited:
            self.leader.high_watermark = self.leader.end
        place = self.writer.looked(self.leader.look(), settled=waited and self.settles)
        self.settles = place is Place.SETTLE
        self.is_placed = place is Place.READY

    @precondition(lambda self: self.is_placed)
    @rule(
        size=st.integers(1, 6),
        fate=st.sampled_from(["answered"] * 4 + ["answer lost", "lost", "late"]),
        owner_ends=st.booleans(),
    )
    def send(self, size: int, fate: str, owner_ends: bool) -> None:
        """The next records or control records, in requests of any size, and what becomes of them."""
        request = self.next_request(size)
        self.writer.sent()
        if fate == "answered":
            self.answer(request, *self.leader.append(request))
            return
        if fate == "answer lost":
            self.leader.append(request)
        elif fate == "late":
            self.late.append(request)
        if owner_ends:
            self.succeed(clean=False)
        else:
            self.writer.abandon()
            self.is_placed = False

    def next_request(self, size: int) -> Request:
        begin, end = self.writer.position, self.writer.position + 1
        while end < begin + size and is_control(end) == is_control(begin):
            end += 1
        return Request(begin, end - begin, None if is_control(begin) else self.writer.sequence)

    def answer(self, request: Request, code: int, base: int) -> None:
        """Leaders answer when all replicas have the records, or with an error."""
        if code == codes.NONE:
            self.leader.high_watermark = self.leader.end
        if request.sequence is None:
            self.writer.advanced_unsequenced(request.size)
        else:
            verdict = self.writer.answered(code, base, request.size)
            assert verdict is not Verdict.BROKEN
            self.is_placed = verdict is Verdict.ADVANCED

    @rule()
    def release(self) -> None:
        """The owner ends in good order, if it can, and says so to the next one."""
        self.succeed(clean=not self.writer.in_flight and not self.writer.abandoned)

    def succeed(self, *, clean: bool) -> None:
        self.writer = Writer(abandoned=not clean)
        self.is_placed = self.settles = False

    # The broker and the network

    @precondition(lambda self: self.late and (not self.is_placed or not self.waits))
    @rule(which=st.integers(0, 10))
    def arrive_late(self, which: int) -> None:
        """A request nobody waits for any more reaches the leader."""
        self.leader.append(self.late.pop(which % len(self.late)))

    @rule()
    def expire(self) -> None:
        """The leader forgets our producer: its last batch is old."""
        self.leader.remembered = []

    @rule()
    def restart_broker(self) -> None:
        """A leader that was started anew knows of the last batch only."""
        self.leader.remembered = self.leader.remembered[-1:]

    @precondition(lambda self: self.leader.high_watermark < self.leader.end)
    @rule()
    def move_leader(self) -> None:
        """What was not replicated is gone, and so are the requests to the old leader."""
        self.leader.truncate()
        self.late = []
        self.writer.abandon()
        self.is_placed = False

    @invariant()
    def target_is_source(self) -> None:
        """Every offset of the target holds what the source has there, and a writer in its place stands at the end."""
        assert self.leader.log == list(range(self.leader.begin, self.leader.end))
        assert not self.is_placed or self.writer.position == self.leader.end


def is_control(offset: int) -> bool:
    """Whether the source has a control record there."""
    return offset % 9 in (4, 5)


TestLane = Lane.TestCase
TestLane.settings = settings(deadline=None, max_examples=200, stateful_step_count=40)


class Hasty(Lane):
    """A writer that does not wait for what it has abandoned."""

    waits = False


def test_model_is_not_blind() -> None:
    """Without settling the model finds what is doubled: it would find it in the writer too."""
    options = settings(deadline=None, max_examples=2000, stateful_step_count=40, phases=[Phase.generate], database=None)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Hasty, settings=options)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (codes.MESSAGE_TOO_LARGE, Verdict.TOO_LARGE),
        (codes.TOPIC_AUTHORIZATION_FAILED, Verdict.DENIED),
        (codes.INVALID_TIMESTAMP, Verdict.REFUSED),
        (codes.UNKNOWN_TOPIC_ID, Verdict.RECREATED),
        (codes.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.RESOLVE),
        (codes.NOT_LEADER_OR_FOLLOWER, Verdict.RESOLVE),
        (codes.REQUEST_TIMED_OUT, Verdict.RESOLVE),
        (codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.RESOLVE),
        (12345, Verdict.RESOLVE),
    ],
)
def test_errors_ask_for_something(code: int, verdict: Verdict) -> None:
    """An error never moves the writer, and what is unknown asks the log."""
    writer = Writer(abandoned=False)
    writer.looked(Look(10, 10, None), settled=False)
    writer.sent()
    assert writer.answered(code, 99, 5) is verdict
    assert (writer.position, writer.in_flight) == (10, False)


def test_bytes_appended_elsewhere_break_the_lane() -> None:
    """Success at another offset than expected means that somebody else writes."""
    writer = Writer(abandoned=False)
    writer.looked(Look(10, 10, None), settled=False)
    assert writer.answered(codes.NONE, 11, 5) is Verdict.BROKEN
    assert writer.position == 10


def test_truncated_targets_are_noticed() -> None:
    """A log that ends before what was acknowledged is written again from there."""
    writer = Writer(abandoned=False)
    writer.looked(Look(10, 10, None), settled=False)
    writer.answered(codes.NONE, 10, 5)
    assert writer.looked(Look(12, 12, None), settled=False) is Place.READY
    assert (writer.truncated_from, writer.position) == (15, 12)
    assert writer.looked(Look(14, 14, None), settled=False) is Place.READY
    assert writer.truncated_from is None
