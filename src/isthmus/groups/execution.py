"""Carry out plans of groups at the target; each group has its own outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from isthmus.errors import ClusterError
from isthmus.groups.committing import GroupCommitter
from isthmus.groups.memory import GroupMemory
from isthmus.groups.plan import GroupPlan, Memory, PositionPlan, commit_of, plan_troubled, with_positions
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.transaction import Accepted, without_metadata
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets, delete_groups, describe_groups
from isthmus.model.naming import TargetTopic, TargetTopicPartition
from isthmus.model.problem import Problem

_CHANGED: Final = Problem(
    "the group changed at the target while it was looked at, or a transaction that may commit for it is open there",
    "It is tried again. Should it last, isthmus cluster describe shows transactions that hang.",
)


async def apply_groups(
    plans: Sequence[GroupPlan],
    committer: GroupCommitter,
    memory: GroupMemory,
    target: Client,
    remember: Callable[[], Awaitable[None]],
) -> tuple[GroupPlan, ...]:
    """Carry plans out; return how the groups stand afterwards. A group that changed meanwhile is `UNAVAILABLE`: replan
    it.

    `remember` writes the changes of `memory` into the ledger, before any position is set back.

    :raises ClusterError: The target as a whole did not answer; nothing was written.
    """
    meeting = tuple(plan for plan in plans if plan.standing is Standing.NAMES_MEET)
    for plan in meeting:
        memory.stands(plan)
    by_target = {plan.target_group: plan for plan in plans if plan not in meeting}
    commits = {name: commit for name, plan in by_target.items() if (commit := commit_of(plan)) is not None}
    if setting_back := [by_target[name] for name, commit in commits.items() if commit.sets_back]:
        for plan in setting_back:
            memory.attempting(plan)
        await remember()
    outcome = await committer.commit(commits) if commits else None
    stands: dict[str, GroupPlan] = dict(by_target)
    for name in commits:
        plan = by_target[name]
        if outcome is None or name in outcome.errors or name in outcome.changed:
            error = None if outcome is None else outcome.errors.get(name)
            stands[name] = _not_carried(plan, error)
        elif name in outcome.uncertain:
            memory.note_attempt(plan)
            stands[name] = _not_carried(plan, None)
        else:
            accepted = outcome.done[name]
            memory.note_commit(_without(plan, accepted.refused))
            stands[name] = _carried_out(plan, accepted)
    for name, plan in by_target.items():
        if plan.delete:
            stands[name] = await _delete(plan, memory, target)
        if not stands[name].delete:
            memory.note_agreement(stands[name])
            memory.stands(stands[name])
    return (*stands.values(), *meeting)


def _not_carried(plan: GroupPlan, error: ClusterError | None) -> GroupPlan:
    if error is None:
        return replace(plan, standing=Standing.UNAVAILABLE, problem=_CHANGED)
    found = plan_troubled(plan.group, plan.target_group, error)
    return replace(plan, standing=found.standing, problem=found.problem)


def _without(plan: GroupPlan, refused: Collection[TargetTopicPartition]) -> GroupPlan:
    """Return the plan without refused positions: those are looked at again."""
    positions = (
        replace(p, standing=Standing.UNAVAILABLE, commit=None) if p.target_key in refused else p for p in plan.positions
    )
    return replace(plan, positions=tuple(positions)) if refused else plan


def _carried_out(plan: GroupPlan, accepted: Accepted) -> GroupPlan:
    left = _without(plan, accepted.refused)
    done = with_positions(left, (_as_committed(each, accepted.bare) for each in left.positions))
    if accepted.refused:
        found = plan_troubled(plan.group, plan.target_group, next(iter(accepted.refused.values())))
        return replace(done, standing=found.standing, problem=found.problem)
    return done if done.standing is not plan.standing or done.problem else replace(done, problem=plan.problem)


def _as_committed(position: PositionPlan, bare: Collection[TargetTopicPartition]) -> PositionPlan:
    if position.commit is None:
        return position
    standing = Standing.IN_STEP if position.standing is Standing.DUE else position.standing
    is_bare = position.target_key in bare
    committed = without_metadata(position.to_commit) if is_bare else position.to_commit
    return replace(position, standing=standing, committed=committed, commit=None, is_bare=is_bare)


async def _delete(plan: GroupPlan, memory: GroupMemory, target: Client) -> GroupPlan:
    """Delete a group at the target if no consumer used it there: all its positions are those written by the link."""
    name = plan.target_group
    described = (await describe_groups(target, [name])).values.get(name)
    found: CommittedOffsets[TargetTopic] = await committed_offsets(target, [name])
    committed = found.values.get(name)
    written: Memory = memory.written.get(plan.group, {})
    if described is None or committed is None or not described.state.is_vacant or not _is_ours(committed, written):
        return replace(plan, delete=False)
    error = (await delete_groups(target, [name])).errors.get(name)
    if error is not None:
        return replace(plan_troubled(plan.group, name, error), standing=Standing.GONE_AT_SOURCE)
    memory.forget(plan.group)
    return plan


def _is_ours(committed: Positions[TargetTopic], written: Memory) -> bool:
    return all(key in written and written[key].target == found.offset for key, found in committed.items())
