"""Consumer groups at the target whose topic is deleted and created again: brokers forget their positions with it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, GateNotMet
from isthmus.groups.transaction import commit_outside
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import (
    CommittedOffsets,
    Positions,
    committed_offsets,
    describe_groups,
    list_groups,
    merge_listings,
)
from isthmus.model.kafka.group import NO_LEADER_EPOCH, Committed
from isthmus.model.links.recovery import DivergedPartition, HeldPosition, RestoredPosition
from isthmus.model.naming import TargetTopic
from isthmus.model.text.wording import first_few

_FORGETTING_S: Final = 15.0
_LOOK_S: Final = 0.2


async def held_positions(target: Client, topic: TargetTopic) -> tuple[HeldPosition, ...]:
    """Return the positions of all groups of a cluster in a topic.

    :raises ClusterError: Not all of them could be read: unknown positions cannot be restored.
    """
    names = await list_groups(target)
    for error in names.errors.values():
        raise error
    found: CommittedOffsets[TargetTopic] = await committed_offsets(
        target, list(merge_listings(names)), require_stable=True
    )
    for each in found.errors.values():
        raise each
    return tuple(
        HeldPosition(group, partition, committed.offset, committed.metadata)
        for group, positions in sorted(found.values.items())
        for (name, partition), committed in sorted(positions.items())
        if name == topic
    )


async def require_nobody(target: Client, groups: Collection[str]) -> None:
    """Require that these groups have no members: they would lose their positions while they work.

    :raises GateNotMet: One has.
    :raises ClusterError: A group could not be described.
    """
    found = await describe_groups(target, sorted(groups))
    for error in found.errors.values():
        raise error
    at_work = sorted(name for name, group in found.values.items() if group.members)
    if at_work:
        raise GateNotMet(
            f"consumers are at work at {target.cluster.alias}: {first_few(at_work)}",
            hint="Stop them, and give the command again: their topic is deleted and filled again. Nothing was deleted.",
        )


async def await_forgotten(
    target: Client, topic: TargetTopic, groups: Collection[str], *, term_s: float = _FORGETTING_S
) -> None:
    """Wait until coordinators have dropped the positions of a deleted topic, so that none does so later.

    A coordinator that was just taking groups over when the topic was deleted keeps them for good: `restore` handles
    these.

    :raises GateNotMet: A coordinator does not answer, so it may drop them at any time.
    """
    deadline = Deadline(term_s)
    while groups:
        found: CommittedOffsets[TargetTopic] = await committed_offsets(target, sorted(groups))
        if not found.errors and not any(name == topic for positions in found.values.values() for name, _ in positions):
            return
        if deadline.has_passed:
            if found.errors:
                raise _unknown_error(topic, target.cluster.alias, found.errors)
            return
        await asyncio.sleep(_LOOK_S)


def _unknown_error(topic: TargetTopic, alias: str, errors: Mapping[str, ClusterError]) -> GateNotMet:
    first = min(errors)
    return GateNotMet(
        f"it is unknown whether {alias} has dropped the positions in {topic}, which was deleted, of "
        f"{first_few(sorted(errors))}: {errors[first]}",
        hint=f"See that the brokers of {alias} are up; then give the command again, which goes on from here.",
    )


def foreseen(held: Sequence[HeldPosition], partitions: Sequence[DivergedPartition]) -> tuple[RestoredPosition, ...]:
    """Return the future positions of groups: those of now, at most at the last shared offset; or those a map has."""
    shared = {each.partition: each.shared for each in partitions}
    return tuple(_foreseen(each, shared.get(each.partition, each.offset)) for each in held)


def _foreseen(each: HeldPosition, shared: int) -> RestoredPosition:
    if each.at_source >= 0:
        return RestoredPosition(group=each.group, partition=each.partition, before=each.offset, after=each.at_source)
    is_beyond = each.offset > shared
    return RestoredPosition(
        group=each.group,
        partition=each.partition,
        before=each.offset,
        after=min(each.offset, shared),
        reason="beyond the last shared offset: records that it had read from there on are in quarantine"
        if is_beyond
        else "",
    )


async def restore(
    target: Client, topic: TargetTopic, held: Sequence[HeldPosition], wanted: Sequence[RestoredPosition]
) -> tuple[RestoredPosition, ...]:
    """Restore positions, unless a group has one there by now: then it, or the link, was quicker. A position that it had
    in the topic before is one that its coordinator has kept.

    :raises GateNotMet: Some could not be restored; the others are.
    :raises ClusterError: The groups cannot be read.
    """
    groups = sorted({each.group for each in wanted})
    now: CommittedOffsets[TargetTopic] = await committed_offsets(target, groups)
    for error in now.errors.values():
        raise error
    metadata = {(each.group, each.partition): each.metadata for each in held}
    commits: dict[str, Positions[TargetTopic]] = {}
    for each in wanted:
        there = now.values.get(each.group, {}).get((topic, each.partition))
        if there is None or (there.offset == each.before != each.after):
            commits.setdefault(each.group, {})[topic, each.partition] = Committed(
                each.after, NO_LEADER_EPOCH, metadata.get((each.group, each.partition), "")
            )
    errors = (await commit_outside(target, commits)).errors
    if errors:
        first = min(errors)
        raise GateNotMet(
            f"{topic} is filled again, but groups could not be put back: {first_few(sorted(errors))}: {errors[first]}",
            hint="As long as they have no position they begin as auto.offset.reset sets. Stop their consumers, or "
            f"grant the missing right; then run the command again. {errors[first].hint}".rstrip(),
        )
    return tuple(_result_of(topic, each, now.values, commits) for each in wanted)


def _result_of(
    topic: TargetTopic,
    each: RestoredPosition,
    now: Mapping[str, Positions[TargetTopic]],
    commits: Mapping[str, Positions[TargetTopic]],
) -> RestoredPosition:
    if (topic, each.partition) in commits.get(each.group, {}):
        return each
    there = now[each.group][topic, each.partition].offset
    reason = each.reason if there == each.after else "the group, or the link, was quicker"
    return RestoredPosition(group=each.group, partition=each.partition, before=each.before, after=there, reason=reason)
