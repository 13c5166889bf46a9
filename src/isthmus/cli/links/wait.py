"""`isthmus wait`: wait until a link or a topic meets a condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, render
from isthmus.cli.setup.config import ask_fabric, load_with_declared
from isthmus.cli.several import end_with, tell_failure
from isthmus.cli.steps import Moving
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import GateNotMet, IsthmusError
from isthmus.fabric.answers import Waiting
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem, problem_of
from isthmus.model.state import LinkState
from isthmus.model.text.duration import parse_duration
from isthmus.model.text.plain import plain
from isthmus.status.condition import WaitCondition

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
    names: Annotated[
        list[str], typer.Argument(metavar="LINK[/TOPIC]", help="A link, or one topic of it; several for more.")
    ],
    conditions: Annotated[
        list[str],
        typer.Option(
            "--for",
            help="caught-up, committed, 'lag<=N' (or lag=N), 'lag_seconds<=N', state=ACTIVE[,...], for links "
            "also FOLLOWING, IN_SYNC and the like; may be repeated: then all.",
        ),
    ],
    timeout: Annotated[str, typer.Option("--timeout", help="How long: 30s, 5m, 1h; 0 looks once.")] = "5m",
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Wait until a link or a topic is caught up, lags no more than so far, or is in a state.

    A link or topic is caught up when it holds all records that its source had when the wait began, so producers may go
    on. Records in open transactions at the source count as missing, except for `committed`.

    Ends with 0 as soon as it is so, and with 5 when the time is over. Clusters that are away are waited for. The wait
    needs no controller on this host: the logs and the ledger are looked at, once a second; the first look is finished
    whatever the time. Several are waited for at once, each until it is so, and the time is that of all of them.
    """
    targets = list(dict.fromkeys(names))
    timeout_s = parse_duration(timeout)
    wanted = {
        each: [WaitCondition.parse(text, of_topic=bool(each.partition("/")[2])) for text in conditions]
        for each in targets
    }
    configuration = load_with_declared(path, *(each.partition("/")[0] for each in targets))
    with WaitingLine() as line:

        async def wait_for_all(fabric: AsyncFabric) -> list[Waiting | IsthmusError]:
            return await asyncio.gather(*(_wait_for(fabric, each, wanted[each], timeout_s, line) for each in targets))

        found = dict(zip(targets, ask_fabric(configuration, wait_for_all), strict=True))
    failures = {name: failed for name, each in found.items() if (failed := _failure(each))}
    if len(targets) == 1:
        (outcome,) = found.values()
        if isinstance(outcome, Waiting):
            render([_row(outcome)] if output.is_table else plain(outcome), output, columns=_COLUMNS)
        for failed in failures.values():
            raise failed
        return
    _show(found, failures, output)
    end_with(failures.values())


async def _wait_for(
    fabric: AsyncFabric, name: str, wanted: Sequence[WaitCondition], timeout_s: float, line: WaitingLine
) -> Waiting | IsthmusError:
    link, _, topic = name.partition("/")
    try:
        return await fabric.link(link).wait(topic or None, wanted, timeout_s=timeout_s, on_look=line.show)
    except IsthmusError as error:
        return error


def _failure(found: Waiting | IsthmusError) -> IsthmusError | None:
    if isinstance(found, IsthmusError):
        return found
    return None if found.is_met else _too_late(found)


def _show(
    found: Mapping[str, Waiting | IsthmusError], failures: Mapping[str, IsthmusError], output: OutputFormat
) -> None:
    """Show a row for each of several, with its `problem`."""
    if output.is_table:
        render([_row(each) for each in found.values() if isinstance(each, Waiting)], output, columns=_COLUMNS)
    else:
        rows = [
            {
                **(plain(each) if isinstance(each, Waiting) else {"name": name}),
                "problem": plain(problem_of(failures[name])) if name in failures else None,
            }
            for name, each in found.items()
        ]
        render(rows, output, names=[name for name in found if name not in failures])
    for name, failed in () if output.has_problems else failures.items():
        tell_failure(name, failed)


class WaitingLine(Moving):
    """Show the condition while it is entered: in place on a terminal, otherwise a line now and then. On stderr.

    For several it is the first one that is still pending.
    """

    def __init__(self) -> None:
        super().__init__("looking")
        self._line_at = float("-inf")
        self._looks: dict[str, Waiting] = {}

    def show(self, look: Waiting) -> None:
        """Show one look."""
        self._looks[look.name] = look
        look = next((each for each in self._looks.values() if not each.is_met), look)
        is_step = not look.is_met and time.monotonic() - self._line_at >= _LINE_S
        if is_step:
            self._line_at = time.monotonic()
        self._move(f"{look.described}; waiting for {look.missing} for {look.elapsed_s:,.0f} s", is_step=is_step)


def _row(look: Waiting) -> Row:
    return {
        "name": look.name,
        "state": look.state,
        "lag_records": look.lag_records,
        "met": look.is_met,
        "seconds": round(look.elapsed_s, 1),
    }


def _too_late(look: Waiting) -> GateNotMet:
    problem = _problem(look)
    reason = f": {problem.message}" if problem else ""
    hint = problem.hint if problem and problem.hint else _hint(look)
    return GateNotMet(f"{look.described} after {look.elapsed_s:,.0f} s, and not {look.missing}{reason}", hint=hint)


def _problem(look: Waiting) -> Problem | None:
    """Return the problem of the topic, or of the link, or else of its first topic with one."""
    if look.topic is not None:
        return (look.found.problem if look.found else None) or look.link.problem
    return look.link.problem or next((topic.problem for topic in look.link.topics if topic.problem), None)


def _hint(look: Waiting) -> str:
    found = look.found
    if found is None:
        return "Create it at the source, or see the selection of the link: isthmus plan."
    if found.state in (LinkState.STOPPED, LaneState.STOPPED):
        return "No controller runs the link. Start one: isthmus run."
    reason = next((reason for _, reason in look.link.waits), "")
    if reason:
        return (
            f"{reason[0].upper()}{reason[1:]}: end its producer, or wait for the committed records only: --for "
            "committed."
        )
    if found.state in (LinkState.PAUSED, LaneState.PAUSED):
        return f"It is paused. Go on with it: isthmus resume {look.link.link}."
    return "Give it more time with --timeout; isthmus status shows its progress."
