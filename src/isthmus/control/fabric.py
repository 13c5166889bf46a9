"""The public face: a configuration opened, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from isthmus.control.application import SparkApplication
from isthmus.control.async_fabric import AsyncFabric, opened
from isthmus.control.blocking import in_loop
from isthmus.control.clusters.administration import Administration
from isthmus.control.groups.links import Groups
from isthmus.control.links.declaring import DeclaredLinks
from isthmus.control.links.filtering import Filters
from isthmus.control.links.following import Reread
from isthmus.control.links.forgetting import Forgotten
from isthmus.control.links.outcome import RunOutcome
from isthmus.control.links.reshaping import TreeChanges
from isthmus.control.links.switching import DistributorTarget
from isthmus.control.topics.plan import Plan
from isthmus.model.configuration import Configuration, MetricsSettings
from isthmus.model.link import Link
from isthmus.model.progress import LinkProgress
from isthmus.model.reshaping import Reshaping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from isthmus.control.links.controller import OnProgress, Until
    from isthmus.spark.verification import OnVerified, Verdict

DoneT = TypeVar("DoneT")


class Fabric:
    """All clusters and links of one configuration.

        with isthmus.open("isthmus.yaml") as fabric:
            print(fabric.plan().as_dict())
            fabric.run(until="caught-up")
            fabric.verify()

    It is `AsyncFabric` for programs without an event loop, and for notebooks, which have one and cannot wait in it:
    each call connects to the clusters, and blocks until it is done. Runs use the Spark session given, else one of
    their own, which is stopped by `close`.
    """

    def __init__(self, configuration: Configuration, *, spark: SparkSession | None = None) -> None:
        self.configuration = configuration
        self._application = SparkApplication(configuration, spark)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the Spark session, if it is our own."""
        self._application.close()

    def links(self, name: str | None = None) -> tuple[Link, ...]:
        """The link of that name, or all of them.

        :raises ConfigError: There is none of that name.
        """
        return self._core().links(name)

    def cluster(self, alias: str) -> Administration:
        """The cluster of that alias, to be described, looked into and kept in balance.

        :raises ConfigError: There is none of that alias.
        """
        return Administration(self.configuration.cluster(alias), self.configuration.ledger, self.configuration.clusters)

    @property
    def declarations(self) -> DeclaredLinks:
        """The links that are declared on the clusters, to be created, changed and deleted."""
        return DeclaredLinks(self.configuration.written)

    @property
    def groups(self) -> Groups:
        """The consumer groups the links carry: planned, carried once, and drilled."""
        return Groups(self.links, self.configuration.ledger)

    def plan(self, *, link: str | None = None, clusters: Collection[str] = ()) -> Plan:
        """What `run` would create and copy, per topic with mode and reasons; see `AsyncFabric.plan`."""
        return self._done(lambda core: core.plan(link=link, clusters=clusters))

    def targets(self, tree: str | None = None) -> tuple[DistributorTarget, ...]:
        """Where the distributors of trees copy to; see `Trees.targets`."""
        return self._done(lambda core: core.trees.targets(tree))

    def switch(self, tree: str, cluster: str, level: int, to: str, *, dry_run: bool = False) -> DistributorTarget:
        """Have a distributor copy to another leaf of its subtree; see `Trees.switch`."""
        return self._done(lambda core: core.trees.switch(tree, cluster, level, to, dry_run=dry_run))

    def add_to_tree(
        self,
        tree: str,
        cluster: str,
        *,
        beside: str | None = None,
        level: int | None = None,
        without_left: bool = False,
        dry_run: bool = False,
    ) -> Reshaping:
        """Have another cluster be in a tree, above all others or beside one; see `TreeChanges.add`."""
        asked = partial(TreeChanges.add, beside=beside, level=level, without_left=without_left, dry_run=dry_run)
        return self._done(lambda core: asked(core.tree_changes, tree, cluster))

    def remove_from_tree(self, tree: str, cluster: str, *, dry_run: bool = False) -> Reshaping:
        """Have a cluster leave a tree; see `TreeChanges.remove`."""
        return self._done(lambda core: core.tree_changes.remove(tree, cluster, dry_run=dry_run))

    def filters(self, link: str) -> Filters:
        """What an operator has the link select in place of what the configuration says; see `AsyncFabric.filters`."""
        return self._done(lambda core: core.filters(link))

    def filter(self, link: str, filters: Filters, *, dry_run: bool = False) -> Filters:
        """Have the link select something else from now on, whether it runs or not; see `AsyncFabric.filter`."""
        return self._done(lambda core: core.filter(link, filters, dry_run=dry_run))

    def run(
        self,
        *,
        until: Until | None = None,
        link: str | None = None,
        clusters: Collection[str] = (),
        on_progress: OnProgress | None = None,
        take_over: bool = False,
        standby: bool = False,
        reread: Reread | None = None,
        follow_config: bool = False,
        metrics: MetricsSettings | None = None,
    ) -> RunOutcome:
        """Create what is missing and copy, until everything is copied or for ever; see `AsyncFabric.run`."""
        return self._done(
            lambda core: core.run(
                until=until,
                link=link,
                clusters=clusters,
                on_progress=on_progress,
                take_over=take_over,
                standby=standby,
                reread=reread,
                follow_config=follow_config,
                metrics=metrics,
            )
        )

    def status(self, *, link: str | None = None) -> tuple[LinkProgress, ...]:
        """How the links stand, with rates; see `AsyncFabric.status`."""
        return self._done(lambda core: core.status(link=link))

    def forget(self, link: str, topics: Collection[str] = (), *, dry_run: bool = False) -> tuple[Forgotten, ...]:
        """Have the ledger forget topics that a link mirrored once; see `AsyncFabric.forget`."""
        return self._done(lambda core: core.forget(link, topics, dry_run=dry_run))

    def forget_link(self, link: str, *, cluster: str, dry_run: bool = False) -> tuple[str, ...]:
        """Have the ledger of a cluster forget a link that is run no more; see `AsyncFabric.forget_link`."""
        return self._done(lambda core: core.forget_link(link, cluster=cluster, dry_run=dry_run))

    def verify(
        self,
        *,
        link: str | None = None,
        topics: Collection[str] = (),
        since_ms: int | None = None,
        until_ms: int | None = None,
        allow_lag: bool = False,
        on_progress: OnVerified | None = None,
    ) -> dict[str, Verdict]:
        """Compare both logs on Spark, by link: every offset, timestamp, key, value and header; see
        `AsyncFabric.comparison`."""
        compare = self._done(
            lambda core: core.comparison(
                link=link,
                topics=topics,
                since_ms=since_ms,
                until_ms=until_ms,
                allow_lag=allow_lag,
                on_progress=on_progress,
            )
        )
        # In this thread: Ctrl-C ends it.
        return compare()

    def _core(self) -> AsyncFabric:
        return AsyncFabric(self.configuration, application=self._application)

    def _done(self, ask: Callable[[AsyncFabric], Coroutine[Any, Any, DoneT]]) -> DoneT:
        """The answer to one question, over connections of its own."""

        async def answer() -> DoneT:
            async with self._core() as core:
                return await ask(core)

        return in_loop(answer())


def open_fabric(
    configuration: str | Path | Configuration | None = None,
    *,
    spark: SparkSession | None = None,
    declared: bool = False,
) -> Fabric:
    """The fabric a configuration file describes; without a path the file is looked for.

    With `declared` its links are those of the file and those that were declared on its clusters.

    :raises ConfigError: There is no such file, or it cannot be used.
    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """
    return Fabric(in_loop(opened(configuration, declared=declared)), spark=spark)
