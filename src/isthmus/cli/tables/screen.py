"""`isthmus status --watch` on a terminal: all topics of all links, to scroll through, to sort and to filter.

It needs the library `textual` (`pip install 'isthmus[terminal]'`); without it a table that moves takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Protocol, Self

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Input, Static

from isthmus.cli.endings import Terminated
from isthmus.cli.output import printable
from isthmus.cli.tables.grid import Grid, LaidColumn
from isthmus.cli.tables.rows import status_columns, status_row
from isthmus.cli.tables.view import Shown, Sorting, View
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress
from isthmus.model.links.totals import totals
from isthmus.model.state import LinkState
from isthmus.model.text.wording import format_count

INTERVALS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_BESIDE_TABLE: Final = 4
"""Columns of the screen that the table needs for its scroll bar and its outermost gaps."""
_CALM: Final = frozenset(str(state) for state in LaneState if state.is_calm)
_OWN_LINE: Final = frozenset({"problem", "aborted"})
_KEYS: Final = "q quit  j k move  p partitions  s sort  / filter  x problems  r look  + - pace"


class Reader(Protocol):
    """The reader of links: `StatusReader`, or a replacement for it."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def read(self) -> Sequence[LinkProgress]:
        """Return the present state of all links."""


class RowTable(DataTable[Text]):
    """A table with the keys of those who keep their hands on the keyboard."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down"),
        Binding("k", "cursor_up"),
        Binding("g,home", "scroll_top"),
        Binding("G,end", "scroll_bottom"),
    ]


class StatusScreen(App[None]):
    """The screen. It looks by itself every `interval_s` seconds; `ending` is the exception that it ended with, if any.

    Totals are of all links, whatever is shown.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #totals { height: 3; }
    #view, #keys { height: 1; color: $text-muted; }
    #problem { height: 2; color: $warning; }
    #rows { height: 1fr; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit"),
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("p", "partitions"),
        Binding("escape", "all"),
        Binding("s", "sort"),
        Binding("x", "problems"),
        Binding("slash", "filter"),
        Binding("r", "look"),
        Binding("plus,equals_sign", "pace(1)"),
        Binding("minus", "pace(-1)"),
    ]

    def __init__(self, reader: Reader, view: View, interval_s: float, *, by_partition: bool = False) -> None:
        super().__init__()
        self.ending: BaseException | None = None
        self.interval_s = interval_s
        self.looks = 0
        self._reader = reader
        self._view = view
        self._by_partition = by_partition
        self._only: tuple[str, str] | None = None
        self._text = ""
        self._links: Sequence[LinkProgress] = ()
        self._shown: list[Shown] = []
        self._layout: list[tuple[str, int]] = []
        self._due = asyncio.Event()

    def compose(self) -> ComposeResult:
        """Compose the totals, the view, the rows, the problem of the row under the cursor, and the keys."""
        yield Static("looking", id="totals", markup=False)
        yield Static("", id="view", markup=False)
        yield RowTable(id="rows", cursor_type="row", zebra_stripes=True)
        yield Static("", id="problem", markup=False)
        yield Input(placeholder="part of a name; Enter keeps it, Escape takes it back", id="filter", compact=True)
        yield Static(_KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to look."""
        self._rows.focus()
        self.run_worker(self._look_on(), exit_on_error=False)

    async def _look_on(self) -> None:
        try:
            async with self._reader as reader:
                while True:
                    self._due.clear()
                    self._links = await reader.read()
                    self.looks += 1
                    self._show()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.interval_s):
                            await self._due.wait()
        except Exception as error:  # noqa: BLE001 - reported once the terminal is restored
            self.leave(error)

    def leave(self, ending: BaseException | None = None) -> None:
        """End the screen; the caller that shows it raises `ending`."""
        self.ending = ending
        self.exit()

    # Keys

    def action_interrupt(self) -> None:
        """End, as Ctrl-C does everywhere else."""
        self.leave(KeyboardInterrupt())

    def action_partitions(self) -> None:
        """Show the partitions of the topic under the cursor, or all topics again."""
        here = self._here
        if self._only is not None:
            self.action_all()
        elif here is not None and isinstance(here[1], TopicProgress):
            self._only = (here[0].link, here[1].topic)
            self._show(at_top=True)

    def action_all(self) -> None:
        """Go back to all topics: without the filter, or from the partitions of one."""
        field = self.query_one("#filter", Input)
        if field.display:
            self._text = field.value = ""
            self._close_filter()
        else:
            self._only = None
        self._show(at_top=True)

    def action_sort(self) -> None:
        """Switch to the next order."""
        orders = list(Sorting)
        following = orders[(orders.index(self._view.sorting) + 1) % len(orders)]
        self._view = replace(self._view, sorting=following)
        self._show(at_top=True)

    def action_problems(self) -> None:
        """Show only rows with a problem, or all again."""
        self._view = replace(self._view, is_of_problems=not self._view.is_of_problems)
        self._show(at_top=True)

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        field = self.query_one("#filter", Input)
        field.display, self.query_one("#keys").display = True, False
        field.focus()

    def action_look(self) -> None:
        """Look at once."""
        self._due.set()

    def action_pace(self, steps: int) -> None:
        """Look less or more often."""
        slower = [each for each in INTERVALS_S if each > self.interval_s]
        faster = [each for each in INTERVALS_S if each < self.interval_s]
        self.interval_s = (slower or [self.interval_s])[0] if steps > 0 else (faster or [self.interval_s])[-1]
        self._due.set()
        self._show()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter at once by the text that is typed."""
        self._text = event.value.strip().lower()
        self._show(at_top=True)

    def on_input_submitted(self) -> None:
        """Keep the text that was typed."""
        self._close_filter()

    def on_data_table_row_highlighted(self) -> None:
        """Show the problem of the row that the cursor moved to."""
        self._tell_problem()

    def on_resize(self) -> None:
        """Fit the columns to the width of the screen."""
        self._show()

    # The rows that are shown

    @property
    def _rows(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def _here(self) -> Shown | None:
        row = self._rows.cursor_row
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def _close_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.display, self.query_one("#keys").display = False, True
        self._rows.focus()

    def _show(self, *, at_top: bool = False) -> None:
        if not self.looks:
            return
        before = None if self._here is None else _key(self._here)
        by_partition = self._by_partition or self._only is not None
        found = self._view.items(self._view.of(self._links), by_partition=by_partition)
        self._shown = [each for each in found if self._has(each)]
        rows = [status_row(each) for each in self._shown]
        columns = [c for c in status_columns(rows, by_partition=by_partition) if c.name not in _OWN_LINE]
        self._fill(Grid(rows, columns).laid_out(self.size.width - _BESIDE_TABLE))
        keys = [_key(each) for each in self._shown]
        # At the top, the view stays at the top; further down, the cursor follows its row.
        if not at_top and before in keys and keys.index(before) != self._rows.cursor_row and self._rows.cursor_row:
            self._rows.move_cursor(row=keys.index(before), animate=False)
        elif at_top:
            self._rows.move_cursor(row=0, animate=False)
        self.query_one("#totals", Static).update("\n".join(totals(self._links)))
        self.query_one("#view", Static).update(self._describe_view())
        self._tell_problem()

    def _has(self, shown: Shown) -> bool:
        link, item = shown
        if self._only is not None:
            return item is not None and (link.link, item.topic) == self._only
        return self._text in f"{link.link}/{'' if item is None else item.topic}".lower()

    def _fill(self, laid: Sequence[LaidColumn]) -> None:
        """Update the cells that have changed; only for other columns or fewer rows fill an empty table."""
        table, layout = self._rows, [(column.heading, column.width) for column in laid]
        lines = list(zip(*(map(_colour, column.cells) for column in laid), strict=True))
        if layout != self._layout:
            self._layout = layout
            table.clear(columns=True)
            table.header_height = max((column.heading.count("\n") + 1 for column in laid), default=1)
            for heading, width in layout:
                table.add_column(Text(heading), width=width)
        while table.row_count > len(lines):
            table.remove_row(table.ordered_rows[-1].key)
        for number, line in enumerate(lines):
            if number >= table.row_count:
                table.add_row(*line)
                continue
            for place, cell in enumerate(line):
                coordinate = Coordinate(number, place)
                if table.get_cell_at(coordinate) != cell:
                    table.update_cell_at(coordinate, cell)

    def _describe_view(self) -> str:
        what = "partition" if self._by_partition or self._only else "row"
        parts = [format_count(len(self._shown), what), f"by {self._view.sorting}"]
        parts += [f"of {'/'.join(self._only)} (Escape: all)"] if self._only else []
        parts += [f"with {self._text!r}"] if self._text and not self._only else []
        parts += ["with problems only"] if self._view.is_of_problems else []
        return printable(f"{', '.join(parts)}; every {self.interval_s:g} s")

    def _tell_problem(self) -> None:
        here = self._here
        problem = None if here is None else (here[1] or here[0]).problem
        text = "" if problem is None else printable(problem.in_full)
        self.query_one("#problem", Static).update(text)


def _key(shown: Shown) -> tuple[str, ...]:
    link, item = shown
    if item is None:
        return (link.link,)
    number = (str(item.partition),) if isinstance(item, PartitionProgress) else ()
    return link.link, item.topic, *number


def _colour(cell: Text) -> Text:
    if cell.plain in {*LaneState, *LinkState} and cell.plain not in _CALM:
        cell.stylize("red")
    return cell


def show_screen(reader: Reader, view: View, interval_s: float, *, by_partition: bool) -> None:
    """Show the screen until the user leaves it.

    :raises KeyboardInterrupt: With Ctrl-C, or by SIGTERM.
    """
    screen = StatusScreen(reader, view, interval_s, by_partition=by_partition)
    with _own_stderr():
        asyncio.run(_shown_until_left(screen))
    if screen.ending is not None:
        raise screen.ending


async def _shown_until_left(screen: StatusScreen) -> None:
    # As an event of the loop, so that the terminal is restored.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: screen.leave(Terminated()))
    await screen.run_async()


@contextlib.contextmanager
def _own_stderr() -> Iterator[None]:
    """Give textual the interpreter's first stderr to draw on, which the command has replaced by one
    that never fails.
    """
    module = vars(sys)
    before, module["__stderr__"] = sys.__stderr__, sys.stderr
    try:
        yield
    finally:
        module["__stderr__"] = before
