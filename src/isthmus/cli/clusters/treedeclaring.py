"""The verbs of `isthmus tree` for trees that are declared on their clusters instead of written into the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from isthmus.cli.confirmation import YesOption, confirm
from isthmus.cli.options import ConfigOption, DeclaringDryRun, OutputOption, VerboseOption
from isthmus.cli.output import OutputFormat, Row, render
from isthmus.cli.saying import end_unread, notes_of, show_said, text_of
from isthmus.cli.setup.config import load_configuration
from isthmus.cli.tables.columns import Cells, Column
from isthmus.config.declared import changes_of, parse_assignment
from isthmus.config.declaredtree import TreeManifest, read_tree_manifest
from isthmus.errors import ConfigError
from isthmus.fabric.answers import DeclaredTree
from isthmus.fabric.fabric import Fabric
from isthmus.model.registers import SETTINGS
from isthmus.model.text.plain import plain

_Name = Annotated[str, typer.Argument(metavar="TREE", help="The tree.")]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of trees[] in the file, such as topics='[\"flights.*\"]'."),
]
_COLUMNS: Final = (
    Column("tree", Cells.NAME),
    Column("clusters", Cells.PROSE),
    Column("topics", Cells.PROSE),
    Column("note", Cells.PROSE, gives_way=1),
)


def create(
    name: Annotated[str | None, typer.Argument(metavar="TREE", help="The tree; with -f, in place of its name.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="All of it, as an entry of trees[] or as describe -o yaml prints it; - for stdin."
        ),
    ] = None,
    clusters: Annotated[
        str | None, typer.Option("--clusters", metavar="LISTS", help="Nested lists: '[[ams, fra], [lon, par]]'.")
    ] = None,
    settings: _Settings = None,
    no_validate: Annotated[
        bool, typer.Option("--no-validate", help="Declare it though clusters may not be ready for it.")
    ] = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Declare a tree of clusters of the file, once all of them were examined and are ready for it.

    It is written to all its clusters, and run by every isthmus run whose file has them under the same names. A tree of
    the file wins over a declared one of its name.
    """
    if file is not None:
        if clusters or settings:
            raise ConfigError("the file has all of it", hint="With -f give nothing but another name for the tree.")
        wanted = read_tree_manifest(text_of(file), str(file))
    elif name and clusters:
        wanted = TreeManifest(name=name, clusters=_lists(clusters), settings=_values(settings), cluster_ids={})
    else:
        raise ConfigError("a tree needs a name and --clusters", hint="Give them, or a file that has them: -f.")
    found = Fabric(load_configuration(path)).declared_trees.create(
        name or wanted.name,
        wanted.clusters,
        wanted.settings,
        cluster_ids=wanted.cluster_ids,
        validate=not no_validate,
        dry_run=dry_run,
    )
    _show(found, output, dry_run=dry_run)


def list_trees(
    deleted: Annotated[bool, typer.Option("--deleted", help="Those that were deleted too.")] = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show the trees that are declared on the clusters of the file, merged over all that answer.

    Clusters that do not are named; where none is known for that reason it ends with 1.
    """
    found, unread = Fabric(load_configuration(path)).declared_trees.read_with_problems(deleted=deleted)
    if output.is_table:
        render([_row(each) for each in found], output, columns=_COLUMNS)
    else:
        render([plain(each) for each in found], output, names=[each.declaration.name for each in found])
    end_unread(found, unread)


def describe(
    name: _Name,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Show all that was declared of a tree: who declared what, when, and on which cluster."""
    _show(Fabric(load_configuration(path)).declared_trees.describe(name), output)


def update(
    name: _Name,
    settings: _Settings = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to its default.")] = None,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """Change settings of a declared tree; the process that runs it follows within seconds.

    With some of the clusters away the change is written to the others; all agree once they can be reached. Clusters
    come and leave by isthmus tree add, remove and move.
    """
    values = changes_of(_values(settings), unset or ())
    if not values:
        raise ConfigError("nothing is to be changed", hint="Give --set or --unset.")
    _show(
        Fabric(load_configuration(path)).declared_trees.update(name, values, dry_run=dry_run), output, dry_run=dry_run
    )


def delete(
    name: _Name,
    yes: YesOption = False,
    dry_run: DeclaringDryRun = False,
    path: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
    _verbose: VerboseOption = 0,
) -> None:
    """End a declared tree: its distributors stop. Topics stay as they are, on all clusters."""
    trees = Fabric(load_configuration(path)).declared_trees
    if not yes and not dry_run:
        trees.describe(name, half_deleted=True)
        confirm(name, "delete the tree")
    _show(trees.delete(name, dry_run=dry_run), output, dry_run=dry_run)


def _lists(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(
            "--clusters is no list of clusters", hint="Write it like '[[ams, fra], [lon, par]]'."
        ) from None


def _values(settings: list[str] | None) -> dict[str, Any]:
    return dict(parse_assignment(each, "topics='[\"flights.*\"]'") for each in settings or ())


def _show(found: DeclaredTree, output: OutputFormat, *, dry_run: bool = False) -> None:
    if not output.is_table:
        render(plain(found), output, names=[found.declaration.name])
        return
    render([_row(found)], output, columns=_COLUMNS)
    show_said(found, lambda name: name.removeprefix(SETTINGS), dry_run=dry_run)


def _row(found: DeclaredTree) -> Row:
    shown = plain(found)
    return {
        "tree": found.declaration.name,
        "clusters": json.dumps(shown["clusters"]),
        "topics": ", ".join(shown.get("topics", ())) or "nothing",
        "note": "; ".join(notes_of(found)),
    }
