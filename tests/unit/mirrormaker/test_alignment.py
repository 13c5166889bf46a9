"""What another program copied is found by content, however it crashed and whatever it copied twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.mirrormaker.alignment import Aligned, Alignment, Circumstances, SourceRecord
from isthmus.model.translation import MappedRange


def aligned(
    source: Sequence[SourceRecord],
    target: Iterable[tuple[int, bytes] | tuple[int, bytes, bytes]],
    claimed: int,
    **circumstances: bool,
) -> Aligned:
    """The alignment of two logs, the source given record by record only while it is asked for."""
    begin = source[0].offset if source else claimed
    alignment = Alignment(Circumstances(claimed=claimed, source_begin=begin, **circumstances))
    left = list(source)

    def feed() -> None:
        if left:
            alignment.feed([left.pop(0)])
        else:
            alignment.source_ended()

    for taken in target:
        while alignment.is_hungry:
            feed()
        alignment.take(*taken)
    while alignment.lacks_claimed:
        feed()
    return alignment.result()


def log(contents: str, *, begin: int = 0, aborted: str = "") -> list[SourceRecord]:
    """A record for each letter."""
    return [SourceRecord(begin + n, each.encode(), each in aborted) for n, each in enumerate(contents)]


def held(contents: str, *, begin: int = 0) -> list[tuple[int, bytes]]:
    """What the target holds, a letter each."""
    return [(begin + n, each.encode()) for n, each in enumerate(contents)]


Crashed = tuple[list[SourceRecord], list[tuple[int, bytes]], int, int, int]


@st.composite
def crashes(draw: st.DrawFn) -> Crashed:
    """A program that copies, commits now and then, crashes and goes on from there: source, target, position, how many
    records were copied at all, and how many more than once.
    """
    # Few contents, so that records are alike.
    alphabet = draw(st.sampled_from(["ab", "abcdefgh", "abcdefghijklmnopqrstuvwxyz"]))
    source = log(draw(st.text(alphabet, min_size=1, max_size=30)))
    committed, farthest, target = 0, 0, list[int]()
    for _ in range(draw(st.integers(1, 4))):
        end = draw(st.integers(committed, len(source)))
        target += range(committed, end)
        farthest = max(farthest, end)
        committed = draw(st.integers(committed, end))
    copies = [(offset, source[at].content) for offset, at in enumerate(target)]
    return source, copies, committed, farthest, len(target) - farthest


@given(crashes())
def test_nothing_is_lost_and_nothing_doubled(
    case: Crashed,
) -> None:
    """Whatever was copied twice and wherever it crashed: before the beginning every record is there, in order, and as
    many are counted as repeated as there are more.
    """
    source, target, committed, farthest, doubled = case
    found = aligned(source, target, committed)

    assert found.is_sound
    # Records that are alike count for one another: then more may be there than was meant.
    assert found.begin >= farthest
    assert found.begin - farthest == doubled - found.repeated
    there = [content for one in found.ranges for content in _at(target, one)]
    assert there == [record.content for record in source[: found.begin]]


def _at(target: Sequence[tuple[int, bytes]], one: MappedRange) -> list[bytes]:
    return [target[offset][1] for offset in range(one.target_begin, one.target_end)]


@given(crashes(), st.data())
def test_records_of_others_are_found(case: Crashed, data: st.DataObject) -> None:
    """A record that is none of the source's is counted, and changes nothing of what else is found."""
    source, target, committed, _, _ = case
    at = data.draw(st.integers(0, len(target)))
    mixed = [*target[:at], (at, b"of others"), *((offset + 1, content) for offset, content in target[at:])]
    sound, found = aligned(source, target, committed), aligned(source, mixed, committed)
    assert (found.begin, found.repeated) == (sound.begin, sound.repeated)
    assert (found.foreign, found.foreign_at, found.is_sound) == (1, (at,), False)


@given(crashes(), st.data())
def test_what_is_claimed_and_missing_is_found(case: Crashed, data: st.DataObject) -> None:
    """Where a record is missing at the target that was to be there, the result is not sound."""
    source = [record._replace(content=b"%d" % record.offset) for record in case[0]]
    count = data.draw(st.integers(1, len(source)))
    lost = data.draw(st.integers(0, count - 1))
    found = aligned(source, [(n, source[n].content) for n in range(count) if n != lost], count)
    assert not found.is_sound


def test_a_second_run_that_came_less_far() -> None:
    """What the first run wrote counts although a later one began before it and ended sooner."""
    found = aligned(log("abcdefgh"), held("abcdefcd"), 4)
    assert (found.begin, found.beyond, found.repeated) == (6, 2, 2)
    assert found.ranges == (MappedRange(0, 0, 6),)


@pytest.mark.parametrize(("there", "begin", "copied"), [("abd", 4, 0), ("axbd", 4, 1), ("axb", 3, 1)])
def test_aborted_records_may_be_there_or_not(there: str, begin: int, copied: int) -> None:
    """A program at read_uncommitted copies them, one at read_committed does not; neither is waited for."""
    found = aligned(log("axbd", aborted="x"), held(there), 1)
    assert (found.begin, found.aborted, found.is_sound) == (begin, copied, True)


