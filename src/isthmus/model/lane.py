"""A lane: one source topic-partition that is copied into one target topic-partition, and its report."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple

from isthmus.model.copyflags import FlagsHeader, Selection
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import EARLIEST, Cursor
from isthmus.model.onerror import OnError
from isthmus.model.problem import Problem
from isthmus.model.schemas.gate import UNGATED, GatedFields

NO_END: Final = 1 << 63
"""An offset behind all others."""


class LaneKey(NamedTuple):
    """The identity of a lane within its link: the target topic and the partition (the same number on both sides)."""

    topic: TargetTopic
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LaneState(enum.StrEnum):
    """Where a lane stands. `is_terminal` states last until an operator acts; all others heal by themselves."""

    STARTING = "STARTING"
    """Looking for its place in the target's log."""
    ACTIVE = "ACTIVE"
    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    TARGET_UNAVAILABLE = "TARGET_UNAVAILABLE"
    NOT_AUTHORIZED = "NOT_AUTHORIZED"
    """A right is missing; tried again every few seconds."""
    BLOCKED = "BLOCKED"
    """An outside cause has to change first (a limit, a corrupt batch); tried again every few seconds."""
    PAUSED = "PAUSED"
    HELD = "HELD"
    """It copies no more, and its position is known: its distributor switches to another leaf."""
    STOPPED = "STOPPED"
    """It ended on request."""
    REFUSED = "REFUSED"
    """Same offsets are impossible here; nothing was written."""
    DATA_GAP = "DATA_GAP"
    """The source deleted records before they were copied."""
    DIVERGED = "DIVERGED"
    """The source no longer has what the target holds (unclean election or truncation)."""
    TOPIC_RECREATED = "TOPIC_RECREATED"
    """The source or the target topic is another one than before, under the same name."""
    SOURCE_DELETED = "SOURCE_DELETED"
    """The topic was mirrored, and the source has it no more: the target's stays as it is."""
    FOREIGN_WRITE = "FOREIGN_WRITE"
    """Another producer wrote to the target partition."""
    FAILED = "FAILED"
    """It cannot continue without an operator; the problem has the reason."""

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL

    @property
    def is_wrong(self) -> bool:
        """Whether the target holds other records than the source, so that the end of its log is meaningless."""
        return self in (LaneState.FOREIGN_WRITE, LaneState.DIVERGED)

    @property
    def is_calm(self) -> bool:
        """Whether it needs no attention: it copies, or rests because an operator wants that."""
        return self in _CALM

    @property
    def is_recoverable(self) -> bool:
        """Whether `isthmus link recover` is the remedy."""
        return self in _RECOVERABLE


_TERMINAL = frozenset(
    {
        LaneState.REFUSED,
        LaneState.DATA_GAP,
        LaneState.DIVERGED,
        LaneState.TOPIC_RECREATED,
        LaneState.FOREIGN_WRITE,
        LaneState.FAILED,
    }
)


_CALM = frozenset(
    {
        LaneState.STARTING,
        LaneState.ACTIVE,
        LaneState.PAUSED,
        LaneState.HELD,
        LaneState.STOPPED,
        LaneState.SOURCE_DELETED,
    }
)


