"""Values as people see them in a Python session: a short table, printed or in a notebook."""

from __future__ import annotations

import enum
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest
from typing import Final, Protocol

from isthmus.model.text.wording import NOT_APPLICABLE, format_count, format_value, is_number, printable

ROWS_MAX: Final = 20
PROBLEM: Final = "problem"
"""The column with the reason why something is not as it should be."""
_PROBLEMS_MAX: Final = 3
_WIDTH: Final = 120
_LAST_MIN: Final = 24
_GAP: Final = "  "


class Tone(enum.Enum):
    """How a word is coloured in a notebook; the value is the colour in CSS, legible on light and on dark."""

    GOOD = "#2da44e"
    DOUBTFUL = "#bf8700"
    BAD = "#cf222e"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortTable:
    """A value at a glance: a `title` of one line, rows under columns, and lines behind them.

    At most `ROWS_MAX` rows are shown. If there are more, those come first that have a problem or a word of a bad
    `tones`. A row without a column's key is blank there, `None` is unknown, and a column that is blank in all rows is
    left out.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[Mapping[str, object], ...] = ()
    notes: tuple[str, ...] = ()
    tones: Mapping[str, Tone] = field(default_factory=dict)

    def as_line(self) -> str:
        """Return the title with the first problems, on one line."""
        found = [self._problem(row) for row in self.rows if row.get(PROBLEM)]
        more = [f"and {format_count(len(found) - _PROBLEMS_MAX, 'more problem')}"] if len(found) > _PROBLEMS_MAX else []
        return printable("; ".join([self.title, *found[:_PROBLEMS_MAX], *more, *self.notes]))

    def as_text(self) -> str:
        """Return the table for a terminal of 120 characters: the last column has several lines if need be."""
        lines = [printable(self.title)]
        columns, rows = self._select_shown()
        if rows:
            headings = [column.replace("_", " ") for column in columns]
            cells = [[format_value(row.get(column, ""), is_quantity=True) for column in columns] for row in rows]
            rights = self._rights(columns, rows)
            widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
            widths[-1] = min(widths[-1], max(_WIDTH - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1), _LAST_MIN))
            for row in [headings, ["─" * width for width in widths], *cells]:
                lines += _lay_out(row, widths, rights)
        return "\n".join([*lines, *map(printable, self._closing())])

    def as_html(self) -> str:
        """Return the table for a notebook. Every text in it is escaped."""
        columns, rows = self._select_shown()
        rights = self._rights(columns, rows)
        sides = ["right" if is_right else "left" for is_right in rights]
        parts = [f"<div><p>{escape(printable(self.title))}</p>"]
        if rows:
            heads = zip(columns, sides, strict=True)
            head = "".join(
                f'<th style="text-align:{side}">{escape(name.replace("_", " "))}</th>' for name, side in heads
            )
            body = "".join(f"<tr>{self._html_cells(row, columns, sides)}</tr>" for row in rows)
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        parts += [f"<p>{escape(printable(line))}</p>" for line in self._closing()]
        return "".join([*parts, "</div>"])

    def _html_cells(self, row: Mapping[str, object], columns: tuple[str, ...], sides: list[str]) -> str:
        cells = []
        for column, side in zip(columns, sides, strict=True):
            tone = self.tones.get(str(row.get(column, "")))
            colour = f";color:{tone.value}" if tone else ""
            text = escape(format_value(row.get(column, ""), is_quantity=True))
            cells.append(f'<td style="text-align:{side}{colour}">{text}</td>')
        return "".join(cells)

    def _select_shown(self) -> tuple[tuple[str, ...], list[Mapping[str, object]]]:
        rows = list(self.rows)
        if len(rows) > ROWS_MAX:
            rows = sorted(rows, key=self._is_calm)[:ROWS_MAX]
        return tuple(name for name in self.columns if any(row.get(name, "") != "" for row in self.rows)), rows

    def _is_calm(self, row: Mapping[str, object]) -> bool:
        tones = {self.tones.get(str(value)) for value in row.values()}
        return not row.get(PROBLEM) and not tones & {Tone.DOUBTFUL, Tone.BAD}

    def _rights(self, columns: tuple[str, ...], rows: list[Mapping[str, object]]) -> list[bool]:
        return [any(is_number(row.get(column)) for row in rows) for column in columns]

    def _closing(self) -> list[str]:
        more = len(self.rows) - ROWS_MAX
        return [*([f"and {more:,} more"] if more > 0 else []), *self.notes]

    def _problem(self, row: Mapping[str, object]) -> str:
        place = "/".join(str(row[name]) for name in self.columns[:2] if row.get(name))
        return f"{place}: {row[PROBLEM]}"


class ShownAsTable(ABC):
    """Prints as its short table, and is that in notebooks. `repr` is one line, unless a class has its own."""

    __slots__ = ()

    @abstractmethod
    def short_table(self) -> ShortTable:
        """Return what is shown of it."""

    def __str__(self) -> str:
        return self.short_table().as_text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.short_table().as_line()}>"

    def _repr_html_(self) -> str:
        return self.short_table().as_html()

    def _repr_pretty_(self, printer: _Printer, _is_cycle: bool) -> None:
        """IPython in a terminal asks for this in place of `repr`."""
        printer.text(str(self))


class _Printer(Protocol):
    def text(self, text: str, /) -> None: ...


def _lay_out(row: list[str], widths: list[int], rights: list[bool]) -> Iterator[str]:
    """Yield the lines of a row: only the last cell may have several."""
    *cells, last = row
    wrapped = textwrap.wrap(last, widths[-1]) or [NOT_APPLICABLE]
    for texts in zip_longest(*([cell] for cell in cells), wrapped, fillvalue=""):
        padded = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(texts, widths, rights, strict=True)
        )
        yield _GAP.join(padded).rstrip()
