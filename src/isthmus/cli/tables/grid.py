"""Rows as a table that fits its screen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from isthmus.cli.tables.columns import GAP, Cells, Column, ColumnWidth, ShownColumn, fit
from isthmus.model.text.wording import NOT_APPLICABLE, format_count, format_value, is_number, printable

_ELLIPSIS: Final = "…"
_EDGES: Final = 2
"""Characters left and right of a table that is printed; a live table has none."""
_EDGE: Final = " " * (_EDGES // 2)
_BETWEEN: Final = " " * GAP
# A long word may be broken behind punctuation that is not within a number.
_PARTS: Final = re.compile(r"(?<=[=/:;_-])|(?<=[.,])(?=\D)")


class LaidColumn(NamedTuple):
    """A column for a screen of some width: heading (in as many lines as all others), width, and cells."""

    heading: str
    width: int
    cells: tuple[Text, ...]


class Grid:
    """Rows under columns. Printed, it takes the width of the console, and shown live its height as well.

    `wider` is the option that shows more than fits. A row without a column's key is blank there; `None` for a number
    means unknown. Cells that are `Text` already are shown unchanged.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, object]],
        columns: Sequence[Column],
        title: str | None = None,
        *,
        is_live: bool = False,
        wider: str = "",
    ) -> None:
        self._title = None if title is None else Text(printable(title))
        self._columns = columns
        self._headings = [printable(column.heading) for column in columns]
        self._cells = [[cell(row.get(column.name, NOT_APPLICABLE), column.cells) for column in columns] for row in rows]
        self._is_right = [_is_right(column, [row.get(column.name) for row in rows]) for column in columns]
        self._extents = [self._extent(index) for index in range(len(columns))]
        self._is_live = is_live
        self._wider = wider

    @classmethod
    def of_fields(
        cls, value: Mapping[str, object], columns: Sequence[Column], title: str | None = None, *, wider: str = ""
    ) -> Self:
        """Return one value as rows of keys and values; `columns` give the kind of some of its fields."""
        kinds = {column.name: column.cells for column in columns}
        rows = [{"key": key, "value": cell(given, kinds.get(key, Cells.WORD))} for key, given in value.items()]
        return cls(rows, (Column("key", Cells.NAME), Column("value", Cells.PROSE)), title, wider=wider)

    def missing(self, width: int) -> str:
        """Describe what a table of this width leaves out; empty if it shows everything."""
        places = self._places(width)
        there = {place.index for place in places}
        left_out = [
            heading
            for index, heading in enumerate(self._headings)
            if index not in there and not self._extents[index].is_blank
        ]
        shows_all = f"; {self._wider} shows all" if self._wider else ""
        if left_out:
            return f"left out to fit the screen: {', '.join(left_out)}{shows_all}"
        is_whole = all(
            place.width >= self._extents[place.index].cell or self._columns[place.index].cells is Cells.PROSE
            for place in places
        )
        return "" if is_whole else f"names are shortened to fit the screen{shows_all}"

    def laid_out(self, width: int) -> list[LaidColumn]:
        """Return the columns that fit, each cell on one line; for callers that draw the rows themselves."""
        places = fit(self._columns, self._extents, width)
        height = self._heading_lines(places)
        laid = []
        for place in places:
            lines = wrap_text(self._headings[place.index], place.width)
            cells = [self._fit_cell(row[place.index], place) for row in self._cells]
            for each in cells if self._is_right[place.index] else ():
                each.justify = "right"
            heading = "\n" * (height - len(lines)) + "\n".join(lines)
            laid.append(LaidColumn(heading, place.width, tuple(cells)))
        return laid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        places = self._places(options.max_width)
        if not self._is_live:
            yield from self._render_rows(places, console, options)
            return
        notes = wrap_text(self.missing(options.max_width), options.max_width)
        # The rule below the headings and the line of the cursor take one each.
        rows = self._first(places, console.height - self._heading_lines(places) - len(notes) - 2)
        if len(rows) < len(self._cells):
            notes.insert(0, f"and {format_count(len(self._cells) - len(rows), 'more row')}")
        yield self._build_table(places, rows)
        if notes:
            yield Text("\n".join(notes), style="dim", no_wrap=True, overflow="ellipsis", end="")

    def _render_rows(
        self, places: Sequence[ShownColumn], console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Render the table with rows made here: rich goes through five layers for each cell, a third of a second for
        500 rows. Rich itself renders it if a cell has several styles.
        """
        if not places or any(each.spans for row in self._cells for each in row):
            yield self._build_table(places, self._cells)
            return
        empty = self._build_table(places, [[Text("")] * len(self._columns)])
        *head, _, edge = console.render_lines(empty, options, pad=False)
        for line in head:
            yield Segments([*line, Segment.line()])
        for row in self._cells:
            yield Segments([each for line in self._lines(row, places, console) for each in (*line, Segment.line())])
        yield Segments([*edge, Segment.line()])

    def _lines(self, row: Sequence[Text], places: Sequence[ShownColumn], console: Console) -> Iterator[list[Segment]]:
        """Render a printed row, each cell as wide as its column."""
        cells = [(self._fit_cell(row[place.index], place), place) for place in places]
        texts = [text.plain.split("\n") for text, _ in cells]
        for number in range(max(map(len, texts))):
            line = [Segment(_EDGE)]
            for lines, (text, place) in zip(texts, cells, strict=True):
                part = lines[number] if number < len(lines) else ""
                if cell_len(part) > place.width:
                    part = set_cell_size(part, place.width - 1) + _ELLIPSIS
                room = " " * (place.width - cell_len(part))
                style = console.get_style(text.style) if text.style and number < len(lines) else None
                line += [Segment(room + part if self._is_right[place.index] else part + room, style), Segment(_BETWEEN)]
            yield [*line[:-1], Segment(_EDGE)]

    def _build_table(self, places: Sequence[ShownColumn], rows: Sequence[Sequence[Text]]) -> Table:
        drawn = Table(
            title=self._title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=not self._is_live
        )
        height = self._heading_lines(places)
        for place in places:
            lines = wrap_text(self._headings[place.index], place.width)
            drawn.add_column(
                Text("\n" * (height - len(lines)) + "\n".join(lines)),
                justify="right" if self._is_right[place.index] else "left",
                no_wrap=True,
                overflow="ellipsis",
                width=place.width,
            )
        for row in rows:
            drawn.add_row(*(self._fit_cell(row[place.index], place) for place in places))
        return drawn

    def _fit_cell(self, text: Text, place: ShownColumn) -> Text:
        cells = self._columns[place.index].cells
        if text.cell_len <= place.width or cells not in (Cells.NAME, Cells.PROSE):
            return text
        whole = text.plain
        shown = shorten_name(whole, place.width) if cells is Cells.NAME else "\n".join(wrap_text(whole, place.width))
        return Text(shown, style=text.style)

    def _first(self, places: Sequence[ShownColumn], room: int) -> list[list[Text]]:
        """Return the rows that fit into so many lines, with one left for the number of the others."""
        heights = [
            max((self._fit_cell(row[place.index], place).plain.count("\n") + 1 for place in places), default=1)
            for row in self._cells
        ]
        if sum(heights) <= room:
            return self._cells
        count = 0
        while count < len(heights) and sum(heights[: count + 1]) < room:
            count += 1
        return self._cells[:count]

    def _heading_lines(self, places: Sequence[ShownColumn]) -> int:
        return max((len(wrap_text(self._headings[place.index], place.width)) for place in places), default=0)

    def _places(self, width: int) -> list[ShownColumn]:
        return fit(self._columns, self._extents, width - (0 if self._is_live else _EDGES))

    def _extent(self, index: int) -> ColumnWidth:
        heading = self._headings[index]
        return ColumnWidth(
            heading=cell_len(heading),
            word=max(map(cell_len, heading.split(" "))),
            cell=max((row[index].cell_len for row in self._cells), default=0),
            is_blank=all(row[index].plain in ("", NOT_APPLICABLE) for row in self._cells),
        )


def cell(value: object, cells: Cells) -> Text:
    """Format a value for people."""
    if isinstance(value, Text):
        return value
    return Text(format_value(value, is_quantity=cells is Cells.NUMBER))


def shorten_name(name: str, width: int) -> str:
    """Return a name without its middle, so that its beginning and its end fit."""
    if cell_len(name) <= width:
        return name
    head, tail = "", ""
    for first, last in zip(name, reversed(name), strict=True):
        if cell_len(head + first + _ELLIPSIS + tail) > width:
            break
        head += first
        if cell_len(head + _ELLIPSIS + last + tail) > width:
            break
        tail = last + tail
    return head + _ELLIPSIS + tail


def wrap_text(text: str, width: int) -> list[str]:
    """Wrap the text. Only a word that is longer than a line is broken, behind its punctuation if that helps."""
    lines: list[str] = []
    for word in text.split():
        if lines and cell_len(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.extend(_pieces(word, width))
    return lines


def _pieces(word: str, width: int) -> Iterator[str]:
    line = ""
    for part in _PARTS.split(word):
        if line and cell_len(line + part) > width:
            yield line
            line = ""
        line += part
        while cell_len(line) > width:
            head = set_cell_size(line, width).rstrip() or line[0]
            yield head
            line = line[len(head) :]
    yield line


def _is_right(column: Column, values: Sequence[object]) -> bool:
    """Return whether the column is aligned to the right: numbers are."""
    given = [value for value in values if value is not None]
    return column.cells is Cells.NUMBER or (bool(given) and all(map(is_number, given)))
