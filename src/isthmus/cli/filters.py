"""`isthmus filters`: what a link selects, changed while it runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from isthmus.cli.config import linked
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.several import each_shown
from isthmus.control.answers import FILTERS, Filters, patterns
from isthmus.control.fabric import Fabric
from isthmus.errors import ConfigError

app = typer.Typer(add_completion=False)

_Patterns = list[str] | None


@app.command()
def filters(
    link: Annotated[list[str], typer.Argument(metavar="LINK", help="The link, or several.")],
    include: Annotated[_Patterns, typer.Option("--include", help="A topic, prefix* or /regex/ to mirror.")] = None,
    exclude: Annotated[_Patterns, typer.Option("--exclude", help="What to leave out of it.")] = None,
    groups_include: Annotated[_Patterns, typer.Option("--groups-include", help="Consumer groups to carry.")] = None,
    groups_exclude: Annotated[_Patterns, typer.Option("--groups-exclude", help="Groups to leave out.")] = None,
    configs_exclude: Annotated[
        _Patterns, typer.Option("--configs-exclude", help="Topic configurations not to sync.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Select again what the file says.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be selected.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show what a link selects and syncs, or change it: running lanes go on, others come and go within seconds.

    Each option may be given several times and replaces the whole list; "" empties it. What is given here is kept in
    the ledger and holds in place of the file, for runs and for all commands, until --reset.
    """
    given = Filters(
        topics_include=patterns(include),
        topics_exclude=patterns(exclude),
        groups_include=patterns(groups_include),
        groups_exclude=patterns(groups_exclude),
        configs_exclude=patterns(configs_exclude),
    )
    if reset and not given.is_as_written:
        raise ConfigError("--reset takes back all that was given before", hint="Give new patterns in a second call.")

    def work(name: str) -> dict[str, Any]:
        fabric = Fabric(linked(path, name))
        found = fabric.filters(name)
        if reset or not given.is_as_written:
            found = fabric.filter(name, Filters() if reset else given, known=found, dry_run=dry_run)
        return dict(found.as_dict(fabric.configuration.link(name)))

    def show(fields: dict[str, Any]) -> None:
        if not output.is_table:
            render(fields, output, names=link)
            return
        rows = [
            {
                "filter": name.replace("_", " "),
                "patterns": ", ".join(fields[name]),
                "from": _origin(name, fields["changed"]),
            }
            for name in FILTERS
        ]
        render(rows, output, title=str(fields["link"]) if len(link) > 1 else None)
        if fields["changed"]:
            by = f" by {fields['by']}" if fields["by"] else ""
            console.print(Text(printable(f"{fields['link']}: set{by} at {fields['since']}")))
        for name, texts in fields["dropped"].items():
            told = f"{fields['link']}: the file's {name.replace('_', ' ')} no longer counts: {', '.join(texts)}"
            console.print(Text(printable(f"{told}. Give it again with the rest to keep it"), style="yellow"))
        if dry_run:
            console.print(Text(printable(f"{fields['link']}: nothing was changed")))

    each_shown(link, output, work, show, lambda fields: fields)


def _origin(name: str, changed: list[str]) -> str:
    return "isthmus filters" if name in changed else "the file"
