"""`isthmus status`: how links, topics and partitions stand."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.live import Live
from rich.text import Text

from isthmus.cli.columns import Cells, Column
from isthmus.cli.config import configured
from isthmus.cli.grid import Grid
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.view import Sorting, View
from isthmus.control.fabric import Fabric
from isthmus.control.links.status import StatusReader
from isthmus.errors import ConfigError
from isthmus.model.duration import parse_duration
from isthmus.model.elapsed import ago
from isthmus.model.patterns import NamePattern
from isthmus.model.progress import LinkProgress, PartitionProgress, TopicProgress
from isthmus.model.state import AGED_S, ControllerState, LinkState

INTERVAL_MIN_S: Final = 0.1
_NOW: Final = ago(0.0)

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("topic", Cells.NAME),
    Column("partition"),
    Column("state"),
    Column("source_end", Cells.NUMBER, gives_way=2),
    Column("target_end", Cells.NUMBER, gives_way=3),
    Column("lag_records", Cells.NUMBER),
    Column("lag_seconds", Cells.NUMBER, gives_way=1),
    Column("records_per_second", Cells.NUMBER, gives_way=4),
    Column("as_of"),
    Column("aborted", gives_way=6),
    Column("problem", Cells.PROSE, gives_way=5),
)

app = typer.Typer(add_completion=False)


@app.command()
def status(
    path: ConfigOption = None,
    link: Annotated[str | None, typer.Option("--link", help="Only this link.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic, prefix* or /regex/; may be repeated.")
    ] = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="A row for each partition instead of each topic.")
    ] = False,
    sort: Annotated[Sorting, typer.Option("--sort", help="By name, or what is urgent first.")] = Sorting.NAME,
    problems: Annotated[bool, typer.Option("--problems", help="Only what has a problem.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on showing it until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option("--interval", help="How often --watch looks: 2s, 1m.")] = "2s",
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = False,
) -> None:
    """Show state, ends, lag and rate. Ends and lags come from the logs themselves.

    What cannot be asked now is shown as it was last known, with its age. Exits with 1 if a cluster does not answer, or
    something else is in the way of copying; a pause, or that no controller runs, is not. With --topic that is about
    these topics, and so are the sums.

    --watch shows a table that moves on a terminal. In a pipe, and with -o json, it prints a line of JSON for each look:
    {"at": ..., "links": [...]}.
    """
    view = View(topics=tuple(map(NamePattern.split, topic or ())), sorting=sort, is_of_problems=problems)
    interval_s = max(parse_duration(interval), INTERVAL_MIN_S)
    is_lines = watch and _is_lines(output)
    fabric = Fabric(configured(path))
    if watch:
        reader = StatusReader(fabric.links(link))
        asyncio.run(_tell(reader, view, interval_s) if is_lines else _watch(reader, view, interval_s, partitions))
        return
    links = view.of(fabric.status(link=link))
    if output.is_table:
        rows = status_rows(links, by_partition=partitions, view=view)
        render(rows, output, columns=_columns(rows, by_partition=partitions))
        tell_problems(links)
        _tell_controllers(links)
    else:
        names = progress_names(links, by_partition=partitions)
        render([progress.as_dict() for progress in links], output, names=names)
    if any(progress.is_unfinished for progress in links):
        raise typer.Exit(1)


def _is_lines(output: OutputFormat) -> bool:
    """Whether --watch prints lines of JSON rather than a table."""
    if output in (OutputFormat.YAML, OutputFormat.NAME):
        raise ConfigError(
            f"--watch shows a table or lines of JSON, not {output}",
            hint=f"Use -o json, or leave out --watch and call isthmus status -o {output} as often as you like.",
        )
    return not output.is_table or not sys.stdout.isatty()


def status_rows(links: Sequence[LinkProgress], *, by_partition: bool, view: View | None = None) -> list[Row]:
    """A row for each topic or each partition; links without any have one of their own. In the order of the view."""
    return [_row(*each) for each in (view or View()).items(links, by_partition=by_partition)]


def _row(link: LinkProgress, item: TopicProgress | PartitionProgress | None) -> Row:
    aborted = "" if link.aborted is None else str(link.aborted)
    if item is not None:
        return {"link": link.link, **_shown(item), "aborted": aborted}
    lag = link.as_dict()["lag_records"]
    return {"link": link.link, "state": str(link.state), "lag_records": lag, "as_of": _NOW, "aborted": aborted}


def progress_names(links: Sequence[LinkProgress], *, by_partition: bool = False) -> list[str]:
    """What `-o name` calls the rows, as `isthmus wait` takes it: `link/topic`, `link` where it has none.

    Partitions are `link/topic-partition`.
    """
    names = []
    for link in links:
        for topic in link.topics:
            whole = f"{link.link}/{topic.topic}"
            is_split = by_partition and topic.partitions
            names += [f"{whole}-{each.partition}" for each in topic.partitions] if is_split else [whole]
        if not link.topics:
            names.append(link.link)
    return names


def tell_problems(links: Sequence[LinkProgress]) -> None:
    """What keeps links and topics from being active, and what to do about it: on stderr."""
    for link in links:
        items = [(link.link, link.problem)]
        items += [(f"{link.link}/{topic.topic}", topic.problem) for topic in link.topics]
        items += [(f"{link.link}: group {group.group}", group.problem) for group in link.groups]
        items += [(f"{link.link}: {loop.loop}", loop.problem) for loop in link.loops]
        for where, problem in items:
            if problem is not None:
                console.print(Text(printable(f"{where}: {problem.message}"), style="yellow"))
                if problem.hint:
                    console.print(Text(f"  {printable(problem.hint)}"))
        for partition in [partition for topic in link.topics for partition in topic.partitions]:
            for gap in partition.gaps:
                where = f"{link.link}/{partition.topic}-{partition.partition}"
                told = f"[{gap.offset_begin}, {gap.offset_end}) was deleted at the source before it was copied"
                console.print(Text(printable(f"{where}: {told}"), style="yellow"))


def _tell_controllers(links: Sequence[LinkProgress]) -> None:
    """Which links nobody runs, or an operator has paused: on stderr."""
    for link in links:
        if link.state is LinkState.PAUSED:
            console.print(Text(f"{link.link}: paused. Go on with it: isthmus resume {link.link}"))
        controller = link.controller
        if controller.state is ControllerState.NONE:
            console.print(Text(f"{link.link}: no controller runs it. Start one: isthmus run"))
        elif controller.state is ControllerState.SILENT:
            named = controller.described or "its controller"
            heard = "" if controller.age_s is None else f", last heard {ago(controller.age_s)}"
            told = f"{named}{heard}, did not say farewell: it was killed, is frozen or is cut off"
            console.print(Text(printable(f"{link.link}: {told}. Look after it, or start another: isthmus run")))


def _shown(item: TopicProgress | PartitionProgress) -> Row:
    columns = (
        "topic",
        "partition",
        "state",
        "source_end",
        "target_end",
        "lag_records",
        "lag_seconds",
        "records_per_second",
    )
    fields = item.as_dict()
    row = {name: fields[name] for name in columns if name in fields}
    as_of = ago(item.age_s) if item.age_s > AGED_S else _NOW
    return {**row, "as_of": as_of, **({"problem": item.problem.message} if item.problem else {})}


def _columns(rows: Sequence[Row], *, by_partition: bool) -> list[Column]:
    """The columns that say something of these rows: how old they are only if one is old."""
    silent = {"partition"} if not by_partition else set()
    if all(row["as_of"] == _NOW for row in rows):
        silent.add("as_of")
    return [column for column in _COLUMNS if column.name not in silent]


async def _watch(reader: StatusReader, view: View, interval_s: float, by_partition: bool) -> None:
    async with reader:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                links = view.of(await reader.read())
                rows = status_rows(links, by_partition=by_partition, view=view)
                columns = _columns(rows, by_partition=by_partition)
                live.update(Grid(rows, columns, is_live=True, wider="isthmus status -o wide"), refresh=True)
                await asyncio.sleep(interval_s)


async def _tell(reader: StatusReader, view: View, interval_s: float) -> None:
    """A line of JSON for each look, at once: whoever reads it may be waiting for it."""
    async with reader:
        while True:
            links = view.of(await reader.read())
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            look = {"at": at, "links": [progress.as_dict() for progress in links]}
            sys.stdout.write(f"{json.dumps(look, default=str)}\n")
            sys.stdout.flush()
            await asyncio.sleep(interval_s)
