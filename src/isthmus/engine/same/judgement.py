"""Rules that judge a lane by the ends of both logs before anything is written, the same for a run and for a plan.

Our producer id alone does not prove that the end of the target's log is our work: after a foreign write records of ours
may lie behind it, at wrong offsets. So the last record is compared with the source's at the same offset. Only definite
answers about a log count: a broker that cannot answer now is asked again.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass

from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.engine.outlook import Outlook, state_of
from isthmus.engine.same.aborts import NO_PRODUCER, ONCE_HINT
from isthmus.engine.same.filler import is_filler, is_in_place
from isthmus.engine.source import Bounds
from isthmus.engine.state.belief import TailCheck
from isthmus.errors import ClusterError
from isthmus.kafka.batches.aborted import control_type
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log.tail import UNTOLD, NoBatch
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.transactions import is_lone, is_marker, lone_producer_id
from isthmus.model.lane import Gap, LaneKey, LaneMark, LaneState, Milestone
from isthmus.model.links.remedies import HeldOffsets, keep_or_delete, keep_or_delete_unknown
from isthmus.model.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One lane's logs: where the target's begins and ends (`position`), and the bounds of the source's.

    `target` is the target cluster, for hints. `target_start` is 0 while it is not known. The lane began at `begin`, if
    that is not where the source begins: the target holds fillers before it. `is_known` means that the target ends where
    its owner left it: if the source has another record there, the source has changed. Up to `believed_end` the target
    was once known to hold the source's records, -1 if never. While it `is_filling` only fillers were written.
    """

    key: LaneKey
    target: Cluster
    position: int
    source: Bounds
    target_start: int = 0
    begin: int = 0
    is_compacted: bool = False
    is_known: bool = False
    believed_end: int = -1
    is_filling: bool = False

    @property
    def is_beyond(self) -> bool:
        """Whether the target's log ends beyond the source's. Records in open transactions count as the source's, as a
        lane that is whole has copied them.
        """
        return self.position > max(self.source.stable_end, self.source.log_end)

    def extent(self, offset_begin: int, offset_end: int) -> HeldOffsets:
        """Those of these offsets that the target may still hold."""
        return HeldOffsets(self.key.partition, max(offset_begin, self.target_start), offset_end)


class Weight(enum.Enum):
    """The weight of the last batch of the target's log as evidence by itself."""

    BELIEVED = enum.auto()
    """It needs no comparison: it is known, or the source has nothing to compare it with."""
    FILLERS = enum.auto()
    """The log holds nothing but fillers of ours."""
    MIXED = enum.auto()
    """The log holds fillers of ours, and records of another producer."""
    DOUBTED = enum.auto()
    """It has to be compared with the source's."""
    FOREIGN = enum.auto()
    """It lies beyond the source, and another producer wrote it."""
    UNCLEAR = enum.auto()
    """It lies beyond the source, and is a copy or a foreign record: a coordinator ends its transaction, or it was never
    compared, and the source may only lag.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The conclusion from the end of the target's log. With a `state` the lane must not go on, for the reason given.

    `has_fillers` means that the log begins with fillers. `ending` are producers of the source whose transactions here a
    coordinator may still be ending. `source_epoch` is the leader epoch of the source's record at the last offset, -1
    unless it was compared. `beyond` is the problem if the source does not get that far. Up to `proven_end` the target
    is known to be right in spite of a `state`.
    """

    state: LaneState | None = None
    problem: Problem | None = None
    beyond: Problem | None = None
    has_fillers: bool = False
    ending: frozenset[int] = frozenset()
    source_epoch: int = -1
    proven_end: int = -1


def is_left_at(left: LaneMark | Milestone | None, position: int) -> bool:
    """Whether the log ends where the previous owner's mark or milestone is."""
    return left is not None and left.position == position


def first_check(left: LaneMark | None, position: int, *, is_in_order: bool) -> TailCheck:
    """The check that the end of a log needs at the start, depending on whether the previous owner left it in order."""
    return TailCheck.PRODUCER if is_in_order and is_left_at(left, position) else TailCheck.CONTENT


