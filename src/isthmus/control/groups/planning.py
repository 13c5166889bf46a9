"""From what was observed of groups to what is to be done: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from isthmus.control.groups.committing import GroupCommit
from isthmus.control.groups.observation import GroupsView, GroupView
from isthmus.control.groups.plan import GroupPlan, PositionPlan
from isthmus.errors import IsthmusError, NotAuthorized
from isthmus.model.carrying import Situation, Standing, Written, decide
from isthmus.model.group import Committed, GroupState, GroupType
from isthmus.model.problem import Problem
from isthmus.wire.offsets import PartitionKey

Memory = Mapping[PartitionKey, Written]
"""Where both sides of a group stood when they were last made alike, by target partition."""

_ATTENTION: Final = (
    Standing.NOT_MIRRORED,
    Standing.IN_STEP,
    Standing.DUE,
    Standing.CATCHING_UP,
    Standing.MOVED_AT_TARGET,
    Standing.AHEAD_AT_TARGET,
    Standing.ACTIVE_AT_TARGET,
    Standing.MIRROR_ENDED,
    Standing.UNAVAILABLE,
)
"""From what needs least attention to what needs most."""

_UNCERTAIN: Final = (
    "It is kept at the target: a coordinator that has just taken over may not know it yet. Only the log of commits is "
    "proof: grant READ on topic __consumer_offsets at the source, or delete the group at the target."
)
_PROBLEMS: Final = {
    Standing.NOT_MIRRORED: Problem(
        "the link mirrors none of the topics the group reads",
        "Include them in the link's topics, or leave the group out.",
    ),
    Standing.MIRROR_ENDED: Problem(
        "a partition the group reads is no copy of the source's any more: its position at the target is left alone",
        "isthmus status tells which one, and what to do about it; the group's other positions are carried on.",
    ),
    Standing.ACTIVE_AT_TARGET: Problem(
        "the group has members at the target: it goes on from its own position",
        "Stop its consumers there; Isthmus goes on by itself.",
    ),
    Standing.MOVED_AT_TARGET: Problem(
        "somebody else set the group's position back at the target, and the source's has not changed since",
        "Nothing is to be done if that was meant: it is carried on with the next commit at the source.",
    ),
    Standing.AHEAD_AT_TARGET: Problem(
        "the group's position at the target is ahead of the source's and is not moved back",
        "Nothing is to be done if consumers went on at the target. To read again from the source's position, reset the "
        "group at the target with kafka-consumer-groups --reset-offsets.",
    ),
}


def plan_groups(view: GroupsView, memory: Mapping[str, Memory]) -> tuple[GroupPlan, ...]:
    """What to do with each group; `memory` is by the group's name at the source."""
    return tuple(_plan(view, group, memory.get(group.group, {})) for group in view.groups)


def commit_of(plan: GroupPlan) -> GroupCommit | None:
    """What to write for a group, `None` for nothing."""
    due = {p.target_key: p for p in plan.positions if p.commit is not None}
    if not due:
        return None
    return GroupCommit(
        positions={k: Committed(p.commit or 0, metadata=p.source.metadata) for k, p in due.items()},
        based_on={k: p.committed for k, p in due.items() if p.committed is not None},
    )


def troubled(group: str, target_group: str, error: IsthmusError) -> GroupPlan:
    """A group that cannot be read, or not written."""
    standing = Standing.NOT_AUTHORIZED if isinstance(error, NotAuthorized) else Standing.UNAVAILABLE
    problem = Problem(error.message, error.hint)
    return GroupPlan(group=group, target_group=target_group, standing=standing, problem=problem)


def unsupported(group: str, target_group: str, kind: GroupType) -> GroupPlan:
    """A group whose progress is not in committed offsets."""
    problem = Problem(f"a {kind} group keeps its progress elsewhere", "Leave it out of the link's groups.")
    return GroupPlan(
        group=group, target_group=target_group, standing=Standing.UNSUPPORTED, source_type=kind, problem=problem
    )


def gone(group: str, target_group: str, *, delete: bool, certain: bool) -> GroupPlan:
    """A group that the source has no more; one that is not `certain` to be gone is not deleted at the target."""
    hint = "It is kept at the target. Delete it there, or set the link's groups.delete_at_target."
    if delete:
        hint = "" if certain else _UNCERTAIN
    return GroupPlan(
        group=group,
        target_group=target_group,
        standing=Standing.GONE_AT_SOURCE,
        problem=Problem("the source has no such group any more", hint),
        delete=delete and certain,
    )


def _plan(view: GroupsView, group: GroupView, memory: Memory) -> GroupPlan:
    if group.error is not None or group.target is None or group.committed is None:
        error = group.error or IsthmusError(f"the target did not tell how group {group.target_group} stands")
        return troubled(group.group, group.target_group, error)
    positions = tuple(_position(view, group, key, memory) for key in sorted(group.positions))
    standing = _worst(position.standing for position in positions)
    return GroupPlan(
        group=group.group,
        target_group=group.target_group,
        standing=standing,
        target_state=group.target.state,
        positions=positions,
        problem=_PROBLEMS.get(standing),
    )


def _worst(standings: Iterable[Standing]) -> Standing:
    return max(standings, key=_ATTENTION.index, default=Standing.IN_STEP)


def _position(view: GroupsView, group: GroupView, key: PartitionKey, memory: Memory) -> PositionPlan:
    topic, partition = key
    source = group.positions[key]
    target_topic = view.mirrored.get(topic)
    target_key = (target_topic or "", partition)
    committed = (group.committed or {}).get(target_key)
    log = view.ranges.get(target_key)
    translated = view.translated.get((target_key, source.offset))
    has_ended = key in view.ended
    if target_topic is None or has_ended or log is None or translated is None:
        standing = Standing.MIRROR_ENDED if has_ended else Standing.UNAVAILABLE
        standing = Standing.NOT_MIRRORED if target_topic is None else standing
        return PositionPlan(
            topic=topic,
            partition=partition,
            target_topic=target_topic,
            source=source,
            translated=None,
            committed=committed,
            log_start=None,
            high_watermark=None,
            standing=standing,
        )
    decision = decide(
        Situation(
            source=source,
            translated=translated,
            committed=committed,
            log_start=log.start,
            high_watermark=log.end,
            is_vacant=group.target is not None and _is_vacant(group.target.state, group.target.type),
            written=memory.get(target_key),
        )
    )
    return PositionPlan(
        topic=topic,
        partition=partition,
        target_topic=target_topic,
        source=source,
        translated=translated,
        committed=committed,
        log_start=log.start,
        high_watermark=log.end,
        standing=decision.standing,
        commit=decision.offset,
    )


def _is_vacant(state: GroupState, kind: GroupType) -> bool:
    return state.is_vacant and kind is not GroupType.SHARE
