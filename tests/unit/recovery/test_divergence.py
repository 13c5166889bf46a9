"""Up to where two logs hold the same, as a search finds it that sees them piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.links.needs import Side
from isthmus.recovery.divergence import LogStretch, SeenRecord, last_shared

Log = Mapping[int, int]
"""What stands at which offset."""
ENDS = 30


def stretches(log: Log, cuts: Sequence[int]) -> Iterator[LogStretch]:
    """A log in pieces that end at the cuts; pieces with the same records have the same token."""
    bounds = [0, *sorted(cuts), ENDS]
    for begin, end in pairwise(bounds):
        records = [SeenRecord(offset, b"%d" % log[offset]) for offset in range(begin, end) if offset in log]
        if records:
            token = tuple(records)
            yield LogStretch(offset_begin=begin, offset_end=end, token=token, records=partial(list, token))


def found(logs: Mapping[Side, Iterator[LogStretch]], begin: int, end: int, *, is_compacted: bool) -> int:
    """What the search finds."""
    search = last_shared(begin, end, is_compacted=is_compacted)
    try:
        side = next(search)
        while True:
            side = search.send(next(logs[side], None))
    except StopIteration as told:
        return int(told.value)


def first_difference(source: Log, target: Log, begin: int, end: int, *, is_compacted: bool) -> int:
    """The same by looking at every offset."""
    for offset in range(begin, end):
        here, there = source.get(offset), target.get(offset)
        if here != there and not (is_compacted and None in (here, there)):
            return offset
    return end


LOGS = st.dictionaries(st.integers(0, ENDS - 1), st.integers(0, 1))
CUTS = st.lists(st.integers(0, ENDS), max_size=5)


@given(
    source=LOGS,
    changes=st.dictionaries(st.integers(0, ENDS - 1), st.integers(0, 2), max_size=3),
    cuts=st.tuples(CUTS, CUTS),
    bounds=st.tuples(st.integers(0, ENDS), st.integers(0, ENDS)),
    is_compacted=st.booleans(),
)
def test_the_first_difference_is_found(
    source: Log, changes: Log, cuts: tuple[list[int], list[int]], bounds: tuple[int, int], is_compacted: bool
) -> None:
    """Whatever batches the records are in, and however alike neighbours are: the first offset at which they differ."""
    target = {**source, **changes}
    for offset in [offset for offset, value in changes.items() if value == 2]:
        del target[offset]
    begin, end = min(bounds), max(bounds)
    logs = {Side.SOURCE: stretches(source, cuts[0]), Side.TARGET: stretches(target, cuts[1])}
    assert found(logs, begin, end, is_compacted=is_compacted) == first_difference(
        source, target, begin, end, is_compacted=is_compacted
    )


def test_alike_neighbours_do_not_hide_a_foreign_record() -> None:
    """Ten times the same record, one of somebody else between them, and the link's own behind it, moved by one."""
    source = dict.fromkeys(range(10), 1)
    target = {**source, 4: 7, 10: 1}
    logs = {Side.SOURCE: stretches(source, []), Side.TARGET: stretches(target, [3, 5])}
    assert found(logs, 0, 10, is_compacted=False) == 4


def test_pieces_that_are_known_to_be_alike_are_not_opened() -> None:
    """What the tokens tell needs no look at the records."""

    def opened() -> list[SeenRecord]:
        raise AssertionError

    pieces = [LogStretch(offset_begin=n, offset_end=n + 5, token=n, records=opened) for n in range(0, 20, 5)]
    assert found({Side.SOURCE: iter(pieces), Side.TARGET: iter(pieces)}, 0, 20, is_compacted=False) == 20
