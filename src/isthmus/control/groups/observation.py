"""The groups of a link on both sides at one moment, read into values; nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.cluster.commits.table import Transacted
from isthmus.cluster.groups import Positions, committed_offsets, describe_groups
from isthmus.cluster.offsets import log_ranges
from isthmus.control.groups.translation import RANGES_S, Translation, translation
from isthmus.control.lanes.maps import LinkMaps
from isthmus.errors import ClusterError
from isthmus.ledger.documents import Document, TopicDocument
from isthmus.model.group import Committed, GroupDescription
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.log import LogRange
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.metadata import NO_TOPIC_ID, TopicMetadata
from isthmus.wire.offsets import PartitionKey

_PATIENCE_S: Final = 0.5
"""A group that is not ready shall not keep the others waiting: it is looked at again anyway."""
_STILL_MIRRORED: Final = frozenset({LaneState.DATA_GAP})
"""States in which copying has ended, while what was copied is what the source has or had."""

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
    are the logs of target partitions. `translated` are positions at the source as positions at the target, and `mapped`
    the target topics whose offsets are others.
    """

    link: str
    settings: GroupSettings
    groups: tuple[GroupView, ...]
    mirrored: Mapping[str, str] = field(default_factory=dict)
    ended: frozenset[PartitionKey] = frozenset()
    ranges: Mapping[PartitionKey, LogRange] = field(default_factory=dict)
    translated: Translation = field(default_factory=Translation)
    mapped: frozenset[str] = frozenset()


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
    maps: LinkMaps,
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
        log_ranges(target, keys, timeout_s=RANGES_S),
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
        translated=await translation(link.groups, wanted, mirrored, maps, source, target),
        mapped=frozenset(topic for topic in mirrored.values() if maps.is_mapped(topic)),
    )


def _carried(view: GroupView) -> Iterable[tuple[PartitionKey, Committed]]:
    """All that is to be translated."""
    yield from view.positions.items()
    yield from ((key, echo.committed) for key, echo in view.echoes.items())
