"""What several commands say: declarations of operators with their authors, and what is not in force."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import typer
from rich.text import Text

from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.fabric.answers import DeclaredLink, DeclaredTree
from isthmus.model.problem import Problem, all_in_full
from isthmus.model.text.plain import plain
from isthmus.model.trees.treedeclaration import TreeDeclaration

AWAITS_RELOAD: Final = (
    "the link's run still has another transform than the file. It takes the file's on SIGHUP, within two seconds with "
    "--follow-config, or when it is started again"
)
_COLUMNS: Final = (
    Column("said", Cells.NAME),
    Column("value", Cells.PROSE),
    Column("by"),
    Column("at"),
    Column("where", gives_way=1),
)


def text_of(file: Path) -> str:
    """Read the text of a declaration from a file, or from stdin.

    :raises ConfigError: It cannot be read.
    """
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{file} cannot be read: {why}", hint="Name a file that describe -o yaml wrote.") from None


def show_said(found: DeclaredLink | DeclaredTree, said_name: Callable[[str], str], *, dry_run: bool) -> None:
    """Show all statements about a declared thing, below its row."""
    aliases = _aliases(found)
    rows = [
        {
            "said": said_name(each["name"]),
            "value": _format_value(each["value"]),
            "by": each["by"],
            "at": each["at"],
            "where": aliases.get(each["where"], each["where"]),
        }
        for each in plain(found)["said"]
    ]
    render(rows, OutputFormat.TABLE, columns=_COLUMNS)
    for alias, pairs in found.overruled.items():
        for own, holding in pairs:
            tell(
                f"{alias}: {said_name(own.name)} = {_format_value(own.decoded)} of {own.by} does not hold: "
                f"{holding.by} stated {_format_value(holding.decoded)}, apart from it"
            )
    if dry_run:
        tell("nothing was changed")


def _aliases(found: DeclaredLink | DeclaredTree) -> dict[str, str]:
    """Return the aliases of a declared thing's clusters, by id."""
    if isinstance(found.declaration, TreeDeclaration):
        return {cluster_id: alias for alias, cluster_id in found.declaration.members.items()}
    return {end.cluster_id: end.alias for end in (found.declaration.source, found.declaration.target)}


def notes_of(found: DeclaredLink | DeclaredTree) -> Iterator[str]:
    """Yield notes on a declared thing, in a few words each."""
    if found.declaration.is_deleted:
        yield "deleted"
    if found.written_by_file:
        yield f"the file has a {found.declaration.KIND} of this name, which is run instead"
    if found.unusable is not None:
        yield found.unusable.message
    if found.overruled:
        yield f"its sides have different statements: isthmus {found.declaration.KIND} describe shows them"
    for alias in found.away:
        yield f"{alias} does not answer: declarations that were made there meanwhile are not known here"
    for alias in found.behind:
        yield f"{alias} does not know all of it yet"


def unread_in_words(unread: Mapping[str, Problem]) -> str:
    """Return that the declarations on these clusters are not known, and why."""
    return f"the declarations on {', '.join(unread)} are not known: {all_in_full(unread.values())}"


def end_unread(found: Sequence[object], unread: Mapping[str, Problem]) -> None:
    """Name the clusters whose declarations are not known; where nothing was found elsewhere, end with 1: what is
    missing proves nothing.
    """
    if unread:
        tell(unread_in_words(unread))
        if not found:
            raise typer.Exit(1)


def tell(text: str) -> None:
    """Print a sentence below a table."""
    console.print(Text(printable(text)))


def _format_value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_value(item)}" for name, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "default" if value is None else str(value)
