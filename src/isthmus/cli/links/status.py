"""`isthmus status`: the state of links, topics and partitions."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.live import Live
from rich.text import Text

from isthmus.cli.options import (
    ConfigOption,
    LinkArgument,
    LinkOption,
    OutputOption,
    VerboseOption,
    chosen_link,
)
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.saying import AWAITS_RELOAD
from isthmus.cli.setup.config import ask_fabric, load_with_declared
from isthmus.cli.tables.grid import Grid
from isthmus.cli.tables.rows import (
    LEASE_COLUMNS,
    PLACED_COLUMNS,
    TASK_COLUMNS,
    lease_row,
    placed_row,
    progress_names,
    status_columns,
    status_rows,
    task_row,
)
from isthmus.cli.tables.view import Sorting, View
from isthmus.errors import ClusterError, ConfigError, IsthmusError
from isthmus.fabric.answers import StatusReader
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.links.pauses import told_of
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.links.writability import KeptBy
from isthmus.model.loop import LoopState
from isthmus.model.onerror import OnError
from isthmus.model.problem import Problem, cluster_error, exit_code_of
from isthmus.model.process.whereabouts import Liveness
from isthmus.model.state import ControllerState, LinkState
from isthmus.model.text.duration import parse_duration
from isthmus.model.text.elapsed import ago
from isthmus.model.text.patterns import NamePattern
from isthmus.model.text.plain import plain
from isthmus.model.text.suggestion import nearest
from isthmus.model.text.wording import first_few, format_count

INTERVAL_MIN_S: Final = 0.1
_LET_IN: Final = {
    KeptBy.GATEWAY: "who connects to brokers directly is not kept out",
    KeptBy.AGREED_ONLY: "no access rule of Isthmus keeps others out",
}
_SILENT: Final = {
    Liveness.DEAD: "its process has ended, as it was killed",
    Liveness.ALIVE: "its process is there on this host, and is frozen or cut off from the target",
    Liveness.UNKNOWN: "it was killed, is frozen or is cut off",
}
app = typer.Typer(add_completion=False)


@app.command()
def status(
    name: LinkArgument = None,
    path: ConfigOption = None,
    link: LinkOption = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic, prefix* or /regex/; may be repeated.")
    ] = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="A row for each partition instead of each topic.")
    ] = False,
    tasks: Annotated[
        bool, typer.Option("--tasks", help="A row for each task of the links instead of each topic.")
    ] = False,
    leases: Annotated[
        bool,
        typer.Option("--leases", help="A row for each lease that runs: where, how busy, and with which partitions."),
    ] = False,
    sort: Annotated[Sorting, typer.Option("--sort", help="By name, or the most urgent first.")] = Sorting.NAME,
    problems: Annotated[bool, typer.Option("--problems", help="Only topics and links with a problem.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh it until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option("--interval", help="How often --watch looks: 2s, 1m.")] = "2s",
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show state, ends, lag and rate. Ends and lags come from the logs themselves.

    Values that cannot be read now are shown as last known, with their age. Exits with 1 if something is in the way of
    copying, and where it is in the way of every link with the code it has; a pause, or that no controller runs, is not.
    --leases says which partition is where: with --partitions, a row for each. What is busy is the Python worker of a
    lease, over the last ten seconds. A lease that was not heard yet has no host.

    With --topic that is about these topics, and so are the sums; one that is nowhere is an error, and so is a cluster
    that does not answer if nobody else knows of one.

    --watch shows a table that moves on a terminal, and with the extra `terminal` a screen to scroll, sort and narrow
    down. In a pipe, and with -o json, it prints a line of JSON for each look: {"at": ..., "links": [...]}.
    """
    link = chosen_link(name, link)
    view = View(topics=tuple(map(NamePattern.split, topic or ())), sorting=sort, is_of_problems=problems)
    interval_s = max(parse_duration(interval), INTERVAL_MIN_S)
    is_lines = watch and _is_lines(output)
    _check_views(
        {"--tasks": tasks, "--leases": leases},
        {"--watch": watch, "--partitions": partitions and not leases, "--topic": bool(topic)},
    )
    configuration = load_with_declared(path, link)
    if watch:
        _show_moving(
            AsyncFabric(configuration).reader(link), view, interval_s, is_lines=is_lines, by_partition=partitions
        )
        return
    found = ask_fabric(configuration, lambda fabric: fabric.status(link=link))
    links = view.of(found)
    missing = _missing_error(found, configuration.unread, view)
    if missing is not None and not (links and isinstance(missing, ClusterError)):
        raise missing
    if tasks:
        _show_tasks(links, output, only_problems=problems)
    elif leases:
        _show_leases(links, output, by_partition=partitions)
    else:
        _show_topics(links, output, view, by_partition=partitions)
    if not output.has_problems:
        tell_problems(links)
        _tell_controllers(links)
    if missing is not None:
        raise missing
    # Sorting and filters do not change the exit code.
    _end(View(topics=view.topics).of(found), is_unknown=not found and bool(configuration.unread))


