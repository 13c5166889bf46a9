"""`isthmus wait`: wait until a link or a topic is as somebody wants it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Annotated, Final, Self

import typer
from rich.text import Text

from isthmus.cli.columns import Cells, Column
from isthmus.cli.config import linked
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.control.answers import Waiting
from isthmus.control.fabric import Fabric
from isthmus.errors import GateNotMet
from isthmus.model.condition import WaitCondition
from isthmus.model.duration import parse_duration
from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState

_LINE_S: Final = 30.0
_COLUMNS: Final = (
    Column("name", Cells.NAME),
    Column("state"),
    Column("lag_records", Cells.NUMBER),
    Column("met"),
    Column("seconds", Cells.NUMBER),
)

app = typer.Typer(add_completion=False)


@app.command()
def wait(
    name: Annotated[str, typer.Argument(metavar="LINK[/TOPIC]", help="A link, or one topic of it.")],
    conditions: Annotated[
        list[str],
        typer.Option("--for", help="caught-up, 'lag<=N' (or lag=N), state=ACTIVE[,...]; may be repeated: then all."),
    ],
    timeout: Annotated[str, typer.Option("--timeout", help="How long: 30s, 5m, 1h; 0 looks once.")] = "5m",
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Wait until a link or a topic is caught up, lags no more than so many records, or is in a state.

    Ends with 0 as soon as it is so, and with 5 when the time is over. Clusters that are away are waited for. What waits
    needs no controller on this host: the logs and the ledger are looked at, once a second.
    """
    link, _, topic = name.partition("/")
    wanted = [WaitCondition.parse(text, of_topic=bool(topic)) for text in conditions]
    timeout_s = parse_duration(timeout)
    chosen = Fabric(linked(path, link)).link(link)
    with WaitingLine() as line:
        outcome = chosen.wait(topic or None, wanted, timeout_s=timeout_s, on_look=line.show)
    render([_row(outcome)] if output.is_table else outcome.as_dict(), output, columns=_COLUMNS)
    if not outcome.is_met:
        raise _too_late(outcome, timeout)


class WaitingLine:
    """Shows what is waited for while it is entered: in place on a terminal, else a line now and then. On stderr."""

    def __init__(self) -> None:
        self._status = console.status("looking") if console.is_terminal else None
        self._line_at = float("-inf")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, look: Waiting) -> None:
        """Show one look."""
        line = Text(printable(f"{look.described}; waiting for {look.missing} for {look.elapsed_s:,.0f} s"))
        if self._status is not None:
            self._status.update(line)
        elif not look.is_met and time.monotonic() - self._line_at >= _LINE_S:
            self._line_at = time.monotonic()
            console.print(line)


def _row(look: Waiting) -> Row:
    found = look.found
    return {
        "name": look.name,
        "state": None if found is None else str(found.state),
        "lag_records": look.lag_records,
        "met": look.is_met,
        "seconds": round(look.elapsed_s, 1),
    }


def _too_late(look: Waiting, timeout: str) -> GateNotMet:
    problem = _problem(look)
    told = f": {problem.message}" if problem else ""
    hint = problem.hint if problem and problem.hint else _hint(look)
    return GateNotMet(f"{look.described} after {timeout}, and not {look.missing}{told}", hint=hint)


def _problem(look: Waiting) -> Problem | None:
    """What is in the way: of the topic, or of the link, or else of the first topic of it that has one."""
    if look.topic is not None:
        return (look.found.problem if look.found else None) or look.link.problem
    return look.link.problem or next((topic.problem for topic in look.link.topics if topic.problem), None)


def _hint(look: Waiting) -> str:
    found = look.found
    if found is None:
        return "Create it at the source, or see what the link selects: isthmus plan."
    if found.state in (LinkState.STOPPED, LaneState.STOPPED):
        return "No controller runs the link. Start one: isthmus run."
    if found.state in (LinkState.PAUSED, LaneState.PAUSED):
        return f"It is paused. Go on with it: isthmus resume {look.link.link}."
    return "Give it more time with --timeout; isthmus status shows what it does."
