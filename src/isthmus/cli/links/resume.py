"""`isthmus resume`: resume what was paused."""

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
from isthmus.fabric.answers import Resumed
from isthmus.fabric.fabric import Fabric
from isthmus.model.configuration import Configuration

app = typer.Typer(add_completion=False)


@app.command()
def resume(
    link: Annotated[list[str], typer.Argument(help="The link, or several.")],
    topic: PauseTopicOption = None,
    namespace: PauseNamespaceOption = None,
    task: PauseTaskOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be resumed.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Go on copying where it was paused. Pauses of a topic, of a namespace and of the link are taken back apart."""

    def work(name: str, one: str | None, configuration: Configuration) -> Row:
        resumed = Fabric(configuration).link(name).resume(one, namespace=namespace, task=task, dry_run=dry_run)
        done = "to be resumed" if dry_run else "resumed"
        return {
            "outcome": done if resumed.was_paused else "was not paused",
            "note": "; ".join(_still_paused(name, resumed)),
        }

    each_link(link, topic or (), {"namespace": namespace, "task": task}, path, output, work)


def _still_paused(link: str, resumed: Resumed) -> list[str]:
    left = resumed.still_paused
    whole = [f"the link as a whole is still paused: isthmus resume {link}"] if left.is_whole else []
    parts = [f"{one} is still paused: isthmus resume {link} --namespace {one.prefix!r}" for one in left.namespaces]
    parts += [f"task {one} is still paused: isthmus resume {link} --task {one}" for one in left.tasks]
    return whole + parts + [f"{one} is still paused: isthmus resume {link} --topic {one}" for one in left.topics]
