"""A distribution tree (Axual's model): clusters as leaves, and what each of them copies to whom.

Inner nodes are only conceptual. Each has a level that is above all levels below it: stated, or its height. On every
cluster a distributor runs for every level above it, and copies to each of the other subtrees of that node: to one leaf
of it, any one, from where the levels below distribute further. Work grows with the depth of the tree, not with the
square of the clusters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, TypeGuard

from isthmus.errors import ConfigError
from isthmus.model.copyflags import FlagsHeader, add_flag, bit, is_to_copy, mask
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.selection import TopicPattern
from isthmus.model.text.plain import Flat, FormMark, Hidden, PlainValue, computed_field, texts
from isthmus.model.trees.positions import OffsetFlags

_CHILDREN_MIN: Final = 2


def _numbers(parts: Sequence[int]) -> Sequence[int] | None:
    return parts or None


@dataclass(frozen=True, slots=True)
class TreeNode:
    """An inner node of a tree as the file has it; a cluster is its alias.

    It has a level, and at least two parts.

    `parts` numbers them, once that is not by place any more because some have come or left: distributors are named by
    the part that they copy to, and go on under these names. Between the two parts of `pair` they have no number: they
    were the only ones once. Both are empty where everything is by place.
    """

    level: int
    children: Annotated[tuple[TreeNode | str, ...], "clusters"]
    parts: Annotated[tuple[int, ...], FormMark.OPTIONAL, _numbers] = ()
    pair: Annotated[tuple[int, ...], FormMark.OPTIONAL, _numbers] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of each part, from 1."""
        return self.parts or tuple(range(1, len(self.children) + 1))

    @property
    def unnumbered(self) -> tuple[int, ...]:
        """The two parts whose distributors to each other have no number, if any."""
        return self.pair if self.parts else self.numbers if len(self.children) == _CHILDREN_MIN else ()

    def without(self, position: int) -> TreeNode:
        """Return the node without one of its parts, of more than two: all others keep their numbers."""
        numbers = tuple(number for place, number in enumerate(self.numbers) if place != position)
        pair = self.unnumbered if {*self.unnumbered} <= {*numbers} else ()
        children = tuple(child for place, child in enumerate(self.children) if place != position)
        return _simplify_numbers(self.level, children, numbers, pair)

    def with_part(self, child: TreeNode | str) -> TreeNode:
        """Return the node with another part behind all others, which keep their numbers."""
        numbers = (*self.numbers, max(self.numbers) + 1)
        return _simplify_numbers(self.level, (*self.children, child), numbers, self.unnumbered)

    def replace_children(self, children: Iterable[TreeNode | str]) -> TreeNode:
        """Return the node with other ones in the places of its parts."""
        return replace(self, children=tuple(children))

    def leaves(self) -> tuple[str, ...]:
        """The clusters below it, in the order they are written."""
        return tuple(leaf for child in self.children for leaf in leaves_of(child))


def _simplify_numbers(
    level: int, children: tuple[TreeNode | str, ...], numbers: tuple[int, ...], pair: tuple[int, ...]
) -> TreeNode:
    """Return a node without numbers if they are those by place."""
    by_place = TreeNode(level, children)
    found = TreeNode(level, children, numbers, pair)
    is_same = (by_place.numbers, by_place.unnumbered) == (found.numbers, found.unnumbered)
    return by_place if is_same else found


def leaves_of(node: TreeNode | str) -> tuple[str, ...]:
    """Return the clusters of a subtree, or the cluster itself."""
    return (node,) if isinstance(node, str) else node.leaves()


def node_of(written: object) -> TreeNode:
    """Parse a tree: lists of clusters and of lists, or `{level: 3, clusters: [...]}` with a stated level.

    :raises ConfigError: It is no tree, or a level is not above those below it.
    """
    node = _node(written)
    if isinstance(node, str):
        raise ConfigError(f"a tree of {node} alone distributes nothing", hint="Give it at least two clusters.")
    seen: set[str] = set()
    for leaf in node.leaves():
        if leaf in seen:
            raise ConfigError(f"cluster {leaf} is in the tree twice", hint="Every cluster is one leaf.")
        seen.add(leaf)
    return node


