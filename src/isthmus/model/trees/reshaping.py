"""Change a distribution tree while it runs: add a cluster, or remove one. Pure.

Flags that were written under a level keep their meaning, so a new node takes a number under which nothing was ever
written that would count. A distributor that copied to a cluster continues to do so: distributors whose subtree has
changed, or whose place in it, are pinned to their present target.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from isthmus.errors import ConfigError, GateNotMet, PlanRefused
from isthmus.model.text.plain import Hidden, PlainValue, computed_field, plain
from isthmus.model.trees.switching import TargetChoice
from isthmus.model.trees.tree import Distributor, Tree, TreeNode, TreeSettings, leaves_of, node_of
from isthmus.model.trees.treeloss import TreeLoss


def _root(tree: Tree) -> TreeNode:
    return tree.root


def _targets(choices: Mapping[str, TargetChoice]) -> dict[str, str]:
    return {name: choice.target for name, choice in sorted(choices.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshaping(PlainValue):
    """A tree after a cluster was added or removed.

    `begun` and `ended` are distributors that are new, or will be gone, and `pins` the choices to make for others
    before: by name. `spent` are levels that no new node may have. `loss` is what is lost with a cluster that leaves by
    force, as it is gone.
    """

    cluster: str
    before: Annotated[Tree, _root]
    after: Annotated[Tree, _root]
    begun: tuple[Distributor, ...]
    ended: tuple[Distributor, ...]
    pins: Annotated[Mapping[str, TargetChoice], "kept_at_their_targets", _targets]
    spent: Hidden[frozenset[int]]
    loss: Annotated[TreeLoss | None, "lost"] = None

    @computed_field(before="cluster")
    def tree(self) -> str:
        """The name of the tree."""
        return self.after.name


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeShape:
    """The clusters of a tree that differs from that of the file, as text; `bases` are the former shapes, `spent` the
    levels that no new node may have, and `gone` the clusters that left by force. `serial` grows with every change.
    """

    clusters: str
    bases: tuple[str, ...]
    spent: tuple[int, ...] = ()
    gone: tuple[str, ...] = ()
    serial: int = 1

    @property
    def root(self) -> TreeNode:
        """The clusters as a tree."""
        return node_of(json.loads(self.clusters))

    @property
    def members(self) -> frozenset[str]:
        """The clusters that are in the tree or were."""
        roots = [self.root, *(node_of(json.loads(base)) for base in self.bases)]
        return frozenset(leaf for root in roots for leaf in root.leaves())

    def over(self, root: TreeNode) -> TreeNode:
        """Return the present form of a written or declared tree; one that is none of the `bases` stays as it is."""
        return self.root if text_of(root) in self.bases else root


def add_cluster(
    tree: Tree,
    choices: Mapping[str, TargetChoice],
    cluster: str,
    *,
    beside: str | None = None,
    among: str | None = None,
    level: int | None = None,
    spent: Collection[int] = (),
    without_left: bool = False,
) -> Reshaping:
    """Return the tree with another cluster: above all others, as the neighbour of one of them (`beside`), or as one
    more part of a node that one of them is in (`among`): of the lowest, or of the one of that `level`.

    It receives all that is retained: the records produced on each of the others, or all that its neighbour has, or what
    came into that node by each of its clusters. Only a neighbour copies to it the records that were produced on a
    cluster that has left: `without_left` accepts that.

    :raises ConfigError: It is in the tree, or the neighbour is not, or that has no node of this level.
    :raises PlanRefused: No level is free for it, existing distributors would have to start again, or it would get
        what a producer wrote in another order.
    """
    if cluster in tree.clusters:
        raise ConfigError(f"{cluster} is in tree {tree.name} already", hint="Every cluster is one leaf.")
    neighbour = beside or among
    if neighbour is not None and neighbour not in tree.clusters:
        raise ConfigError(f"tree {tree.name} has no cluster {neighbour}", hint=f"It has {', '.join(tree.clusters)}.")
    if beside is None and spent and not without_left:
        raise PlanRefused(
            f"a cluster has left tree {tree.name}, and no cluster would copy to {cluster} what was produced there",
            hint="Add it beside a cluster, which has all of it; or accept that (--without-left), as when all of it "
            "has been deleted by retention.",
        )
    if among is not None:
        root = _with_part(tree, choices, among, level, cluster)
    elif beside is None:
        limit = tree.header.level_max + 1
        root = TreeNode(_level(tree.root.level, limit, level, spent), (tree.root, cluster))
    else:
        # Below all levels of its neighbour's messages: those would be ignored otherwise.
        limit = min([_parent(tree.root, beside).level, *spent])
        free = _level(0, limit, level, ())
        found = _replace_leaf(tree.root, beside, TreeNode(free, (beside, cluster)))
        root = found if isinstance(found, TreeNode) else tree.root
    return _reshaping(tree, replace(tree, root=root, switched={}), choices, cluster, spent=frozenset(spent))


def remove_cluster(
    tree: Tree,
    choices: Mapping[str, TargetChoice],
    cluster: str,
    *,
    spent: Collection[int] = (),
    unheard: Collection[str] = (),
) -> Reshaping:
    """Return the tree without a cluster. Levels stay as they are; that of the node that loses it is spent. Distributors
    of clusters that are `unheard`, as they are gone as well, need not stay where they copied to.

    :raises ConfigError: It is not in the tree.
    :raises PlanRefused: Only one would be left, or existing distributors would have to start again.
    """
    if cluster not in tree.clusters:
        raise ConfigError(f"tree {tree.name} has no cluster {cluster}", hint=f"It has {', '.join(tree.clusters)}.")
    root = _replace_leaf(tree.root, cluster, None)
    if not isinstance(root, TreeNode):
        raise PlanRefused(
            f"without {cluster} only {root} would be left",
            hint="Take the tree out of the file, or delete it (isthmus tree delete): it ends.",
        )
    # The level is spent even if another node uses it: messages that have it are where the node was, and the level marks
    # messages of the cluster that left.
    gone = _parent(tree.root, cluster).level
    after = replace(tree, root=root, switched={})
    return _reshaping(tree, after, choices, cluster, spent=frozenset([*spent, gone]), unheard=unheard)


def move_cluster(
    tree: Tree,
    choices: Mapping[str, TargetChoice],
    cluster: str,
    *,
    beside: str,
    level: int | None = None,
    spent: Collection[int] = (),
) -> Reshaping:
    """Return the tree with a cluster at another place: it leaves, and comes in again beside another one, from which it
    receives all records again. `begun` and `ended` may have distributors of the same name.

    :raises ConfigError: It is not in the tree, or the neighbour is not.
    :raises PlanRefused: No level is free for it there, or existing distributors would have to start again.
    """
    without = remove_cluster(tree, choices, cluster, spent=spent)
    again = add_cluster(
        without.after, {**choices, **without.pins}, cluster, beside=beside, level=level, spent=without.spent
    )
    return replace(again, before=tree, ended=without.ended, pins={**without.pins, **again.pins})


def become(found: Reshaping, shape: TreeShape | None) -> TreeShape:
    """Return the shape of a tree after a change, `shape` being the one before, `None` for that of the file."""
    before, after = text_of(found.before.root), text_of(found.after.root)
    bases, known = ((), ()) if shape is None else (shape.bases, shape.gone)
    left = () if found.loss is None else (found.cluster,)
    return TreeShape(
        clusters=after,
        # The shape before is the last, even if the tree had it earlier too.
        bases=(*(base for base in bases if base not in (before, after)), before),
        spent=tuple(sorted(found.spent)),
        gone=tuple(sorted({*known, *left} - {*found.after.clusters})),
        serial=1 if shape is None else shape.serial + 1,
    )


def check_follows(tree: str, known: TreeShape | None, new: TreeShape) -> bool:
    """Return whether a ledger with one shape of a tree has to receive another one, which it may have already.

    :raises PlanRefused: The ledger has one that was made since, or at the same time.
    """
    if known == new:
        return False
    if known is not None and known.serial >= new.serial:
        raise PlanRefused(
            f"tree {tree} was changed meanwhile: its clusters are {known.clusters}",
            hint="isthmus tree targets and isthmus tree plan show the tree as it has become. Then ask again.",
        )
    return True


def done_before(
    now: Tree, shape: TreeShape | None, change: Callable[[Tree], Reshaping]
) -> tuple[Reshaping, TreeShape] | None:
    """Return the latest change of a tree, if it is the requested one: an interrupted call is repeated. `None` if it is
    another one.
    """
    if shape is None or text_of(now.root) != shape.clusters:
        return None
    try:
        found = change(replace(now, root=node_of(json.loads(shape.bases[-1])), switched={}))
    except (ConfigError, PlanRefused):
        return None
    return (found, shape) if text_of(found.after.root) == shape.clusters else None


def last_with(shape: TreeShape | None, cluster: str) -> TreeNode | None:
    """Return the latest shape of a tree that had a cluster, `None` if none had."""
    for base in reversed(() if shape is None else shape.bases):
        root = node_of(json.loads(base))
        if cluster in root.leaves():
            return root
    return None


def check_empty(tree: str, cluster: str, topics: Collection[str]) -> None:
    """Check that a cluster that comes back into a tree has none of its `topics`: its distributors would start again,
    and copy all records to all others once more.

    :raises GateNotMet: It has some.
    """
    if topics:
        raise GateNotMet(
            f"{cluster} is not in tree {tree} any more, and has its topics still: {', '.join(sorted(topics))}",
            hint=f"Delete them at {cluster}: all of it is on the others, and comes back. Then call this again.",
        )


def apply_shape(settings: TreeSettings, shape: TreeShape, aliases: Collection[str]) -> tuple[TreeSettings, str]:
    """Return a tree of the file in its present shape, or as the file has it, with the reason, if that does not fit."""
    now = text_of(settings.tree.root)
    if now == shape.clusters:
        return settings, ""
    name = settings.tree.name
    if now not in shape.bases:
        return settings, f"tree {name} is run as the file has it: its clusters on record are {shape.clusters}"
    root = shape.root
    unknown = [leaf for leaf in root.leaves() if leaf not in aliases]
    if unknown:
        return settings, f"tree {name} has cluster {unknown[0]} by now, which this file has not"
    return replace(settings, tree=replace(settings.tree, root=root, switched={})), ""


def text_of(node: TreeNode) -> str:
    """Return a tree as text: the same for the same tree."""
    return json.dumps(plain(node), separators=(",", ":"))


def _level(below: int, above: int, wanted: int | None, spent: Collection[int]) -> int:
    """Return a level for a new node between two others."""
    free = [level for level in range(below + 1, above) if level not in spent]
    if wanted in free:
        return wanted
    if not free or wanted is not None:
        raise PlanRefused(
            f"{'no level is' if wanted is None else f'level {wanted} is not'} free above {below} and below {above}",
            hint="Levels keep their meaning while messages that have them are retained. Free are: "
            f"{', '.join(map(str, free)) or 'none'}; there may be room above all other clusters.",
        )
    return free[0] if below else free[-1]


def _reshaping(
    before: Tree,
    after: Tree,
    choices: Mapping[str, TargetChoice],
    cluster: str,
    *,
    spent: frozenset[int],
    unheard: Collection[str] = (),
) -> Reshaping:
    old = {each.name: each for each in before.distributors}
    new = {each.name: each for each in after.distributors}
    begun = tuple(each for name, each in new.items() if name not in old)
    ended = tuple(each for name, each in old.items() if name not in new)
    for each in (*begun, *ended):
        if each.cluster != cluster and each.leaves != (cluster,):
            raise PlanRefused(
                f"{each.name} would {'begin' if each in begun else 'end'}, which copies from {each.cluster} to "
                f"{', '.join(each.leaves)}: everything would come once more",
                hint="Add the cluster at another place.",
            )
    pins = {}
    for name in sorted(old.keys() & new.keys()):
        pin = None if old[name].cluster in unheard else _pin(old[name], new[name], choices.get(name))
        if pin is not None:
            pins[name] = pin
    return Reshaping(before=before, after=after, cluster=cluster, begun=begun, ended=ended, pins=pins, spent=spent)


def _pin(old: Distributor, new: Distributor, choice: TargetChoice | None) -> TargetChoice | None:
    """Return the choice with which a distributor stays at its present target, `None` if none is needed."""
    known = choice if choice is not None and choice.is_of(old.leaves) else None
    target = old.target if known is None else known.target
    if known is not None and known.is_under_way:
        raise PlanRefused(
            f"{old.name} goes over to {known.wanted}", hint="Wait until it has: isthmus tree targets shows it."
        )
    if target not in new.leaves:
        raise PlanRefused(
            f"{old.name} copies to {target}, which its subtree would not have any more",
            hint="Have it copy to another leaf first: isthmus tree switch.",
        )
    if known is not None or new.target == target:
        return None
    return TargetChoice(target=target, wanted=target, serial=1 if choice is None else choice.serial + 1)


def _parent(node: TreeNode, leaf: str) -> TreeNode:
    for child in node.children:
        if isinstance(child, TreeNode) and leaf in child.leaves():
            return _parent(child, leaf)
    return node


def _replace_leaf(node: TreeNode | str, leaf: str, by: TreeNode | None) -> TreeNode | str | None:
    """Return the subtree with another node in the place of a leaf, or without it."""
    if isinstance(node, str):
        return by if node == leaf else node
    if leaf not in leaves_of(node):
        return node
    if by is None and leaf in node.children:
        left = node.without(node.children.index(leaf))
        return left if len(left.children) > 1 else left.children[0]
    children = (each if leaf not in leaves_of(each) else _replace_leaf(each, leaf, by) for each in node.children)
    return node.replace_children(child for child in children if child is not None)


def _with_part(
    tree: Tree, choices: Mapping[str, TargetChoice], among: str, level: int | None, cluster: str
) -> TreeNode:
    """Return the tree with one more part in a node above a cluster.

    :raises ConfigError: It has no node of this level above it.
    :raises PlanRefused: What came into that node came by different clusters of it.
    """
    parent = _parent(tree.root, among)
    wanted = parent.level if level is None else level
    levels = [each.level for each in tree.distributors if each.cluster == among]
    if wanted not in levels:
        named = ", ".join(map(str, dict.fromkeys(levels)))
        raise ConfigError(f"{among} is in no node of level {wanted}", hint=f"The levels above it are {named}.")

    def grow(node: TreeNode) -> TreeNode:
        if node.level == wanted:
            _check_one_way_in(tree, choices, node, cluster)
            return node.with_part(cluster)
        return node.replace_children(
            grow(each) if isinstance(each, TreeNode) and among in each.leaves() else each for each in node.children
        )

    return grow(tree.root)


def _check_one_way_in(tree: Tree, choices: Mapping[str, TargetChoice], node: TreeNode, cluster: str) -> None:
    """Check that all records of each cluster outside a node came into it by one cluster of it.

    Each of those copies its records to a new part, and none waits for another one: records by the second could be there
    before those by the first.

    :raises PlanRefused: A distributor that copies into it has gone over to another leaf.
    """
    inside = {*node.leaves()}
    for each in tree.distributors:
        choice = choices.get(each.name)
        if choice is not None and choice.former and each.cluster not in inside and inside <= {*each.leaves}:
            raise PlanRefused(
                f"{each.name} copied to {choice.former[-1]} before it went over to {choice.target}: {cluster} could "
                f"get what was produced on {each.cluster} in another order",
                hint=f"Add it beside one of {', '.join(node.leaves())}, which has all in order, or above all others.",
            )
