"""`isthmus settings`: limits and `mm2` of a link of the file, changed while it runs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from isthmus.cli.options import ConfigOption, LinksArgument, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_with_declared
from isthmus.cli.several import each_shown
from isthmus.config.declared import parse_assignment
from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric
from isthmus.model.text.plain import plain

app = typer.Typer(add_completion=False)


@app.command()
def settings(
    link: LinksArgument,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of links[] in the file: limits.bytes_per_s=50MiB."),
    ] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Go by the file again.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Go by the file again in everything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be in force.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show limits and mm2 of a link of the file, or change them: running lanes go on.

    These settings are kept in the ledger and replace those of the file, for runs and for all commands, until --unset
    or --reset. Limits take effect at once. isthmus link update changes links that are declared.
    """
    values = dict(parse_assignment(text, "limits.bytes_per_s='50 MiB'") for text in given or ())
    if reset and (values or unset):
        raise ConfigError("--reset takes back all that was set before", hint="Set others in a second call.")

    def work(name: str) -> dict[str, Any]:
        fabric = Fabric(load_with_declared(path, name))
        one = fabric.link(name)
        found = one.settings()
        if values or unset or reset:
            found = one.change_settings(values, unset=unset or (), reset=reset, known=found, dry_run=dry_run)
        return dict(plain(found.in_force(fabric.configuration.link(name))))

    def show(fields: dict[str, Any]) -> None:
        if not output.is_table:
            render(fields, output, names=link)
            return
        rows = [
            {
                "setting": key,
                "value": json.dumps(value),
                "from": "isthmus settings" if key in fields["changed"] else "the file",
                "in the file": json.dumps(fields["written"].get(key, value)),
            }
            for key, value in fields["settings"].items()
        ]
        render(rows, output, title=str(fields["link"]) if len(link) > 1 else None)
        if fields["changed"]:
            by = f" by {fields['by']}" if fields["by"] else ""
            console.print(Text(printable(f"{fields['link']}: set{by} at {fields['since']}")))
        if dry_run:
            console.print(Text(printable(f"{fields['link']}: nothing was changed")))

    each_shown(link, output, work, show, lambda fields: fields)
