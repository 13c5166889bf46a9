"""The data, the topics and the groups of a link as loops."""

from __future__ import annotations

import pytest

from isthmus.ledger.documents.kinds import VerificationDocument
from isthmus.ledger.documents.loops import verify_loop
from isthmus.loops.states import data_loop, groups_loop, topics_loop
from isthmus.model.cluster import Cluster
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.links.pauses import NO_PAUSES, PausedTask, Pauses
from isthmus.model.links.verdict import TopicVerdict, Verdict
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicSettings
from isthmus.model.state import ControllerState
from isthmus.status.tasks import tasks_of
from isthmus.status.verified import document_of
from isthmus.topics.plan import Action, LinkPlan, TopicPlan

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=(f"{alias}:9092",)) for alias in ("east", "west"))
LINK = Link(name="l", source=EAST, target=WEST, topics=TopicSettings())
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
        data_loop([report(LaneState.ACTIVE), report(LaneState.STARTING)], None, is_paused=False),
        topics_loop(plan, None, is_paused=False),
        groups_loop(None, is_configured=True, is_paused=False),
    ]
    assert [loop.state for loop in found] == [LoopState.ACTIVE] * 3


def test_what_is_in_the_way_is_told() -> None:
    """A lane that stopped, a topic that is refused, a cluster that is away."""
    plan = LinkPlan(link="l", source="east", target="west", topics=(REFUSED,))
    found = [
        data_loop([report(LaneState.ACTIVE), report(LaneState.DIVERGED, WHY)], None, is_paused=False),
        data_loop([], WHY, is_paused=False),
        topics_loop(plan, None, is_paused=False),
        topics_loop(None, WHY, is_paused=False),
        groups_loop(WHY, is_configured=True, is_paused=False),
    ]
    assert [(loop.state, loop.problem) for loop in found] == [(LoopState.IN_ERROR, WHY)] * 5


@pytest.mark.parametrize("is_paused", [False, True])
def test_what_is_not_to_be_done_is_no_error(is_paused: bool) -> None:
    """A pause is told whatever else is, with the last error; groups that nobody configured are not paused."""
    assert groups_loop(WHY, is_configured=False, is_paused=is_paused).state is LoopState.NOT_CONFIGURED
    paused = data_loop([], WHY, is_paused=True)
    assert paused == LoopProgress(loop="data", state=LoopState.PAUSED, problem=WHY)
    assert paused.trouble is None


def _verdict(topic: str, problem: str, offsets: OffsetPolicy = OffsetPolicy.SAME) -> TopicVerdict:
    return TopicVerdict(
        source_topic=SourceTopic(topic),
        target_topic=TargetTopic(topic),
        partitions=(),
        problem=problem,
        offsets=offsets,
    )


def test_the_remedy_of_a_difference_is_one_that_is_not_refused() -> None:
    """Topics with mapped offsets are not recovered: they are copied again under another name."""

    def hint(*topics: TopicVerdict) -> str:
        problem = document_of("l", Verdict(source="east", target="west", topics=topics)).problem
        assert problem is not None
        return problem.hint

    same, mapped = _verdict("a", "it differs"), _verdict("b", "it differs", OffsetPolicy.MAPPED)
    assert "isthmus link recover l" in hint(same)
    assert "topics.naming" not in hint(same)
    assert "isthmus link recover" not in hint(mapped)
    assert "topics.naming" in hint(mapped)
    assert "isthmus link recover l" in hint(same, mapped)
    assert "offsets of b are mapped" in hint(same, mapped)


def test_the_last_verification_is_a_task_of_its_own() -> None:
    """Not configured until there was one; a difference is an error that says which topics, and how to see more."""

    def verdict(*differing: str) -> VerificationDocument:
        topics = [_verdict(n, "it differs" if n in differing else "") for n in "abcdef"]
        return document_of("l", Verdict(source="east", target="west", topics=tuple(topics)))

    assert verify_loop(None).state is LoopState.NOT_CONFIGURED
    assert verify_loop(verdict(), age_s=5.0) == LoopProgress(loop="verify", state=LoopState.ACTIVE, age_s=5.0)
    found = verify_loop(verdict("f", "a", "b", "c"))
    assert found.state is LoopState.IN_ERROR
    assert found.problem is not None
    assert found.problem.message == "both sides differ: a, b, c and 1 more"
    assert "isthmus verify l" in found.problem.hint


