"""`isthmus link`: links that are declared on their clusters instead of written into the file (KIP-986)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.links import promoting, recovering
from isthmus.cli.links.promoting import ExactMaps, GroupMaps, PrincipalMaps, maps_of
from isthmus.cli.noun import Noun
from isthmus.cli.options import (
    ConfigOption,
    DeclaringDryRun,
    KeepOption,
    LinksArgument,
    OutputOption,
    SuperUserOption,
    VerboseOption,
)
from isthmus.cli.output import OutputFormat, Row, render
from isthmus.cli.saying import end_unread, notes_of, show_said, tell, text_of
from isthmus.cli.setup.config import ask_fabric, load_configuration, load_with_declared
from isthmus.cli.several import each_shown
from isthmus.cli.steps import tell_step
from isthmus.cli.tables.columns import Cells, Column
from isthmus.config.declared import changes_of, setting
from isthmus.config.manifest import LinkManifest, read_manifest
from isthmus.errors import ConfigError
from isthmus.fabric.answers import DeclaredLink, Keeping
from isthmus.fabric.fabric import Fabric
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.links.declaration import ASYNC, said_name
from isthmus.model.namespace import NamespaceMap
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import plain

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)
app.command()(promoting.detach)
app.command()(promoting.promote)
app.command()(promoting.failover)
app.command()(promoting.reverse)
app.command()(recovering.recover)

_Name = Annotated[str, typer.Argument(metavar="LINK", help="The link.")]
_Maps = Annotated[
    list[str] | None,
    typer.Option("--map", help="Topics: local-:remote- has remote-* of the target follow local-* of the source."),
]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of links[] in the file, such as limits.bytes_per_s=50MiB."),
]

_Enforce = Annotated[
    bool,
    typer.Option("--enforce", help="Make access rules keep all others out of the topics and groups that follow."),
]

_COLUMNS: Final = (
    Column("link", Cells.NAME),
    Column("source", Cells.NAME),
    Column("target", Cells.NAME),
    Column("mode", gives_way=2),
    Column("attached", Cells.PROSE),
    Column("note", Cells.PROSE, gives_way=1),
)


@app.callback()
def group() -> None:
    """Declare links on their clusters: they are run by every isthmus run whose file has both clusters."""


@app.command()
def create(
    name: Annotated[str | None, typer.Argument(metavar="LINK", help="The link; with -f, in place of its name.")] = None,
    source: Annotated[str | None, typer.Option("--source", metavar="ALIAS", help="The cluster to read from.")] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="ALIAS", help="The cluster to write to.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="All of it from a file, as describe -o yaml prints it; - for stdin."),
    ] = None,
    maps: _Maps = None,
    exact: ExactMaps = None,
    groups: GroupMaps = None,
    principals: PrincipalMaps = None,
    mode: Annotated[str | None, typer.Option("--mode", help="How a link copies: async by default.")] = None,
    settings: _Settings = None,
    no_validate: Annotated[
        bool, typer.Option("--no-validate", help="Declare it though the clusters may not be ready for it.")
    ] = False,
    enforce: _Enforce = False,
    keep: KeepOption = None,
    super_user: SuperUserOption = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Declare a link between two clusters of the file, once both were examined and are ready for it.

    It is written to both clusters, so that operators of either side can change it, even while the clusters cannot hear
    each other. Namespaces that follow become reserved, and with --enforce closed by access rules, as by
    `isthmus namespace update --enforce`.
    """
    closing = Keeping.from_options(keep or (), has_super_user=super_user, is_enforced=enforce)
    chosen = maps_of(maps, exact, groups, principals)
    if file is not None:
        if source or target or chosen or mode or settings:
            raise ConfigError("the file has all of it", hint="With -f give nothing but another name for the link.")
        wanted = read_manifest(text_of(file), str(file))
    elif name and source and target:
        values = dict(map(setting, settings or ()))
        wanted = LinkManifest(
            name=name, source=source, target=target, maps=chosen, mode=mode or ASYNC, settings=values, cluster_ids={}
        )
    else:
        raise ConfigError("a link needs a name, --source and --target", hint="Give them, or a file that has them: -f.")
    found = Fabric(load_configuration(path)).declarations.create(
        name or wanted.name,
        source=wanted.source,
        target=wanted.target,
        maps=wanted.maps,
        mode=wanted.mode,
        settings=wanted.settings,
        cluster_ids=wanted.cluster_ids,
        validate=not no_validate,
        enforce=closing,
        dry_run=dry_run,
    )
    _show(found, output, dry_run=dry_run)
    if not found.declaration.maps and output.is_table:
        attach = f"isthmus link attach {found.declaration.name} --map local-:remote-"
        tell(f"nothing is attached, so nothing is copied: {attach} has remote-* of {wanted.target} follow")


