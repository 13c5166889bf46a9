"""`isthmus run`: create missing topics and copy."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.text import Text

from isthmus import config
from isthmus.cli.links.plan import show_plan
from isthmus.cli.links.status import tell_problems
from isthmus.cli.options import (
    ConfigOption,
    LinkArgument,
    LinkOption,
    OutputOption,
    VerboseOption,
    chosen_link,
)
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.servers.metrics import MetricsAnyInterfaceOption, MetricsOption, MetricsPartitionsOption, told_metrics
from isthmus.cli.servers.serve import CertificateOption, KeyOption, TokensOption, serve_settings
from isthmus.cli.setup.config import file_of, load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.cli.tables.live import LiveProgress
from isthmus.cli.tables.rows import progress_names
from isthmus.errors import ConfigError
from isthmus.fabric.answers import RunOutcome
from isthmus.fabric.fabric import Fabric
from isthmus.model.links.progress import LinkProgress
from isthmus.model.links.rows import outcome_rows
from isthmus.model.text.plain import plain

if TYPE_CHECKING:
    from isthmus.web.serving import ServedRun

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("partitions", Cells.NUMBER, gives_way=2),
    Column("state"),
    Column("records", Cells.NUMBER, gives_way=1),
    Column("lag_records", Cells.NUMBER),
    Column("problem", Cells.PROSE, gives_way=3),
)

ServeOption = Annotated[
    str | None,
    typer.Option("--serve", metavar="HOST:PORT", help="Serve the REST API and the console there (docs/rest.md)."),
]

app = typer.Typer(add_completion=False)


class UntilOption(enum.StrEnum):
    """The condition on which a run ends by itself."""

    CAUGHT_UP = "caught-up"
    COMMITTED = "committed"
    """As caught up, but without records in transactions that are open at the source."""

    @property
    def condition(self) -> Literal["caught-up", "committed"]:
        """The condition on which the run ends."""
        return "caught-up" if self is UntilOption.CAUGHT_UP else "committed"


@app.command()
def run(
    name: LinkArgument = None,
    path: ConfigOption = None,
    link: LinkOption = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option("--clusters", metavar="CLUSTER", help="Only links into this cluster; may be given several times."),
    ] = None,
    until: Annotated[
        UntilOption | None,
        typer.Option("--until", help="End when everything the sources have is copied."),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="Take the links over from a controller that runs them; it ends with 15."),
    ] = False,
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Wait, ready to go, for the end of a controller that runs the links."),
    ] = False,
    follow_config: Annotated[
        bool, typer.Option("--follow-config", help="Follow changes of the configuration file while running.")
    ] = False,
    metrics: MetricsOption = None,
    metrics_partitions: MetricsPartitionsOption = False,
    metrics_any_interface: MetricsAnyInterfaceOption = False,
    serve: ServeOption = None,
    tokens: TokensOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, as isthmus plan does.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Mirror the topics of all links, or of one, until Ctrl-C or until they are caught up (--until committed: except
    for records behind an open transaction of the source).

    Ctrl-C ends in good order, within a second or two; once more ends at once.

    Only one controller runs a link. If another one is at work this run names it and ends with 16. One that may be
    gone is waited for until it was silent for 10 seconds; one whose process is known to have ended is not. With
    --standby one that is at work is waited for too: this run takes over when it ends or is silent for 10 seconds.
    It copies once the tasks of the former one have ended, 13 seconds later at most if their host is gone.

    On SIGHUP the configuration is read again, with --follow-config every two seconds: links that come, go or become
    other ones are started and ended, filters, limits and intervals are followed, and everything else goes on.

    Exits with 0 when all is well, with 1 when some topics or partitions cannot be copied, and with 5 when it was to end
    caught up and something is paused, or waits for an open transaction for 30 seconds.
    """
    fabric = Fabric(load_with_declared(path, link := chosen_link(name, link)))
    if dry_run:
        show_plan(found := fabric.plan(link=link, clusters=clusters or ()), output)
        raise typer.Exit(found.exit_code)
    with fabric, _serve_beside(fabric, serve, tokens, (certificate, key), path) as served, LiveProgress() as live:
        outcome = fabric.run(
            until=None if until is None else until.condition,
            link=link,
            clusters=clusters or (),
            on_progress=partial(_tell, (live.show, served.feed if served else None)),
            take_over=take_over,
            standby=standby,
            reread=partial(config.load, path),
            follow_config=follow_config,
            on_configuration=served.take if served else lambda _: None,
            metrics=told_metrics(fabric, metrics, partitions=metrics_partitions, any_interface=metrics_any_interface),
        )
    show_outcome(outcome, output)
    raise typer.Exit(outcome.exit_code)


_Tell = Callable[[tuple[LinkProgress, ...]], None]


def _tell(whom: tuple[_Tell | None, ...], links: tuple[LinkProgress, ...]) -> None:
    for each in whom:
        if each is not None:
            each(links)


def _serve_beside(
    fabric: Fabric,
    listen: str | None,
    tokens: Path | None,
    tls: tuple[Path | None, Path | None],
    path: Path | None,
) -> contextlib.AbstractContextManager[ServedRun | None]:
    """Return the REST API beside a run, if it was requested; the run reports its progress to it."""
    if listen is None:
        if any(tls):
            raise ConfigError("--tls-cert and --tls-key are for --serve", hint="Give --serve HOST:PORT as well.")
        return contextlib.nullcontext()
    settings = serve_settings(listen, tokens, *tls, file=file_of(path))
    from isthmus.web.serving import serving_beside

    return serving_beside(fabric.configuration.written, settings, is_fed=True)


def show_outcome(outcome: RunOutcome, output: OutputFormat) -> None:
    """Show the outcome of the run on stdout; with a table, print problems on stderr."""
    if output.is_table:
        render(list(outcome_rows(outcome.links)), output, columns=_COLUMNS)
    else:
        render(plain(outcome), output, names=progress_names(outcome.links))
    if output.has_problems:
        return
    tell_problems(outcome.links)
    console.print(Text(printable(outcome.summary)))
