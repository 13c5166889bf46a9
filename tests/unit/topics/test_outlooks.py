"""What was found out about partitions becomes part of their plan."""

from __future__ import annotations

from dataclasses import replace

from isthmus.engine.outlook import Outlook
from isthmus.kafka.admin.brokers import Operation
from isthmus.memory.claims import Claims
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.links.pauses import Pauses
from isthmus.model.namespace import Namespace
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Cursor, OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.model.text.plain import plain
from isthmus.topics.observation import ObservedLink
from isthmus.topics.outlooks import Seen, with_pauses, with_places, with_rights, with_seen
from isthmus.topics.plan import Action, LinkPlan, Plan, TopicPlan
from isthmus.topics.planning import plan_link
from isthmus.topics.preflight import TopicMode, TopicPair
from testing.values.names import ORDERS
from testing.values.planned import observed, topic

EVERYTHING = frozenset(Operation)
FOREIGN = Outlook(state=LaneState.FOREIGN_WRITE, problem=Problem("somebody wrote", "look"))


def link(ends: dict[int, int]) -> ObservedLink:
    """Partitions of ten records whose targets end there."""
    count = len(ends)
    return observed(
        TopicPair(
            name=ORDERS,
            source=topic(partitions=count),
            target=topic(partitions=count),
            source_ranges={p: LogRange(0, 10, 10) for p in ends},
            target_ranges={p: LogRange(0, end, end) for p, end in ends.items()},
        )
    )


def plan_of(seen: ObservedLink) -> LinkPlan:
    """The link's plan."""
    return plan_link(seen, Claims())


def topic_of(seen: ObservedLink) -> TopicPlan:
    """The plan of the one topic."""
    (plan,) = plan_of(seen).topics
    return plan


def keyed(outlooks: dict[int, Outlook]) -> dict[LaneKey, Seen]:
    """Outlooks without ranges."""
    return {LaneKey(TargetTopic("orders"), partition): Seen(outlook=outlook) for partition, outlook in outlooks.items()}


def test_some_partitions_refused() -> None:
    """What can be copied is planned and counted, what cannot is told, and the plan ends with 1."""
    plan = topic_of(with_seen(link({0: 0, 1: 5, 2: 5}), keyed({1: FOREIGN, 2: Outlook()})))
    assert (plan.action, plan.mode, plan.lag_records) == (Action.COPY, TopicMode.IDENTITY, 15)
    assert plan.states == (LaneState.ACTIVE, LaneState.FOREIGN_WRITE, LaneState.ACTIVE)
    assert [lane.partition for lane in plan.lanes] == [0, 2]
    (told,) = plain(plan)["refused_partitions"]
    assert told == {"partition": 1, "state": "FOREIGN_WRITE", "message": "somebody wrote", "hint": "look", "code": None}


def test_all_partitions_refused() -> None:
    """Where nothing of a topic can be copied it is refused, and no reason for a change."""
    seen = with_seen(link({0: 5, 1: 5}), keyed({0: FOREIGN, 1: FOREIGN}))
    plan = topic_of(seen)
    assert (plan.action, plan.mode, plan.lag_records, plan.has_changes) == (Action.REFUSE, TopicMode.REFUSED, 0, False)
    assert plan.lanes == ()
    assert Plan(links=(plan_of(seen),)).exit_code == 1


def test_newer_ranges_count() -> None:
    """The outlook belongs to the logs as they were then: so do lags."""
    seen = with_seen(
        link({0: 5}),
        {
            LaneKey(TargetTopic("orders"), 0): Seen(
                outlook=Outlook(), source=LogRange(0, 30, 30), target=LogRange(0, 9, 9)
            )
        },
    )
    assert topic_of(seen).lag_records == 21


def test_gap_that_is_passed_is_noted() -> None:
    """A link that goes on is told which offsets will be missing, once."""
    seen = with_seen(link({0: 5}), keyed({0: Outlook(gap=Gap(5, 8))}))
    plan = topic_of(seen)
    (note,) = plan.notes
    assert "partition 0: offsets [5, 8) will be missing" in note.message
    assert plain(plan)["gaps"] == [{"partition": 0, "offset_begin": 5, "offset_end": 8}]
    assert Plan(links=(plan_of(seen),)).exit_code == 0


