"""Positions translated in the way of their link and their topic, and how groups stand by that."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, Final

import pytest

from isthmus.groups.memory import GroupMemory
from isthmus.groups.observation import GroupsView
from isthmus.groups.plan import GroupPlan, commit_of, plan_groups
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.positions.translation import Translation, by_offset
from isthmus.lanes.maps import LinkMaps
from isthmus.ledger.documents.kinds import PartedDocument
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.text.plain import plain
from isthmus.model.translation import MappedRange, Way
from testing.values.groups import KEY, SOME, maps, view

SAME: Final = (TargetTopic("same"), 0)
UNKNOWN: Final[tuple[Any, int]] = ("orders", 1)


@pytest.mark.parametrize("way", ["identity", "mapped"])
def test_same_offsets_are_carried_as_they_are(way: Way) -> None:
    """A topic without a map has the same offsets, whichever way the link's groups go."""
    found = by_offset(GroupSettings(way=way), [(SAME, 7)], SOME)
    assert found == Translation({(SAME, 7): 7})


def test_other_offsets_are_never_taken_for_the_same() -> None:
    """With way identity nothing of a mapped topic is carried, also of a partition that has no map yet."""
    found = by_offset(GroupSettings(way="identity"), [(KEY, 7), (UNKNOWN, 0), (SAME, 3)], SOME)
    assert found.offsets == {(SAME, 3): 3}
    assert found.untold == {(KEY, 7): Standing.OFFSETS_DIFFER, (UNKNOWN, 0): Standing.OFFSETS_DIFFER}


def test_what_went_on_after_a_divergence_goes_by_its_map() -> None:
    """With way identity too: the link's groups are meant for topics that are as this one was."""
    document = PartedDocument(
        link="east-west",
        topic=TargetTopic(KEY[0]),
        source_topic=SourceTopic(KEY[0]),
        source_topic_id=uuid.UUID(int=1),
        target_topic_id=uuid.UUID(int=2),
        partitions=(),
        by="kate",
        at_ms=5,
    )
    known = maps(MappedRange(0, 0, 5), MappedRange(5, 40, 5), copied_to=10, also=document)
    found = by_offset(GroupSettings(way="identity"), [(KEY, 3), (KEY, 7), (SAME, 3)], known)
    assert found.offsets == {(KEY, 3): 3, (KEY, 7): 42, (SAME, 3): 3}


def test_mapped_positions() -> None:
    """Each is looked up in its partition's map; behind that it is the end, and not reached; without one it waits."""
    found = by_offset(GroupSettings(way="mapped"), [(KEY, 0), (KEY, 7), (KEY, 10), (KEY, 12), (UNKNOWN, 0)], SOME)
    assert found.offsets == {(KEY, 0): 10, (KEY, 7): 42, (KEY, 10): 45, (KEY, 12): 45}
    assert found.unreached == {(KEY, 12)}
    assert found.untold == {(UNKNOWN, 0): Standing.WAITING_FOR_MAP}


def seen(position: int, committed: int | None, known: LinkMaps = SOME, way: Way = "mapped") -> GroupsView:
    """A group at the source's `position`, and at `committed` at the target, whose log goes on with others' records."""
    found = view({KEY: position}, {} if committed is None else {KEY: committed})
    return replace(
        found,
        ranges={KEY: LogRange(0, 90, 90)},
        translated=by_offset(GroupSettings(way=way), [(KEY, position)], known),
        mapped=frozenset({KEY[0]}),
    )


def planned(found: GroupsView, memory: GroupMemory | None = None) -> GroupPlan:
    (plan,) = plan_groups(found, {} if memory is None else memory.written)
    return plan


def test_a_group_is_in_step_where_its_records_are() -> None:
    """The positions on both sides are compared translated, and told to be mapped."""
    due, done = planned(seen(7, 7)), planned(seen(7, 42))
    assert (due.standing, due.positions[0].commit) == (Standing.DUE, 42)
    assert (done.standing, done.has_changes) == (Standing.IN_STEP, False)
    assert plain(done)["positions"][0]["offsets"] == "mapped"
    assert plain(planned(view({KEY: 7}, {})))["positions"][0]["offsets"] == "same"


def test_a_group_waits_for_its_map() -> None:
    """Where the map ends it stands still although the target's log goes on, and goes on with the map."""
    memory = GroupMemory("east-west", {})
    first = planned(seen(12, None), memory)
    assert (first.standing, first.positions[0].commit) == (Standing.CATCHING_UP, 45)
    memory.note_commit(first)
    still = planned(seen(12, 45), memory)
    assert (still.standing, still.has_changes) == (Standing.CATCHING_UP, False)
    memory.note_agreement(still)
    longer = maps(MappedRange(0, 10, 5), MappedRange(5, 40, 5), MappedRange(10, 60, 4), copied_to=14)
    then = planned(seen(12, 45, longer), memory)
    assert (then.standing, then.positions[0].commit) == (Standing.DUE, 62)


def test_a_group_goes_back_with_its_source_alone() -> None:
    """By the map, where the position was written here; not where consumers went on at the target."""
    memory = GroupMemory("east-west", {})
    memory.note_commit(planned(seen(9, None)))
    assert planned(seen(3, 44), memory).positions[0].commit == 13
    assert planned(seen(3, 47), memory).standing is Standing.AHEAD_AT_TARGET


def test_what_cannot_be_translated_is_told() -> None:
    """The group says why, and what helps; nothing is written."""
    plan = planned(seen(7, 7, way="identity"))
    assert (plan.standing, plan.has_changes) == (Standing.OFFSETS_DIFFER, False)
    assert plan.problem is not None
    assert "way: mapped" in plan.problem.hint


def test_a_partition_without_a_map_keeps_no_other_waiting() -> None:
    """The group's other positions are carried."""
    found = replace(view({KEY: 7, UNKNOWN: 0}, {}), mapped=frozenset({KEY[0]}))
    translated = by_offset(GroupSettings(way="mapped"), [(KEY, 7), (UNKNOWN, 0)], SOME)
    plan = planned(replace(found, translated=translated))
    assert plan.standing is Standing.WAITING_FOR_MAP
    assert plan.problem is not None
    commit = commit_of(plan)
    assert commit is not None
    assert {key: each.offset for key, each in commit.positions.items()} == {KEY: 42}
