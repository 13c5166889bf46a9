"""The columns of a table that fit a screen, and their widths: columns are left out whole, values do not break."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

GAP: Final = 3
"""Characters between two columns."""
_PROSE_MIN: Final = 24
_SHORTEST: Final = 12


class Cells(enum.Enum):
    """The kind of a column's cells, which decides how they may be shortened."""

    WORD = enum.auto()
    """A state, an id, an address: stays whole on one line."""
    NUMBER = enum.auto()
    """A quantity: stays whole, with thousands separators; `None` is unknown."""
    NAME = enum.auto()
    """Stays on one line, and is shortened in its middle if nothing else helps."""
    PROSE = enum.auto()
    """Sentences and lists: wraps at words."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, under the key of its values in rows.

    `gives_way` is 0 if the column stays as long as possible; of the others those with the highest number are left out
    first. A column that `is_wide` is in wide tables only.
    """

    name: str
    cells: Cells = Cells.WORD
    gives_way: int = 0
    is_wide: bool = False

    @property
    def heading(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnWidth:
    """The width that a column needs: its heading, the longest word of that, and its longest cell.

    It `is_blank` if no row has a value.
    """

    heading: int
    word: int
    cell: int
    is_blank: bool = False


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column that is shown: its position among all of the table, and its width."""

    index: int
    width: int


@dataclass(frozen=True, slots=True)
class _Fitting:
    index: int
    column: Column
    extent: ColumnWidth
    width: int = 0

    @property
    def gives_way(self) -> tuple[bool, int]:
        """The order in which columns are left out; blank ones first of all."""
        return self.extent.is_blank, self.column.gives_way

    @property
    def shortest(self) -> int:
        """The least width of the column, with names shortened."""
        if self.column.cells in (Cells.NAME, Cells.PROSE):
            return max(self.extent.word, min(self.extent.cell, _SHORTEST))
        return self.whole

    @property
    def least(self) -> int:
        """The width without shortened names, and with readable prose."""
        if self.column.cells is Cells.PROSE:
            return max(self.extent.word, min(self.extent.cell, _PROSE_MIN))
        return self.whole

    @property
    def whole(self) -> int:
        """The width of its cells, each on one line."""
        return max(self.extent.word, self.extent.cell)

    @property
    def full(self) -> int:
        """The width of its cells and its heading."""
        return max(self.extent.heading, self.extent.cell)


def with_names(columns: Sequence[Column], rows: Sequence[Mapping[str, object]], technical: str) -> list[Column]:
    """Return the columns, without that of logical names if all are equal to the technical ones."""
    says_more = any(row.get("name") not in (None, row.get(technical)) for row in rows)
    return [column for column in columns if says_more or column.name != "name"]


def fit(columns: Sequence[Column], extents: Sequence[ColumnWidth], width: int) -> list[ShownColumn]:
    """Return the columns that fit into `width` characters, in their order; at least one, whatever its width.

    If not all fit, blank ones are left out first, then those that give way; then names are shortened; then columns are
    left out from the right. Spare room goes to shortened names first, then to prose, then to headings.
    """
    shown = [_Fitting(index, *pair) for index, pair in enumerate(zip(columns, extents, strict=True))]
    while not _fits([each.least for each in shown], width):
        first_out = max(shown, key=lambda each: (each.gives_way, each.index))
        if not any(first_out.gives_way) or len(shown) == 1:
            break
        shown.remove(first_out)
    while len(shown) > 1 and not _fits([each.shortest for each in shown], width):
        shown.pop()
    shown = [replace(each, width=each.shortest) for each in shown]
    goals: tuple[Callable[[_Fitting], int], ...] = (
        lambda each: each.least,
        lambda each: each.whole,
        lambda each: each.full,
    )
    for goal in goals:
        shown = _grow(shown, goal, width)
    return [ShownColumn(each.index, each.width) for each in shown]


def _grow(shown: Sequence[_Fitting], goal: Callable[[_Fitting], int], width: int) -> list[_Fitting]:
    """Share the spare room among the columns below their goal."""
    widths = [each.width for each in shown]
    spare = width - _total(widths)
    while spare > 0:
        wanting = [i for i, each in enumerate(shown) if widths[i] < goal(each)]
        if not wanting:
            break
        share = max(spare // len(wanting), 1)
        for i in wanting[:spare]:
            given = min(share, goal(shown[i]) - widths[i])
            widths[i] += given
            spare -= given
    return [replace(each, width=wide) for each, wide in zip(shown, widths, strict=True)]


def _fits(widths: Sequence[int], width: int) -> bool:
    return _total(widths) <= width


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
