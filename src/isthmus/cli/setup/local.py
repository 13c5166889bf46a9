"""`isthmus local`: real Kafka clusters on this machine, to try things on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.noun import Noun
from isthmus.cli.options import OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, render
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.local import ClusterStatus, LocalCluster, status

_BASE_PORT: Final = 9192
_PORTS_APART: Final = 100
_COLUMNS: Final = (
    Column("cluster", Cells.NAME),
    Column("node_id"),
    Column("address"),
    Column("state"),
    Column("pid", gives_way=1),
)

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)

NamesOption = Annotated[str, typer.Option("--clusters", metavar="NAMES", help="Their names, separated by commas.")]
KnownNamesOption = Annotated[
    str,
    typer.Option("--clusters", metavar="NAMES", help="Only these, separated by commas.", show_default="all"),
]


@app.callback()
def group() -> None:
    """Start, stop and show real Kafka clusters on this machine."""


@app.command()
def up(
    clusters: NamesOption = "east,west",
    brokers: Annotated[
        int | None,
        typer.Option(help="Brokers of each cluster; one that is there keeps its own.", show_default="3"),
    ] = None,
    secure: Annotated[
        bool | None,
        typer.Option("--secure", help="SASL_SSL, SCRAM users and an authorizer.", show_default=False),
    ] = None,
    base_port: Annotated[
        int | None,
        typer.Option(
            help="Port of the first broker; the next cluster starts 100 above.",
            show_default=str(_BASE_PORT),
        ),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Start clusters, or their missing brokers, and wait until they serve clients.

    A cluster that was stopped and not wiped starts as it was. The broker jars are fetched into the user's cache the
    first time.
    """
    started: list[LocalCluster] = []
    names = _split(clusters)
    if not names:
        raise ConfigError("no cluster is named", field="clusters", hint="Name at least one: --clusters east,west.")
    try:
        with _progress(f"starting {' and '.join(names)}") as progress:
            for position, name in enumerate(names):
                started.append(
                    LocalCluster.start(
                        name,
                        brokers=brokers,
                        base_port=_base_port(name, position, base_port),
                        secure=secure,
                        detached=True,
                        wait=False,
                        progress=progress,
                    )
                )
            for cluster in started:
                cluster.wait_until_ready()
        for cluster in started:
            cluster.detach()
    except BaseException:
        # On any error, Ctrl-C included, stop everything that was started.
        for cluster in started:
            cluster.abandon()
        raise
    _show([cluster.describe() for cluster in started], output)


@app.command()
def down(
    clusters: KnownNamesOption = "",
    wipe: Annotated[bool, typer.Option("--wipe/--keep", help="Remove the data, or keep it for the next `up`.")] = False,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which would be stopped or wiped.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Stop clusters. With --wipe the name of each is to be typed, as its topics are gone then."""
    found = [LocalCluster.find(known.name) for known in _find_clusters(clusters)]
    stopping = [cluster for cluster in found if cluster is not None]
    state = "wiped" if wipe else "stopped"
    for cluster in stopping if wipe and not (yes or dry_run) else ():
        confirm(cluster.name, "stop it and remove its data")
    if dry_run:
        state = f"would be {state}"
    else:
        _stop(stopping, wipe=wipe)
    rows = [{"name": cluster.name, "state": state} for cluster in stopping]
    render(rows, output, columns=(Column("name", Cells.NAME), Column("state")))


def _stop(stopping: list[LocalCluster], *, wipe: bool) -> None:
    if not wipe:
        # All at once: brokers that leave in order take their time.
        for cluster in stopping:
            for broker in cluster.brokers:
                broker.terminate(wait=False)
    for cluster in stopping:
        cluster.stop(wipe=wipe)


@app.command(name="status")
def show(
    clusters: KnownNamesOption = "",
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show clusters and their brokers."""
    _show(_find_clusters(clusters), output)


def _find_clusters(names: str) -> list[ClusterStatus]:
    """Find the clusters of these names, or all; report the names that do not exist."""
    asked = _split(names)
    found = status(asked or None)
    for name in asked:
        if name not in [cluster.name for cluster in found]:
            console.print(Text(f"there is no local cluster {name}"))
    return found


def _split(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def _base_port(name: str, position: int, asked: int | None) -> int | None:
    # An existing cluster keeps its ports unless others are requested.
    if asked is None and LocalCluster.find(name) is not None:
        return None
    return (_BASE_PORT if asked is None else asked) + position * _PORTS_APART


@contextmanager
def _progress(doing: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress; yield a function that takes the number of present jars, and of needed ones."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bars.add_task(doing, total=None)
        fetching = bars.add_task("fetching broker jars", visible=False)

        def report(there: int, needed: int) -> None:
            bars.update(fetching, completed=there, total=needed, visible=there < needed)

        yield report


def _show(clusters: list[ClusterStatus], output: OutputFormat) -> None:
    if not output.is_table:
        render([asdict(cluster) for cluster in clusters], output)
        return
    rows = [{"cluster": cluster.name, **asdict(broker)} for cluster in clusters for broker in cluster.brokers]
    if not rows:
        console.print("no local cluster is there. Start two: isthmus local up")
        return
    render(rows, output, columns=_COLUMNS)
    secured = [cluster for cluster in clusters if cluster.secure]
    if secured:
        console.print("To log in to the secured clusters, configure:")
        console.print("\n".join(map(_login, secured)), markup=False)


def _login(cluster: ClusterStatus) -> str:
    return f"""  {cluster.name}:
    bootstrap_servers: {cluster.bootstrap_servers}
    security:
      mechanism: SCRAM-SHA-512
      username: isthmus
      password: ${{file:{cluster.password_file}}}
      tls: {{ca_file: {cluster.ca_file}}}"""
