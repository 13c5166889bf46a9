"""Assemble a verdict from the findings in the records of a tree. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from isthmus.model.trees.treeverdict import TreeFaultKind, TreeFinding, TreePartitionVerdict, TreeTopicVerdict
from isthmus.spark.compare.trees.judgement import TreeStandings

FaultCounts = tuple[int, int, int, int, int]
"""The numbers of records that are doubled, missing, waiting, deleted and unjudged."""
_NO_FAULTS: Final[FaultCounts] = (0, 0, 0, 0, 0)


class LaneTotals(NamedTuple):
    """The number of records of a partition, and of those that came in, on each cluster; and the number of different
    records with too many or too few copies on a cluster.
    """

    lane: int
    here: tuple[int, ...]
    local: tuple[int, ...]
    suspect: int = 0


class TreeFound(NamedTuple):
    """The results, with partitions and clusters by their numbers: totals; the counts of faults, by partition and
    cluster; the number of breaks of the order, by partition, origin and cluster; and the first findings, as rows of
    partition, cluster, kind, offset, origin, its offset, and the other offset.
    """

    totals: Sequence[LaneTotals] = ()
    faults: Mapping[tuple[int, int], FaultCounts] = MappingProxyType({})
    breaks: Mapping[tuple[int, int, int], int] = MappingProxyType({})
    findings: Sequence[tuple[Any, ...]] = ()

    @property
    def wrong(self) -> frozenset[int]:
        """The partitions in which a record is doubled or missing, or an order breaks."""
        disordered = {lane for (lane, _, _), count in self.breaks.items() if count}
        return frozenset(disordered | {lane for (lane, _), each in self.faults.items() if each[0] or each[1]})

    def with_other(self, other: TreeFound, lanes: Collection[int]) -> TreeFound:
        """Return the results with those of these partitions replaced by the other ones."""
        return TreeFound(
            [each for each in self.totals if each.lane not in lanes] + list(other.totals),
            {key: each for key, each in self.faults.items() if key[0] not in lanes} | dict(other.faults),
            {key: each for key, each in self.breaks.items() if key[0] not in lanes} | dict(other.breaks),
            other.findings,
        )


def topic_verdicts(known: TreeStandings, found: TreeFound) -> tuple[TreeTopicVerdict, ...]:
    """Build the verdicts of all topics, for each partition on each cluster."""
    aliases = known.tree.clusters
    nothing = (0,) * len(aliases)
    totals = {each.lane: each for each in found.totals}
    breaks: Counter[tuple[int, int]] = Counter()
    for (lane, _, cluster), count in found.breaks.items():
        breaks[lane, cluster] += count
    findings: dict[tuple[int, int], list[TreeFinding]] = {}
    for lane, cluster, *row in found.findings:
        findings.setdefault((lane, cluster), []).append(_finding(aliases, row))
    topics: dict[str, list[TreePartitionVerdict]] = {}
    for lane, (topic, partition) in enumerate(known.lanes):
        total = totals.get(lane, LaneTotals(lane, nothing, nothing))
        for number, alias in enumerate(aliases):
            doubled, missing, waiting, deleted, unjudged = found.faults.get((lane, number), _NO_FAULTS)
            verdict = TreePartitionVerdict(
                partition=partition,
                cluster=alias,
                records=total.here[number],
                local=total.local[number],
                doubled=doubled,
                out_of_order=breaks[lane, number],
                missing=missing,
                waiting=waiting,
                deleted=deleted,
                unjudged=unjudged,
                findings=tuple(findings.get((lane, number), ())),
            )
            topics.setdefault(topic, []).append(verdict)
    return tuple(TreeTopicVerdict(topic=topic, partitions=tuple(each)) for topic, each in topics.items())


def _finding(aliases: Sequence[str], row: Sequence[Any]) -> TreeFinding:
    kind, offset, origin, origin_offset, other_offset = row
    return TreeFinding(
        kind=TreeFaultKind(kind),
        offset=offset,
        origin=None if origin is None else aliases[origin],
        origin_offset=origin_offset,
        other_offset=other_offset,
    )
