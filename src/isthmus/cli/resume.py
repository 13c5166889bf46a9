"""`isthmus resume`: go on copying what was paused."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.text import Text

from isthmus.cli.config import configured
from isthmus.cli.options import ConfigOption, VerboseOption
from isthmus.cli.output import console
from isthmus.control import pausing

app = typer.Typer(add_completion=False)


@app.command()
def resume(
    link: Annotated[str, typer.Argument(help="The link.")],
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic of it.")] = None,
    path: ConfigOption = None,
    _verbose: VerboseOption = False,
) -> None:
    """Go on copying where it was paused."""
    configuration = configured(path)
    asyncio.run(pausing.resume(configuration.link(link), topic, configuration.ledger))
    console.print(Text(f"{link if topic is None else f'{link}/{topic}'} is resumed"))
