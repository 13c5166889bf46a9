"""`isthmus plan`: what would be created and copied, without doing it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from isthmus.cli.config import configured
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.control.fabric import Fabric
from isthmus.control.plan import LinkPlan, Plan
from isthmus.model.lane import Problem

CHANGES_PENDING = 3

app = typer.Typer(add_completion=False)


@app.command()
def plan(
    path: ConfigOption = None,
    link: Annotated[str | None, typer.Option("--link", help="Only this link.")] = None,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode",
            help="Exit with 3 when something would be created or copied, with 0 when nothing would.",
        ),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Show what would be created and copied, topic by topic with mode and reasons."""
    found = Fabric(configured(path)).plan(link=link)
    show_plan(found, output)
    if any(plan.problem is not None for plan in found.links):
        raise typer.Exit(1)
    if detailed_exitcode and found.has_changes:
        raise typer.Exit(CHANGES_PENDING)


def show_plan(plan: Plan, output: OutputFormat) -> None:
    """The plan on stdout; as a table with what is to be known on stderr."""
    if not output.is_table:
        render(plan.as_dict(), output)
        return
    render([row for link in plan.links for row in _rows(link)], output)
    for link in plan.links:
        _tell(link)


def _rows(link: LinkPlan) -> list[Row]:
    return [
        {
            "link": link.link,
            "topic": topic.topic,
            "action": str(topic.action),
            "mode": str(topic.mode),
            "partitions": topic.partition_count,
            "records_to_copy": topic.lag_records,
            "offsets_to_fill": topic.prefix_offsets,
            "reasons": "; ".join(problem.message for problem in topic.reasons),
        }
        for topic in link.topics
    ]


def _tell(link: LinkPlan) -> None:
    if link.problem is not None:
        _say("Error", link.link, link.problem, "red")
    for topic in link.topics:
        for problem in topic.reasons:
            _say("Refused", f"{link.link}/{topic.topic}", problem, "red")
        for partition in topic.partitions:
            if partition.refusal is not None:
                where = f"{link.link}/{topic.topic}-{partition.partition}"
                _say("Refused", where, partition.refusal, "red")
        for problem in topic.notes:
            _say("Note", f"{link.link}/{topic.topic}", problem, "yellow")
    for problem in link.recommendations:
        _say("Recommended", link.link, problem, "yellow")
    for name in link.no_longer_mirrored:
        known = Problem("no longer mirrored: the link does not select it", f"isthmus forget {link.link} {name}")
        _say("Note", f"{link.link}/{name}", known, "yellow")


def _say(kind: str, where: str, problem: Problem, style: str) -> None:
    console.print(Text(printable(f"{kind}: {where}: {problem.message}"), style=style))
    if problem.hint:
        console.print(Text(f"  {printable(problem.hint)}"))
