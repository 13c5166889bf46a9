"""The state of a running lane: its pending pieces, the writer's position, and its report."""

from __future__ import annotations

import math
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, Protocol

from isthmus.lane.committed import CommittedTransactions
from isthmus.lane.evidence import Evidence, Showing, quiet
from isthmus.lane.phase import Intake, Phase
from isthmus.lane.pieces import Piece
from isthmus.lane.source import Bounds
from isthmus.lane.state.belief import Belief, TailCheck
from isthmus.lane.state.schedule import Schedule
from isthmus.lane.state.source_log import SourceLog
from isthmus.lane.writer import LogLook, ProducerState, Writer
from isthmus.model.lane import NO_END, Gap, Lane, LaneMark, LaneReport, LaneState, Milestone
from isthmus.model.problem import Problem
from isthmus.model.switching import Allowance
from isthmus.wire.batch import CONTROL, TRANSACTIONAL
from isthmus.wire.offsets import PartitionKey
from isthmus.wire.produce import AnswerKey, answer_keys

if TYPE_CHECKING:
    from isthmus.lane.mapped.transit import Transit

HEALING_STATES = (
    LaneState.STARTING,
    LaneState.SOURCE_UNAVAILABLE,
    LaneState.TARGET_UNAVAILABLE,
    LaneState.NOT_AUTHORIZED,
    LaneState.BLOCKED,
)


class Refused(Exception):
    """The lane cannot go on. Its run has the state and reason, unless only the permission to write has ended."""


class Prefix(NamedTuple):
    """Fillers for offsets up to `end` that the source has deleted; `is_stored` means that some are in the log."""

    end: int
    is_stored: bool


class EndWitness(Protocol):
    """The reader of a lane, as the source of evidence."""

    def found_end(self, run: LaneRun, now: float) -> float: ...
    def told_at(self, run: LaneRun) -> float: ...


@dataclass(slots=True)
class Tally:
    """The records and bytes copied of one lane, by all of its runs in an engine."""

    records: int = 0
    size_bytes: int = 0

    def count(self, records: int, size_bytes: int) -> None:
        """Count `records` records in pieces of `size_bytes`; 0 records if the pieces were left out."""
        self.records += records
        self.size_bytes += size_bytes if records else 0


