"""The public face: a configuration opened, and what can be done with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from isthmus.clusters.administration import AsyncAdministration
from isthmus.clusters.reassigning import AsyncReassigning
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.fabric.blocking import Shell, blocking, call_here, in_loop, wrap_in_shell
from isthmus.fabric.opening import open_configuration
from isthmus.fabric.operations import AsyncLinkOperations
from isthmus.groups.links import AsyncGroups
from isthmus.kafka.session import ClientSession

# With these all is loaded that any verb needs: a program that goes on should not load what was replaced meanwhile.
from isthmus.links import cutover, forgottengateways  # noqa: F401
from isthmus.links.declaring import AsyncDeclaredLinks
from isthmus.links.promotion import Promoter
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.kafka.registry import Registry
from isthmus.model.link import Link
from isthmus.namespaces.namespaces import AsyncNamespaces
from isthmus.recovery.links import LinkRecoverer
from isthmus.schemas.distribution import AsyncSchemas
from isthmus.spark.application import SparkApplication
from isthmus.status import planning  # noqa: F401
from isthmus.trees.declaringtrees import AsyncDeclaredTrees
from isthmus.trees.reshaping import TreeChanges
from isthmus.trees.targets import Trees

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Groups(Shell[AsyncGroups]):
    """The consumer groups of a fabric's links; see `AsyncGroups`."""

    plan = blocking(AsyncGroups.plan)
    sync = blocking(AsyncGroups.sync)
    drill = blocking(AsyncGroups.drill)

    def key(self, group: str, *, link: str | None = None) -> bytes:
        """The key that opens the values of one group in an encrypted copy of positions; see `AsyncGroups.key`."""
        return self._core(ClientSession()).key(group, link=link)


class DeclaredLinks(Shell[AsyncDeclaredLinks]):
    """The links that are declared on the clusters; see `AsyncDeclaredLinks`."""

    all = blocking(AsyncDeclaredLinks.all)
    read_with_problems = blocking(AsyncDeclaredLinks.read_with_problems)
    describe = blocking(AsyncDeclaredLinks.describe)
    create = blocking(AsyncDeclaredLinks.create)
    update = blocking(AsyncDeclaredLinks.update)
    attach = blocking(AsyncDeclaredLinks.attach)
    reattach = blocking(AsyncDeclaredLinks.reattach)
    delete = blocking(AsyncDeclaredLinks.delete)


class DeclaredTrees(Shell[AsyncDeclaredTrees]):
    """The trees that are declared on the clusters; see `AsyncDeclaredTrees`."""

    all = blocking(AsyncDeclaredTrees.all)
    read_with_problems = blocking(AsyncDeclaredTrees.read_with_problems)
    describe = blocking(AsyncDeclaredTrees.describe)
    create = blocking(AsyncDeclaredTrees.create)
    update = blocking(AsyncDeclaredTrees.update)
    delete = blocking(AsyncDeclaredTrees.delete)


class Namespaces(Shell[AsyncNamespaces]):
    """The namespaces of one cluster; see `AsyncNamespaces`."""

    def __init__(self, cluster: Cluster, ledger: LedgerSettings) -> None:
        super().__init__(lambda session: AsyncNamespaces(cluster, session, ledger))

    all = blocking(AsyncNamespaces.all)
    describe = blocking(AsyncNamespaces.describe)
    create = blocking(AsyncNamespaces.create)
    update = blocking(AsyncNamespaces.update)
    delete = blocking(AsyncNamespaces.delete)
    enforce = blocking(AsyncNamespaces.enforce)
    relax = blocking(AsyncNamespaces.relax)


