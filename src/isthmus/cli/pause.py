"""`isthmus pause`: stop copying a link or a topic for a while."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.text import Text

from isthmus.cli.config import linked
from isthmus.cli.options import ConfigOption, VerboseOption
from isthmus.cli.output import console
from isthmus.control.links import pausing

app = typer.Typer(add_completion=False)


@app.command()
def pause(
    link: Annotated[str, typer.Argument(help="The link.")],
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic of it.")] = None,
    path: ConfigOption = None,
    _verbose: VerboseOption = 0,
) -> None:
    """Stop copying until `isthmus resume`; nothing is lost, the lag grows."""
    configuration = linked(path, link)
    asyncio.run(pausing.pause(configuration.link(link), topic, configuration.ledger))
    console.print(Text(f"{link if topic is None else f'{link}/{topic}'} is paused"))
