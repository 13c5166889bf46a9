"""The groups of a link on both sides at one moment, read into values; nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.cluster.commits.table import Transacted
from isthmus.cluster.groups import Positions, committed_offsets, describe_groups
from isthmus.cluster.offsets import log_ranges
from isthmus.cluster.timestamps import offsets_by_time, record_timestamps
from isthmus.errors import ClusterError
from isthmus.ledger.documents import Document, TopicDocument
from isthmus.model.group import Committed, GroupDescription
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.log import LogRange
from isthmus.model.translation import timestamp_to_look_up
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.metadata import NO_TOPIC_ID, TopicMetadata
from isthmus.wire.offsets import PartitionKey

_PATIENCE_S: Final = 0.5
"""A group that is not ready shall not keep the others waiting: it is looked at again anyway."""
_RANGES_S: Final = 3.0
_MS_PER_S: Final = 1000
_STILL_MIRRORED: Final = frozenset({LaneState.DATA_GAP})
"""States in which copying has ended, while what was copied is what the source has or had."""

TargetPosition = tuple[PartitionKey, int]
"""A target partition and a position at the source."""

Echoes = Mapping[PartitionKey, Transacted]
"""Commits at the source, by its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group. `positions` are those at the source, `committed` its own at the target, under its name there.

    `echoes` are what links in the other direction committed at the source since the group was last looked at.
    """

    group: str
    target_group: str
    positions: Positions
    echoes: Echoes = field(default_factory=dict)
    target: GroupDescription | None = None
    committed: Positions | None = None
    error: ClusterError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsView:
    """Some groups of a link. `mirrored` maps source topics to the target topics that are made of them.

    `ended` are partitions of the source whose copies are none any more, though those of their topics may be. `ranges`
    are the logs of target partitions. `translated` are positions at the source as positions at the target.
    """

    link: str
    settings: GroupSettings
    groups: tuple[GroupView, ...]
    mirrored: Mapping[str, str] = field(default_factory=dict)
    ended: frozenset[PartitionKey] = frozenset()
    ranges: Mapping[PartitionKey, LogRange] = field(default_factory=dict)
    translated: Mapping[TargetPosition, int] = field(default_factory=dict)


async def mirrored_topics(
    link: Link, documents: Mapping[str, Document], source: Client, target: Client
) -> dict[str, str]:
    """The target topic of every source topic that this link has mirrored, as long as both are still the same topics.

    :raises ClusterError: A cluster as a whole did not answer.
    """
    known = [d for d in documents.values() if isinstance(d, TopicDocument) and d.link == link.name]
    known = [d for d in known if d.target_topic_id != NO_TOPIC_ID and _holds_copies(LaneState(d.state))]
    if not known:
        return {}
    here, there = await asyncio.gather(
        source.metadata(sorted({d.source_topic for d in known})),
        target.metadata(sorted({d.target_topic for d in known})),
    )
    return {
        d.source_topic: d.target_topic
        for d in known
        if _is(here.topics.get(d.source_topic), d.source_topic_id)
        and _is(there.topics.get(d.target_topic), d.target_topic_id)
    }


def ended_partitions(link: Link, documents: Mapping[str, Document]) -> frozenset[PartitionKey]:
    """The partitions of the source whose copies at the target are none any more."""
    return frozenset(
        (document.source_topic, each.partition)
        for document in documents.values()
        if isinstance(document, TopicDocument) and document.link == link.name
        for each in document.ended
        if not _holds_copies(LaneState(each.state))
    )


def _holds_copies(state: LaneState) -> bool:
    return not state.is_terminal or state in _STILL_MIRRORED


def _is(topic: TopicMetadata | None, topic_id: object) -> bool:
    return topic is not None and topic.error_code == codes.NONE and topic.topic_id == topic_id


async def observe_groups(
    link: Link,
    positions: Mapping[str, Positions],
    echoes: Mapping[str, Echoes],
    mirrored: Mapping[str, str],
    source: Client,
    target: Client,
    *,
    ended: frozenset[PartitionKey] = frozenset(),
) -> GroupsView:
    """The groups that have these positions at the source, as they stand at the target. For `ended` see `GroupsView`.

    :raises ClusterError: A cluster as a whole did not answer.
    """
    names = {
        group: target_name for group in positions if (target_name := link.groups.naming.to_target(group)) is not None
    }
    keys = {
        (mirrored[topic], partition)
        for group in names
        for topic, partition in positions[group]
        if topic in mirrored and (topic, partition) not in ended
    }
    described, committed, ranges = await asyncio.gather(
        describe_groups(target, names.values(), patience_s=_PATIENCE_S),
        committed_offsets(target, names.values(), require_stable=True, patience_s=_PATIENCE_S),
        log_ranges(target, keys, timeout_s=_RANGES_S),
    )
    views = [
        GroupView(
            group=group,
            target_group=name,
            positions=positions[group],
            echoes=echoes.get(group, {}),
            target=described.values.get(name),
            committed=committed.values.get(name),
            error=described.errors.get(name) or committed.errors.get(name),
        )
        for group, name in names.items()
    ]
    wanted = {
        ((mirrored[topic], partition), committed.offset)
        for view in views
        for (topic, partition), committed in _carried(view)
        if topic in mirrored and (mirrored[topic], partition) in ranges.values
    }
    return GroupsView(
        link=link.name,
        settings=link.groups,
        groups=tuple(views),
        mirrored=mirrored,
        ended=ended,
        ranges=ranges.values,
        translated=await _translated(link.groups, wanted, mirrored, source, target),
    )


def _carried(view: GroupView) -> Iterable[tuple[PartitionKey, Committed]]:
    """All that is to be translated."""
    yield from view.positions.items()
    yield from ((key, echo.committed) for key, echo in view.echoes.items())


async def _translated(
    settings: GroupSettings,
    wanted: Iterable[TargetPosition],
    mirrored: Mapping[str, str],
    source: Client,
    target: Client,
) -> dict[TargetPosition, int]:
    if settings.way != "timestamp":
        return {(key, position): position for key, position in wanted}
    sources = {target_topic: source_topic for source_topic, target_topic in mirrored.items()}
    left = set(wanted)
    found: dict[TargetPosition, int] = {}
    while left:
        # A partition at a time: groups may stand at different places of it.
        positions = dict(left)
        asked = {(sources[topic], partition): at for (topic, partition), at in positions.items()}
        logs = (await log_ranges(source, asked, timeout_s=_RANGES_S)).values
        stamps = await record_timestamps(source, asked, logs)
        margin_ms = int(settings.margin_s * _MS_PER_S)
        times = {
            (topic, partition): timestamp_to_look_up(stamps[sources[topic], partition], margin_ms)
            for topic, partition in positions
            if (sources[topic], partition) in stamps
        }
        # The ends are looked at first: what comes in between is behind them.
        ends = (await log_ranges(target, times, timeout_s=_RANGES_S)).values
        offsets = await offsets_by_time(target, times)
        for key, position in positions.items():
            if key in times and key in ends:
                found[key, position] = offsets[key] if offsets[key] >= 0 else ends[key].end
            elif (sources[key[0]], key[1]) in logs:
                # Nothing tells the time: everything there is is read again.
                found[key, position] = 0
        left -= set(positions.items())
    return found
