"""Changes the records of lanes that have a transform, between their reader and their writer.

    reader ─▶ Stage.waiting ─▶ transformer ─▶ Stage.outgoing ─▶ Departing ─▶ Intake.pending ─▶ appender

Each lane waits for its own transformer only. A result counts if the lane was not placed again meanwhile: else the
records are read again, and changed again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.brokers.aside import aside
from isthmus.engine.brokers.room import Room
from isthmus.engine.mapped.reworking import Decoded, Original, decode, encode_pieces, portions
from isthmus.engine.mapped.transformer import (
    Changed,
    DeadLetter,
    DeadLetters,
    Delayed,
    Failure,
    LaneLetters,
    LetterRefused,
    Portion,
    Transformer,
    TransformFailed,
)
from isthmus.engine.mapped.transit import Transit
from isthmus.engine.outlook import state_of
from isthmus.engine.run import LaneRun
from isthmus.engine.state.stage import Chunk, TransformStage
from isthmus.errors import ClusterError
from isthmus.kafka.batches.batch import HEADER_BYTES
from isthmus.model.lane import LaneState
from isthmus.model.links.transform import OnError

CHUNK_BYTES: Final = 512 << 10
CHUNK_RECORDS: Final = 10_000
"""The most that is changed at once of a lane, as stored at the source; or one batch. More records than these are
decoded and encoded aside."""
SUCCESSION_S: Final = 15.0
"""For so long a lane whose transform is not known waits for the end of its lease, before it is BLOCKED."""
_SUCCEEDED: Final = "The next task, which the controller starts by itself, knows it."
_WAITS: Final = "Nothing is left out meanwhile, whatever the policy is."
_PIECE_BYTES: Final = 512 << 10
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Stop(NamedTuple):
    """The lane stops in a state before the source's `offset`: the record there `cannot` be treated so, for a reason."""

    offset: int
    reason: str
    cannot: str = "be changed"
    hint: str = ""
    state: LaneState = LaneState.BLOCKED


class ChunkOutcome(NamedTuple):
    """What became of the first records of a chunk; behind them the lane has to `stop`, unless that is `None`."""

    results: list[Changed]
    stop: Stop | None = None


class Stopping(Protocol):
    """Stops lanes before records that cannot be copied."""

    def note_unreadable(self, run: LaneRun, what: str, offset: int, /) -> None: ...
    def block_unchanged(
        self, run: LaneRun, offset: int, reason: str, cannot: str, hint: str, state: LaneState, /
    ) -> None: ...


class Changer(Protocol):
    """The part of the engine that changing uses."""

    room: Room

    @property
    def faults(self) -> Stopping: ...
    def note_changed(self, run: LaneRun) -> None: ...


