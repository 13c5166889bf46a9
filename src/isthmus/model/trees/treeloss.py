"""The loss of a tree when a cluster is gone for good, as far as the other clusters know. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.text.plain import PlainValue
from isthmus.model.text.wording import format_count
from isthmus.model.trees.switching import LeafDoubt

_EXAMPLES_MAX: Final = 5


class Undistributed(NamedTuple):
    """How far a distributor of the cluster had come with a partition: it copied the messages before `position` to
    `target`, and no report had seen the source beyond `end`. Messages that it was to leave alone count, too.
    """

    distributor: str
    target: str
    topic: TargetTopic
    partition: int
    position: int
    end: int


class Unsent(NamedTuple):
    """The messages of a partition of `source` that the cluster may have lacked: from `position` to `end`, which no
    other cluster of its subtree was sent. It is there still as long as it is retained.
    """

    distributor: str
    source: str
    topic: SourceTopic
    partition: int
    position: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLoss(PlainValue):
    """The losses that come with the removal of a cluster.

    `undistributed` are partitions of which some clusters have less than the cluster was seen to have. `unsent` is what
    was in doubt there. By `entrances` others of its subtree got what they copied to it: what it had taken and had not
    passed on is not sent again. Of `unknown`, its distributors, no cluster knows how far they were.
    """

    undistributed: tuple[Undistributed, ...] = ()
    unsent: tuple[Unsent, ...] = ()
    entrances: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def sentences(self, cluster: str, tree: str) -> Iterator[str]:
        """Yield all of it for people, before it is given up."""
        yield (
            f"What was produced on {cluster} and not copied from there is lost to tree {tree}; messages that no "
            "process has seen cannot be counted."
        )
        for name, (records, places) in _by_distributor(self.undistributed).items():
            yield f"{name} had up to {format_count(records, 'record')} still to copy: {places}."
        if self.unknown:
            yield f"No cluster that answers knows how far these had come: {', '.join(self.unknown)}."
        for name, (records, places) in _by_distributor(self.unsent).items():
            yield (
                f"{cluster} was IN_DOUBT of up to {format_count(records, 'record')} of {name}, which no other leaf of "
                f"its subtree was sent: {places}. They are at the cluster that {name} reads, as long as they are "
                "retained."
            )
        if self.entrances:
            yield (
                f"What {cluster} had taken from {', '.join(self.entrances)} and had not passed on is not sent again: "
                "the other leaves of its subtree may lack it. Messages that it may not have taken are sent again, "
                "and may come twice."
            )


def loss_of(
    reports: Mapping[str, Mapping[str, Mapping[LaneKey, LaneReport]]],
    doubts: Mapping[tuple[str, str], LeafDoubt],
    entrances: Iterable[str],
) -> TreeLoss:
    """The losses that come with the removal of a cluster.

    `reports` are the last ones of its distributors' lanes, by distributor and target, `doubts` those of the cluster by
    distributor and its source, and `entrances` the distributors that leave the cluster now.
    """
    ends: dict[LaneKey, int] = {}
    for report in (one for targets in reports.values() for lanes in targets.values() for one in lanes.values()):
        ends[report.key] = max(ends.get(report.key, 0), report.position, report.source_end)
    undistributed = []
    for name, targets in reports.items():
        # A distributor has had several targets: the one where it was furthest is the last.
        furthest: dict[LaneKey, tuple[int, str]] = {}
        for target, lanes in targets.items():
            for key, report in lanes.items():
                furthest[key] = max(furthest.get(key, (0, "")), (max(report.position, 0), target))
        for key, end in sorted(ends.items()):
            position, target = furthest.get(key, (0, ""))
            if furthest and position < end:
                undistributed.append(Undistributed(name, target, key.topic, key.partition, position, end))
    return TreeLoss(
        undistributed=tuple(undistributed),
        unsent=tuple(
            Unsent(name, source, lane.topic, lane.partition, lane.position, lane.end)
            for (name, source), doubt in sorted(doubts.items())
            for lane in doubt.lanes
        ),
        entrances=tuple(sorted(entrances)),
        unknown=tuple(sorted(name for name, targets in reports.items() if not any(targets.values()))),
    )


def _by_distributor(found: Iterable[Undistributed | Unsent]) -> dict[str, tuple[int, str]]:
    """Return by distributor the number of records, and their places."""
    each: dict[str, list[Undistributed | Unsent]] = {}
    for one in found:
        each.setdefault(one.distributor, []).append(one)
    return {name: (sum(one.end - one.position for one in ones), _places(ones)) for name, ones in each.items()}


def _places(found: list[Undistributed | Unsent]) -> str:
    named = [f"{each.topic}-{each.partition} from {each.position} to {each.end}" for each in found[:_EXAMPLES_MAX]]
    more = len(found) - len(named)
    return ", ".join(named) + (f" and {format_count(more, 'partition')} more" if more else "")
