"""The observation of links, from one look to the next: their lag in time, and counts of events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.groups.positions.carrying import Standing
from isthmus.metrics.lateness import Lateness
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.links.progress import LinkProgress, PartitionProgress

SOURCE_KINDS: Final = (LaneState.SOURCE_UNAVAILABLE, LaneState.DATA_GAP, LaneState.DIVERGED)
TARGET_KINDS: Final = (LaneState.TARGET_UNAVAILABLE, LaneState.FOREIGN_WRITE)
_COUNTED: Final = (*SOURCE_KINDS, *TARGET_KINDS, LaneState.NOT_AUTHORIZED)
_SETTLED: Final = (Standing.IN_STEP, Standing.TRANSLATED, Standing.BY_OTHERS, Standing.GONE_AT_SOURCE)


class LinkLane(NamedTuple):
    """A lane of one link of many."""

    link: str
    lane: LaneKey


class LinkTopic(NamedTuple):
    """A topic of one link of many."""

    link: str
    topic: str


class LinkKind(NamedTuple):
    """A state that partitions of a link get into."""

    link: str
    kind: LaneState


class LinkGroup(NamedTuple):
    """A group of one link of many."""

    link: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All known facts about the links of a process at a moment (s, on a monotonic clock); immutable.

    `gap_records`, `errors` and `denials` only grow, `out_of_step_s` is for how long groups have not been in step.
    """

    at_s: float
    links: tuple[LinkProgress, ...]
    lag_s: Mapping[LinkLane, float] = field(default_factory=dict)
    gap_records: Mapping[LinkTopic, int] = field(default_factory=dict)
    errors: Mapping[LinkKind, int] = field(default_factory=dict)
    denials: Mapping[LinkTopic, int] = field(default_factory=dict)
    out_of_step_s: Mapping[LinkGroup, float] = field(default_factory=dict)


class Observer:
    """Looks at links again and again. Any thread may read `newest` at any time."""

    def __init__(self) -> None:
        self.newest: Observation | None = None
        self._lateness: dict[LinkLane, Lateness] = {}
        self._states: dict[LinkLane, LaneState] = {}
        self._gaps: dict[LinkTopic, set[tuple[int, Gap]]] = {}
        self._errors: Counter[LinkKind] = Counter()
        self._denials: Counter[LinkTopic] = Counter()
        self._in_step_at: dict[LinkGroup, float] = {}

    def take(self, links: tuple[LinkProgress, ...], now: float) -> Observation:
        """Compare the present state of the links with the one before."""
        lag_s: dict[LinkLane, float] = {}
        for key, partition in _partitions(links):
            self._count(key, partition)
            late = self._lateness.setdefault(key, Lateness()).lag_s(_position(partition), partition.source_end, now)
            if late is not None:
                lag_s[key] = late
        self._forget(links)
        self.newest = Observation(
            at_s=now,
            links=links,
            lag_s=lag_s,
            gap_records={
                topic: sum(gap.offset_end - gap.offset_begin for _, gap in gaps) for topic, gaps in self._gaps.items()
            },
            errors=dict(self._errors),
            denials=dict(self._denials),
            out_of_step_s=dict(self._out_of_step(links, now)),
        )
        return self.newest

    def _count(self, key: LinkLane, partition: PartitionProgress) -> None:
        topic = LinkTopic(key.link, key.lane.topic)
        if partition.gaps:
            self._gaps.setdefault(topic, set()).update((key.lane.partition, gap) for gap in partition.gaps)
        if partition.state is self._states.get(key):
            return
        self._states[key] = partition.state
        if partition.state in _COUNTED:
            self._errors[LinkKind(key.link, partition.state)] += 1
        if partition.state is LaneState.NOT_AUTHORIZED:
            self._denials[topic] += 1

    def _forget(self, links: tuple[LinkProgress, ...]) -> None:
        """Forget partitions that are gone; counts stay, as counters never decrease."""
        if len(self._lateness) == sum(len(topic.partitions) for link in links for topic in link.topics):
            return
        there = {key for key, _ in _partitions(links)}
        for gone in self._lateness.keys() - there:
            del self._lateness[gone]
            self._states.pop(gone, None)

    def _out_of_step(self, links: tuple[LinkProgress, ...], now: float) -> Iterator[tuple[LinkGroup, float]]:
        groups = [(LinkGroup(link.link, group.group), group.standing) for link in links for group in link.groups]
        known, self._in_step_at = self._in_step_at, {}
        for key, standing in groups:
            in_step_at = now if standing in _SETTLED else known.get(key, now)
            self._in_step_at[key] = in_step_at
            yield key, now - in_step_at


def _partitions(links: tuple[LinkProgress, ...]) -> Iterator[tuple[LinkLane, PartitionProgress]]:
    for link in links:
        for topic in link.topics:
            for partition in topic.partitions:
                yield LinkLane(link.link, partition.key), partition


def _position(partition: PartitionProgress) -> int:
    """Return the source offset up to which all was copied; records that the source deleted before count as copied, as
    in the lag.
    """
    copied_end = partition.target_end if partition.copied_end is None else partition.copied_end
    return copied_end if copied_end < 0 else max(copied_end, partition.source_start)
