"""Groups while their source is away: their positions at the target, and the last known ones at the source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from isthmus.groups.plan import GroupPlan, PositionPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets, describe_groups
from isthmus.kafka.log.offsets import log_ranges
from isthmus.lanes.maps import LinkMaps
from isthmus.ledger.documents.kinds import GroupDocument, GroupPosition
from isthmus.memory.links import LinkMemory, now_ms, recollect
from isthmus.model.kafka.group import NO_OFFSET, Committed, GroupState
from isthmus.model.kafka.log import LogRange
from isthmus.model.link import Link
from isthmus.model.naming import NOWHERE, SourceTopic, TargetTopic, TargetTopicPartition
from isthmus.model.problem import Problem

_RANGES_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class _Target:
    """The target's answers about the groups, by their names there, and about the partitions they read."""

    committed: Mapping[str, Positions[TargetTopic]]
    states: Mapping[str, GroupState]
    ranges: Mapping[TargetTopicPartition, LogRange]


async def remembered_groups(link: Link, target: Client, wanted: Callable[[str], bool]) -> list[GroupPlan]:
    """Return the groups that the ledger or the configuration names, each UNAVAILABLE.

    :raises ClusterError: The target does not answer either.
    """
    known = await recollect(link.name, target)
    documents = {each.group: each for each in GroupDocument.find_all(known.documents.values())}
    groups = sorted(name for name in {*documents, *link.groups.literals} if wanted(name))
    names = {group: link.groups.naming.to_target(group) or group for group in groups}
    committed: CommittedOffsets[TargetTopic]
    committed, described = await asyncio.gather(
        committed_offsets(target, names.values()), describe_groups(target, names.values())
    )
    keys = {key for positions in committed.values.values() for key in positions}
    seen = _Target(
        committed.values,
        {name: found.state for name, found in described.values.items()},
        (await log_ranges(target, keys, timeout_s=_RANGES_S)).values,
    )
    maps = LinkMaps(link.name, known.documents)
    maps.look()
    plans = [_group(known, documents.get(group), group, name, seen) for group, name in names.items()]
    completed = partial(_without_source, maps, is_time=link.distributor is not None)
    return [replace(plan, positions=tuple(map(completed, plan.positions))) for plan in plans]


def _without_source(maps: LinkMaps, position: PositionPlan, *, is_time: bool) -> PositionPlan:
    """Complete a position from the maps; a distributor remembers a time in place of the source's position."""
    source = Committed(NO_OFFSET) if is_time else position.source
    return replace(position, source=source, is_mapped=maps.is_mapped(position.target_topic or NOWHERE))


def _group(known: LinkMemory, document: GroupDocument | None, group: str, name: str, seen: _Target) -> GroupPlan:
    positions = tuple(sorted(_positions(known, document, name, seen), key=lambda p: (p.topic, p.partition)))
    return GroupPlan(
        group=group,
        target_group=name,
        standing=Standing.UNAVAILABLE,
        target_state=seen.states.get(name, GroupState.UNKNOWN),
        positions=positions,
        problem=Problem("the source does not answer: positions there are those that were last carried"),
    )


def _positions(known: LinkMemory, document: GroupDocument | None, name: str, seen: _Target) -> Iterator[PositionPlan]:
    written: dict[TargetTopicPartition, GroupPosition] = {}
    if document is not None:
        written = {(p.topic, p.partition): p for p in document.positions}
    age_s = 0.0 if document is None else known.document_age_s(document, now_ms())
    sources = {topic: d.source_topic for topic, d in known.topics.items()}
    committed = seen.committed.get(name, {})
    for key in {*written, *committed}:
        position, log = written.get(key), seen.ranges.get(key)
        yield PositionPlan(
            topic=sources.get(key[0]) or SourceTopic(key[0]),
            partition=key[1],
            target_topic=key[0],
            source=Committed(NO_OFFSET if position is None else position.source),
            source_age_s=age_s,
            translated=None if position is None else position.target,
            committed=committed.get(key),
            log_start=None if log is None else log.start,
            high_watermark=None if log is None else log.end,
            standing=Standing.UNAVAILABLE,
        )
