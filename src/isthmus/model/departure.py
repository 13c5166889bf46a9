"""A cluster leaves a tree: who has to go over to another leaf first, and how. Pure.

One that answers leaves in good order. One that is gone for good cannot be asked what it got: whoever copied to it
leaves it by force, and sends to the other leaf what it may not have got.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from isthmus.model.switching import TargetChoice, choice_of
from isthmus.model.tree import Distributor, Tree


def to_go_over(tree: Tree, choices: Mapping[str, TargetChoice], cluster: str) -> tuple[tuple[Distributor, str], ...]:
    """The distributors that have to go over to another leaf before a cluster leaves the tree, and to which: to one that
    is not in doubt, if there is any.
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
    """A leaf that lacks something, and which distributor sent it, as long as a cluster may not leave for that: others
    get through it what it lacks; or it alone has what another one lacks; or somebody would go over to that one.
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
    """The distributors, as they are by themselves, that have to leave a cluster that is gone for good, and to which
    leaf: to one that is not in doubt and not `gone` as well, if there is any. Those of clusters that are gone need not.
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
    """What has to become of a choice so that a distributor, as it is by itself, has nothing to do any more with a
    cluster that is gone for good: it goes over to `leaf` from there, and nothing waits for it. `None` where nothing has
    to be said any more; it may be under way then.
    """
    choice = choice_of(distributor.target, distributor.leaves, known)
    if choice.finishes == cluster:
        return choice.going_back("")
    if choice.target == cluster:
        is_said = choice.wanted == leaf and choice.is_forced and choice.is_resent
        return None if is_said else choice.asked(leaf, is_forced=True, is_resent=True)
    # In good order it would wait for every leaf of the subtree.
    is_waiting = cluster in distributor.leaves and choice.is_under_way and not choice.is_forced
    return choice.asked(choice.target) if is_waiting or choice.wanted == cluster else None


def undoubted(cluster: str, known: TargetChoice | None) -> TargetChoice | None:
    """What becomes of a choice once nobody waits for a cluster to get what it lacks, `None` where nobody does."""
    return None if known is None or known.doubt(cluster) is None else known.without_doubt(cluster)
