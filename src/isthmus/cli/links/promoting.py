"""`isthmus link promote` and `isthmus link failover`: make a follower writable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, printable, render
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.several import each_shown
from isthmus.cli.steps import tell_step
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError, IsthmusError
from isthmus.fabric.fabric import Fabric
from isthmus.model.gateways.moves import Clients
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.promotion import LeftPartition, Promotion, torn_in_words
from isthmus.model.namespace import NamespaceMap
from isthmus.model.text.duration import parse_duration
from isthmus.model.text.elapsed import ago
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count

_Names = Annotated[list[str], typer.Argument(metavar="LINK", help="The declared link, or several.")]
_Maps = Annotated[
    list[str] | None, typer.Option("--map", help="Only these namespaces, as local-:remote-; else all of them.")
]
ExactMaps = Annotated[
    list[str] | None,
    typer.Option("--map-exact", help="One topic: local-clicks:remote-clicks, without local-clicks2."),
]
GroupMaps = Annotated[
    list[str] | None, typer.Option("--group-map", help="Consumer groups, as --map: app-:app- or just app-.")
]
PrincipalMaps = Annotated[
    list[str] | None,
    typer.Option("--principal-map", help="Whose access rules follow: User:local-:User:remote- or just User:team-."),
]
_Timeout = Annotated[str, typer.Option("--timeout", help="How long any wait may take: 30s, 5m.")]
_Force = Annotated[
    bool, typer.Option("--force", help="Move clients of gateways whatever speaks against it (docs/gateway.md).")
]
_Leave = Annotated[
    bool, typer.Option("--leave-clients", help="Clients of gateways stay at the source; else they go with the topics.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show how everything stands.")]
_COLUMNS: Final = (
    Column("topic", Cells.NAME),
    Column("partition", Cells.NUMBER),
    Column("source_end", Cells.NUMBER),
    Column("target_end", Cells.NUMBER),
    Column("missing_records", Cells.NUMBER),
    Column("heard"),
    Column("ends_within"),
    Column("state"),
)


def detach(
    name: _Names,
    maps: _Maps = None,
    exact: ExactMaps = None,
    groups: GroupMaps = None,
    principals: PrincipalMaps = None,
    timeout: _Timeout = "1m",
    yes: YesOption = False,
    dry_run: _DryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have namespaces follow no more, and wait until nothing writes to them. The namespaces stay reserved, and their
    topics stay as they are.

    `isthmus link reattach` has them follow again.
    """
    fabric, timeout_s = Fabric(load_configuration(path)), parse_duration(timeout)
    chosen = maps_of(maps, exact, groups, principals)
    for one in () if yes or dry_run else name:
        confirm(one, "have its namespaces follow no more")

    def work(one: str) -> Promotion:
        with _report_steps() as (begun, progressed):
            promoter = fabric.link(one).promoter(chosen, timeout_s=timeout_s, on_step=begun, on_progress=progressed)
            return promoter.detach(dry_run=dry_run)

    _each(name, work, output, dry_run=dry_run)


