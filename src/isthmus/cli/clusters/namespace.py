"""`isthmus namespace`: parts of a cluster's names that follow, lead or are reserved (KIP-986)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.links.promoting import format_aborted
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, DeclaringDryRun, KeepOption, OutputOption, SuperUserOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, console, printable, render
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError
from isthmus.fabric.answers import Keeping, NamespaceReport
from isthmus.fabric.fabric import Fabric, Namespaces
from isthmus.model.namespace import Namespace
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import plain

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)


class KindOption(enum.StrEnum):
    """The kind of the names in a namespace."""

    TOPIC = "topic"
    GROUP = "group"
    PRINCIPAL = "principal"


_Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="The alias of the cluster.")]
_Prefix = Annotated[
    str, typer.Argument(metavar="PREFIX", help='The prefix of its names; "" for all that begin with no underscore.')
]
_Kind = Annotated[KindOption, typer.Option("--kind", help="The kind of names that it holds.")]
_Exact = Annotated[bool, typer.Option("--exact", help="Only the one name, not what begins with it.")]

_NAMED_MAX: Final = 10
_COLUMNS: Final = (
    Column("kind"),
    Column("namespace", Cells.NAME),
    Column("state"),
    Column("members", Cells.NUMBER),
    Column("attached", Cells.PROSE),
    Column("overlaps", Cells.PROSE, gives_way=1),
)


@app.callback()
def group() -> None:
    """Declare namespaces of a cluster: all topics, groups or principals whose names begin with a prefix."""


@app.command()
def create(
    cluster: _Cluster,
    prefix: _Prefix,
    kind: _Kind = KindOption.TOPIC,
    reserved: Annotated[bool, typer.Option("--reserved", help="Only a link may write to it.")] = False,
    exact: _Exact = False,
    async_only: Annotated[bool, typer.Option("--async-only", help="Keep it out of synchronous links.")] = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Declare a namespace. Its kind and its prefix stay as they are."""
    namespace = Namespace.of(prefix, kind.value, is_exact=exact)
    found = _of(cluster, path).create(namespace, reserved=reserved, async_only=async_only, dry_run=dry_run)
    _show(found, output, dry_run=dry_run)


