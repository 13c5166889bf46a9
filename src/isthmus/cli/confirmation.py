"""Steps that cannot be undone: done only after their name was typed, or with --yes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from isthmus.errors import ConfigError

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(name: str, consequence: str) -> None:
    """Have a person type the name of the thing that is about to be changed.

    If stdin is no terminal, do not ask: a script must not take its next line of input for an answer.

    :raises ConfigError: Something else was typed, or stdin is no terminal.
    """
    if not sys.stdin.isatty():
        raise ConfigError(
            f"cannot ask whether to {consequence}: stdin is no terminal; nothing was changed",
            hint="Give --yes in scripts, or --dry-run to see the changes.",
        )
    if typer.prompt(f"Type {name} to {consequence}", err=True) != name:
        raise ConfigError("that was not its name, and nothing was changed", hint="Type it in full, or give --yes.")
