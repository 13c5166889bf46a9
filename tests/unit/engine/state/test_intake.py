"""The intake against a log: what was read and not written is there once, in order, whatever else happens."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.state.intake import Intake, Usability
from isthmus.kafka.batches.batch import Batch

END = 60
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def piece(begin: int, size: int, *, epoch: int = 0) -> Piece:
    """A plain piece of `size` records, and as many bytes."""
    batch = Batch(begin, begin + size, epoch, 2, 0, 0, 0, 0, -1, 0, 0, size, memoryview(bytes(size)))
    return Piece(batch, is_plain=True, is_aborted=False)


class Reading(RuleBasedStateMachine):
    """A lane whose source's log is one record an offset, in a leader epoch that grows with the offset.

    `position` is how far it is written. Reading stops at `END`, and at a record that is damaged.
    """

    def __init__(self) -> None:
        super().__init__()
        self.intake = Intake(END)
        self.intake.begin_at(0, -1)
        self.position = self.written = self.room = 0
        self.usability = Usability.WHOLE

    @rule(sizes=SIZES, back=st.integers(0, 3), damaged_at=st.none() | st.integers(0, 3))
    def read(self, sizes: list[int], back: int, damaged_at: int | None) -> None:
        """An answer may begin before the read offset, go beyond the end, and hold a piece that cannot be decoded."""
        begin = self.intake.read_offset
        at, answer = max(begin - back, 0), []
        for size in sizes:
            answer.append(piece(at, size, epoch=at // 10))
            at += size

        def convert(each: Piece) -> Piece:
            if damaged_at is not None and each in answer[damaged_at:]:
                raise ValueError("damaged")
            return each

        wanted = [each for each in answer if each.batch.offset_end > begin and each.batch.base_offset < END]
        good = [each for each in wanted if damaged_at is None or each not in answer[damaged_at:]]
        before = self.intake.size_bytes
        if wanted and not good and begin < END:
            try:
                self.intake.offer(iter(answer), self.position, convert)
            except ValueError:
                return
            raise AssertionError("the first piece cannot be taken, and nothing says so")
        size = self.intake.offer(iter(answer), self.position, convert)
        self.room += size
        assert size == self.intake.size_bytes - before
        if good and begin < END:
            assert self.intake.read_offset == min(good[-1].batch.offset_end, END)
            assert self.intake.read_epoch == good[-1].batch.leader_epoch

    @precondition(lambda self: self.intake.pending)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        """The first pieces become durable; a cut intake is whole again behind its last piece."""
        pieces = data.draw(st.integers(1, len(self.intake.pending)))
        self.position = self.intake.pending[pieces - 1].batch.offset_end
        assert self.intake.count_written(self.position) == pieces
        self.room -= self.intake.take(pieces)
        self.written += pieces
        is_drained = self.usability is Usability.CUT and not self.intake.pending
        assert self.intake.drain() == is_drained
        self.usability = Usability.WHOLE if is_drained else self.usability

    @precondition(lambda self: self.intake.pending)
    @rule()
    def split(self) -> None:
        """The slow path rebuilds what is left of the first piece, record by record; it is not plain until then."""
        self.intake.divert_head()
        batch, is_plain = self.intake.pending[0].batch, self.intake.pending[0].is_plain
        assert not is_plain
        parts = [piece(offset, 1) for offset in range(max(batch.base_offset, self.position), batch.offset_end)]
        self.room += self.intake.replace_head(parts)
        assert list(self.intake.pending)[: len(parts)] == parts

    @precondition(lambda self: self.intake.pending)
    @rule()
    def shorten(self) -> None:
        """Others need the room: what is dropped is read again."""
        self.room -= self.intake.shorten()
        assert len(self.intake.pending) == 1

    @rule()
    def cut(self) -> None:
        """The records behind the pieces cannot be read now."""
        self.intake.cut()
        self.usability = Usability.CUT if self.usability is Usability.WHOLE else self.usability

    @rule(by_records=st.booleans())
    def spoil(self, by_records: bool) -> None:
        """The pieces are of no use: nothing but reading again makes the intake whole."""
        (self.intake.go_by_records if by_records else self.intake.spoil)()
        self.usability = Usability.SPOILT

    @rule(epoch=st.integers(-1, 9), forgets=st.booleans())
    def restart(self, epoch: int, forgets: bool) -> None:
        """The lane is placed at its position. An epoch that covers it stays known."""
        known, read_to = self.intake.read_epoch, self.intake.read_offset
        if forgets:
            self.intake.forget_epoch()
            known = -1
        self.room -= self.intake.restart(self.position, epoch)
        self.usability = Usability.WHOLE
        assert self.intake.read_epoch == (epoch if known < 0 or self.position > read_to else known)
        assert not self.intake.pending

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        """The pieces are all records between the position and the read offset, and their room is accounted for."""
        intake = self.intake
        at = self.position
        for each in intake.pending:
            assert each.batch.base_offset <= at < each.batch.offset_end
            at = each.batch.offset_end
        assert min(at, END) == min(intake.read_offset, END)
        assert intake.size_bytes == self.room == sum(len(each.batch.view) for each in intake.pending)
        assert (intake.taken, intake.usability) == (self.written, self.usability)
        assert (intake.is_at_end, intake.is_spoilt) == (at >= END, self.usability is Usability.SPOILT)


TestReading = Reading.TestCase


def test_what_is_spoilt_is_neither_cut_nor_drained() -> None:
    """What was damaged is read again, whatever else is heard of it; what was cut off ends when it is written."""
    assert [each.cut() for each in Usability] == [Usability.CUT, Usability.CUT, Usability.SPOILT]
    assert [each.drained() for each in Usability] == [Usability.WHOLE, Usability.WHOLE, Usability.SPOILT]
