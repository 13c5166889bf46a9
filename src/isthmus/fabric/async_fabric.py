"""A configuration opened by an event loop, and what can be done with it. A verb loads what it needs when called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from isthmus.errors import ConfigError, IsthmusError
from isthmus.fabric.comparing import OpenedWithSpark, comparison
from isthmus.fabric.expressions import check_expressions
from isthmus.fabric.names import live_names
from isthmus.fabric.opening import open_configuration
from isthmus.fabric.status import FabricStatus
from isthmus.fabric.trying import transform_trial
from isthmus.kafka.session import ClientSession
from isthmus.memory.claims import Claims
from isthmus.memory.filtering import in_force, read_filters, write_filters
from isthmus.memory.forgetting import Forgotten, forget, forget_link
from isthmus.memory.provenance import provenance_of
from isthmus.model.links.outcome import RunOutcome
from isthmus.run.following import Following, OnConfiguration, Reread
from isthmus.run.starting import run_links
from isthmus.run.telling import telling
from isthmus.schemas.distribution import AsyncSchemas
from isthmus.spark.application import SparkApplication
from isthmus.status.status import StatusReader
from isthmus.topics.plan import Plan
from isthmus.trees.reshaping import TreeChanges
from isthmus.trees.targets import Trees, trees_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from isthmus.clusters.administration import AsyncAdministration
    from isthmus.clusters.reassigning import AsyncReassigning
    from isthmus.fabric.operations import AsyncLinkOperations
    from isthmus.groups.links import AsyncGroups
    from isthmus.links.declaring import AsyncDeclaredLinks
    from isthmus.model.configuration import Configuration, MetricsSettings
    from isthmus.model.gateways.moves import Clients
    from isthmus.model.gateways.registered import ForgottenGateway, GatewayPair, GatewaysReport
    from isthmus.model.kafka.findings import Finding
    from isthmus.model.link import Link
    from isthmus.model.links.outcome import Until
    from isthmus.model.links.promotion import Promotion
    from isthmus.model.namespace import NamespaceMap
    from isthmus.model.problem import Problem
    from isthmus.recovery.replaying import QuarantinedPartition
    from isthmus.run.controller import OnProgress
    from isthmus.run.stopping import StopRequest
    from isthmus.trees.declaringtrees import AsyncDeclaredTrees

SAMPLE_S: Final = 1.0


class AsyncFabric(OpenedWithSpark):
    """All clusters and links of one configuration, for programs that have an event loop.

        async with await isthmus.AsyncFabric.open("isthmus.yaml") as fabric:
            print((await fabric.plan()).as_dict())
            await fabric.run(until="caught-up")

    Until it is closed it keeps one client of each cluster and follows each ledger once, whatever is asked or changed;
    runs and readers of the status have clients of their own. Runs use the Spark session given, else one of their own,
    which `aclose` stops; an `application` or a `session` belongs to the caller who made it.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        spark: SparkSession | None = None,
        application: SparkApplication | None = None,
        session: ClientSession | None = None,
    ) -> None:
        super().__init__(
            configuration, session or ClientSession(), application or SparkApplication(configuration, spark)
        )
        self._is_application_ours = application is None
        self._is_session_ours = session is None

    @classmethod
    async def open(
        cls,
        configuration: str | Path | Configuration | None = None,
        *,
        spark: SparkSession | None = None,
        declared: bool | None = None,
    ) -> Self:
        """The fabric a configuration file describes; without a path the file is looked for.

        Its links are those of the file and, as for commands, those that were declared on its clusters: these are left
        out with `declared=False`. A `Configuration` that is given is taken as it is, unless with `declared=True`.

        :raises ConfigError: There is no such file, or it cannot be used.
        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        session = ClientSession()
        try:
            opened = await open_configuration(configuration, session, declared=declared)
        except BaseException:
            await session.aclose()
            raise
        fabric = cls(opened, spark=spark, session=session)
        fabric._is_session_ours = True
        return fabric

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave the clusters, and stop the Spark session, if they are our own."""
        if self._is_session_ours:
            await self.session.aclose()
        if self._is_application_ours:
            await asyncio.to_thread(self.application.close)

    def cluster(self, alias: str) -> AsyncAdministration:
        """The cluster of that alias, to be described, looked into and kept in balance.

        :raises ConfigError: There is none of that alias.
        """
        from isthmus.clusters.administration import AsyncAdministration

        chosen = self.configuration.cluster(alias)
        return AsyncAdministration(chosen, self.session, self.configuration.ledger, self.configuration.clusters)

    async def quarantine(self) -> tuple[QuarantinedPartition, ...]:
        """What was set aside at all clusters when topics were recovered, and dead letters of transforms, whatever
        became of the links.

        :raises ClusterError: A cluster cannot be read.
        """
        from isthmus.recovery.holdings import all_holdings

        return await all_holdings(map(self.session.client, self.configuration.clusters))

    async def gateways(
        self, cluster: str | None = None, *, away: Mapping[str, Problem] = MappingProxyType({})
    ) -> GatewaysReport:
        """The gateways that have registered before a cluster or serve it by now, or all of them, and the synchronous
        links that they hold. A cluster that does not tell within five seconds is named, and keeps nobody waiting. Those
        that are `away`, as was just seen when the configuration was opened (`Configuration.unread`), are not asked.

        :raises ConfigError: There is no cluster of that alias.
        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        from isthmus.links.gateways import registered_gateways

        return await registered_gateways(self.configuration, self.session, cluster, away=away)

    async def forget_gateway(
        self,
        cluster: str,
        gateway: str,
        *,
        away: Mapping[str, Problem] = MappingProxyType({}),
        dry_run: bool = False,
    ) -> ForgottenGateway:
        """Have the ledgers know that a gateway of a cluster has ended, named by its address or the beginning of an id:
        nobody waits for its word any more. If it has not, and is only cut off, it goes on answering its clients: what
        it acknowledges may be lost. Clusters that are `away` are not asked.

        :raises ConfigError: There is no such cluster or gateway, or there are several.
        :raises PlanRefused: It is heard, or its process runs on this host; or a newer Isthmus wrote a ledger.
        :raises ClusterError: The cluster's ledger cannot be read, or one cannot be written.
        """
        from isthmus.links.forgottengateways import forget_gateway

        return await forget_gateway(self.configuration, self.session, cluster, gateway, away=away, dry_run=dry_run)

    async def synchrony(self, link: str) -> GatewayPair:
        """Where a synchronous link stands, as its status tells it, within five seconds.

        :raises ConfigError: There is no link of that name.
        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        from isthmus.links.gateways import gateway_pair

        return await gateway_pair(self.configuration.link(link), self.session)

    def reassigning(self, alias: str) -> AsyncReassigning:
        """The partitions of the cluster of that alias, to be moved between its brokers.

        :raises ConfigError: There is none of that alias.
        """
        from isthmus.clusters.reassigning import AsyncReassigning

        return AsyncReassigning(self.configuration.cluster(alias), self.session)

    def link(self, name: str) -> AsyncLinkOperations:
        """The link of that name, to be paused, waited for, promoted and recovered. Its verbs fail if there is none."""
        from isthmus.fabric.operations import AsyncLinkOperations

        return AsyncLinkOperations(self.configuration, self.session, name, self.application)

    async def promote(
        self,
        names: Collection[str],
        maps: Collection[NamespaceMap] = (),
        *,
        quiet_s: float = 5.0,
        timeout_s: float = 60.0,
        max_lag: int = 0,
        clients: Clients = "move",
        on_step: Callable[[str], None] = lambda _: None,
        on_progress: Callable[[int, int], None] = lambda _, __: None,
        dry_run: bool = False,
    ) -> dict[str, Promotion | IsthmusError]:
        """Promote several links as one, or these namespaces of them: what became of each; see `promote_together`."""
        from isthmus.links.cutover import promote_together

        promoters = [
            self.link(name).promoter(
                maps,
                quiet_s=quiet_s,
                timeout_s=timeout_s,
                max_lag=max_lag,
                clients=clients,
                on_step=on_step,
                on_progress=on_progress,
            )
            for name in names
        ]
        return await promote_together(promoters, dry_run=dry_run)

    @property
    def declarations(self) -> AsyncDeclaredLinks:
        """The links that are declared on the clusters, to be created, changed and deleted."""
        from isthmus.links.declaring import AsyncDeclaredLinks

        return AsyncDeclaredLinks(self.configuration.written, self.session)

    @property
    def declared_trees(self) -> AsyncDeclaredTrees:
        """The trees that are declared on the clusters, to be created, changed and deleted."""
        from isthmus.trees.declaringtrees import AsyncDeclaredTrees

        return AsyncDeclaredTrees(self.configuration.written, self.session)

    @property
    def groups(self) -> AsyncGroups:
        """The consumer groups the links carry: planned, carried once, and drilled."""
        from isthmus.groups.links import AsyncGroups

        return AsyncGroups(self.links, self.configuration.ledger, self.session)

    @property
    def schemas(self) -> AsyncSchemas:
        """The schema registries: what they hold, and how they are made alike."""
        return AsyncSchemas(self.configuration, self.session)

    @property
    def trees(self) -> Trees:
        """The distribution trees, and where their distributors copy to."""
        return Trees(self.configuration, self.session, self.application)

    @property
    def tree_changes(self) -> TreeChanges:
        """What can be changed of trees while they run: clusters that come and leave."""
        return TreeChanges(self.configuration, self.session)

    async def plan(
        self,
        *,
        link: str | None = None,
        tree: str | None = None,
        clusters: Collection[str] = (),
        with_spark: bool = False,
    ) -> Plan:
        """What `run` would create and copy, per topic with mode and reasons. Nothing is changed.

        The ends of both logs are compared as a run does at its first look, so that both find the same.
        A cluster that does not answer is a problem of its links, not an error. With `clusters` only links into these,
        with `tree` only its distributors. Registries are asked for the schemas that transforms decode by, and
        `with_spark` Spark for their expressions; it is started for that.

        :raises ConfigError: There is no link or tree of that name, no cluster of that alias, or no link into one.
        """
        from isthmus.status.planning import plan_link

        of_tree = () if tree is None else trees_named(self.configuration.trees, tree)
        chosen = tuple(each for each in self.links(link) if not of_tree or each.tree == tree)
        links = await in_force(self._into(clusters, chosen), self.session)
        claims = Claims()
        # One after the other: which link a topic belongs to is settled in the order of the file.
        plans = [await plan_link(each, self.configuration, self.session, claims, links) for each in links]
        pairs = zip(plans, links, strict=True)
        checked = [await check_expressions(plan, each, self.application, with_spark=with_spark) for plan, each in pairs]
        return Plan(links=tuple(checked))

    filters = read_filters
    filter = write_filters
    names = live_names
    provenance = provenance_of
    comparison = comparison
    transform_trial = transform_trial

    async def doctor(self) -> list[Finding]:
        """All that was found of this host, the clusters and the links, what is as it should be included. Each cluster
        is connected to again: a connection that is open already would not show that one can be opened.
        """
        from isthmus.doctor.examine import examine

        async with ClientSession() as session:
            return await examine(self.configuration, session)

    def reader(self, link: str | None = None) -> StatusReader:
        """What reads how links stand, again and again, over clients of its own: use it with `async with`.

        :raises ConfigError: There is no link of that name.
        """
        return StatusReader(self.links(link))

    async def run(
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
        on_configuration: OnConfiguration = lambda _: None,
        metrics: MetricsSettings | None = None,
        stopping: StopRequest | None = None,
    ) -> RunOutcome:
        """Create what is missing and copy, until everything is copied or for ever.

        With `until="caught-up"` it ends when the sources have nothing more that was not copied, with "committed" when
        that is so but for what is in open transactions; a function instead is asked twice a second, with the newest
        progress, whether to end. SIGINT and SIGTERM end it in good order, and so does `stopping`, from any thread. What
        goes wrong is in the outcome, link by link.

        A link that another controller runs is left to it: its error is `Occupied`. With `take_over` it is
        taken at once, and the other controller ends with `Fenced`. With `standby` the end of the other one is
        waited for, with Spark running and clusters connected, however long it takes.

        With `clusters` only links into these are run, those that come later too: one process beside each cluster.
        Links that were declared are followed as well, if the configuration was opened with them.

        `reread` gives the configuration as it is written now. It is asked on SIGHUP, with `follow_config` every few
        seconds too: what a link may change while it runs is followed, without a new lease; the rest is logged. A run
        whose last link goes waits for another, unless it is to end caught up. `on_configuration` is called with what it
        goes on by then, what is declared included.

        Where the configuration, or `metrics` in its place, says so it serves metrics: docs/metrics.md.

        :raises ConfigError: There is no link of that name, no cluster of that alias or no link into one, or it is to
            take over and to stand by at once.
        :raises PortBusy: Something listens already where metrics are to be served.
        """
        written = None if self.configuration.declared is None else self.configuration.written
        following = Following(reread, is_constant=follow_config, written=written, on_configuration=on_configuration)
        links, chosen = self._into(clusters, self.links(link)), frozenset(clusters)

        def takes(one: Link) -> bool:
            return link in (None, one.name) and (not chosen or one.target.alias in chosen)

        with telling(metrics or self.configuration.metrics, on_progress) as tell:
            return await run_links(
                self.configuration,
                self.application,
                links,
                until=until,
                on_progress=tell,
                following=following,
                takes=takes,
                take_over=take_over,
                standby=standby,
                stopping=stopping,
            )

    def _into(self, clusters: Collection[str], links: tuple[Link, ...]) -> tuple[Link, ...]:
        """Those of the links that go into these clusters, all of them where none is named."""
        chosen = {self.configuration.cluster(alias).alias for alias in clusters}
        found = tuple(link for link in links if not chosen or link.target.alias in chosen)
        if not found and chosen:
            raise ConfigError(
                f"no link goes into {', '.join(sorted(chosen))}", hint="isthmus status shows the links there are."
            )
        return found

    async def status(self, *, link: str | None = None) -> FabricStatus:
        """How the links stand: ends and lags as the logs tell them, states as the ledger tells them.

        Two looks, a second apart, so that there are rates.

        :raises ConfigError: There is no link of that name.
        """
        reader = StatusReader(self.links(link), self.session)
        await reader.read()
        await asyncio.sleep(SAMPLE_S)
        return FabricStatus(await reader.read())

    async def forget(
        self, link: str, topics: Collection[str] = (), *, delete_at_target: bool = False, dry_run: bool = False
    ) -> tuple[Forgotten, ...]:
        """Have the ledger forget topics that a link mirrored once and selects no more: these, or all of them. With
        `delete_at_target` these are deleted at the target before, as their source has deleted them.

        :raises ConfigError: There is no link of that name, or it still selects a topic, or never mirrored it.
        :raises PlanRefused: A controller that was started before still mirrors one of them, or it is not to be deleted:
            see `recovery.deleting`.
        :raises GateNotMet: Somebody is at work in a topic that is to be deleted.
        :raises ClusterError: The ledger cannot be read or written, or a cluster does not answer.
        """
        if delete_at_target:
            await self.link(link).delete_departed(topics, dry_run=dry_run)
        chosen, ledger = self.configuration.link(link), self.configuration.ledger
        return await forget(chosen, self.session, topics, ledger, dry_run=dry_run)

    async def forget_link(self, link: str, *, cluster: str, dry_run: bool = False) -> tuple[str, ...]:
        """Have the ledger of a cluster forget a link that is run no more, whether it is configured or not; see
        `forgetting.forget_link`. Returns the keys of what is forgotten.

        :raises ConfigError: There is no cluster of that alias, or its ledger knows no such link.
        :raises PlanRefused: A controller runs it.
        :raises ClusterError: The ledger cannot be read or written.
        """
        target = self.session.client(self.configuration.cluster(cluster))
        return await forget_link(target, link, self.configuration.ledger, dry_run=dry_run)
