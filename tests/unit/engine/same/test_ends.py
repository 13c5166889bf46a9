"""Where lanes that keep their offsets go on, and what is believed of the end of the target's log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from isthmus.engine.brokers.routes import Leader, SourceRoutes, TargetRoutes
from isthmus.engine.outlook import USUAL_DOUBT
from isthmus.engine.run import LaneRun
from isthmus.engine.same.ends import Ends
from isthmus.engine.state.belief import TailCheck
from isthmus.engine.state.missing import Prefix
from isthmus.engine.state.writer import LogLook, Writer
from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster
from isthmus.model.lane import LaneMark, LaneState
from isthmus.model.problem import Problem
from testing.records.stored import PLAIN, one, stored
from testing.values.looks import NOWHERE, PRODUCER, Told, been_at, lane_of

LANE = lane_of().lane


def look(run: LaneRun, ends: Ends, end: int) -> None:
    """The target's log ends there."""
    assert ends.looked(run, LogLook(end, end, None)) is None


def test_what_is_believed_of_the_end_of_the_log() -> None:
    """The owner before vouches for where it ends by its mark. Whatever else is found is held against the source, and so
    is the same end once the source has another leader.
    """

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            source, target = SourceRoutes(client), TargetRoutes(client)
            ends = Ends(source, target, PRODUCER, settle_s=0.0)
            source._leaders[LANE.source_topic, LANE.partition] = Leader(1, 9)
            for left, end, check, epoch in (
                (None, 100, TailCheck.CONTENT, -1),
                (100, 100, TailCheck.PRODUCER, 7),
                (100, 101, TailCheck.CONTENT, -1),
                (100, 99, TailCheck.CONTENT, 7),
            ):
                run = LaneRun(LANE, Writer(abandoned=False))
                run.belief.left = None if left is None else LaneMark(*LANE.key, left, 7)
                look(run, ends, end)
                assert (run.belief.check, run.belief.is_known, run.intake.read_epoch) == (check, left == end, epoch)
            run.belief.check, run.belief.is_known, run.belief.source_epoch = TailCheck.DONE, True, 9
            look(run, ends, 99)
            assert run.belief.check is TailCheck.DONE
            source._leaders[LANE.source_topic, LANE.partition] = Leader(2, 10)
            look(run, ends, 99)
            assert (run.belief.check, run.belief.is_known) == (TailCheck.CONTENT, True)
            look(run, ends, 98)
            assert (run.belief.check, run.belief.is_known) == (TailCheck.CONTENT, False)

    asyncio.run(scenario())


async def found(work: Callable[[Ends], None], *, settle_s: float = 0.0) -> None:
    """Look for places where source and target have the same leader."""
    async with Client(NOWHERE) as client:
        work(Ends(Told(client), Told(client), PRODUCER, settle_s=settle_s))


def test_the_settling_time_counts_from_the_last_look_that_asked_for_it() -> None:
    """A request that is abandoned later has the whole time, although the lane was looked at before."""
    run = LaneRun(LANE, Writer(abandoned=False))

    def work(ends: Ends) -> None:
        look(run, ends, 5)
        run.writer.abandon()
        assert ends.looked(run, LogLook(5, 5, None)) == 60.0
        assert ends.looked(run, LogLook(5, 5, None)) == 60.0
        ends._looked_at[run] -= 60.0
        look(run, ends, 5)
        assert not run.writer.abandoned

    asyncio.run(found(work, settle_s=60.0))


def test_the_settling_time_begins_when_a_broker_over_its_quota_reads_on() -> None:
    """However long it was waited before that: what it held back comes in only then."""
    run = LaneRun(LANE, Writer(abandoned=False))

    def work(ends: Ends) -> None:
        look(run, ends, 5)
        reads_on = time.monotonic() + 1000.0
        run.writer.abandon(reads_on)
        pause_s = ends.looked(run, LogLook(5, 5, None))
        assert pause_s is not None
        assert 900.0 < pause_s <= 1000.0
        ends._looked_at[run] -= 900.0
        assert ends.looked(run, LogLook(5, 5, None)) is not None
        assert run.writer.abandoned, "the settling time is over, and it still reads nothing"
        run.writer.held_until = time.monotonic() - 70.0
        ends._looked_at[run] = run.writer.held_until - 1.0
        assert ends.looked(run, LogLook(5, 5, None)) == 60.0, "nobody has looked since it read on"
        ends._looked_at[run] = run.writer.held_until + 1.0
        look(run, ends, 5)
        assert not run.writer.abandoned

    asyncio.run(found(work, settle_s=60.0))


def test_an_owner_that_left_something_on_its_way_does_not_vouch_for_the_end() -> None:
    """Its mark was true when it was made; what arrived since is compared with the source."""

    def work(ends: Ends) -> None:
        for abandoned, check in ((False, TailCheck.PRODUCER), (True, TailCheck.CONTENT)):
            run = LaneRun(LANE, Writer(abandoned=abandoned))
            run.belief.left = LaneMark(*LANE.key, 100, 7)
            ends.looked(run, LogLook(100, 100, None))
            if abandoned:
                look(run, ends, 100)
            assert run.belief.check is check

    asyncio.run(found(work))


