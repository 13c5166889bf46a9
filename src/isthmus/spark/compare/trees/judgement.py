"""Judge whether a record that a cluster of a tree lacks is missing, still to come, or deleted there already. Pure.

All records that come in on one cluster go the same way to another one, in order. So records of one cluster that another
one lacks are before the first of them that is there (deleted, if the log has lost its beginning), behind the last one
(still to come, unless the distributors have copied all), or between: these are missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.kafka.log import LogRange
from isthmus.model.trees.tree import Distributor, Tree

NO_OFFSET: Final = 2**63 - 1
"""Behind all offsets."""

ClusterLogs = Mapping[str, Mapping[PartitionKey, LogRange]]
"""By cluster, the logs it has."""


class Reach(NamedTuple):
    """The offsets, at their origin, of the first and the last record of a cluster that another cluster has."""

    first: int
    last: int


class CertainRange(NamedTuple):
    """Records of `origin` that `cluster` lacks are deleted there if they came in before the offset `begin`, still to
    come from `end` on, and otherwise missing. Clusters are numbers, and `lane` is the number of the partition.
    """

    lane: int
    origin: int
    cluster: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStandings:
    """The state of a tree without its records. `early` are the logs at a first look, `late` at a second one; between
    the two each distributor had copied up to `copied_to`, by its name. `doubted` are clusters that may lack records
    which come late. A distributor went over to the `switched` ones from another leaf, and records of that leaf may come
    from there, in another order. `compacted` are the topics from which a log cleaner removes records.
    """

    tree: Tree
    lanes: tuple[PartitionKey, ...]
    early: ClusterLogs
    late: ClusterLogs
    copied_to: Mapping[str, Mapping[PartitionKey, int]] = field(default_factory=dict)
    doubted: Collection[str] = frozenset()
    switched: Collection[str] = frozenset()
    compacted: Collection[str] = frozenset()

    @property
    def compacted_lanes(self) -> list[int]:
        """The numbers of the partitions of compacted topics."""
        return [number for number, (topic, _) in enumerate(self.lanes) if topic in self.compacted]

    def has_copied_all(self, key: PartitionKey, origin: str) -> dict[str, bool]:
        """Whether all records that had come in on `origin` at the first look were there at the second one, by cluster;
        according to the distributors on the way.
        """
        ways = self.tree.ways(origin).items()
        return {cluster: all(self._has_copied(each, key) for each in way) for cluster, way in ways}

    def _has_copied(self, distributor: Distributor, key: PartitionKey) -> bool:
        log = self.late.get(distributor.cluster, {}).get(key)
        # The log end is newer than the position of the distributor.
        return log is None or self.copied_to.get(distributor.name, {}).get(key, 0) >= log.stable_end

    def _find_awaited(self, key: PartitionKey) -> frozenset[str]:
        """Find the clusters that may still get records that later ones have overtaken."""
        into_switched = (each for each in self.tree.distributors if each.target in self.switched)
        is_quiet = all(self._has_copied(each, key) for each in into_switched)
        return frozenset(self.doubted) if is_quiet else frozenset((*self.doubted, *self.switched))

    def certain_ranges(self, reaches: Mapping[tuple[int, int, int], Reach], now: ClusterLogs) -> Iterator[CertainRange]:
        """Yield the certain range of each partition, from each cluster to each other one. `reaches` are by the numbers
        of partition, origin and cluster; `now` are the logs after they were read.
        """
        clusters = self.tree.clusters
        for lane, key in enumerate(self.lanes):
            awaited = self._find_awaited(key)
            for origin, source in enumerate(clusters):
                has_all = self.has_copied_all(key, source)
                for number, cluster in enumerate(clusters):
                    if number == origin:
                        continue
                    log = now.get(cluster, {}).get(key)
                    begin, end = certain_range(
                        reaches.get((lane, origin, number)),
                        has_deleted=log is not None and log.start > 0,
                        is_compacted=key[0] in self.compacted,
                        has_copied_all=has_all[cluster],
                        is_doubted=cluster in awaited,
                    )
                    yield CertainRange(lane, origin, number, begin, end)


def certain_range(
    reach: Reach | None, *, has_deleted: bool, is_compacted: bool, has_copied_all: bool, is_doubted: bool
) -> tuple[int, int]:
    """Return the `begin` and `end` of a `CertainRange`. `reach` is `None` if no record of the origin is there."""
    if is_doubted:
        return 0, 0
    begin = 0
    if is_compacted:
        begin = NO_OFFSET
    elif has_deleted:
        begin = NO_OFFSET if reach is None else reach.first
    if has_copied_all:
        return begin, NO_OFFSET
    return begin, 0 if reach is None else reach.last + 1
