"""A cluster leaves a tree: which distributors have to switch to another leaf first, and how. Pure.

A cluster that answers leaves in good order. One that is gone for good cannot report what it received: the distributors
that copied to it switch by force, and send to the other leaf the records that it may lack.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from isthmus.model.trees.switching import TargetChoice, choice_of
from isthmus.model.trees.tree import Distributor, Tree


def to_go_over(tree: Tree, choices: Mapping[str, TargetChoice], cluster: str) -> tuple[tuple[Distributor, str], ...]:
    """Return the distributors that have to switch to another leaf before a cluster leaves the tree, and the leaf for
    each: one that is not in doubt, if there is any.
    """
    found = []
    for each in tree.distributors:
        known = choice_of(each.target, each.leaves, choices.get(each.name))
        others = [leaf for leaf in each.leaves if leaf != cluster]
        certain = [leaf for leaf in others if known.doubt(leaf) is None]
        if known.target == cluster and others and each.cluster != cluster:
            found.append((each, (certain or others)[0]))
    return tuple(found)


def uncertain(tree: Tree, choices: Mapping[str, TargetChoice], cluster: str) -> tuple[str, str] | None:
    """Return a leaf that lacks records, and the distributor that sent them, if a cluster may not leave because of that:
    others receive through it what they lack; or it alone has records that another leaf lacks; or a distributor would
    switch to that leaf.
    """
    going = {*to_go_over(tree, choices, cluster)}
    for each in tree.distributors:
        choice = choices.get(each.name)
        for doubt in () if choice is None else choice.doubts:
            if cluster in (doubt.leaf, each.cluster) or (each, doubt.leaf) in going:
                return doubt.leaf, each.name
    return None


def to_leave(
    tree: Tree, choices: Mapping[str, TargetChoice], cluster: str, *, gone: Collection[str] = ()
) -> tuple[tuple[Distributor, str], ...]:
    """Return the distributors, each considered alone, that have to leave a cluster that is gone for good, and the leaf
    for each: one that is not in doubt and not `gone` as well, if there is any. Those of clusters that are gone need not
    leave.
    """
    found = []
    for each in tree.by_itself.distributors:
        others = [leaf for leaf in each.leaves if leaf != cluster]
        if len(others) == len(each.leaves) or not others or each.cluster in (cluster, *gone):
            continue
        known = choice_of(each.target, each.leaves, choices.get(each.name))
        leaf = known.target
        if leaf == cluster:
            leaf = min(others, key=lambda one: (one in gone, known.doubt(one) is not None, one != known.wanted))
        if known.target == cluster or without(each, leaf, cluster, known) is not None:
            found.append((each, leaf))
    return tuple(found)


def without(distributor: Distributor, leaf: str, cluster: str, known: TargetChoice | None) -> TargetChoice | None:
    """Return the choice that frees a distributor, considered alone, from a cluster that is gone for good: it switches
    to `leaf` from there, and nothing waits for the cluster. `None` if the choice need not change any more; the switch
    may be under way then.
    """
    choice = choice_of(distributor.target, distributor.leaves, known)
    if choice.finishes == cluster:
        return choice.going_back("")
    if choice.target == cluster:
        is_said = choice.wanted == leaf and choice.is_forced and choice.is_resent
        return None if is_said else choice.ask_for(leaf, is_forced=True, is_resent=True)
    # In good order it would wait for every leaf of the subtree.
    is_waiting = cluster in distributor.leaves and choice.is_under_way and not choice.is_forced
    return choice.ask_for(choice.target) if is_waiting or choice.wanted == cluster else None


def remove_doubt(cluster: str, known: TargetChoice | None) -> TargetChoice | None:
    """Return the choice without the doubt about a cluster, `None` if there is no such doubt."""
    return None if known is None or known.doubt(cluster) is None else known.without_doubt(cluster)