class Changing:
    """Changes the records of all lanes of an engine. `spawn` starts the coroutine of a lane that has work."""

    def __init__(
        self,
        engine: Changer,
        transformers: Mapping[str, Transformer],
        letters: DeadLetters | None,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._engine = engine
        self._transformers = transformers
        self._letters = letters
        self._taken: dict[LaneRun, tuple[int, LaneLetters]] = {}
        self._spawn = spawn

    def wake(self, run: LaneRun) -> None:
        """Change what waits of a lane, unless that is being done."""
        stage = run.intake.stage
        if stage is not None and stage.waiting and not stage.is_busy and _may_go_on(run):
            stage.begin()
            self._spawn(self._change_all(run, stage))

    async def _change_all(self, run: LaneRun, stage: TransformStage) -> None:
        try:
            while _may_go_on(run):
                chunk = stage.next_chunk(bytes_max=CHUNK_BYTES, records_max=CHUNK_RECORDS)
                if chunk is None or run.transit is None:
                    return
                await self._change_chunk(run, run.transit, stage, chunk)
        finally:
            stage.end()

    async def _change_chunk(self, run: LaneRun, transit: Transit, stage: TransformStage, chunk: Chunk) -> None:
        """Change the records of a chunk, and have what became of them depart, unless the lane was placed again."""
        records = sum(part.records for part in chunk.parts)
        decoded = await _do(records, decode, chunk.parts, transit.read_offset)
        outcome = await self._ask_for_all(run, stage, chunk, decoded.origins)
        if not _is_current(run, stage, chunk):
            return
        taken = decoded.origins[: len(outcome.results)]
        wanted = [
            (one, origin.codec) for origin, one in zip(taken, outcome.results, strict=True) if isinstance(one, Record)
        ]
        bytes_max = min(run.lane.batch_bytes_max - HEADER_BYTES, _PIECE_BYTES)
        try:
            pieces = await _do(len(wanted), encode_pieces, wanted, transit.read_ordinal, bytes_max)
        except Exception as error:  # noqa: BLE001 - each encoder has errors of its own
            reason = f"what the transform returned cannot be written: {_describe(error)}"
            outcome, taken, pieces = ChunkOutcome([], Stop(taken[0].record.offset, reason)), [], []
        if not _is_current(run, stage, chunk):
            return
        _note(transit, taken, outcome, decoded)
        grown = stage.finish(pieces)
        run.intake.resize(grown)
        self._engine.room.take(grown)
        run.schedule.advance()
        if outcome.stop is not None or decoded.damaged:
            self._engine.room.give(run.intake.drop_waiting())
        if outcome.stop is not None:
            self._engine.faults.block_unchanged(run, *outcome.stop)
        elif decoded.damaged:
            self._engine.faults.note_unreadable(run, decoded.damaged, decoded.offset_end)
        self._engine.note_changed(run)

    async def _ask_for_all(
        self, run: LaneRun, stage: TransformStage, chunk: Chunk, origins: Sequence[Original]
    ) -> ChunkOutcome:
        results: list[Changed] = []
        for portion in portions(origins):
            if not _is_current(run, stage, chunk):
                # Whoever has the lane now has its dead letters, too, and would lose them again.
                break
            settled = await self._settle(run, stage, chunk, portion)
            results += settled.results
            if settled.stop is not None:
                return ChunkOutcome(results, settled.stop)
        return ChunkOutcome(results)

    async def _settle(
        self, run: LaneRun, stage: TransformStage, chunk: Chunk, portion: Sequence[Original]
    ) -> ChunkOutcome:
        """Find out what becomes of some records, up to the first one before which the lane has to stop. Those that are
        dead letters already stay that, whatever the transform would make of them now; new ones are kept when this
        returns.
        """
        on_error, letters = run.lane.on_error, None
        try:
            if on_error is OnError.DEAD_LETTER:
                letters = await self._take_over(run, stage, chunk, portion[0].record.offset)
            kept = frozenset[tuple[int, int]]() if letters is None else letters.kept
            new = [each for each in portion if _place_of(each) not in kept]
            answers = iter(await self._ask(run, stage, new) if new else [])
        except ClusterError as error:
            return ChunkOutcome([], _stop_without_letters(portion[0], error))
        except Exception as error:  # noqa: BLE001 - whatever a transform raises, other lanes go on
            hint = error.hint if isinstance(error, TransformFailed) else ""
            return ChunkOutcome([], Stop(portion[0].record.offset, _describe(error), hint=hint))
        results = [Failure(each.record, "") if _place_of(each) in kept else next(answers) for each in portion]
        results, stop = _cut_at_delayed(portion, results)
        failed = [
            (place, DeadLetter(each.record, each.epoch, each.is_appended, one.reason))
            for place, (each, one) in enumerate(zip(portion, results, strict=False))
            if isinstance(one, Failure) and _place_of(each) not in kept
        ]
        if not failed or on_error is OnError.SKIP or not _is_current(run, stage, chunk):
            return ChunkOutcome(results, stop)
        first, dead = failed[0]
        if letters is None:
            return ChunkOutcome(results[:first], Stop(dead.record.offset, dead.reason))
        try:
            await self._keep(run, stage, chunk, letters, [each for _, each in failed])
        except LetterRefused as refused:
            at = next(place for place, each in enumerate(portion) if _place_of(each) == refused.place)
            return ChunkOutcome(results[:at], _stop_without_letters(portion[at], refused.error))
        except ClusterError as error:
            return ChunkOutcome(results[:first], _stop_without_letters(portion[first], error))
        return ChunkOutcome(results, stop)

    async def _keep(
        self, run: LaneRun, stage: TransformStage, chunk: Chunk, letters: LaneLetters, dead: Sequence[DeadLetter]
    ) -> None:
        # If it fails, it is open what is there.
        del self._taken[run]
        stage.note_call(dead[0].record.offset, time.monotonic(), for_letters=True)
        try:
            await letters.put(dead)
        finally:
            stage.note_answer()
        self._taken[run] = chunk.generation, letters

    async def _take_over(self, run: LaneRun, stage: TransformStage, chunk: Chunk, begin: int) -> LaneLetters:
        """Return the dead letters of a lane, which are taken over each time that it is placed."""
        if self._letters is None:
            raise TransformFailed("there is no place for dead letters")
        generation, letters = self._taken.pop(run, (-1, None))
        if letters is None or generation != chunk.generation:
            for each in [each for each in self._taken if each.is_over]:
                del self._taken[each]
            stage.note_call(begin, time.monotonic(), for_letters=True)
            try:
                letters = await self._letters.take_over(run.lane, begin)
            finally:
                stage.note_answer()
        self._taken[run] = chunk.generation, letters
        return letters

    async def _ask(self, run: LaneRun, stage: TransformStage, portion: Sequence[Original]) -> list[Changed]:
        """Have the lane's transformer change some records.

        :raises Exception: It cannot be applied.
        """
        transformer = self._transformers.get(run.lane.transform)
        if transformer is None:
            # A lane gets another transform while its lease runs: the next lease, which begins at once, knows it.
            await asyncio.sleep(SUCCESSION_S)
            raise TransformFailed(f"its task does not know the transform {run.lane.transform}", _SUCCEEDED)
        stage.note_call(portion[0].record.offset, time.monotonic())
        try:
            given = Portion(run.lane, [each.record for each in portion], [each.is_appended for each in portion])
            answer = list(await transformer.change(given))
        finally:
            stage.note_answer()
        if len(answer) != len(portion):
            raise TransformFailed(f"it returned {len(answer)} results for {len(portion)} records")
        return answer


async def _do(records: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run work on so many records, aside if it takes long."""
    return await aside(work, *args, **kwargs) if records > CHUNK_RECORDS else work(*args, **kwargs)


def _cut_at_delayed(portion: Sequence[Original], results: list[Changed]) -> tuple[list[Changed], Stop | None]:
    """Return the results before the first record that has to wait, and why the lane stops there."""
    for place, one in enumerate(results):
        if isinstance(one, Delayed):
            return results[:place], Stop(portion[place].record.offset, one.reason, "be changed yet", _WAITS)
    return results, None


def _note(transit: Transit, taken: Sequence[Original], outcome: ChunkOutcome, decoded: Decoded) -> None:
    """Note what became of the first records of a chunk, in their order."""
    for origin, one in zip(taken, outcome.results, strict=True):
        if isinstance(one, Record):
            transit.take_changed(origin.record.offset, origin.epoch)
        elif one is None:
            transit.filter_out()
        else:
            transit.skip()
    transit.pass_to(decoded.offset_end if outcome.stop is None else outcome.stop.offset)


def _may_go_on(run: LaneRun) -> bool:
    return run.phase.is_placed and not run.is_over


def _is_current(run: LaneRun, stage: TransformStage, chunk: Chunk) -> bool:
    """Whether the result of a chunk counts: nothing was dropped since it was read."""
    return chunk.generation == stage.generation and _may_go_on(run)


def _place_of(origin: Original) -> tuple[int, int]:
    return origin.record.offset, origin.epoch


def _stop_without_letters(origin: Original, error: ClusterError) -> Stop:
    state = state_of(error, LaneState.BLOCKED)
    return Stop(origin.record.offset, error.message, "be passed without its dead letters", error.hint, state)


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, TransformFailed) else f"{type(error).__name__}: {error}"
