"""What commands print."""

from __future__ import annotations

import enum
import json
import uuid

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isthmus.cli.output import OutputFormat, printable, render
from isthmus.cli.tables.columns import Cells, Column
from testing.values.commands import LEAVES, LOOKING

ROWS = [
    {"topic": "flights", "lag_records": 12, "is_equal": True, "problem": None},
    {"topic": "orders", "lag_records": 0, "is_equal": False, "problem": "gone"},
]
Capture = pytest.CaptureFixture[str]


class State(enum.StrEnum):
    """An enumeration as the model has them."""

    ACTIVE = "ACTIVE"


@pytest.mark.parametrize("command", sorted(LOOKING - {"acls generate"}))
def test_every_read_takes_every_format(command: str) -> None:
    """But for the access rules of a link, which are printed as other programs take them."""
    assert LEAVES[command]["options"]["--output"] == f"choice:{','.join(OutputFormat)}"


def test_json_is_the_data(capsys: Capture) -> None:
    """Scripts get every key under its own name, and nothing else on stdout."""
    render(ROWS, OutputFormat.JSON, title="Topics", columns=[Column("topic")])

    out, err = capsys.readouterr()
    assert json.loads(out) == ROWS
    assert err == ""


def test_yaml_says_the_same_as_json(capsys: Capture) -> None:
    """Enumerations, tuples and identifiers come out as plain values in both."""
    data = {"state": State.ACTIVE, "topic_id": uuid.UUID(int=7), "reasons": ("a", "b")}

    render(data, OutputFormat.JSON)
    as_json = json.loads(capsys.readouterr().out)
    render(data, OutputFormat.YAML)
    as_yaml = yaml.safe_load(capsys.readouterr().out)

    assert as_yaml == as_json
    assert as_json == {"state": "ACTIVE", "topic_id": str(uuid.UUID(int=7)), "reasons": ["a", "b"]}


def test_json_lines_are_an_item_each(capsys: Capture) -> None:
    """A list has a line for each of its items, and one value has a single line."""
    render(ROWS, OutputFormat.JSONL)
    lines = capsys.readouterr().out.splitlines()
    render(ROWS[0], OutputFormat.JSONL)

    assert [json.loads(line) for line in lines] == ROWS
    assert capsys.readouterr().out == f"{lines[0]}\n"


def test_names_are_what_scripts_loop_over(capsys: Capture) -> None:
    """One name a line and each once: those that are given, else what rows have first. Nothing else is on stdout."""
    render(ROWS, OutputFormat.NAME, columns=[Column("topic")])
    assert capsys.readouterr() == ("flights\norders\n", "")

    render(ROWS, OutputFormat.NAME, names=["l/flights", "l/orders", "l/flights"])
    assert capsys.readouterr() == ("l/flights\nl/orders\n", "")

    render(ROWS[0], OutputFormat.NAME)
    assert capsys.readouterr() == ("flights\n", "")

    render([], OutputFormat.NAME)
    assert capsys.readouterr() == ("", "")


def test_table_shows_the_columns_asked_for(capsys: Capture) -> None:
    """Headers are words, truth values yes and no, and what does not apply is a dash."""
    names = ("topic", "lag_records", "is_equal", "problem")
    render(ROWS, OutputFormat.TABLE, columns=[Column(name) for name in names])

    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == ["topic", "lag", "records", "is", "equal", "problem"]
    assert lines[2:] == [["flights", "12", "yes", "-"], ["orders", "0", "no", "gone"]]


def test_wide_table_shows_everything(capsys: Capture) -> None:
    """Whoever asks for a wide table gets the columns a narrow one leaves out."""
    render(ROWS, OutputFormat.WIDE, columns=[Column("topic")])

    assert capsys.readouterr().out.split()[:2] == ["topic", "lag"]


def test_table_of_one_value_lists_its_fields(capsys: Capture) -> None:
    """A value with named fields is a table of two columns; nested values are short."""
    render({"file": "x", "links": ("a", "b"), "limits": {"max": 1}}, OutputFormat.TABLE)

    out = capsys.readouterr().out
    assert "a, b" in out
    assert '{"max": 1}' in out


