"""`isthmus resume`: go on copying what was paused."""

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
def resume(
    link: Annotated[str, typer.Argument(help="The link.")],
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic of it.")] = None,
    path: ConfigOption = None,
    _verbose: VerboseOption = 0,
) -> None:
    """Go on copying where it was paused. The pause of a topic and that of its link are taken back apart."""
    configuration = linked(path, link)
    resumed = asyncio.run(pausing.resume(configuration.link(link), topic, configuration.ledger))
    named = link if topic is None else f"{link}/{topic}"
    console.print(Text(f"{named} is resumed" if resumed.was_paused else f"{named} was not paused"))
    if None in resumed.still_paused:
        console.print(Text(f"{link} as a whole is still paused. Go on with it: isthmus resume {link}"))
    for other in sorted(name for name in resumed.still_paused if name is not None):
        console.print(Text(f"{link}/{other} is still paused. Go on with it: isthmus resume {link} --topic {other}"))
