"""Before which record a lane stops, and why, where a transform fails or dead letters cannot be kept."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, encode
from isthmus.engine.brokers.room import Room
from isthmus.engine.mapped.changing import CHUNK_RECORDS, Changing
from isthmus.engine.mapped.transformer import Changed, DeadLetter, Failure, LetterRefused, Portion
from isthmus.engine.mapped.transit import Transit
from isthmus.engine.run import LaneRun
from isthmus.engine.state.writer import Writer
from isthmus.errors import ClusterError, NotAuthorized, Unreachable
from isthmus.model.lane import Lane, LaneState
from isthmus.model.link import Limits
from isthmus.model.links.transform import OnError
from isthmus.model.offsets import Cursor
from tests.unit.engine.mapped.lanes import LANE


class Kept:
    """The letters of a lane, which may be refused."""

    def __init__(self, kept: set[tuple[int, int]], error: ClusterError | LetterRefused | None) -> None:
        self.kept, self.error, self.letters = kept, error, list[DeadLetter]()
        self.taken_over = 0

    async def take_over(self, lane: Lane, begin: int) -> Kept:
        self.taken_over += 1
        return self

    async def put(self, letters: Sequence[DeadLetter]) -> None:
        if self.error is not None:
            raise self.error
        self.letters += letters


class FailEach:
    """A transform that fails for the records at these offsets, and says which it was asked for."""

    def __init__(self, offsets: set[int]) -> None:
        self.offsets, self.asked = offsets, list[int]()

    async def change(self, portion: Portion) -> Sequence[Changed]:
        self.asked += [each.offset for each in portion.records]
        return [Failure(each, "bad") if each.offset in self.offsets else each for each in portion.records]


class Settled:
    """What became of records from offset 0 on: how many were copied, and where and how the lane stopped. It may be
    taken away while they are decoded.
    """

    def __init__(
        self,
        on_error: OnError,
        failing: set[int],
        letters: Kept | None = None,
        *,
        records: int = 10,
        is_taken_away: bool = False,
    ) -> None:
        self.room, self.faults, self.stops = Room(Limits()), SimpleNamespace(block_unchanged=self._stop), list[Any]()
        self.transformer = FailEach(failing)
        lane = replace(LANE, transform="one", on_error=on_error)
        self.run = LaneRun(lane, Writer(abandoned=True, is_mapped=True))
        self.run.begin(Transit(Cursor(0, 0, 0)))
        self.run.place()
        tasks = list[Any]()
        changing = Changing(self, {"one": self.transformer}, letters, tasks.append)
        batch = encode([Record(n, 1, None, b"%d" % n, []) for n in range(records)], 0)
        self.run.intake.restart(0, -1)
        self.run.offer(iter([Piece(batch, True, is_aborted=False)]))
        changing.wake(self.run)
        asyncio.run(self._change(tasks[0], is_taken_away=is_taken_away))
        assert self.run.intake.stage is not None
        self.copied = sum(each.batch.record_count for each in self.run.intake.stage.outgoing)

    async def _change(self, work: Coroutine[Any, Any, None], *, is_taken_away: bool) -> None:
        changing = asyncio.create_task(work)
        await asyncio.sleep(0)
        if is_taken_away:
            self.run.fail(LaneState.STOPPED, "stopped as asked")
        await changing

    def _stop(self, run: LaneRun, *stop: Any) -> None:
        self.stops.append(stop)

    def note_changed(self, run: LaneRun) -> None:
        """Nothing departs."""


def test_a_lane_that_stops_does_so_at_the_first_record_that_fails() -> None:
    """What comes before is copied."""
    settled = Settled(OnError.STOP, {4, 7})
    assert settled.copied == 4
    ((offset, reason, *_),) = settled.stops
    assert (offset, reason) == (4, "bad")
    assert Settled(OnError.SKIP, {4, 7}).copied == 8


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Unreachable("the topic is away", hint="look"), LaneState.BLOCKED),
        (NotAuthorized("READ is missing", hint="look"), LaneState.NOT_AUTHORIZED),
    ],
)
def test_letters_that_cannot_be_kept_stop_at_the_first_record_that_needs_one(
    error: ClusterError, state: LaneState
) -> None:
    """Not at the first of those that were asked for together; a missing right shows as such."""
    settled = Settled(OnError.DEAD_LETTER, {4, 7}, Kept(set(), error))
    assert settled.copied == 4
    assert settled.stops == [(4, error.message, "be passed without its dead letters", "look", state)]


def test_a_letter_that_is_refused_holds_back_what_comes_behind_it_alone() -> None:
    """The lane stops before its record; the letters before it are there."""
    refused = LetterRefused((7, -1), Unreachable("too large", hint="look"))
    settled = Settled(OnError.DEAD_LETTER, {4, 7}, Kept(set(), refused))
    assert settled.copied == 6
    assert settled.stops == [(7, "too large", "be passed without its dead letters", "look", LaneState.BLOCKED)]


def test_what_is_a_letter_is_not_asked_for_again() -> None:
    """It is left out, although the transform would change it now; others that fail are kept."""
    kept = Kept({(2, -1)}, None)
    settled = Settled(OnError.DEAD_LETTER, {4, 7}, kept)
    assert (settled.copied, settled.stops) == (7, [])
    assert 2 not in settled.transformer.asked
    assert [each.record.offset for each in kept.letters] == [4, 7]


def test_the_letters_of_a_lane_that_was_taken_away_meanwhile_are_left_alone() -> None:
    """Another lease may have them by now: whoever takes them over fences the one before."""
    kept = Kept(set(), None)
    Settled(OnError.DEAD_LETTER, set(), kept, records=CHUNK_RECORDS + 1, is_taken_away=True)
    assert kept.taken_over == 0
    Settled(OnError.DEAD_LETTER, set(), kept, records=CHUNK_RECORDS + 1)
    assert kept.taken_over == 1
