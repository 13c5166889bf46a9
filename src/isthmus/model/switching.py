"""To which leaf of a subtree a distributor copies where that was chosen, and how it goes over to another one. Pure.

Up to an offset of each source partition one leaf gets what is distributed, and the next leaf gets what comes from there
on. In good order the next one gets its first record only when every leaf of the subtree holds all that the one before
was sent: otherwise a later record could overtake an earlier one of the same producer inside the subtree.

A leaf that is gone cannot be waited for. So a distributor states at its source how far it may go before it goes there,
and the next leaf begins there, or where the source ended. What the leaf that is gone may or may not have got is in
doubt: it gets the rest of that itself when it is back, so that nobody has to know what it had.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor

NO_OFFSET = -1
AHEAD_RECORDS: Final = 10_000
AHEAD_S: Final = 10.0
"""A distributor may be ahead of what it has stated by so many records, or by as many as it takes in that time."""
_MORE: Final = 8


class LaneBegin(NamedTuple):
    """From which offset of a source partition on a leaf gets what is distributed: up to there another one got it."""

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    offset: int


class BeginEpoch(NamedTuple):
    """In which leader epoch of the source what lies before a beginning was there: what was copied of it ends at
    `copied_to`, and `epoch` is not below that of its last record. The source may have lost it since, and have others in
    its place.
    """

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    copied_to: int
    epoch: int


class Allowance(NamedTuple):
    """How far a distributor may go in a source partition: it was at `position`, and sends nothing from `end` on."""

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    position: int
    end: int


class LeftAt(NamedTuple):
    """Where a source partition ended when a leaf was left, and in which leader epoch. What had been copied up to there
    the source may have `lost`: then that is what it was.
    """

    end: int
    epoch: int = -1
    lost: BeginEpoch | None = None


class DoubtedLane(NamedTuple):
    """A source partition of which nobody knows how much of `position` to `end` a leaf got before it was gone. It gets
    what there is from `begin` on, -1 for all.
    """

    topic: SourceTopic
    topic_id: uuid.UUID
    partition: int
    begin: int
    position: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafDoubt:
    """What a leaf may lack of what it was to get before a distributor left it by force. It is IN_DOUBT until then."""

    leaf: str
    lanes: tuple[DoubtedLane, ...]
    epochs: tuple[BeginEpoch, ...] = ()
    """Those of what lies before its beginnings, as far as they are known."""

    @property
    def records_max(self) -> int:
        """As many records as may be missing there."""
        return sum(lane.end - lane.position for lane in self.lanes)

    @property
    def begins(self) -> tuple[LaneBegin, ...]:
        """From where on it gets what there is."""
        return tuple(LaneBegin(lane.topic, lane.topic_id, lane.partition, lane.begin) for lane in self.lanes)

    @property
    def ends(self) -> tuple[LaneBegin, ...]:
        """From where on another leaf gets it."""
        return tuple(LaneBegin(lane.topic, lane.topic_id, lane.partition, lane.end) for lane in self.lanes)

    def within(self, partitions: Collection[tuple[SourceTopic, int]]) -> LeafDoubt:
        """What it may lack of these partitions of the source."""
        return replace(self, lanes=tuple(lane for lane in self.lanes if (lane.topic, lane.partition) in partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """The leaf that a distributor copies to, in place of the one that follows from the tree.

    `wanted` is the leaf that it is to copy to: another one while it goes over, and if it `is_forced` without waiting
    for anybody; what the present one may not have got goes to the other one too if that `is_resent`. `former` are those
    that it copied to before, and `begins` says from where on `target` gets what there is; a partition that is missing
    there was never distributed to another one, and `epochs` are those of what lies before them, as far as they are
    known. `doubts` are of leaves that it left by force; to one of them, which
    `finishes`, it copies what that lacks before it goes on. `serial` grows with every change.
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
        """Where it copies to now."""
        return self.finishes or self.target

    @property
    def finishing(self) -> LeafDoubt | None:
        """What the leaf that it copies to lacks, before it goes on with its target."""
        return self.doubt(self.finishes)

    def doubt(self, leaf: str) -> LeafDoubt | None:
        """What a leaf may lack, `None` where nothing is in doubt."""
        return next((each for each in self.doubts if each.leaf == leaf), None)

    @property
    def is_under_way(self) -> bool:
        """Whether it goes over to another leaf."""
        return self.wanted != self.target

    def bars(self, leaf: str) -> bool:
        """Whether nobody may state how far a leaf gets what there is, and who went there by that may send nothing more.
        That a leaf gets what it lacks lets nobody go on who was there before: it gets no more than that, from somebody
        who knows where it ends.
        """
        return self.is_forced or bool(self.finishes) or self.target != leaf

    def is_of(self, leaves: Collection[str]) -> bool:
        """Whether it says something of a subtree with these leaves."""
        return {self.target, self.wanted, self.leaf} <= {*leaves}

    def asked(self, leaf: str, *, is_forced: bool = False, is_resent: bool = False) -> TargetChoice:
        """It, once another leaf is wanted; the present one takes the wish back."""
        return replace(self, wanted=leaf, is_forced=is_forced, is_resent=is_resent, serial=self.serial + 1)

    def over(self, begins: Iterable[LaneBegin], epochs: Iterable[BeginEpoch] = ()) -> TargetChoice:
        """It, once the wanted leaf has become the target: from these offsets on, behind what was there in these epochs.
        Of partitions that the present one was never sent holds what was said before.
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

    def left(self, allowed: Iterable[Allowance], ends: Mapping[tuple[str, int], LeftAt]) -> TargetChoice:
        """It, once the wanted leaf has become the target although nobody knows what the present one got.

        `allowed` is how far it may have gone, and `ends` where the source's partitions ended when it could not go on
        any more. Of those that are missing that is not known: the source may have them still.
        """
        lanes, begins, epochs = [], [], []
        for topic, topic_id, partition, position, end in allowed:
            found = ends.get((topic, partition))
            begin = begin_of(self.begins, topic, topic_id, partition)
            # Where a lane does not run now, what is stated is of an earlier time at this leaf.
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
        """It, once a leaf that was left by force gets what it lacks; "" for none."""
        return replace(self, finishes=leaf, serial=self.serial + 1)

    def without_doubt(self, leaf: str) -> TargetChoice:
        """It, once nobody waits any more for a leaf to get what it lacks."""
        return replace(self, doubts=tuple(each for each in self.doubts if each.leaf != leaf), serial=self.serial + 1)

    def reconciled(self, lacking: Iterable[LaneBegin] = ()) -> TargetChoice:
        """It, once that leaf has got what it can get now: it stays in doubt of the partitions that it is `lacking`."""
        left = {(each.topic, each.partition) for each in lacking}
        doubts = (each.within(left) if each.leaf == self.finishes else each for each in self.doubts)
        return replace(self, doubts=tuple(each for each in doubts if each.lanes), finishes="", serial=self.serial + 1)


def choice_of(target: str, leaves: Collection[str], known: TargetChoice | None) -> TargetChoice:
    """What is chosen for a distributor that copies to `target` by itself: that, if nothing `known` is of its leaves."""
    if known is not None and known.is_of(leaves):
        return known
    return TargetChoice(target=target, wanted=target, serial=0 if known is None else known.serial)


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


def before_begin(
    begins: Iterable[LaneBegin], epochs: Iterable[BeginEpoch], topic: SourceTopic, topic_id: uuid.UUID, partition: int
) -> tuple[int, int]:
    """How many of the offsets right before the beginning of a lane hold nothing that was copied, and a leader epoch
    not below that of the last record before those, -1 where it is not known.
    """
    begin = begin_of(begins, topic, topic_id, partition)
    for each in epochs:
        is_same = uuid.UUID(int=0) in (each.topic_id, topic_id) or each.topic_id == topic_id
        if (each.topic, each.partition) == (topic, partition) and is_same and 0 <= each.copied_to <= begin:
            return begin - each.copied_to, each.epoch
    return 0, -1


class Stopped(NamedTuple):
    """Where the lanes of a distributor have stopped, and in which leader epochs of the source what they copied was."""

    begins: tuple[LaneBegin, ...] = ()
    epochs: tuple[BeginEpoch, ...] = ()


def stopped_at(
    lanes: Iterable[Lane], reports: Mapping[LaneKey, LaneReport], begun: Mapping[LaneKey, Cursor], serial: int
) -> tuple[Stopped, str]:
    """Where the lanes of a distributor have stopped for good, and why that is not known of all of them, if so.

    `begun` are all that ever copied: of one that does not run now nobody knows how far it was. `serial` is that of the
    wish: where a lane stopped for an earlier one it may have gone on since.
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
    """What a leaf has not got up to where another one began, and why. Where it `is_stuck` somebody has to act."""

    begin: LaneBegin
    why: str
    is_stuck: bool


def still_lacking(
    ends: Iterable[LaneBegin], lanes: Iterable[Lane], reports: Mapping[LaneKey, LaneReport]
) -> tuple[Lack, ...]:
    """What a leaf has not got yet up to these offsets. Of a topic that was created anew it can get nothing."""
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
    """The first partition of which a distributor has not yet dealt with all that the log at its cluster had."""
    at: dict[tuple[str, int], int] = {(key.topic, key.partition): one.source_offset for key, one in cursors.items()}
    for (topic, partition), log in sorted(logs.items()):
        if log.end > log.start and at.get((topic, partition), NO_OFFSET) < log.end:
            return LaneKey(TargetTopic(topic), partition)
    return None


def allowances(
    known: Iterable[Allowance],
    positions: Iterable[LaneBegin],
    rates: Mapping[tuple[str, int], float],
    *,
    ahead_min: int = AHEAD_RECORDS,
) -> tuple[tuple[Allowance, ...], bool]:
    """How far a distributor may go next, and whether it would soon have to wait if that was not stated now.

    `known` is what was stated, `positions` where lanes are, and `rates` what they take, in records/s. A lane that has
    used up what it got has had no chance to show that: it gets more. Nothing that was stated is taken back; a topic
    that was created anew begins anew.
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
