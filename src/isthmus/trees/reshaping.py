"""Add a cluster to a tree that runs, remove it, or move it: planned, and carried out as far as possible by now.

The new shape is a document in the ledgers of all the tree's clusters, which every process that runs it follows; the
file should say the same sooner or later. Before that, distributors whose targets would change are pinned to those
that they have. Each step may be repeated: an interrupted call is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from isthmus.errors import ConfigError, GateNotMet, PlanRefused, Unreachable
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import TreeDocument
from isthmus.memory.declarations import Declarations, read_declarations
from isthmus.memory.declared import Declared
from isthmus.memory.forgetting import forget_link
from isthmus.memory.links import now_ms
from isthmus.memory.switching import forget_choice, wish_for_leaf, write_choice
from isthmus.model.configuration import Configuration
from isthmus.model.selection import TopicSettings
from isthmus.model.trees.departure import to_go_over, to_leave, uncertain
from isthmus.model.trees.reshaping import (
    Reshaping,
    TreeShape,
    add_cluster,
    become,
    check_empty,
    done_before,
    last_with,
    move_cluster,
    remove_cluster,
)
from isthmus.model.trees.switching import TargetChoice, choice_of
from isthmus.model.trees.tree import Distributor, Tree
from isthmus.spark.leases.tenure import REVOCATION_S
from isthmus.topics.names import find_topics
from isthmus.trees.draining import QUIET_S, check_drained
from isthmus.trees.gone import PATIENCE_S, GoneCluster
from isthmus.trees.targets import trees_named


class TreeChanges:
    """The changes to trees of one configuration while they run. With `dry_run` nothing is written.

    For `quiet_s` a cluster that leaves must not have been produced to. A distributor that leaves a cluster that is gone
    has no requests in flight there after `revocation_s`; one call waits `patience_s` for it.
    """

    def __init__(
        self,
        configuration: Configuration,
        session: ClientSession,
        *,
        quiet_s: float = QUIET_S,
        revocation_s: float = REVOCATION_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._configuration = configuration
        self._session = session
        self._quiet_s = quiet_s
        self._waits = {"revocation_s": revocation_s, "patience_s": patience_s}

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
        """Add another cluster of the file to a tree: above all others, beside one of them, or as one more part of a
        node that one of them is in (`among`): the lowest, or that of a `level`.

        :raises ConfigError: There is no such tree, cluster or node, or it is in the tree.
        :raises PlanRefused: No level is free for it, or existing distributors would have to begin again; or the tree
            was changed meanwhile.
        :raises GateNotMet: It was in the tree before, and still has its topics; the same call later continues.
        :raises ClusterError: A cluster of the tree does not answer.
        """
        self._configuration.cluster(cluster)
        declarations, declared = await read_declarations(self._configuration, self._session)
        now, shape = self._now(declared, tree)

        def change(before: Tree) -> Reshaping:
            return add_cluster(
                before,
                declared.find_chosen([before]),
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

    async def remove(
        self, tree: str, cluster: str, *, force: bool = False, gone: Collection[str] = (), dry_run: bool = False
    ) -> Reshaping:
        """Remove a cluster from a tree, once no distributor copies to it that could copy to another leaf, and all that
        was produced there is everywhere. Distributors that still have to change to another leaf are requested to.

        With `force` the cluster is not asked: it is gone for good. What is lost with it is the `loss` of the result.
        Clusters of the tree that are `gone` as well are not asked either, and leave by a call of their own.

        :raises ConfigError: There is no such tree, or the cluster is not in it; or `gone` stands without `force`.
        :raises PlanRefused: Only one would be left, or existing distributors would have to begin again; with `force`,
            it answers, or it is unknown how far a distributor that copied to it went.
        :raises GateNotMet: It cannot leave yet; the same call later continues.
        :raises ClusterError: A cluster of the tree does not answer, of those that are not gone.
        """
        if gone and not force:
            raise ConfigError("clusters that answer leave one by one", hint="Give --force with --gone.")
        declarations, declared = await read_declarations(self._configuration, self._session)
        now, shape = self._now(declared, tree)
        spent = shape.spent if shape else ()

        def change(before: Tree) -> Reshaping:
            return remove_cluster(before, declared.find_chosen([before]), cluster, spent=spent, unheard=gone)

        leaver = None
        if force:
            leaver = GoneCluster(declarations, cluster, gone, self._configuration.ledger, **self._waits)
        if cluster not in now.clusters and (done := done_before(now, shape, change)) is not None:
            return await self._finish(declarations, declared, *done, leaver=leaver, dry_run=dry_run)
        if leaver is not None:
            return await self._remove_gone(declarations, declared, tree, leaver, dry_run=dry_run)
        going = to_go_over(now, declared.find_chosen([now]), cluster)
        ahead, choices = _ahead(declared, now, going)
        found = remove_cluster(ahead, choices, cluster, spent=spent)
        if not dry_run:
            await self._let_go(declarations, declared, found, going, shape)
        return found

    async def move(
        self, tree: str, cluster: str, *, beside: str, level: int | None = None, dry_run: bool = False
    ) -> Reshaping:
        """Move a cluster to another place of a tree: it leaves as by `remove`; then its topics have to be deleted
        there, as they would be copied everywhere once more; and it comes in again beside another cluster, from which it
        gets everything.

        :raises ConfigError: There is no such tree or cluster, or it never was in the tree.
        :raises PlanRefused: No level is free for it, or existing distributors would have to begin again.
        :raises GateNotMet: It cannot leave yet, or its topics are still there; the same call later continues.
        :raises ClusterError: A cluster of the tree does not answer.
        """
        self._configuration.cluster(cluster)
        declarations, declared = await read_declarations(self._configuration, self._session)
        now, shape = self._now(declared, tree)

        def change(before: Tree) -> Reshaping:
            choices = declared.find_chosen([before])
            return add_cluster(before, choices, cluster, beside=beside, level=level, spent=shape.spent if shape else ())

        if cluster in now.clusters:
            if (done := done_before(now, shape, change)) is not None:
                return await self._finish(declarations, declared, *done, dry_run=dry_run)
            going = to_go_over(now, declared.find_chosen([now]), cluster)
            ahead, choices = _ahead(declared, now, going)
            found = move_cluster(
                ahead, choices, cluster, beside=beside, level=level, spent=shape.spent if shape else ()
            )
            if dry_run:
                return found
            without = remove_cluster(ahead, choices, cluster, spent=shape.spent if shape else ())
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
        """Remove a cluster, if it can leave by now.

        :raises GateNotMet: It cannot leave yet; the same call later continues.
        """
        now, cluster = found.before, found.cluster
        require_clusters(declared, now.clusters)
        _check_certain(declared, now, cluster)
        for each, leaf in going:
            by_itself = now.by_itself.distributor(each.cluster, each.level, leaf)
            await write_choice(declarations.client(each.cluster), each.name, partial(wish_for_leaf, by_itself, leaf))
        if going:
            names = ", ".join(f"{each.name} to {leaf}" for each, leaf in going)
            raise GateNotMet(
                f"{cluster} cannot leave yet: these go over to another leaf first: {names}",
                hint="isthmus tree targets shows how far they are. Then call this again.",
            )
        await check_drained(declarations, now, cluster, self._topics(declared, now.name), quiet_s=self._quiet_s)
        # The check took a while.
        declared = await declarations.look()
        check_left(declared, now, cluster)
        _check_certain(declared, now, cluster)
        await self._write(declarations, found, shape)

    async def _check_empty(self, declarations: Declarations, declared: Declared, tree: str, cluster: str) -> None:
        """Require that a cluster that comes back has none of the tree's topics.

        :raises GateNotMet: It has some.
        """
        found = await find_topics(declarations.client(cluster), self._topics(declared, tree))
        check_empty(tree, cluster, found.there.values())

    async def _forget(self, declarations: Declarations, before: Tree, cluster: str) -> None:
        """Delete what is known of the copies that distributors of the former tree made to and from a cluster whose
        topics are gone.

        :raises GateNotMet: Such a distributor is still run.
        """
        known = [
            (each.name, alias)
            for each in before.distributors
            for alias in ((*each.leaves, cluster) if each.cluster == cluster else (cluster,))
            if each.cluster == cluster or cluster in each.leaves
        ]
        for name, alias in known:
            try:
                client = self._session.client(self._configuration.cluster(alias))
                await forget_link(client, name, self._configuration.ledger)
            except PlanRefused as refused:
                raise GateNotMet(
                    f"{refused.message} at {alias} still, which ends",
                    hint="isthmus run follows within seconds. Then call this again.",
                ) from None
            except ConfigError:
                # That ledger holds no records of the distributor.
                continue

    def _now(self, declared: Declared, name: str) -> tuple[Tree, TreeShape | None]:
        """Return the tree as it is run now."""
        (settings,) = trees_named(declared.over(self._configuration).trees, name)
        return settings.tree, declared.shapes.get(name)

    def _topics(self, declared: Declared, name: str) -> TopicSettings:
        """Return the topics of a tree, as its distributors select them."""
        return next(link.topics for link in declared.over(self._configuration).links if link.tree == name)

    async def _remove_gone(
        self, declarations: Declarations, declared: Declared, tree: str, leaver: GoneCluster, *, dry_run: bool
    ) -> Reshaping:
        """Remove a cluster that is gone, once the loss is known and all distributors have left it."""
        cluster, gone = leaver.cluster, leaver.gone
        now, shape = self._now(declared, tree)
        spent = shape.spent if shape else ()
        ahead, choices = _ahead(declared, now, to_leave(now, declared.find_chosen([now]), cluster, gone=gone))
        found = remove_cluster(ahead, choices, cluster, spent=spent, unheard=gone)
        leaver.check(declared, now)
        await leaver.check_silent()
        leaver.require_others(declared, now)
        require_clusters(declared, {*now.clusters} - {cluster, *gone})
        loss = await leaver.examine(declared, now)
        if not dry_run:
            declared = await leaver.leave(declared, now)
            found = remove_cluster(now, declared.find_chosen([now]), cluster, spent=spent, unheard=gone)
            await self._write(declarations, replace(found, loss=loss), shape, silent=(cluster, *gone))
            await leaver.bar(declared, found.before, found.after)
        return replace(found, loss=loss)

    async def _finish(
        self,
        declarations: Declarations,
        declared: Declared,
        found: Reshaping,
        shape: TreeShape,
        *,
        leaver: GoneCluster | None = None,
        dry_run: bool,
    ) -> Reshaping:
        """Write a change that was made already to all clusters, if an earlier call was interrupted."""
        if not dry_run:
            silent = () if leaver is None else (leaver.cluster, *leaver.gone)
            silent = tuple(alias for alias in silent if not declared.is_there(alias))
            require_clusters(declared, {*found.before.clusters, *found.after.clusters} - {*silent})
            await _tell(declarations, found, shape, silent)
            if leaver is not None:
                await leaver.bar(declared, found.before, found.after)
        return found

    async def _write(
        self,
        declarations: Declarations,
        found: Reshaping,
        shape: TreeShape | None,
        *,
        silent: Collection[str] = (),
    ) -> None:
        for each in found.begun:
            # The number of a part that has left may be used again.
            await forget_choice(declarations.client(each.cluster), each.name)
        for name, pin in found.pins.items():
            source = next(each.cluster for each in found.after.distributors if each.name == name)
            await write_choice(declarations.client(source), name, partial(pin_choice, name, pin))
        await _tell(declarations, found, become(found, shape), silent)


async def _tell(declarations: Declarations, found: Reshaping, shape: TreeShape, silent: Collection[str] = ()) -> None:
    """Write the new shape of a tree to all its clusters, and to one that leaves it: always in the same order, so that
    of two changes at the same time one is refused. Those that are `silent` get it from the process that runs the tree,
    once they are back.

    :raises PlanRefused: The tree was changed meanwhile.
    """
    document = TreeDocument(tree=found.after.name, shape=shape, since_ms=now_ms())
    for alias in dict.fromkeys((*found.before.clusters, *found.after.clusters)):
        if alias not in silent:
            await declarations.write_tree(alias, document)


def _check_certain(declared: Declared, tree: Tree, cluster: str) -> None:
    """Require that no leaf lacks records that would not come any more once a cluster has left.

    :raises GateNotMet: A leaf is in doubt.
    """
    found = uncertain(tree, declared.find_chosen([tree]), cluster)
    if found is not None:
        raise GateNotMet(
            f"{found[0]} is IN_DOUBT: it may lack what {found[1]} sent to it",
            hint="It gets that by itself while isthmus run runs. Then call this again.",
        )


def check_left(declared: Declared, tree: Tree, cluster: str) -> None:
    """Require that a cluster was not chosen or requested for a distributor during the wait until it can leave.

    :raises GateNotMet: It was.
    :raises Unreachable: A cluster does not answer any more.
    """
    require_clusters(declared, tree.clusters)
    for each in tree.distributors:
        known = choice_of(each.target, each.leaves, declared.choices.get((each.cluster, each.name)))
        is_elsewhere = cluster == each.cluster or each.leaves == (cluster,)
        if not is_elsewhere and cluster in (known.target, known.wanted, known.finishes):
            raise GateNotMet(
                f"{cluster} was chosen for {each.name} meanwhile, or is wanted",
                hint="isthmus tree targets shows it. Then call this again.",
            )


def pin_choice(name: str, pin: TargetChoice, now: TargetChoice | None) -> TargetChoice | None:
    """Return the new choice for a distributor that is to stay at its target.

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
    declared: Declared, now: Tree, going: Sequence[tuple[Distributor, str]]
) -> tuple[Tree, dict[str, TargetChoice]]:
    """Return the tree and the choices, once these have changed to another leaf."""
    targets = {(each.cluster, each.level, each.leaves): leaf for each, leaf in going}
    chosen = {each.name: TargetChoice(target=leaf, wanted=leaf) for each, leaf in going}
    return replace(now, switched={**now.switched, **targets}), {**declared.find_chosen([now]), **chosen}


def require_clusters(declared: Declared, aliases: Collection[str]) -> None:
    """Require that clusters answer, and that they are different ones.

    :raises Unreachable: A cluster does not answer.
    :raises PlanRefused: Two aliases are one cluster.
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
