"""Tables on screens of all widths."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from isthmus.cli.tables.columns import Cells, Column
from isthmus.cli.tables.grid import Grid, shorten_name, wrap_text
from isthmus.model.lane import LaneState

COLUMNS = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("state"),
    Column("source_end", Cells.NUMBER, gives_way=2),
    Column("target_end", Cells.NUMBER, gives_way=3),
    Column("lag_records", Cells.NUMBER),
    Column("lag_seconds", Cells.NUMBER, gives_way=1),
    Column("problem", Cells.PROSE, gives_way=4),
)
ROWS: list[dict[str, object]] = [
    {
        "link": "east-west",
        "topic": "flights-transactions",
        "state": "SOURCE_UNAVAILABLE",
        "source_end": 1_234_567_890,
        "target_end": 1_234_508_090,
        "lag_records": 59_800,
        "lag_seconds": 12.345,
        "problem": "the source's leader of flights-transactions-3 says KAFKA_STORAGE_ERROR, and nobody else leads it",
    },
    {
        "link": "east-west",
        "topic": "orders",
        "state": "STOPPED",
        "source_end": None,
        "target_end": 0,
        "lag_records": None,
        "lag_seconds": None,
    },
]
names = st.text("abcdefghijklmnopqrstuvwxyz.-_0123456789", min_size=1, max_size=120)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
rows = st.fixed_dictionaries(
    {"link": names, "topic": names, "state": st.sampled_from([str(state) for state in LaneState])},
    optional={
        "source_end": numbers,
        "target_end": numbers,
        "lag_records": numbers,
        "lag_seconds": st.none() | st.floats(0, 10**9).map(lambda seconds: round(seconds, 3)),
        "problem": st.none() | st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=200),
    },
)


def drawn(grid: Grid, width: int, height: int = 24) -> list[str]:
    """The lines of a table on a screen."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(grid)
    return capture.get().splitlines()


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (60, ["link", "topic", "state", "lag"]),
        (80, ["link", "topic", "state", "lag", "lag"]),
        (100, ["link", "topic", "state", "source", "lag", "lag"]),
        (120, ["link", "topic", "state", "source", "target", "lag", "lag"]),
    ],
)
def test_a_table_fits_the_screen(width: int, headings: list[str]) -> None:
    """Numbers, states and names are whole on screens of all usual widths; columns that matter less are left out."""
    grid = Grid(ROWS, COLUMNS)
    lines = drawn(grid, width)

    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "SOURCE_UNAVAILABLE" in text
    assert "59,800" in text
    assert "unknown" in text
    if width >= 80:
        assert "flights-transactions" in text
    assert [column.heading.split()[0] for column in COLUMNS if column.heading not in grid.missing(width)] == headings


def test_nothing_is_missing_where_everything_fits() -> None:
    """A screen that is wide enough shows all, and says nothing of it."""
    grid = Grid(ROWS, COLUMNS)
    assert grid.missing(300) == ""
    assert str(ROWS[0]["problem"]) in "\n".join(drawn(grid, 300))


def test_what_is_missing_is_named() -> None:
    """Columns that are left out are told, and so is that names are shortened."""
    assert Grid(ROWS, COLUMNS).missing(80) == "left out to fit the screen: source end, target end, problem"
    assert (
        Grid([{"topic": "x" * 100}], [Column("topic", Cells.NAME)]).missing(80)
        == "names are shortened to fit the screen"
    )


def test_columns_that_say_nothing_go_first_and_are_not_missed() -> None:
    """Room is for what there is to say, whatever the columns are."""
    rows = [{"topic": "x" * 30, "source_end": 1234567, "state": None, "problem": ""}]
    columns = [Column("topic", Cells.NAME), Column("state"), Column("source_end", Cells.NUMBER, gives_way=2)]
    grid = Grid(rows, [*columns, Column("problem", Cells.PROSE)])

    assert drawn(grid, 45)[1].split() == ["topic", "source", "end"]
    assert grid.missing(45) == ""
    assert drawn(grid, 80)[1].split() == ["topic", "state", "source", "end", "problem"]


def test_prose_wraps_at_words() -> None:
    """Free text takes as many lines as it needs, and its words stay whole."""
    sentence = "the source deleted records before they were copied"
    lines = drawn(
        Grid([{"state": "DATA_GAP", "problem": sentence}], [Column("state"), Column("problem", Cells.PROSE)]), 40
    )

    assert " ".join(" ".join(lines[3:]).replace("DATA_GAP", "").split()) == sentence
    assert len([line for line in lines[3:] if line.strip()]) == 2


@given(st.lists(rows, min_size=1, max_size=5), st.integers(40, 160))
def test_numbers_and_states_are_whole_or_their_column_is_not_there(
    given_rows: list[dict[str, object]], width: int
) -> None:
    """No number and no state is ever cut: each is in a line, or its column is left out and that is told."""
    grid = Grid(given_rows, COLUMNS)
    lines = drawn(grid, width)
    missing = grid.missing(width).removeprefix("left out to fit the screen: ").split(", ")
    text = [line.split() for line in lines]

    assert max(map(cell_len, lines)) <= width
    for column in COLUMNS:
        if column.heading in missing or column.cells not in (Cells.WORD, Cells.NUMBER):
            continue
        for value in (row[column.name] for row in given_rows if column.name in row):
            shown = "unknown" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)
            assert any(shown in line for line in text), (column.name, shown)


def test_a_word_that_is_longer_than_a_line_is_broken_behind_punctuation() -> None:
    """A setting stays readable: its name in one line and its value in another."""
    assert wrap_text("Set producer.id.expiration.ms=604800000 there", 28) == [
        "Set",
        "producer.id.expiration.ms=",
        "604800000 there",
    ]
    assert wrap_text("x" * 10, 4) == ["xxxx", "xxxx", "xx"]
    assert wrap_text("", 4) == []


@given(st.text(st.characters(categories=["L", "N", "P", "S"]) | st.just(" "), max_size=200), st.integers(2, 60))
def test_wrapped_text_is_whole_and_fits(text: str, width: int) -> None:
    """No line is too long or empty, and nothing is lost; some letters take no room of their own."""
    lines = wrap_text(text, width)
    assert all(line and cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_shortened_name_has_both_its_ends(name: str, width: int) -> None:
    """It is never too long, and begins and ends as the name does."""
    short = shorten_name(name, width)
    assert cell_len(short) <= width
    if short != name:
        head, _, tail = short.partition("…")
        assert name.startswith(head)
        assert name.endswith(tail)


@pytest.mark.parametrize("height", [6, 10, 24])
def test_a_live_table_fits_the_height_too(height: int) -> None:
    """Rows that do not fit are counted, however many lines the others take."""
    many = [{**ROWS[0], "topic": f"topic-{number}"} for number in range(100)]
    columns = [Column("topic", Cells.NAME), Column("state"), Column("problem", Cells.PROSE)]
    lines = drawn(Grid(many, columns, is_live=True), 80, height)

    assert len(lines) <= height - 1
    shown = sum("topic-" in line for line in lines)
    assert any(line.startswith(f"and {100 - shown} more rows") for line in lines)


def test_a_live_table_says_what_is_left_out() -> None:
    """There is no other place to say it while it is shown."""
    lines = drawn(Grid(ROWS, COLUMNS, is_live=True), 80)
    assert lines[-1] == "left out to fit the screen: source end, target end, problem"
    assert lines[1].startswith("link")