@dataclass(slots=True, eq=False)
class LaneRun:
    """The mutable side of a lane, owned by one engine in one event loop.

    `pending` holds the pieces that were read and are not yet durable at the target, in offset order; `taken` counts the
    pieces that have left it. `read_offset` is the next offset to fetch, -1 until the target's log was looked at.
    `read_epoch` is a leader epoch of the source not below that of any record before it, -1 while unknown: the source
    compares it with its log and reports a truncation (KIP-320). `prefix` are fillers that have to be written or deleted
    before anything else, `None` without any.

    `phase` defines which path may write, `intake` how usable `pending` is. `ending` holds the producers of the source
    whose transactions here a coordinator may still be ending, with one more control record each.
    `marker_epoch` is the coordinator epoch of our own control records, a larger one after each look at the lane.
    `alone` is the state that the target's leader kept of producers that no coordinator knows when the lane's place was
    found; `others_open` means that another producer had a transaction open.

    `source_log` is what is known of the source, `belief` whether the end of the target's log is believed to be ours,
    and `schedule` the lane's turns.

    `reading` is its reader, and `asked_at` the time of its request for `read_offset` (monotonic s). `evidence` is its
    recent progress and problems.

    `committed` are the committed transactions among the records read.

    `schema_id` is the id of the schema it waits for, -1 for none. Nothing is read from the source's offset `read_end`
    on.

    It `is_whole` while transactions are copied before it is known how they end: open ones are read then as well.

    A mapped lane has a `transit` once its progress is known: `pending` and the writer use ordinals then.
    """

    lane: Lane
    writer: Writer
    state: LaneState = LaneState.STARTING
    problem: Problem | None = None
    pending: deque[Piece] = field(default_factory=deque)
    pending_bytes: int = 0
    taken: int = 0
    read_offset: int = -1
    read_epoch: int = -1
    read_end: int = field(init=False)
    source_log: SourceLog = field(default_factory=lambda: SourceLog(time.monotonic()))
    belief: Belief = field(default_factory=Belief)
    schedule: Schedule = field(default_factory=Schedule)
    phase: Phase = Phase.SEEKING
    intake: Intake = Intake.WHOLE
    ending: set[int] = field(default_factory=set)
    marker_epoch: int = 0
    alone: Mapping[int, ProducerState] = field(default_factory=dict)
    others_open: bool = False
    holes: int = 0
    prefix: Prefix | None = None
    transit: Transit | None = None
    schema_id: int = -1
    reading: EndWitness | None = None
    asked_at: float = math.inf
    failed_at: float = -math.inf
    evidence: Evidence = field(default_factory=lambda: Evidence(time.monotonic()))
    committed: CommittedTransactions = field(default_factory=CommittedTransactions)
    tally: Tally = field(default_factory=Tally)
    gaps: list[Gap] = field(default_factory=list)
    is_whole: bool = field(init=False)
    source: tuple[str, int] = field(init=False)
    target: tuple[str, int] = field(init=False)
    target_append: tuple[str, uuid.UUID, int] = field(init=False)
    answer_keys: tuple[AnswerKey, AnswerKey] = field(init=False)

    def __post_init__(self) -> None:
        lane = self.lane
        self.is_whole = lane.is_whole
        self.source = lane.source_topic, lane.partition
        self.target = lane.target_topic, lane.partition
        self.target_append = lane.target_topic, lane.target_topic_id, lane.partition
        self.answer_keys = answer_keys(*self.target_append)
        self.read_end = lane.end_offset if lane.end_offset >= 0 else 0 if lane.has_allowance else NO_END

    def place(self) -> None:
        """Note that the lane's place is known."""
        self.phase = self.phase.placed()

    def doubt(self) -> None:
        """Note that the lane's place is in doubt."""
        self.phase = self.phase.doubted()

    def divert(self) -> None:
        """Note that the slow path has the lane."""
        self.phase = self.phase.diverted()

    def come_back(self) -> None:
        """Note that the slow path is done with the lane."""
        self.phase = self.phase.returned()

    @property
    def is_over(self) -> bool:
        state = self.state
        return state is not LaneState.ACTIVE and (state.is_terminal or state is LaneState.STOPPED)

    @property
    def is_writing(self) -> bool:
        """Whether a request of the lane is in flight, or the slow path has the lane."""
        return self.phase.is_detoured or self.writer.in_flight

    @property
    def position(self) -> int:
        """The next source offset to be copied, -1 while that is not known."""
        position = self.writer.position
        return position if self.transit is None or position < 0 else self.transit.source_offset(position)

    @property
    def next_offset(self) -> int:
        """The next source offset to be copied if all in flight arrives."""
        offset = self.writer.next_offset
        return offset if self.transit is None or offset < 0 else self.transit.source_offset(offset)

    @property
    def copied_to(self) -> int:
        """The source offset behind the last record that was copied; for an identity lane, if all in flight arrives.
        Offsets between it and `next_offset` hold nothing that is copied.
        """
        return self.next_offset if self.transit is None else self.transit.cursor.copied_to

    @property
    def first(self) -> int:
        """The first source offset to copy while the target is empty."""
        return max(self.source_log.start, self.lane.begin_offset)

    @property
    def is_at_end(self) -> bool:
        """Whether the lane may not read further now."""
        return self.read_offset >= self.read_end

    def allow(self, allowances: Mapping[PartitionKey, Allowance]) -> bool:
        """Let a lane with an allowance read up to it. Return whether it may read further than before."""
        found = allowances.get(self.source) if self.lane.has_allowance else None
        if found is None or found.topic_id != self.lane.source_topic_id or found.end <= self.read_end:
            return False
        self.read_end = found.end
        return True

    @property
    def gap_end(self) -> int:
        """The end of the last gap that the lane may pass, -1 without one."""
        return self.gaps[-1].offset_end if self.gaps else -1

    def offer(self, pieces: Iterator[Piece]) -> int:
        """Take pieces read from `read_offset` on, up to one that cannot be taken. Return their size in bytes.

        :raises ValueError: The first piece cannot be taken: its records have to be decoded, and cannot.
        """
        size, begin, end, transit = 0, self.read_offset, self.read_end, self.transit
        self.committed.passed(self.position)
        try:
            for piece in pieces:
                batch = piece.batch
                if batch.offset_end <= self.read_offset or self.read_offset >= end:
                    continue
                taken = piece if transit is None else self._convert(transit, piece)
                self.read_offset = batch.offset_end if batch.offset_end < end else end
                self.read_epoch = batch.leader_epoch
                if batch.attributes & (TRANSACTIONAL | CONTROL) and not piece.is_aborted:
                    self.committed.read(batch)
                if taken is not None:
                    self.pending.append(taken)
                    size += len(taken.batch.view)
        except ValueError:
            # The pieces before have to be written first; the next answer begins with this one.
            if self.read_offset == begin:
                raise
        self.pending_bytes += size
        return size

    def _convert(self, transit: Transit, piece: Piece) -> Piece | None:
        lane = self.lane
        return transit.take(
            piece, bytes_max=lane.batch_bytes_max, level=lane.level, flags=lane.flags, end=self.read_end
        )

    @property
    def written(self) -> int:
        """How many of the first pending pieces the target's log already has."""
        position = self.writer.position
        return sum(1 for _ in takewhile(lambda piece: piece.batch.offset_end <= position, self.pending))

    def take(self, pieces: int) -> int:
        """Drop the first `pieces` pending pieces: they are durable. Returns their size in bytes."""
        size = 0
        for _ in range(pieces):
            size += len(self.pending.popleft().batch.view)
        self.taken += pieces
        self.pending_bytes -= size
        return size

    def shorten(self) -> int:
        """Drop all pending pieces but the first, to be read again later. Return the dropped bytes.

        No request may be in flight, and the intake has to be whole. A mapped lane drops all pieces: it is read again
        from its place.
        """
        if self.transit is not None:
            return self.read_from(self.read_offset)
        size = 0
        while len(self.pending) > 1:
            size += len(self.pending.pop().batch.view)
        offset = self.pending[0].batch.offset_end
        self.committed.read_from(offset, self.read_offset)
        self.read_offset = offset
        self.pending_bytes -= size
        return size

    def replace_head(self, pieces: list[Piece]) -> int:
        """Replace the first piece by others. Return by how many bytes the lane grew."""
        old = len(self.pending.popleft().batch.view)
        self.pending.extendleft(reversed(pieces))
        grown = sum(len(piece.batch.view) for piece in pieces) - old
        self.pending_bytes += grown
        return grown

    def read_from(self, offset: int, epoch: int = -1) -> int:
        """Read again from `offset`, and drop all pending pieces. Return the dropped bytes.

        `epoch` is that of the record before, -1 if unknown. A known `read_epoch` stays if it covers `offset`.
        """
        dropped = self.pending_bytes
        self.committed.read_from(offset, self.read_offset)
        if self.read_epoch < 0 or offset > self.read_offset >= 0:
            self.read_epoch = epoch
        self.pending.clear()
        self.pending_bytes = 0
        self.read_offset = offset
        return dropped

    @property
    def mark(self) -> LaneMark | None:
        """The mark of the lane for its next owner; None while its position is not certain."""
        position = self.writer.position
        if self.lane.is_mapped or self.belief.check is not TailCheck.DONE:
            return None
        if self.read_epoch < 0 or not 0 < position <= self.read_offset:
            return None
        return LaneMark(*self.lane.key, position, self.read_epoch)

    def recall(self, mark: LaneMark | Milestone) -> None:
        """Keep the mark of the previous owner, or the milestone if it is of the same topics."""
        self.belief.recall(mark, self.lane)

    def go_by_records(self) -> None:
        """Copy transactions only once it is known how they end, and read the pending pieces again."""
        self.is_whole, self.intake = False, Intake.SPOILT
        self.committed = CommittedTransactions()

    def fail(self, state: LaneState, message: str, hint: str = "") -> None:
        """Enter a state other than ACTIVE, with its reason. A terminal state is never left."""
        if not self.is_over:
            self.state = state
            self.problem = Problem(message, hint)
            self.failed_at = time.monotonic()
            if not self.is_over:
                self.hinder(state, message, hint)

    def hinder(self, state: LaneState, message: str, hint: str = "") -> int:
        """Note a problem that may pass by itself: it becomes the state only if it recurs. Return how often it occurred
        at this place.
        """
        place = self.writer.position, self.read_offset
        return self.evidence.hindered(state, Problem(message, hint), place, time.monotonic())

    def disprove(self, proven_end: int) -> None:
        """Note that the target holds other records than the source: see `Belief.disprove`."""
        self.belief.disprove(proven_end, self.writer.position)

    def hold(self) -> None:
        """Enter the state HELD: the lane's place is known, and it does not copy."""
        if not self.is_over:
            self.state, self.problem = LaneState.HELD, None

    def heal(self) -> None:
        """Leave a passing state: its reason has gone. A lane with fillers to write or to delete is not active yet."""
        if self.state in HEALING_STATES and self.prefix is None:
            self.state = LaneState.ACTIVE
            self.problem = None

    def _find_state(self) -> tuple[LaneState, Problem | None]:
        """The state and problem that follow from the lane's recent evidence."""
        now = time.monotonic()
        at_end = -math.inf if self.reading is None else self.reading.found_end(self, now)
        is_placed, has_pending = self.phase.is_placed, bool(self.pending)
        self.evidence.looked(Showing(is_placed, self.writer.position, self.read_offset, has_pending, at_end), now)
        if is_placed and not has_pending and at_end > self.failed_at:
            self.heal()
        if self.state in (LaneState.STARTING, LaneState.ACTIVE) and (found := self.evidence.hindrance(now)) is not None:
            return found.state, found.problem
        if self.state is LaneState.ACTIVE and self.evidence.is_quiet(now):
            return quiet(is_placed=is_placed, has_pending=has_pending)
        return self.state, self.problem

    def report(self) -> LaneReport:
        state, problem = self._find_state()
        covered_at = -math.inf if self.reading is None else self.reading.told_at(self)
        source = self.source_log
        source.check_silence(covered_at, time.monotonic(), time.time() * 1000)
        position = min(self.position, self.belief.proven_end)
        return LaneReport(
            key=self.lane.key,
            state=state,
            position=position,
            source_end=source.end,
            source_log_end=source.log_end,
            heard_ms=source.silent_ms,
            records=self.tally.records,
            size_bytes=self.tally.size_bytes,
            schema_id=self.schema_id,
            hold=self.lane.hold,
            flags_replaced=0 if self.transit is None else self.transit.cursor.flags_replaced,
            problem=problem,
            gaps=tuple(self.gaps),
            within=self.committed.at(position),
            stable_end=source.stable_end if self.is_whole else -1,
        )


class Look(NamedTuple):
    """A lane whose place is in doubt, and a look at both its logs."""

    run: LaneRun
    target: LogLook
    source: Bounds
