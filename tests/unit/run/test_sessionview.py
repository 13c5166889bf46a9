"""How a running link stands: no link is ACTIVE whose session does not run, or that nothing was heard of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import PlanRefused, Unreachable
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.links.pauses import NO_PAUSES, Pauses
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.state import AGED_S, RUNNING, ControllerState, LinkState
from isthmus.run.sessionview import SessionView, progress_of
from isthmus.run.state.course import RunCourse, Stage
from isthmus.spark.leases.progress import RunProgress
from isthmus.topics.plan import Action, LinkPlan, TopicPlan

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
LINK = Link(name="l", source=EAST, target=WEST, topics=TopicSettings(include=(TopicPattern.parse("*"),)))
AWAY = Problem("west does not answer")
REFUSED = TopicPlan(
    topic=TargetTopic("orders"),
    source_topic=SourceTopic("orders"),
    action=Action.REFUSE,
    partition_count=1,
    reasons=(Problem("the target has records of others"),),
)
EVENTS: Final[dict[str, Callable[[RunCourse], object]]] = {
    "reach": lambda course: course.reach(),
    "wait": lambda course: course.wait(Problem("waiting")),
    "open": lambda course: course.open(),
    "lose": lambda course: course.fail(Unreachable("lost", cluster="a")),
    "change": lambda course: course.fail(PlanRefused("as it was"), is_outdated=True),
    "fail": lambda course: course.fail(PlanRefused("as it is")),
    "give up": lambda course: course.give_up(),
    "end": lambda course: course.end(),
}
VIEWS = st.builds(
    SessionView,
    plan=st.sampled_from([None, LinkPlan(link="l", source="east", target="west", topics=(REFUSED,))]),
    paused=st.sampled_from([NO_PAUSES, Pauses.of([None])]),
    problem=st.sampled_from([None, AWAY]),
    silence_s=st.sampled_from([0.0, AGED_S, AGED_S + 1.0]),
    is_held=st.booleans(),
    is_away=st.booleans(),
    has_begun=st.booleans(),
)


@given(events=st.lists(st.sampled_from(sorted(EVENTS)), max_size=8), view=VIEWS, is_standing_by=st.booleans())
def test_a_link_is_active_only_while_its_session_shows_that_it_works(
    events: list[str], view: SessionView, is_standing_by: bool
) -> None:
    """Whatever the session knew before, and whatever has happened to the run since."""
    course = RunCourse()
    for event in events:
        EVENTS[event](course)
    found = progress_of(LINK, course, view, RunProgress(), is_standing_by=is_standing_by, now=0.0, at_ms=0)
    is_silent = view.silence_s > AGED_S and not view.is_held
    hidden = is_standing_by or view.is_away or is_silent or view.paused.is_whole or not view.has_begun
    assert (found.state in RUNNING) == (course.is_at_work and course.error is None and not hidden)
    assert found.state is not LinkState.ACTIVE or view.plan is None
    assert (found.state is LinkState.FAILED) == (course.error is not None)
    assert (found.controller.state is ControllerState.NONE) == ("end" in events)
    known = course.problem or (view.problem if course.stage is Stage.AT_WORK else None)
    if known is None and course.stage is Stage.AT_WORK and is_silent:
        assert found.problem is not None
        assert found.problem.message.startswith("west was not heard for more than 10 s")
    else:
        assert found.problem == known


def test_what_was_known_of_a_link_is_shown_while_a_cluster_is_away() -> None:
    """Its topics stay, and what its session knew of brokers and quotas does not count any more."""
    course, plan = RunCourse(), LinkPlan(link="l", source="east", target="west", topics=(REFUSED,))
    course.open()
    view = SessionView(plan=plan, problem=AWAY, is_held=True, has_begun=True)
    before = progress_of(LINK, course, view, RunProgress(), is_standing_by=False, now=0.0, at_ms=0)
    assert (before.state, before.controller.state) == (LinkState.IMPAIRED, ControllerState.THROTTLED)
    assert before.problem == AWAY
    course.fail(Unreachable("lost", cluster="east"))
    after = progress_of(LINK, course, view, RunProgress(), is_standing_by=False, now=0.0, at_ms=0)
    assert (after.state, after.controller.state) == (LinkState.UNAVAILABLE, ControllerState.ALIVE)
    assert after.problem is not None
    assert after.problem.message == "lost"
    assert tuple(topic.problem for topic in after.topics) == REFUSED.reasons