def test_a_beginning_that_the_target_has_deleted() -> None:
    """What retention took from the target is not missing, whether some of it is left or nothing."""
    assert aligned(log("abcdef"), held("cde", begin=2), 4, target_lost_beginning=True).begin == 5
    nothing = aligned(log("abcdef"), [], 4, target_lost_beginning=True)
    assert (nothing.begin, nothing.is_sound) == (4, True)


def test_a_beginning_that_the_source_has_deleted() -> None:
    """What the source has no more is not foreign, if it lies before the first record it still has."""
    found = aligned(log("cdef", begin=2), held("abcde"), 1, source_lost_beginning=True)
    assert (found.begin, found.earlier, found.is_sound) == (5, 2, True)


def test_compacted_logs() -> None:
    """What the cleaner took from the source leaves a hole; what it took from the target is passed over."""
    with_hole = [*log("ab"), SourceRecord(3, b"d"), SourceRecord(4, b"e")]
    found = aligned(with_hole, held("abcd"), 2, is_source_compacted=True)
    assert (found.begin, found.cleaned, found.is_sound) == (4, 1, True)
    assert not aligned(with_hole, held("abcxd"), 2, is_source_compacted=True).is_sound
    found = aligned(log("abcde"), held("acd"), 2, is_target_compacted=True)
    assert (found.begin, found.is_sound) == (4, True)


@pytest.mark.parametrize(
    ("there", "claimed", "compacted", "plain", "told"),
    [
        ("abcdefcd", 2, 4, 6, 4),
        ("abcdefcd", 5, 5, 6, 5),
        ("abcdefcdef", 2, 6, 6, -1),
        ("abcdefcdefg", 2, 7, 7, -1),
    ],
)
def test_a_log_that_ends_within_a_repetition(there: str, claimed: int, compacted: int, plain: int, told: int) -> None:
    """The last record of a key counts in a compacted log: where the program was stopped while it repeated older ones,
    newer ones have to come once more. Elsewhere nothing comes twice, and where the repetition ended is told.
    """
    for circumstances in ({"is_target_compacted": True}, {"is_source_compacted": True}):
        found = aligned(log("abcdefgh"), held(there), claimed, **circumstances)
        assert (found.begin, found.ranges[-1].source_end, found.repeated_to) == (compacted, compacted, -1)
    found = aligned(log("abcdefgh"), held(there), claimed)
    assert (found.begin, found.ranges[-1].source_end, found.repeated_to) == (plain, plain, told)


Table = tuple[list[SourceRecord], list[tuple[int, bytes, bytes]], int]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A compacted topic copied by a program that crashes, whose copy was compacted since: the source, what is left at
    the target, and the position.
    """
    keys = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=15))
    gone = draw(st.sets(st.integers(0, len(keys) - 1)))
    source = [SourceRecord(n, b"%d" % n, key=key.encode(), is_tombstone=n in gone) for n, key in enumerate(keys)]
    committed, log_ = 0, list[int]()
    for _ in range(draw(st.integers(1, 4))):
        end = draw(st.integers(committed, len(source)))
        log_ += range(committed, end)
        committed = draw(st.integers(committed, end))
    # The cleaner takes what is followed by its key, up to somewhere.
    clean_to = draw(st.integers(0, len(log_)))
    later = {keys[at]: offset for offset, at in enumerate(log_)}
    left = [
        (offset, source[at].content, source[at].key)
        for offset, at in enumerate(log_)
        if offset >= clean_to or later[keys[at]] == offset
    ]
    return source, left, committed


@given(tables())
def test_a_table_ends_as_at_the_source(case: Table) -> None:
    """Whatever was cleaned at the target and wherever the program crashed: with what is copied from the beginning on,
    each key has the value that it has at the source, and nothing is called missing.
    """
    source, left, committed = case
    found = aligned(source, left, committed, is_target_compacted=True)
    assert found.is_sound
    goes_on = [(record.key, record.content) for record in source if record.offset >= found.begin]
    table = dict([*((key, content) for _, content, key in left), *goes_on])
    assert table == {record.key: record.content for record in source}


def test_a_table_that_was_made_anew() -> None:
    """A compacted topic that holds other records than those copied is not what the position is about, however much the
    cleaner may explain: each key has its last record at the target, unless that was a tombstone.
    """
    old = [(n, b"old %d" % n, b"%d" % n) for n in range(4)]
    new = [SourceRecord(n, b"new %d" % n, key=b"%d" % n) for n in range(6)]
    both = {"is_source_compacted": True, "is_target_compacted": True}
    found = aligned(new, old, 4, **both)
    assert (found.missing, found.first_missing) == (4, 0)
    # Cleaned at the target, as the source says: a later record with the key is there.
    newer = [new[0], new[1], SourceRecord(2, b"newer 0", key=b"0")]
    assert aligned(newer, [(1, b"new 1", b"1"), (2, b"newer 0", b"0")], 2, **both).is_sound
    assert aligned(newer, [(1, b"new 1", b"1")], 2, **both).first_missing == 0
    # A record without a key is taken by the cleaner, a tombstone after a while.
    gone = [new[0]._replace(key=b""), new[1]._replace(is_tombstone=True), new[2]]
    assert aligned(gone, [(2, b"new 2", b"2")], 3, **both).is_sound
