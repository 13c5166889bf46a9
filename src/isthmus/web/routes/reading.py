"""The routes that change nothing. Answers are those of the command with `-o json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Header, Path, Query, Response

from isthmus.access.grants import GrantRow, granted_sides
from isthmus.errors import RequestRefused, TokenRefused
from isthmus.fabric.answers import (
    CopiedCommit,
    DeclaredTree,
    GroupsPlan,
    Plan,
    PositionTranslation,
    Provenance,
    QuarantinedPartition,
    RegistryReport,
    SetAsideRecord,
    TopicsReport,
)
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.gateways.registered import GatewaysReport
from isthmus.model.kafka.consumption import GroupsReport
from isthmus.model.kafka.description import ClusterReport
from isthmus.model.kafka.findings import Finding
from isthmus.model.links.lastknown import LastKnown
from isthmus.model.links.needs import Side
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress
from isthmus.model.links.recovery import SetAside
from isthmus.model.text.plain import Flat
from isthmus.model.trees.tree import Tree, TreeSettings
from isthmus.web.access.auditing import log_change
from isthmus.web.access.roles import Admin, needs
from isthmus.web.access.tokens import Role
from isthmus.web.answers import AnswerRoute
from isthmus.web.conditions import etag_of
from isthmus.web.desk import DescribedLink, FabricDesk, LinkSummary, declared_etag, link_summary, require_found

Json = dict[str, Any]
_Principal = Annotated[
    str | None, Query(description="The principal of Isthmus there, such as User:isthmus.", max_length=300)
]
_LinkQuery = Annotated[str | None, Query(description="Only this link.")]

_Group = Annotated[str, Query(description="The group's name at the source.")]
_GroupKey = Annotated[
    str | None,
    Header(
        description="The key that decrypts the values of the group, as returned by groups/key.",
        pattern=r"^[0-9a-fA-F]{64}$",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTree:
    """A distribution tree; whether it was declared on its clusters, or is the file's."""

    settings: Flat[TreeSettings]
    declared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTree:
    """A distribution tree, with its declarations."""

    settings: Flat[TreeSettings]
    declaration: DeclaredTree | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan:
    """The topics that the distributors of a tree would create and copy, and the groups they carry."""

    plan: Flat[Plan]
    groups: list[GroupsPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """The key of a group's positions in an encrypted copy, in hexadecimal digits."""

    group: str
    algorithm: Literal["AES-256-GCM"]
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkGrants:
    """The access rules that a link needs, and notes on them."""

    SCHEMA: ClassVar = "Grants"

    rules: list[GrantRow]
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """A cluster of the file."""

    cluster: str
    bootstrap_servers: list[str]


def reading_routes(desk: FabricDesk) -> APIRouter:
    """Return all of them; any role may use them."""
    router = APIRouter(route_class=AnswerRoute, prefix="/v1", dependencies=[needs(Role.VIEWER)])
    _fabric_routes(router, desk)
    _tree_routes(router, desk)
    _link_routes(router, desk)
    _carried_routes(router, desk)
    _rights_routes(router, desk)
    _cluster_routes(router, desk)
    return router


def _fabric_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/links", tags=["links"], summary="List the links of the file and those declared on its clusters")
    async def list_links() -> list[LinkSummary]:
        configuration = await desk.now()
        declared = configuration.declared or frozenset()
        return [link_summary(link, is_declared=link.name in declared) for link in configuration.links]

    @router.get("/status", tags=["links"], summary="Get the status of links, topics and partitions")
    async def read_status(link: _LinkQuery = None) -> tuple[LinkProgress, ...]:
        async with desk.fabric(link) as fabric:
            return await fabric.status(link=link)

    @router.get("/plan", tags=["links"], summary="Plan the work of a run")
    async def read_plan(link: _LinkQuery = None) -> Plan:
        async with desk.fabric(link) as fabric:
            return await fabric.plan(link=link)

    @router.get("/gateways", tags=["links"], summary="List the registered gateways and the synchronous links they hold")
    async def list_gateways(
        cluster: Annotated[str | None, Query(description="Only those started for this cluster, or serving it.")] = None,
    ) -> GatewaysReport:
        async with desk.fabric() as fabric:
            return await require_found(fabric.gateways(cluster))

    @router.get("/doctor", tags=["clusters"], summary="Examine clusters, rights, limits, clocks and this host")
    async def run_doctor() -> list[Finding]:
        async with desk.fabric() as fabric:
            return await fabric.doctor()

    @router.get("/provenance/{topic}", tags=["links"], summary="Show where the records of a topic came from")
    async def read_provenance(topic: str) -> Provenance:
        async with desk.open_file_fabric() as fabric:
            return await fabric.provenance(topic)


def _tree_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/trees", tags=["trees"], summary="List the distribution trees of the file, and declared ones")
    async def list_trees() -> list[ListedTree]:
        configuration = await desk.now()
        declared = configuration.declared_trees
        return [ListedTree(settings=each, declared=each.tree.name in declared) for each in configuration.trees]

    @router.get("/trees/{tree}", tags=["trees"], summary="Describe a distribution tree, with its declaration")
    async def show_tree(tree: str, response: Response) -> DescribedTree:
        settings = await desk.tree(tree)
        if desk.writes_tree(tree):
            return DescribedTree(settings=settings, declaration=None)
        async with desk.open_file_fabric() as fabric:
            declared = await require_found(fabric.declared_trees.describe(tree))
        response.headers["ETag"] = declared_etag(declared)
        return DescribedTree(settings=settings, declaration=declared)

    @router.get("/trees/{tree}/clusters", tags=["trees"], summary="List the clusters of a tree as it runs now")
    async def read_tree_clusters(tree: str, response: Response) -> Tree:
        answer = await desk.tree_now(tree)
        response.headers["ETag"] = etag_of(answer)
        return answer

    @router.get("/trees/{tree}/plan", tags=["trees"], summary="Plan the work of a tree's distributors")
    async def read_tree_plan(tree: str) -> TreePlan:
        async with desk.fabric() as fabric:
            plan = await require_found(fabric.plan(tree=tree))
            carrying = [link.name for link in fabric.links() if link.tree == tree and link.groups.is_configured]
            groups = [each for name in carrying for each in await fabric.groups.plan(link=name)]
        return TreePlan(plan=plan, groups=groups)


def _link_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/links/{link}", tags=["links"], summary="Describe a link, with its declaration")
    async def describe_link(link: str, response: Response) -> DescribedLink:
        answer, response.headers["ETag"] = await desk.describe_link(link)
        return answer

    @router.get("/links/{link}/status", tags=["links"], summary="Get the status of a link")
    async def read_link_status(link: str) -> LinkProgress:
        return await _progress(desk, link)

    @router.get("/links/{link}/plan", tags=["links"], summary="Plan the work of a run of the link")
    async def read_link_plan(link: str) -> Plan:
        async with desk.fabric(link) as fabric:
            return await fabric.plan(link=link)

    @router.get("/links/{link}/topics", tags=["topics"], summary="List the topics of a link, with states and lags")
    async def list_link_topics(link: str) -> tuple[TopicProgress, ...]:
        return (await _progress(desk, link)).topics

    @router.get("/links/{link}/topics/{topic}", tags=["topics"], summary="Get one topic of a link, with its partitions")
    async def describe_link_topic(link: str, topic: str) -> TopicProgress:
        return await _topic(desk, link, topic)

    @router.get(
        "/links/{link}/topics/{topic}/partitions", tags=["topics"], summary="List the partitions of a topic of a link"
    )
    async def list_partitions(link: str, topic: str) -> tuple[PartitionProgress, ...]:
        return (await _topic(desk, link, topic)).partitions

    @router.get(
        "/links/{link}/topics/{topic}/partitions/{partition}",
        tags=["topics"],
        summary="Get one partition of a topic of a link",
    )
    async def describe_partition(link: str, topic: str, partition: int) -> PartitionProgress:
        for each in (await _topic(desk, link, topic)).partitions:
            if each.partition == partition:
                return each
        raise RequestRefused(
            f"topic {topic} of link {link} has no partition {partition}",
            status=404,
            hint=f"GET /v1/links/{link}/topics/{topic}/partitions lists them.",
        )


def _carried_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/links/{link}/groups", tags=["groups"], summary="List the consumer groups that a link carries")
    async def list_link_groups(
        link: str, group: Annotated[str | None, Query(description="Only this group.")] = None
    ) -> tuple[GroupsPlan, ...]:
        async with desk.fabric(link) as fabric:
            return await fabric.groups.plan(link=link, group=group)

    @router.get(
        "/links/{link}/groups/translate",
        tags=["groups"],
        summary="Translate the positions of a group to offsets of the target",
    )
    async def translate_group(link: str, group: _Group) -> list[PositionTranslation]:
        async with desk.fabric(link) as fabric:
            plans = await fabric.groups.plan(link=link, group=group)
        for plan in plans:
            if plan.problem is not None and not plan.groups:
                raise RequestRefused(plan.problem.message, status=503, hint=plan.problem.hint, retry_after_s=5)
        return [row for plan in plans for row in plan.translations]

    @router.get(
        "/links/{link}/groups/key",
        tags=["groups"],
        summary="Get the key to one group's positions in an encrypted copy (admins)",
    )
    async def read_group_key(link: str, group: _Group, response: Response, caller: Admin) -> GroupKey:
        with log_change(caller, "groups key", link, {"group": group}):
            if not caller.sha256:
                raise TokenRefused(
                    "a key is shown to users with a token only",
                    status=403,
                    hint="Make one: isthmus token create; or ask on this host: isthmus groups key.",
                )
            key = AsyncFabric(await desk.having(link)).groups.key(group, link=link)
        response.headers["Cache-Control"] = "no-store"
        return GroupKey(group=group, algorithm="AES-256-GCM", key=key.hex())

    @router.get(
        "/links/{link}/quarantine",
        tags=["recovery"],
        summary="List records set aside by recoveries and by transforms",
    )
    async def list_quarantine(link: str) -> tuple[QuarantinedPartition, ...]:
        async with desk.fabric(link) as fabric:
            return await fabric.link(link).quarantine()

    @router.get(
        "/links/{link}/quarantine/{topic}",
        tags=["recovery"],
        dependencies=[needs(Role.ADMIN)],
        summary="Show records that were set aside of a topic (admins)",
    )
    async def show_quarantine(
        link: str,
        topic: Annotated[str, Path(description="The topic, as at the source or as at the target.", max_length=249)],
        kind: Annotated[SetAside | None, Query(description="Which of them; all without it.")] = None,
        partition: Annotated[int | None, Query(description="Only those of this partition.", ge=0)] = None,
        offset: Annotated[int | None, Query(description="Only those that stood at this offset.", ge=0)] = None,
        limit: Annotated[int, Query(description="How many: the newest of them.", ge=1, le=1_000)] = 20,
    ) -> tuple[SetAsideRecord, ...]:
        async with desk.fabric(link) as fabric:
            chosen = fabric.link(link)
            return await chosen.show_quarantine(topic, kind=kind, partition=partition, offset=offset, limit=limit)

    @router.get("/quarantine", tags=["recovery"], summary="List the records set aside at all clusters")
    async def list_all_quarantine() -> tuple[QuarantinedPartition, ...]:
        async with desk.fabric() as fabric:
            return await fabric.quarantine()


def _rights_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/links/{link}/acls", tags=["links"], summary="List the least rights that a link's users need")
    async def generate_acls(
        link: str,
        side: Annotated[Side | None, Query(description="Only this end of the link.")] = None,
        source_principal: _Principal = None,
        target_principal: _Principal = None,
        only_required: Annotated[bool, Query(description="Without optional rights.")] = False,
    ) -> LinkGrants:
        principals = {Side.SOURCE: source_principal, Side.TARGET: target_principal}
        configuration = await desk.having(link)
        chosen, others = configuration.link(link), configuration.links
        sides = granted_sides(chosen, principals, others=others, side=side, only_required=only_required)
        return LinkGrants(
            rules=[row for each in sides for row in each.rows],
            notes=[f"{each.cluster.alias}: {note}" for each in sides for note in each.notes],
        )


def _cluster_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/clusters", tags=["clusters"], summary="List the clusters of the file")
    def list_clusters() -> list[ClusterAddress]:
        return [
            ClusterAddress(cluster=each.alias, bootstrap_servers=[str(address) for address in each.bootstrap_servers])
            for each in desk.configuration.clusters
        ]

    @router.get(
        "/clusters/{cluster}",
        tags=["clusters"],
        summary="Describe a cluster: brokers, quorum, open transactions, findings",
    )
    async def describe_cluster(cluster: str) -> ClusterReport:
        async with desk.cluster(cluster) as known:
            return await known.describe()

    @router.get(
        "/clusters/{cluster}/last-known",
        tags=["clusters"],
        summary="Show a cluster as other clusters remember it, without asking it",
    )
    async def read_last_known(cluster: str) -> LastKnown:
        async with desk.cluster(cluster) as administration:
            return await require_found(administration.last_known())

    @router.get(
        "/clusters/{cluster}/topics", tags=["clusters"], summary="List partitions with leaders, replicas and offsets"
    )
    async def list_cluster_topics(
        cluster: str, topic: Annotated[list[str] | None, Query(description="Only these topics.")] = None
    ) -> TopicsReport:
        async with desk.cluster(cluster) as known:
            return await require_found(known.topics(topic or ()))

    @router.get(
        "/clusters/{cluster}/groups", tags=["clusters"], summary="List consumer groups with state, coordinator and lag"
    )
    async def list_cluster_groups(
        cluster: str, group: Annotated[list[str] | None, Query(description="Only these groups.")] = None
    ) -> GroupsReport:
        async with desk.cluster(cluster) as known:
            return await known.groups(group or ())

    @router.get(
        "/clusters/{cluster}/groups/copy",
        tags=["clusters"],
        summary="List the copied positions of other clusters' groups",
    )
    async def read_copied_positions(
        cluster: str,
        source: Annotated[str | None, Query(description="Only of the cluster with this cluster id.")] = None,
        group: Annotated[list[str] | None, Query(description="Only these groups.")] = None,
        group_key: _GroupKey = None,
    ) -> tuple[CopiedCommit, ...]:
        if group_key is not None and len(group or ()) != 1:
            raise RequestRefused("a key is that of one group", status=422, hint="Name the group: ?group=NAME.")
        key = None if group_key is None else bytes.fromhex(group_key)
        async with desk.cluster(cluster) as known:
            return await require_found(known.copied_commits(source_id=source, groups=group or (), key=key))

    @router.get(
        "/clusters/{cluster}/registry",
        tags=["clusters"],
        summary="List brokers and partitions, as the registry of the cluster has them",
    )
    async def read_registry(cluster: str) -> RegistryReport:
        async with desk.cluster(cluster) as known:
            return await known.registry()


async def _progress(desk: FabricDesk, link: str) -> LinkProgress:
    async with desk.fabric(link) as fabric:
        return (await fabric.status(link=link))[0]


async def _topic(desk: FabricDesk, link: str, topic: str) -> TopicProgress:
    for each in (await _progress(desk, link)).topics:
        if topic in (each.topic, each.source_topic):
            return each
    raise RequestRefused(
        f"link {link} has no topic {topic}", status=404, hint=f"GET /v1/links/{link}/topics lists them."
    )
