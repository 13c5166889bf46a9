"""`isthmus resume`: go on copying what was paused."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row
from isthmus.cli.several import each_link
from isthmus.control.links import pausing
from isthmus.model.configuration import Configuration

app = typer.Typer(add_completion=False)


@app.command()
def resume(
    link: Annotated[list[str], typer.Argument(help="The link, or several.")],
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic of it.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be resumed.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Go on copying where it was paused. The pause of a topic and that of its link are taken back apart."""

    def work(name: str, configuration: Configuration) -> Row:
        found = configuration.link(name)
        resumed = asyncio.run(pausing.resume(found, topic, configuration.ledger, dry_run=dry_run))
        done = "to be resumed" if dry_run else "resumed"
        return {
            "outcome": done if resumed.was_paused else "was not paused",
            "note": "; ".join(_still_paused(name, resumed)),
        }

    each_link(link, topic, path, output, work)


def _still_paused(link: str, resumed: pausing.Resumed) -> list[str]:
    topics = sorted(name for name in resumed.still_paused if name is not None)
    whole = [f"the link as a whole is still paused: isthmus resume {link}"] if None in resumed.still_paused else []
    return whole + [f"{one} is still paused: isthmus resume {link} --topic {one}" for one in topics]
