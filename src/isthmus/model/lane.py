"""A lane: one source topic-partition going into one target topic-partition, and what is reported of it."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from isthmus.model.copyflags import FlagsHeader, Selection
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import EARLIEST, Cursor
from isthmus.model.problem import Problem
from isthmus.model.schemagate import UNGATED, GatedFields
from isthmus.model.transactions import AbortedPolicy

NO_END: Final = 1 << 63
"""Behind every offset there is."""


class LaneKey(NamedTuple):
    """What tells the lanes of one link apart: the target topic and the partition (the same number on both sides)."""

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
    """Something outside has to change first (a limit, a corrupt batch); tried again every few seconds."""
    PAUSED = "PAUSED"
    HELD = "HELD"
    """Copies nothing more, and where it stopped is known: its distributor goes over to another leaf."""
    STOPPED = "STOPPED"
    """Ended because it was asked to."""
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
    """Somebody else wrote to the target partition."""
    FAILED = "FAILED"
    """Cannot go on without an operator; the problem says why."""

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL

    @property
    def is_wrong(self) -> bool:
        """Whether the target holds something else than the source, so that where its log ends says nothing."""
        return self in (LaneState.FOREIGN_WRITE, LaneState.DIVERGED)

    @property
    def is_calm(self) -> bool:
        """Whether nobody has to look into it: it copies, or rests because somebody wants that."""
        return self in _CALM

    @property
    def is_recoverable(self) -> bool:
        """Whether `isthmus link recover` is the way out."""
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
    """Source offsets `[offset_begin, offset_end)` that were deleted at the source before they were copied."""

    offset_begin: int
    offset_end: int


class LaneMark(NamedTuple):
    """How an owner left a lane, for the next one.

    What the target holds before `position` is what the source had in its leader epoch `source_epoch`, which is that of
    the last of these records or a later one.
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
    """How far an owner has been with a lane, written down on the way: it outlives whoever crashes.

    What the target topic of this id held before `position` is what the source topic of this id had in its leader epoch
    `source_epoch`, as with `LaneMark`. It says nothing of what came later.
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
        """Whether it is about this lane between the same two topics, not others of their names."""
        ids = lane.source_topic_id, lane.target_topic_id
        return lane.key == self.key and ids == (self.source_topic_id, self.target_topic_id)


def milestone_of(lane: Lane, mark: LaneMark) -> Milestone:
    """The mark of this lane, to be written down on the way."""
    return Milestone(
        topic=mark.topic,
        partition=mark.partition,
        source_topic_id=lane.source_topic_id,
        target_topic_id=lane.target_topic_id,
        position=mark.position,
        source_epoch=mark.source_epoch,
    )


def furthest(milestones: Iterable[Milestone]) -> tuple[Milestone, ...]:
    """Of each lane between the same two topics the one that goes furthest: by leader epoch, then by position."""
    found: dict[tuple[LaneKey, uuid.UUID, uuid.UUID], Milestone] = {}
    for each in milestones:
        key = each.key, each.source_topic_id, each.target_topic_id
        known = found.get(key, each)
        found[key] = max(known, each, key=lambda one: (one.source_epoch, one.position))
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Everything a task needs to run one lane. Topic ids are nil where a broker has none (before KIP-516).

    `batch_bytes_max` is the largest record batch the target topic takes. `is_compacted` tells that holes in the
    source's offsets are the cleaner's work; at most `holes_max` of them are filled with control records.
    `aborted` says what becomes of records of aborted transactions; a transaction that is open at the target is ended,
    whatever it was before. One that `is_whole` copies transactions before it is known how they end, as long as the
    target takes them so. `continues_after_gap`: record a data gap and go on. `doubts` counts how often somebody else
    seemed to have written to the target: with every one the lane looks at its log anew. While it `is_unsettled` a
    lease that is over may have left a request on its way, of which the lease of the lane's present slot knows nothing.

    A lane that `is_mapped` appends where the target's log ends, beside others that may write there, and begins at
    `start`: `EARLIEST`, `EARLIEST_LOCAL`, `LATEST` or a timestamp in ms (`model.offsets`). All others keep the
    source's offsets, and begin at `begin_offset`, or where the source does (-1).

    A lane of a distributor is mapped, and has its `level`: it leaves alone what distributors of this level or a lower
    one have written (`model.copyflags`), and what `flags` in a header say, if they are kept there. What lies before
    `begin_offset` another leaf got (-1 for nothing), and one with a `hold` only finds out where it stands: that is the
    number of the wish for another leaf, 0 for none. What lies at `end_offset` and behind another leaf gets (-1 for
    nothing); one that `has_allowance` goes as far as it is told while it runs. Of the offsets before
    `begin_offset` the last `begin_left_out` hold nothing that was copied, and `begin_epoch` is a leader epoch of the
    source not below that of the last record before those (-1 while unknown): where the source has lost it, it is as
    with what the lane copied itself.

    Of what is `gated` nothing comes before its schema is known at the target (`model.schemagate`).
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

    @property
    def key(self) -> LaneKey:
        return LaneKey(self.target_topic, self.partition)

    @property
    def begin_copied_to(self) -> int:
        """The source offset behind the last record that another leaf got before `begin_offset`."""
        return self.begin_offset - self.begin_left_out

    def begun(self, cursor: Cursor) -> Cursor:
        """Where a mapped lane goes on that was at `cursor`: not before its beginning, but where the source lost what
        lies right before that.
        """
        if cursor.source_offset >= self.begin_offset or cursor.copied_to >= self.begin_copied_to:
            return cursor
        # The epoch of the last record that it copied itself says nothing of what another leaf got since.
        return replace(
            cursor,
            source_offset=self.begin_offset,
            left_out=self.begin_left_out,
            source_epoch=self.begin_epoch,
        )

    @property
    def selection(self) -> Selection | None:
        """Which records a distributor copies; `None` for a lane that copies all."""
        return Selection(level=self.level, flags=self.flags) if self.level else None

    def with_batch_bytes_max(self, batch_bytes_max: int) -> Lane:
        """The same lane with smaller batches."""
        return replace(self, batch_bytes_max=batch_bytes_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """A lane at one moment. Offsets are -1 while unknown.

    `position` is the next offset to copy: everything before it is durable at the target. Where the target was found to
    hold something else than the source, it is how far it is known to be right. `source_end` is up to where there is
    something to copy: the source's last stable offset as last seen, or the end of its log where the lane is whole.
    `source_log_end` is the end of its log then: what lies between waits for open transactions. `stable_end` is the
    source's last stable offset where the lane is whole, -1 elsewhere.
    `heard_ms` is when the source last told where its log ends, by the wall clock, once that is some seconds ago: -1 for
    just now. `records` and `size_bytes` count what this lease copied, `flags_replaced` all records whose header of copy
    flags the lane has replaced, because it said nothing. `schema_id` is the id of the schema that it waits for, -1
    while it waits for none. `hold` is that of the lane. `within` are the source's producers whose committed
    transactions have records on both sides of `position`, `None` where that is not known.
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
    schema_id: int = -1
    hold: int = 0
    problem: Problem | None = None
    gaps: tuple[Gap, ...] = ()
    within: tuple[int, ...] | None = None
    stable_end: int = -1

    @property
    def is_whole(self) -> bool:
        """Whether it copies transactions before it is known how they end."""
        return self.stable_end >= 0

    @property
    def decided_end(self) -> int:
        """The source's last stable offset: what lies behind waits for open transactions, to be copied, or to be seen
        where it is copied already.
        """
        return self.source_end if self.stable_end < 0 else min(self.stable_end, self.source_end)

    @property
    def lag_records(self) -> int:
        """Offsets still to copy, -1 while unknown."""
        if self.position < 0 or self.source_end < 0:
            return -1
        return max(self.source_end - self.position, 0)
