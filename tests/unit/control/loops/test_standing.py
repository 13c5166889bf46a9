"""The data, the topics and the groups of a link as loops."""

from __future__ import annotations

import pytest

from isthmus.control.loops.standing import data_standing, groups_standing, topics_standing
from isthmus.control.topics.plan import Action, LinkPlan, TopicPlan
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.progress import LinkProgress
from isthmus.model.state import LinkState

WHY = Problem("it is so", "do this")
REFUSED = TopicPlan(
    topic=TargetTopic("orders"),
    source_topic=SourceTopic("orders"),
    action=Action.REFUSE,
    reasons=(WHY,),
    state=LaneState.REFUSED,
)


def report(state: LaneState, problem: Problem | None = None) -> LaneReport:
    return LaneReport(key=LaneKey(TargetTopic("orders"), 0), state=state, problem=problem)


def test_a_link_that_is_well_has_loops_that_are() -> None:
    """Lanes that start or wait are no error."""
    plan = LinkPlan(link="l", source="east", target="west")
    found = [
        data_standing([report(LaneState.ACTIVE), report(LaneState.STARTING)], None, is_paused=False),
        topics_standing(plan, None, is_paused=False),
        groups_standing(None, is_configured=True, is_paused=False),
    ]
    assert [loop.state for loop in found] == [LoopState.ACTIVE] * 3


def test_what_is_in_the_way_is_told() -> None:
    """A lane that stopped, a topic that is refused, a cluster that is away."""
    plan = LinkPlan(link="l", source="east", target="west", topics=(REFUSED,))
    found = [
        data_standing([report(LaneState.ACTIVE), report(LaneState.DIVERGED, WHY)], None, is_paused=False),
        data_standing([], WHY, is_paused=False),
        topics_standing(plan, None, is_paused=False),
        topics_standing(None, WHY, is_paused=False),
        groups_standing(WHY, is_configured=True, is_paused=False),
    ]
    assert [(loop.state, loop.problem) for loop in found] == [(LoopState.IN_ERROR, WHY)] * 5


@pytest.mark.parametrize("is_paused", [False, True])
def test_what_is_not_to_be_done_is_no_error(is_paused: bool) -> None:
    """A pause is told whatever else is, and groups that nobody configured are not paused."""
    assert groups_standing(WHY, is_configured=False, is_paused=is_paused).state is LoopState.NOT_CONFIGURED
    assert data_standing([], WHY, is_paused=True) == LoopProgress(loop="data", state=LoopState.PAUSED)


def test_what_is_not_offered_is_not_configured() -> None:
    """Verification is among the loops of a link, so that nobody looks for it in vain."""
    link = LinkProgress(link="l", source="a", target="b", state=LinkState.ACTIVE)
    told = {loop["loop"]: loop["state"] for loop in link.as_dict()["loops"]}
    assert told == {"verify": "NOT_CONFIGURED"}
