"""What commands print: results on stdout as a table, JSON or YAML, everything else on stderr."""

from __future__ import annotations

import enum
import json
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

Row = Mapping[str, object]

console: Final = Console(stderr=True, highlight=False, soft_wrap=True)
"""Messages and live progress: stderr."""

# Where nobody looks at a screen nothing has to fit one: a table is as wide as its cells.
_UNBOUNDED_WIDTH: Final = 100_000


class OutputFormat(enum.StrEnum):
    """How results are printed."""

    TABLE = "table"
    WIDE = "wide"
    """A table of everything there is to a row."""
    JSON = "json"
    YAML = "yaml"

    @property
    def is_table(self) -> bool:
        """Whether it is for people to look at."""
        return self in (OutputFormat.TABLE, OutputFormat.WIDE)


def render(
    data: Row | Sequence[Row],
    output: OutputFormat,
    *,
    title: str | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Print rows, or one value with named fields, on stdout.

    Keys are snake_case and stable: scripts read them. JSON and YAML hold everything; a table shows
    `columns` in that order, or all keys, and nested values as JSON. A wide table shows all keys.
    """
    if output.is_table:
        _print_table(data, title, columns if output is OutputFormat.TABLE else None)
    elif output is OutputFormat.JSON:
        sys.stdout.write(json.dumps(data, indent=2, default=str) + "\n")
    else:
        # Through JSON, so that both say the same and only plain values are left.
        plain = json.loads(json.dumps(data, default=str))
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False, width=_UNBOUNDED_WIDTH))


def printable(text: str) -> str:
    """The text without control characters: a name or a message cannot move the cursor."""
    return "".join(" " if c in "\n\t" else c for c in text if c in "\n\t" or _is_shown(c))


def table(rows: Sequence[Row], title: str | None = None, columns: Sequence[str] | None = None) -> Table:
    """Rows as a table, for what is shown live; `render` prints what stays."""
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    heading = None if title is None else Text(printable(title))
    shown = Table(title=heading, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        numeric = all(_is_number(row.get(name)) for row in rows)
        justify: JustifyMethod = "right" if numeric else "left"
        shown.add_column(Text(printable(name.replace("_", " "))), justify=justify, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(_cell(row.get(name))) for name in names))
    return shown


def print_line(text: str) -> None:
    """One line of a result on stdout, where it is seen at once."""
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


def print_tree(root: str, leaves: Sequence[tuple[str, str]]) -> None:
    """Paths and what is at them as a tree, on stdout."""
    tree = Tree(Text(printable(root)))
    branches = {"": tree}
    for path, text in leaves:
        names = path.strip("/").split("/")
        for depth, name in enumerate(names, start=1):
            branch = "/".join(names[:depth])
            if branch not in branches:
                label = f"{name} {text}" if depth == len(names) else name
                branches[branch] = branches["/".join(names[: depth - 1])].add(Text(printable(label)))
    _stdout_console().print(tree)


def _is_shown(character: str) -> bool:
    return not unicodedata.category(character).startswith("C")


def _print_table(data: Row | Sequence[Row], title: str | None, columns: Sequence[str] | None) -> None:
    if isinstance(data, Mapping):
        rows: Sequence[Row] = [{"key": key, "value": value} for key, value in data.items()]
    else:
        rows = data
    if not rows:
        console.print("nothing to show")
        return
    _stdout_console().print(table(rows, title, columns))


def _stdout_console() -> Console:
    width = None if sys.stdout.isatty() else _UNBOUNDED_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return printable(json.dumps(value, default=str))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_cell(item) for item in value)
    return printable(str(value))