def weigh(sight: Sight, check: TailCheck, ours: Collection[int], tail: Batch | NoBatch) -> Weight:
    """Whether the last batch of the target needs to be compared; `ours` are our producer ids.

    :raises ValueError: The batch cannot be decoded.
    """
    if isinstance(tail, NoBatch):
        return Weight.BELIEVED
    if sight.is_beyond:
        return Weight.BELIEVED if sight.is_known else weigh_beyond(sight, ours, tail)
    if sight.position <= max(sight.begin, sight.source.start) and is_filler(tail):
        return Weight.FILLERS if is_in_place(tail) else Weight.MIXED
    if sight.position <= sight.source.start:
        return Weight.MIXED if sight.is_filling else Weight.BELIEVED
    is_known = check is TailCheck.PRODUCER and tail.producer_id in ours
    return Weight.BELIEVED if is_known else Weight.DOUBTED


def weigh_beyond(sight: Sight, ours: Collection[int], batch: Batch) -> Weight:
    """Judge who wrote a batch beyond the source's end. If the link did, the source has lost records.

    Behind `believed_end` a batch of another producer cannot be a copy. Before it, it may be: the link wrote in the
    other direction, or under another producer id that its ledger has lost.
    """
    if batch.producer_id in ours or is_lone(batch.producer_id):
        return Weight.BELIEVED
    is_later = 0 <= sight.believed_end < batch.offset_end
    return Weight.FOREIGN if is_later and not (batch.is_control or batch.is_transactional) else Weight.UNCLEAR


def compare(
    sight: Sight, ours: Collection[int], tail: Batch, source: Batch | NoBatch, *, is_aborted: bool = False
) -> Judgement:
    """Compare the last batch of the target with the source's first batch from that offset on.

    `is_aborted` means that the source's batch belongs to an aborted transaction.
    """
    if source is NoBatch.DELETED:
        # It was there when the bounds were read: the next look uses the present bounds.
        return unanswered(UNTOLD, LaneState.SOURCE_UNAVAILABLE)
    copied = None if isinstance(source, NoBatch) else source
    offset = sight.position - 1
    try:
        # Only a log cleaner makes holes, even if the topic is not compacted now: our record was copied before.
        is_cleaned = sight.is_compacted or (tail.producer_id in ours and is_hole(copied, offset))
        is_ours = is_copy(tail, copied, offset, is_compacted=is_cleaned, is_aborted=is_aborted)
    except ValueError as error:
        return undecodable(error)
    if not is_ours:
        is_ended_here = copied is not None and _is_end(copied, offset) and tail.is_control
        return (
            _judge_changed(sight) if sight.is_known else _judge_foreign(sight, tail, ours, is_ended_here=is_ended_here)
        )
    epoch = -1 if copied is None or copied.base_offset > offset else copied.leader_epoch
    if tail.is_control and tail.producer_id not in ours and not is_lone(tail.producer_id):
        # A coordinator wrote it, and may write it again until the coordinator confirms that it has ended.
        ending = frozenset({NO_PRODUCER} if copied is None else {NO_PRODUCER, copied.producer_id})
        return Judgement(ending=ending, source_epoch=epoch)
    return Judgement(source_epoch=epoch)


def is_copy(tail: Batch, source: Batch | None, offset: int, *, is_compacted: bool, is_aborted: bool = False) -> bool:
    """Whether `tail` has the source's record at `offset`; `source` is the source's first batch from there on.

    Where the source has no record (a control batch, a hole) the target must have none either, unless the source's log
    cleaner may have removed it (`is_compacted`). Where the source's record is aborted (`is_aborted`) a control record
    may stand for it, whatever is configured now: the setting may have been different when it was written.

    :raises ValueError: One of the batches cannot be decoded.
    """
    if is_aborted and tail.is_control:
        return True
    if _is_end(tail, offset) and source is not None and _is_end(source, offset):
        # A failover aborts the transactions that are open here, while the source may have committed them since, or the
        # other way round; or another transaction ended at this offset of the source.
        is_identified = is_lone(tail.producer_id) and not is_marker(tail.producer_id)
        is_same = not is_identified or tail.producer_id == lone_producer_id(source.producer_id)
        return is_same and control_type(tail) == control_type(source)
    wanted = None if source is None else _record_at(source, offset)
    return (wanted is None and is_compacted) or _record_at(tail, offset) == wanted


