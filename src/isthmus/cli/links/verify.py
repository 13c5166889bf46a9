"""`isthmus verify`: prove that both sides hold the same, or say where they do not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.options import (
    ConfigOption,
    LinkArgument,
    LinkOption,
    OutputOption,
    VerboseOption,
    chosen_link,
)
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.cli.steps import Moving
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError, GateNotMet
from isthmus.fabric.fabric import Fabric
from isthmus.model.text.instant import parse_instant
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

if TYPE_CHECKING:
    from isthmus.spark.compare.links import Verdict

DIFFERENCE_FOUND: Final = 4
_LINE_S: Final = 5.0
_MB: Final = 1_000_000

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("offsets", gives_way=9),
    Column("verdict"),
    Column("records", Cells.NUMBER, gives_way=4),
    Column("missing", Cells.NUMBER, gives_way=1),
    Column("extra", Cells.NUMBER, gives_way=2),
    Column("different", Cells.NUMBER, gives_way=3),
    Column("cleaned", Cells.NUMBER, gives_way=6),
    Column("left_out", Cells.NUMBER, gives_way=7),
    Column("aborted", gives_way=8),
    Column("foreign", Cells.NUMBER, gives_way=10),
    Column("filtered", Cells.NUMBER, gives_way=12),
    Column("skipped", Cells.NUMBER, gives_way=13),
    Column("lag", Cells.NUMBER, gives_way=5),
    Column("waiting", Cells.NUMBER, gives_way=11),
    Column("not_compared", Cells.NUMBER, gives_way=14),
    Column("findings", Cells.PROSE),
)

app = typer.Typer(add_completion=False)


@app.command()
def verify(
    name: LinkArgument = None,
    path: ConfigOption = None,
    link: LinkOption = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic of those mirrored; may be repeated.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Compare records from then on: ms, RFC 3339 (2026-01-01T08), or 2h ago: 2h."),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Compare records up to then.")] = None,
    allow_lag: Annotated[
        bool, typer.Option("--allow-lag", help="Do not count records that the target does not have yet.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Compare both logs on Spark: offsets, timestamps, keys, values, headers, and the records that consumers see.

    Records that the link changes on the way are made again by its transform, and compared with the copies.

    Exits with 4 when they differ, and with 5 when they do not, but some could not be compared: records at the source's
    end wait for an open transaction (with --allow-lag they do not count), or were made by an earlier transform.
    """
    link = chosen_link(name, link)
    now_ms = time.time_ns() // 1_000_000
    since_ms = None if since is None else parse_instant(since, now_ms=now_ms)
    until_ms = None if until is None else parse_instant(until, now_ms=now_ms)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise ConfigError(
            f"--since {since} is not before --until {until}",
            hint="Name the earlier time with --since; 10m is earlier than 5m, being minutes ago.",
        )
    with Fabric(load_with_declared(path, link)) as fabric, Watcher() as watcher:
        verdicts = fabric.verify(
            link=link,
            topics=topic or (),
            since_ms=since_ms,
            until_ms=until_ms,
            allow_lag=allow_lag,
            on_progress=watcher.show,
        )
    show_verdicts(verdicts, output)
    if any(verdict.differs for verdict in verdicts.values()):
        raise typer.Exit(DIFFERENCE_FOUND)
    _require_all_compared(verdicts)


def _require_all_compared(verdicts: Mapping[str, Verdict]) -> None:
    """Require that nothing was left aside.

    :raises GateNotMet: Some records could not be compared.
    """
    unknown = sum(verdict.not_compared for verdict in verdicts.values())
    if unknown:
        raise GateNotMet(
            f"{format_count(unknown, 'offset')} of the source could not be compared: the findings name them",
            hint=(
                "Records that an earlier transform made can be compared by that one alone. --since with a time after "
                "its end leaves them out."
            ),
        )
    waiting = sum(verdict.waiting for verdict in verdicts.values())
    if waiting:
        raise GateNotMet(
            f"{format_count(waiting, 'offset')} of the source could not be compared: an open transaction holds them "
            "back",
            hint=(
                "isthmus status names it. Verify again when it has ended, or leave out records that the target does "
                "not have yet: --allow-lag."
            ),
        )


class Watcher(Moving):
    """Show the progress of the verification while it is entered: in place on a terminal, otherwise
    in lines. On stderr.
    """

    def __init__(self) -> None:
        super().__init__("verifying")
        self._line_at = time.monotonic()
        self._told = ""

    def show(self, what: str, done: int, total: int) -> None:
        """Show the current step, and how many of its parts are done."""
        line = f"{what}: {done:,} of {format_count(total, 'part')} done" if total else f"{what}: planning"
        is_step = line != self._told and time.monotonic() - self._line_at >= _LINE_S
        if is_step:
            self._line_at, self._told = time.monotonic(), line
        self._move(line, is_step=is_step)


def show_verdicts(verdicts: Mapping[str, Verdict], output: OutputFormat) -> None:
    """Show the verdicts by link, on stdout; with a table, a closing line on stderr."""
    if not output.is_table:
        names = [f"{link}/{topic.target_topic}" for link, verdict in verdicts.items() for topic in verdict.topics]
        render([{"link": link, **plain(verdict)} for link, verdict in verdicts.items()], output, names=names)
        return
    rows = [
        {**topic.row(link), "findings": "; ".join(topic.findings), "aborted": verdict.aborted}
        for link, verdict in verdicts.items()
        for topic in verdict.topics
    ]
    render(rows, output, columns=_COLUMNS)
    for link, verdict in verdicts.items():
        rate = verdict.read_bytes / _MB / max(verdict.elapsed_s, 0.001)
        left_out = sum(topic.left_out for topic in verdict.topics)
        aborted = f"{format_count(left_out, 'aborted record')} left out, " if left_out else ""
        message = (
            f"{link}: {verdict.outcome}: {format_count(verdict.records, 'record')} compared, {aborted}"
            f"{format_count(verdict.read_bytes, 'byte')} of both logs read "
            f"in {verdict.elapsed_s:.1f} s ({rate:,.0f} MB/s)"
        )
        console.print(Text(printable(message), style="green" if verdict.equal else "red"))
