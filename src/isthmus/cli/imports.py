"""`isthmus import`: turn a configuration of MirrorMaker 2 into one of Isthmus, and say what has no equivalent."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus import config
from isthmus.cli.columns import Cells, Column
from isthmus.cli.options import OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.config.places import DEFAULT_NAME
from isthmus.control.clusters.certificates import require_certificates
from isthmus.errors import ConfigError
from isthmus.interop.deployment import Deployment, Impact, Notice
from isthmus.interop.drafting import Draft, draft_of
from isthmus.interop.files import ThisMachine, read_input, write_all
from isthmus.interop.links import OffsetsChoice
from isthmus.interop.reading import read_deployment
from isthmus.model.wording import counted

NOTICE_COLUMNS: Final = (
    Column("impact"),
    Column("key", Cells.NAME),
    Column("value", Cells.NAME, gives_way=2),
    Column("line", gives_way=1),
    Column("why", Cells.PROSE),
    Column("todo", Cells.PROSE),
)

app = typer.Typer(add_completion=False)


@app.command(name="import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="mm2.properties, the JSON of connectors in Kafka Connect, or Strimzi's KafkaMirrorMaker2 resource.",
            show_default=False,
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="Write the configuration there, with secrets and PEM files in a folder beside it; else it goes to "
            "stdout, and nothing is written.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing, also with --to.")] = False,
    offsets: Annotated[
        OffsetsChoice, typer.Option("--offsets", help="The offsets that records get at the target.")
    ] = OffsetsChoice.AUTO,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Turn a configuration of MirrorMaker 2 into one of Isthmus, and report what has no equivalent.

    With --to the report is the result; without, it goes to stderr. Exits with 1 if something has to be done before the
    configuration can be run. No cluster is contacted, and the file itself stays as it is.
    """
    if to is not None and to.exists() and file.exists() and to.samefile(file):
        raise ConfigError(f"{to} is what is imported", hint="Name another file, such as --to isthmus.yaml.")
    deployment = read_deployment(read_input(file), str(file))
    target = to or Path(DEFAULT_NAME)
    folder = f"{target.stem or 'isthmus'}.secrets"
    machine = ThisMachine(file.absolute().parent, os.environ)
    draft = draft_of(deployment, machine, folder=folder, offsets=offsets)
    notices = list(draft.notices)
    written: Sequence[Path] = ()
    if to is None or dry_run:
        sys.stdout.write(draft.text)
        if draft.companions:
            names = ", ".join(each.name for each in draft.companions)
            console.print(Text(printable(f"Not written without --to: {names}")))
    else:
        written = write_all(draft.text, draft.companions, to, force=force)
        # What is known to be missing is told already, and in better words.
        notices = [*(_unusable(to) if draft.is_complete else ()), *notices]
    with contextlib.redirect_stdout(sys.stdout if written else sys.stderr):
        _report(deployment, draft, notices, written, output)
    if any(notice.impact is Impact.NEEDED for notice in notices):
        raise typer.Exit(1)


def _unusable(path: Path) -> list[Notice]:
    """What keeps the file from being used on this machine, if anything does."""
    try:
        require_certificates(config.load(path), str(path))
    except ConfigError as error:
        return [Notice(impact=Impact.NEEDED, key=error.field or str(path), why=error.message, todo=error.hint)]
    return []


def _report(
    deployment: Deployment, draft: Draft, notices: Sequence[Notice], written: Sequence[Path], output: OutputFormat
) -> None:
    if not output.is_table:
        render(
            {
                "file": deployment.name,
                "form": deployment.form,
                "clusters": draft.clusters,
                "links": draft.links,
                "written": [str(path) for path in written],
                "notices": [notice.as_dict() for notice in notices],
            },
            output,
            names=[str(path) for path in written],
        )
        return
    if notices:
        render([_row(notice) for notice in notices], output, columns=NOTICE_COLUMNS)
    for path in written:
        console.print(Text(printable(f"wrote {path}")))
    needed = sum(notice.impact is Impact.NEEDED for notice in notices)
    end = (
        f"{counted(needed, 'thing')} to be done before it can be run"
        if needed
        else "isthmus plan shows what it would do"
    )
    console.print(Text(printable(f"{deployment.form}: {counted(len(draft.links), 'link')}; {end}")))


def _row(notice: Notice) -> dict[str, object]:
    return {key: "-" if value is None else value for key, value in notice.as_dict().items()}
