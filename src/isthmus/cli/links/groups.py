"""`isthmus groups`: the consumer groups that links carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.links import copies
from isthmus.cli.noun import Noun
from isthmus.cli.options import (
    ConfigOption,
    LinkArgument,
    LinkOption,
    OutputOption,
    VerboseOption,
    chosen_link,
)
from isthmus.cli.output import OutputFormat, Row, applicable, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.cli.several import each_shown
from isthmus.cli.tables.columns import Cells, Column, with_names
from isthmus.fabric.answers import GroupDrill, GroupPlan, GroupsPlan
from isthmus.fabric.fabric import Fabric
from isthmus.groups.positions.carrying import Standing
from isthmus.model.problem import Problem
from isthmus.model.state import AGED_S
from isthmus.model.text.elapsed import ago
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

DIFFERENCE: Final = 4
_NOW: Final = ago(0.0)
_TROUBLE: Final = frozenset(
    {
        Standing.NOT_AUTHORIZED,
        Standing.UNAVAILABLE,
        Standing.UNSUPPORTED,
        Standing.OFFSETS_DIFFER,
        Standing.NAMES_MEET,
    }
)

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("group", Cells.NAME),
    Column("name", Cells.NAME, gives_way=7),
    Column("type", gives_way=4),
    Column("source_state", gives_way=2),
    Column("target_group", Cells.NAME, gives_way=5),
    Column("target_state", gives_way=3),
    Column("partitions", Cells.NUMBER, gives_way=6),
    Column("to_write", Cells.NUMBER, gives_way=1),
    Column("standing"),
)
_POSITION_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("offsets", gives_way=4),
    Column("source_position", Cells.NUMBER),
    Column("source_position_as_of", gives_way=3),
    Column("read_until", gives_way=5),
    Column("translated", Cells.NUMBER, is_wide=True),
    Column("target_position", Cells.NUMBER),
    Column("target_log_start", Cells.NUMBER, gives_way=2),
    Column("target_high_watermark", Cells.NUMBER, gives_way=1),
    Column("standing"),
    Column("commit", Cells.NUMBER, is_wide=True),
)
_TRANSLATION_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("way", gives_way=2),
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("offsets", gives_way=3),
    Column("source_position", Cells.NUMBER),
    Column("target_topic", Cells.NAME, gives_way=1),
    Column("translated", Cells.NUMBER),
)
_DRILL_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("source_position", Cells.NUMBER, gives_way=2),
    Column("target_position", Cells.NUMBER, gives_way=1),
    Column("compared", Cells.NUMBER, gives_way=3),
    Column("skipped", Cells.NUMBER),
    Column("read_again", Cells.NUMBER),
    Column("waiting", Cells.NUMBER, gives_way=4),
)

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name at the source.")]
_OneLinkOption = Annotated[str | None, typer.Option("--link", help="Only this link.")]


@app.callback()
def group() -> None:
    """Show how consumer groups stand on both sides, carry their positions, try a failover, and read copies of them."""


@app.command(name="list")
def list_groups(
    name: LinkArgument = None,
    path: ConfigOption = None,
    link: LinkOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show all groups the links carry and how each stands at its target.

    While a source is away its positions are those last known. Exits with 1 if something could not be looked at.
    """
    link = chosen_link(name, link)
    found = Fabric(load_with_declared(path, link)).groups.plan(link=link)
    show_groups(found, output)
    _end(found)


