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

from isthmus.engine.state.writer import DEPTH, AppendVerdict, LogLook, Placement, ProducerState, Writer
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import SEQUENCE_MASK

REMEMBERED: Final = 5
"""So many batches of a producer a leader remembers."""


NOW: Final = 1_000_000_000
EXPIRATION_MS: Final = 86_400_000


class Request(NamedTuple):
    """Source offsets `[begin, begin + size)`: records of ours, or control records, which have no sequence."""

    begin: int
    size: int
    sequence: int | None
    is_fresh: bool = False

    @property
    def max_timestamp(self) -> int:
        """Fresh records keep the leader's state of their producer alive."""
        return NOW if self.is_fresh else NOW - EXPIRATION_MS


class Leader:
    """A partition as Kafka keeps it. `log` names for each of its offsets, from `begin` on, the source offset stored."""

    def __init__(self, begin: int) -> None:
        self.begin = self.high_watermark = begin
        self.log: list[int] = []
        self.is_fresh = False
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
        self.is_fresh = request.is_fresh
        return codes.NONE, base

    def forget(self) -> None:
        """The state of our producer is gone, if its last batch is old."""
        if not self.is_fresh:
            self.remembered = []

    def _write(self, request: Request) -> int:
        base = self.end
        self.log += range(request.begin, request.begin + request.size)
        return base

    def truncate(self) -> None:
        """Another replica leads, which has what was replicated."""
        del self.log[self.high_watermark - self.begin :]
        self.remembered = [batch for batch in self.remembered if batch[2] < self.high_watermark]
        self.is_fresh = False

    def look(self) -> LogLook:
        state = ProducerState(0, self.remembered[-1][1]) if self.remembered else None
        return LogLook(self.end, self.high_watermark, state)


class Lane(RuleBasedStateMachine):
    """Writers of one lane, one after the other, and everything that may happen to their requests, one at a time.

    By assumption a successor begins when the writer before has ended, and what was abandoned arrives before the
    settling time is over, or never.
    """

    waits: bool = True

    @initialize(begin=st.sampled_from([0, 2**31 - 20, 2**31 - 3, 2**32 - 5]))
    def start(self, begin: int) -> None:
        """The log begins anywhere, as sequences wrap at 2^31."""
        self.leader = Leader(begin)
        self.writer = Writer(abandoned=True, expiration_ms=EXPIRATION_MS)
        self.late: list[Request] = []
        self.is_placed = self.settles = self.has_settled = False

    # The writer

    @precondition(lambda self: not self.is_placed)
    @rule(waited=st.booleans(), is_replicated=st.booleans())
    def look(self, waited: bool, is_replicated: bool) -> None:
        """The resolver looks; `waited` that the settling time has passed since the look that asked for it."""
        if waited and self.waits:
            for request in self.late:
                self.leader.append(request)
            self.late = []
        if is_replicated:
            self.leader.high_watermark = self.leader.end
        self.has_settled = self.has_settled or (waited and self.settles)
        place = self.writer.looked(self.leader.look(), settled=self.has_settled)
        self.is_placed = place is Placement.READY
        if place is not Placement.WAIT:
            self.settles, self.has_settled = place is Placement.SETTLE, False

    @precondition(lambda self: self.is_placed)
    @rule(
        size=st.integers(1, 6),
        is_fresh=st.booleans(),
        fate=st.sampled_from(["answered"] * 4 + ["answer lost", "lost", "late"]),
        owner_ends=st.booleans(),
    )
    def send(self, size: int, *, is_fresh: bool, fate: str, owner_ends: bool) -> None:
        """The next records or control records, in requests of any size, and what becomes of them."""
        request = self.next_request(size, is_fresh=is_fresh)
        self.writer.sent(request.size, request.max_timestamp)
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

    def next_request(self, size: int, *, is_fresh: bool) -> Request:
        begin, end = self.writer.next_offset, self.writer.next_offset + 1
        while end < begin + size and is_control(end) == is_control(begin):
            end += 1
        return Request(begin, end - begin, None if is_control(begin) else self.writer.sequence, is_fresh)

    def answer(self, request: Request, code: int, base: int) -> None:
        """Leaders answer when all replicas have the records, or with an error."""
        if code == codes.NONE:
            self.leader.high_watermark = self.leader.end
        if request.sequence is None:
            self.writer.advanced_unsequenced(request.size)
        else:
            verdict = self.writer.answered(code, base)
            assert verdict is not AppendVerdict.BROKEN
            self.is_placed = verdict is AppendVerdict.ADVANCED

    @rule()
    def release(self) -> None:
        """The owner ends in good order, if it can, and says so to the next one."""
        self.succeed(clean=not self.writer.in_flight and not self.writer.abandoned)

    def succeed(self, *, clean: bool) -> None:
        self.writer = Writer(abandoned=not clean, expiration_ms=EXPIRATION_MS)
        self.is_placed = self.settles = self.has_settled = False

    # The broker and the network

    @precondition(lambda self: self.late and (not self.is_placed or not self.waits))
    @rule(which=st.integers(0, 10))
    def arrive_late(self, which: int) -> None:
        """A request nobody waits for any more reaches the leader."""
        self.leader.append(self.late.pop(which % len(self.late)))

    @rule()
    def expire(self) -> None:
        """The leader forgets our producer if its last batch is old."""
        self.leader.forget()

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


