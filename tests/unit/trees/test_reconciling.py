"""A leaf that was left while it was gone gets what it lacks: what counts as that, and what cannot come yet."""

from __future__ import annotations

import uuid
from dataclasses import replace

from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.trees.switching import DoubtedLane, LeafDoubt, TargetChoice, still_lacking
from isthmus.trees.reconciling import finish_choice

ID = uuid.UUID(int=7)
LANES = [
    Lane(
        source_topic=SourceTopic("flights"),
        source_topic_id=ID,
        target_topic=TargetTopic("flights"),
        target_topic_id=uuid.UUID(int=8),
        partition=partition,
        is_mapped=True,
        end_offset=20,
    )
    for partition in (0, 1)
]
DOUBT = LeafDoubt(leaf="c", lanes=tuple(DoubtedLane(SourceTopic("flights"), ID, each, -1, 5, 20) for each in (0, 1)))
LEFT = TargetChoice(target="d", wanted="d", serial=4, former=("c",), doubts=(DOUBT,))
BACK = LEFT.going_back("c")
HAS_ALL = {
    lane.key: LaneReport(key=LaneKey(lane.target_topic, lane.partition), state=LaneState.ACTIVE, position=20)
    for lane in LANES
}
LOST = replace(
    HAS_ALL[LANES[1].key], state=LaneState.DIVERGED, position=5, problem=Problem("the target lost records", "")
)


def test_a_leaf_lacks_what_no_lane_has_brought() -> None:
    """One that is under way may come yet; one that has ended, or that nobody can copy, waits for an operator, and is no
    word that the leaf has it.
    """
    assert still_lacking(DOUBT.ends, LANES, HAS_ALL) == ()
    on_its_way = replace(LOST, state=LaneState.ACTIVE)
    for report, is_stuck, told in (
        (on_its_way, False, "has what comes before 5 of flights-1, and gets it up to 20"),
        (LOST, True, "cannot get flights-1 up to 20, which is DIVERGED: the target lost records"),
    ):
        (found,) = still_lacking(DOUBT.ends, LANES, {**HAS_ALL, report.key: report})
        assert (found.begin, found.why, found.is_stuck) == (DOUBT.ends[1], told, is_stuck)
    (unheard,) = still_lacking(DOUBT.ends, LANES, {LANES[0].key: HAS_ALL[LANES[0].key]})
    assert (unheard.why, unheard.is_stuck) == ("has nothing of flights-1, and gets it up to 20", False)
    (refused,) = still_lacking(DOUBT.ends, LANES[:1], HAS_ALL)
    assert (refused.why, refused.is_stuck) == ("cannot get flights-1 up to 20: it is not copied now", True)


def test_a_topic_that_was_created_anew_has_nothing_of_it() -> None:
    """What the source does not have any more nobody can get."""
    anew = [LANES[0], replace(LANES[1], source_topic_id=uuid.UUID(int=9))]
    assert still_lacking(DOUBT.ends, anew, {LANES[0].key: HAS_ALL[LANES[0].key]}) == ()


def test_what_a_leaf_still_lacks_stays_in_doubt() -> None:
    """The distributor goes on with its target all the same; and of that alone the leaf is in doubt from then on."""
    assert finish_choice(BACK, "c", DOUBT.ends, ()) == BACK.reconcile()
    kept = finish_choice(BACK, "c", DOUBT.ends, (DOUBT.ends[1],))
    assert kept is not None
    assert (kept.leaf, kept.finishes, kept.serial) == ("d", "", BACK.serial + 1)
    assert kept.doubts == (LeafDoubt(leaf="c", lanes=DOUBT.lanes[1:]),)


def test_what_was_found_out_of_one_doubt_says_nothing_of_the_next() -> None:
    """A process that stood still meanwhile has seen that the leaf had what it lacked then: it was left again since."""
    later = replace(DOUBT, lanes=tuple(lane._replace(position=30, end=50) for lane in DOUBT.lanes))
    again = replace(LEFT, serial=9, doubts=(later,)).going_back("c")
    assert finish_choice(again, "c", DOUBT.ends, ()) is None
    assert finish_choice(LEFT, "c", DOUBT.ends, ()) is None
    assert finish_choice(None, "c", DOUBT.ends, ()) is None
