"""`isthmus cluster list`: the clusters of the configuration, and their uses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, applicable, render
from isthmus.cli.remembered import Remembered
from isthmus.cli.setup.config import file_of, load_configuration
from isthmus.cli.several import tell_failure
from isthmus.cli.tables.columns import Cells, Column
from isthmus.clusters.survey import ClusterSurvey
from isthmus.errors import ClusterError
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.problem import problem_of
from isthmus.model.text.plain import plain

_COLUMNS: Final = (
    Column("cluster", Cells.NAME),
    Column("bootstrap_servers", Cells.PROSE),
    Column("cluster_id", gives_way=2),
    Column("brokers", Cells.NUMBER, gives_way=1),
    Column("links", Cells.PROSE),
    Column("trees", Cells.PROSE, gives_way=3),
)


def list_clusters(
    ask: Annotated[
        bool,
        typer.Option("--ask", help="Ask each cluster for its id and brokers, and all for links declared on them."),
    ] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the clusters of the configuration: where they are reached, their id, and which links and trees use them.

    No cluster is contacted without --ask: then ids are those of the last --ask, and links and trees those of the file.
    Exits with 1 if a cluster was asked and did not answer.
    """
    configuration, file = load_configuration(path), file_of(path)
    remembered = None if file is None else Remembered(file)
    ids = {} if remembered is None else remembered.cluster_ids()
    found: Mapping[str, ClusterSurvey | ClusterError] = {}
    if ask:
        configuration, found = asyncio.run(_survey_all(configuration))
        answers = {_address(configuration.cluster(alias)): each for alias, each in found.items()}
        ids |= {at: each.cluster_id for at, each in answers.items() if isinstance(each, ClusterSurvey)}
        if remembered is not None:
            remembered.keep_cluster_ids(ids)
    rows = [_row(each, configuration, ids, found.get(each.alias)) for each in configuration.clusters]
    if output.is_table:
        shown = [
            {**row, **{key: ", ".join(row[key]) for key in ("bootstrap_servers", "links", "trees")}} for row in rows
        ]
        columns = [column for column in _COLUMNS if ask or column.name != "brokers"]
        render([applicable({**row, "problem": None}) for row in shown], output, columns=columns)
    else:
        render(rows, output, names=[row["cluster"] for row in rows])
    failures = {alias: each for alias, each in found.items() if isinstance(each, ClusterError)}
    for alias, failed in () if output.has_problems else failures.items():
        tell_failure(alias, failed)
    if failures:
        raise typer.Exit(1)


async def _survey_all(configuration: Configuration) -> tuple[Configuration, dict[str, ClusterSurvey | ClusterError]]:
    """Return the configuration with declarations, and the survey of each cluster, or its error."""
    async with await AsyncFabric.open(configuration, declared=True) as fabric:
        aliases = [each.alias for each in configuration.clusters]
        found = await asyncio.gather(*(_survey(fabric, alias) for alias in aliases))
        return fabric.configuration, dict(zip(aliases, found, strict=True))


async def _survey(fabric: AsyncFabric, alias: str) -> ClusterSurvey | ClusterError:
    try:
        return await fabric.cluster(alias).survey()
    except ClusterError as error:
        return error


def _row(
    cluster: Cluster, configuration: Configuration, ids: Mapping[str, str], found: ClusterSurvey | ClusterError | None
) -> dict[str, Any]:
    links = configuration.links
    return {
        "cluster": cluster.alias,
        "bootstrap_servers": list(cluster.bootstrap_servers),
        "cluster_id": ids.get(_address(cluster)),
        "brokers": found.brokers if isinstance(found, ClusterSurvey) else None,
        "links": [
            each.name for each in links if not each.tree and cluster.alias in (each.source.alias, each.target.alias)
        ],
        "trees": [each.tree.name for each in configuration.trees if cluster.alias in each.tree.clusters],
        "problem": plain(problem_of(found)) if isinstance(found, ClusterError) else None,
    }


def _address(cluster: Cluster) -> str:
    # By its address: some day another cluster may have the same alias.
    return ",".join(cluster.bootstrap_servers)
