"""A cluster comes into a tree that runs, leaves it, or goes to another place: planned, and carried out as far as it can
be by now.

What the tree becomes is a document in the ledgers of all its clusters, which every process that runs it follows; the
file is to say the same sooner or later. Before that, distributors whose targets would be others are pinned to those
that they have. Each step may be done twice: a call that was cut off is made again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final

from isthmus.cluster.offsets import log_ranges
from isthmus.cluster.reading import LogReader, OffsetRange
from isthmus.control.links.declarations import Declarations, looked
from isthmus.control.links.declared import Declared
from isthmus.control.links.forgetting import forget_link
from isthmus.control.links.memory import now_ms
from isthmus.control.links.switching import forget_choice, lacking, wished, write_choice
from isthmus.control.links.trees import trees_named
from isthmus.control.topics.names import find_topics
from isthmus.errors import ConfigError, GateNotMet, PlanRefused, Unreachable
from isthmus.ledger.documents import TreeDocument
from isthmus.model.configuration import Configuration
from isthmus.model.copyflags import level_of
from isthmus.model.log import LogRange
from isthmus.model.reshaping import (
    Reshaping,
    TreeShape,
    added,
    become,
    check_empty,
    done_before,
    last_with,
    moved,
    removed,
    to_go_over,
    uncertain,
)
from isthmus.model.selection import TopicSettings
from isthmus.model.switching import TargetChoice
from isthmus.model.tree import Distributor, Tree
from isthmus.wire.client import Client
from isthmus.wire.offsets import READ_COMMITTED, PartitionKey

_DRAIN_S: Final = 20.0
"""How long is waited for what was on its way when the cluster was looked at."""
_LOOK_S: Final = 0.5


class TreeChanges:
    """What can be changed of the trees of one configuration while they run. With `dry_run` nothing is written."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    async def add(
        self,
        tree: str,
        cluster: str,
        *,
        beside: str | None = None,
        among: str | None = None,
        level: int | None = None,
        without_left: bool = False,
        dry_run: bool = False,
    ) -> Reshaping:
        """Have another cluster of the file be in a tree: above all others, beside one of them, or as one more part of a
        node that one of them is in (`among`): the lowest, or that of a `level`.

        :raises ConfigError: There is no such tree, cluster or node, or it is in the tree.
        :raises PlanRefused: No level is free for it, or distributors that there are would have to begin anew; or
            somebody else changed the tree meanwhile.
        :raises GateNotMet: It was in the tree before, and has its topics still; the same call later goes on.
        :raises ClusterError: A cluster of the tree does not answer.
        """
        self._configuration.cluster(cluster)
        async with looked(self._configuration) as (declarations, declared):
            now, shape = self._now(declared, tree)

            def change(before: Tree) -> Reshaping:
                return added(
                    before,
                    _choices(declared, before),
                    cluster,
                    beside=beside,
                    among=among,
                    level=level,
                    spent=shape.spent if shape else (),
                    without_left=without_left,
                )

            if cluster in now.clusters and (done := done_before(now, shape, change)) is not None:
                return await self._finish(declarations, declared, *done, dry_run=dry_run)
            found = change(now)
            require_clusters(declared, {*now.clusters, cluster})
            root = last_with(shape, cluster)
            if root is not None:
                await self._check_empty(declarations, declared, tree, cluster)
            if not dry_run:
                if root is not None:
                    await self._forget(declarations, replace(now, root=root, switched={}), cluster)
                await self._write(declarations, found, shape)
        return found

    async def remove(self, tree: str, cluster: str, *, dry_run: bool = False) -> Reshaping:
        """Have a cluster leave a tree, once nobody copies to it who could copy to another leaf, and all that was
        produced there is everywhere. Whoever still has to go over to another leaf is asked to.

        :raises ConfigError: There is no such tree, or the cluster is not in it.
        :raises PlanRefused: Only one would be left, or distributors that there are would have to begin anew.
        :raises GateNotMet: It cannot leave yet; the same call later goes on.
        :raises ClusterError: A cluster of the tree does not answer.
        """
        async with looked(self._configuration) as (declarations, declared):
            now, shape = self._now(declared, tree)
            spent = shape.spent if shape else ()
            if cluster not in now.clusters:
                done = done_before(
                    now, shape, lambda before: removed(before, _choices(declared, before), cluster, spent=spent)
                )
                if done is not None:
                    return await self._finish(declarations, declared, *done, dry_run=dry_run)
            going, ahead, choices = _ahead(declared, now, cluster)
            found = removed(ahead, choices, cluster, spent=spent)
            if not dry_run:
                await self._let_go(declarations, declared, found, going, shape)
        return found

    async def move(
        self, tree: str, cluster: str, *, beside: str, level: int | None = None, dry_run: bool = False
    ) -> Reshaping:
        """Have a cluster be at another place of a tree: it leaves as by `remove`; then its topics have to be deleted
        there, as what is on it would come everywhere once more; and it comes in again beside another cluster, from
        which it gets everything.

        :raises ConfigError: There is no such tree or cluster, or it never was in the tree.
        :raises PlanRefused: No level is free for it, or distributors that there are would have to begin anew.
        :raises GateNotMet: It cannot leave yet, or its topics are still there; the same call later goes on.
        :raises ClusterError: A cluster of the tree does not answer.
        """
        self._configuration.cluster(cluster)
        async with looked(self._configuration) as (declarations, declared):
            now, shape = self._now(declared, tree)

            def change(before: Tree) -> Reshaping:
                choices = _choices(declared, before)
                return added(before, choices, cluster, beside=beside, level=level, spent=shape.spent if shape else ())

            if cluster in now.clusters:
                if (done := done_before(now, shape, change)) is not None:
                    return await self._finish(declarations, declared, *done, dry_run=dry_run)
                going, ahead, choices = _ahead(declared, now, cluster)
                found = moved(ahead, choices, cluster, beside=beside, level=level, spent=shape.spent if shape else ())
                if dry_run:
                    return found
                without = removed(ahead, choices, cluster, spent=shape.spent if shape else ())
                await self._let_go(declarations, declared, without, going, shape)
                declared = await declarations.look()
                now, shape = self._now(declared, tree)
            root = last_with(shape, cluster)
            if root is None:
                raise ConfigError(
                    f"{cluster} was never in tree {tree}", hint=f"isthmus tree add {tree} {cluster} --beside {beside}."
                )
            again = change(now)
            if not dry_run:
                require_clusters(declared, {*now.clusters, cluster})
                await self._check_empty(declarations, declared, tree, cluster)
                await self._forget(declarations, replace(now, root=root, switched={}), cluster)
                await self._write(declarations, again, shape)
        return again

    async def _let_go(
        self,
        declarations: Declarations,
        declared: Declared,
        found: Reshaping,
        going: Sequence[tuple[Distributor, str]],
        shape: TreeShape | None,
    ) -> None:
        """Have a cluster leave, if it can by now.

        :raises GateNotMet: It cannot leave yet; the same call later goes on.
        """
        now, cluster = found.before, found.cluster
        require_clusters(declared, now.clusters)
        _check_certain(declared, now, cluster)
        for each, leaf in going:
            by_itself = now.by_itself.distributor(each.cluster, each.level, leaf)
            await write_choice(declarations.client(each.cluster), each.name, partial(wished, by_itself, leaf))
        if going:
            names = ", ".join(f"{each.name} to {leaf}" for each, leaf in going)
            raise GateNotMet(
                f"{cluster} cannot leave yet: these go over to another leaf first: {names}",
                hint="isthmus tree targets shows how far they are. Then call this again.",
            )
        await self._check_drained(declarations, declared, now, cluster)
        # That took a while.
        _check_certain(await declarations.look(), now, cluster)
        await self._write(declarations, found, shape)

    async def _check_empty(self, declarations: Declarations, declared: Declared, tree: str, cluster: str) -> None:
        """See that a cluster that comes back has none of the tree's topics.

        :raises GateNotMet: It has some.
        """
        found = await find_topics(declarations.client(cluster), self._topics(declared, tree))
        check_empty(tree, cluster, found.there.values())

    async def _forget(self, declarations: Declarations, before: Tree, cluster: str) -> None:
        """Have nothing be known of what distributors of the tree before copied to and from a cluster whose topics are
        gone.

        :raises GateNotMet: Somebody still runs such a distributor.
        """
        known = [
            (each.name, alias)
            for each in before.distributors
            for alias in ((*each.leaves, cluster) if each.cluster == cluster else (cluster,))
            if each.cluster == cluster or cluster in each.leaves
        ]
        for name, alias in known:
            try:
                await forget_link(self._configuration.cluster(alias), name, self._configuration.ledger)
            except PlanRefused as refused:
                raise GateNotMet(
                    f"{refused.message} at {alias} still, which ends",
                    hint="isthmus run follows within seconds. Then call this again.",
                ) from None
            except ConfigError:
                # That ledger knows nothing of it.
                continue

    def _now(self, declared: Declared, name: str) -> tuple[Tree, TreeShape | None]:
        """The tree as it is run now."""
        (settings,) = trees_named(declared.over(self._configuration).trees, name)
        return settings.tree, declared.shapes.get(name)

    def _topics(self, declared: Declared, name: str) -> TopicSettings:
        """The topics of a tree, as its distributors select them."""
        return next(link.topics for link in declared.over(self._configuration).links if link.tree == name)

    async def _finish(
        self, declarations: Declarations, declared: Declared, found: Reshaping, shape: TreeShape, *, dry_run: bool
    ) -> Reshaping:
        """Have all clusters know of a change that was made already, as far as a call came that was cut off."""
        if not dry_run:
            require_clusters(declared, {*found.before.clusters, *found.after.clusters})
            await _tell(declarations, found, shape)
        return found

    async def _write(self, declarations: Declarations, found: Reshaping, shape: TreeShape | None) -> None:
        for each in found.begun:
            # A number may be used again that a part had which has left.
            await forget_choice(declarations.client(each.cluster), each.name)
        for name, pin in found.pins.items():
            source = next(each.cluster for each in found.after.distributors if each.name == name)
            await write_choice(declarations.client(source), name, partial(pinned, name, pin))
        await _tell(declarations, found, become(found, shape))

    async def _check_drained(self, declarations: Declarations, declared: Declared, tree: Tree, cluster: str) -> None:
        """See that all that was produced on a cluster is everywhere, and that nobody produces there any more.

        :raises GateNotMet: It is not.
        :raises ClusterError: A cluster does not answer, or a partition there has no leader.
        """
        source = declarations.client(cluster)
        selected = self._topics(declared, tree.name)
        topics = sorted((await find_topics(source, selected)).there.values())
        described = (await source.metadata(topics)).topics if topics else {}
        keys = [(str(topic), one.partition) for topic in topics for one in described[topic].partitions]
        logs = (await log_ranges(source, keys)).all()
        deadline = time.monotonic() + _DRAIN_S
        for each in (one for one in tree.distributors if one.cluster == cluster):
            target = declarations.client(each.target)
            while reason := await lacking(target, each.name, cluster, logs):
                if time.monotonic() > deadline:
                    raise GateNotMet(reason, hint="isthmus run has to run meanwhile. Then call this again.")
                await asyncio.sleep(_LOOK_S)
        await _check_quiet(source, logs)


