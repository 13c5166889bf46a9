"""`isthmus tree`: the distribution trees of the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from isthmus.cli.columns import Cells, Column
from isthmus.cli.config import configured
from isthmus.cli.groups import are_troubled, show_groups
from isthmus.cli.noun import Noun
from isthmus.cli.options import ConfigOption, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, console, print_tree, printable, render
from isthmus.cli.plan import show_plan
from isthmus.control.fabric import Fabric
from isthmus.errors import ConfigError, OutputFailed
from isthmus.model.drawing import svg_of
from isthmus.model.tree import Tree, TreeNode, TreeSettings

app = typer.Typer(cls=Noun, no_args_is_help=True, add_completion=False)

_COLUMNS: Final = (
    Column("distributor", Cells.NAME),
    Column("level", Cells.NUMBER),
    Column("bit"),
    Column("mask"),
    Column("target", Cells.NAME),
    Column("subtree", Cells.PROSE),
)


@app.callback()
def group() -> None:
    """Look at distribution trees: every message once on every cluster, and producers on all of them."""


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="[TREE]", help="The tree; all of them without it.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write a drawing of the tree to this file.")] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Draw trees, with the levels above each cluster and what runs there. No cluster is contacted."""
    found = _chosen(configured(path).trees, name)
    if svg is not None:
        if len(found) != 1:
            raise ConfigError("one tree is drawn at a time", hint="Name it: isthmus tree show TREE --svg FILE.")
        try:
            svg.write_text(svg_of(found[0].tree), encoding="utf-8")
        except OSError as error:
            raise OutputFailed(f"{svg} cannot be written: {error.strerror}", hint="Choose another file.") from None
    if not output.is_table:
        render([each.as_dict() for each in found], output, names=[each.tree.name for each in found])
        return
    for each in found:
        _draw(each.tree)


@app.command()
def plan(
    name: Annotated[str | None, typer.Argument(metavar="[TREE]", help="The tree; all of them without it.")] = None,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show what the distributors of trees would create and copy, and which positions of groups they would send and
    commit. Nothing is written.

    Exits with 1 when a distributor cannot be run, or some topics, partitions or groups cannot be distributed.
    """
    configuration = configured(path)
    names = {each.tree.name for each in _chosen(configuration.trees, name)}
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
        render({**found.as_dict(), "groups": [each.as_dict() for each in groups]}, output, names=lanes)
    if found.exit_code or are_troubled(groups):
        raise typer.Exit(found.exit_code or 1)


def _chosen(trees: tuple[TreeSettings, ...], name: str | None) -> tuple[TreeSettings, ...]:
    found = tuple(each for each in trees if name in (None, each.tree.name))
    if not found:
        names = ", ".join(each.tree.name for each in trees)
        raise ConfigError(
            f"the file has no tree {name}" if name else "the file has no trees",
            hint=f"It has {names}." if names else "Write them as trees: docs/trees.md.",
        )
    return found


def _draw(tree: Tree) -> None:
    print_tree(f"{tree.name}: level {tree.root.level}", list(_branches(tree.root, "")))
    digits = tree.root.level
    rows = [
        {
            "distributor": each.name,
            "level": each.level,
            "bit": f"{each.bit:0{digits}b}",
            "mask": f"{each.mask:0{digits}b}",
            "target": each.target,
            "subtree": ", ".join(each.leaves),
        }
        for each in tree.distributors
    ]
    render(rows, OutputFormat.TABLE, columns=_COLUMNS)
    hops = max(max(tree.hops(cluster).values()) for cluster in tree.clusters)
    told = f"{len(rows)} distributors, at most {hops} hops; from every cluster to every other it would take"
    console.print(Text(printable(f"{told} {tree.mesh_links} links")))


def _branches(node: TreeNode, path: str) -> list[tuple[str, str]]:
    """The paths of what is below a node, for people to look at."""
    found: list[tuple[str, str]] = []
    for number, child in enumerate(node.children, 1):
        if isinstance(child, TreeNode):
            inner = f"{path}/{number}"
            found += [(inner, f"level {child.level}"), *_branches(child, inner)]
        else:
            found.append((f"{path}/{child}", ""))
    return found
