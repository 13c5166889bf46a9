"""One verb for several links: each has a result of its own, and what fails for one is done for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    Column("outcome"),
    Column("note", Cells.PROSE, gives_way=1),
)
Work = Callable[[str, Configuration], Row]
"""Does it for the link of this name: the outcome, with a note; raises IsthmusError."""


def each_link(links: Sequence[str], topic: str | None, path: Path | None, output: OutputFormat, work: Work) -> None:
    """Do it for each, and tell what came of it. Ends as the first that failed would have ended alone.

    :raises IsthmusError: There is one link only, and that failed.
    """
    names = list(dict.fromkeys(links))
    rows: list[Row] = []
    failed: IsthmusError | None = None
    for name in names:
        row: dict[str, object] = {"link": name, "topic": topic, "outcome": "failed", "note": "", "problem": None}
        try:
            row |= work(name, linked(path, name))
        except IsthmusError as error:
            if len(names) == 1:
                raise
            failed = failed or error
            row |= {"note": f"{error} {error.hint}".strip(), "problem": problem_dict(problem_of(error))}
        rows.append(row)
    if output.is_table:
        # Without a topic it is about whole links.
        rows = [
            {key: row[key] for key in ("link", "topic", "outcome", "note") if topic or key != "topic"} for row in rows
        ]
        render(rows, output, columns=[column for column in _COLUMNS if topic or column.name != "topic"])
    else:
        render(rows, output, names=names)
    if failed is not None:
        raise typer.Exit(failed.exit_code)
