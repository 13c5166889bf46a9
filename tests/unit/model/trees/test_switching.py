"""A distributor that goes over to another leaf: when it may, and from where on."""

from __future__ import annotations

import uuid
from dataclasses import replace

from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.trees.switching import (
    Allowance,
    BeginEpoch,
    LaneBegin,
    LeftAt,
    Stopped,
    TargetChoice,
    before_begin,
    begin_of,
    behind,
    stopped_at,
)

ID = uuid.UUID(int=7)
FLIGHTS = SourceTopic("flights")
KEY = LaneKey(TargetTopic("flights"), 0)
LANE = Lane(
    source_topic=SourceTopic("flights"),
    source_topic_id=ID,
    target_topic=KEY.topic,
    target_topic_id=uuid.UUID(int=8),
    partition=0,
    is_mapped=True,
    hold=3,
)


def test_where_lanes_stopped_is_known_once_all_are_held() -> None:
    """One that still copies, one that was not heard of, one that copied once and is looked at no more, and one that
    stopped for an earlier wish, which was taken back, keep it from being known.
    """
    held = LaneReport(key=KEY, state=LaneState.HELD, position=12, hold=3)
    begins = (LaneBegin(FLIGHTS, ID, 0, 12),)
    assert stopped_at([LANE], {KEY: held}, {KEY: Cursor(12, 5, 30)}, 3) == (Stopped(begins), "")
    active = replace(held, state=LaneState.ACTIVE)
    assert stopped_at([LANE], {KEY: active}, {}, 3) == (Stopped(), "flights-0 has not stopped yet: it is ACTIVE")
    assert stopped_at([LANE], {}, {}, 3) == (Stopped(), "flights-0 has not stopped yet: it is STARTING")
    assert stopped_at([LANE], {KEY: replace(held, position=-1)}, {}, 3)[1] != ""
    other = LaneKey(TargetTopic("arrivals"), 0)
    stopped, why = stopped_at([LANE], {KEY: held}, {KEY: Cursor(12, 5, 30), other: Cursor(1, 1, 1)}, 3)
    assert stopped == Stopped()
    assert "arrivals-0 was distributed, and is not looked at now" in why
    assert stopped_at([LANE], {KEY: held}, {}, 5) == (Stopped(), "flights-0 has not stopped yet: it is STARTING")


def test_what_lies_before_a_beginning_has_its_leader_epoch() -> None:
    """It is known from the map, so that is waited for; a source that loses it has others in its place then, which
    nobody would copy. Of what was begun by a release that knows no epochs nothing is known.
    """
    held = LaneReport(key=KEY, state=LaneState.HELD, position=12, hold=3)
    stopped, why = stopped_at([LANE], {KEY: held}, {KEY: Cursor(9, 5, 30, source_epoch=4)}, 3)
    assert (stopped, why) == (Stopped(), "flights-0 has stopped, and its map does not have all that it copied yet")
    stopped, _ = stopped_at([LANE], {KEY: held}, {KEY: Cursor(12, 5, 30, source_epoch=4, left_out=2)}, 3)
    assert stopped.epochs == (BeginEpoch(FLIGHTS, ID, 0, 10, 4),)
    over = TargetChoice(target="c", wanted="d").over(*stopped)
    assert before_begin(over.begins, over.epochs, FLIGHTS, ID, 0) == (2, 4)
    assert before_begin(over.begins, over.epochs, FLIGHTS, uuid.UUID(int=9), 0) == (0, -1), "another topic"
    again = over.ask_for("c").over((LaneBegin(FLIGHTS, ID, 0, 40),))
    assert (again.epochs, before_begin(again.begins, again.epochs, FLIGHTS, ID, 0)) == ((), (0, -1))


