"""One verb for several links: each has a result of its own, and a failure of one does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeVar

import typer
from rich.text import Text

from isthmus.cli.logs import note
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import IsthmusError
from isthmus.model.configuration import Configuration
from isthmus.model.problem import problem_of
from isthmus.model.text.plain import plain

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("namespace", Cells.NAME),
    Column("task", Cells.NAME),
    Column("outcome"),
    Column("note", Cells.PROSE, gives_way=1),
)
FoundT = TypeVar("FoundT")
Work = Callable[[str, str | None, Configuration], Row]
"""Does the work for the link of this name, or for one topic of it: returns the outcome, with a note; raises
IsthmusError.
"""


def each_shown(
    given: Sequence[str],
    output: OutputFormat,
    work: Callable[[str], FoundT],
    show: Callable[[FoundT], None],
    values: Callable[[FoundT], Row],
    *,
    noun: str = "link",
) -> None:
    """Call it for each, and show the results: for one link alone, for several one after the other, or as a row for each
    with its `problem`. End as the first that failed would have ended alone. `noun` is the kind of the things if not
    links.

    :raises IsthmusError: There is one only, and that failed.
    """
    names = list(dict.fromkeys(given))
    if len(names) == 1:
        show(work(names[0]))
        return
    found: dict[str, FoundT | IsthmusError] = {}
    for name in names:
        try:
            done = found[name] = work(name)
        except IsthmusError as error:
            found[name] = error
            if not output.has_problems:
                tell_failure(name, error)
            continue
        if output.is_table:
            show(done)
    if not output.is_table:
        well = [name for name, each in found.items() if not isinstance(each, IsthmusError)]
        render([_row_of(noun, name, each, values) for name, each in found.items()], output, names=well)
    end_with(each for each in found.values() if isinstance(each, IsthmusError))


def tell_failure(name: str, failed: IsthmusError) -> None:
    """Print a failure on stderr, if the result has no room for it."""
    message = f"{name}: {failed.error_code}: {problem_of(failed).in_full}"
    note(message, level=logging.ERROR)
    console.print(Text(printable(message)))


def _row_of(noun: str, name: str, found: FoundT | IsthmusError, values: Callable[[FoundT], Row]) -> Row:
    if isinstance(found, IsthmusError):
        return {noun: name, "problem": plain(problem_of(found))}
    shown = values(found)
    return {noun: name, **shown, "problem": shown.get("problem")}


def end_with(failures: Iterable[IsthmusError]) -> None:
    """End as the first of them would have ended alone; continue if there is none.

    :raises typer.Exit: With its exit code.
    """
    for failed in failures:
        raise typer.Exit(failed.exit_code)


def each_link(
    links: Sequence[str],
    topics: Sequence[str],
    parts: Mapping[str, str | None],
    path: Path | None,
    output: OutputFormat,
    work: Work,
) -> None:
    """Call it for each link, or for each of these topics of each, and show the results. End as the first that failed
    would have ended alone. `parts` are other parts of a link, by column; nothing for whole links.

    :raises IsthmusError: There is one only, and that failed.
    """
    targets = list(dict.fromkeys((link, topic) for link in links for topic in topics or (None,)))
    configurations = cache(partial(load_with_declared, path))
    rows: list[Row] = []
    failures: list[IsthmusError] = []
    for link, topic in targets:
        row: dict[str, object] = {
            "link": link,
            "topic": topic,
            **parts,
            "outcome": "failed",
            "note": "",
            "problem": None,
        }
        try:
            row |= work(link, topic, configurations(link))
        except IsthmusError as error:
            if len(targets) == 1:
                raise
            failures.append(error)
            problem = problem_of(error)
            if output is OutputFormat.NAME:
                tell_failure(_name(row), error)
            row |= {"note": problem.in_full, "problem": plain(problem)}
        rows.append(row)
    if output.is_table:
        shown = {"topic": topics, **parts}
        columns = [column for column in _COLUMNS if shown.get(column.name, column.name)]
        render([{column.name: row[column.name] for column in columns} for row in rows], output, columns=columns)
    else:
        render(rows, output, names=[_name(row) for row in rows if row["problem"] is None])
    end_with(failures)


def _name(row: Row) -> str:
    """Return the name as `isthmus wait` takes it."""
    return str(row["link"]) if row["topic"] is None else f"{row['link']}/{row['topic']}"