def _is_end(batch: Batch, offset: int) -> bool:
    """Whether the batch is a control record at `offset`."""
    return batch.is_control and batch.base_offset == offset


def may_be_let_go(tail: Batch) -> bool:
    """Whether it ends a transaction without a coordinator: by a lane, or by a failover that let go of the copy."""
    return tail.is_control and is_lone(tail.producer_id) and not is_marker(tail.producer_id)


def is_hole(source: Batch | None, offset: int) -> bool:
    """Whether the source has neither a record nor a control record at `offset`, though its log goes on. `source` is its
    first batch from there on.

    :raises ValueError: The batch cannot be decoded.
    """
    if source is None or offset < source.base_offset:
        return True
    return not source.is_control and _record_at(source, offset) is None


def _record_at(batch: Batch, offset: int) -> Record | None:
    if batch.is_control:
        return None
    return next((record for record in records_of(batch) if record.offset == offset), None)


def written_beyond(sight: Sight, batch: Batch) -> Problem:
    """The problem that another producer's `batch` is at the target beyond the source's end."""
    end, position = sight.source.stable_end, sight.position
    return Problem(
        f"the target ends at {position}, the source at {end}: offsets [{end}, {position}) exist only at the target, "
        f"with a record of producer {batch.producer_id}, which is not this link: another producer writes to the "
        "partition",
        "Deny WRITE on the target topic to all but Isthmus. "
        + keep_or_delete(sight.key.topic, sight.target, [sight.extent(end, position), _deleted_at_source(sight)]),
    )


def foreign(problem: Problem) -> Judgement:
    """The judgement that another producer has written."""
    return Judgement(state=LaneState.FOREIGN_WRITE, problem=problem)


def among_fillers(sight: Sight) -> Problem:
    """The problem that another producer has written among fillers, which are not deleted then."""
    held = [sight.extent(sight.target_start, sight.position)]
    return Problem(
        f"another producer writes to the partition: before offset {sight.position} the target was to hold fillers "
        "alone, which stand for records that the source has deleted",
        "Deny WRITE on the target topic to all but Isthmus. " + keep_or_delete(sight.key.topic, sight.target, held),
    )


def _judge_changed(sight: Sight) -> Judgement:
    topic, partition = sight.key
    message = (
        f"the source no longer has the record that was copied from offset {sight.position - 1}: it lost records "
        "(unclean leader election) and was written to again"
    )
    hint = keep_or_delete_unknown(topic, sight.target, partition)
    return Judgement(state=LaneState.DIVERGED, problem=Problem(message, hint))


def _judge_foreign(sight: Sight, tail: Batch, ours: Collection[int], *, is_ended_here: bool = False) -> Judgement:
    topic, partition = sight.key
    ways = keep_or_delete_unknown(topic, sight.target, partition)
    if is_ended_here:
        what = (
            "the end of a transaction, but not as at the source: the command that detached the copy (a failover) "
            "aborted an open transaction, and the source has committed it since, or has ended another one first"
        )
        hint = ways
    elif tail.is_control:
        what = (
            "a control record where the source has a record: a coordinator wrote the end of an aborted transaction "
            "twice, or ended one that no task continued in time, or another producer writes to the partition"
        )
        hint = f"{ways} {ONCE_HINT}"
    elif tail.producer_id in ours:
        what = (
            "a record of this link, but not the source's: another producer wrote to the partition before, or the "
            "source "
            "lost records (unclean leader election) and was written to again"
        )
        hint = f"Deny WRITE on the target topic to all but Isthmus. {ways}"
    else:
        what = f"not the source's record but one of producer {tail.producer_id}: another producer writes to it"
        hint = f"Deny WRITE on the target topic to all but Isthmus. {ways}"
    message = f"the target's record at offset {sight.position - 1} is {what}"
    return foreign(Problem(message, hint))