class Ahead(Lane):
    """The same with several requests in flight."""

    @precondition(lambda self: self.is_placed and not is_control(self.writer.position))
    @rule(
        window=st.lists(
            st.tuples(
                st.integers(1, 2),
                st.booleans(),
                st.sampled_from(
                    [codes.NONE] * 2 + [codes.NOT_ENOUGH_REPLICAS, codes.MESSAGE_TOO_LARGE, codes.REQUEST_TIMED_OUT]
                ),
                st.booleans(),
            ),
            min_size=2,
            max_size=DEPTH,
        ),
        is_known=st.booleans(),
        is_lost=st.booleans(),
    )
    def send_ahead(self, window: list[tuple[int, bool, int, bool]], is_known: bool, is_lost: bool) -> None:
        """Requests one behind another, as far as the writer may. Any may fail, in the log or not, and be forgotten."""
        if is_known:
            # A fresh record before them makes sure that the leader knows us.
            self.send(1, is_fresh=True, fate="answered", owner_ends=False)
        sent = []
        for size, is_fresh, code, forgets in window:
            if not self.writer.may_send(NOW) or is_control(self.writer.next_offset):
                break
            request = self.next_request(size, is_fresh=is_fresh)
            self.writer.sent(request.size, request.max_timestamp)
            sent.append((request, code, forgets))
        answers = []
        for request, code, forgets in sent:
            told = code, -1
            if code in (codes.NONE, codes.REQUEST_TIMED_OUT):
                appended = self.leader.append(request)
                told = appended if code == codes.NONE else told
            answers.append((request, *told))
            if forgets:
                self.leader.forget()
        if is_lost:
            self.writer.abandon()
            self.is_placed = False
            return
        went_well = True
        for answer in answers:
            self.answer(*answer)
            went_well = self.is_placed = went_well and self.is_placed


TestLane = Ahead.TestCase
TestLane.settings = settings(max_examples=500, stateful_step_count=40)


class Hasty(Lane):
    """A writer that does not wait for what it has abandoned. One request at a time, so that the search is short."""

    waits = False


def test_model_is_not_blind() -> None:
    """Without settling the model finds what is doubled: it would find it in the writer too."""
    # It ends at the first find, most often within some hundred examples.
    options = settings(max_examples=20_000, stateful_step_count=40, phases=[Phase.generate], database=None)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Hasty, settings=options)


def placed(*, expiration_ms: int = 0, producer: ProducerState | None = None) -> Writer:
    """A writer in its place, at offset 10, which has sent nothing yet."""
    writer = Writer(abandoned=False, expiration_ms=expiration_ms)
    assert writer.looked(LogLook(10, 10, producer), settled=False) is Placement.READY
    return writer


