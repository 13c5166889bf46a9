"""`isthmus cluster reassign`: move partitions to other brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.tables.columns import Cells, Column
from isthmus.config.assignments import read_assignments, write_assignments
from isthmus.config.sections.fields import size_bytes
from isthmus.errors import ConfigError, OutputFailed
from isthmus.fabric.answers import Reassignment, ReassignmentPlan, ReassignmentState
from isthmus.fabric.fabric import Fabric, Reassigning
from isthmus.model.kafka.assignment import Assignment, Assignments, Move
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("before", Cells.PROSE),
    Column("after", Cells.PROSE),
    Column("copies", Cells.NUMBER),
    Column("state"),
    Column("detail", Cells.PROSE, gives_way=1),
)
_WAYS: Final = "--plan, --execute FILE or --cancel"
_STDIN: Final = "-"


def reassign(
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="The cluster's alias in the configuration.")],
    plan: Annotated[
        bool, typer.Option("--plan", help="Show an even assignment and the moves that lead to it.")
    ] = False,
    execute: Annotated[
        str | None, typer.Option("--execute", metavar="FILE", help="Move to the assignments of this file (-: stdin).")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the moves that are in progress.")] = False,
    topic: Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")] = None,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="IDS", help="Plan for these only: 1,2,3. Else all that live.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=1, help="Plan so many replicas of each; else as many as now.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write the plan there, as Kafka's own tool reads it.")
    ] = None,
    throttle: Annotated[
        str | None, typer.Option("--throttle", metavar="SIZE", help="Copy at most so much per second and broker: 50MB.")
    ] = None,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Move partitions to other brokers: plan, execute under a bound, or show the moves in progress.

    A plan spreads replicas and leaders evenly, and moves as little as that takes. Files are those of
    kafka-reassign-partitions. --execute waits until all is done and then takes its throttle away; if it is interrupted
    brokers go on, and the same call waits again. Exits with 1 if a partition did not move.
    """
    if sum((plan, execute is not None, cancel)) > 1:
        raise ConfigError(
            f"give one of {_WAYS}", hint="A plan is written with --to FILE and moved with --execute FILE."
        )
    _only_with("--plan", plan, {"--brokers": brokers, "--replicas": replicas, "--to": to})
    _only_with("--execute", execute is not None, {"--throttle": throttle})
    if execute is not None and topic:
        raise ConfigError("--topic is for plans: a file names its topics", hint="Leave --topic out.")
    known = Fabric(load_configuration(path)).reassigning(alias)
    if plan:
        made = known.plan(topic or (), brokers=_brokers(brokers), replicas=replicas)
        if to is not None and not dry_run:
            _write(to, made.after)
        _show_plan(made, output, None if dry_run else to)
    elif execute is not None:
        rate = None if throttle is None else size_bytes(throttle)
        source = "stdin" if execute == _STDIN else execute
        assignments = read_assignments(_read(execute), source)
        if not (yes or dry_run):
            confirm(alias, f"move {format_count(len(assignments), 'partition')} to where {source} has them")
        _execute(known, execute, assignments, rate, output, dry_run=dry_run)
    else:
        _show(known.cancel(topic or (), dry_run=dry_run) if cancel else known.underway(), output)


def _only_with(way: str, is_given: bool, options: dict[str, object]) -> None:
    useless = [name for name, value in options.items() if value is not None]
    if useless and not is_given:
        raise ConfigError(f"{useless[0]} goes with {way}", hint=f"Add {way}, or leave {useless[0]} out.")


def _brokers(written: str | None) -> tuple[int, ...]:
    if written is None:
        return ()
    try:
        return tuple(int(part) for part in written.split(","))
    except ValueError:
        raise ConfigError(f"--brokers {written} is no list of ids", hint="Write it as 1,2,3.") from None


def _execute(
    known: Reassigning,
    file: str,
    assignments: Sequence[Assignment],
    rate: int | None,
    output: OutputFormat,
    *,
    dry_run: bool,
) -> None:
    compared = known.compare(assignments)
    if dry_run:
        _show([Reassignment.of(move, ReassignmentState.PLANNED) for move in compared.moves], output)
        return
    if file != _STDIN and compared.moves:
        before = Path(f"{file}.before")
        # A retry after an interruption must keep the original assignment.
        if not before.exists():
            _write(before, compared.before)
            _tell(f"how it was is in {before}: --execute it to go back")
    with _progress() as report:
        done = known.execute(compared, throttle_bytes_per_s=rate, on_progress=report)
    _show(done, output)
    if any(one.state is not ReassignmentState.MOVED for one in done):
        raise typer.Exit(1)


def _read(file: str) -> str:
    try:
        return typer.get_text_stream("stdin").read() if file == _STDIN else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", hint="Give a file that --plan --to wrote.") from error


def _write(file: Path, assignments: Sequence[Assignment]) -> None:
    try:
        file.write_text(write_assignments(assignments), encoding="utf-8")
    except OSError as error:
        raise OutputFailed(f"{file} cannot be written: {error.strerror}", hint="Choose another file.") from None


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn("partitions moved"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _show_plan(plan: ReassignmentPlan, output: OutputFormat, to: Path | None) -> None:
    if not output.is_table:
        render(plain(Assignments.of(plan.after)), output, names=_names(plan.moves))
    else:
        render([_row(plain(move)) for move in plan.moves], output, columns=_COLUMNS)
        copies = sum(len(move.comes) for move in plan.moves)
        _tell(
            f"{format_count(len(plan.moves), 'partition')} of {len(plan.after):,} would change, with "
            f"{format_count(copies, 'replica')} to copy" + ("" if to is None else f"; the plan is in {to}")
        )


def _show(found: Sequence[Reassignment], output: OutputFormat) -> None:
    rows = [plain(one) for one in found]
    if not output.is_table:
        render(rows, output, names=[f"{one.topic}-{one.partition}" for one in found])
    elif rows:
        render([_row(row) for row in rows], output, columns=[one for one in _COLUMNS if one.name != "copies"])
    else:
        _tell("nothing moves")


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, **{key: ", ".join(map(str, row[key])) for key in ("before", "after")}}


def _names(moves: Sequence[Move]) -> list[str]:
    return [f"{move.topic}-{move.partition}" for move in moves]


def _tell(sentence: str) -> None:
    console.print(Text(printable(sentence)))