async def _tell(declarations: Declarations, found: Reshaping, shape: TreeShape) -> None:
    """Have all clusters of a tree, and one that leaves it, know what it has become: in the same order whoever does, so
    that of two changes at the same time one is refused.

    :raises PlanRefused: Somebody else changed the tree meanwhile.
    """
    document = TreeDocument(tree=found.after.name, shape=shape, since_ms=now_ms())
    for alias in dict.fromkeys((*found.before.clusters, *found.after.clusters)):
        await declarations.write_tree(alias, document)


async def _check_quiet(source: Client, before: Mapping[PartitionKey, LogRange]) -> None:
    """See that only distributors have written since.

    :raises GateNotMet: Somebody else has.
    :raises ClusterError: The cluster does not answer, or a partition has no leader.
    """
    after = (await log_ranges(source, list(before))).all()
    reader = LogReader(source, isolation=READ_COMMITTED)
    for key, log in after.items():
        span = OffsetRange(*key, before[key].end, log.stable_end)
        if log.stable_end < log.end:
            raise GateNotMet(
                f"a transaction is open in {key[0]}-{key[1]} of {source.cluster.alias}", hint="Let its producer end it."
            )
        if span.is_empty:
            continue
        async with aclosing(reader.read(span)) as answers:
            async for stored in answers:
                if any(not one.batch.is_control and not level_of(one.batch.producer_id) for one in stored):
                    raise GateNotMet(
                        f"somebody still produces to {key[0]}-{key[1]} of {source.cluster.alias}",
                        hint="Stop the producers there first: what they write afterwards stays there.",
                    )