def known() -> Writer:
    """A writer at offset 15 whose last batch was acknowledged and is fresh: the leader knows it."""
    writer = placed(expiration_ms=EXPIRATION_MS)
    writer.sent(5, NOW)
    assert writer.answered(codes.NONE, 10) is AppendVerdict.ADVANCED
    return writer


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (codes.MESSAGE_TOO_LARGE, AppendVerdict.TOO_LARGE),
        (codes.TOPIC_AUTHORIZATION_FAILED, AppendVerdict.DENIED),
        (codes.INVALID_TIMESTAMP, AppendVerdict.REFUSED),
        (codes.UNKNOWN_TOPIC_ID, AppendVerdict.RECREATED),
        (codes.OUT_OF_ORDER_SEQUENCE_NUMBER, AppendVerdict.RESOLVE),
        (codes.NOT_LEADER_OR_FOLLOWER, AppendVerdict.RESOLVE),
        (codes.REQUEST_TIMED_OUT, AppendVerdict.RESOLVE),
        (codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND, AppendVerdict.RESOLVE),
        (12345, AppendVerdict.RESOLVE),
    ],
)
def test_errors_ask_for_something(code: int, verdict: AppendVerdict) -> None:
    """An error never moves the writer, and what is unknown asks the log."""
    writer = Writer(abandoned=False)
    writer.looked(LogLook(10, 10, None), settled=False)
    writer.sent(5)
    assert writer.answered(code, 99) is verdict
    assert (writer.position, writer.in_flight) == (10, False)


@pytest.mark.parametrize("base_offset", [9, 11])
def test_bytes_appended_elsewhere_break_the_lane(base_offset: int) -> None:
    """Success at another offset than expected, on either side of it, means that somebody else writes."""
    writer = placed()
    writer.sent(5)
    assert writer.answered(codes.NONE, base_offset) is AppendVerdict.BROKEN
    assert writer.position == 10


def test_truncated_targets_are_noticed() -> None:
    """A log that ends before what was acknowledged is written again from there."""
    writer = Writer(abandoned=False)
    writer.looked(LogLook(10, 10, None), settled=False)
    writer.sent(5)
    writer.answered(codes.NONE, 10)
    assert writer.looked(LogLook(12, 12, None), settled=False) is Placement.READY
    assert (writer.truncated_from, writer.position) == (15, 12)
    assert writer.looked(LogLook(14, 14, None), settled=False) is Placement.READY
    assert writer.truncated_from is None


def test_the_end_has_to_stand_still_for_the_whole_settling_time() -> None:
    """Whenever it moved the time begins anew, also if what moved it is not replicated yet."""
    writer = Writer(abandoned=True)
    assert writer.looked(LogLook(10, 10, None), settled=False) is Placement.SETTLE
    assert writer.looked(LogLook(12, 10, None), settled=True) is Placement.SETTLE
    assert writer.looked(LogLook(12, 10, None), settled=True) is Placement.WAIT
    assert writer.looked(LogLook(13, 12, None), settled=True) is Placement.SETTLE
    assert writer.looked(LogLook(13, 13, None), settled=False) is Placement.SETTLE
    assert writer.looked(LogLook(13, 13, None), settled=True) is Placement.READY
    assert writer.position == 13


