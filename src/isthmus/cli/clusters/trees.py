"""`isthmus tree`: distribution trees, of the file and declared ones."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from isthmus.cli.clusters import treedeclaring, treeverifying
from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.links.groups import are_troubled, show_groups
from isthmus.cli.links.plan import show_plan
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, print_tree, printable, render
from isthmus.cli.setup.config import load_configuration, load_with_declared
from isthmus.cli.tables.columns import Cells, Column
from isthmus.errors import ConfigError, OutputFailed
from isthmus.fabric.answers import DistributorTarget, trees_named
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.model.configuration import Configuration
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count
from isthmus.model.trees.drawing import svg_of
from isthmus.model.trees.reshaping import Reshaping
from isthmus.model.trees.tree import Tree, TreeNode, TreeSettings

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)
app.command()(treedeclaring.create)
app.command("list")(treedeclaring.list_trees)
app.command()(treedeclaring.describe)
app.command()(treedeclaring.update)
app.command()(treedeclaring.delete)
app.command()(treeverifying.verify)

_COPIED: Final = Column("copied", Cells.NUMBER)
_COLUMNS: Final = (
    Column("distributor", Cells.NAME),
    Column("level", Cells.NUMBER),
    Column("bit"),
    Column("mask"),
    Column("target", Cells.NAME),
    Column("subtree", Cells.PROSE),
    _COPIED,
)

_CHANGE_COLUMNS: Final = (
    Column("distributor", Cells.NAME),
    Column("change"),
    Column("target", Cells.NAME),
    Column("subtree", Cells.PROSE),
)
_TARGET_COLUMNS: Final = (
    Column("distributor", Cells.NAME),
    Column("target", Cells.NAME),
    Column("goes over to", Cells.NAME),
    Column("in doubt", Cells.PROSE),
    Column("by itself", Cells.NAME, gives_way=2),
    Column("subtree", Cells.PROSE, gives_way=1),
)


@app.callback()
def group() -> None:
    """Look at distribution trees: every message once on every cluster, and producers on all of them."""


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="TREE", help="The tree; all of them without it.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write a drawing of the tree to this file.")] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Ask clusters what each distributor has copied, and show the tree of now.")
    ] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Draw trees, with the levels above each cluster and its distributors.

    No cluster is contacted for trees of the file, unless --counts asks how many messages each distributor has copied
    since it began. Where the file has no such tree, clusters are asked for declared ones.
    """
    configuration = load_with_declared(path) if counts else load_configuration(path)
    if not counts and not any(name in (None, each.tree.name) for each in configuration.trees):
        configuration = open_fabric(configuration, declared=True).configuration
    found = trees_named(configuration.trees, name)
    copied = _count_copied(configuration, {each.tree.name for each in found}) if counts else None
    if svg is not None:
        if len(found) != 1:
            raise ConfigError("one tree is drawn at a time", hint="Name it: isthmus tree show TREE --svg FILE.")
        try:
            svg.write_text(svg_of(found[0].tree, copied), encoding="utf-8")
        except OSError as error:
            raise OutputFailed(f"{svg} cannot be written: {error.strerror}", hint="Choose another file.") from None
    if not output.is_table:
        render([_show_settings(each, copied) for each in found], output, names=[each.tree.name for each in found])
        return
    for each in found:
        _draw(each.tree, copied)


