"""`isthmus filters`: the selection of a link, changed while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.options import ConfigOption, LinksArgument, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.cli.several import each_shown
from isthmus.errors import ConfigError
from isthmus.fabric.answers import FILTERS, Filters, patterns
from isthmus.fabric.fabric import Fabric
from isthmus.model.link import Link
from isthmus.model.text.plain import plain

app = typer.Typer(add_completion=False)

_Patterns = list[str] | None


@app.command()
def filters(
    link: LinksArgument,
    include: Annotated[_Patterns, typer.Option("--include", help="A topic, prefix* or /regex/ to mirror.")] = None,
    exclude: Annotated[_Patterns, typer.Option("--exclude", help="Names to leave out of it.")] = None,
    groups_include: Annotated[_Patterns, typer.Option("--groups-include", help="Consumer groups to carry.")] = None,
    groups_exclude: Annotated[_Patterns, typer.Option("--groups-exclude", help="Groups to leave out.")] = None,
    configs_exclude: Annotated[
        _Patterns, typer.Option("--configs-exclude", help="Topic configurations not to sync.")
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add the given patterns to those in force.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the given patterns from those in force.")] = False,
    yes: YesOption = False,
    reset: Annotated[bool, typer.Option("--reset", help="Return to the selection of the file.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be selected.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show or change the topics, groups and configurations that a link selects: running lanes go on, others start and
    end within seconds.

    Each option may be given several times. With --add it adds to its list, with --remove it takes away; else it
    replaces the whole list, and "" empties it (--include "" has the link mirror no topic): what of it would count no
    longer is asked about first. These patterns are kept in the ledger and replace those of the file, for runs and
    for all commands, until --reset.
    """
    given = Filters(
        topics_include=patterns(include),
        topics_exclude=patterns(exclude),
        groups_include=patterns(groups_include),
        groups_exclude=patterns(groups_exclude),
        configs_exclude=patterns(configs_exclude),
    )
    _check(given, add=add, remove=remove, reset=reset)

    def work(name: str) -> dict[str, Any]:
        fabric = Fabric(load_with_declared(path, name))
        found = fabric.filters(name)
        if reset or not given.is_as_written:
            written = fabric.configuration.link(name)
            wanted = _apply(given, found, written, add=add, remove=remove)
            lost = [] if add or remove or reset or yes or dry_run else given.lost_of(found, written)
            if lost:
                confirm(name, consequence(given, lost))
            found = fabric.filter(name, Filters() if reset else wanted, known=found, dry_run=dry_run)
        return dict(plain(found.in_force(fabric.configuration.link(name))))

    def show(fields: dict[str, Any]) -> None:
        if not output.is_table:
            render(fields, output, names=link)
        else:
            _show(fields, output, is_named=len(link) > 1, dry_run=dry_run)

    each_shown(link, output, work, show, lambda fields: fields)


def consequence(given: Filters, lost: Sequence[str]) -> str:
    """Describe a change that removes patterns, for the operator who is to confirm it."""
    found = f"have {', '.join(lost)} count no longer"
    if given.topics_include == ():
        return f"{found}, and have it mirror no topic at all"
    # An operator who empties lists adds no pattern to those in force.
    return f"{found} (--add keeps that)" if any(given.changed.values()) else found


def _check(given: Filters, *, add: bool, remove: bool, reset: bool) -> None:
    """Check that the options do not contradict each other.

    :raises ConfigError: It contradicts itself.
    """
    if reset and not given.is_as_written:
        raise ConfigError("--reset takes back all that was given before", hint="Give new patterns in a second call.")
    if add + remove + reset > 1 or ((add or remove) and given.is_as_written):
        raise ConfigError("--add and --remove need patterns", hint="Give one of them, and the patterns.")


def _apply(given: Filters, now: Filters, written: Link, *, add: bool, remove: bool) -> Filters:
    if add:
        return given.added_to(now, written)
    return given.taken_from(now, written) if remove else given


def _show(fields: dict[str, Any], output: OutputFormat, *, is_named: bool, dry_run: bool) -> None:
    rows = [
        {
            "filter": name.replace("_", " "),
            "patterns": ", ".join(fields[name]),
            "from": _origin(name, fields["changed"]),
        }
        for name in FILTERS
    ]
    render(rows, output, title=str(fields["link"]) if is_named else None)
    if fields["changed"]:
        by = f" by {fields['by']}" if fields["by"] else ""
        console.print(Text(printable(f"{fields['link']}: set{by} at {fields['since']}")))
    for name, texts in fields["dropped"].items():
        message = f"{fields['link']}: the file's {name.replace('_', ' ')} no longer counts: {', '.join(texts)}"
        console.print(Text(printable(f"{message}. Give it again with the rest to keep it"), style="yellow"))
    if dry_run:
        console.print(Text(printable(f"{fields['link']}: nothing was changed")))


def _origin(name: str, changed: list[str]) -> str:
    return "isthmus filters" if name in changed else "the file"