@app.command("list")
def list_namespaces(
    cluster: _Cluster,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the namespaces that are declared on a cluster."""
    found = _of(cluster, path).all()
    if output.is_table:
        render([_row(each) for each in found], output, columns=_COLUMNS)
    else:
        render([plain(each) for each in found], output, names=[str(each.namespace) for each in found])


@app.command()
def describe(
    cluster: _Cluster,
    prefix: _Prefix,
    kind: _Kind = KindOption.TOPIC,
    exact: _Exact = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show a namespace: its members, the namespaces that it follows or leads, and the authors of its declarations."""
    _show(_of(cluster, path).describe(Namespace.of(prefix, kind.value, is_exact=exact)), output)


@app.command()
def update(
    cluster: _Cluster,
    prefix: _Prefix,
    kind: _Kind = KindOption.TOPIC,
    exact: _Exact = False,
    reserved: Annotated[bool | None, typer.Option("--reserved/--no-reserved", help="Reserve or release it.")] = None,
    async_only: Annotated[
        bool | None, typer.Option("--async-only/--no-async-only", help="Keep it out of synchronous links.")
    ] = None,
    enforce: Annotated[
        bool | None,
        typer.Option("--enforce/--no-enforce", help="Have access rules keep others out, or take these rules back."),
    ] = None,
    keep: KeepOption = None,
    super_user: SuperUserOption = False,
    yes: YesOption = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Reserve a namespace or release it. One that follows stays reserved.

    With --enforce it is reserved, and another access rule denies writing to each principal that a rule allows to write
    there;
    reading stays as it is. These rules are remembered, and go when it is released, promoted or deleted.
    """
    if reserved is None and async_only is None and enforce is None:
        raise ConfigError("nothing is to be changed", hint="Give --reserved, --enforce or --async-only.")
    closing = Keeping.from_options(keep or (), has_super_user=super_user, is_enforced=enforce, is_reserved=reserved)
    namespace, namespaces = Namespace.of(prefix, kind.value, is_exact=exact), _of(cluster, path)
    if (enforce is not None or reserved is False) and not (yes or dry_run):
        confirm(str(namespace), "release it" if reserved is False else "change who may write there")
    if reserved is not None or async_only is not None:
        found = namespaces.update(namespace, reserved=reserved, async_only=async_only, dry_run=dry_run)
    if closing is not None:
        found = namespaces.enforce(
            namespace, keep=closing.principals, super_user=closing.has_super_user, dry_run=dry_run
        )
    elif enforce is False and reserved is not False:
        # A namespace that is released has no rules any more.
        found = namespaces.relax(namespace, dry_run=dry_run)
    _show(found, output, dry_run=dry_run)


@app.command()
def delete(
    cluster: _Cluster,
    prefix: _Prefix,
    kind: _Kind = KindOption.TOPIC,
    exact: _Exact = False,
    yes: YesOption = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Take back a namespace that is attached to no link. Its topics, groups or principals stay.

    If it was reserved, transactions that are open in its topics are aborted first, and named.
    """
    namespace = Namespace.of(prefix, kind.value, is_exact=exact)
    if not (yes or dry_run):
        confirm(str(namespace), f"have it declared no more on {cluster}")
    found = _of(cluster, path).delete(namespace, dry_run=dry_run)
    if output.is_table:
        _tell_ended(found)
        _tell(f"namespace {found.namespace} of {cluster} {'would be' if dry_run else 'is'} declared no more")
    else:
        _show(found, output)


def _of(cluster: str, path: ConfigOption) -> Namespaces:
    return Fabric(load_configuration(path)).cluster(cluster).namespaces


def _show(found: NamespaceReport, output: OutputFormat, *, dry_run: bool = False) -> None:
    fields = plain(found)
    if not output.is_table:
        render(fields, output, names=[str(found.namespace)])
        return
    render([_row(found)], output, columns=_COLUMNS)
    statements = [
        {"said": each.name, "value": str(each.decoded), "by": each.by, "at": written_instant(each.at_ms)}
        for each in found.registers
    ]
    render(statements, output, columns=(Column("said", Cells.NAME), Column("value"), Column("by"), Column("at")))
    if found.members:
        render([{"member": name} for name in found.members], output, columns=(Column("member", Cells.NAME),))
    _tell_ended(found)
    if found.problem is not None:
        _tell(f"members: {found.problem.in_full}")
    _tell_left(found)
    _tell_force(fields["in_force"])
    if dry_run:
        _tell("nothing was changed")


def _tell_ended(found: NamespaceReport) -> None:
    for transaction in found.aborted:
        _tell(format_aborted(transaction))
    for each in found.in_doubt:
        _tell(each.in_words)


def _tell_left(found: NamespaceReport) -> None:
    for reason in found.waits_for[:_NAMED_MAX]:
        _tell(f"{found.state}: {reason}")
    if len(found.waits_for) > _NAMED_MAX:
        _tell(f"{found.state}: and {len(found.waits_for) - _NAMED_MAX} more (-o json has all)")


def _tell_force(force: object) -> None:
    if isinstance(force, Mapping) and force["closed"]:
        _tell("no access rule admits other principals")
    elif isinstance(force, Mapping) and "problem" in force:
        _tell(f"access rules keep no principal out: {force['problem']['message']}")
    elif isinstance(force, Mapping):
        _tell(f"access rules let others in: {', '.join(force['open'])}; isthmus namespace update --enforce denies it")


def _row(found: NamespaceReport) -> Row:
    return {
        "kind": found.namespace.kind,
        "namespace": str(found.namespace),
        "state": found.state.value if found.kept_by is None else f"{found.state} ({found.kept_by.in_words})",
        "members": None if found.members is None else len(found.members),
        "attached": ", ".join(
            f"{'leads' if each.leads else 'follows'} {each.other} of {each.other_cluster} ({each.link})"
            for each in found.attached
        ),
        "overlaps": ", ".join(map(str, found.overlapping)),
    }


def _tell(text: str) -> None:
    console.print(Text(printable(text)))
