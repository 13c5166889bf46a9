"""Translate positions at the source into positions at the target, in the way that link and topic allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.timestamps import offsets_by_time, record_timestamps
from isthmus.lanes.maps import LinkMaps, mapped_position
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.naming import SourceTopic, TargetTopic, TargetTopicPartition, TopicT
from isthmus.model.translation import timestamp_to_look_up

RANGES_S: Final = 3.0
_MS_PER_S: Final = 1000

TargetPosition = tuple[TargetTopicPartition, int]
"""A target partition and a position at the source."""


@dataclass(slots=True)
class Translation:
    """The positions at the target for positions at the source.

    For those that are `unreached` the target does not hold all that lies before them yet, as far as a map shows.
    `untold` has the reason why a position is unknown, where that is more than a cluster that did not answer.
    """

    offsets: dict[TargetPosition, int] = field(default_factory=dict)
    unreached: set[TargetPosition] = field(default_factory=set)
    untold: dict[TargetPosition, Standing] = field(default_factory=dict)

    def __or__(self, other: Translation) -> Translation:
        return Translation(self.offsets | other.offsets, self.unreached | other.unreached, self.untold | other.untold)


def by_offset(settings: GroupSettings, wanted: Iterable[TargetPosition], maps: LinkMaps) -> Translation:
    """Translate positions without any request: the same offsets where the topic has the same, else by its map."""
    found = Translation()
    for at in wanted:
        key, position = at
        if not maps.is_mapped(key[0]):
            found.offsets[at] = position
            continue
        if settings.way != "mapped" and not maps.is_parted(key[0]):
            found.untold[at] = Standing.OFFSETS_DIFFER
            continue
        lane = maps.of(key)
        place = None if lane is None else mapped_position(lane, position)
        if place is None:
            found.untold[at] = Standing.WAITING_FOR_MAP
            continue
        found.offsets[at] = place.offset
        if not place.is_reached:
            found.unreached.add(at)
    return found


async def by_time(
    settings: GroupSettings,
    wanted: Iterable[TargetPosition],
    mirrored: Mapping[SourceTopic, TargetTopic],
    source: Client,
    target: Client,
) -> dict[TargetPosition, int]:
    """Translate positions by the times of their records, less a margin: to the first record at the target that is not
    older. Partitions that do not answer are left out.

    :raises ClusterError: A cluster as a whole did not answer, or a partition's leader could not look up times.
    """
    sources = {target_topic: source_topic for source_topic, target_topic in mirrored.items()}
    found: dict[TargetPosition, int] = {}
    for positions in rounds(wanted):
        asked = {(sources[topic], partition): at for (topic, partition), at in positions.items()}
        logs = (await log_ranges(source, asked, timeout_s=RANGES_S)).values
        stamps = await record_timestamps(source, asked, logs)
        margin_ms = int(settings.margin_s * _MS_PER_S)
        times = {
            (topic, partition): timestamp_to_look_up(stamps[sources[topic], partition], margin_ms)
            for topic, partition in positions
            if (sources[topic], partition) in stamps
        }
        offsets = {key: end if offset < 0 else offset for key, offset, end in await offsets_or_ends(target, times)}
        for key, position in positions.items():
            if key in offsets:
                found[key, position] = offsets[key]
            elif key not in times and (sources[key[0]], key[1]) in logs:
                # The time is unknown: everything there is is read again.
                found[key, position] = 0
    return found


def rounds(wanted: Iterable[tuple[tuple[TopicT, int], int]]) -> Iterator[dict[tuple[TopicT, int], int]]:
    """Yield positions for requests that take one of each partition: groups may have different positions in it."""
    left = set(wanted)
    while left:
        positions = dict(left)
        yield positions
        left -= set(positions.items())


async def offsets_or_ends(
    target: Client, times: Mapping[TargetTopicPartition, int]
) -> list[tuple[TargetTopicPartition, int, int]]:
    """Return the first offset that is not older than each time (ms), -1 where there is none, and the end; partitions
    that do not answer are left out.

    :raises ClusterError: The cluster as a whole did not answer, or a partition's leader could not look up times.
    """
    # The ends are read first: records that come in between are behind them.
    ends = (await log_ranges(target, times, timeout_s=RANGES_S)).values
    offsets = await offsets_by_time(target, times)
    return [(key, offsets[key], ends[key].end) for key in times if key in ends]
