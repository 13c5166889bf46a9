"""A declared tree in the form of the configuration file, and the file that declares one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from isthmus.config.declared import as_said, as_written
from isthmus.config.reading.document import ConfigDocument, format_path
from isthmus.config.reading.problems import Mistake, refuse, shape_problems
from isthmus.config.sections.section import Section
from isthmus.config.sections.trees import TreeSection
from isthmus.config.treerules import tree_rules, trees_of
from isthmus.errors import ConfigError
from isthmus.model.trees.tree import TreeSettings
from isthmus.model.trees.treedeclaration import TreeDeclaration, flat_settings

_FIXED: Final = ("name", "clusters")
_IDS: Final = "cluster_ids"
_PASSED_OVER: Final = ("deleted", "written_by_file", "behind", "away", "unusable", "said", "overruled")
"""The fields that describe the state of a tree, and are no part of its declaration."""


class _Trees(Section):
    """The part of the file about trees."""

    trees: tuple[TreeSection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeManifest:
    """The declaration in a file: settings by dotted key, and the ids that clusters have to have, by alias."""

    name: str
    clusters: Any
    settings: Mapping[str, Any]
    cluster_ids: Mapping[str, str]


def read_tree_manifest(text: str, file: str) -> TreeManifest:
    """Read the tree that a file declares: an entry of `trees:`, or the output of `isthmus tree describe -o yaml`.

    :raises ConfigError: It is none: the message says where.
    """
    document = ConfigDocument.parse(text, file)
    root: Any = document.root
    ids: Any = {}
    if isinstance(root, Mapping):
        ids = root.get(_IDS) or {}
        root = {key: value for key, value in root.items() if key not in (_IDS, *_PASSED_OVER)}
    if not isinstance(ids, Mapping) or not all(isinstance(one, str) for one in ids.values()):
        mistake = Mistake((_IDS,), "has no ids of clusters by alias", "Leave it out where any clusters will do.")
        refuse([mistake], document)
    refuse(_mistakes(root), document)
    values = as_said(root)
    return TreeManifest(
        name=values["name"],
        clusters=values["clusters"],
        settings=flat_settings({key: each for key, each in values.items() if key not in _FIXED and each is not None}),
        cluster_ids=dict(ids),
    )


def declared_tree(declaration: TreeDeclaration, aliases: Collection[str]) -> TreeSettings:
    """Return the declared tree, of clusters with these aliases.

    :raises ConfigError: Its settings cannot be used.
    """
    values = as_written(declaration.section)
    for problem in _mistakes(values, frozenset(aliases)):
        raise ConfigError(f"tree {declaration.name}: {format_path(problem.path)} {problem.message}", hint=problem.hint)
    (settings,) = trees_of(_Trees.model_validate({"trees": (values,)}).trees)
    return settings


def check_tree_keys(keys: Collection[str]) -> None:
    """Check that these keys of a declared tree may be changed.

    :raises ConfigError: One of them it may not.
    """
    for key in keys:
        if key.split(".")[0] in _FIXED:
            hint = "isthmus tree add, remove and move change the clusters of a tree that runs."
            raise ConfigError(f"{key} of a declared tree cannot be set", hint=hint)


def _mistakes(values: object, aliases: frozenset[str] | None = None) -> Iterator[Mistake]:
    """Yield the mistakes in an entry of `trees:`, by paths within it; clusters are known by `aliases`, if given."""
    try:
        found = tree_rules(_Trees.model_validate({"trees": (values,)}).trees, aliases)
    except ValidationError as error:
        found = shape_problems(error)
    for each in found:
        yield replace(each, path=each.path[2:])
