"""`isthmus run`: create what is missing and copy."""

from __future__ import annotations

import enum
from typing import Annotated

import typer
from rich.text import Text

from isthmus.cli.config import configured
from isthmus.cli.live import LiveProgress
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.plan import show_plan
from isthmus.cli.status import tell_problems
from isthmus.control.fabric import Fabric
from isthmus.control.outcome import RunOutcome

app = typer.Typer(add_completion=False)


class Until(enum.StrEnum):
    """When a run ends by itself."""

    CAUGHT_UP = "caught-up"


@app.command()
def run(
    path: ConfigOption = None,
    link: Annotated[str | None, typer.Option("--link", help="Only this link.")] = None,
    until: Annotated[
        Until | None,
        typer.Option("--until", help="End when everything the sources have is copied."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done, as isthmus plan does.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Mirror the topics of all links, or of one, until Ctrl-C or until they are caught up.

    Ctrl-C ends in good order, within a second or two; once more ends at once.

    Exits with 0 when all is copied, with 1 when some topics or partitions cannot be.
    """
    fabric = Fabric(configured(path))
    if dry_run:
        show_plan(fabric.plan(link=link), output)
        return
    with fabric, LiveProgress() as live:
        outcome = fabric.run(
            until="caught-up" if until is Until.CAUGHT_UP else None,
            link=link,
            on_progress=live.show,
        )
    show_outcome(outcome, output)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def show_outcome(outcome: RunOutcome, output: OutputFormat) -> None:
    """How the run ended, on stdout; as a table with what went wrong on stderr."""
    if not output.is_table:
        render(outcome.as_dict(), output)
        return
    render(_rows(outcome), output)
    tell_problems(outcome.links)
    seconds = max(outcome.duration_s, 0.001)
    console.print(
        Text(
            f"{outcome.records:,} records ({outcome.size_bytes:,} bytes) in {seconds:.1f} s"
            f"{', caught up' if outcome.is_caught_up else ''}"
        )
    )


def _rows(outcome: RunOutcome) -> list[Row]:
    return [
        {
            "link": link.link,
            "topic": topic.topic,
            "partitions": len(topic.partitions),
            "state": str(topic.state),
            "records": topic.records,
            "lag_records": topic.lag_records if topic.lag_records >= 0 else None,
            "problem": printable(topic.problem.message) if topic.problem else None,
        }
        for link in outcome.links
        for topic in link.topics
    ]