def _check_certain(declared: Declared, tree: Tree, cluster: str) -> None:
    """See that nobody lacks anything that would not come any more once a cluster has left.

    :raises GateNotMet: A leaf is in doubt.
    """
    found = uncertain(tree, _choices(declared, tree), cluster)
    if found is not None:
        raise GateNotMet(
            f"{found[0]} is IN_DOUBT: it may lack what {found[1]} sent to it",
            hint="It gets that by itself while isthmus run runs. Then call this again.",
        )


def pinned(name: str, pin: TargetChoice, now: TargetChoice | None) -> TargetChoice | None:
    """What becomes of the choice of a distributor that is to stay at its target.

    :raises GateNotMet: Another one was made since the change was planned.
    """
    if now == pin:
        return None
    if pin.serial != (0 if now is None else now.serial) + 1:
        raise GateNotMet(
            f"another leaf was chosen for {name} meanwhile",
            hint="isthmus tree targets shows it. Then call this again.",
        )
    return pin


def _ahead(
    declared: Declared, now: Tree, cluster: str
) -> tuple[tuple[tuple[Distributor, str], ...], Tree, dict[str, TargetChoice]]:
    """Who has to go over to another leaf before a cluster leaves; and the tree and what is chosen, once they have."""
    choices = _choices(declared, now)
    going = to_go_over(now, choices, cluster)
    targets = {(each.cluster, each.level, each.leaves): leaf for each, leaf in going}
    chosen = {each.name: TargetChoice(target=leaf, wanted=leaf) for each, leaf in going}
    return going, replace(now, switched={**now.switched, **targets}), {**choices, **chosen}


def _choices(declared: Declared, tree: Tree) -> dict[str, TargetChoice]:
    return {
        each.name: declared.choices[each.cluster, each.name]
        for each in tree.distributors
        if (each.cluster, each.name) in declared.choices
    }


def require_clusters(declared: Declared, aliases: Collection[str]) -> None:
    """See that clusters answer, and that they are several.

    :raises Unreachable: One does not.
    :raises PlanRefused: Two are one.
    """
    for alias in sorted(aliases):
        if not declared.is_there(alias):
            problem = declared.away.get(alias)
            raise Unreachable(
                problem.message if problem else f"{alias} does not answer",
                cluster=alias,
                hint=problem.hint if problem else "",
            )
    ids: dict[str, str] = {}
    for alias in sorted(aliases):
        other = ids.setdefault(declared.ids[alias], alias)
        if other != alias:
            raise PlanRefused(
                f"{alias} and {other} are the same cluster",
                hint="Every cluster is one leaf: correct bootstrap_servers.",
            )