def _node(written: object) -> TreeNode | str:
    stated: object = None
    parts: object = ()
    pair: object = ()
    if isinstance(written, str):
        return written
    if isinstance(written, Mapping):
        unknown = sorted(set(map(str, written)) - {"level", "clusters", "parts", "pair"})
        if unknown or "clusters" not in written:
            raise ConfigError(
                f"a node of a tree has no {unknown[0]}" if unknown else "a node of a tree has no clusters",
                hint="Write it as a list, or as {level: 3, clusters: [...]}.",
            )
        parts, pair = written.get("parts") or (), written.get("pair") or ()
        stated, written = written.get("level"), written["clusters"]
    if not isinstance(written, Sequence):
        raise ConfigError(f"{written!r} is no node of a tree", hint="Write lists of clusters: [[a, b], [c, d]].")
    children = tuple(map(_node, written))
    if len(children) < _CHILDREN_MIN:
        raise ConfigError(
            "a node of a tree has fewer than two parts", hint="Leave the node out: it would have no cluster to copy to."
        )
    below = max((child.level for child in children if isinstance(child, TreeNode)), default=0)
    level = below + 1 if stated is None else stated
    if not isinstance(level, int) or isinstance(level, bool) or level <= below:
        raise ConfigError(
            f"level {level!r} is not above level {below} below it",
            hint="Levels are whole numbers from 1, and grow towards the root.",
        )
    return _simplify_numbers(level, children, *_parts(children, parts, pair))