def undecodable(error: ValueError) -> Judgement:
    """The judgement that the end of one of the logs is damaged."""
    problem = Problem(
        f"the end of the target's log cannot be compared with the source: {error}",
        "Check the disks of the brokers (kafka-dump-log --deep-iteration names the batch).",
    )
    return Judgement(state=LaneState.BLOCKED, problem=problem)


def unanswered(error: ClusterError, otherwise: LaneState) -> Judgement:
    """The judgement that the end of one of the logs could not be read."""
    return Judgement(state=state_of(error, otherwise), problem=Problem(str(error), error.hint))


def lost(sight: Sight, milestone: Milestone, end: int) -> Judgement | None:
    """Judge a source whose leader epoch of the milestone, or the last one before, ends at `end`. Return `None` if the
    source still has all records up to the milestone, or does not know (-1).
    """
    if not 0 <= end < milestone.position:
        return None
    held = keep_or_delete(sight.key.topic, sight.target, [sight.extent(end, sight.position)])
    message = (
        f"the source's log was truncated to {end} (unclean leader election); offsets [{end}, {milestone.position}) "
        "that were copied are gone there"
    )
    return Judgement(state=LaneState.DIVERGED, problem=Problem(message, held), proven_end=end)


def beyond(sight: Sight, written: Problem | None) -> tuple[LaneState, Problem]:
    """The state and problem of a lane whose target ends beyond its source; `written` if others may have written it."""
    return (LaneState.DIVERGED, diverged(sight)) if written is None else (LaneState.FOREIGN_WRITE, written)


def diverged(sight: Sight) -> Problem:
    """The problem that the target ends beyond its source, with records of the link."""
    end, position = sight.source.stable_end, sight.position
    only_there = [sight.extent(end, position), _deleted_at_source(sight)]
    return Problem(
        f"the target ends at {position}, the source at {end}: offsets [{end}, {position}) exist only at the target",
        "The source lost records (unclean election) or the topic was refilled, or another producer wrote to the "
        "target before. "
        f"Whether what lies before is alike `isthmus verify --topic {sight.key.topic}` tells. "
        + keep_or_delete(sight.key.topic, sight.target, only_there),
    )


def _deleted_at_source(sight: Sight) -> HeldOffsets:
    """The offsets that only the target holds, because of the source's retention."""
    return sight.extent(sight.target_start, min(sight.source.start, sight.position, sight.source.stable_end))


def gap_before(sight: Sight, *, is_filling: bool) -> Gap | None:
    """The offsets that the source deleted before they were copied. None without any, or if the target is empty or has
    fillers only.
    """
    if sight.position >= sight.source.start or sight.position == 0 or is_filling:
        return None
    return Gap(sight.position, sight.source.start)


def stopped_by(sight: Sight, gap: Gap) -> Problem:
    """The problem that the lane cannot go on without leaving out offsets that the source has deleted."""
    only_there = [sight.extent(sight.target_start, gap.offset_begin)]
    return Problem(
        f"the source deleted offsets [{gap.offset_begin}, {gap.offset_end}) before they were copied",
        "Set on_data_gap: continue on the link to record the gap and go on, or copy the topic again. A longer "
        "retention at the "
        f"source avoids this. {keep_or_delete(sight.key.topic, sight.target, only_there)}",
    )


def outlook_of(sight: Sight, judgement: Judgement, *, continues_after_gap: bool) -> Outlook:
    """The outlook of a lane from its sight and the judgement of its end."""
    if judgement.state is not None:
        return Outlook(state=judgement.state, problem=judgement.problem)
    if sight.is_beyond:
        state, problem = beyond(sight, judgement.beyond)
        return Outlook(state=state, problem=problem)
    gap = gap_before(sight, is_filling=judgement.has_fillers)
    if gap is None or continues_after_gap:
        return Outlook(gap=gap)
    return Outlook(state=LaneState.DATA_GAP, problem=stopped_by(sight, gap))