def _show_moving(reader: StatusReader, view: View, interval_s: float, *, is_lines: bool, by_partition: bool) -> None:
    if is_lines:
        asyncio.run(_tell(reader, view, interval_s))
    elif _has_screen():
        # Loaded only if it is shown: the library is an extra, and takes its time.
        from isthmus.cli.tables.screen import show_screen

        show_screen(reader, view, interval_s, by_partition=by_partition)
    else:
        asyncio.run(_watch(reader, view, interval_s, by_partition))


def _end(judged: Sequence[LinkProgress], *, is_unknown: bool) -> None:
    """End with the code of these links, unless all is well; with 1 if it is unknown whether there are any."""
    code = exit_code_of(progress.problem for progress in judged)
    if code or is_unknown or any(progress.is_unfinished for progress in judged):
        raise typer.Exit(code or 1)


def _missing_error(links: Sequence[LinkProgress], unread: Mapping[str, Problem], view: View) -> IsthmusError | None:
    """Return the error that a requested topic is nowhere; where a link cannot know that, or links are not known, the
    error that this is unknown, with the reason. `None` if all requested topics are there.
    """
    known = sorted({str(name) for link in links for topic in link.topics for name in (topic.topic, topic.source_topic)})
    missing = [each for each in view.topics if not any(map(each.matches, known))]
    if not missing:
        return None
    problems = [link.problem for link in links if link.problem is not None]
    if (problem := next(iter([*problems, *unread.values()]), None)) is not None:
        return cluster_error(problem, f"it is unknown whether a link mirrors a topic {missing[0]}: {problem.message}")
    near = nearest(missing[0], known)
    meant = f"Did you mean {near}? " if near else ""
    return ConfigError(
        f"no link mirrors a topic {missing[0]}",
        field="--topic",
        hint=f"{meant}isthmus status -o name shows which topics there are.",
    )


def _check_views(shown: Mapping[str, bool], beside: Mapping[str, bool]) -> None:
    """Refuse options that show something else than topics beside each other, or beside what is for topics.

    :raises ConfigError: They are given.
    """
    given = [name for name, is_given in shown.items() if is_given]
    if given and len(given) + sum(beside.values()) > 1:
        keys = {"--tasks": "loops", "--leases": "leases"}
        others = first_few([name for name in (*shown, *beside) if name != given[0] and {**shown, **beside}[name]])
        raise ConfigError(
            f"{given[0]} does not go with {others}",
            hint=f"It shows what links have: isthmus status LINK {given[0]}. With -o json they are in "
            f"{keys[given[0]]}, beside the topics.",
        )


def _show_topics(links: Sequence[LinkProgress], output: OutputFormat, view: View, *, by_partition: bool) -> None:
    if output.is_table:
        rows = status_rows(links, by_partition=by_partition, view=view)
        render(rows, output, columns=status_columns(rows, by_partition=by_partition))
    else:
        names = progress_names(links, by_partition=by_partition)
        render([plain(progress) for progress in links], output, names=names)


def _show_leases(links: Sequence[LinkProgress], output: OutputFormat, *, by_partition: bool) -> None:
    found = [(link.link, lease) for link in links for lease in link.leases]
    if by_partition:
        placed = [(link, lease, key) for link, lease in found for key in lease.partitions]
        rows = [placed_row(*each) for each in placed]
        names = [f"{link}/{key}" for link, _, key in placed]
        render(rows, output, columns=PLACED_COLUMNS, names=names)
        return
    names = [f"{link}/{lease.name}" for link, lease in found]
    rows = [lease_row(link, lease) if output.is_table else {"link": link, **plain(lease)} for link, lease in found]
    render(rows, output, columns=LEASE_COLUMNS, names=names)


def _show_tasks(links: Sequence[LinkProgress], output: OutputFormat, *, only_problems: bool) -> None:
    tasks = [(link.link, task) for link in links for task in link.loops if task.trouble or not only_problems]
    idle = [each for each in tasks if each[1].state is LoopState.NOT_CONFIGURED]
    if output is OutputFormat.TABLE and idle:
        tasks = [each for each in tasks if each not in idle]
        left_out = ", ".join(dict.fromkeys(task.loop for _, task in idle))
        console.print(Text(printable(f"not configured, and so left out: {left_out}; -o wide shows all")))
    names = [f"{link}/{task.loop}" for link, task in tasks]
    rows = [task_row(link, task) if output.is_table else {"link": link, **plain(task)} for link, task in tasks]
    render(rows, output, columns=TASK_COLUMNS, names=names)


def _is_lines(output: OutputFormat) -> bool:
    """Return whether --watch prints lines of JSON rather than a table."""
    if output in (OutputFormat.YAML, OutputFormat.NAME, OutputFormat.HELP):
        raise ConfigError(
            f"--watch shows a table or lines of JSON, not {output}",
            hint=f"Use -o json, or leave out --watch and call isthmus status -o {output} as often as you like.",
        )
    return not output.is_table or not sys.stdout.isatty()


def _has_screen() -> bool:
    """Return whether there is a terminal to draw on and to get keys from, and the library for it."""
    is_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    return is_terminal and not console.is_dumb_terminal and importlib.util.find_spec("textual") is not None


