"""Which committed transactions a copy ends within, held against the whole log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.state.committed import CommittedTransactions
from isthmus.kafka.batches.batch import CONTROL, TRANSACTIONAL, Batch


def at(offset: int, producer: int, *, is_end: bool) -> Batch:
    """One record in a transaction, or the end of it, as its header tells."""
    attributes = TRANSACTIONAL | (CONTROL if is_end else 0)
    return Batch(offset, offset + 1, 0, 2, 0, attributes, 0, 0, producer, 0, 0, 1, memoryview(b""))


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """Transactions of three producers, one after the other and across each other, all of them committed."""
    found: list[Batch] = []
    open_now: set[int] = set()
    for producer, is_end in draw(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=30)):
        found.append(at(len(found), producer, is_end=is_end))
        (open_now.discard if is_end else open_now.add)(producer)
    for producer in sorted(open_now):
        found.append(at(len(found), producer, is_end=True))
    return found


def torn(log: list[Batch], position: int) -> tuple[int, ...]:
    """The producers of transactions with records before the position and their end behind it."""
    open_now: set[int] = set()
    for batch in log[:position]:
        (open_now.discard if batch.is_control else open_now.add)(batch.producer_id)
    return tuple(sorted(open_now))


@given(log=logs(), data=st.data())
def test_what_is_said_is_true(log: list[Batch], data: st.DataObject) -> None:
    """Wherever reading began, and is begun again, and however far the copy is behind: a transaction that is named is
    cut there, and none is only said where that is so. Read from the first offset on, it is always known.
    """
    known, read = CommittedTransactions(), -1
    position = data.draw(st.integers(0, len(log)))
    is_whole = position == 0
    known.read_from(position, read)
    read = position
    for _ in range(data.draw(st.integers(1, 8))):
        known.answered(len(log))
        for batch in log[read : data.draw(st.integers(read, len(log)))]:
            known.read(batch)
            read = batch.offset_end
        position = data.draw(st.integers(position, read))
        said, true = known.at(position), torn(log, position)
        assert said is not None or not is_whole
        assert said is None or set(said) <= set(true)
        assert said != () or true == ()
        assert not is_whole or said == true
        known.passed(position)
        if data.draw(st.booleans()):
            again = data.draw(st.integers(position, read))
            known.read_from(again, read)
            read = again


@given(log=logs(), data=st.data())
def test_a_place_that_was_passed_is_not_known_any_more(log: list[Batch], data: st.DataObject) -> None:
    """A target that lost records begins before what was forgotten, another lane jumps ahead: nothing wrong is said."""
    known = CommittedTransactions()
    known.read_from(0, -1)
    known.answered(len(log))
    for batch in log:
        known.read(batch)
    known.passed(data.draw(st.integers(0, len(log))))
    back = data.draw(st.integers(0, len(log)))
    said = known.at(back)
    assert said is None or said == torn(log, back)
    known.read_from(back, len(log))
    said = known.at(back)
    assert said is None or said == torn(log, back)
    known.read_from(len(log) + 5, back)
    assert known.at(len(log) + 5) is None


def test_what_began_before_reading_is_known_to_have_ended_at_the_end_that_was_told_first() -> None:
    """A task that takes a lane over knows nothing until it has come as far as the source's log went then."""
    known = CommittedTransactions()
    known.read_from(10, -1)
    assert known.at(10) is None
    known.answered(12)
    assert known.at(10) is None
    known.read(at(10, 1, is_end=True))
    known.read(at(11, 1, is_end=True))
    assert known.at(11) is None
    assert known.at(12) == ()
    quiet = CommittedTransactions()
    quiet.read_from(10, -1)
    quiet.answered(10)
    assert quiet.at(10) == ()
