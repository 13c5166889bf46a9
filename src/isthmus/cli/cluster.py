"""`isthmus cluster`: what one Kafka cluster is made of and how it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from isthmus.cli.config import configured
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, print_line, print_tree, printable, render
from isthmus.control.fabric import Fabric
from isthmus.control.known import KnownCluster
from isthmus.errors import ConfigError
from isthmus.model.consumption import GroupReport
from isthmus.model.description import ClusterReport
from isthmus.model.elections import ElectionOutcome
from isthmus.model.findings import Finding
from isthmus.model.registry import Registry, RegistryNode, changes
from isthmus.model.transactions import OpenTransaction
from isthmus.model.wording import counted

app = typer.Typer(no_args_is_help=True, add_completion=False)

AliasArgument = Annotated[str, typer.Argument(metavar="ALIAS", help="The cluster's alias in the configuration.")]
TopicOption = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")]


@app.callback()
def group() -> None:
    """Describe a cluster: brokers, topics, quorum, findings."""


@app.command()
def describe(
    alias: AliasArgument,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Show brokers, controller and quorum, feature levels, open transactions, and what is wrong."""
    report = Fabric(configured(path)).cluster(alias).describe()
    if not output.is_table:
        render(report.as_dict(), output)
        return
    _show_cluster(report, output)
    _show_transactions(report.transactions, output)
    _show_findings(report.findings, report.not_told, output)


@app.command()
def topics(
    alias: AliasArgument,
    topic: TopicOption = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Show leaders, replicas and offsets of every partition, and what they suffer from."""
    report = Fabric(configured(path)).cluster(alias).topics(topic or ())
    if not output.is_table:
        render(report.as_dict(), output)
        return
    columns = ("topic", "partition", "leader", "replicas", "isr", "log_start", "high_watermark", "conditions")
    render([partition.as_dict() for partition in report.partitions], output, columns=columns)
    _show_transactions(report.transactions, output)
    _show_findings(report.findings, report.not_told, output)


@app.command()
def groups(
    alias: AliasArgument,
    group: Annotated[list[str] | None, typer.Option("--group", help="Only this group; may be repeated.")] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Show groups of all types with state, coordinator and lag; those named with members and positions.

    Exits with 1 if a group that was named is not there.
    """
    report = Fabric(configured(path)).cluster(alias).groups(group or ())
    if output.is_table:
        columns = ("group", "type", "state", "protocol", "members", "coordinator", "offsets_partition")
        lags = ("lag_records", "lag_seconds", "problem")
        render([each.summary() for each in report.groups], output, columns=(*columns, *lags))
        for each in report.groups if group else ():
            _show_group(each, output)
        _show_findings((), report.not_told, output)
    else:
        render(report.as_dict(), output)
    if group and any(each.problem for each in report.groups):
        raise typer.Exit(1)


@app.command(name="elect-leaders")
def elect_leaders(
    alias: AliasArgument,
    preferred: Annotated[
        bool,
        typer.Option("--preferred", help="Elect the first replica of each assignment: the one kind there is."),
    ] = False,
    topic: TopicOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which elections would be held.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Let preferred replicas lead again, where they are in sync. Exits with 1 if one that should does not lead."""
    if not preferred:
        raise ConfigError(
            "which election?", hint="Add --preferred. Unclean elections lose records: use Kafka's own tool for them."
        )
    elections = Fabric(configured(path)).cluster(alias).elect_leaders(topic or (), dry_run=dry_run)
    rows = [election.as_dict() for election in elections]
    if output is OutputFormat.TABLE:
        rows = [row for row in rows if row["outcome"] != ElectionOutcome.NOT_NEEDED]
        all_of_them = counted(len(elections), "partition is", "partitions are")
        console.print(f"{len(elections) - len(rows):,} of {all_of_them} led by their preferred replica")
    render(rows, output)
    if not dry_run and any(election.is_refused for election in elections):
        raise typer.Exit(1)


@app.command()
def registry(
    alias: AliasArgument,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on telling what changes until Ctrl-C.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Show the registry of brokers and partitions: ZooKeeper's nodes, or the same as KRaft brokers tell it."""
    cluster = Fabric(configured(path)).cluster(alias)
    if watch:
        if not output.is_table:
            raise ConfigError(f"--watch tells changes as lines, not as {output}", hint="Leave out --watch or -o.")
        _watch(cluster)
        return
    report = cluster.registry()
    if not output.is_table:
        render(report.as_dict(), output)
        return
    console.print(Text(printable(report.statement)))
    print_tree(alias, [(node.path, _node_label(node)) for node in report.registry.nodes])
    _show_findings(report.findings, {}, output)


def _watch(cluster: KnownCluster) -> None:
    """The tree once, and then what changes, a line each."""
    before: Registry | None = None
    for registry in cluster.watch_registry():
        if before is None:
            print_tree(cluster.cluster.alias, [(node.path, _node_label(node)) for node in registry.nodes])
        else:
            for change in changes(before, registry):
                print_line(f"{datetime.now().astimezone():%H:%M:%S.%f} {change}")
        before = registry


def _node_label(node: RegistryNode) -> str:
    return f"{'(ephemeral) ' if node.is_ephemeral else ''}{node.text}"


def _show_group(report: GroupReport, output: OutputFormat) -> None:
    members = () if report.description is None else report.description.members
    if members:
        rows: list[Row] = [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rack": member.rack,
                "assignment": [f"{topic}-{partition}" for topic, partition in member.assignment],
            }
            for member in members
        ]
        shown = ("client_id", "client_host", "instance_id", "assignment")
        render(rows, output, title=f"members of {report.group}", columns=shown)
    if report.positions:
        positions = [position.as_dict() for position in report.positions]
        columns = ("topic", "partition", "committed", "high_watermark", "lag_records", "lag_seconds", "problem")
        render(positions, output, title=f"positions of {report.group}", columns=columns)


def _show_cluster(report: ClusterReport, output: OutputFormat) -> None:
    whole = report.as_dict()
    general = ("cluster", "cluster_id", "mode", "controller", "topics", "partitions")
    render({key: whole[key] for key in general}, output)
    columns: tuple[str, ...] = ("node_id", "endpoint", "rack", "version", "leaders", "replicas")
    render(report.broker_rows(), output, title="brokers", columns=columns)
    if report.quorum is not None:
        voters = [{"role": "voter", **replica.as_dict()} for replica in report.quorum.voters]
        observers = [{"role": "observer", **replica.as_dict()} for replica in report.quorum.observers]
        columns = ("node_id", "role", "lag_records", "lag_ms", "endpoints")
        epoch = f"leader {report.quorum.leader_id}, epoch {report.quorum.leader_epoch}"
        render([*voters, *observers], output, title=f"quorum ({epoch})", columns=columns)
    if report.features and output is OutputFormat.WIDE:
        render([feature._asdict() for feature in report.features], output, title="features")


def _show_transactions(transactions: Sequence[OpenTransaction], output: OutputFormat) -> None:
    if transactions:
        columns = ("topic", "partition", "state", "producer_id", "transactional_id", "first_offset", "held_records")
        rows = [transaction.as_dict() for transaction in transactions]
        render(rows, output, title="open transactions", columns=columns)


def _show_findings(findings: Sequence[Finding], not_told: Mapping[str, str], output: OutputFormat) -> None:
    if findings:
        render([finding.as_dict() for finding in findings], output, title="findings")
    for part, reason in not_told.items():
        console.print(Text(printable(f"{part}: {reason}"), style="yellow"))