def tell_problems(links: Sequence[LinkProgress]) -> None:
    """Print on stderr the problems of links and topics that are not active, and the remedies."""
    for link in links:
        items = [(link.link, link.problem)]
        items += [(f"{link.link}/{topic.topic}", topic.problem) for topic in link.topics]
        items += [(f"{link.link}: group {group.group}", group.problem) for group in link.groups]
        items += [(f"{link.link}: {loop.loop}", loop.trouble) for loop in link.loops]
        for where, problem in items:
            if problem is not None:
                console.print(Text(printable(f"{where}: {problem.message}"), style="yellow"))
                if problem.hint:
                    console.print(Text(f"  {printable(problem.hint)}"))
        for said in _describe_transforms(link):
            console.print(Text(printable(said), style="yellow"))
        for where, reason in link.waits:
            console.print(Text(printable(f"{where}: {reason}"), style="yellow"))
        for partition in [partition for topic in link.topics for partition in topic.partitions]:
            for gap in partition.gaps:
                where = f"{link.link}/{partition.topic}-{partition.partition}"
                message = f"[{gap.offset_begin}, {gap.offset_end}) was deleted at the source before it was copied"
                console.print(Text(printable(f"{where}: {message}"), style="yellow"))


def _describe_transforms(link: LinkProgress) -> Iterator[str]:
    """Yield which topics a run still changes by another transform, and how many records of which one failed."""
    for topic in link.topics:
        if topic.awaits_reload:
            yield f"{link.link}/{topic.topic}: {AWAITS_RELOAD}"
        if topic.skipped:
            yield f"{link.link}/{topic.topic}: {_describe_skipped(link, topic)}"


def _describe_skipped(link: LinkProgress, topic: TopicProgress) -> str:
    """Return how many records a transform has failed for, and where they are."""
    count = format_count(topic.skipped, "record")
    if topic.transform is not None and topic.transform.on_error is OnError.DEAD_LETTER:
        shown = f"isthmus quarantine list {link.link} {topic.topic}"
        return f"the transform has failed for {count} so far; {shown} counts dead letters, and how many were replayed"
    return f"the transform has failed for {count} so far, skipped for it"


def _tell_controllers(links: Sequence[LinkProgress]) -> None:
    """Print on stderr the links that no run works on, or that an operator has paused."""
    for link in links:
        if link.state is LinkState.PAUSED:
            console.print(Text(f"{link.link}: paused. Go on with it: isthmus resume {link.link}"))
        _tell_rules(link)
        if link.sync is not None:
            console.print(Text(printable(f"{link.link}: synchronous, {link.sync.described}")))
        for pause in told_of(link.pauses):
            console.print(Text(printable(f"{link.link}: {pause}")))
        controller = link.controller
        if controller.state is ControllerState.NONE:
            console.print(Text(f"{link.link}: no controller runs it. Start one: isthmus run"))
        named = controller.described or "its controller"
        if controller.state is ControllerState.THROTTLED:
            message = f"{named} runs it, and a client quota of {link.target} delays its writes"
            console.print(Text(printable(f"{link.link}: {message}. Raise it: isthmus doctor shows those that count")))
        elif controller.state is ControllerState.SILENT:
            heard = "" if controller.age_s is None else f", last heard {ago(controller.age_s)}"
            message = f"{named}{heard}, wrote no farewell: {_SILENT[controller.liveness]}"
            console.print(Text(printable(f"{link.link}: {message}. Look after it, or start another: isthmus run")))


def _tell_rules(link: LinkProgress) -> None:
    """Print on stderr the principals that rules keep out at the target against the intention, or do not keep out."""
    for namespace, kept in link.reserved.items():
        if (gap := _LET_IN.get(kept)) is not None:
            named = f"{namespace.kind}s {namespace} of {link.target} are reserved ({kept.in_words})"
            console.print(Text(printable(f"{link.link}: {named}: {gap}")))
    if link.unread:
        named = f"access rules keep readers out of {first_few(map(str, link.unread))} of {link.target} still"
        remedy = "isthmus run takes them back, if reservations is not paused"
        if link.sync is None:
            remedy = f"isthmus link update {link.link} --mode async takes them back"
        needs = f"that needs ALTER on the cluster {link.target}"
        console.print(Text(printable(f"{link.link}: {named}: {remedy}; {needs}"), style="yellow"))


async def _watch(reader: StatusReader, view: View, interval_s: float, by_partition: bool) -> None:
    async with reader:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                links = view.of(await reader.read())
                rows = status_rows(links, by_partition=by_partition, view=view)
                columns = status_columns(rows, by_partition=by_partition)
                live.update(Grid(rows, columns, is_live=True, wider="isthmus status -o wide"), refresh=True)
                await asyncio.sleep(interval_s)


async def _tell(reader: StatusReader, view: View, interval_s: float) -> None:
    """Print a line of JSON for each look, and flush it at once: its reader may wait for it."""
    async with reader:
        while True:
            links = view.of(await reader.read())
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            look = {"at": at, "links": [plain(progress) for progress in links]}
            sys.stdout.write(f"{json.dumps(look, default=str)}\n")
            sys.stdout.flush()
            await asyncio.sleep(interval_s)