@app.command()
def plan(
    name: Annotated[str | None, typer.Argument(metavar="TREE", help="The tree; all of them without it.")] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the topics that the distributors of trees would create and copy, and the positions of groups that they
    would send and commit. Nothing is written.

    Exits with 1 when a distributor cannot be run, or some topics, partitions or groups cannot be distributed; when no
    distributor can be run, with the code of the first reason.
    """
    configuration = load_with_declared(path)
    names = {each.tree.name for each in trees_named(configuration.trees, name)}
    links = tuple(link for link in configuration.links if link.tree in names)
    fabric = Fabric(replace(configuration, links=links))
    found = fabric.plan()
    groups = fabric.groups.plan() if any(link.groups.is_configured for link in links) else ()
    if output.is_table:
        show_plan(found, output)
        if groups:
            show_groups(groups, output)
    else:
        lanes = [f"{link.link}/{topic.topic}" for link in found.links for topic in link.topics]
        render({**plain(found), "groups": [plain(each) for each in groups]}, output, names=lanes)
    if found.exit_code or are_troubled(groups):
        raise typer.Exit(found.exit_code or 1)


@app.command()
def targets(
    name: Annotated[str | None, typer.Argument(metavar="TREE", help="The tree; all of them without it.")] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show to which leaf each distributor copies that has a choice, and which of them go over to another one."""
    _show(Fabric(load_with_declared(path)).trees.targets(name), output)


@app.command()
def switch(
    name: Annotated[str, typer.Argument(metavar="TREE", help="The tree.")],
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster whose distributor goes over.")],
    level: Annotated[int, typer.Argument(metavar="LEVEL", help="The level of the distributor.")],
    to: Annotated[str, typer.Option("--to", metavar="LEAF", help="The leaf of the subtree to copy to.")],
    force: Annotated[bool, typer.Option("--force", help="Do not wait for the present target: it is gone.")] = False,
    resend: Annotated[
        bool,
        typer.Option(
            "--resend", help="With --force: it stays away. Records that it may lack are sent to the other leaf."
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would become of it.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have the distributor of a cluster copy to another leaf of its subtree, while the tree runs.

    It is written into the ledger of that cluster. The process that runs the distributor stops it, waits until every
    leaf of the subtree has all messages sent before, and continues with the other leaf: no message is lost or comes
    twice,
    and each producer's order is kept. The present target takes the wish back. isthmus tree targets shows how far it is.

    With --force the switch does not wait for the present target. The present target is IN_DOUBT then: it gets messages
    that it may lack when it is back, and the other leaves get them late. No message is lost or comes twice, unless
    --resend has it sent to the other leaf as
    well: then those that the present target had may come twice.
    """
    if resend and not yes and not dry_run:
        confirm(f"{name}.{cluster}.{level}", "send again what its target may have: messages may come twice")
    found = Fabric(load_with_declared(path)).trees.switch(
        name, cluster, level, to, force=force, resend=resend, dry_run=dry_run
    )
    _show((found,), output)
    if output.is_table:
        way = f"goes over from {found.target} to {found.wanted}" if found.is_under_way else f"copies to {found.target}"
        suffix = "; nothing was changed" if dry_run else ""
        console.print(Text(printable(f"{found.distributor.name} {way}{suffix}")))


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="TREE", help="The tree.")],
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster that comes in; the file has it.")],
    above: Annotated[bool, typer.Option("--above", help="As a part of its own beside all the others.")] = False,
    beside: Annotated[str | None, typer.Option("--beside", metavar="CLUSTER", help="As the neighbour of this.")] = None,
    among: Annotated[
        str | None, typer.Option("--among", metavar="CLUSTER", help="As one more part of the node that this is in.")
    ] = None,
    level: Annotated[
        int | None, typer.Option("--level", help="The level of the new node, if not any; with --among of the node.")
    ] = None,
    without_left: Annotated[
        bool, typer.Option("--without-left", help="Accept that it gets nothing of clusters that have left.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would become of the tree.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have another cluster be in a tree that runs: it gets all that the others retain, and copies to them.

    The tree as it becomes is written into the ledgers of its clusters; every isthmus run whose file has all of them
    follows within seconds. All other distributors go on as they were. Write it into the file too: if the file differs
    from the former tree, the file wins.

    One that was in the tree before gets everything again: as long as it has topics of the tree it exits with 5.
    """
    if [above, beside is not None, among is not None].count(True) != 1:
        raise ConfigError("a new cluster needs a place", hint="Give --above, --beside CLUSTER or --among CLUSTER.")
    found = Fabric(load_configuration(path)).tree_changes.add(
        name, cluster, beside=beside, among=among, level=level, without_left=without_left, dry_run=dry_run
    )
    _show_change(found, output, dry_run=dry_run)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="TREE", help="The tree.")],
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster that leaves.")],
    force: Annotated[
        bool, typer.Option("--force", help="It is gone for good and is not asked: records that only it had are lost.")
    ] = False,
    gone: Annotated[
        list[str] | None,
        typer.Option("--gone", metavar="CLUSTER", help="With --force: this one is gone as well. Repeat it for others."),
    ] = None,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would become of the tree.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have a cluster leave a tree that runs, once nothing is lost by it: stop its producers first.

    A distributor that copies to it and has another leaf goes over to that one; and all that was produced on it has to
    be everywhere. As long as that is not so it exits with 5 and reports the missing condition: call it again. The
    cluster's topics stay there.

    With --force it does not wait for the cluster, which is gone for good. It shows the losses before it asks you. A
    distributor that copied to it leaves it and sends messages that the lost cluster may not have got to another leaf;
    they may come twice. The command is refused while the cluster answers. If it was cut off, or exits with 5, call it
    again.
    """
    changes = Fabric(load_configuration(path)).tree_changes
    if force and not (yes or dry_run):
        foreseen = changes.remove(name, cluster, force=True, gone=gone or (), dry_run=True)
        _tell_lost(foreseen)
    if not (yes or dry_run):
        confirm(cluster, f"have it leave the tree {name}{' for good' if force else ''}")
    found = changes.remove(name, cluster, force=force, gone=gone or (), dry_run=dry_run)
    if output.is_table and (yes or dry_run):
        _tell_lost(found)
    _show_change(found, output, dry_run=dry_run)


@app.command()
def move(
    name: Annotated[str, typer.Argument(metavar="TREE", help="The tree.")],
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster that goes to another place.")],
    beside: Annotated[str, typer.Option("--beside", metavar="CLUSTER", help="As the neighbour of this.")],
    level: Annotated[int | None, typer.Option("--level", help="The level of the new node, if not any.")] = None,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would become of the tree.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Have a cluster be at another place of a tree that runs: it leaves, and comes back beside another one.

    It leaves as by remove. Then its topics of the tree have to be deleted there: their messages would come everywhere
    once more. All of them come back from its new neighbour. As long as one of these is not so it exits with 5 and
    reports the pending condition: call it again, and it resumes. All other distributors go on as they were.
    """
    changes = Fabric(load_configuration(path)).tree_changes
    if not (yes or dry_run):
        confirm(cluster, f"have it leave the tree {name}, and come back beside {beside}")
    found = changes.move(name, cluster, beside=beside, level=level, dry_run=dry_run)
    _show_change(found, output, dry_run=dry_run)


def _tell_lost(found: Reshaping) -> None:
    """Print what is lost with a cluster that leaves by force."""
    if found.loss is not None:
        for sentence in found.loss.sentences(found.cluster, found.after.name):
            console.print(Text(printable(sentence)))


def _show_change(found: Reshaping, output: OutputFormat, *, dry_run: bool) -> None:
    if not output.is_table:
        render(plain(found), output, names=[found.after.name])
        return
    changes = (("begins", found.begun), ("ends", found.ended))
    rows = [
        {"distributor": each.name, "change": change, "target": each.target, "subtree": ", ".join(each.leaves)}
        for change, distributors in changes
        for each in distributors
    ]
    render(rows, output, columns=_CHANGE_COLUMNS)
    beginning = "nothing was changed; clusters would be" if dry_run else "clusters are now"
    console.print(Text(printable(f"{found.after.name}: {beginning} {json.dumps(plain(found)['after'])}")))


def _show(found: tuple[DistributorTarget, ...], output: OutputFormat) -> None:
    if not output.is_table:
        render([plain(each) for each in found], output, names=[each.distributor.name for each in found])
        return
    rows = [
        {
            "distributor": each.distributor.name,
            "target": each.target,
            "goes over to": each.wanted if each.is_under_way else "",
            "in doubt": ", ".join(
                f"{doubt.leaf} (up to {doubt.records_max}{', gets them now' if doubt.leaf == each.finishes else ''})"
                for doubt in each.doubts
            ),
            "by itself": each.by_itself,
            "subtree": ", ".join(each.distributor.leaves),
        }
        for each in found
    ]
    render(rows, output, columns=_TARGET_COLUMNS)
    for problem in dict.fromkeys(each.problem for each in found if each.problem is not None):
        console.print(Text(printable(f"{problem.message}\n  {problem.hint}")))


def _count_copied(configuration: Configuration, trees: Collection[str]) -> dict[str, int]:
    """Return how many messages each distributor has copied, for those whose targets report it."""
    links = tuple(link for link in configuration.links if link.tree in trees)
    known = {each.link: each.copied_records for each in Fabric(replace(configuration, links=links)).status()}
    return {name: count for name, count in known.items() if count is not None}


def _show_settings(settings: TreeSettings, copied: Mapping[str, int] | None) -> dict[str, Any]:
    shown = plain(settings)
    if copied is None:
        return dict(shown)
    counted = [{**each, "copied_records": copied.get(each["name"])} for each in shown["distributors"]]
    return {**shown, "distributors": counted}


def _draw(tree: Tree, copied: Mapping[str, int] | None) -> None:
    print_tree(f"{tree.name}: level {tree.root.level}", list(_branches(tree, tree.root, "", copied)))
    digits = tree.root.level
    rows: list[dict[str, object]] = [
        {
            "distributor": each.name,
            "level": each.level,
            "bit": f"{each.bit:0{digits}b}",
            "mask": f"{each.mask:0{digits}b}",
            "target": each.target,
            "subtree": ", ".join(each.leaves),
            **({} if copied is None else {"copied": copied.get(each.name, "unknown")}),
        }
        for each in tree.distributors
    ]
    render(rows, OutputFormat.TABLE, columns=[each for each in _COLUMNS if copied is not None or each != _COPIED])
    hops = max(max(tree.hops(cluster).values()) for cluster in tree.clusters)
    message = f"{len(rows)} distributors, at most {hops} hops; from every cluster to every other it would take"
    console.print(Text(printable(f"{message} {tree.mesh_links} links")))


def _branches(tree: Tree, node: TreeNode, path: str, copied: Mapping[str, int] | None) -> list[tuple[str, str]]:
    """Yield the paths below a node, for people; with counts also where each cluster copies to."""
    found: list[tuple[str, str]] = []
    for number, child in enumerate(node.children, 1):
        if isinstance(child, TreeNode):
            inner = f"{path}/{number}"
            found += [(inner, f"level {child.level}"), *_branches(tree, child, inner, copied)]
        else:
            found.append((f"{path}/{child}", ""))
            found += [
                (
                    f"{path}/{child}/{each.name}",
                    f"to {each.target}: "
                    f"{format_count(copied[each.name], 'message') if each.name in copied else 'unknown'}",
                )
                for each in tree.distributors
                if copied is not None and each.cluster == child
            ]
    return found
