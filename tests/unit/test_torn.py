"""Which transactions a consumer at read_committed saw in part, by how far it got."""

from __future__ import annotations

from dataclasses import replace

import pytest

from soak.aborted import parted, torn
from soak.judge.evidence import Log, Seen

FIRST, SECOND, ABORTED = b"first", b"second", b"aborted"
KEYS = [FIRST, None, SECOND, FIRST, ABORTED, SECOND, ABORTED, None]


@pytest.mark.parametrize(
    ("end", "begins"),
    [(0, []), (1, [0]), (2, [0]), (3, [0, 2]), (4, [2]), (5, [2]), (6, []), (8, [])],
)
def test_an_end_within_a_committed_transaction_tears_it(end: int, begins: list[int]) -> None:
    """Plain records and aborted ones are no matter."""
    records = tuple(Seen(offset, None, b"", key, False, True) for offset, key in enumerate(KEYS))
    visible = frozenset(record.offset for record in records if record.key != ABORTED)
    log = Log(start=0, stable=len(KEYS), high=len(KEYS), records=records, visible=visible)
    assert torn(log, {end: end}) == [(begin, end) for begin in begins]


def test_what_has_ended_is_hidden_from_where_another_begins() -> None:
    """As at the source: a consumer gets to the beginning of what is open still. What had not ended by then is torn."""
    records = tuple(Seen(offset, None, b"", key, False, True) for offset, key in enumerate(KEYS))
    log = Log(start=0, stable=8, high=8, records=records, visible=frozenset({0, 1, 2, 3, 5, 7}))
    assert torn(log, {2: 5}) == []
    assert torn(log, {2: 4}) == [(0, 2)]
    assert torn(log, {3: 5}) == [(0, 3), (2, 3)]


@pytest.mark.parametrize(
    ("visible", "seen_end", "problem"),
    [
        ({0, 1, 3}, 0, ""),
        ({1}, 0, ""),
        ({0, 1, 2, 3}, 0, "others are visible"),
        ({0, 1}, 0, "others are visible"),
        ({1}, 4, "others are visible"),
        (set(), 0, "others are visible"),
    ],
    ids=["one whole", "plain alone", "a part of the second", "a part of the first", "once seen", "plain hidden"],
)
def test_a_copy_that_was_given_up_shows_whole_transactions_and_plain_records(
    visible: set[int], seen_end: int, problem: str
) -> None:
    """It got as far as offset 4, and what was open then is aborted."""
    records = tuple(Seen(offset, None, b"", key, False, True) for offset, key in enumerate(KEYS))
    source = Log(start=0, stable=8, high=8, records=records, visible=frozenset({0, 1, 2, 3, 5, 7}))
    copy = Log(start=0, stable=6, high=6, records=records[:4], visible=frozenset(visible))
    assert parted(source, copy, seen_end).startswith(problem)
    assert bool(parted(source, copy, seen_end)) == bool(problem)
    assert "is open" in parted(source, replace(copy, stable=2), seen_end)
