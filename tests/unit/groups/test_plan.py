"""Plans for groups: pure, from what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import NotAuthorized
from isthmus.groups.committing import GroupCommit
from isthmus.groups.memory import GroupMemory
from isthmus.groups.observation import GroupsView
from isthmus.groups.plan import GroupPlan, GroupsPlan, Memory, commit_of, plan_groups, plan_troubled
from isthmus.groups.positions.carrying import Standing, Written
from isthmus.groups.uncarried import plan_gone
from isthmus.ledger.documents.kinds import GroupDocument, decode_document, encode_document
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.group import Committed, GroupState, GroupType
from isthmus.model.kafka.log import LogRange
from isthmus.model.text.plain import plain
from isthmus.model.trees.positions import PositionEntry
from testing.values.groups import KEY, ORDERS, view

_EITHER = (False, True)


def planned(seen: GroupsView, memory: Mapping[str, Memory] | None = None) -> GroupPlan:
    (plan,) = plan_groups(seen, memory or {})
    return plan


def test_a_plan_says_what_to_write_and_on_what_it_is_based() -> None:
    """Metadata is carried, leader epochs are not; partitions in step are no part of the commit."""
    plan = planned(view({KEY: 7, ("orders", 1): 9}, {KEY: 5, ("orders", 1): 9}))
    assert plan.standing is Standing.DUE
    assert commit_of(plan) == GroupCommit(positions={KEY: Committed(7, metadata="noted")}, based_on={KEY: Committed(5)})


def test_a_link_that_commits_nothing_translates() -> None:
    """Whoever is at the target, what a position is there is known, and nothing is written."""
    seen = view({KEY: 7, ("orders", 1): 9, ("orders", 2): 200}, {KEY: 5}, state=GroupState.STABLE)
    plan = planned(replace(seen, settings=GroupSettings(commit=False)))

    assert [(p.translated, p.standing) for p in plan.positions] == [
        (7, Standing.TRANSLATED),
        (9, Standing.TRANSLATED),
        (200, Standing.CATCHING_UP),
    ]
    assert commit_of(plan) is None
    assert not plan.has_changes


def test_a_group_is_changed_in_the_words_of_all_loops() -> None:
    """Where it is moved from and to, that it is deleted, or why it is left alone; one that is in step says nothing."""

    def changes(plan: GroupPlan) -> list[tuple[str, str, str, str | None, str | None, bool]]:
        return [(c.loop, c.subject, c.setting, c.before, c.after, c.problem is not None) for c in plan.changes]

    due = planned(view({KEY: 7, ("orders", 1): 9, ("orders", 2): 4}, {KEY: 5, ("orders", 1): 9}))
    assert changes(due) == [
        ("groups", "group billing", "position in orders-0", "5", "7", False),
        ("groups", "group billing", "position in orders-2", None, "4", False),
    ]
    entry = PositionEntry(timestamp_ms=12)
    sent = replace(due, positions=(replace(due.positions[0], commit=None, sent=entry, is_news=True),))
    assert changes(sent) == [("groups", "group billing", "time in orders-0", None, "12", False)]
    deleted = plan_gone("g", "g", delete=True, certain=True)
    assert changes(deleted) == [("groups", "group g", "group", "g", None, False)]
    left = planned(view({KEY: 7}, {KEY: 5}, state=GroupState.STABLE))
    assert changes(left) == [("groups", "group billing", "group", None, None, True)]
    assert changes(planned(view({KEY: 7}, {KEY: 7}))) == []
    every = GroupsPlan(link="l", source="e", target="w", way="identity", groups=(due, deleted))
    assert len(plain(every)["changes"]) == 3


def test_how_far_a_group_is_behind_is_the_sum_of_its_positions() -> None:
    """Of what is short only: one that is ahead makes up for none, and where nothing was committed all is short."""
    plan = planned(view({KEY: 7, ("orders", 1): 9, ("orders", 2): 4}, {KEY: 5, ("orders", 1): 30}))
    assert plan.behind_records == 2 + 0 + 4
    assert planned(view({("other", 0): 1}, {})).behind_records == 0


def test_what_is_not_mirrored_is_passed_over() -> None:
    """A topic the link does not mirror keeps no other from being carried; alone it is the problem of a group that is
    included by name, and none of one that a pattern brings in.
    """
    both = planned(view({KEY: 7, ("other", 0): 1}, {}))
    assert both.standing is Standing.DUE
    assert [p.standing for p in both.positions] == [Standing.DUE, Standing.NOT_MIRRORED]
    seen = view({("other", 0): 1}, {})
    for include, is_problem in (("*", False), (seen.groups[0].group, True)):
        settings = GroupSettings(include=(GroupPattern.parse(include),))
        alone = planned(replace(seen, settings=settings))
        assert alone.standing is Standing.NOT_MIRRORED
        assert (alone.problem is not None, bool(alone.changes)) == (is_problem, is_problem)
        assert commit_of(alone) is None


def test_a_partition_that_is_no_copy_any_more_is_left_alone() -> None:
    """The group's other positions are carried; the one there is neither written nor remembered, and told."""
    seen = view({KEY: 7, ("orders", 1): 9}, {KEY: 5, ("orders", 1): 5})
    plan = planned(replace(seen, ended=frozenset({KEY})))
    assert [p.standing for p in plan.positions] == [Standing.MIRROR_ENDED, Standing.DUE]
    assert plan.standing is Standing.MIRROR_ENDED
    assert plan.problem is not None
    assert commit_of(plan) == GroupCommit(
        positions={(ORDERS, 1): Committed(9, metadata="noted")}, based_on={(ORDERS, 1): Committed(5)}
    )