def test_a_milestone_tells_the_epoch_of_what_lies_before_it_and_vouches_for_nothing() -> None:
    """The end is held against the source all the same. What lies behind the milestone may be of a later epoch."""

    def work(ends: Ends) -> None:
        for end, epoch, is_known in ((90, 7, False), (100, 7, True), (110, -1, False)):
            run = lane_of()
            run.belief.milestone = been_at(run, 100)
            look(run, ends, end)
            assert (run.belief.check, run.intake.read_epoch, run.belief.is_known) == (
                TailCheck.CONTENT,
                epoch,
                is_known,
            )

    asyncio.run(found(work))


def test_a_mark_counts_before_a_milestone_and_both_at_the_beginning_alone() -> None:
    """The mark is the later word; and what the log has when it changes later, somebody else may have written."""

    def work(ends: Ends) -> None:
        run = lane_of()
        run.belief.left, run.belief.milestone = LaneMark(*run.lane.key, 100, 8), been_at(run, 90)
        look(run, ends, 100)
        assert (run.intake.read_epoch, run.belief.is_known) == (8, True)
        run.belief.left = None
        look(run, ends, 90)
        assert (run.intake.read_epoch, run.belief.is_known) == (8, False)

    asyncio.run(found(work))


def test_nobody_vouches_for_the_end_of_a_lane_that_is_doubted() -> None:
    """Whoever saw that somebody else may have written has it compared with the source, whatever the owner left."""

    def work(ends: Ends) -> None:
        for doubts, check in ((0, TailCheck.PRODUCER), (1, TailCheck.CONTENT)):
            run = lane_of(doubts=doubts)
            run.belief.left = LaneMark(*run.lane.key, 100, 7)
            look(run, ends, 100)
            assert run.belief.check is check

    asyncio.run(found(work))


@pytest.mark.parametrize(
    ("begins", "position", "is_held"), [(3, 3, True), (3, 5, True), (4, 3, False), (3, 6, False), (None, 3, False)]
)
def test_what_the_source_deleted_may_be_here(begins: int | None, position: int, is_held: bool) -> None:
    """What was read before it was deleted can still be written, if it begins where the target ends or before."""
    batches = [] if begins is None else [one(stored(begins, [PLAIN] * (6 - begins)))]
    run = lane_of(*batches, position=position)
    run.source_log.start, run.source_log.end = 8, 20

    def work(ends: Ends) -> None:
        assert ends.decided(run) is None

    asyncio.run(found(work))

    assert (run.state is LaneState.DATA_GAP) is not is_held


@pytest.mark.parametrize(
    ("position", "stored", "prefix"),
    [(0, False, 50), (30, True, 50), (50, True, 50), (30, False, None), (50, False, None), (60, False, None)],
)
def test_a_lane_begins_behind_what_is_left_at_the_source(position: int, stored: bool, prefix: int | None) -> None:
    """An empty log, or one of fillers, is filled up to there; one that holds records goes on where it ends."""
    run = lane_of(position=position, begin_offset=50)
    run.source_log.start, run.source_log.end = 8, 100
    if stored:
        run.missing.prefix = Prefix(run.first, is_stored=True)

    def work(ends: Ends) -> None:
        assert ends.decided(run) is None

    asyncio.run(found(work))

    assert (None if run.missing.prefix is None else run.missing.prefix.end) == prefix
    assert run.state is LaneState.STARTING


@pytest.mark.parametrize("is_foreign", [True, False])
def test_a_source_that_lags_is_looked_at_again(is_foreign: bool) -> None:
    """Somebody else may have written what lies beyond it, or the link itself under another producer id: a source that
    gets there in time has it compared, one that stays behind ends the lane.
    """
    run = lane_of(position=16)
    run.source_log.start, run.source_log.end = 0, 12
    run.belief.beyond = Problem("somebody else writes") if is_foreign else None

    def work(ends: Ends) -> None:
        assert ends.decided(run) is not None
        state = LaneState.STARTING if is_foreign else LaneState.SOURCE_UNAVAILABLE
        assert (run.state, run.belief.check) == (state, TailCheck.CONTENT)
        assert run.problem is not None
        run.source_log.end = 16
        assert ends.decided(run) is None
        assert not run.is_over
        run.source_log.end = 12
        assert [ends.decided(run) is None for _ in range(USUAL_DOUBT.looks)] == [False, False, True]
        assert run.state is (LaneState.FOREIGN_WRITE if is_foreign else LaneState.DIVERGED)

    asyncio.run(found(work))


def test_what_a_lane_is_known_to_have_copied() -> None:
    """Up to where the owner before was, and then as far as it was itself when its end was last believed."""

    def work(ends: Ends) -> None:
        run = lane_of()
        run.belief.milestone = been_at(run, 90)
        look(run, ends, 100)
        assert run.belief.believed_end == 90
        look(run, ends, 105)
        assert run.belief.believed_end == 90, "nobody has compared what came since"
        run.belief.believe(7)
        look(run, ends, 120)
        assert run.belief.believed_end == 105

    asyncio.run(found(work))
