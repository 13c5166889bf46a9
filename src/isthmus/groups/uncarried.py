"""Groups that are not carried, and why."""

from __future__ import annotations

from typing import Final

from isthmus.groups.plan import GroupPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.model.kafka.group import GroupType
from isthmus.model.problem import Problem

_UNCERTAIN: Final = (
    "It is kept at the target: a coordinator that has just taken over may not know it yet. Only the log of commits is "
    "proof: grant READ on topic __consumer_offsets at the source, or delete the group at the target."
)


def plan_unsupported(group: str, target_group: str, kind: GroupType) -> GroupPlan:
    """Return the plan of a group whose progress is not in committed offsets."""
    problem = Problem(f"a {kind} group keeps its progress elsewhere", "Leave it out of the link's groups.")
    return GroupPlan(
        group=group, target_group=target_group, standing=Standing.UNSUPPORTED, source_type=kind, problem=problem
    )


def plan_name_clash(group: str, target_group: str, problem: Problem) -> GroupPlan:
    """Return the plan of a group whose name at the target another one has too."""
    return GroupPlan(group=group, target_group=target_group, standing=Standing.NAMES_MEET, problem=problem)


def plan_unlisted(group: str, target_group: str) -> GroupPlan:
    """Return the plan of a group that the source has, and that none of its brokers listed."""
    problem = Problem(
        "the group exists at the source, and no broker listed it: its positions are not known",
        "Its coordinator may just be starting: try again in a moment. isthmus cluster describe names brokers that "
        "do not answer.",
    )
    return GroupPlan(group=group, target_group=target_group, standing=Standing.UNAVAILABLE, problem=problem)


def plan_gone(group: str, target_group: str, *, delete: bool, certain: bool) -> GroupPlan:
    """Return the plan of a group that the source has no more; without `certain` it is not deleted at the target."""
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
