"""One verb for several links: each has a result of its own, and what fails for one is done for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import typer
from rich.text import Text

from isthmus.cli.columns import Cells, Column
from isthmus.cli.config import linked
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.errors import IsthmusError
from isthmus.model.configuration import Configuration
from isthmus.model.problem import problem_dict, problem_of

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("namespace", Cells.NAME),
    Column("task", Cells.NAME),
    Column("outcome"),
    Column("note", Cells.PROSE, gives_way=1),
)
FoundT = TypeVar("FoundT")
Work = Callable[[str, Configuration], Row]
"""Does it for the link of this name: the outcome, with a note; raises IsthmusError."""


def each_shown(
    links: Sequence[str],
    output: OutputFormat,
    work: Callable[[str], FoundT],
    show: Callable[[FoundT], None],
    values: Callable[[FoundT], Row],
) -> None:
    """Do it for each, and show what came of it: of one link as it is, of several one after the other, or a row for
    each with its `problem`. Ends as the first that failed would have ended alone.

    :raises IsthmusError: There is one link only, and that failed.
    """
    names = list(dict.fromkeys(links))
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
                _tell_failure(name, error)
            continue
        if output.is_table:
            show(done)
    if not output.is_table:
        well = [name for name, each in found.items() if not isinstance(each, IsthmusError)]
        render([_row_of(name, each, values) for name, each in found.items()], output, names=well)
    _end_with(each for each in found.values() if isinstance(each, IsthmusError))


def _tell_failure(name: str, failed: IsthmusError) -> None:
    console.print(Text(printable(f"{name}: {failed.error_code}: {problem_of(failed).in_full}")))


def _row_of(name: str, found: FoundT | IsthmusError, values: Callable[[FoundT], Row]) -> Row:
    if isinstance(found, IsthmusError):
        return {"link": name, "problem": problem_dict(problem_of(found))}
    return {"link": name, **values(found), "problem": None}


def _end_with(failures: Iterable[IsthmusError]) -> None:
    for failed in failures:
        raise typer.Exit(failed.exit_code)


def each_link(
    links: Sequence[str], parts: Mapping[str, str | None], path: Path | None, output: OutputFormat, work: Work
) -> None:
    """Do it for each, and tell what came of it. Ends as the first that failed would have ended alone. `parts` are what
    of a link it is about, by column; nothing for whole links.

    :raises IsthmusError: There is one link only, and that failed.
    """
    names = list(dict.fromkeys(links))
    rows: list[Row] = []
    failures: list[IsthmusError] = []
    for name in names:
        row: dict[str, object] = {"link": name, **parts, "outcome": "failed", "note": "", "problem": None}
        try:
            row |= work(name, linked(path, name))
        except IsthmusError as error:
            if len(names) == 1:
                raise
            failures.append(error)
            problem = problem_of(error)
            if output is OutputFormat.NAME:
                _tell_failure(name, error)
            row |= {"note": problem.in_full, "problem": problem_dict(problem)}
        rows.append(row)
    if output.is_table:
        columns = [column for column in _COLUMNS if parts.get(column.name, column.name)]
        render([{column.name: row[column.name] for column in columns} for row in rows], output, columns=columns)
    else:
        render(rows, output, names=[str(row["link"]) for row in rows if row["problem"] is None])
    _end_with(failures)
