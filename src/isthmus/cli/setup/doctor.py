"""`isthmus doctor`: check everything a configuration needs, and print the remedies."""

from __future__ import annotations

from typing import Final

import typer

from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, render
from isthmus.cli.setup.config import ask_fabric, load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.model.kafka.findings import Level
from isthmus.model.text.plain import plain

FINDING_COLUMNS: Final = (
    Column("level"),
    Column("subject", Cells.NAME),
    Column("check", gives_way=1),
    Column("message", Cells.PROSE),
    Column("hint", Cells.PROSE),
)

app = typer.Typer(add_completion=False)


@app.command()
def doctor(
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Examine clusters, rights, limits, clocks and this host. Exits with 1 if something is wrong."""
    findings = ask_fabric(load_with_declared(path), lambda fabric: fabric.doctor())
    names = [finding.subject for finding in findings]
    render([plain(finding) for finding in findings], output, columns=FINDING_COLUMNS, names=names)
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(1)
