"""Which consumer groups are in the way of a promotion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.errors import NotAuthorized
from isthmus.groups.plan import GroupPlan, PositionPlan, plan_troubled, worst
from isthmus.groups.positions.carrying import Standing
from isthmus.links.gates import CarriedGroups
from isthmus.model.kafka.group import Committed
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic

TOPICS = NamespaceMap.parse("a-:x-")
GROUPS = NamespaceMap.parse("app", "group")
LET_PASS = {
    Standing.IN_STEP,
    Standing.TRANSLATED,
    Standing.ACTIVE_AT_TARGET,
    Standing.AHEAD_AT_TARGET,
    Standing.MOVED_AT_TARGET,
    Standing.BY_OTHERS,
    Standing.CLOCKS_DIFFER,
    Standing.NOT_MIRRORED,
    Standing.GONE_AT_SOURCE,
    Standing.UNSUPPORTED,
}


def position(standing: Standing, topic: str = "a-1", commit: int | None = None) -> PositionPlan:
    """A position of a group as it stands."""
    return PositionPlan(
        topic=SourceTopic(topic),
        partition=0,
        target_topic=TargetTopic(topic),
        source=Committed(7),
        translated=None,
        committed=None,
        log_start=None,
        high_watermark=None,
        standing=standing,
        commit=commit,
    )


def group(*positions: PositionPlan) -> GroupPlan:
    """A group with positions, as a plan has it."""
    standing = worst(each.standing for each in positions)
    return GroupPlan(group="app", target_group="app", standing=standing, positions=positions)


@pytest.mark.parametrize("standing", Standing)
def test_a_group_that_would_not_go_on_where_it_left_off_is_in_the_way(standing: Standing) -> None:
    """Each position counts, whatever else needs more attention; what somebody meant at the target is let pass."""
    if standing is Standing.NOT_AUTHORIZED:
        plan = plan_troubled("app", "app", NotAuthorized("no"))
    elif standing in (Standing.GONE_AT_SOURCE, Standing.UNSUPPORTED, Standing.NAMES_MEET):
        plan = GroupPlan(group="app", target_group="app", standing=standing)
    else:
        plan = group(position(standing), position(Standing.AHEAD_AT_TARGET))
    for maps in ([TOPICS], [GROUPS], [TOPICS, GROUPS]):
        found = CarriedGroups([plan], maps, is_tried=True)
        assert found.in_the_way(()) == ([] if standing in LET_PASS else [f"app is {standing}"])
        assert found.in_the_way({standing}) == []


def test_of_a_part_only_positions_in_its_topics_count() -> None:
    """What a group lacks elsewhere keeps nothing of it from being promoted."""
    plan = group(position(Standing.IN_STEP), position(Standing.WAITING_FOR_MAP, "b-1"))
    part = CarriedGroups([plan, replace(plan, group="other", positions=plan.positions[1:])], [TOPICS], is_tried=True)
    assert part.in_the_way(()) == []
    assert part.standings == {"app": "IN_STEP"}
    whole = CarriedGroups([plan], [TOPICS, GROUPS], is_tried=True)
    assert whole.in_the_way(()) == ["app is WAITING_FOR_MAP"]


def test_what_could_not_be_written_is_in_the_way() -> None:
    """With the reason that is told of the group; a dry run has tried nothing, and passes what is due."""
    plan = group(position(Standing.DUE, commit=7), position(Standing.MIRROR_ENDED, "b-1"))
    assert CarriedGroups([plan], [TOPICS], is_tried=False).in_the_way({Standing.DUE}) == []
    failed = replace(plan, standing=Standing.NOT_AUTHORIZED)
    assert CarriedGroups([failed], [TOPICS], is_tried=True).in_the_way({Standing.DUE}) == ["app is NOT_AUTHORIZED"]
