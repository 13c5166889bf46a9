"""`isthmus cluster`: the parts of one Kafka cluster, and their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.clusters import clusters, reassigning
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, print_line, print_tree, printable, render
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.setup.doctor import FINDING_COLUMNS
from isthmus.cli.tables.columns import Cells, Column, with_names
from isthmus.errors import ConfigError, Unreachable
from isthmus.fabric.fabric import Administration, Fabric
from isthmus.model.kafka.brokersettings import BrokerSetting
from isthmus.model.kafka.consumption import GroupReport
from isthmus.model.kafka.description import ClusterReport
from isthmus.model.kafka.elections import ElectionOutcome
from isthmus.model.kafka.findings import Finding
from isthmus.model.kafka.partitions import PartitionState
from isthmus.model.kafka.registry import Registry, RegistryNode, changes
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.lastknown import KnownNames, LastKnown
from isthmus.model.text.elapsed import ago
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

_BROKER_COLUMNS: Final = (
    Column("node_id"),
    Column("endpoint"),
    Column("rack", gives_way=3),
    Column("version", gives_way=1),
    Column("leaders", Cells.NUMBER),
    Column("replicas", Cells.NUMBER, gives_way=2),
    Column("preferred_leaders", Cells.NUMBER, is_wide=True),
)
_QUORUM_COLUMNS: Final = (
    Column("node_id"),
    Column("role"),
    Column("log_end", Cells.NUMBER, is_wide=True),
    Column("lag_records", Cells.NUMBER),
    Column("lag_ms", Cells.NUMBER),
    Column("endpoints", Cells.PROSE, gives_way=1),
)
_PARTITION_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("name", Cells.NAME, gives_way=8),
    Column("partition"),
    Column("leader"),
    Column("replicas", Cells.PROSE, gives_way=1),
    Column("isr", Cells.PROSE, gives_way=2),
    Column("log_start", Cells.NUMBER, gives_way=4),
    Column("stable_end", Cells.NUMBER, is_wide=True),
    Column("high_watermark", Cells.NUMBER, gives_way=3),
    Column("behind", is_wide=True),
    Column("moves", is_wide=True),
    Column("unclean_leader_election", is_wide=True),
    Column("conditions", Cells.PROSE),
)
_SETTING_COLUMNS: Final = (Column("name", Cells.NAME), Column("value"), Column("brokers", Cells.PROSE))
_TRANSACTION_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("state"),
    Column("producer_id", gives_way=2),
    Column("transactional_id", Cells.NAME, gives_way=3),
    Column("first_offset", Cells.NUMBER),
    Column("held_records", Cells.NUMBER, gives_way=1),
)
_GROUP_COLUMNS: Final = (
    Column("group", Cells.NAME),
    Column("name", Cells.NAME, gives_way=8),
    Column("type", gives_way=4),
    Column("state"),
    Column("protocol", gives_way=7),
    Column("members", Cells.NUMBER, gives_way=2),
    Column("coordinator", gives_way=5),
    Column("offsets_partition", gives_way=6),
    Column("lag_records", Cells.NUMBER),
    Column("lag_seconds", Cells.NUMBER, gives_way=1),
    Column("problem", Cells.PROSE, gives_way=3),
)
_MEMBER_COLUMNS: Final = (
    Column("client_id", Cells.NAME),
    Column("client_host", gives_way=1),
    Column("instance_id", Cells.NAME, gives_way=2),
    Column("assignment", Cells.PROSE),
)
_POSITION_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("committed", Cells.NUMBER),
    Column("log_start", Cells.NUMBER, is_wide=True),
    Column("high_watermark", Cells.NUMBER, gives_way=2),
    Column("lag_records", Cells.NUMBER),
    Column("lag_seconds", Cells.NUMBER, gives_way=1),
    Column("problem", Cells.PROSE, gives_way=3),
)
_ELECTION_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("leader"),
    Column("preferred"),
    Column("outcome"),
    Column("detail", Cells.PROSE, gives_way=1),
)

_REPLICA_LAG: Final = "replica.lag.time.max.ms"

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)
app.command("list")(clusters.list_clusters)
app.command()(reassigning.reassign)

AliasArgument = Annotated[str, typer.Argument(metavar="ALIAS", help="The cluster's alias in the configuration.")]
TopicOption = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")]


@app.callback()
def group() -> None:
    """List the clusters of the configuration, and describe one: brokers, topics, quorum, findings."""


@app.command()
def describe(
    alias: AliasArgument,
    remembered: Annotated[
        bool, typer.Option("--last-known", help="As other clusters remember it. It is not asked itself.")
    ] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show brokers, controller and quorum, feature levels, open transactions, and findings."""
    cluster = Fabric(load_configuration(path)).cluster(alias)
    if remembered:
        show_last_known(cluster.last_known(), output)
        return
    try:
        report = cluster.describe()
    except Unreachable as error:
        error.hint += f" For the last report that other clusters keep: isthmus cluster describe {alias} --last-known"
        raise
    if not output.is_table:
        render(plain(report), output, names=[alias])
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
    _verbose: VerboseOption = 0,
) -> None:
    """Show leaders, replicas and offsets of every partition, and its faults."""
    configuration = load_configuration(path)
    names = configuration.cluster(alias).names
    report = Fabric(configuration).cluster(alias).topics(topic or ())
    if not output.is_table:
        partitions = [{**plain(each), "name": names.topic(each.topic)} for each in report.partitions]
        technical = [partition.topic for partition in report.partitions]
        render({**plain(report), "partitions": partitions}, output, names=technical)
        return
    rows = [{**_partition_row(each), "name": names.topic(each.topic)} for each in report.partitions]
    render(rows, output, columns=with_names(_PARTITION_COLUMNS, rows, "topic"))
    _show_settings([setting for setting in report.settings if setting.name == _REPLICA_LAG], output)
    _show_transactions(report.transactions, output)
    _show_findings(report.findings, report.not_told, output)


