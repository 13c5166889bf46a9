"""`isthmus token`: the callers of the REST API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.noun import Noun
from isthmus.cli.options import OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, print_line, printable, render
from isthmus.cli.servers.serve import TokensOption
from isthmus.model.text.plain import plain
from isthmus.web.access.tokens import Role, TokenFile, default_tokens_file

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)


@app.callback()
def group() -> None:
    """Create, list and revoke tokens for the REST API. A server follows at once."""


@app.command()
def create(
    name: Annotated[str, typer.Option("--name", help="Whose it is: it is in the log with every change.")],
    role: Annotated[Role, typer.Option("--role", help="Its role; each role includes those before it.")],
    tokens: TokensOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report whether it would be created.")] = False,
    _verbose: VerboseOption = 0,
) -> None:
    """Print a new token, once: only its hash is kept."""
    file = _file(tokens)
    sent = file.create(name, role, dry_run=dry_run)
    if dry_run:
        console.print(Text(printable(f"{name} would be created with the role {role}, its hash in {file.path}")))
        return
    print_line(sent)
    console.print(Text(printable(f"its hash is in {file.path}; send it as Authorization: Bearer TOKEN")))


@app.command("list")
def list_tokens(
    tokens: TokensOption = None, output: OutputOption = OutputFormat.TABLE, _verbose: VerboseOption = 0
) -> None:
    """Show which tokens there are."""
    render([plain(each) for each in _file(tokens).all()], output)


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token.")],
    tokens: TokensOption = None,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report whether it would be revoked.")] = False,
    _verbose: VerboseOption = 0,
) -> None:
    """Revoke a token: it is refused from now on."""
    file = _file(tokens)
    file.revoke(name, dry_run=True)
    if not dry_run:
        if not yes:
            confirm(name, "have its token refused from now on")
        file.revoke(name)
    console.print(Text(printable(f"{name} {'would be' if dry_run else 'is'} revoked")))


def _file(path: Path | None) -> TokenFile:
    return TokenFile(path or default_tokens_file())
