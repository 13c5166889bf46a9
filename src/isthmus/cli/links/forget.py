"""`isthmus forget`: remove topics from the ledger that a link mirrors no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.links.promoting import format_aborted
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.errors import ConfigError
from isthmus.fabric.answers import Forgotten
from isthmus.fabric.fabric import Fabric
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

app = typer.Typer(add_completion=False)


@app.command()
def forget(
    link: Annotated[str, typer.Argument(metavar="LINK", help="The link.")],
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Topics it mirrors no more; without any, all of these."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="CLUSTER", help="Forget the link as a whole, in the ledger of this target cluster."
        ),
    ] = None,
    delete_at_target: Annotated[
        bool,
        typer.Option(
            "--delete-at-target",
            help="Delete these topics at the target too, as their source has deleted them.",
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be forgotten.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Forget topics that were mirrored once and that the link selects no more; isthmus plan names them.

    Only the ledger changes: it drops its records of them, including recorded gaps. The topics stay as they are, but for
    transactions that the link has left open in them, which are aborted and named; unless --delete-at-target names those
    whose source has deleted them (docs/recovery.md lists the proofs).

    A link that is in no configuration any more is forgotten with --at: the topics that it wrote with mapped offsets
    count as part of circles until then.
    """
    if at is not None:
        if topics or delete_at_target:
            raise ConfigError("--at forgets a link as a whole", hint="Leave out the topics.")
        if not (yes or dry_run):
            confirm(link, f"have the ledger of {at} forget the link")
        keys = Fabric(load_with_declared(path, link)).forget_link(link, cluster=at, dry_run=dry_run)
        if output.is_table:
            would = "would be forgotten" if dry_run else "is forgotten"
            console.print(
                Text(printable(f"{link} {would}: {format_count(len(keys), 'document')} in the ledger of {at}"))
            )
        else:
            render({"link": link, "cluster": at, "documents": list(keys)}, output)
        return
    fabric, does = Fabric(load_with_declared(path, link)), "deleted and forgotten" if delete_at_target else "forgotten"
    asked = partial(fabric.forget, link, delete_at_target=delete_at_target)
    found = asked(topics or (), dry_run=dry_run or not yes)
    if found and not (yes or dry_run):
        for each in found:
            console.print(Text(printable(f"{each.link}/{each.topic} would be {does}")))
        verb = "delete at the target, and " if delete_at_target else ""
        confirm(link, f"{verb}have the ledger forget {format_count(len(found), 'topic')}")
        found = asked([each.topic for each in found])
    if not output.is_table:
        render([plain(each) for each in found], output, names=[f"{each.link}/{each.topic}" for each in found])
        return
    would = f"would be {does}" if dry_run else f"is {does}"
    for line in _lines(found, would):
        console.print(Text(printable(line)))
    if not found:
        console.print(Text(f"{link}: nothing to forget, it selects every topic that it mirrored"))


def _lines(found: Iterable[Forgotten], would: str) -> Iterator[str]:
    for each in found:
        yield f"{each.link}/{each.topic} {would}"
        yield from map(format_aborted, each.aborted)
