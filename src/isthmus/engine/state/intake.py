"""The pieces that were read of a lane and are not durable at its target yet, and where reading goes on. Pure.

WHOLE ──cut──▶ CUT ──drain──▶ WHOLE        WHOLE or CUT ──spoil──▶ SPOILT        any ──restart──▶ WHOLE
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.state.committed import CommittedTransactions
from isthmus.engine.state.stage import TransformStage
from isthmus.kafka.batches.batch import CONTROL, TRANSACTIONAL


class Usability(enum.Enum):
    """How usable the pieces are that were read of a lane and are not written yet."""

    WHOLE = enum.auto()
    """They are whole, and more can be read behind them."""
    CUT = enum.auto()
    """They are whole, but the records behind them cannot be read (deleted, damaged)."""
    SPOILT = enum.auto()
    """They are damaged, or the source does not have them any more: read them again."""

    def cut(self) -> Usability:
        """The usability once the next records cannot be read."""
        return Usability.CUT if self is Usability.WHOLE else self

    def drained(self) -> Usability:
        """The usability once all pieces are written."""
        return Usability.WHOLE if self is Usability.CUT else self


@dataclass(slots=True)
class Intake:
    """The reading side of one lane.

    `pending` holds the pieces that were read and are not yet durable at the target, in offset order, of `size_bytes`
    together; `taken` counts the pieces that have left it, and `usability` says how usable they are. `read_offset` is
    the next offset of the source to fetch, -1 until the target's log was looked at; nothing is read from `read_end` on.
    `read_epoch` is a leader epoch of the source not below that of any record before `read_offset`, -1 while unknown:
    the source compares it with its log and reports a truncation (KIP-320). `committed` are the committed transactions
    among the records read. `schema_id` is the id of the schema that the next record waits for, -1 for none.

    A lane with a transform has a `stage`, through which pieces go before they are pending; `size_bytes` includes it.
    """

    read_end: int
    pending: deque[Piece] = field(default_factory=deque)
    size_bytes: int = 0
    taken: int = 0
    usability: Usability = Usability.WHOLE
    read_offset: int = -1
    read_epoch: int = -1
    schema_id: int = -1
    committed: CommittedTransactions = field(default_factory=CommittedTransactions)
    stage: TransformStage | None = None

    @property
    def has_waiting(self) -> bool:
        """Whether anything that was read is not written yet."""
        return bool(self.pending) or (self.stage is not None and not self.stage.is_empty)

    @property
    def is_spoilt(self) -> bool:
        """Whether the pieces have to be read again."""
        return self.usability is Usability.SPOILT

    @property
    def is_at_end(self) -> bool:
        """Whether the lane may not read further now."""
        return self.read_offset >= self.read_end

    # Reading

    def begin_at(self, offset: int, epoch: int) -> None:
        """Read from `offset` on, once the lane is placed; `epoch` is that of the record before. Nothing was read."""
        self.read_offset, self.read_epoch = offset, epoch

    def allow(self, end: int) -> None:
        """Read up to `end`."""
        self.read_end = end

    def offer(
        self, pieces: Iterator[Piece], position: int, convert: Callable[[Piece], Piece | None] | None = None
    ) -> int:
        """Take pieces read from `read_offset` on, up to one that cannot be taken. Return their size in bytes.

        The lane is copied up to `position`. Pieces of a mapped lane are converted, to `None` if they are left out. They
        go into the stage if there is one.

        :raises ValueError: The first piece cannot be taken: its records have to be decoded, and cannot.
        """
        size, end, begin = 0, self.read_end, self.read_offset
        read_offset, pending, stage = begin, self.pending, self.stage
        self.committed.passed(position)
        try:
            for piece in pieces:
                batch = piece.batch
                if batch.offset_end <= read_offset or read_offset >= end:
                    continue
                taken = piece if convert is None else convert(piece)
                self.read_offset = read_offset = batch.offset_end if batch.offset_end < end else end
                self.read_epoch = batch.leader_epoch
                if batch.attributes & (TRANSACTIONAL | CONTROL) and not piece.is_aborted:
                    self.committed.read(batch)
                if taken is not None:
                    if stage is None:
                        pending.append(taken)
                    else:
                        stage.put(taken, read_offset)
                    size += len(taken.batch.view)
                elif stage is not None:
                    stage.leave_out(read_offset)
        except ValueError:
            # The pieces before have to be written first; the next answer begins with this one.
            if read_offset == begin:
                raise
        self.size_bytes += size
        return size

    def await_schema(self, schema_id: int) -> None:
        """Note the schema that the next record waits for, -1 for none."""
        self.schema_id = schema_id

    def cut(self) -> None:
        """Note that the next records cannot be read."""
        self.usability = self.usability.cut()

    def spoil(self) -> None:
        """Note that the pieces are damaged, or that the source does not have them any more."""
        self.usability = Usability.SPOILT

    def forget_epoch(self) -> None:
        """Note that the leader epoch of the records read is not known."""
        self.read_epoch = -1

    def go_by_records(self) -> None:
        """Read the pending pieces again, now that transactions are copied only once it is known how they end."""
        self.usability, self.committed = Usability.SPOILT, CommittedTransactions()

    def restart(self, offset: int, epoch: int) -> int:
        """Read from `offset` on what can be read again: see `read_from`."""
        self.usability = Usability.WHOLE
        return self.read_from(offset, epoch)

    def read_from(self, offset: int, epoch: int = -1) -> int:
        """Read again from `offset`, and drop all pending pieces. Return the dropped bytes.

        `epoch` is that of the record before, -1 if unknown. A known `read_epoch` stays if it covers `offset`.
        """
        dropped = self.size_bytes
        self.committed.read_from(offset, self.read_offset)
        if self.read_epoch < 0 or offset > self.read_offset >= 0:
            self.read_epoch = epoch
        self.pending.clear()
        if self.stage is not None:
            self.stage.clear(offset)
        self.size_bytes = 0
        self.read_offset = offset
        return dropped

    def shorten(self) -> int:
        """Drop all pending pieces but the first, to be read again later. Return the dropped bytes.

        No request may be in flight, and the intake has to be whole.
        """
        size = 0
        while len(self.pending) > 1:
            size += len(self.pending.pop().batch.view)
        offset = self.pending[0].batch.offset_end
        self.committed.read_from(offset, self.read_offset)
        self.read_offset = offset
        self.size_bytes -= size
        return size

    def drop_waiting(self) -> int:
        """Drop what the transformer was not asked to change yet, to be read again. Return the dropped bytes."""
        if self.stage is None or not self.stage.waiting:
            return 0
        size = self.stage.drop_waiting()
        self.committed.read_from(self.stage.taken_to, self.read_offset)
        self.read_offset = self.stage.taken_to
        self.size_bytes -= size
        return size

    def resize(self, grown: int) -> None:
        """Note by how many bytes what was read has grown while it was changed."""
        self.size_bytes += grown

    def release(self, pieces: int) -> None:
        """Note that the first outgoing pieces of the stage may be sent."""
        if self.stage is not None:
            self.pending.extend(self.stage.release(pieces))

    # Writing

    def count_written(self, position: int) -> int:
        """How many of the first pending pieces lie before `position`: the target's log already has them."""
        return sum(1 for _ in takewhile(lambda piece: piece.batch.offset_end <= position, self.pending))

    def take(self, pieces: int) -> int:
        """Drop the first `pieces` pending pieces: they are durable. Returns their size in bytes."""
        size = 0
        for _ in range(pieces):
            size += len(self.pending.popleft().batch.view)
        self.taken += pieces
        self.size_bytes -= size
        return size

    def drain(self) -> bool:
        """Whether the last piece of an intake that was cut is written, so that reading may go on behind it."""
        if self.usability is not Usability.CUT or self.has_waiting:
            return False
        self.usability = self.usability.drained()
        return True

    def divert_head(self) -> None:
        """Have the slow path write the first piece: it cannot be sent as it is."""
        self.pending[0] = self.pending[0]._replace(is_plain=False)

    def replace_head(self, pieces: list[Piece]) -> int:
        """Replace the first piece by others. Return by how many bytes the lane grew."""
        old = len(self.pending.popleft().batch.view)
        self.pending.extendleft(reversed(pieces))
        grown = sum(len(piece.batch.view) for piece in pieces) - old
        self.size_bytes += grown
        return grown