@app.command()
def groups(
    alias: AliasArgument,
    group: Annotated[list[str] | None, typer.Option("--group", help="Only this group; may be repeated.")] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show groups of all types with state, coordinator and lag; those named with members and positions.

    Exits with 1 if a group that was named is not there.
    """
    configuration = load_configuration(path)
    names = configuration.cluster(alias).names
    report = Fabric(configuration).cluster(alias).groups(group or ())
    if output.is_table:
        rows = [{**_with_age(each.summary()), "name": names.group(each.group)} for each in report.groups]
        render(rows, output, columns=with_names(_GROUP_COLUMNS, rows, "group"))
        for each in report.groups if group else ():
            _show_group(each, output)
        _show_findings((), report.not_told, output)
    else:
        groups = [{**plain(each), "name": names.group(each.group)} for each in report.groups]
        render({**plain(report), "groups": groups}, output, names=[each.group for each in report.groups])
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
    _verbose: VerboseOption = 0,
) -> None:
    """Let preferred replicas lead again, where they are in sync. Exits with 1 if one that should does not lead."""
    if not preferred:
        raise ConfigError(
            "which election?", hint="Add --preferred. Unclean elections lose records: use Kafka's own tool for them."
        )
    elections = Fabric(load_configuration(path)).cluster(alias).elect_leaders(topic or (), dry_run=dry_run)
    rows = [plain(election) for election in elections]
    if output is OutputFormat.TABLE:
        rows = [row for row in rows if row["outcome"] != ElectionOutcome.NOT_NEEDED]
        all_of_them = format_count(len(elections), "partition is", "partitions are")
        console.print(f"{len(elections) - len(rows):,} of {all_of_them} led by their preferred replica")
    render(rows, output, columns=_ELECTION_COLUMNS, names=[f"{row['topic']}-{row['partition']}" for row in rows])
    if not dry_run and any(election.is_refused for election in elections):
        raise typer.Exit(1)


@app.command()
def registry(
    alias: AliasArgument,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Print what changes, until Ctrl-C.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the registry of brokers and partitions: ZooKeeper's nodes, or the same as KRaft brokers report it."""
    cluster = Fabric(load_configuration(path)).cluster(alias)
    if watch:
        if not output.is_table:
            raise ConfigError(f"--watch prints changes as lines, not as {output}", hint="Leave out --watch or -o.")
        _watch(cluster)
        return
    report = cluster.registry()
    if not output.is_table:
        render(plain(report), output, names=[node.path for node in report.registry.nodes])
        return
    console.print(Text(printable(report.statement)))
    print_tree(alias, [(node.path, _node_label(node)) for node in report.registry.nodes])
    _show_findings(report.findings, {}, output)


def _watch(cluster: Administration) -> None:
    """Show the tree once, and then its changes, a line each."""
    before: Registry | None = None
    for registry in cluster.watch_registry():
        if before is None:
            print_tree(cluster.cluster.alias, [(node.path, _node_label(node)) for node in registry.nodes])
        else:
            for change in changes(before, registry):
                print_line(f"{datetime.now().astimezone():%H:%M:%S.%f} {change}")
        before = registry


def _with_age(row: Row) -> Row:
    """Remove the age if there is nothing left to read: not applicable is not the same as unknown."""
    return {key: value for key, value in row.items() if key != "lag_seconds" or row["lag_records"] != 0}


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
        render(rows, output, title=f"members of {report.group}", columns=_MEMBER_COLUMNS)
    if report.positions:
        positions = [_with_age(plain(position)) for position in report.positions]
        render(positions, output, title=f"positions of {report.group}", columns=_POSITION_COLUMNS)


def show_last_known(known: LastKnown, output: OutputFormat) -> None:
    fields: Row = plain(known)
    if not output.is_table:
        render(fields, output, names=[known.cluster.alias])
        return
    shown = ("cluster", "cluster_id", "versions", "brokers", "topics", "seen_by", "seen_at", "kept_by")
    render({name: fields[name] for name in shown}, output)
    if output is OutputFormat.WIDE:
        render([node._asdict() for node in known.cluster.nodes], output, title="brokers")
        render([feature._asdict() for feature in known.cluster.features], output, title="features")
    for names in known.names:
        _show_known_names(names, output)
    console.print(Text(printable(f"{known.cluster.alias} was not asked: it stood so {ago(known.age_s)}")))
    if known.away:
        console.print(Text(printable(f"{', '.join(known.away)} did not answer and may know better"), style="yellow"))


def _show_known_names(names: KnownNames, output: OutputFormat) -> None:
    """Show the names of a cluster within the namespaces of a link: counts, and all names if there is room."""
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.logs),
            "replicas": topic.replicas,
            "offsets": sum(max(log.end - log.start, 0) for log in topic.logs),
            "configs": ", ".join(f"{setting.name}={setting.value}" for setting in topic.settings),
        }
        for topic in names.topics
    ]
    counts = (Column("partitions", Cells.NUMBER), Column("replicas", Cells.NUMBER), Column("offsets", Cells.NUMBER))
    title = f"namespaces of link {names.link}"
    render(rows, output, title=title, columns=(Column("topic", Cells.NAME), *counts, Column("configs", gives_way=1)))
    if output is OutputFormat.WIDE:
        render([group._asdict() for group in names.groups], output, title=f"groups of link {names.link}")
        render([rule._asdict() for rule in names.rules], output, title=f"access rules of link {names.link}")
    else:
        message = (
            f"{format_count(len(names.groups), 'group')} and {format_count(len(names.rules), 'access rule')} (-o wide)"
        )
        console.print(Text(printable(f"link {names.link}: {message}")))
    for untold in names.untold:
        console.print(Text(printable(f"link {names.link}: no {untold.what}: {untold.why}"), style="yellow"))
    if names.left_out:
        left_out = f"{names.left_out:,} more topics, groups or access rules were there"
        console.print(Text(printable(f"link {names.link}: {left_out}"), style="yellow"))


