"""Records that Isthmus did not write are found, and nothing else is."""

from __future__ import annotations

import uuid
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from isthmus.lanes.audit import Audit, LaneWord
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import TargetTopic
from testing.values.audited import LANE

KEY = LaneKey(TargetTopic("orders"), 0)
WEST = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))


def told(position: int, beat: int, state: LaneState = LaneState.ACTIVE) -> dict[LaneKey, LaneWord]:
    """What a lane says of itself, having heard a beat."""
    return {KEY: LaneWord(LaneReport(key=KEY, state=state, position=position, source_end=position), beat)}


def looked(audit: Audit, *, end: int, position: int, heard: int, beat: int, **report: LaneState) -> bool:
    """Whether a look at the log's end and a lane's report finds a foreign write."""
    audit.look([LANE], {KEY: LogRange(0, end, end)}, told(position, heard, **report), beat)
    return KEY in audit.found


def find(audit: Audit, *, end: int, position: int, beat: int = 1) -> None:
    """Have a foreign write found by three looks."""
    for each in range(beat, beat + 3):
        is_found = looked(audit, end=end, position=position, heard=each, beat=each)
    assert is_found


def test_others_may_write_where_offsets_are_mapped() -> None:
    """However far a log is ahead of what its lane says: that speaks of the source. What was found before a topic
    went on mapped is over.
    """
    audit, lane = Audit(WEST), replace(LANE, is_mapped=True)
    for beat in range(5):
        audit.look([lane], {KEY: LogRange(0, 900, 900)}, told(10, beat), beat)
    assert not audit.found
    assert audit.add_doubts(lane) is lane
    find(audit, end=900, position=10)
    audit.review([lane], told(10, 9))
    assert not audit.found


def test_a_log_that_stays_ahead_of_its_lane_was_written_to() -> None:
    """A lane that stands before the end seen by a look, and knows what the controller said since, did not write it."""
    audit = Audit(WEST)
    assert not looked(audit, end=11, position=10, heard=5, beat=5)
    assert not looked(audit, end=11, position=10, heard=6, beat=9)
    assert not looked(audit, end=11, position=10, heard=9, beat=12)
    assert looked(audit, end=12, position=10, heard=10, beat=15)
    assert audit.found[KEY].end == 11


def test_a_frozen_worker_or_ledger_proves_nothing() -> None:
    """What was reported before, or is only heard later, says nothing of a log that moved: however often one looks."""
    audit = Audit(WEST)
    for beat in range(5, 50, 9):
        assert not looked(audit, end=11, position=10, heard=5, beat=beat)
    # It woke up, or another took its lanes over.
    assert not looked(audit, end=11, position=11, heard=48, beat=50)
    assert not looked(audit, end=11, position=11, heard=60, beat=61)


def test_a_lane_that_catches_up_wrote_itself() -> None:
    """A report may be older than the log's end, however often: the lane gets there later."""
    audit = Audit(WEST)
    for beat, offset in enumerate(range(0, 100, 10)):
        assert not looked(audit, end=offset + 10, position=offset, heard=beat, beat=beat)


def test_suspicion_ends_when_lane_and_log_agree() -> None:
    """One look at a time counts: what was explained is forgotten."""
    audit = Audit(WEST)
    assert not looked(audit, end=11, position=10, heard=1, beat=1)
    assert not looked(audit, end=11, position=11, heard=3, beat=3)
    assert not looked(audit, end=12, position=11, heard=5, beat=5)


def test_lanes_that_are_not_active_prove_nothing() -> None:
    """A lane that lost its target does not know how far it came."""
    audit = Audit(WEST)
    for beat in range(3):
        state = LaneState.TARGET_UNAVAILABLE
        assert not looked(audit, end=11, position=10, heard=beat, beat=beat, state=state)
        assert not looked(audit, end=11, position=-1, heard=beat, beat=beat)


def test_what_a_lane_explains_is_taken_back() -> None:
    """A lane that has looked anew and stands behind the end that was found goes on; until then, or with a verdict of
    its own, the find stands.
    """
    audit = Audit(WEST)
    find(audit, end=11, position=10)
    for position, state in ((10, LaneState.ACTIVE), (11, LaneState.STARTING), (11, LaneState.DIVERGED)):
        audit.review([LANE], told(position, 3, state))
        assert KEY in audit.found
    audit.review([LANE], told(11, 3))
    assert not audit.found


def test_a_lane_is_given_anew_with_every_find() -> None:
    """The lane that runs differs after a find, once, so that it looks at its log again, and stays as it is after."""
    audit = Audit(WEST)
    assert audit.add_doubts(LANE) == LANE
    find(audit, end=11, position=10)
    assert (first := audit.add_doubts(LANE)) != LANE
    find(audit, end=12, position=10, beat=4)
    audit.review([LANE], told(11, 7))
    assert audit.add_doubts(LANE) == first
    find(audit, end=12, position=11, beat=8)
    assert audit.add_doubts(LANE) not in (LANE, first)


def test_a_topic_that_is_another_one_now_is_judged_anew() -> None:
    """A find belongs to the topic it was made in: deleted, or created again, it is gone with it."""
    for lanes in ([], [replace(LANE, target_topic_id=uuid.uuid4())]):
        audit = Audit(WEST)
        find(audit, end=11, position=10)
        audit.review(lanes, {})
        assert not audit.found


FEW = st.sampled_from([0, 1, 2, 9])


class Link(RuleBasedStateMachine):
    """A task that writes and reports through a ledger that delays, and a controller that beats and looks.

    All that is sent arrives in its order, whenever it pleases, and anybody may freeze. By assumption a lane that is
    owed an answer for longer than from one look to the next is not active.
    """

    @initialize()
    def begin(self) -> None:
        self.audit = Audit(WEST)
        self.end = self.position = 0
        self.beat = self.heard = 0
        self.looks_unanswered = 0
        self.beats: list[int] = []
        self.reports: list[dict[LaneKey, LaneWord]] = []
        self.known = told(0, 0)

    @rule()
    def append(self) -> None:
        """A batch of the task is in the log; it has not heard so yet."""
        self.end += 1

    @rule()
    def hear_answer(self) -> None:
        """The task hears of all it has written."""
        self.position, self.looks_unanswered = self.end, 0

    @precondition(lambda self: self.looks_unanswered < 2)
    @rule(beats=FEW)
    def report(self, beats: int) -> None:
        """The task hears some of the beats that are on their way, and reports."""
        for _ in range(min(beats, len(self.beats))):
            self.heard = self.beats.pop(0)
        self.reports.append(told(self.position, self.heard))

    @rule(reports=FEW)
    def look(self, reports: int) -> None:
        """The controller looks, holds against the log what it has heard by then, and beats."""
        for _ in range(min(reports, len(self.reports))):
            self.known = self.reports.pop(0)
        if self.position < self.end:
            self.looks_unanswered += 1
        self.audit.look([LANE], {KEY: LogRange(0, self.end, self.end)}, self.known, self.beat)
        self.beat += 1
        self.beats.append(self.beat)

    @invariant()
    def accuses_nobody(self) -> None:
        """Nobody else writes here."""
        assert not self.audit.found


def test_what_a_task_wrote_itself_is_never_taken_for_somebody_elses() -> None:
    """However late anything is heard, and whoever freezes, no foreign write is found where there is none."""
    run_state_machine_as_test(Link, settings=settings(max_examples=300, stateful_step_count=30))