def test_every_task_is_told_before_anything_ran() -> None:
    """Nobody runs what the link is to do, what it is not to do needs no controller that says so."""
    found = found_states(verify_loop(None), controller=ControllerState.NONE)
    assert found["data"] == found["topics"] == found["configs"] == (LoopState.STOPPED, None)
    assert found["groups"] == found["schemas"] == found["verify"] == (LoopState.NOT_CONFIGURED, None)


def test_what_the_controller_says_counts_while_it_is_alive() -> None:
    """Of what it has not said yet nothing is known."""
    told = (LoopProgress(loop="access", state=LoopState.IN_ERROR, problem=WHY), verify_loop(None))
    found = found_states(*told, controller=ControllerState.ALIVE)
    assert found["access"] == (LoopState.IN_ERROR, WHY)
    assert found["data"] == found["configs"] == (LoopState.UNKNOWN, None)
    assert found["groups"] == (LoopState.NOT_CONFIGURED, None)


@pytest.mark.parametrize("controller", [ControllerState.NONE, ControllerState.SILENT])
def test_nothing_is_active_without_a_controller(controller: ControllerState) -> None:
    """Its last error stays, and what `isthmus verify` found is no matter of a controller."""
    verified = LoopProgress(loop="verify", state=LoopState.ACTIVE, age_s=7.0)
    told = [LoopProgress(loop=name, state=LoopState.ACTIVE, age_s=99.0) for name in ("data", "groups")]
    failed = LoopProgress(loop="configs", state=LoopState.IN_ERROR, problem=WHY, age_s=99.0)
    found = tasks_of(LINK, (*told, failed, verified), controller=controller, paused=NO_PAUSES)
    by_name = {task.loop: task for task in found}
    assert by_name["data"] == LoopProgress(loop="data", state=LoopState.STOPPED, age_s=99.0)
    configs = by_name["configs"]
    assert (configs.state, configs.age_s) == (LoopState.STOPPED, 99.0)
    assert configs.problem is not None
    assert (configs.problem.message, configs.problem.hint[:8]) == (WHY.message, "do this ")
    assert "nothing of this is tried again" in configs.problem.hint, "whatever the controller promised"
    assert by_name["groups"].state is LoopState.NOT_CONFIGURED, "the link carries none any more"
    assert by_name["verify"] is verified


def test_a_pause_holds_without_a_controller() -> None:
    """It is an operator's word in the ledger; the last error stays."""
    whole, one = Pauses.of([None]), Pauses.of([PausedTask("configs")])
    assert found_states(controller=ControllerState.NONE, paused=whole)["data"] == (LoopState.PAUSED, None)
    failed = LoopProgress(loop="configs", state=LoopState.IN_ERROR, problem=WHY)
    found = found_states(failed, controller=ControllerState.NONE, paused=one)
    assert found["data"] == (LoopState.STOPPED, None)
    assert found["configs"][0] is LoopState.PAUSED


def test_of_a_ledger_that_cannot_be_read_nothing_is_known() -> None:
    """Not even what was verified; what the link is not to do its configuration says."""
    found = found_states(verify_loop(None), controller=ControllerState.UNKNOWN)
    assert found["data"] == found["verify"] == (LoopState.UNKNOWN, None)
    assert found["groups"] == (LoopState.NOT_CONFIGURED, None)


def found_states(
    *told: LoopProgress, controller: ControllerState, paused: Pauses = NO_PAUSES
) -> dict[str, tuple[LoopState, Problem | None]]:
    """State and problem of each task, by its name; none is there twice."""
    tasks = tasks_of(LINK, told, controller=controller, paused=paused)
    found = {task.loop: (task.state, task.problem) for task in tasks}
    assert len(found) == len(tasks)
    return found


def test_a_task_is_paused_by_itself() -> None:
    """That of the data stops copying all topics and nothing else; one that is not configured is not paused."""
    paused = Pauses.of([PausedTask("data"), PausedTask("configs")])
    assert (paused.is_whole, paused.topics, [str(task) for task in paused.tasks]) == (False, (), ["configs", "data"])
    assert paused.covers(TargetTopic("orders"))
    assert [paused.stops(task) for task in ("data", "configs", "groups")] == [True, True, False]
    assert not Pauses.of([PausedTask("topics")]).covers(TargetTopic("topics"))
    idle = LoopProgress(loop="configs", state=LoopState.NOT_CONFIGURED)
    assert idle.paused_by(is_paused=True) is idle
