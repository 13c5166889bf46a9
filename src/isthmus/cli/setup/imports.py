"""`isthmus import`: turn a configuration of MirrorMaker 2 into one of Isthmus, and take over its copied records."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.options import OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup import takeover
from isthmus.cli.setup.takeover import (
    AllowForeignOption,
    OffsetsTopicOption,
    QuietOption,
    TakeOverOption,
    TimeoutOption,
    WholeOption,
    WorkersGroupOption,
)
from isthmus.cli.tables.columns import Cells, Column
from isthmus.clusters.certificates import require_certificates
from isthmus.config.reading.places import DEFAULT_NAME
from isthmus.errors import ConfigError
from isthmus.fabric.answers import TakeoverSettings
from isthmus.interop.deployment import Deployment, Impact, Notice
from isthmus.interop.drafting import Draft, draft_of
from isthmus.interop.files import ThisMachine, kept_if_done, read_input, write_all
from isthmus.interop.links import OffsetsChoice
from isthmus.interop.reading import read_deployment
from isthmus.model.text.duration import parse_duration
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

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
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing, also with --to.")] = False,
    offsets: Annotated[
        OffsetsChoice | None,
        typer.Option(
            "--offsets",
            help="The offsets that records get at the target: auto, or mapped with --take-over.",
            show_default=False,
        ),
    ] = None,
    take_over: TakeOverOption = False,
    quiet: QuietOption = "10s",
    timeout: TimeoutOption = "90s",
    whole: WholeOption = False,
    allow_foreign: AllowForeignOption = False,
    offsets_topic: OffsetsTopicOption = None,
    workers_group: WorkersGroupOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Turn a configuration of MirrorMaker 2 into one of Isthmus, and report settings without an equivalent.

    With --to the report is the result; without, it goes to stderr. Exits with 1 if something has to be done before the
    configuration can be run. The file itself stays as it is, and no cluster is contacted, but with --take-over: then
    what MirrorMaker 2 has copied beyond its last position is found by content, and where each partition goes on is
    written into the ledger of the target.
    """
    choice = offsets or (OffsetsChoice.MAPPED if take_over else OffsetsChoice.AUTO)
    _check(take_over=take_over, choice=choice, to=to, dry_run=dry_run)
    if to is not None and to.exists() and file.exists() and to.samefile(file):
        raise ConfigError(f"{to} is the imported file", hint="Name another file, such as --to isthmus.yaml.")
    deployment = read_deployment(read_input(file), str(file))
    target = to or Path(DEFAULT_NAME)
    folder = f"{target.stem or 'isthmus'}.secrets"
    machine = ThisMachine(file.absolute().parent, os.environ)
    draft = draft_of(deployment, machine, folder=folder, offsets=choice, takes_over=take_over)
    if take_over:
        settings = TakeoverSettings(
            quiet_s=parse_duration(quiet),
            patience_s=parse_duration(timeout),
            is_whole=whole,
            allows_foreign=allow_foreign,
            is_dry_run=dry_run,
        )
        _take_over(deployment, draft, to, settings, offsets_topic, workers_group, output, force=force)
        return
    _import(deployment, draft, to, output, force=force, dry_run=dry_run)


def _import(
    deployment: Deployment, draft: Draft, to: Path | None, output: OutputFormat, *, force: bool, dry_run: bool
) -> None:
    notices = list(draft.notices)
    written: Sequence[Path] = ()
    if to is None or dry_run:
        sys.stdout.write(draft.text)
        if draft.companions:
            names = ", ".join(each.name for each in draft.companions)
            console.print(Text(printable(f"Not written without --to: {names}")))
    else:
        written = write_all(draft.text, draft.companions, to, force=force)
    # Known gaps are reported already, and in better words.
    notices = [*(_unusable(draft, to if written else None) if draft.is_complete else ()), *notices]
    with contextlib.redirect_stdout(sys.stdout if written else sys.stderr):
        _report(deployment, draft, notices, written, output)
    if any(notice.impact is Impact.NEEDED for notice in notices):
        raise typer.Exit(1)


