"""The output of commands: results on stdout as a table, JSON, YAML or names, everything else on stderr.

Tables are for people: quantities have thousands separators, an unknown one is `unknown`, and a value that does not
apply is `-`. On a terminal a table fits the screen: columns are left out, and stderr names them. JSON and YAML hold
plain values, and null. Names are for the next command of a script: one a line, and nothing else.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from isthmus.cli.tables.columns import Cells, Column
from isthmus.cli.tables.grid import Grid
from isthmus.model.text.wording import printable

__all__ = ["OutputFormat", "Row", "applicable", "console", "print_line", "print_tree", "printable", "render"]

Row = Mapping[str, object]

console: Final = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
"""Messages and live progress: stderr. A terminal has them wrapped between words, a file a line each."""

_JSON_TYPES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "list",
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_UNBOUNDED_WIDTH: Final = 100_000
_PIPE_WIDTH: Final = 160
"""The width without a screen: a table is wider if unbreakable words need it."""
_ANY_HEIGHT: Final = 25


class OutputFormat(enum.StrEnum):
    """The format of results."""

    TABLE = "table"
    WIDE = "wide"
    """A table with all fields of a row."""
    JSON = "json"
    JSONL = "jsonl"
    """JSON, a line for each item of a list, or one line for a value."""
    YAML = "yaml"
    NAME = "name"
    """Only the names, one a line."""
    HELP = "help"
    """The keys of JSON and YAML here, and the types of their values."""

    @property
    def is_table(self) -> bool:
        """Whether it is for people to look at."""
        return self in (OutputFormat.TABLE, OutputFormat.WIDE)

    @property
    def has_problems(self) -> bool:
        """Whether problems are in the results; if not, they go to stderr."""
        return not self.is_table and self is not OutputFormat.NAME


def render(
    data: Row | Sequence[Row],
    output: OutputFormat,
    *,
    title: str | None = None,
    columns: Sequence[Column] = (),
    wider: str = "-o wide",
    names: Iterable[str] | None = None,
) -> None:
    """Print rows, or one value with named fields, on stdout.

    Keys are snake_case and stable: scripts read them. JSON and YAML hold everything; a table shows `columns` in that
    order, as far as they fit the terminal, or all keys without any. A wide table shows all keys, however long lines
    get. For one value `columns` only give the kinds of its fields. `wider` is the option that shows more than fits.
    `names` are the names for `-o name`; without any it is the first key of each row.
    """
    if output.is_table:
        _print_table(data, title, columns, wider, is_wide=output is OutputFormat.WIDE)
    elif output is OutputFormat.JSON:
        sys.stdout.write(json.dumps(data, indent=2, default=str) + "\n")
    elif output is OutputFormat.JSONL:
        items = [data] if isinstance(data, Mapping) else data
        sys.stdout.writelines(f"{json.dumps(item, default=str)}\n" for item in items)
    elif output is OutputFormat.HELP:
        sys.stdout.writelines(f"{printable(key)}: {' or '.join(sorted(types))}\n" for key, types in shape(data).items())
    elif output is OutputFormat.NAME:
        _print_names(_first_values(data) if names is None else names)
    else:
        import yaml

        # Through JSON, so that both formats agree and only plain values are left.
        plain = json.loads(json.dumps(data, default=str))
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False, width=_UNBOUNDED_WIDTH))


def shape(data: object) -> dict[str, set[str]]:
    """Return the keys of a result with all the JSON types that their values have; `[]` stands for
    the items of a list.
    """
    found: dict[str, set[str]] = {}
    _measure(json.loads(json.dumps(data, default=str)), "", found)
    return found


def _measure(value: object, path: str, found: dict[str, set[str]]) -> None:
    if path:
        found.setdefault(path, set()).add(_JSON_TYPES[type(value)])
    if isinstance(value, dict):
        for key, inner in value.items():
            _measure(inner, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for item in value:
            _measure(item, f"{path}[]", found)


def applicable(row: Row) -> Row:
    """Return the row of a table without those `None` values that mean "not applicable" rather than unknown."""
    return {key: value for key, value in row.items() if value is not None}


def print_line(text: str) -> None:
    """Print one line of a result on stdout, and flush it."""
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


def print_tree(root: str, leaves: Sequence[tuple[str, str]]) -> None:
    """Print paths and their values as a tree, on stdout."""
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


def _print_table(
    data: Row | Sequence[Row], title: str | None, columns: Sequence[Column], wider: str, *, is_wide: bool
) -> None:
    if not data:
        console.print("nothing to show")
        return
    if isinstance(data, Mapping):
        grid = Grid.of_fields(data, columns, title, wider=wider)
    else:
        shown = [column for column in columns if not column.is_wide]
        grid = Grid(data, _all_columns(data, columns) if is_wide or not columns else shown, title, wider=wider)
    stdout = _stdout_console(grid, is_bounded=not is_wide)
    stdout.print(grid)
    missing = grid.missing(stdout.width)
    if missing:
        console.print(Text(missing))


def _print_names(names: Iterable[str]) -> None:
    # Each once: a script does not want to repeat an action because two links name the same thing.
    sys.stdout.writelines(f"{printable(name)}\n" for name in dict.fromkeys(names))


def _first_values(data: Row | Sequence[Row]) -> Iterable[str]:
    rows = [data] if isinstance(data, Mapping) else data
    return (str(next(iter(row.values()))) for row in rows if row)


def _all_columns(rows: Sequence[Row], columns: Sequence[Column]) -> list[Column]:
    known = {column.name: column for column in columns}
    return [
        known.get(name) or Column(name, _cells(name, rows))
        for name in dict.fromkeys(key for row in rows for key in row)
    ]


def _cells(name: str, rows: Sequence[Row]) -> Cells:
    """Return the kind of a column without a description: numbers may be ids, so they stay as they are."""
    values = [row.get(name) for row in rows]
    return Cells.PROSE if any(isinstance(value, str | Sequence | Mapping) for value in values) else Cells.WORD


def _stdout_console(grid: Grid | None = None, *, is_bounded: bool = True) -> Console:
    if is_bounded and sys.stdout.isatty():
        return Console(file=sys.stdout, highlight=False)
    width = _whole_width(grid) if is_bounded and grid is not None else _UNBOUNDED_WIDTH
    # With a width alone a dumb terminal would have 80 columns all the same.
    return Console(file=sys.stdout, width=width, height=_ANY_HEIGHT, highlight=False)


def _whole_width(grid: Grid) -> int:
    """Return the width of a table that is not on a screen: sentences have several lines, and nothing is left out."""
    low, high = _PIPE_WIDTH, _UNBOUNDED_WIDTH
    while low < high:
        middle = (low + high) // 2
        if grid.missing(middle):
            low = middle + 1
        else:
            high = middle
    return low