def _show_cluster(report: ClusterReport, output: OutputFormat) -> None:
    whole: Row = plain(report)
    general = ("cluster", "cluster_id", "mode", "controller", "topics", "partitions")
    counts = (Column("topics", Cells.NUMBER), Column("partitions", Cells.NUMBER))
    render({key: whole[key] for key in general}, output, columns=counts)
    render(plain(report.broker_rows), output, title="brokers", columns=_BROKER_COLUMNS)
    if report.quorum is not None:
        voters = [{"role": "voter", **plain(replica)} for replica in report.quorum.voters]
        observers = [{"role": "observer", **plain(replica)} for replica in report.quorum.observers]
        epoch = f"leader {report.quorum.leader_id}, epoch {report.quorum.leader_epoch}"
        render([*voters, *observers], output, title=f"quorum ({epoch})", columns=_QUORUM_COLUMNS)
    if report.features and output is OutputFormat.WIDE:
        render([feature._asdict() for feature in report.features], output, title="features")
    _show_settings(report.settings, output)


def _partition_row(partition: PartitionState) -> Row:
    row: dict[str, object] = plain(partition)
    return row | {
        "behind": ", ".join(f"{replica}: {records:,}" for replica, records in partition.behind),
        "moves": ", ".join(
            [*(f"+{broker}" for broker in partition.adding), *(f"-{broker}" for broker in partition.removing)]
        ),
    }


def _show_settings(settings: Sequence[BrokerSetting], output: OutputFormat) -> None:
    if settings and output is OutputFormat.WIDE:
        rows = [plain(setting) for setting in settings]
        render(rows, output, title="settings of brokers", columns=_SETTING_COLUMNS)


def _show_transactions(transactions: Sequence[OpenTransaction], output: OutputFormat) -> None:
    if transactions:
        rows = [plain(transaction) for transaction in transactions]
        render(rows, output, title="open transactions", columns=_TRANSACTION_COLUMNS)


def _show_findings(findings: Sequence[Finding], not_told: Mapping[str, str], output: OutputFormat) -> None:
    if findings:
        render([plain(finding) for finding in findings], output, title="findings", columns=FINDING_COLUMNS)
    for part, reason in not_told.items():
        console.print(Text(printable(f"{part}: {reason}"), style="yellow"))