@app.command()
def describe(
    name: GroupArgument,
    path: ConfigOption = None,
    link: _OneLinkOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show every position of one group, at the source and at the target.

    While a source is away its positions are those last known. Exits with 1 if something could not be looked at.
    """
    found = Fabric(load_with_declared(path, link)).groups.plan(link=link, group=name)
    if output.is_table:
        rows = _position_rows(found)
        silent = set() if any(row["source_position_as_of"] != _NOW for row in rows) else {"source_position_as_of"}
        silent |= set() if any(row["read_until"] for row in rows) else {"read_until"}
        columns = [column for column in _POSITION_COLUMNS if column.name not in silent]
        shown = [{**applicable(row), "source_position": row["source_position"]} for row in rows]
        render(shown, output, columns=columns)
    else:
        render([plain(plan) for plan in found], output, names=_positions(_position_rows(found)))
    if not output.has_problems:
        _tell(found)
    _end(found)


@app.command()
def translate(
    name: GroupArgument,
    path: ConfigOption = None,
    link: _OneLinkOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show what each position of one group is at the target, whether it is written there or not."""
    found = Fabric(load_with_declared(path, link)).groups.plan(link=link, group=name)
    rows = [plain(row) for plan in found for row in plan.translations]
    shown = [applicable(row) for row in rows] if output.is_table else rows
    render(shown, output, columns=_TRANSLATION_COLUMNS, names=_positions(rows))
    _tell(found)
    _end(found)


@app.command()
def sync(
    name: LinkArgument = None,
    path: ConfigOption = None,
    link: LinkOption = None,
    one: Annotated[str | None, typer.Option("--group", help="Only this group.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be written.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Carry the positions of all groups once. isthmus run does so all the time.

    Exits with 1 if a group could not be carried for another reason than its own members or position at the target.
    """
    link = chosen_link(name, link)
    groups = Fabric(load_with_declared(path, link)).groups
    found = groups.plan(link=link, group=one) if dry_run else groups.sync(link=link, group=one)
    show_groups(found, output)
    _end(found)


@app.command()
def drill(
    names: Annotated[
        list[str], typer.Argument(metavar="GROUP", help="The group's name at the source; several for more.")
    ],
    path: ConfigOption = None,
    link: _OneLinkOption = None,
    records: Annotated[int, typer.Option("--records", min=1, help="Records to compare in each partition.")] = 1000,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Prove a failover without one: read at the target from where the group would go on.

    A scratch group gets its positions and is deleted afterwards; the group itself is not touched. Several groups are
    tried one after the other. Exits with 4 if records would be skipped.
    """
    groups = Fabric(load_with_declared(path, link)).groups
    skipping: list[str] = []

    def work(name: str) -> GroupDrill:
        found = groups.drill(name, link=link, records=records)
        if found.skipped:
            skipping.append(name)
        return found

    each_shown(names, output, work, lambda found: _show_drill(found, output), plain, noun="group")
    if skipping:
        raise typer.Exit(DIFFERENCE)


app.command()(copies.copy)
app.command()(copies.key)


def _end(plans: Sequence[GroupsPlan]) -> None:
    """End with 1 if a group could not be examined or carried."""
    if are_troubled(plans):
        raise typer.Exit(1)


def are_troubled(plans: Sequence[GroupsPlan]) -> bool:
    """Return whether a group could not be examined or carried."""
    return any(plan.problem or any(each.standing in _TROUBLE for each in plan.groups) for plan in plans)


def show_groups(plans: Sequence[GroupsPlan], output: OutputFormat) -> None:
    """Show groups on stdout; with a table, print the remedies on stderr."""
    if output.is_table:
        rows = [_row(plan, each) for plan in plans for each in plan.groups]
        render(rows, output, columns=with_names(_COLUMNS, rows, "group"))
    else:
        names = [each.group for plan in plans for each in plan.groups]
        render([plain(plan) for plan in plans], output, names=names)
    if not output.has_problems:
        _tell(plans)


def _row(plan: GroupsPlan, group: GroupPlan) -> Row:
    return {
        "link": plan.link,
        "group": group.group,
        "name": plan.names.group(group.group),
        "type": str(group.source_type),
        "source_state": str(group.source_state),
        "target_group": group.target_group,
        "target_state": str(group.target_state),
        "way": plan.way,
        "partitions": len(group.positions),
        "to_write": sum(position.commit is not None or position.is_news for position in group.positions),
        "delete": group.delete,
        "standing": str(group.standing),
        "problem": group.problem.message if group.problem else None,
    }


def _position_rows(plans: Sequence[GroupsPlan]) -> list[Row]:
    return [
        {
            "link": plan.link,
            "way": plan.way,
            **plain(position),
            "source_position_as_of": _as_of(position.source_age_s),
            "read_until": None if position.sent is None else written_instant(position.sent.timestamp_ms),
        }
        for plan in plans
        for each in plan.groups
        for position in each.positions
    ]


def _positions(rows: Sequence[Row]) -> list[str]:
    return [f"{row['topic']}-{row['partition']}" for row in rows]


def _as_of(age_s: float) -> str:
    return ago(age_s) if age_s > AGED_S else _NOW


def _tell(plans: Sequence[GroupsPlan]) -> None:
    """Print on stderr the obstacles of groups that are not in step, and the remedies."""
    if not any(plan.groups or plan.problem for plan in plans):
        hint = (
            "Name them in the configuration, links[].groups.include; a group without a position has nothing to carry."
        )
        _say("groups", Problem("no group is carried", hint))
    for plan in plans:
        for problem in (plan.problem, *plan.notes):
            _say(plan.link, problem)
        for namespace in plan.closed:
            _say(plan.link, Problem(f"access rules keep consumers of {plan.target} out of {namespace}"))
        for each in plan.groups:
            _say(f"{plan.link}/{each.group}", each.problem)


def _show_drill(found: GroupDrill, output: OutputFormat) -> None:
    rows = [plain(position) for position in found.positions]
    if not output.is_table:
        render(plain(found), output, names=_positions(rows))
        return
    render(rows, output, columns=_DRILL_COLUMNS)
    _tell_drill(found)


def _tell_drill(found: GroupDrill) -> None:
    _say(f"{found.link}/{found.group}", found.problem)
    if found.not_mirrored:
        topics = ", ".join(found.not_mirrored)
        _say(f"{found.link}/{found.group}", Problem(f"not mirrored, and so not tried: {topics}"))
    style = "red" if found.skipped else "green"
    skipped = format_count(found.skipped, "record")
    message = f"a failover of {found.group} would skip {skipped} and read {found.read_again:,} again"
    console.print(Text(printable(message), style=style))


def _say(where: str, problem: Problem | None) -> None:
    if problem is not None:
        console.print(Text(printable(f"{where}: {problem.message}"), style="yellow"))
        if problem.hint:
            console.print(Text(f"  {printable(problem.hint)}"))