def test_nothing_is_sent_behind_a_request_a_leader_may_not_know() -> None:
    """Several are in flight only if the acknowledged one and all of them have fresh records, and none failed."""
    writer = Writer(abandoned=False, expiration_ms=EXPIRATION_MS)
    writer.looked(LogLook(10, 10, None), settled=False)
    for max_timestamp, is_live in ((NOW - EXPIRATION_MS, False), (NOW, True), (NOW - EXPIRATION_MS, False)):
        writer.sent(5, max_timestamp)
        assert writer.answered(codes.NONE, writer.position) is AppendVerdict.ADVANCED
        assert writer.may_send(NOW)
        writer.sent(5, max_timestamp)
        assert writer.may_send(NOW) is is_live
        writer.answered(codes.NONE, writer.position)
    writer.sent(5, NOW)
    writer.answered(codes.NONE, writer.position)
    writer.sent(5, NOW)
    writer.sent(5, NOW - EXPIRATION_MS)
    assert not writer.may_send(NOW)
    writer.answered(codes.NONE, writer.position)
    assert not writer.may_send(NOW)
    writer.answered(codes.NONE, writer.position)
    writer.sent(5, NOW)
    writer.answered(codes.NONE, writer.position)
    for _ in range(DEPTH):
        assert writer.may_send(NOW)
        writer.sent(5, NOW)
    assert not writer.may_send(NOW)
    assert writer.answered(codes.NOT_ENOUGH_REPLICAS, -1) is AppendVerdict.RESOLVE
    assert not writer.may_send(NOW)
    for _ in range(DEPTH - 1):
        assert writer.answered(codes.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) is AppendVerdict.RESOLVE
    assert (writer.position, writer.in_flight) == (60, False)


def test_a_new_writer_has_no_place() -> None:
    """Before the log was looked at nothing is known: no offset, no sequence of ours, nothing on its way."""
    writer = Writer(abandoned=True)
    assert (writer.position, writer.unsequenced, writer.truncated_from) == (-1, 0, None)
    assert (writer.abandoned, writer.in_flight) == (True, False)
    assert not Writer(abandoned=False).abandoned


def test_what_is_not_replicated_is_waited_for() -> None:
    """A log whose end could still be lost is no place; a mark beyond the end, of an earlier leader, is no reason."""
    writer = Writer(abandoned=False)
    assert writer.looked(LogLook(12, 11, None), settled=True) is Placement.WAIT
    assert writer.position == -1
    assert writer.looked(LogLook(12, 13, None), settled=True) is Placement.READY
    assert writer.position == 12


def test_what_was_abandoned_is_settled_first() -> None:
    """Until the time has passed at an end that did not move: only then nothing of it can arrive any more."""
    writer = placed()
    writer.sent(5)
    writer.abandon()
    assert (writer.in_flight, writer.abandoned) == (False, True)
    assert writer.looked(LogLook(10, 10, None), settled=False) is Placement.SETTLE
    assert writer.looked(LogLook(15, 15, None), settled=True) is Placement.SETTLE
    assert (writer.position, writer.abandoned) == (10, True)
    assert writer.looked(LogLook(15, 15, None), settled=True) is Placement.READY
    assert (writer.position, writer.abandoned) == (15, False)


def test_the_first_look_at_an_empty_log_settles_too() -> None:
    """An end of 0, or of 1, is not the end that was seen before: nothing was."""
    for end in (0, 1):
        assert Writer(abandoned=True).looked(LogLook(end, end, None), settled=True) is Placement.SETTLE


def test_what_a_muted_broker_may_read_late_is_held_until_the_latest_moment() -> None:
    """Several requests are abandoned; one of which nothing was said by the broker changes nothing."""
    writer = placed()
    for held_until in (50.0, 20.0):
        writer.sent(5)
        writer.abandon(held_until)
    writer.sent(5)
    writer.abandon()
    assert writer.held_until == 50.0


@pytest.mark.parametrize("code", [codes.NONE, codes.MESSAGE_TOO_LARGE, codes.TOPIC_AUTHORIZATION_FAILED])
def test_behind_a_failure_only_the_log_counts(code: int) -> None:
    """Whatever is said of a request behind one that failed: nothing is split or given up before the log was asked."""
    writer = known()
    writer.sent(5, NOW)
    writer.sent(5, NOW)
    assert writer.answered(codes.NOT_ENOUGH_REPLICAS, -1) is AppendVerdict.RESOLVE
    assert writer.answered(code, 20 if code == codes.NONE else -1) is AppendVerdict.RESOLVE
    assert (writer.position, writer.in_flight) == (15, False)


