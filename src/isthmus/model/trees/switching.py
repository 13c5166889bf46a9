"""The leaf of a subtree to which a distributor copies if one was chosen, and how it switches to another one. Pure.

Up to an offset of each source partition one leaf receives the records, and the next leaf receives them from there on.
In good order the next one receives its first record only when every leaf of the subtree holds all that the one before
was sent: otherwise a later record could overtake an earlier one of the same producer inside the subtree.

A leaf that is gone cannot be waited for. So a distributor states at its source how far it may go before it goes there,
and the next leaf begins there, or where the source ended. How many of the records before that the leaf that is gone
received is in doubt: it receives the rest of them itself when it is back, so that its position need not be known.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic
from isthmus.model.offsets import Cursor

NO_OFFSET = -1
AHEAD_RECORDS: Final = 10_000
AHEAD_S: Final = 10.0
"""An allowance reaches so many records beyond a lane, or as many as it copies in that time where that is more."""
_MORE: Final = 8


class LaneBegin(NamedTuple):
    """The offset of a source partition from which a leaf receives records: earlier ones went to another leaf."""

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    offset: int


class BeginEpoch(NamedTuple):
    """The leader epoch of the source for the records before a beginning: the copied ones end at `copied_to`, and
    `epoch` is not below that of the last one. The source may have lost them since, and have others in their place.
    """

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    copied_to: int
    epoch: int


class Allowance(NamedTuple):
    """How far a distributor may go in a source partition: it was at `position`, and sends no record from `end` on."""

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    position: int
    end: int


class LeftAt(NamedTuple):
    """The end of a source partition when a leaf was left, and its leader epoch. If the source has lost copied records
    since, `lost` is the end and the leader epoch of what had been copied.
    """

    end: int
    epoch: int = -1
    lost: BeginEpoch | None = None


class DoubtedLane(NamedTuple):
    """A source partition where a leaf received an unknown part of `position` to `end` before it was gone. It receives
    the records from `begin` on, -1 for all.
    """

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    begin: int
    position: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafDoubt:
    """The records that a leaf may lack since a distributor left it by force. It is IN_DOUBT until it has them."""

    leaf: str
    lanes: tuple[DoubtedLane, ...]
    epochs: tuple[BeginEpoch, ...] = ()
    """The leader epochs of the records before its beginnings, as far as they are known."""

    @property
    def records_max(self) -> int:
        """The highest number of records that may be missing there."""
        return sum(lane.end - lane.position for lane in self.lanes)

    @property
    def begins(self) -> tuple[LaneBegin, ...]:
        """The offsets from which it receives records."""
        return tuple(LaneBegin(lane.topic, lane.topic_id, lane.partition, lane.begin) for lane in self.lanes)

    @property
    def ends(self) -> tuple[LaneBegin, ...]:
        """The offsets from which another leaf receives them."""
        return tuple(LaneBegin(lane.topic, lane.topic_id, lane.partition, lane.end) for lane in self.lanes)

    def within(self, partitions: Collection[tuple[SourceTopic, int]]) -> LeafDoubt:
        """Return the doubt for these partitions of the source alone."""
        return replace(self, lanes=tuple(lane for lane in self.lanes if (lane.topic, lane.partition) in partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """The leaf that a distributor copies to, in place of the one that follows from the tree.

    `wanted` is the leaf that it has to copy to: another one during a switch, and if it `is_forced` without waiting for
    any leaf; the records that the present one may lack go to the other one too if that `is_resent`. `former` are those
    that it copied to before, and `begins` the offsets from which `target` receives records; a missing partition was
    never distributed to another leaf, and `epochs` are those of the earlier records, as far as they are known. `doubts`
    are of leaves that it left by force; to one of them, which it `finishes`, it copies the missing records before it
    continues. `serial` grows with every change.
    """

    target: str
    wanted: str
    serial: int = 1
    former: tuple[str, ...] = ()
    begins: tuple[LaneBegin, ...] = ()
    is_forced: bool = False
    is_resent: bool = False
    doubts: tuple[LeafDoubt, ...] = ()
    finishes: str = ""
    epochs: tuple[BeginEpoch, ...] = ()

    @property
    def leaf(self) -> str:
        """The leaf that it copies to now."""
        return self.finishes or self.target

    @property
    def finishing(self) -> LeafDoubt | None:
        """The doubt of the leaf that it copies to, before it continues with its target."""
        return self.doubt(self.finishes)

    def doubt(self, leaf: str) -> LeafDoubt | None:
        """Return the records that a leaf may lack, `None` if there is no doubt."""
        return next((each for each in self.doubts if each.leaf == leaf), None)

    @property
    def is_under_way(self) -> bool:
        """Whether it is switching to another leaf."""
        return self.wanted != self.target

    def bars(self, leaf: str) -> bool:
        """Whether no new allowance may be stated for a leaf, and a distributor with an old one may send no more. A leaf
        that receives what it lacks does not let a former distributor continue: it receives only that, from a
        distributor that knows where it ends.
        """
        return self.is_forced or bool(self.finishes) or self.target != leaf

    def is_of(self, leaves: Collection[str]) -> bool:
        """Return whether it is about a subtree with these leaves."""
        return {self.target, self.wanted, self.leaf} <= {*leaves}

    def ask_for(self, leaf: str, *, is_forced: bool = False, is_resent: bool = False) -> TargetChoice:
        """Return the choice once another leaf is wanted; the present one withdraws the wish."""
        return replace(self, wanted=leaf, is_forced=is_forced, is_resent=is_resent, serial=self.serial + 1)

    def over(self, begins: Iterable[LaneBegin], epochs: Iterable[BeginEpoch] = ()) -> TargetChoice:
        """Return the choice once the wanted leaf has become the target: from these offsets on, behind the records of
        these epochs. Partitions that the present leaf was never sent keep their former begin.
        """
        former = tuple(dict.fromkeys((*self.former, self.target)))
        begun = {(each.topic, each.partition): each for each in begins}
        known = {(each.topic, each.partition): each for each in self.begins} | begun
        kept = (each for each in self.epochs if (each.topic, each.partition) not in begun)
        return replace(
            self,
            target=self.wanted,
            former=former,
            begins=tuple(known.values()),
            epochs=(*kept, *epochs),
            is_forced=False,
            is_resent=False,
            finishes="",
            serial=self.serial + 1,
        )

    def leave(self, allowed: Iterable[Allowance], ends: Mapping[SourceTopicPartition, LeftAt]) -> TargetChoice:
        """Return the choice once the wanted leaf has become the target although it is unknown what the present one
        received.

        `allowed` is how far it may have gone, and `ends` are the ends of the source's partitions when it could not
        continue any more. The ends of missing partitions are unknown: the source may have them still.
        """
        lanes, begins, epochs = [], [], []
        for topic, topic_id, partition, position, end in allowed:
            found = ends.get((topic, partition))
            begin = begin_of(self.begins, topic, topic_id, partition)
            # If a lane does not run now, its allowance is of an earlier time at this leaf.
            position = max(position, begin)
            end = max(end if found is None else min(end, found.end), position)
            lanes.append(DoubtedLane(topic, topic_id, partition, begin, position, end))
            begins.append(LaneBegin(topic, topic_id, partition, position if self.is_resent else end))
            if found is not None and found.lost is not None:
                epochs.append(found.lost)
            elif found is not None and found.epoch >= 0:
                epochs.append(BeginEpoch(topic, topic_id, partition, begins[-1].offset, found.epoch))
        doubted = tuple(lane for lane in lanes if lane.end > lane.position and not self.is_resent)
        doubt = LeafDoubt(leaf=self.target, lanes=doubted, epochs=self.epochs)
        return replace(self.over(begins, epochs), doubts=(*self.doubts, doubt) if doubted else self.doubts)

    def going_back(self, leaf: str) -> TargetChoice:
        """Return the choice once a leaf that was left by force receives what it lacks; "" for none."""
        return replace(self, finishes=leaf, serial=self.serial + 1)

    def without_doubt(self, leaf: str) -> TargetChoice:
        """Return the choice without waiting any longer for a leaf to receive what it lacks."""
        return replace(self, doubts=tuple(each for each in self.doubts if each.leaf != leaf), serial=self.serial + 1)

    def reconcile(self, lacking: Iterable[LaneBegin] = ()) -> TargetChoice:
        """Return the choice once that leaf has received all that it can now: it stays in doubt for the partitions that
        it is `lacking`.
        """
        left = {(each.topic, each.partition) for each in lacking}
        doubts = (each.within(left) if each.leaf == self.finishes else each for each in self.doubts)
        return replace(self, doubts=tuple(each for each in doubts if each.lanes), finishes="", serial=self.serial + 1)


def choice_of(target: str, leaves: Collection[str], known: TargetChoice | None) -> TargetChoice:
    """Return the choice for a distributor that copies to `target` by itself: that, unless the `known` choice is among
    its leaves.
    """
    if known is not None and known.is_of(leaves):
        return known
    return TargetChoice(target=target, wanted=target, serial=0 if known is None else known.serial)


class Onward(NamedTuple):
    """A distributor inside a subtree that copies the records of one of its leaves further."""

    link: str
    source: Cluster
    target: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class GoingOver:
    """The switch of a distributor to the leaf `to`. By `onward`, in the order of hops, the records of its present
    target reach all other leaves. `serial` is that of the choice.
    """

    to: str
    serial: int
    onward: tuple[Onward, ...] = ()


def begin_of(begins: Iterable[LaneBegin], topic: SourceTopic, topic_id: uuid.UUID, partition: int) -> int:
    """Return the offset before which a lane copies nothing, -1 for none. A topic that was created again starts from its
    beginning.
    """
    none = uuid.UUID(int=0)
    for each in begins:
        is_same = none in (each.topic_id, topic_id) or each.topic_id == topic_id
        if (each.topic, each.partition) == (topic, partition) and is_same:
            return each.offset
    return NO_OFFSET


def before_begin(
    begins: Iterable[LaneBegin], epochs: Iterable[BeginEpoch], topic: SourceTopic, topic_id: uuid.UUID, partition: int
) -> tuple[int, int]:
    """Return how many of the offsets right before the beginning of a lane hold no copied record, and a leader epoch not
    below that of the last record before those, -1 if it is unknown.
    """
    begin = begin_of(begins, topic, topic_id, partition)
    for each in epochs:
        is_same = uuid.UUID(int=0) in (each.topic_id, topic_id) or each.topic_id == topic_id
        if (each.topic, each.partition) == (topic, partition) and is_same and 0 <= each.copied_to <= begin:
            return begin - each.copied_to, each.epoch
    return 0, -1


class Stopped(NamedTuple):
    """The positions where the lanes of a distributor have stopped, and the leader epochs of the source for the records
    they copied.
    """

    begins: tuple[LaneBegin, ...] = ()
    epochs: tuple[BeginEpoch, ...] = ()


def stopped_at(
    lanes: Iterable[Lane], reports: Mapping[LaneKey, LaneReport], begun: Mapping[LaneKey, Cursor], serial: int
) -> tuple[Stopped, str]:
    """Return where the lanes of a distributor have stopped for good, and the reason if that is not known for all of
    them.

    `begun` are all that ever copied: the position of a lane that does not run now is unknown. `serial` is that of the
    wish: a lane that stopped for an earlier one may have continued since.
    """
    found: list[LaneBegin] = []
    epochs: list[BeginEpoch] = []
    running = {lane.key: lane for lane in lanes}
    for key, lane in sorted(running.items()):
        report = reports.get(key)
        if report is None or (report.state, report.hold) != (LaneState.HELD, serial) or report.position < 0:
            is_earlier = report is not None and report.state is LaneState.HELD
            state = LaneState.STARTING if report is None or is_earlier else report.state
            return Stopped(), f"{key} has not stopped yet: it is {state}"
        place = lane.source_topic, lane.source_topic_id, lane.partition
        cursor = begun.get(key)
        if cursor is not None and cursor.source_offset < report.position:
            return Stopped(), f"{key} has stopped, and its map does not have all that it copied yet"
        if cursor is not None and cursor.source_offset == report.position and cursor.source_epoch >= 0:
            epochs.append(BeginEpoch(*place, cursor.copied_to, cursor.source_epoch))
        found.append(LaneBegin(*place, report.position))
    for key in sorted(begun):
        if key not in running:
            return Stopped(), f"{key} was distributed, and is not looked at now: it is paused, refused or not selected"
    return Stopped(tuple(found), tuple(epochs)), ""


class Lack(NamedTuple):
    """The records that a leaf lacks up to the begin of another one, and the reason. If it `is_stuck`, an operator has
    to act.
    """

    begin: LaneBegin
    why: str
    is_stuck: bool


def still_lacking(
    ends: Iterable[LaneBegin], lanes: Iterable[Lane], reports: Mapping[LaneKey, LaneReport]
) -> tuple[Lack, ...]:
    """Return what a leaf still lacks up to these offsets. Of a topic that was created again it can receive nothing."""
    running = {(lane.source_topic, lane.partition): lane for lane in lanes}
    found: list[Lack] = []
    for each in ends:
        lane = running.get((each.topic, each.partition))
        if lane is None:
            why = f"cannot get {each.topic}-{each.partition} up to {each.offset}: it is not copied now"
            found.append(Lack(each, why, is_stuck=True))
            continue
        report = reports.get(lane.key)
        if begin_of([each], lane.source_topic, lane.source_topic_id, lane.partition) != each.offset:
            continue
        if report is None or report.position < each.offset:
            is_stuck = report is not None and report.state.is_terminal
            found.append(Lack(each, _why(lane.key, each.offset, report), is_stuck))
    return tuple(found)


def _why(key: LaneKey, end: int, report: LaneReport | None) -> str:
    if report is not None and report.state.is_terminal:
        reason = "" if report.problem is None else f": {report.problem.message}"
        return f"cannot get {key} up to {end}, which is {report.state}{reason}"
    at = "nothing" if report is None or report.position < 0 else f"what comes before {report.position}"
    return f"has {at} of {key}, and gets it up to {end}"


def behind(logs: Mapping[tuple[str, int], LogRange], cursors: Mapping[LaneKey, Cursor]) -> LaneKey | None:
    """Return the first partition whose log at the cluster a distributor has not yet processed to its end."""
    at: dict[tuple[str, int], int] = {(key.topic, key.partition): one.source_offset for key, one in cursors.items()}
    for (topic, partition), log in sorted(logs.items()):
        if log.end > log.start and at.get((topic, partition), NO_OFFSET) < log.end:
            return LaneKey(TargetTopic(topic), partition)
    return None


def allowances(
    known: Iterable[Allowance],
    positions: Iterable[LaneBegin],
    rates: Mapping[SourceTopicPartition, float],
    *,
    ahead_min: int = AHEAD_RECORDS,
) -> tuple[tuple[Allowance, ...], bool]:
    """Return how far a distributor may go next, and whether it would soon have to wait without a new allowance.

    `known` is the present allowance, `positions` are those of lanes, and `rates` their speeds in records/s. A lane that
    has used up its allowance could not show its speed: it gets more. No allowance is taken back; a topic that was
    created again starts again.
    """
    found = {(each.topic, each.partition): each for each in known}
    is_due = False
    for topic, topic_id, partition, offset in positions:
        key = topic, partition
        ahead = max(ahead_min, int(AHEAD_S * rates.get(key, 0.0)))
        before = found.get(key)
        if before is None or before.topic_id != topic_id:
            found[key] = Allowance(topic, topic_id, partition, offset, offset + ahead)
            is_due = True
            continue
        if offset >= before.end:
            ahead = max(ahead, _MORE * (before.end - before.position))
        is_due |= before.end < offset + ahead // 2
        position = max(offset, before.position)
        found[key] = before._replace(position=position, end=max(before.end, position + ahead))
    return tuple(each for _, each in sorted(found.items())), is_due
