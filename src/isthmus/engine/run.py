"""A running lane: the values that it consists of, what they say together, and its report."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.source import Bounds
from isthmus.engine.state.belief import Belief, TailCheck
from isthmus.engine.state.evidence import Evidence, Showing
from isthmus.engine.state.health import Health
from isthmus.engine.state.intake import Intake
from isthmus.engine.state.missing import Missing
from isthmus.engine.state.phase import Phase
from isthmus.engine.state.schedule import Schedule
from isthmus.engine.state.source_log import SourceLog
from isthmus.engine.state.stage import TransformStage
from isthmus.engine.state.transactions import TargetTransactions
from isthmus.engine.state.writer import LogLook, Writer
from isthmus.kafka.log.produce import AnswerKey, answer_keys
from isthmus.model.lane import NO_END, Lane, LaneMark, LaneReport, LaneState, Milestone
from isthmus.model.naming import SourceTopicPartition, TargetTopicPartition
from isthmus.model.problem import Problem
from isthmus.model.trees.switching import Allowance

if TYPE_CHECKING:
    from isthmus.engine.mapped.transit import Transit


class Refused(Exception):
    """The lane cannot go on. Its run has the state and reason, unless only the permission to write has ended."""


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


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of a lane's partitions: at both sides, in requests to write, and in the answers to these."""

    source: SourceTopicPartition
    target: TargetTopicPartition
    append: tuple[str, uuid.UUID, int]
    answers: tuple[AnswerKey, AnswerKey]


def _keys_of(lane: Lane) -> Keys:
    append = lane.target_topic, lane.target_topic_id, lane.partition
    target = lane.target_topic, lane.partition
    return Keys((lane.source_topic, lane.partition), target, append, answer_keys(*append))


