"""The pieces of one lane that its transformer has yet to change, and the changed ones that may not be sent yet. Pure.

    put ─▶ waiting ──begin──▶ chunk ──finish──▶ outgoing ──release──▶ the lane's pending pieces
                  any ──clear──▶ nothing: it is read again

One chunk at a time is changed, which keeps the order. A changed piece is outgoing until the source offsets of its
records are stored.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.engine.batches.pieces import Piece

_DELAYS_S: Final = (3600.0, 600.0, 60.0, 5.0)


class StagedPart(NamedTuple):
    """A piece up to the source's `offset_end`; without a piece, offsets that hold nothing to be copied."""

    piece: Piece | None
    offset_end: int

    @property
    def size_bytes(self) -> int:
        return 0 if self.piece is None else len(self.piece.batch.view)

    @property
    def records(self) -> int:
        return 0 if self.piece is None else self.piece.batch.record_count


class Chunk(NamedTuple):
    """Parts that are changed together; its result counts only in the same `generation` of the stage."""

    parts: tuple[StagedPart, ...]
    generation: int

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)


@dataclass(slots=True)
class TransformStage:
    """The pieces of a lane with a transform between reading and writing.

    `taken_to` is the source offset behind the last part that was in a chunk. `generation` grows whenever what was read
    is dropped. The stage `is_busy` from `begin` until `end`, also while nothing is left to change. Since `asked_at`
    (monotonic s) the transformer, or the topic for dead letters with `asked_for_letters`, has an unanswered call about
    the records from `asked_offset` on; `inf` without one.
    """

    waiting: deque[StagedPart] = field(default_factory=deque)
    outgoing: deque[Piece] = field(default_factory=deque)
    chunk: Chunk | None = None
    taken_to: int = -1
    generation: int = 0
    is_busy: bool = False
    asked_at: float = math.inf
    asked_offset: int = -1
    asked_for_letters: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was read is on its way to the pending pieces."""
        return not self.waiting and not self.outgoing and self.chunk is None

    # Reading

    def put(self, piece: Piece, offset_end: int) -> None:
        """Take a piece; nothing of it from the source's `offset_end` on."""
        self.waiting.append(StagedPart(piece, offset_end))

    def leave_out(self, offset_end: int) -> None:
        """Note that nothing up to this source offset is copied."""
        if self.waiting and self.waiting[-1].piece is None:
            self.waiting.pop()
        self.waiting.append(StagedPart(None, offset_end))

    def clear(self, offset: int) -> None:
        """Drop everything; reading goes on from `offset`."""
        self.generation += 1
        self.waiting.clear()
        self.outgoing.clear()
        self.chunk = None
        self.taken_to = offset

    def drop_waiting(self) -> int:
        """Drop what is in no chunk yet; it has to be read again from `taken_to` on. Return its size in bytes."""
        size = sum(part.size_bytes for part in self.waiting)
        self.waiting.clear()
        return size

    # Changing

    def begin(self) -> None:
        """Have one task change what waits."""
        self.is_busy = True

    def end(self) -> None:
        """Note that the task has ended."""
        self.is_busy = False
        self.note_answer()

    def next_chunk(self, *, bytes_max: int, records_max: int) -> Chunk | None:
        """Take the next parts: at least one, and no more than these limits; `None` if nothing waits."""
        parts: list[StagedPart] = []
        size = records = 0
        while self.waiting:
            part = self.waiting[0]
            size, records = size + part.size_bytes, records + part.records
            if parts and (size > bytes_max or records > records_max):
                break
            parts.append(self.waiting.popleft())
        if not parts:
            return None
        self.chunk, self.taken_to = Chunk(tuple(parts), self.generation), parts[-1].offset_end
        return self.chunk

    def note_call(self, offset: int, now: float, *, for_letters: bool = False) -> None:
        """Note that the transformer was asked to change the records from a source offset on, or that their dead letters
        are being read or written.
        """
        self.asked_at, self.asked_offset, self.asked_for_letters = now, offset, for_letters

    def note_answer(self) -> None:
        """Note that the call has been answered."""
        self.asked_at = math.inf

    def delay_s(self, now: float) -> float:
        """Return for longer than how many seconds an answer has been owed; 0 if it is not late. Whatever shows a delay
        is told and logged when it changes, so there are few such lengths.
        """
        return next((each for each in _DELAYS_S if now - self.asked_at >= each), 0.0)

    def finish(self, pieces: list[Piece]) -> int:
        """Replace the chunk by what it became. Return by how many bytes the lane grew."""
        before = 0 if self.chunk is None else self.chunk.size_bytes
        self.chunk = None
        self.outgoing.extend(pieces)
        return sum(len(piece.batch.view) for piece in pieces) - before

    # Sending

    def release(self, pieces: int) -> list[Piece]:
        """Hand over the first outgoing pieces: they may be sent."""
        return [self.outgoing.popleft() for _ in range(pieces)]
