"""`isthmus pause`: stop copying links, topics, a namespace or a task for a while."""

from __future__ import annotations

from typing import Annotated

import typer

from isthmus.cli.options import (
    ConfigOption,
    OutputOption,
    PauseNamespaceOption,
    PauseTaskOption,
    PauseTopicOption,
    VerboseOption,
)
from isthmus.cli.output import OutputFormat, Row
from isthmus.cli.several import each_link
from isthmus.fabric.fabric import Fabric
from isthmus.model.configuration import Configuration

app = typer.Typer(add_completion=False)


@app.command()
def pause(
    link: Annotated[list[str], typer.Argument(help="The link, or several.")],
    topic: PauseTopicOption = None,
    namespace: PauseNamespaceOption = None,
    task: PauseTaskOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be paused.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Stop copying until `isthmus resume`; nothing is lost, the lag grows. Topics that come into a paused namespace are
    paused as well.
    """

    def work(name: str, one: str | None, configuration: Configuration) -> Row:
        if Fabric(configuration).link(name).pause(one, namespace=namespace, task=task, dry_run=dry_run):
            return {"outcome": "was paused"}
        return {"outcome": "to be paused" if dry_run else "paused"}

    each_link(link, topic or (), {"namespace": namespace, "task": task}, path, output, work)