_RECOVERABLE = frozenset({LaneState.FOREIGN_WRITE, LaneState.DIVERGED, LaneState.DATA_GAP, LaneState.TOPIC_RECREATED})


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets of the source, half open.

    They were deleted at the source before they were copied.
    """

    SCHEMA: ClassVar = "OffsetRange"

    offset_begin: int
    offset_end: int


class LaneMark(NamedTuple):
    """The state in which an owner left a lane, for the next one.

    The target's records before `position` are those that the source had in its leader epoch `source_epoch`, which is
    that of the last of these records or a later one.
    """

    topic: TargetTopic
    partition: int
    position: int
    source_epoch: int

    @property
    def key(self) -> LaneKey:
        return LaneKey(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """How far an owner came with a lane, written down on the way: it survives a crash of the owner.

    The target topic of this id held before `position` the records that the source topic of this id had in its leader
    epoch `source_epoch`, as with `LaneMark`. Later records may differ.
    """

    topic: TargetTopic
    partition: int
    source_topic_id: uuid.UUID
    target_topic_id: uuid.UUID
    position: int
    source_epoch: int

    @property
    def key(self) -> LaneKey:
        return LaneKey(self.topic, self.partition)

    def is_of(self, lane: Lane) -> bool:
        """Return whether it is about this lane between the same two topics, not others of their names."""
        ids = lane.source_topic_id, lane.target_topic_id
        return lane.key == self.key and ids == (self.source_topic_id, self.target_topic_id)


def milestone_of(lane: Lane, mark: LaneMark) -> Milestone:
    """Return the mark of this lane as a milestone."""
    return Milestone(
        topic=mark.topic,
        partition=mark.partition,
        source_topic_id=lane.source_topic_id,
        target_topic_id=lane.target_topic_id,
        position=mark.position,
        source_epoch=mark.source_epoch,
    )


def furthest(milestones: Iterable[Milestone]) -> tuple[Milestone, ...]:
    """Return for each lane between the same two topics the furthest milestone: by leader epoch, then by position."""
    found: dict[tuple[LaneKey, uuid.UUID, uuid.UUID], Milestone] = {}
    for each in milestones:
        key = each.key, each.source_topic_id, each.target_topic_id
        known = found.get(key, each)
        found[key] = max(known, each, key=lambda one: (one.source_epoch, one.position))
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Everything a task needs to run one lane. Topic ids are nil if a broker has none (before KIP-516).

    `batch_bytes_max` is the largest record batch the target topic accepts. `is_compacted` means that holes in the
    source's offsets are the cleaner's work; at most `holes_max` of them are filled with control records. `aborted` is
    the policy for records of aborted transactions; a transaction that is open at the target is ended, whatever the
    policy was before. A lane that `is_whole` copies transactions before their outcome is known, as long as the target
    accepts that. `continues_after_gap`: record a data gap and continue. `doubts` counts suspected writes of another
    producer to the target: with every one the lane looks at its log again. While it `is_unsettled` an expired lease may
    have left a request on its way, which the lease of the lane's present slot does not know.

    A lane that `is_mapped` appends to the end of the target's log, beside others that may write there, and begins at
    `start`: `EARLIEST`, `EARLIEST_LOCAL`, `LATEST` or a timestamp in ms (`model.offsets`). All others keep the source's
    offsets, and begin at `begin_offset`, or where the source does (-1).

    A lane of a distributor is mapped, and has its `level`: it ignores records that distributors of this level or a
    lower one have written (`model.copyflags`), also by the `flags` in a header, if they are kept there. Records before
    `begin_offset` were sent to another leaf (-1 for none), and a lane with a `hold` only finds its position: that is
    the number of the wish for another leaf, 0 for none. Records from `end_offset` on go to another leaf (-1 for none);
    a lane that `has_allowance` goes as far as it is allowed while it runs. The last `begin_left_out` offsets before
    `begin_offset` hold no copied record, and `begin_epoch` is a leader epoch of the source not below that of the last
    record before those (-1 while unknown): if the source has lost that record, the lane acts as for records that it
    copied itself.

    No record of `gated` fields is copied before its schema is known at the target (`model.schemagate`).

    The records of a lane with a `transform`, which has to be mapped and no distributor's, pass through the transform of
    that digest; `on_error` is the policy for those that it cannot change.
    """

    source_topic: SourceTopic
    source_topic_id: uuid.UUID
    target_topic: TargetTopic
    target_topic_id: uuid.UUID
    partition: int
    batch_bytes_max: int = 1_048_588
    is_compacted: bool = False
    holes_max: int = 1_000_000
    aborted: AbortedPolicy = AbortedPolicy.COPY
    is_whole: bool = False
    continues_after_gap: bool = False
    doubts: int = 0
    is_unsettled: bool = False
    is_mapped: bool = False
    start: int = EARLIEST
    level: int = 0
    flags: FlagsHeader | None = None
    begin_offset: int = -1
    begin_left_out: int = 0
    begin_epoch: int = -1
    hold: int = 0
    end_offset: int = -1
    has_allowance: bool = False
    gated: GatedFields = UNGATED
    transform: str = ""
    on_error: OnError = OnError.STOP

    @property
    def key(self) -> LaneKey:
        return LaneKey(self.target_topic, self.partition)

    @property
    def begin_copied_to(self) -> int:
        """The source offset behind the last record that another leaf received before `begin_offset`."""
        return self.begin_offset - self.begin_left_out

    def find_start(self, cursor: Cursor) -> Cursor:
        """Return where a mapped lane continues that was at `cursor`: not before its beginning, unless the source lost
        the records right before that.
        """
        if cursor.source_offset >= self.begin_offset or cursor.copied_to >= self.begin_copied_to:
            return cursor
        # The epoch of the last record that it copied itself does not cover records that another leaf received since.
        return replace(
            cursor,
            source_offset=self.begin_offset,
            left_out=self.begin_left_out,
            source_epoch=self.begin_epoch,
        )

    @property
    def selection(self) -> Selection | None:
        """The records that a distributor copies; `None` for a lane that copies all."""
        return Selection(level=self.level, flags=self.flags) if self.level else None

    def with_batch_bytes_max(self, batch_bytes_max: int) -> Lane:
        """Return the same lane with smaller batches."""
        return replace(self, batch_bytes_max=batch_bytes_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """A lane at one moment. Offsets are -1 while unknown.

    `position` is the next offset to copy: everything before it is durable at the target. If the target was found to
    hold other records than the source, it is the end of the part that is known to be right. `source_end` is the end of
    the records to copy: the source's last stable offset as last seen, or the end of its log if the lane is whole.
    `source_log_end` is the end of its log then: records in between wait for open transactions. `stable_end` is the
    source's last stable offset if the lane is whole, -1 otherwise.

    `heard_ms` is when the source last reported the end of its log, by the wall clock, once that is some seconds ago: -1
    for just now. `records` and `size_bytes` count what this lease copied, `flags_replaced` all records whose invalid
    header of copy flags the lane has replaced, `skipped` all that its transform could not change and that were left
    out, `filtered` all that it left out itself. `schema_id` is the id of the schema that it waits for, -1 while it
    waits for none. `hold` is that of the lane. `within` are the source's producers whose committed transactions have
    records on both sides of `position`, `None` if unknown.
    """

    key: LaneKey
    state: LaneState
    position: int = -1
    source_end: int = -1
    source_log_end: int = -1
    heard_ms: int = -1
    records: int = 0
    size_bytes: int = 0
    flags_replaced: int = 0
    skipped: int = 0
    filtered: int = 0
    schema_id: int = -1
    hold: int = 0
    problem: Problem | None = None
    gaps: tuple[Gap, ...] = ()
    within: tuple[int, ...] | None = None
    stable_end: int = -1

    @property
    def is_whole(self) -> bool:
        """Whether it copies transactions before their outcome is known."""
        return self.stable_end >= 0

    @property
    def decided_end(self) -> int:
        """The source's last stable offset: later records wait for open transactions, to be copied, or to be seen if
        they are copied already.
        """
        return self.source_end if self.stable_end < 0 else min(self.stable_end, self.source_end)

    @property
    def lag_records(self) -> int:
        """Offsets still to copy, -1 while unknown."""
        if self.position < 0 or self.source_end < 0:
            return -1
        return max(self.source_end - self.position, 0)
