"""How plans are shown, and their rows."""

from __future__ import annotations

from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.topics.plan import Action, LinkPlan, Plan, PlannedTopic, TopicPlan

REASON = Problem("the target has records of its own", "Give it another name.", "ISTH-PLAN-REFUSED")


def topic(name: str, action: Action, *reasons: Problem) -> TopicPlan:
    """A topic of two partitions."""
    return TopicPlan(
        topic=TargetTopic(name), source_topic=SourceTopic(name), action=action, partition_count=2, reasons=reasons
    )


PLAN = Plan(
    links=(
        LinkPlan(
            link="east-west",
            source="east",
            target="west",
            topics=(topic("orders", Action.CREATE), topic("clicks", Action.REFUSE, REASON)),
        ),
        LinkPlan(link="away", source="north", target="west", problem=Problem("no broker answered")),
    )
)


def test_a_plan_is_a_table_of_topics() -> None:
    """A link that cannot run is in it, and every reason."""
    text = str(PLAN)
    assert text.splitlines()[0] == "2 links; 2 topics: create 1, refuse 1"
    for part in ("orders", "create", REASON.message, "no broker answered"):
        assert part in " ".join(text.split())
        assert part in PLAN._repr_html_()
    assert repr(PLAN).startswith("<Plan: 2 links; 2 topics: create 1, refuse 1; east-west/clicks: the target has")


def test_a_plan_has_a_row_for_each_topic() -> None:
    """And one for a link that cannot run; the names are those of JSON."""
    orders, clicks, away = (row for link in PLAN.links for row in link.rows)
    assert orders.as_dict() == {
        "link": "east-west",
        "source": "east",
        "target": "west",
        "topic": "orders",
        "source_topic": "orders",
        "action": "create",
        "mode": "identity",
        "partitions": 2,
        "refused_partitions": 0,
        "records_to_copy": 0,
        "records_waiting": 0,
        "offsets_to_fill": 0,
        "problem_code": None,
        "problem": None,
        "hint": None,
    }
    assert (clicks.mode, clicks.refused_count, clicks.problem_code) == ("refused", 2, REASON.code)
    assert away == PlannedTopic(link="away", source="north", target="west", problem="no broker answered")
