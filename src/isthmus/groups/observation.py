"""The groups of a link on both sides at one moment, read into values; nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from isthmus.errors import ClusterError
from isthmus.groups.positions.translation import RANGES_S, TargetPosition, Translation
from isthmus.kafka.client import Client
from isthmus.kafka.commits.table import Transacted
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets, describe_groups
from isthmus.kafka.log.offsets import log_ranges
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.kafka.group import Committed, GroupDescription
from isthmus.model.kafka.log import LogRange
from isthmus.model.link import Link
from isthmus.model.namespace import Namespace
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition

_PATIENCE_S: Final = 0.5
"""A group that is not ready must not keep the others waiting: it is looked at again anyway."""

Echoes = Mapping[SourceTopicPartition, Transacted]
"""Commits at the source, by its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group. `positions` are those at the source, `committed` its own at the target, under its name there.

    `echoes` are what links in the other direction committed at the source since the group was last looked at.
    """

    group: str
    target_group: str
    positions: Positions[SourceTopic]
    echoes: Echoes = field(default_factory=dict)
    target: GroupDescription | None = None
    committed: Positions[TargetTopic] | None = None
    error: ClusterError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsView:
    """Some groups of a link. `mirrored` maps source topics to the target topics that are made of them.

    `ended` are partitions of the source whose topics at the target are no copies any more, though other partitions may
    be. `ranges` are the logs of target partitions. `translated` are positions at the source as positions at the target,
    and `mapped` the target topics with other offsets. For those in `home` the source's topics are the copies. For
    target groups in the `closed` namespaces no other client can commit, and acknowledged commits have to be there.
    """

    link: str
    settings: GroupSettings
    groups: tuple[GroupView, ...]
    mirrored: Mapping[SourceTopic, TargetTopic] = field(default_factory=dict)
    ended: frozenset[SourceTopicPartition] = frozenset()
    ranges: Mapping[TargetTopicPartition, LogRange] = field(default_factory=dict)
    translated: Translation = field(default_factory=Translation)
    mapped: frozenset[TargetTopic] = frozenset()
    home: frozenset[TargetTopic] = frozenset()
    closed: tuple[Namespace, ...] = ()


class Paths(Protocol):
    """The topic of the target that each topic of the source stands for; for `mapped` and `home` see `GroupsView`."""

    @property
    def mirrored(self) -> Mapping[SourceTopic, TargetTopic]: ...
    @property
    def mapped(self) -> frozenset[TargetTopic]: ...
    @property
    def home(self) -> frozenset[TargetTopic]: ...

    async def translation(
        self, settings: GroupSettings, wanted: Collection[TargetPosition], source: Client, target: Client
    ) -> Translation:
        """Translate positions at the source into positions at the target.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        ...


async def observe_groups(
    link: Link,
    positions: Mapping[str, Positions[SourceTopic]],
    echoes: Mapping[str, Echoes],
    paths: Paths,
    source: Client,
    target: Client,
    *,
    ended: frozenset[SourceTopicPartition] = frozenset(),
) -> GroupsView:
    """Observe the groups that have these positions at the source, as they stand at the target. For `ended` see
    `GroupsView`.

    :raises ClusterError: A cluster as a whole did not answer.
    """
    mirrored = paths.mirrored
    names = {
        group: target_name for group in positions if (target_name := link.groups.naming.to_target(group)) is not None
    }
    keys = {
        (mirrored[topic], partition)
        for group in names
        for topic, partition in positions[group]
        if topic in mirrored and (topic, partition) not in ended
    }
    committed: CommittedOffsets[TargetTopic]
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
        for (topic, partition), committed in _positions_to_translate(view)
        if topic in mirrored and (mirrored[topic], partition) in ranges.values
    }
    return GroupsView(
        link=link.name,
        settings=link.groups,
        groups=tuple(views),
        mirrored=mirrored,
        ended=ended,
        ranges=ranges.values,
        translated=await paths.translation(link.groups, wanted, source, target),
        mapped=paths.mapped,
        home=paths.home,
    )


def _positions_to_translate(view: GroupView) -> Iterable[tuple[SourceTopicPartition, Committed]]:
    """Yield all positions to be translated."""
    yield from view.positions.items()
    yield from ((key, echo.committed) for key, echo in view.echoes.items())
