"""The trees of a configuration: where their distributors copy to, and what is refused rather than left out."""

from __future__ import annotations

from isthmus.cluster.brokers import describe_cluster
from isthmus.control.links.filtering import filters_of
from isthmus.control.links.memory import recollect
from isthmus.control.links.switching import DistributorTarget, ask_for, check_certain, read_allowances, read_choice
from isthmus.control.pool import ClusterPool
from isthmus.errors import ConfigError, PlanRefused, Unreachable
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.problem import Problem, problem_of
from isthmus.model.tree import Distributor, TreeSettings
from isthmus.wire.client import Client


class Trees:
    """The trees of one configuration, and what can be asked of them and done with them."""

    def __init__(self, configuration: Configuration, pool: ClusterPool) -> None:
        self._configuration = configuration
        self._pool = pool

    async def targets(self, tree: str | None = None) -> tuple[DistributorTarget, ...]:
        """Where the distributors of a tree copy to, or of all trees: of those that have a choice of leaves. What is
        chosen on clusters that do not answer is not known.

        :raises ConfigError: There is no such tree.
        :raises ClusterError: A cluster of it answers, and its ledger cannot be read.
        """
        found: list[DistributorTarget] = []
        away: dict[str, Problem] = {}
        for settings in trees_named(self._configuration.trees, tree):
            for each in (one for one in settings.tree.by_itself.distributors if len(one.leaves) > 1):
                if each.cluster not in away:
                    try:
                        known = await read_choice(self._pool.client(self._cluster(each)), each.name)
                        found.append(DistributorTarget.of(each, known))
                        continue
                    except Unreachable as error:
                        away[each.cluster] = problem_of(error)
                found.append(DistributorTarget.unknown(each, away[each.cluster]))
        return tuple(found)

    async def switch(
        self,
        tree: str,
        cluster: str,
        level: int,
        to: str,
        *,
        force: bool = False,
        resend: bool = False,
        dry_run: bool = False,
    ) -> DistributorTarget:
        """Have the distributor of a cluster for a level copy to another leaf, in good order: whoever runs it lets it go
        over once every leaf of the subtree has what was sent before. The present target takes that back.

        With `force` nobody asks the present target, which may be gone: it is in doubt until it is back and has got what
        it lacks. With `resend` the other leaf gets that as well, which may come twice then.

        :raises ConfigError: There is no such tree, cluster, level or leaf, or `resend` stands without `force`.
        :raises PlanRefused: The distributor is paused, or has filters, which would stay at its present target; the leaf
            is in doubt; or nothing is known at the source of how far the distributor went.
        :raises ClusterError: A cluster that takes part does not answer.
        """
        if resend and not force:
            raise ConfigError("nothing is sent again in good order", hint="Give --force with --resend.")
        (settings,) = trees_named(self._configuration.trees, tree)
        distributor = settings.tree.by_itself.distributor(cluster, level, to)
        source = self._pool.client(self._cluster(distributor))
        known = await read_choice(source, distributor.name)
        check_certain(distributor, to, None if known is None else known.choice)
        now = DistributorTarget.of(distributor, known)
        if to != now.target and force:
            await self._check_known(source, distributor.name, now.target)
            await describe_cluster(self._pool.client(self._configuration.cluster(to)))
        elif to != now.target:
            await self._check_ready(distributor.name, now.target, to)
        return await ask_for(
            source,
            distributor,
            to,
            self._configuration.ledger,
            is_forced=force and to != now.target,
            is_resent=resend and to != now.target,
            dry_run=dry_run,
        )

    async def _check_known(self, source: Client, link: str, target: str) -> None:
        if await read_allowances(source, link, target) is None:
            raise PlanRefused(
                f"{link} has never said at {source.cluster.alias} how far it goes with {target}",
                hint="isthmus run of this version states that by itself. Without --force it waits for the target.",
            )

    async def _check_ready(self, link: str, target: str, to: str) -> None:
        try:
            known = await recollect(link, self._pool.client(self._configuration.cluster(target)))
        except Unreachable as error:
            raise Unreachable(
                error.message,
                cluster=error.cluster,
                hint=f"{error.hint} Where {target} stays away --force goes over without it: docs/trees.md.",
            ) from None
        if known.paused.parts:
            raise PlanRefused(
                f"{link} is paused, so that it cannot end what it has begun", hint=f"isthmus resume {link} first."
            )
        if not filters_of(link, known.documents).is_as_written:
            raise PlanRefused(
                f"{link} selects what an operator has said at {target}, and {to} knows nothing of that",
                hint=f"isthmus filters {link} --reset first, and change trees[].topics instead.",
            )
        await describe_cluster(self._pool.client(self._configuration.cluster(to)))

    def _cluster(self, distributor: Distributor) -> Cluster:
        return self._configuration.cluster(distributor.cluster)


def trees_named(trees: tuple[TreeSettings, ...], name: str | None) -> tuple[TreeSettings, ...]:
    """The tree of that name, or all of them.

    :raises ConfigError: There is none.
    """
    found = tuple(each for each in trees if name in (None, each.tree.name))
    if not found:
        names = ", ".join(each.tree.name for each in trees)
        raise ConfigError(
            f"there is no tree {name}" if name else "there are no trees",
            hint=f"There are {names}." if names else "Write them into the file, or declare them: isthmus tree create.",
        )
    return found