def test_what_a_source_lost_before_its_leaf_was_left_is_told() -> None:
    """The next leaf begins in the epoch in which its source ended, or with what it lost: then it stops there. Where a
    partition ends that its broker does not know is not known: all that was allowed is in doubt.
    """
    forced = TargetChoice(target="c", wanted="c").ask_for("d", is_forced=True)
    allowed = [Allowance(FLIGHTS, ID, 0, 10, 90)]
    copied = BeginEpoch(FLIGHTS, ID, 0, 10, 4)
    left = forced.leave(allowed, {(FLIGHTS, 0): LeftAt(50, 6)})
    assert before_begin(left.begins, left.epochs, FLIGHTS, ID, 0) == (0, 6)
    lost = forced.leave(allowed, {(FLIGHTS, 0): LeftAt(50, 6, copied)})
    assert before_begin(lost.begins, lost.epochs, FLIGHTS, ID, 0) == (40, 4)
    unknown = forced.leave(allowed, {})
    assert (unknown.begins, unknown.doubts[0].records_max) == ((LaneBegin(FLIGHTS, ID, 0, 90),), 80)
    assert before_begin(unknown.begins, unknown.epochs, FLIGHTS, ID, 0) == (0, -1)


def test_a_leaf_that_is_left_got_nothing_from_before_its_beginning() -> None:
    """What a lane does not run now that copied to it once, its map has of that time, and so has what is stated. Another
    leaf got what came in between: the next one begins behind that.
    """
    begins = (LaneBegin(FLIGHTS, ID, 0, 20_000),)
    forced = TargetChoice(target="c", wanted="c", former=("c", "d"), begins=begins).ask_for("e", is_forced=True)
    allowed = [Allowance(FLIGHTS, ID, 0, 100, 10_100)]
    for ends in ({(FLIGHTS, 0): LeftAt(30_000, 6)}, {}):
        left = forced.leave(allowed, ends)
        assert (left.begins, left.doubts) == (begins, ())
    resent = replace(forced, is_resent=True).leave(allowed, {(FLIGHTS, 0): LeftAt(30_000, 6)})
    assert resent.begins == begins


def test_a_distributor_is_behind_until_it_has_dealt_with_everything() -> None:
    """Also with what it leaves alone; an empty log is nothing to deal with, wherever it ends."""
    logs = {("flights", 0): LogRange(3, 20, 20), ("flights", 1): LogRange(5, 5, 5)}
    assert behind(logs, {}) == KEY
    assert behind(logs, {KEY: Cursor(19, 4, 90)}) == KEY
    assert behind(logs, {KEY: Cursor(20, 4, 90)}) is None


def test_a_topic_that_was_created_anew_begins_anew() -> None:
    """What was said of another topic of the name says nothing of it; a broker without topic ids cannot tell."""
    begins = [LaneBegin(SourceTopic("flights"), ID, 1, 40)]
    assert begin_of(begins, SourceTopic("flights"), ID, 1) == 40
    assert begin_of(begins, SourceTopic("flights"), uuid.UUID(int=0), 1) == 40
    assert begin_of(begins, SourceTopic("flights"), uuid.UUID(int=9), 1) == -1
    assert begin_of(begins, SourceTopic("flights"), ID, 0) == -1


def test_a_choice_is_asked_for_taken_back_and_carried_out() -> None:
    """Each change has a number of its own, so that what was found out for one is not taken for another."""
    first = TargetChoice(target="c", wanted="d")
    back = first.ask_for("c")
    assert (first.is_under_way, back.is_under_way, back.serial) == (True, False, 2)
    begins = (LaneBegin(SourceTopic("flights"), ID, 0, 12),)
    done = first.over(begins)
    assert (done.target, done.wanted, done.former, done.begins, done.serial) == ("d", "d", ("c",), begins, 2)
    again = done.ask_for("c").over(begins)
    assert (again.target, again.former, again.serial) == ("c", ("c", "d"), 4)


def test_what_a_leaf_was_never_sent_begins_where_it_did() -> None:
    """A partition that the present target could not take is not distributed from its beginning again at the next one:
    the leaf before has that.
    """
    flights, arrivals = LaneBegin(SourceTopic("flights"), ID, 0, 12), LaneBegin(SourceTopic("arrivals"), ID, 0, 40)
    choice = TargetChoice(target="c", wanted="d").over([flights, arrivals]).ask_for("e")
    assert {*choice.over([flights._replace(offset=20)]).begins} == {flights._replace(offset=20), arrivals}
    anew = arrivals._replace(topic_id=uuid.UUID(int=9), offset=3)
    assert {*choice.over([anew]).begins} == {flights, anew}, "a topic that was created anew"
