"""The trees of a configuration: their distributors' targets, and what is refused rather than left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from isthmus.errors import ConfigError, PlanRefused, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.admin.topics import selected_topics
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.memory.filtering import filters_of
from isthmus.memory.links import recollect
from isthmus.memory.switching import DistributorTarget, ask_for, check_certain, read_allowances, read_choice
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.problem import Problem, problem_of
from isthmus.model.trees.tree import Distributor, TreeSettings

if TYPE_CHECKING:
    from isthmus.model.trees.treeverdict import TreeVerdict
    from isthmus.spark.application import SparkApplication
    from isthmus.spark.compare.links import OnVerified


class Trees:
    """The trees of one configuration, to read and to change."""

    def __init__(self, configuration: Configuration, session: ClientSession, application: SparkApplication) -> None:
        self._configuration = configuration
        self._session = session
        self._application = application

    async def targets(self, tree: str | None = None) -> tuple[DistributorTarget, ...]:
        """Return the targets of a tree's distributors, or of those of all trees, where there is a choice of leaves.
        Choices on clusters that do not answer are unknown.

        :raises ConfigError: There is no such tree.
        :raises ClusterError: A cluster of it answers, and its ledger cannot be read.
        """
        found: list[DistributorTarget] = []
        away: dict[str, Problem] = {}
        for settings in trees_named(self._configuration.trees, tree):
            for each in (one for one in settings.tree.by_itself.distributors if len(one.leaves) > 1):
                if each.cluster not in away:
                    try:
                        known = await read_choice(self._session.client(self._cluster(each)), each.name)
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
        """Let the distributor of a cluster for a level copy to another leaf, in good order: its controller changes once
        every leaf of the subtree has all that was sent before. Choosing the present target again revokes that.

        With `force` the present target, which may be gone, is not asked: it is in doubt until it is back and has got
        what it lacks. With `resend` the other leaf gets that as well, which may then be copied twice.

        :raises ConfigError: There is no such tree, cluster, level or leaf, or `resend` is given without `force`.
        :raises PlanRefused: The distributor is paused, or has filters, which would stay at its present target; the leaf
            is in doubt; or the source does not know how far the distributor went.
        :raises ClusterError: A cluster that is needed does not answer.
        """
        if resend and not force:
            raise ConfigError("nothing is sent again in good order", hint="Give --force with --resend.")
        (settings,) = trees_named(self._configuration.trees, tree)
        distributor = settings.tree.by_itself.distributor(cluster, level, to)
        source = self._session.client(self._cluster(distributor))
        known = await read_choice(source, distributor.name)
        check_certain(distributor, to, None if known is None else known.choice)
        now = DistributorTarget.of(distributor, known)
        if to != now.target and force:
            await self._check_known(source, distributor.name, now.target)
            await describe_cluster(self._session.client(self._configuration.cluster(to)))
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

    async def comparison(
        self, tree: str, *, topics: Collection[str] = (), on_progress: OnVerified | None = None
    ) -> Callable[[], TreeVerdict]:
        """What checks on Spark whether every record of a tree is once on each of its clusters, in the order of its
        producer: of all its topics, or these. The function that is returned blocks for as long as that takes, and
        programs without an event loop get its result.

        :raises ConfigError: There is no such tree, or no topic of that name in it.
        :raises ClusterError: A cluster could not be read; the function raises that too.
        """
        (settings,) = trees_named(self._configuration.trees, tree)
        clusters = {alias: self._configuration.cluster(alias) for alias in settings.tree.clusters}
        selected = await self._topics(settings, topics)
        targets = await self.targets(tree)
        doubting = [each for each in targets if each.doubts]

        def compare() -> TreeVerdict:
            self._application.find()
            from isthmus.spark.compare.trees import verify_tree

            return verify_tree(
                self._application.session(),
                settings.tree,
                clusters,
                selected,
                header=settings.tree.header if settings.flags == "header" else None,
                in_doubt={doubt.leaf for each in doubting for doubt in each.doubts},
                # Records that a leaf gets late reach the other leaves of its subtree from there.
                doubted={leaf for each in doubting for leaf in each.distributor.leaves},
                switched={leaf for each in targets if each.former for leaf in each.distributor.leaves},
                progress=on_progress,
            )

        return compare

    async def _topics(self, settings: TreeSettings, chosen: Collection[str]) -> set[str]:
        """Return the topics of a tree that one of its clusters has, all of them or those named."""
        patterns = next(link.topics for link in self._configuration.links if link.tree == settings.tree.name)
        seen: set[str] = set()
        for alias in settings.tree.clusters:
            found = await selected_topics(self._session.client(self._configuration.cluster(alias)), patterns)
            seen |= {name for name, topic in found.topics.items() if topic.error_code == codes.NONE}
        for name in chosen:
            if name not in seen:
                raise ConfigError(
                    f"tree {settings.tree.name} has no topic {name}",
                    hint=f"There are {', '.join(sorted(seen)) or 'none at all'}.",
                )
        return set(chosen) or seen

    async def _check_known(self, source: Client, link: str, target: str) -> None:
        if await read_allowances(source, link, target) is None:
            raise PlanRefused(
                f"{link} has never reported at {source.cluster.alias} how far it goes with {target}",
                hint="isthmus run of this version states that by itself. Without --force it waits for the target.",
            )

    async def _check_ready(self, link: str, target: str, to: str) -> None:
        try:
            known = await recollect(link, self._session.client(self._configuration.cluster(target)))
        except Unreachable as error:
            raise Unreachable(
                error.message,
                cluster=error.cluster,
                hint=f"{error.hint} Where {target} stays away --force goes over without it: docs/trees.md.",
            ) from None
        if known.paused.parts:
            raise PlanRefused(
                f"{link} is paused, so that it cannot end its open work", hint=f"isthmus resume {link} first."
            )
        if not filters_of(link, known.documents).is_as_written:
            raise PlanRefused(
                f"{link} selects what an operator has set at {target}, and {to} knows nothing of that",
                hint=f"isthmus filters {link} --reset first, and change trees[].topics instead.",
            )
        await describe_cluster(self._session.client(self._configuration.cluster(to)))

    def _cluster(self, distributor: Distributor) -> Cluster:
        return self._configuration.cluster(distributor.cluster)


def trees_named(trees: tuple[TreeSettings, ...], name: str | None) -> tuple[TreeSettings, ...]:
    """Return the tree of that name, or all of them.

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