class Administration(Shell[AsyncAdministration]):
    """One Kafka cluster; see `AsyncAdministration`."""

    def __init__(self, cluster: Cluster, ledger: LedgerSettings | None = None, all_of: Sequence[Cluster] = ()) -> None:
        super().__init__(lambda session: AsyncAdministration(cluster, session, ledger, all_of))
        self.cluster = cluster
        self.namespaces = Namespaces(cluster, ledger or LedgerSettings())

    describe = blocking(AsyncAdministration.describe)
    survey = blocking(AsyncAdministration.survey)
    last_known = blocking(AsyncAdministration.last_known)
    copied_commits = blocking(AsyncAdministration.copied_commits)
    topics = blocking(AsyncAdministration.topics)
    elect_leaders = blocking(AsyncAdministration.elect_leaders)
    groups = blocking(AsyncAdministration.groups)
    registry = blocking(AsyncAdministration.registry)

    def watch_registry(self) -> Iterator[Registry]:
        """The registry now, and again whenever it has changed; see `AsyncAdministration.watch_registry`."""
        return self._each(lambda core: core.watch_registry())


class Reassigning(Shell[AsyncReassigning]):
    """Reassignments of one cluster; see `AsyncReassigning`."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(lambda session: AsyncReassigning(cluster, session))

    plan = blocking(AsyncReassigning.plan)
    compare = blocking(AsyncReassigning.compare)
    execute = blocking(AsyncReassigning.execute)
    underway = blocking(AsyncReassigning.underway)
    cancel = blocking(AsyncReassigning.cancel)


class Schemas(Shell[AsyncSchemas]):
    """The schema registries of a configuration; see `AsyncSchemas`."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(lambda session: AsyncSchemas(configuration, session))
        core = AsyncSchemas(configuration, ClientSession())
        self.registry, self.logical, self.routes = core.registry, core.logical, core.routes

    contents = blocking(AsyncSchemas.contents)
    registries = blocking(AsyncSchemas.registries)
    plan = blocking(AsyncSchemas.plan)
    sync = blocking(AsyncSchemas.sync)
    move_primary = blocking(AsyncSchemas.move_primary)


class DistributionTrees(Shell[Trees]):
    """The trees of a fabric; see `Trees`."""

    targets = blocking(Trees.targets)
    switch = blocking(Trees.switch)
    verify = call_here(Trees.comparison)


class TreeChanging(Shell[TreeChanges]):
    """What is changed of trees while they run; see `TreeChanges`."""

    add = blocking(TreeChanges.add)
    remove = blocking(TreeChanges.remove)
    move = blocking(TreeChanges.move)


class Promoting(Shell[Promoter]):
    """What makes followers leaders; see `Promoter`."""

    promote = blocking(Promoter.promote)
    detach = blocking(Promoter.detach)
    failover = blocking(Promoter.failover)
    reverse = blocking(Promoter.reverse)


class Recovering(Shell[LinkRecoverer]):
    """What brings topics back that have diverged; see `LinkRecoverer`."""

    recover = blocking(LinkRecoverer.recover)


class LinkOperations(Shell[AsyncLinkOperations]):
    """One link, to be paused, waited for, promoted and recovered; see `AsyncLinkOperations`."""

    promoter = wrap_in_shell(AsyncLinkOperations.promoter, Promoting)
    recoverer = wrap_in_shell(AsyncLinkOperations.recoverer, Recovering)
    delete_departed = blocking(AsyncLinkOperations.delete_departed)
    pause = blocking(AsyncLinkOperations.pause)
    resume = blocking(AsyncLinkOperations.resume)
    pauses = blocking(AsyncLinkOperations.pauses)
    settings = blocking(AsyncLinkOperations.settings)
    change_settings = blocking(AsyncLinkOperations.change_settings)
    wait = blocking(AsyncLinkOperations.wait)
    quarantine = blocking(AsyncLinkOperations.quarantine)
    show_quarantine = blocking(AsyncLinkOperations.show_quarantine)
    replay = blocking(AsyncLinkOperations.replay)
    take_over = blocking(AsyncLinkOperations.take_over)