def _check(*, take_over: bool, choice: OffsetsChoice, to: Path | None, dry_run: bool) -> None:
    if not take_over:
        return
    if choice is OffsetsChoice.SAME:
        raise ConfigError(
            "what MirrorMaker 2 has copied does not have the offsets of the source",
            hint="Leave --offsets away, or give mapped or auto.",
        )
    if to is None and not dry_run:
        raise ConfigError(
            "--take-over needs the configuration that goes on with it",
            hint="Name the file by --to isthmus.yaml; --dry-run shows what would be taken over.",
        )


def _take_over(
    deployment: Deployment,
    draft: Draft,
    to: Path | None,
    settings: TakeoverSettings,
    offsets_topic: str | None,
    workers_group: str | None,
    output: OutputFormat,
    *,
    force: bool,
) -> None:
    """Write the configuration unless it is there, and take over the records that its links continue from."""
    is_there = to is not None and to.exists() and not force
    notices = [] if is_there else list(draft.notices)
    written: Sequence[Path] = ()
    if to is not None and not is_there and not settings.is_dry_run:
        written = write_all(draft.text, draft.companions, to, force=force)
        notices = [*(_unusable(draft, to) if draft.is_complete else ()), *notices]
    if any(notice.impact is Impact.NEEDED for notice in notices):
        _report(deployment, draft, notices, written, output)
        console.print(Text("Nothing was taken over yet: complete the configuration and give the same command again."))
        raise typer.Exit(1)
    used = to if is_there or written else None
    # Without a take-over a run with it would copy everything again.
    with kept_if_done(() if force else written), takeover.load_draft(draft, used) as configuration:
        found = takeover.take_over_all(deployment, configuration, settings, offsets_topic, workers_group)
    if output.is_table:
        with contextlib.redirect_stdout(sys.stderr):
            _report(deployment, draft, notices, written, output)
        takeover.show(found)
    else:
        render({**_fields(deployment, draft, notices, written), "take_over": takeover.as_dicts(found)}, output)
    if not all(each.is_complete for each in found):
        raise typer.Exit(1)


def _unusable(draft: Draft, written: Path | None) -> list[Notice]:
    """Return the obstacles for using the configuration on this machine, if any, whether or not it is written."""
    name = str(written or DEFAULT_NAME)
    try:
        with takeover.load_draft(draft, written) as configuration:
            require_certificates(configuration, name)
    except ConfigError as error:
        return [Notice(impact=Impact.NEEDED, key=error.field or name, why=error.message, todo=error.hint)]
    return []


def _report(
    deployment: Deployment, draft: Draft, notices: Sequence[Notice], written: Sequence[Path], output: OutputFormat
) -> None:
    if not output.is_table:
        render(_fields(deployment, draft, notices, written), output, names=[str(path) for path in written])
        return
    if notices:
        render([_row(notice) for notice in notices], output, columns=NOTICE_COLUMNS)
    for path in written:
        console.print(Text(printable(f"wrote {path}")))
    needed = sum(notice.impact is Impact.NEEDED for notice in notices)
    end = (
        f"{format_count(needed, 'thing')} to be done before it can be run"
        if needed
        else "isthmus plan shows its effects"
    )
    console.print(Text(printable(f"{deployment.form}: {format_count(len(draft.links), 'link')}; {end}")))


def _fields(
    deployment: Deployment, draft: Draft, notices: Sequence[Notice], written: Sequence[Path]
) -> dict[str, object]:
    return {
        "file": deployment.name,
        "form": deployment.form,
        "clusters": draft.clusters,
        "links": draft.links,
        "written": [str(path) for path in written],
        "notices": [plain(notice) for notice in notices],
    }


def _row(notice: Notice) -> dict[str, object]:
    return {key: "-" if value is None else value for key, value in plain(notice).items()}
