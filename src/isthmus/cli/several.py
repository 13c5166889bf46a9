"""One verb for several links: each has a result of its own, and what fails for one is done for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import typer

from isthmus.cli.columns import Cells, Column
from isthmus.cli.config import linked
from isthmus.cli.output import OutputFormat, Row, render
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
Work = Callable[[str, Configuration], Row]
"""Does it for the link of this name: the outcome, with a note; raises IsthmusError."""


def each_link(
    links: Sequence[str], parts: Mapping[str, str | None], path: Path | None, output: OutputFormat, work: Work
) -> None:
    """Do it for each, and tell what came of it. Ends as the first that failed would have ended alone. `parts` are what
    of a link it is about, by column; nothing for whole links.

    :raises IsthmusError: There is one link only, and that failed.
    """
    names = list(dict.fromkeys(links))
    rows: list[Row] = []
    failed: IsthmusError | None = None
    for name in names:
        row: dict[str, object] = {"link": name, **parts, "outcome": "failed", "note": "", "problem": None}
        try:
            row |= work(name, linked(path, name))
        except IsthmusError as error:
            if len(names) == 1:
                raise
            failed = failed or error
            row |= {"note": f"{error} {error.hint}".strip(), "problem": problem_dict(problem_of(error))}
        rows.append(row)
    if output.is_table:
        columns = [column for column in _COLUMNS if parts.get(column.name, column.name)]
        render([{column.name: row[column.name] for column in columns} for row in rows], output, columns=columns)
    else:
        render(rows, output, names=names)
    if failed is not None:
        raise typer.Exit(failed.exit_code)
