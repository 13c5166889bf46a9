"""`isthmus init`: a configuration to start with, after asking the clusters."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from isthmus import config
from isthmus.cli.options import VerboseOption
from isthmus.cli.output import console, printable
from isthmus.clusters.survey import ClusterSurvey
from isthmus.config.reading.places import DEFAULT_NAME
from isthmus.errors import ClusterError, ConfigError
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.interop.drafting import Draft
from isthmus.interop.files import ThisMachine, read_input, write_all
from isthmus.interop.starting import Start, starter
from isthmus.model.configuration import Configuration
from isthmus.model.problem import problem_of

_STDOUT = Path("-")

app = typer.Typer(add_completion=False)


@app.command()
def init(
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "-b", "--bootstrap-server", metavar="HOST:PORT,...", help="Brokers of the source.", show_default=False
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("-t", "--target", metavar="HOST:PORT,...", help="Brokers of the target.", show_default=False),
    ] = None,
    source_config: Annotated[
        Path | None,
        typer.Option(
            "--source-config",
            metavar="FILE",
            help="The properties of a client of the source, as Kafka's own tools take them by --command-config.",
            show_default=False,
        ),
    ] = None,
    target_config: Annotated[
        Path | None,
        typer.Option("--target-config", metavar="FILE", help="Those of a client of the target.", show_default=False),
    ] = None,
    source_alias: Annotated[str, typer.Option("--source-alias", help="The alias of the source.")] = "source",
    target_alias: Annotated[str, typer.Option("--target-alias", help="The alias of the target.")] = "target",
    include: Annotated[
        list[str] | None,
        typer.Option("--include", help="Topics to mirror: a name, a prefix* or a /regex/; may be repeated."),
    ] = None,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Where to write it, - for stdout.")] = Path(
        DEFAULT_NAME
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print it.")] = False,
    _verbose: VerboseOption = 0,
) -> None:
    """Write a configuration of one link to start with, with comments on other settings.

    Both clusters are examined; one that does not answer is reported, and the file is written all the same.
    Without --include it mirrors every topic. On a terminal it asks for missing values.
    """
    if source_alias == target_alias:
        raise ConfigError("the source and the target have one alias", hint="Give each its own: --source-alias east.")
    ends = (
        _start(source_alias, bootstrap_server, source_config, "source", "-b"),
        _start(target_alias, target, target_config, "target", "--target"),
    )
    file = Path(DEFAULT_NAME) if to == _STDOUT else to
    folder = f"{file.stem}.secrets"
    # Paths of stores in these files start here, as with Kafka's own tools.
    machine = ThisMachine(Path.cwd(), os.environ)
    patterns = include or ["*"]
    draft = starter(*ends, machine, include=patterns, folder=folder)
    seen = asyncio.run(_surveys(_load(draft)))
    draft = starter(*ends, machine, include=patterns, folder=folder, seen=seen)
    if dry_run or to == _STDOUT:
        if draft.companions:
            console.print(Text("The secrets that it refers to would be written beside it: name a file by --to."))
        sys.stdout.write(draft.text)
        return
    for path in write_all(draft.text, draft.companions, file, force=force):
        console.print(Text(printable(f"wrote {path}")))
    console.print(Text("Next: isthmus doctor, isthmus plan, isthmus run."))


def _start(alias: str, servers: str | None, properties: Path | None, side: str, option: str) -> Start:
    if servers is None and sys.stdin.isatty():
        servers = typer.prompt(f"Brokers of the {side} (host:port)", err=True)
    if not servers:
        raise ConfigError(
            f"where the brokers of the {side} are is not given", hint=f"Name some of them: {option} host:9092."
        )
    data = None if properties is None else read_input(properties)
    return Start.of(alias, servers, data, str(properties))


def _load(draft: Draft) -> Configuration:
    """Load the configuration of the draft.

    :raises ConfigError: It cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="isthmus-") as folder:
        path = Path(folder) / DEFAULT_NAME
        write_all(draft.text, draft.companions, path, force=False)
        return config.load(path)


async def _surveys(configuration: Configuration) -> Mapping[str, ClusterSurvey]:
    async with AsyncFabric(configuration) as fabric:
        asked = (fabric.cluster(each.alias).survey() for each in configuration.clusters)
        found = await asyncio.gather(*asked, return_exceptions=True)
    seen: dict[str, ClusterSurvey] = {}
    for cluster, answer in zip(configuration.clusters, found, strict=True):
        if isinstance(answer, ClusterSurvey):
            seen[cluster.alias] = answer
        elif isinstance(answer, ClusterError):
            console.print(Text(printable(f"Warning: {problem_of(answer).in_full}"), style="yellow"))
        elif isinstance(answer, BaseException):
            raise answer
    ids = [each.cluster_id for each in seen.values()]
    if len(ids) > len(set(ids)):
        raise ConfigError(
            f"both are one cluster ({ids[0]})", hint="Name brokers of two clusters: a link leads from one to another."
        )
    return seen
