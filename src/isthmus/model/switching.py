"""To which leaf of a subtree a distributor copies where that was chosen, and how it goes over to another one. Pure.

Up to an offset of each source partition one leaf gets what is distributed, and the next leaf gets what comes from there
on. In good order the next one gets its first record only when every leaf of the subtree holds all that the one before
was sent: otherwise a later record could overtake an earlier one of the same producer inside the subtree.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor

NO_OFFSET = -1


class LaneBegin(NamedTuple):
    """From which offset of a source partition on a leaf gets what is distributed: up to there another one got it."""

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """The leaf that a distributor copies to, in place of the one that follows from the tree.

    `wanted` is the leaf that it is to copy to: another one while it goes over. `former` are those that it copied to
    before, and `begins` says from where on `target` gets what there is; a partition that is missing there was never
    distributed to another one. `serial` grows with every change.
    """

    target: str
    wanted: str
    serial: int = 1
    former: tuple[str, ...] = ()
    begins: tuple[LaneBegin, ...] = ()

    @property
    def is_under_way(self) -> bool:
        """Whether it goes over to another leaf."""
        return self.wanted != self.target

    def is_of(self, leaves: Collection[str]) -> bool:
        """Whether it says something of a subtree with these leaves."""
        return {self.target, self.wanted} <= {*leaves}

    def asked(self, leaf: str) -> TargetChoice:
        """It, once another leaf is wanted; the present one takes the wish back."""
        return replace(self, wanted=leaf, serial=self.serial + 1)

    def over(self, begins: Iterable[LaneBegin]) -> TargetChoice:
        """It, once the wanted leaf has become the target: from these offsets on."""
        former = tuple(dict.fromkeys((*self.former, self.target)))
        return replace(self, target=self.wanted, former=former, begins=tuple(begins), serial=self.serial + 1)


class Onward(NamedTuple):
    """A distributor inside a subtree that copies further what came to one of its leaves."""

    link: str
    source: Cluster
    target: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class GoingOver:
    """That a distributor goes over to the leaf `to`. By `onward`, in the order of hops, what its present target gets
    comes to all other leaves. `serial` is that of the choice.
    """

    to: str
    serial: int
    onward: tuple[Onward, ...] = ()


def begin_of(begins: Iterable[LaneBegin], topic: SourceTopic, topic_id: uuid.UUID, partition: int) -> int:
    """The offset before which a lane copies nothing, -1 for none. A topic that was created anew begins anew."""
    none = uuid.UUID(int=0)
    for each in begins:
        is_same = none in (each.topic_id, topic_id) or each.topic_id == topic_id
        if (each.topic, each.partition) == (topic, partition) and is_same:
            return each.offset
    return NO_OFFSET


def stopped_at(
    lanes: Iterable[Lane], reports: Mapping[LaneKey, LaneReport], begun: Mapping[LaneKey, Cursor]
) -> tuple[tuple[LaneBegin, ...], str]:
    """Where the lanes of a distributor have stopped for good, and why that is not known of all of them, if so.

    `begun` are all that ever copied: of one that does not run now nobody knows how far it was.
    """
    found: list[LaneBegin] = []
    running = {lane.key: lane for lane in lanes}
    for key, lane in sorted(running.items()):
        report = reports.get(key)
        if report is None or report.state is not LaneState.HELD or report.position < 0:
            state = LaneState.STARTING if report is None else report.state
            return (), f"{key} has not stopped yet: it is {state}"
        found.append(LaneBegin(lane.source_topic, lane.source_topic_id, lane.partition, report.position))
    for key in sorted(begun):
        if key not in running:
            return (), f"{key} was distributed, and is not looked at now: it is paused, refused or not selected"
    return tuple(found), ""


def behind(logs: Mapping[tuple[str, int], LogRange], cursors: Mapping[LaneKey, Cursor]) -> LaneKey | None:
    """The first partition of which a distributor has not yet dealt with all that the log at its cluster had."""
    at: dict[tuple[str, int], int] = {(key.topic, key.partition): one.source_offset for key, one in cursors.items()}
    for (topic, partition), log in sorted(logs.items()):
        if log.end > log.start and at.get((topic, partition), NO_OFFSET) < log.end:
            return LaneKey(TargetTopic(topic), partition)
    return None