def test_silent_broker_is_no_refusal() -> None:
    """What could not be looked at is told as such, nothing is claimed about it, and the plan ends as one not whole."""
    silent = Outlook(state=LaneState.TARGET_UNAVAILABLE, problem=Problem("no answer", "wait"))
    seen = with_seen(link({0: 5, 1: 5}), keyed({0: silent, 1: Outlook()}))
    plan = topic_of(seen)
    assert (plan.action, plan.has_refusals) == (Action.COPY, False)
    assert [each["partition"] for each in plain(plan)["unexamined_partitions"]] == [0]
    assert plan.states == (LaneState.TARGET_UNAVAILABLE, LaneState.ACTIVE)
    assert Plan(links=(plan_of(seen),)).exit_code == 1


def test_reading_is_always_needed() -> None:
    """Without READ at the source nothing goes on, not even a partition that has nothing to copy now."""
    seen = link({0: 10, 1: 0})
    denied = with_rights(seen, plan_of(seen), {"orders": EVERYTHING - {Operation.READ}}, {"orders": EVERYTHING})
    plan = topic_of(denied)
    assert (plan.states, plan.action) == ((LaneState.NOT_AUTHORIZED,) * 2, Action.REFUSE)
    assert plan.refused[0].refusal is not None
    assert "Grant READ on topic orders to the principal of east" in plan.refused[0].refusal.hint


def test_writing_is_needed_where_something_is_to_be_written() -> None:
    """Without WRITE at the target a partition that is equal already stays as it is."""
    seen = link({0: 10, 1: 0})
    denied = with_rights(seen, plan_of(seen), {"orders": EVERYTHING}, {"orders": EVERYTHING - {Operation.WRITE}})
    assert topic_of(denied).states == (LaneState.ACTIVE, LaneState.NOT_AUTHORIZED)
    assert topic_of(with_rights(seen, plan_of(seen), {}, {})).states == (LaneState.ACTIVE,) * 2


def test_a_mapped_lane_reads_where_it_was() -> None:
    """Without READ at the target a lane that has copied does not find its place; one that is to begin needs none."""
    seen = link({0: 10, 1: 4, 2: 4})
    settings = replace(seen.link.topics, offsets=OffsetPolicy.MAPPED)
    cursors = {LaneKey(ORDERS, 0): Cursor(10, 10, 10), LaneKey(ORDERS, 1): Cursor(0, 0, 4)}
    seen = with_places(replace(seen, link=replace(seen.link, topics=settings)), cursors, {})
    assert [p.lag_records for p in topic_of(seen).partitions] == [0, 10, 10]
    denied = with_rights(seen, plan_of(seen), {}, {"orders": EVERYTHING - {Operation.READ}})
    plan = topic_of(denied)
    assert plan.states == (LaneState.NOT_AUTHORIZED, LaneState.ACTIVE, LaneState.ACTIVE)
    assert plan.refused[0].refusal is not None
    assert "Grant READ on topic orders to the principal of west" in plan.refused[0].refusal.hint


def test_what_is_known_goes_before_rights() -> None:
    """A partition that is refused for good is not said to wait for a right."""
    seen = with_seen(link({0: 5}), keyed({0: FOREIGN}))
    denied = with_rights(seen, plan_of(seen), {"orders": frozenset()}, {"orders": frozenset()})
    assert topic_of(denied).states == (LaneState.FOREIGN_WRITE,)


def test_paused_topics_are_told() -> None:
    """A pause refuses nothing: what is left to copy is counted, and how to go on is said."""
    seen = link({0: 5})
    for part in (ORDERS, None, Namespace(prefix="ord")):
        plan = plan_of(with_pauses(seen, plan_of(seen), Pauses.of([part])))
        (found,) = plan.topics
        assert (found.states, found.lag_records, plan.has_refusals) == ((LaneState.PAUSED,), 5, False)
        assert "isthmus resume east-west" in plan.recommendations[0].hint
    assert topic_of(with_pauses(seen, plan_of(seen), Pauses.of([TargetTopic("other")]))).states == (LaneState.ACTIVE,)
