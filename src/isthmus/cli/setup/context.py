"""`isthmus context`: names for configuration files, and the current one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from isthmus import config
from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.noun import Noun
from isthmus.cli.options import OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.tables.columns import Cells, Column
from isthmus.config.reading.contexts import Contexts, change_contexts, read_contexts
from isthmus.config.reading.places import user_folder
from isthmus.errors import ConfigError

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)

NameArgument = Annotated[str, typer.Argument(metavar="CONTEXT", help="The name of the configuration file.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be written.")]
_COLUMNS = (Column("name", Cells.NAME), Column("file", Cells.NAME), Column("is_current"), Column("is_there"))


@app.callback()
def group() -> None:
    """Name configuration files, and choose which of them is used."""


@app.command(name="list")
def list_(output: OutputOption = OutputFormat.TABLE, _verbose: VerboseOption = 0) -> None:
    """Show all names."""
    found = read_contexts(user_folder())
    rows = [
        {"name": name, "file": str(path), "is_current": name == found.current, "is_there": path.exists()}
        for name, path in sorted(found.paths.items())
    ]
    render(rows, output, columns=_COLUMNS)


@app.command()
def show(output: OutputOption = OutputFormat.TABLE, _verbose: VerboseOption = 0) -> None:
    """Show which configuration file a command would use here."""
    render({"file": str(config.find().absolute()), "context": read_contexts(user_folder()).current}, output)


@app.command()
def add(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")],
    use: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
    dry_run: DryRunOption = False,
    _verbose: VerboseOption = 0,
) -> None:
    """Give a configuration file a name, or a name another file."""
    config.load(file)

    def add_context(found: Contexts) -> Contexts:
        paths = {**found.paths, name: file.absolute()}
        return replace(found, paths=paths, current=name if use else found.current)

    change_contexts(user_folder(), add_context, dry_run=dry_run)
    _print(f"{name} {'would be' if dry_run else 'is'} {file.absolute()}")


@app.command()
def use(name: NameArgument, dry_run: DryRunOption = False, _verbose: VerboseOption = 0) -> None:
    """Use a configuration file wherever no nearer one is found: see docs/configuration.md."""
    path = read_contexts(user_folder()).path(name)

    def select(found: Contexts) -> Contexts:
        found.path(name)
        return replace(found, current=name)

    change_contexts(user_folder(), select, dry_run=dry_run)
    _print(f"{name} {'would count' if dry_run else 'counts'} from now on")
    nearer = _nearer(path, os.environ)
    if nearer is not None:
        _print(f"Here {nearer} counts before it; isthmus --context {name} takes it all the same.")


@app.command()
def delete(
    name: NameArgument, yes: YesOption = False, dry_run: DryRunOption = False, _verbose: VerboseOption = 0
) -> None:
    """Forget a name. The configuration file stays."""
    read_contexts(user_folder()).path(name)
    if not (yes or dry_run):
        confirm(name, "forget the name")

    def remove(found: Contexts) -> Contexts:
        found.path(name)
        paths = {known: path for known, path in found.paths.items() if known != name}
        return replace(found, paths=paths, current=None if found.current == name else found.current)

    change_contexts(user_folder(), remove, dry_run=dry_run)
    _print(f"{name} {'would be' if dry_run else 'is'} forgotten")


def _nearer(path: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the file that a command would use here in place of the chosen one, if any."""
    try:
        found = config.find(environment=environment)
    except ConfigError:
        return None
    return None if found.absolute() == path else found


def _print(text: str) -> None:
    console.print(Text(printable(text)))
