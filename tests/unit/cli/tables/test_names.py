"""Logical names beside the technical ones: in tables only where they differ, in JSON always."""

from __future__ import annotations

import pytest
import yaml

from isthmus import config
from isthmus.cli.links.groups import show_groups
from isthmus.cli.output import OutputFormat
from isthmus.cli.tables.columns import with_names
from isthmus.cli.tables.rows import status_columns, status_rows
from isthmus.errors import ConfigError
from isthmus.groups.plan import GroupPlan, GroupsPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.model.link import Link
from isthmus.model.links.progress import LinkProgress, topic_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState
from isthmus.model.text.plain import plain

FILE = """
clusters:
  east: {bootstrap_servers: "h:1", names: {topics: "{tenant}-{env}-{topic}", groups: "{tenant}-{env}-{group}"}}
  west: {bootstrap_servers: "h:2"}
links:
  - {name: forth, source: east, target: west, topics: {include: ["*"]}}
  - name: back
    source: west
    target: east
    topics: {naming: {template: {source: "{env}.{topic}", target: "acme-{env}-{topic}"}}}
    groups: {include: ["*"], naming: {template: {source: "{env}.{group}", target: "acme-{env}-{group}"}}}
"""


def links() -> dict[str, Link]:
    return {link.name: link for link in config.parse(FILE).links}


def test_lists_show_what_users_call_things() -> None:
    """Of the cluster's templates, or else of those that a link's naming has."""
    forth, back = links()["forth"], links()["back"]
    assert (forth.names.topic("acme-live-orders"), back.names.topic("live.orders")) == ("orders", "orders")
    assert back.groups.naming.to_target("live.billing") == "acme-live-billing"
    assert back.names.group("live.billing") == "billing"
    plan = GroupsPlan(
        link="forth",
        source="east",
        target="west",
        way="identity",
        groups=(GroupPlan(group="acme-live-billing", target_group="acme-live-billing", standing=Standing.IN_STEP),),
        names=forth.names,
    )
    assert plain(plan)["groups"][0]["name"] == "billing"
    topic = topic_of(TargetTopic("acme-live-orders"), SourceTopic("acme-live-orders"), (), forth)
    progress = LinkProgress(link="forth", source="east", target="west", state=LinkState.ACTIVE, topics=(topic,))
    assert plain(progress)["topics"][0]["name"] == "orders"
    rows = status_rows([progress], by_partition=False)
    assert "name" in [column.name for column in status_columns(rows, by_partition=False)]


@pytest.mark.parametrize("output", [OutputFormat.TABLE, OutputFormat.WIDE, OutputFormat.JSON, OutputFormat.YAML])
def test_a_group_may_be_called_anything(capsys: pytest.CaptureFixture[str], output: OutputFormat) -> None:
    """JSON and YAML have its name as it is; a table and what is told on stderr have it on one line, and no markup."""
    name = f"g\nh\x1b[2J[bold]имя[/bold]\u202e\r'\"\\{'x' * 3000}"
    problem = Problem(f"group {name} is away", f"ask for {name}")
    group = GroupPlan(group=name, target_group=name, standing=Standing.UNAVAILABLE, problem=problem)
    show_groups([GroupsPlan(link="l", source="e", target="w", way="identity", groups=(group,))], output)

    out, err = capsys.readouterr()
    assert not {"\x1b", "\r", "\u202e"} & set(out + err)
    if output.is_table:
        shown = f"g h[2J[bold]имя[/bold]'\"\\{'x' * 3000}"
        assert err == f"l/{shown}: group {shown} is away\n  ask for {shown}\n"
        assert len([line for line in out.splitlines() if shown in line]) == 1
    else:
        (plan,) = yaml.safe_load(out)
        assert plan["groups"][0]["group"] == name


def test_a_column_that_says_nothing_is_left_out() -> None:
    """Where all names are their own logical names."""
    topic = topic_of(TargetTopic("orders"), SourceTopic("orders"), ())
    progress = LinkProgress(link="forth", source="east", target="west", state=LinkState.ACTIVE, topics=(topic,))
    rows = status_rows([progress], by_partition=False)
    assert "name" not in [column.name for column in status_columns(rows, by_partition=False)]
    assert with_names((), [{"name": "a", "topic": "b"}], "topic") == []


def test_hops_are_shown_where_names_tell_them() -> None:
    """Under MirrorMaker 2's names: one for the source and one for each cluster of the file a name begins with."""
    east, west = (f'  {alias}: {{bootstrap_servers: "h:1"}}\n' for alias in ("east", "west"))
    north = '  north: {bootstrap_servers: "h:3"}\n'
    forth = '{name: forth, source: east, target: west, topics: {include: ["*"], naming: mm2}}'
    link = config.parse(f"clusters:\n{east}{west}{north}links: [{forth}]").links[0]
    ways = {
        "orders": ("east",),
        "north.orders": ("east", "north"),
        "sales.orders": ("east",),
        "north.sales.north.orders": ("east", "north"),
    }
    topics = tuple(topic_of(TargetTopic(f"east.{name}"), SourceTopic(name), (), link) for name in ways)
    assert [topic.upstream for topic in topics] == list(ways.values())
    shown = [plain(topic) for topic in topics]
    assert [each["hops"] for each in shown] == [1, 2, 1, 2]
    assert shown[1]["upstream_clusters"] == ["east", "north"]
    progress = LinkProgress(link="forth", source="east", target="west", state=LinkState.ACTIVE, topics=topics)
    unnamed = topic_of(TargetTopic("orders"), SourceTopic("orders"), (), links()["forth"])
    other = LinkProgress(link="back", source="west", target="east", state=LinkState.ACTIVE, topics=(unnamed,))
    rows = status_rows([progress, other], by_partition=False)
    assert [row.get("hops", "") for row in rows] == [1, 2, 1, 2, ""]
    assert "hops" in [column.name for column in status_columns(rows, by_partition=False)]
    assert "hops" not in [column.name for column in status_columns(rows[-1:], by_partition=False)]
    assert plain(unnamed)["hops"] is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("{tenant}-{env}-{topic}", "{tenant}-{env}", r"clusters\.east\.names '\{tenant\}-\{env\}' has no \{topic\}"),
        ("{env}.{group}", "{group}", r"links\[1\]\.groups\.naming .*which '\{group\}' has not"),
        (
            'groups: {include: ["*"], naming: {',
            "groups: {naming: {source_prefix: x, ",
            "more than one way to name groups",
        ),
    ],
)
def test_templates_that_cannot_be_used_are_refused(old: str, new: str, told: str) -> None:
    """By their place in the file."""
    with pytest.raises(ConfigError, match=told):
        config.parse(FILE.replace(old, new))
