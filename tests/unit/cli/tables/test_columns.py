"""Which columns fit, and how wide they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.cli.tables.columns import GAP, Cells, Column, ColumnWidth, fit

COLUMNS = (
    Column("topic", Cells.NAME),
    Column("state"),
    Column("lag_records", Cells.NUMBER),
    Column("source_end", Cells.NUMBER, gives_way=1),
    Column("problem", Cells.PROSE, gives_way=2),
)


def extents(*cells: int) -> list[ColumnWidth]:
    """What the columns above need, with cells of these lengths."""
    words = [max(map(len, column.heading.split())) for column in COLUMNS]
    return [
        ColumnWidth(heading=len(column.heading), word=word, cell=cell)
        for column, word, cell in zip(COLUMNS, words, cells, strict=True)
    ]


def shown(width: int, *cells: int) -> dict[str, int]:
    """The names of the columns that fit, with their widths."""
    return {COLUMNS[place.index].name: place.width for place in fit(COLUMNS, extents(*cells), width)}


def test_everything_is_shown_where_there_is_room() -> None:
    """Each column is as wide as its cells or its heading, and no wider."""
    assert shown(200, 10, 6, 9, 9, 50) == {
        "topic": 10,
        "state": 6,
        "lag_records": 11,
        "source_end": 10,
        "problem": 50,
    }


def test_headings_and_prose_wrap_first() -> None:
    """Before a column is left out, its heading takes several lines and prose wraps."""
    assert shown(70, 10, 6, 9, 9, 50) == {"topic": 10, "state": 6, "lag_records": 9, "source_end": 9, "problem": 24}


def test_the_least_important_columns_give_way_first() -> None:
    """Columns give way in the order they were given for it, the free text here before the number."""
    assert list(shown(60, 10, 6, 9, 9, 50)) == ["topic", "state", "lag_records", "source_end"]
    assert list(shown(40, 10, 6, 9, 9, 50)) == ["topic", "state", "lag_records"]


def test_names_are_shortened_only_when_nothing_else_helps() -> None:
    """A long name keeps its length at the cost of columns that give way, and loses some of it to those that stay."""
    assert shown(70, 45, 6, 9, 9, 50)["topic"] == 45
    assert shown(60, 100, 6, 9, 9, 50) == {"topic": 60 - 6 - 9 - 2 * GAP, "state": 6, "lag_records": 9}


def test_at_the_very_last_columns_are_left_out_from_the_right() -> None:
    """One column is always there."""
    assert list(shown(24, 100, 6, 9, 9, 50)) == ["topic", "state"]
    assert list(shown(1, 100, 6, 9, 9, 50)) == ["topic"]


@given(st.integers(40, 200), st.tuples(*[st.integers(0, 60)] * len(COLUMNS)))
def test_what_is_shown_fits(width: int, cells: tuple[int, ...]) -> None:
    """The columns that are shown fit, words and numbers in full, in their order."""
    places = fit(COLUMNS, extents(*cells), width)
    if len(places) > 1:
        assert sum(place.width for place in places) + GAP * (len(places) - 1) <= width
    assert [place.index for place in places] == sorted({place.index for place in places})
    for place in places:
        if COLUMNS[place.index].cells in (Cells.WORD, Cells.NUMBER):
            assert place.width >= cells[place.index]


@pytest.mark.parametrize("narrower", range(41, 140))
def test_a_wider_screen_shows_no_less(narrower: int) -> None:
    """Columns only come with room."""
    cells = (30, 18, 9, 9, 50)
    assert set(shown(narrower, *cells)) <= set(shown(narrower + 1, *cells))
