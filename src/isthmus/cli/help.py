"""`isthmus help`: exit codes, error codes, states, pages of the documentation, and the help of a command."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Annotated, Final

import typer

from isthmus.cli.app import COMMANDS
from isthmus.cli.options import OutputOption
from isthmus.cli.output import OutputFormat, Row, print_line, render
from isthmus.cli.reading import find_explanations, page, pages, states
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError, IsthmusError, error_classes, exit_codes, what_happened
from isthmus.model.kafka.checks import CHECKS, Check

_EXIT_COLUMNS: Final = (Column("exit_code"), Column("meaning", Cells.PROSE))
_ERROR_COLUMNS: Final = (Column("code"), Column("exit_code"), Column("what_happened", Cells.PROSE))
_STATE_COLUMNS: Final = (
    Column("of"),
    Column("state"),
    Column("derived_from", Cells.PROSE),
    Column("ended_by", Cells.PROSE),
)
_TOPICS: Final = (
    "exit-codes, errors, an error code such as ISTH-CONFIG, a state such as BLOCKED, a page such as docs/states.md, or "
    "a command"
)

app = typer.Typer(add_completion=False)


@app.command(name="help")
def explain(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help=f"One of: {_TOPICS}.")] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the meaning of exit codes, error codes and states, and their remedies; a page of the documentation, which
    messages name as docs/PAGE.md; or the help of a command.
    """
    if topic is None:
        print_line(f"isthmus help TOPIC: {_TOPICS}. All commands: isthmus --help. All pages: {', '.join(pages())}")
    elif topic == "exit-codes":
        rows: list[Row] = [
            {"exit_code": code, "meaning": " Or: ".join(all_of)} for code, all_of in exit_codes().items()
        ]
        render(rows, output, columns=_EXIT_COLUMNS)
    elif topic == "errors":
        rows = [*map(_row, error_classes()), *map(_check_row, CHECKS.values())]
        render(rows, output, columns=_ERROR_COLUMNS)
    elif topic.upper().startswith("ISTH"):
        render(_find_row(topic), output)
    elif topic not in COMMANDS and (states := find_explanations(topic.upper())):
        render([each._asdict() for each in states], output, columns=_STATE_COLUMNS)
    elif topic not in COMMANDS and (text := page(topic)) is not None:
        sys.stdout.write(text)
    elif topic.startswith("docs/"):
        raise ConfigError(f"there is no page {topic}", hint=f"There are {', '.join(pages())}.")
    elif topic.lower() in COMMANDS:
        _show_command(ctx, topic.lower())
    else:
        raise _nothing_on(topic)


def _row(error: type[IsthmusError]) -> Row:
    return {
        "code": error.error_code,
        "exit_code": error.exit_code,
        "what_happened": what_happened(error),
        "what_to_do": error.remedy,
        "may_pass_by_itself": error.retryable,
    }


def _check_row(check: Check) -> Row:
    return {
        "code": check.code,
        "exit_code": None,
        "what_happened": check.found,
        "what_to_do": check.remedy,
        "may_pass_by_itself": False,
    }


def _find_row(code: str) -> Row:
    for row in (*map(_row, error_classes()), *map(_check_row, CHECKS.values())):
        if row["code"] == code.upper():
            return row
    raise ConfigError(f"there is no error {code}", hint="isthmus help errors lists all of them.")


def _nothing_on(topic: str) -> ConfigError:
    known = [*COMMANDS, *pages(), *(state.lower() for state in states()), "exit-codes", "errors"]
    near = [f"isthmus help {each}" for each in get_close_matches(topic.lower(), dict.fromkeys(known), n=3)]
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return ConfigError(f"there is no help on {topic}", hint=f"{meant}There is help on {_TOPICS}.")


def _show_command(ctx: typer.Context, name: str) -> None:
    whole = ctx.parent
    if whole is None:
        raise ConfigError(f"there is no help on {name}", hint=f"There is help on {_TOPICS}.")
    # As if it had been called with --help: for a mistyped name the nearest one is suggested.
    whole.command.main([name, "--help"], prog_name="isthmus", standalone_mode=False)