def test_only_what_is_certainly_gone_is_deleted() -> None:
    """A group is deleted at the target if that is wanted and the log proves that the source has it no more."""
    plans = {(wanted, sure): plan_gone("g", "g", delete=wanted, certain=sure) for wanted in _EITHER for sure in _EITHER}
    assert [pair for pair, plan in plans.items() if plan.delete] == [(True, True)]
    assert [pair for pair, plan in plans.items() if plan.problem and not plan.problem.hint] == [(True, True)]


def test_members_at_the_target() -> None:
    """A group with members, or of a type that has no positions, is left alone; also in a state unknown here."""
    for state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.UNKNOWN):
        plan = planned(view({KEY: 7}, {KEY: 5}, state=state))
        assert (plan.standing, plan.has_changes) == (Standing.ACTIVE_AT_TARGET, False)
    assert not planned(view({KEY: 7}, {KEY: 5}, kind=GroupType.SHARE)).has_changes


def test_an_error_is_the_groups_own() -> None:
    """A group that cannot be read has a standing, a problem and a hint."""
    plan = plan_troubled("billing", "billing", NotAuthorized("no", hint="Grant it."))
    assert (plan.standing, plan.problem and plan.problem.hint) == (Standing.NOT_AUTHORIZED, "Grant it.")


@given(st.integers(0, 120), st.integers(0, 120))
def test_a_plan_that_was_carried_out_is_empty(first: int, second: int) -> None:
    """Planning again after a commit, and after the source was moved anywhere, ends in step with the source."""
    memory = GroupMemory("east-west", {})
    at_target: dict[tuple[Any, int], int] = {}
    for position in (first, second):
        plan = planned(view({KEY: position}, at_target), memory.written)
        commit = commit_of(plan)
        if commit is not None:
            memory.note_commit(plan)
            at_target[KEY] = commit.positions[KEY].offset
        memory.note_agreement(plan)
        after = planned(view({KEY: position}, at_target), memory.written)
        assert not any(p.commit not in (None, at_target[KEY]) for p in after.positions)
        assert at_target[KEY] == min(position, 100)


def test_memory_survives_in_the_ledger() -> None:
    """What was written comes back from the documents, so that a source moved back is followed after a restart too."""
    memory = GroupMemory("east-west", {})
    plan = planned(view({KEY: 7}, {}))
    memory.note_commit(plan)
    memory.stands(plan)
    (change,) = memory.changes(10)
    assert isinstance(change, GroupDocument)
    again = GroupMemory("east-west", {change.key: decode_document(change.key, encode_document(change)) or change})
    assert again.written == {"billing": {KEY: Written(7, 7)}}
    memory.note_stored([change])
    assert memory.changes(10) == []


def test_what_was_set_back_by_a_controller_that_ended_then_is_no_one_elses() -> None:
    """The target lost records, the position there was set back, and nobody is left who knows: the ledger tells."""
    memory = GroupMemory("east-west", {})
    memory.note_commit(planned(view({KEY: 90}, {})))
    lost = replace(view({KEY: 90}, {KEY: 90}), ranges={KEY: LogRange(0, 30, 30)})
    plan = planned(lost, memory.written)
    commit = GroupCommit(positions={KEY: Committed(30, metadata="noted")}, based_on={KEY: Committed(90)})
    assert commit_of(plan) == commit
    assert commit.sets_back
    assert not replace(commit, based_on=commit.positions).sets_back
    memory.attempting(plan)
    (change,) = memory.changes(10)
    assert isinstance(change, GroupDocument)
    for found, offset in ((30, 60), (90, 60)):
        successor = GroupMemory(
            "east-west", {change.key: decode_document(change.key, encode_document(change)) or change}
        )
        successor.settle("billing", {KEY: Committed(found)})
        grown = replace(view({KEY: 90}, {KEY: found}), ranges={KEY: LogRange(0, 60, 60)})
        (position,) = planned(grown, successor.written).positions
        assert position.commit == offset
    memory.note_commit(plan)
    memory.stands(plan)
    (change,) = memory.changes(10)
    assert isinstance(change, GroupDocument)
    assert change.attempted == ()
    onward = commit_of(planned(view({KEY: 95}, {KEY: 30}), memory.written))
    assert onward is not None
    assert not onward.sets_back


def test_a_lost_answer_is_settled_by_a_look() -> None:
    """A commit whose answer got lost counts as ours if the target shows it, and only then."""
    memory = GroupMemory("east-west", {})
    plan = planned(view({KEY: 7}, {KEY: 5}))
    memory.note_attempt(plan)
    memory.settle("billing", {KEY: Committed(5)})
    assert memory.written.get("billing", {}) == {}
    memory.note_attempt(plan)
    memory.settle("billing", {KEY: Committed(7)})
    assert memory.written["billing"] == {KEY: Written(7, 7, "noted")}
    assert planned(view({KEY: 3}, {KEY: 7}), memory.written).standing is Standing.DUE
