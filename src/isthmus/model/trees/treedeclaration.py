"""A tree as operators declared it on its clusters, beside those that the configuration file has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from isthmus.errors import ConfigError
from isthmus.model.registers import Declarable
from isthmus.model.text.plain import Flat, computed_field
from isthmus.model.trees.tree import TreeNode, node_of

CLUSTERS: Final = "clusters"
MEMBERS: Final = "members"
"""The id of each cluster, by its name in the tree: distributors have these names everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDeclaration(Declarable):
    """All statements about a tree, and the declaration that they result in."""

    KIND: ClassVar[str] = "tree"

    @property
    def is_whole(self) -> bool:
        """Whether it names the clusters of the tree, so that it can be used here: others may write to ledgers."""
        members = self.value(MEMBERS)
        if not isinstance(members, Mapping) or not all(isinstance(each, str) for each in members.values()):
            return False
        try:
            return bool(self.root.leaves())
        except ConfigError:
            return False

    @property
    def root(self) -> TreeNode:
        """The clusters as they were declared; later changes of the running tree are in another document."""
        return node_of(self.value(CLUSTERS))

    @computed_field(before="is_deleted")
    def members(self) -> Annotated[Mapping[str, str], "cluster_ids"]:
        """The ids of the clusters that were declared, by alias."""
        return dict(self.value(MEMBERS))

    @computed_field(before="members")
    def section(self) -> Flat[dict[str, Any]]:
        """The declaration in the form of the file's `trees[]`. A value that is no key there is left as it is."""
        found: dict[str, Any] = {}
        for key, value in sorted(self.settings.items()):
            above, dot, last = key.rpartition(".")
            part = found.setdefault(above, {}) if dot else found
            if isinstance(part, dict):
                part[last] = value
            else:
                found[key] = value
        fixed = {"name": self.name, "clusters": self.value(CLUSTERS)}
        return {**fixed, **found, **fixed}

    @computed_field(before="section")
    def clusters(self) -> Any:
        return self.value(CLUSTERS)


def flat_settings(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested sections as dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat_settings(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return found