def test_quantities_are_written_for_people_and_plain_for_programs(capsys: Capture) -> None:
    """Thousands are set apart in tables, ids are not; a quantity that is not known is no zero, and null in JSON."""
    rows: list[dict[str, object]] = [
        {"node_id": 26092, "lag_records": 1234567},
        {"node_id": 26093, "lag_records": None},
        {"node_id": 26094},
    ]
    columns = [Column("node_id"), Column("lag_records", Cells.NUMBER)]

    render(rows, OutputFormat.TABLE, columns=columns)
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    render(rows, OutputFormat.JSON, columns=columns)

    assert shown[2:] == [["26092", "1,234,567"], ["26093", "unknown"], ["26094", "-"]]
    assert json.loads(capsys.readouterr().out) == rows


def test_fields_of_one_value_are_written_alike(capsys: Capture) -> None:
    """A quantity is one wherever it stands."""
    render(
        {"topics": 1200, "controller": 1200, "lag": None}, OutputFormat.TABLE, columns=[Column("topics", Cells.NUMBER)]
    )

    assert [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()][2:] == [
        ["topics", "1,200"],
        ["controller", "1200"],
        ["lag", "-"],
    ]


def test_table_is_never_cut_off_in_a_pipe(capsys: Capture) -> None:
    """Where nobody looks at a screen, what cannot be broken stays whole, however wide that is."""
    columns = (Column("topic", Cells.NAME), Column("why", Cells.PROSE))
    render([{"topic": "x" * 300, "why": "y " * 200}], OutputFormat.TABLE, columns=columns)

    assert any("x" * 300 in line and " y y" in line for line in capsys.readouterr().out.split("\n"))


def test_a_table_in_a_pipe_has_a_sensible_width(capsys: Capture) -> None:
    """Sentences have several lines, as on a screen; all of them are there, and so is every column."""
    columns = (Column("topic", Cells.NAME), Column("why", Cells.PROSE), Column("todo", Cells.PROSE))
    words = [f"word{number}" for number in range(200)]
    render([{"topic": "orders", "why": " ".join(words), "todo": "z " * 100}], OutputFormat.TABLE, columns=columns)

    out, err = capsys.readouterr()
    assert max(map(len, out.split("\n"))) <= 160
    assert (out.count("word"), out.count("z"), err) == (200, 100, "")


def test_no_rows_leave_stdout_empty(capsys: Capture) -> None:
    """A script that counts lines counts none; a person is told."""
    render([], OutputFormat.TABLE)

    assert capsys.readouterr() == ("", "nothing to show\n")


@pytest.mark.parametrize("output", OutputFormat)
def test_names_cannot_move_the_cursor(capsys: Capture, output: OutputFormat) -> None:
    """Control characters never reach a terminal, and brackets are no markup."""
    render([{"topic": "a\x1b[2Jb\u202ec\r", "problem": "[red]x[/red] \x07"}], output)

    out = capsys.readouterr().out
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(out)
    assert ("[red]x[/red]" in out) == (output not in (OutputFormat.NAME, OutputFormat.HELP))


@given(st.text())
def test_printable_text_has_no_control_characters(text: str) -> None:
    """What is left prints on one line, and printable text stays as it is."""
    shown = printable(text)

    assert all(character.isprintable() or character.isspace() for character in shown)
    assert printable(shown) == shown
    assert "\n" not in shown


# Wide rows are laid out in a time that depends on the machine, so there is no deadline.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(), st.none() | st.booleans() | st.text(), max_size=4), max_size=8))
def test_any_rows_can_be_rendered(capsys: Capture, rows: list[dict[str, object]]) -> None:
    """Rows need not have the same keys, and keys and values may be any text."""
    for output in OutputFormat:
        render(rows, output)
    capsys.readouterr()


def test_the_shape_of_a_result(capsys: Capture) -> None:
    """Every key with all its types, items of lists under `[]`."""
    render([{"a": 1, "b": [{"c": None}, {"c": "x"}]}, {"a": 1.5, "b": []}], OutputFormat.HELP)

    lines = capsys.readouterr().out.splitlines()
    assert lines == ["[]: object", "[].a: integer or number", "[].b: list", "[].b[]: object", "[].b[].c: null or text"]