class Fabric(Shell[AsyncFabric]):
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
        application = SparkApplication(configuration, spark)
        super().__init__(lambda session: AsyncFabric(configuration, application=application, session=session))
        self.configuration = configuration
        self._application = application

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the Spark session, if it is our own."""
        self._application.close()

    def links(self, name: str | None = None) -> tuple[Link, ...]:
        """The link of that name, or all of them.

        :raises ConfigError: There is none of that name.
        """
        return self.configuration.links if name is None else (self.configuration.link(name),)

    def cluster(self, alias: str) -> Administration:
        """The cluster of that alias, to be described, looked into and kept in balance.

        :raises ConfigError: There is none of that alias.
        """
        return Administration(self.configuration.cluster(alias), self.configuration.ledger, self.configuration.clusters)

    def reassigning(self, alias: str) -> Reassigning:
        """The partitions of the cluster of that alias, to be moved between its brokers.

        :raises ConfigError: There is none of that alias.
        """
        return Reassigning(self.configuration.cluster(alias))

    @property
    def declarations(self) -> DeclaredLinks:
        """The links that are declared on the clusters, to be created, changed and deleted."""
        return DeclaredLinks(lambda session: AsyncDeclaredLinks(self.configuration.written, session))

    @property
    def declared_trees(self) -> DeclaredTrees:
        """The trees that are declared on the clusters, to be created, changed and deleted."""
        return DeclaredTrees(lambda session: AsyncDeclaredTrees(self.configuration.written, session))

    @property
    def groups(self) -> Groups:
        """The consumer groups the links carry: planned, carried once, and drilled."""
        return Groups(lambda session: AsyncGroups(self.links, self.configuration.ledger, session))

    @property
    def schemas(self) -> Schemas:
        """The schema registries: what they hold, and how they are made alike."""
        return Schemas(self.configuration)

    @property
    def trees(self) -> DistributionTrees:
        """The distribution trees, and where their distributors copy to."""
        return DistributionTrees(lambda session: Trees(self.configuration, session, self._application))

    @property
    def tree_changes(self) -> TreeChanging:
        """Clusters that come into trees and leave them while they run."""
        return TreeChanging(lambda session: TreeChanges(self.configuration, session))

    link = wrap_in_shell(AsyncFabric.link, LinkOperations)
    plan = blocking(AsyncFabric.plan)
    promote = blocking(AsyncFabric.promote)
    doctor = blocking(AsyncFabric.doctor)
    names = blocking(AsyncFabric.names)
    provenance = blocking(AsyncFabric.provenance)
    gateways = blocking(AsyncFabric.gateways)
    forget_gateway = blocking(AsyncFabric.forget_gateway)
    synchrony = blocking(AsyncFabric.synchrony)
    quarantine = blocking(AsyncFabric.quarantine)
    filters = blocking(AsyncFabric.filters)
    filter = blocking(AsyncFabric.filter)
    run = blocking(AsyncFabric.run)
    status = blocking(AsyncFabric.status)
    forget = blocking(AsyncFabric.forget)
    forget_link = blocking(AsyncFabric.forget_link)
    verify = call_here(AsyncFabric.comparison)
    transform_trial = call_here(AsyncFabric.transform_trial)


def open_fabric(
    configuration: str | Path | Configuration | None = None,
    *,
    spark: SparkSession | None = None,
    declared: bool | None = None,
) -> Fabric:
    """The fabric a configuration file describes; without a path the file is looked for.

    Its links are those of the file and, as for commands, those that were declared on its clusters: these are left
    out with `declared=False`. A `Configuration` that is given is taken as it is, unless with `declared=True`.

    :raises ConfigError: There is no such file, or it cannot be used.
    :raises PlanRefused: A newer Isthmus wrote a ledger.
    """

    async def open_once() -> Configuration:
        async with ClientSession() as session:
            return await open_configuration(configuration, session, declared=declared)

    return Fabric(in_loop(open_once()), spark=spark)