def _parts(
    children: tuple[TreeNode | str, ...], parts: object, pair: object
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of a node's parts, and the two that have none for each other, as they are written."""
    by_place = TreeNode(1, children)
    if not parts and not pair:
        return by_place.numbers, by_place.unnumbered
    numbers, two = (tuple(each) if isinstance(each, Sequence) else (each,) for each in (parts, pair))
    known, chosen = ([each for each in given if _is_number(each)] for given in (numbers, two))
    if not len(known) == len({*known}) == len(numbers) == len(children):
        raise ConfigError(
            f"parts {list(numbers)} do not number {len(children)} parts of a node",
            hint="Give each another whole number from 1, or leave parts out.",
        )
    if two and not (len({*chosen}) == len(two) == _CHILDREN_MIN and {*chosen} <= {*known}):
        raise ConfigError(f"pair {list(two)} is not two of parts {list(numbers)}", hint="Leave pair out.")
    return tuple(known), tuple(each for each in known if each in chosen)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributor(PlainValue):
    """A distributor from a cluster to a subtree, and the leaf that it copies to.

    On `cluster`, for one level, it copies to `target`, a leaf of the subtree that has `leaves`.

    `part` is the number of that subtree in the level's node if there are, or were, more than two, and is 0 otherwise:
    there is one other subtree then.
    """

    tree: Hidden[str]
    cluster: str
    level: int
    leaves: Annotated[tuple[str, ...], "subtree"]
    target: str
    part: Hidden[int] = 0

    @computed_field(before="cluster")
    def name(self) -> str:
        """The name of its link, whichever leaf is the target."""
        return f"{self.tree}.{self.cluster}.{self.level}{f'.{self.part}' if self.part else ''}"

    @computed_field(before="leaves")
    def bit(self) -> int:
        """The copy flag that it sets."""
        return bit(self.level)

    @computed_field(before="leaves")
    def mask(self) -> int:
        """The copy flags that keep it from copying."""
        return mask(self.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree(PlainValue):
    """The clusters of a tree, and the distributors between them.

    `switched` are the leaves that an operator chose, by distributor and subtree.

    :raises ConfigError: A level has no bit in the header.
    """

    name: Annotated[str, "tree"]
    root: Hidden[TreeNode]
    header: Hidden[FlagsHeader] = field(default_factory=FlagsHeader)
    switched: Hidden[Mapping[tuple[str, int, tuple[str, ...]], str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.root.level > self.header.level_max:
            raise ConfigError(
                f"level {self.root.level} has no bit in a header of {self.header.width_bytes} bytes",
                hint=f"State lower levels, or set header.width_bytes to {-(-self.root.level // 8)}.",
            )

    @computed_field
    def clusters(self) -> tuple[str, ...]:
        """All clusters, in the order they are written."""
        return self.root.leaves()

    @computed_field
    def distributors(self) -> tuple[Distributor, ...]:
        """The distributors of every cluster: by cluster, from the lowest level up."""
        found = list(self._below(self.root))
        order = {cluster: index for index, cluster in enumerate(self.clusters)}
        return tuple(sorted(found, key=lambda each: (order[each.cluster], each.level, order[each.target])))

    @property
    def names(self) -> frozenset[str]:
        """The names of its distributors."""
        return frozenset(each.name for each in self.distributors)

    @property
    def by_itself(self) -> Tree:
        """Return the tree without chosen leaves."""
        return replace(self, switched={})

    @computed_field
    def mesh_links(self) -> int:
        """The number of links that a full mesh, from every cluster to every other one, would need."""
        return len(self.clusters) * (len(self.clusters) - 1)

    def hops(self, source: str) -> dict[str, int]:
        """Return the number of copies between a message's cluster and each of the others; 0 for its own."""
        return {cluster: len(way) for cluster, way in self.ways(source).items()}

    def ways(self, source: str) -> dict[str, tuple[Distributor, ...]]:
        """Return the distributors by which a message of one cluster comes to each of the others."""
        ways: dict[str, tuple[Distributor, ...]] = {source: ()}
        for each in self._walk(source, 0):
            ways[each.target] = (*ways[each.cluster], each)
        return ways

    def onward(self, target: str, level: int) -> tuple[Distributor, ...]:
        """Return the distributors that copy a cluster's records further if they came by one of this level, in the order
        of hops.
        """
        return tuple(self._walk(target, bit(level)))

    def distributor(self, cluster: str, level: int, leaf: str) -> Distributor:
        """Return the distributor of a cluster for a level whose subtree has this leaf.

        :raises ConfigError: There is none.
        """
        if cluster not in self.clusters:
            raise ConfigError(f"tree {self.name} has no cluster {cluster}", hint=f"It has {', '.join(self.clusters)}.")
        own = [each for each in self.distributors if each.cluster == cluster]
        at_level = [each for each in own if each.level == level]
        if not at_level:
            levels = ", ".join(str(number) for number in sorted({each.level for each in own}))
            raise ConfigError(f"{cluster} distributes at no level {level}", hint=f"Its levels are {levels}.")
        for each in at_level:
            if leaf in each.leaves:
                return each
        subtrees = " or ".join(", ".join(each.leaves) for each in at_level)
        raise ConfigError(
            f"{leaf} is no leaf that {cluster} can copy to at level {level}", hint=f"Choose one of {subtrees}."
        )

    def _walk(self, cluster: str, flags: int) -> Iterator[Distributor]:
        """Yield the distributors that copy a message with these flags at a cluster, and then its copies, in the order
        of hops.
        """
        distributors = self.distributors
        pending = deque([(cluster, flags)])
        while pending:
            at, seen = pending.popleft()
            for each in distributors:
                if each.cluster == at and is_to_copy(seen, each.level):
                    yield each
                    pending.append((each.target, add_flag(seen, each.level)))

    def _below(self, node: TreeNode) -> Iterator[Distributor]:
        for own, child in zip(node.numbers, node.children, strict=True):
            # The targets of a subtree are numbered like its leaves: not all distributors write to the same one.
            for position, cluster in enumerate(leaves_of(child)):
                for part, other in zip(node.numbers, node.children, strict=True):
                    if other is not child:
                        several = 0 if {own, part} == {*node.unnumbered} else part
                        yield self._distributor(node.level, cluster, leaves_of(other), position, several)
            if isinstance(child, TreeNode):
                yield from self._below(child)

    def _distributor(self, level: int, cluster: str, leaves: tuple[str, ...], position: int, part: int) -> Distributor:
        target = self.switched.get((cluster, level, leaves), leaves[position % len(leaves)])
        if target not in leaves:
            raise ConfigError(
                f"{target} is no leaf of the subtree {', '.join(leaves)}", hint="Choose one of these clusters."
            )
        return Distributor(tree=self.name, cluster=cluster, level=level, leaves=leaves, target=target, part=part)

    @computed_field(before="root")
    def level(self) -> int:
        """The highest level."""
        return self.root.level

    @computed_field
    def all_hops(self) -> Annotated[dict[str, dict[str, int]], "hops"]:
        """The hops from each cluster to each."""
        return {cluster: self.hops(cluster) for cluster in self.clusters}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSettings(PlainValue):
    """A tree, and what it distributes.

    `flags` is the place of copy flags, `offset_flags` that of positions' flags; `margin_s` is subtracted from the time
    of the record at a position. A target that is gone for `switch_after_s` is left for another leaf, `None` for never.
    `on_data_gap` is the policy for a partition whose source deleted messages before they were copied.
    """

    tree: Flat[Tree]
    topics: Annotated[tuple[TopicPattern, ...], texts] = ()
    exclude: Annotated[tuple[TopicPattern, ...], texts] = ()
    groups: Annotated[tuple[GroupPattern, ...], texts] = ()
    margin_s: float = GroupSettings().margin_s
    offset_flags: OffsetFlags = "producer-id"
    flags: Literal["producer-id", "header"] = "producer-id"
    switch_after_s: float | None = None
    on_data_gap: Literal["stop", "continue"] = "stop"

    def distributes(self, topic: str) -> bool:
        """Return whether a topic belongs to the tree."""
        return any(each.matches(topic) for each in self.topics) and not any(
            each.matches(topic) for each in self.exclude
        )
