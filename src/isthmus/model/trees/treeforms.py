"""Distribution trees in plain values: the keys of what `isthmus tree show -o json` prints and REST answers."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from isthmus.model.trees.positions import OffsetFlags


class NumberedJson(TypedDict):
    """The numbers of the parts of a node, where that is not by place."""

    parts: NotRequired[list[int]]
    pair: NotRequired[list[int]]


class TreeNodeJson(NumberedJson):
    """An inner node of a tree as the file has it; a cluster is its alias."""

    level: int
    clusters: list[TreeNodeJson | str]


class DistributorJson(TypedDict):
    """What copies from a cluster to a subtree, and to which leaf of it."""

    name: str
    cluster: str
    level: int
    bit: int
    mask: int
    subtree: list[str]
    target: str


class TreeJson(TypedDict):
    """The clusters of a tree, and what copies between them."""

    tree: str
    level: int
    clusters: list[str]
    distributors: list[DistributorJson]
    mesh_links: int
    hops: dict[str, dict[str, int]]


class TreeSettingsJson(TreeJson):
    """A tree, and what it distributes."""

    topics: list[str]
    exclude: list[str]
    groups: list[str]
    margin_s: float
    offset_flags: OffsetFlags
    flags: Literal["producer-id", "header"]
    switch_after_s: float | None
    on_data_gap: Literal["stop", "continue"]