@dataclass(slots=True, eq=False)
class LaneRun:
    """The mutable side of a lane, owned by one engine in one event loop.

    It consists of values. Each has one subject, changes by events alone, and nobody else assigns what is in it:

    - `source_log` is what is known of the source, `intake` what was read of it and is not written yet.
    - `writer` is the writing side, `phase` which path may write, and `schedule` the lane's turns.
    - `belief` says whether the end of the target's log is believed to be ours.
    - `transactions` are those at the target, `missing` the offsets for which the source has no record.
    - `health` is what keeps the lane from working, and the evidence that it works.
    - `tally` counts what was copied. `keys` are the names of its partitions.

    `reader` reads it now. A mapped lane has a `transit` once its progress is known: the intake and the writer use
    ordinals then.
    """

    lane: Lane
    writer: Writer
    tally: Tally = field(default_factory=Tally)
    phase: Phase = field(init=False, default=Phase.SEEKING)
    source_log: SourceLog = field(init=False, default_factory=lambda: SourceLog(time.monotonic()))
    intake: Intake = field(init=False)
    belief: Belief = field(init=False, default_factory=Belief)
    schedule: Schedule = field(init=False, default_factory=Schedule)
    transactions: TargetTransactions = field(init=False)
    missing: Missing = field(init=False, default_factory=Missing)
    health: Health = field(init=False, default_factory=lambda: Health(Evidence(time.monotonic())))
    reader: EndWitness | None = field(init=False, default=None)
    transit: Transit | None = field(init=False, default=None)
    keys: Keys = field(init=False)

    def __post_init__(self) -> None:
        lane = self.lane
        self.keys = _keys_of(lane)
        self.transactions = TargetTransactions(is_whole=lane.is_whole)
        self.intake = Intake(
            lane.end_offset if lane.end_offset >= 0 else 0 if lane.has_allowance else NO_END,
            stage=TransformStage() if lane.transform else None,
        )

    # What the values say together

    @property
    def source(self) -> SourceTopicPartition:
        return self.keys.source

    @property
    def target(self) -> TargetTopicPartition:
        return self.keys.target

    @property
    def state(self) -> LaneState:
        """What keeps the lane from working; ACTIVE if nothing is known to. Its report goes by the evidence too."""
        return self.health.state

    @property
    def problem(self) -> Problem | None:
        """Why the lane is in its state, if there is a reason."""
        return self.health.problem

    @property
    def is_over(self) -> bool:
        return self.health.is_over

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
    def written(self) -> int:
        """How many of the first pending pieces the target's log already has."""
        return self.intake.count_written(self.writer.position)

    @property
    def mark(self) -> LaneMark | None:
        """The mark of the lane for its next owner; None while its position is not certain."""
        position, intake = self.writer.position, self.intake
        if self.lane.is_mapped or self.belief.check is not TailCheck.DONE:
            return None
        if intake.read_epoch < 0 or not 0 < position <= intake.read_offset:
            return None
        return LaneMark(*self.lane.key, position, intake.read_epoch)

    # Its place

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

    def begin(self, transit: Transit) -> None:
        """Note the progress of a mapped lane."""
        self.transit = transit

    @property
    def needs_progress(self) -> bool:
        """Whether the progress of a mapped lane has to be loaded."""
        return self.transit is None or self.transit.is_outdated

    @property
    def may_drop_waiting(self) -> bool:
        """Whether pieces can be dropped without finding the lane's place again, because they have no ordinals yet."""
        return self.intake.stage is not None and self.phase.is_placed

    def recall(self, mark: LaneMark | Milestone) -> None:
        """Keep the mark of the previous owner, or the milestone if it is of the same topics."""
        self.belief.recall(mark, self.lane)

    def disprove(self, proven_end: int) -> None:
        """Note that the target holds other records than the source: see `Belief.disprove`."""
        self.belief.disprove(proven_end, self.writer.position)

    # Reading

    def join(self, reader: EndWitness) -> None:
        """Be read by this reader from now on."""
        self.reader = reader

    def leave(self, reader: EndWitness) -> None:
        """Be read by this reader no more."""
        if self.reader is reader:
            self.reader = None

    def allow(self, allowances: Mapping[SourceTopicPartition, Allowance]) -> bool:
        """Let a lane with an allowance read up to it. Return whether it may read further than before."""
        found = allowances.get(self.source) if self.lane.has_allowance else None
        if found is None or found.topic_id != self.lane.source_topic_id or found.end <= self.intake.read_end:
            return False
        self.intake.allow(found.end)
        return True

    def offer(self, pieces: Iterator[Piece]) -> int:
        """Take pieces read: see `Intake.offer`. Those of a mapped lane get ordinals for offsets, once their records are
        changed if they are to be.
        """
        if self.intake.stage is not None:
            return self.intake.offer(pieces, self.position, self._select)
        convert = None if self.transit is None else partial(self._convert, self.transit)
        return self.intake.offer(pieces, self.position, convert)

    def _select(self, piece: Piece) -> Piece | None:
        """Leave out a piece of which nothing is copied."""
        batch = piece.batch
        is_empty = batch.is_control or piece.is_aborted or batch.record_count == 0
        return None if is_empty or batch.base_offset >= self.intake.read_end else piece

    def _convert(self, transit: Transit, piece: Piece) -> Piece | None:
        lane = self.lane
        return transit.take(
            piece, bytes_max=lane.batch_bytes_max, level=lane.level, flags=lane.flags, end=self.intake.read_end
        )

    def shorten(self) -> int:
        """Drop all pending pieces but the first: see `Intake.shorten`. A mapped lane drops all pieces: it is read again
        from its place. If it is placed, only what waits for its transformer is dropped.
        """
        intake = self.intake
        if self.may_drop_waiting:
            return intake.drop_waiting()
        return intake.shorten() if self.transit is None else intake.read_from(intake.read_offset)

    # Writing

    def go_by_records(self) -> None:
        """Copy transactions only once it is known how they end, and read the pending pieces again."""
        self.transactions.go_by_records()
        self.intake.go_by_records()

    def limit_batches(self, size_bytes: int) -> None:
        """Write batches of at most `size_bytes` from now on: the target refused a larger one."""
        self.lane = self.lane.with_batch_bytes_max(size_bytes)
        pending = self.intake.pending
        if pending and pending[0].batch.size_bytes > self.lane.batch_bytes_max:
            self.intake.divert_head()

    # Its health

    def fail(self, state: LaneState, message: str, hint: str = "") -> None:
        """Enter a state other than ACTIVE, with its reason. A terminal state is never left."""
        self.health.fail(state, Problem(message, hint), self._place, time.monotonic())

    def hinder(self, state: LaneState, message: str, hint: str = "") -> int:
        """Note a problem that may pass by itself: it becomes the state only if it recurs. Return how often it occurred
        at this place.
        """
        return self.health.hinder(state, Problem(message, hint), self._place, time.monotonic())

    @property
    def progress(self) -> int:
        """A number that grows while the lane works: the writer's position. A transform may leave out all records: with
        one it is the source offset.
        """
        return self.writer.position if self.intake.stage is None else self.position

    @property
    def _place(self) -> tuple[int, int]:
        return self.progress, self.intake.read_offset

    def hold(self) -> None:
        """Enter the state HELD: the lane's place is known, and it does not copy."""
        self.health.hold()

    def heal(self) -> None:
        """Leave a passing state: its reason has gone. A lane with fillers to write or to delete is not active yet."""
        if self.missing.prefix is None:
            self.health.heal()

    def _find_state(self, now: float) -> tuple[LaneState, Problem | None]:
        """The state and problem that follow from the lane's recent evidence."""
        at_end = -math.inf if self.reader is None else self.reader.found_end(self, now)
        intake = self.intake
        course = Showing(self.phase.is_placed, self.progress, intake.read_offset, intake.has_waiting, at_end)
        found = self.health.find_state(course, now, may_heal=self.missing.prefix is None)
        if intake.stage is None or self.health.obstacle is not None or not self.phase.is_placed:
            return found
        delay = self._find_delay(intake.stage, now)
        return found if delay is None else (LaneState.BLOCKED, delay)

    def _find_delay(self, stage: TransformStage, now: float) -> Problem | None:
        """The problem that the transformer, or the topic for dead letters, owes an answer for too long, or `None`."""
        delay_s = stage.delay_s(now)
        if not delay_s:
            return None
        if stage.asked_for_letters:
            return Problem(
                f"dead letters of {self.lane.key} from offset {stage.asked_offset} of "
                f"{self.source[0]}-{self.source[1]} on have been read or written for more than {delay_s:g} s",
                "Look at the brokers that hold the topic for them (isthmus plan names it), at client quotas, and at "
                "how much it holds: all of it is read if its letters are of a topic that was created again.",
            )
        return Problem(
            f"the transform of {self.lane.key} has not returned the records from offset {stage.asked_offset} of "
            f"{self.source[0]}-{self.source[1]} for more than {delay_s:g} s",
            "Look at what it waits for, and how long it takes for other lanes, which have their turns too. The lane "
            "goes on when it returns; a lane whose transform is replaced goes on with the new one.",
        )

    def report(self) -> LaneReport:
        now, source, intake = time.monotonic(), self.source_log, self.intake
        state, problem = self._find_state(now)
        covered_at = -math.inf if self.reader is None else self.reader.told_at(self)
        source.check_silence(covered_at, now, time.time() * 1000)
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
            schema_id=intake.schema_id,
            hold=self.lane.hold,
            flags_replaced=0 if self.transit is None else self.transit.cursor.flags_replaced,
            skipped=0 if self.transit is None else self.transit.cursor.skipped,
            filtered=0 if self.transit is None else self.transit.cursor.filtered,
            problem=problem,
            gaps=tuple(self.missing.gaps),
            within=intake.committed.at(position),
            stable_end=source.stable_end if self.transactions.is_whole else -1,
        )


class Look(NamedTuple):
    """A lane whose place is in doubt, and a look at both its logs."""

    run: LaneRun
    target: LogLook
    source: Bounds