def test_requests_follow_one_another() -> None:
    """Each belongs where the one before it ends, by offset and by sequence, and only the next one may leave."""
    writer = known()
    assert (writer.next_offset, writer.sequence) == (15, 15)
    writer.sent(3, NOW)
    assert (writer.position, writer.next_offset, writer.sequence) == (15, 18, 18)
    assert writer.takes(18, 18, NOW)
    assert not writer.takes(15, 15, NOW)
    assert not writer.takes(18, 17, NOW)
    assert not writer.takes(18, 18, NOW + EXPIRATION_MS)


def test_sequences_follow_from_what_the_leader_remembers() -> None:
    """Offsets without a sequence of ours stand between; where the leader remembers nothing it takes any."""
    writer = placed(producer=ProducerState(epoch=0, last_sequence=6))
    assert (writer.unsequenced, writer.sequence) == (3, 7)
    writer.advanced_unsequenced(2)
    assert (writer.position, writer.unsequenced, writer.sequence) == (12, 5, 7)
    assert writer.takes(12, 7, NOW)
    assert placed(producer=ProducerState(epoch=0, last_sequence=0)).sequence == 1
    for unknown in (None, ProducerState(epoch=0, last_sequence=-1)):
        assert writer.looked(LogLook(12, 12, unknown), settled=False) is Placement.READY
        assert (writer.unsequenced, writer.sequence) == (0, 12)


def test_sequences_wrap_behind_their_last() -> None:
    """Behind 2^31 - 1 comes 0, on the way up and on the way back."""
    writer = Writer(abandoned=False)
    writer.looked(LogLook(SEQUENCE_MASK + 2, SEQUENCE_MASK + 2, ProducerState(0, SEQUENCE_MASK)), settled=False)
    assert (writer.unsequenced, writer.sequence) == (1, 0)
    writer.looked(LogLook(2, 2, ProducerState(0, SEQUENCE_MASK)), settled=False)
    assert (writer.unsequenced, writer.sequence) == (2, 0)
    assert writer.takes(2, 0, NOW)


def test_nothing_is_sent_behind_what_was_never_answered() -> None:
    """A look says nothing of how long the leader remembers, so the first request is alone again."""
    writer = known()
    assert writer.may_send(NOW)
    writer.looked(LogLook(15, 15, ProducerState(0, 14)), settled=False)
    writer.sent(5, NOW)
    assert not writer.may_send(NOW)


def test_a_leader_is_not_trusted_to_the_last_moment() -> None:
    """Clocks differ and requests take long: of a day's memory a quarter is left, of half an hour's ten minutes."""
    for expiration_ms, trusted_ms in ((EXPIRATION_MS, EXPIRATION_MS * 3 // 4), (1_800_000, 1_200_000)):
        writer = placed(expiration_ms=expiration_ms)
        writer.sent(5, NOW)
        writer.answered(codes.NONE, 10)
        writer.sent(5, NOW)
        assert writer.may_send(NOW + trusted_ms - 1)
        assert not writer.may_send(NOW + trusted_ms)


def test_control_records_and_refusals_leave_nothing_in_flight() -> None:
    """Both are answers: the next request may be the first one again."""
    writer = placed()
    writer.sent()
    writer.advanced_unsequenced(1)
    assert (writer.in_flight, writer.abandoned, writer.position) == (False, False, 11)
    writer.sent()
    writer.refused()
    assert (writer.in_flight, writer.abandoned, writer.next_offset) == (False, False, 11)


def test_requests_without_records_take_no_room() -> None:
    """A request whose records are not known, such as for control records, moves nothing by itself."""
    writer = placed()
    writer.sent()
    assert (writer.in_flight, writer.next_offset) == (True, 10)
    assert writer.answered(codes.NONE, 10) is AppendVerdict.ADVANCED
    assert writer.position == 10


def test_a_log_that_ends_where_it_did_was_not_truncated() -> None:
    """Only one that ends before what was acknowledged was."""
    writer = placed()
    writer.looked(LogLook(10, 10, None), settled=False)
    assert writer.truncated_from is None