def promote(
    name: _Names,
    maps: _Maps = None,
    exact: ExactMaps = None,
    groups: GroupMaps = None,
    principals: PrincipalMaps = None,
    quiet: Annotated[str, typer.Option("--quiet", help="The required time without any write to the source.")] = "5s",
    max_lag: Annotated[
        int, typer.Option("--max-lag", min=0, help="How many records of the source may stay behind, for good.")
    ] = 0,
    timeout: _Timeout = "1m",
    force: _Force = False,
    leave_clients: _Leave = False,
    yes: YesOption = False,
    dry_run: _DryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have namespaces follow no more, and be written to, once they hold all that the source has.

    Stop the producers at the source first. The command waits until no producer writes there, everything is copied and
    all consumer groups are carried; else it ends with 5, and nothing was changed but positions of groups. An
    interrupted
    promotion goes on when the command is given again. Several links are promoted as one: none is changed unless all
    could be. Clients of gateways before the source need not be stopped: they go on at the target.
    """
    quiet_s, timeout_s = parse_duration(quiet), parse_duration(timeout)
    names = list(dict.fromkeys(name))
    for one in () if yes or dry_run else names:
        confirm(one, "have its namespaces follow no more, and be written to")
    with _report_steps() as (begun, progressed):
        found = Fabric(load_configuration(path)).promote(
            names,
            maps_of(maps, exact, groups, principals),
            quiet_s=quiet_s,
            timeout_s=max(timeout_s, quiet_s),
            max_lag=max_lag,
            clients=_clients(force=force, leave=leave_clients),
            on_step=begun,
            on_progress=progressed,
            dry_run=dry_run,
        )

    def result(one: str) -> Promotion:
        became = found[one]
        if isinstance(became, IsthmusError):
            raise became
        return became

    _each(names, result, output, dry_run=dry_run)


def reverse(
    name: _Names,
    as_link: Annotated[
        list[str],
        typer.Option(
            "--as", metavar="LINK", help="The name of the new link, the way back; one for each link, in turn."
        ),
    ],
    quiet: Annotated[str, typer.Option("--quiet", help="The required time without any write to the source.")] = "10s",
    timeout: _Timeout = "1m",
    force: _Force = False,
    leave_clients: _Leave = False,
    yes: YesOption = False,
    dry_run: _DryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have leader and follower change places: promote everything, and have the source follow from then on.

    Stop producers and consumers at the source first: this ends with 5 and names who is at work there. Afterwards they
    go on at the target, where they left off. The link ends, and a new one leads back. Several links are reversed one
    after the other, each by itself. Clients of gateways before the source need not be stopped: they go on at the
    target.
    """
    quiet_s = parse_duration(quiet)
    timeout_s = max(parse_duration(timeout), quiet_s)
    clients = _clients(force=force, leave=leave_clients)
    back = _ways_back(name, as_link)
    fabric = Fabric(load_configuration(path))
    for one in () if yes or dry_run else back:
        confirm(one, "have leader and follower change places")

    def work(one: str) -> Promotion:
        with _report_steps() as (begun, progressed):
            promoter = fabric.link(one).promoter(
                quiet_s=quiet_s, timeout_s=timeout_s, clients=clients, on_step=begun, on_progress=progressed
            )
            return promoter.reverse(back[one], dry_run=dry_run)

    def show(found: Promotion) -> None:
        _show(found, output, dry_run=dry_run)
        if not dry_run:
            _tell(f"link {back[found.link]} has the former source follow from now on")

    each_shown(list(back), output, work, show, plain)


def _ways_back(links: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the name of the new link for each.

    :raises ConfigError: There are not as many names as links, or one of either is given twice.
    """
    if len(links) != len(names):
        message = f"{format_count(len(links), 'link')} and {format_count(len(names), 'name')} for the ways back"
        raise ConfigError(message, hint="Give --as once for each link, in the same order: reverse A B --as A2 --as B2.")
    for given in (links, names):
        twice = [one for one in given if given.count(one) > 1]
        if twice:
            raise ConfigError(f"{twice[0]} is named twice", hint="Each link and each new name is given once.")
    return dict(zip(links, names, strict=True))


def failover(
    name: _Names,
    maps: _Maps = None,
    exact: ExactMaps = None,
    groups: GroupMaps = None,
    principals: PrincipalMaps = None,
    timeout: _Timeout = "1m",
    leave_clients: _Leave = False,
    yes: YesOption = False,
    dry_run: _DryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have namespaces follow no more, and be written to, without the source: for when it is lost.

    Nothing is written to the source, and its records are not waited for: the command prints how many records may be
    missing here, as far as the source was heard, and for how long it was not heard; or that this is unknown. If the
    source
    answers after all, that is reported too, as are partitions that end within a committed transaction, with its
    producer. Groups stay where they were carried to. Clients of gateways before the source go on at the target.
    """
    fabric, timeout_s = Fabric(load_configuration(path)), parse_duration(timeout)
    chosen = maps_of(maps, exact, groups, principals)

    def work(one: str, *, dry_run: bool = dry_run) -> Promotion:
        with _report_steps() as (begun, progressed):
            promoter = fabric.link(one).promoter(
                chosen,
                timeout_s=timeout_s,
                clients=_clients(force=False, leave=leave_clients),
                on_step=begun,
                on_progress=progressed,
            )
            return promoter.failover(dry_run=dry_run)

    for one in () if yes or dry_run else name:
        _tell(work(one, dry_run=True).missing_in_words)
        confirm(one, "give up the missing records")
    _each(name, work, output, dry_run=dry_run)


@contextmanager
def _report_steps() -> Iterator[tuple[Callable[[str], None], Callable[[int, int], None]]]:
    """Report each step on stderr, and on a terminal by a bar how many partitions have finished it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("partitions", total=None, visible=False)

        def begin_step(step: str) -> None:
            tell_step(step)
            bars.reset(bar, total=None, visible=False)

        def show_progress(done: int, total: int) -> None:
            bars.update(bar, completed=done, total=total, visible=total > 0)

        yield begin_step, show_progress


def maps_of(
    maps: Iterable[str] | None,
    exact: Iterable[str] | None,
    groups: Iterable[str] | None,
    principals: Iterable[str] | None,
) -> tuple[NamespaceMap, ...]:
    """Return the namespaces that a command line names."""
    return (
        *(NamespaceMap.parse(text) for text in maps or ()),
        *(NamespaceMap.parse(text, is_exact=True) for text in exact or ()),
        *(NamespaceMap.parse(text, "group") for text in groups or ()),
        *(NamespaceMap.parse(text, "principal") for text in principals or ()),
    )


def _each(names: Sequence[str], work: Callable[[str], Promotion], output: OutputFormat, *, dry_run: bool) -> None:
    each_shown(names, output, work, lambda found: _show(found, output, dry_run=dry_run), plain)


def _show(found: Promotion, output: OutputFormat, *, dry_run: bool) -> None:
    if not output.is_table:
        render(plain(found), output, names=[str(each.target) for each in found.namespaces])
        return
    rows = [
        {
            **plain(each),
            "heard": _last_heard(each),
            "ends_within": torn_in_words(each.ends_within),
        }
        for each in found.partitions
    ]
    render(rows, output, columns=_COLUMNS)
    if found.groups:
        groups = [{"group": group, "standing": standing} for group, standing in sorted(found.groups.items())]
        render(groups, output, columns=(Column("group", Cells.NAME), Column("standing")))
    if found.is_done and not found.partitions:
        _tell(
            "it was done before: isthmus provenance TOPIC shows the origin of the records, and how many may be missing"
        )
        if found.acknowledged is not None:
            _tell(found.acknowledged.in_words)
    else:
        _tell(found.missing_in_words)
    for each in found.aborted:
        _tell(format_aborted(each, would=dry_run))
    for each in found.committed:
        _tell(format_committed(each, would=dry_run))
    for each in found.aborted_at_source:
        _tell(f"at the source: {format_aborted(each)}")
    for note in found.notes:
        _tell(f"{note.message}. {note.hint}")
    namespaces = ", ".join(str(each.target) for each in found.namespaces)
    after = "follows no more, and stays reserved" if found.verb == "detach" else "can be written to"
    if found.gateways:
        _tell(_describe_moved_clients(found, would=dry_run))
    _tell("nothing was changed" if dry_run else f"{namespaces}: {after}")


def _clients(*, force: bool, leave: bool) -> Clients:
    """Return how to treat clients of gateways.

    :raises ConfigError: Both is asked for.
    """
    if force and leave:
        raise ConfigError("clients cannot be moved and left", hint="Give either --force or --leave-clients.")
    return "leave" if leave else "force" if force else "move"


def _describe_moved_clients(found: Promotion, *, would: bool) -> str:
    """Describe the move of clients of gateways, for people."""
    paused = "" if found.paused_s is None else f"; no request passed for {found.paused_s:.1f} s"
    return f"clients of {', '.join(found.gateways)} {'would go' if would else 'went'} with the topics{paused}"


def _last_heard(left: LeftPartition) -> str:
    if left.source_age_s is None:
        return "never" if left.source_end < 0 else "unknown"
    return ago(left.source_age_s)


def format_aborted(transaction: OpenTransaction, *, would: bool = False) -> str:
    """Return a line about a transaction that was open when none should be."""
    held, verb = format_count(transaction.held_records, "record"), "would abort" if would else "aborted"
    return f"{verb} the transaction of {transaction.owner} in {transaction.topic}-{transaction.partition}, {held}"


def format_committed(transaction: OpenTransaction, *, would: bool = False) -> str:
    """Return a line about a transaction that was open, and has its end in another partition."""
    where, verb = f"{transaction.topic}-{transaction.partition}", "would commit" if would else "committed"
    return f"{verb} the transaction of {transaction.owner} in {where}, as the source has committed it"


def _tell(text: str) -> None:
    console.print(Text(printable(text)))