@app.command("list")
def list_links(
    deleted: Annotated[bool, typer.Option("--deleted", help="Those that were deleted too.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the links that are declared on the clusters of the file, merged over all that answer.

    Clusters that do not are named; where none is known for that reason it ends with 1.
    """
    found, unread = Fabric(load_configuration(path)).declarations.read_with_problems(deleted=deleted)
    if output.is_table:
        render([_row(each) for each in found], output, columns=_COLUMNS)
    else:
        render([plain(each) for each in found], output, names=[each.declaration.name for each in found])
    end_unread(found, unread)


@app.command()
def describe(
    name: _Name,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show all that was declared of a link: who declared what, when, and on which cluster.

    Of a synchronous link a table is followed by where it stands, as isthmus status shows it.
    """
    found = Fabric(load_configuration(path)).declarations.describe(name)
    _show(found, output)
    if output.is_table and found.declaration.mode == SYNC:
        configuration = load_with_declared(path)
        if name in {each.name for each in configuration.links}:
            pair = ask_fabric(configuration, lambda fabric: fabric.synchrony(name))
            tell(f"synchronous, {pair.described}")


@app.command()
def update(
    name: LinksArgument,
    settings: _Settings = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to its default.")] = None,
    mode: Annotated[str | None, typer.Option("--mode", help="How the link copies: async or sync.")] = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept-semantics", help="Accept the abilities that both clusters have now, though one was downgraded."
        ),
    ] = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Change settings of a declared link; the process that runs it follows within seconds.

    With one of the clusters away the change is written to the other one; both agree once they can be reached.

    --mode sync, or --set mode=sync, has acknowledgements of producers that are connected to a gateway wait for the
    target. --mode async takes effect at once, and prints the guarantee that is given up.
    """
    values = changes_of(dict(map(setting, settings or ())), unset or ())
    if not values and mode is None and not accept:
        raise ConfigError("nothing is to be changed", hint="Give --set, --unset, --mode or --accept-semantics.")
    links = Fabric(load_configuration(path)).declarations

    def work(one: str) -> DeclaredLink:
        return links.update(one, settings=values, mode=mode, accept_semantics=accept, dry_run=dry_run)

    _each(name, work, output, dry_run=dry_run)


@app.command()
def attach(
    name: LinksArgument,
    maps: _Maps = None,
    exact: ExactMaps = None,
    groups: GroupMaps = None,
    principals: PrincipalMaps = None,
    enforce: _Enforce = False,
    keep: KeepOption = None,
    super_user: SuperUserOption = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have more namespaces of the target follow the source; they become reserved.

    With --enforce access rules keep all others out of them, as by `isthmus namespace update --enforce`.
    """
    closing = Keeping.from_options(keep or (), has_super_user=super_user, is_enforced=enforce)
    chosen = maps_of(maps, exact, groups, principals)
    if not chosen:
        raise ConfigError("no namespace is named", hint="Give --map, --map-exact, --group-map or --principal-map.")
    links = Fabric(load_configuration(path)).declarations
    _each(name, lambda one: links.attach(one, chosen, enforce=closing, dry_run=dry_run), output, dry_run=dry_run)


@app.command()
def reattach(
    name: LinksArgument,
    maps: _Maps = None,
    exact: ExactMaps = None,
    groups: GroupMaps = None,
    principals: PrincipalMaps = None,
    enforce: _Enforce = False,
    keep: KeepOption = None,
    super_user: SuperUserOption = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Attach namespaces again that were detached, all of them where none is named; --enforce as of attach."""
    closing = Keeping.from_options(keep or (), has_super_user=super_user, is_enforced=enforce)
    chosen = maps_of(maps, exact, groups, principals)
    links = Fabric(load_configuration(path)).declarations
    _each(name, lambda one: links.reattach(one, chosen, enforce=closing, dry_run=dry_run), output, dry_run=dry_run)


@app.command()
def delete(
    name: LinksArgument,
    yes: YesOption = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Detach everything and end a declared link. Topics stay as they are, and reserved namespaces reserved.

    As `isthmus link detach` it waits until no task writes to the attached topics.
    """
    links = Fabric(load_configuration(path)).declarations
    for one in () if yes or dry_run else name:
        links.describe(one, half_deleted=True)
        confirm(one, "delete the link")
    _each(name, lambda one: links.delete(one, on_step=tell_step, dry_run=dry_run), output, dry_run=dry_run)


def _each(names: Sequence[str], work: Callable[[str], DeclaredLink], output: OutputFormat, *, dry_run: bool) -> None:
    each_shown(names, output, work, lambda found: _show(found, output, dry_run=dry_run), plain)


def _show(found: DeclaredLink, output: OutputFormat, *, dry_run: bool = False) -> None:
    if not output.is_table:
        render(plain(found), output, names=[found.declaration.name])
        return
    render([_row(found)], output, columns=_COLUMNS)
    for each in found.parted or ():
        by = f"by {each.parted.by} " if each.parted.by else ""
        places = ", ".join(f"{one.partition} at {one.shared}" for one in each.partitions)
        tell(
            f"{each.topic} goes on with mapped offsets: recovered so {by}at {written_instant(each.parted.at_ms)}, "
            f"as both sides had parted (partition {places})"
        )
    if found.given_up:
        tell(found.given_up)
    show_said(found, said_name, dry_run=dry_run)


def _row(found: DeclaredLink) -> Row:
    declaration = found.declaration
    return {
        "link": declaration.name,
        "source": declaration.source.alias,
        "target": declaration.target.alias,
        "mode": declaration.mode,
        "attached": ", ".join(f"{_kind(each)}{each}" for each in declaration.maps) or "nothing",
        "note": "; ".join(notes_of(found)),
    }


def _kind(each: NamespaceMap) -> str:
    return "" if each.kind == "topic" else f"{each.kind} "
