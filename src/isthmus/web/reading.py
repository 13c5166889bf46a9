"""The routes that look and change nothing. Answers are what the command prints with `-o json`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from isthmus.control.blocking import in_loop
from isthmus.control.doctor import examine
from isthmus.control.fabric import Fabric
from isthmus.control.recovery.holdings import holdings
from isthmus.errors import RequestRefused
from isthmus.model.progress import LinkProgress
from isthmus.web.conditions import etag_of
from isthmus.web.desk import FabricDesk, found, link_etag, link_summary
from isthmus.web.roles import needs
from isthmus.web.tokens import Role

Json = dict[str, Any]
_LinkQuery = Annotated[str | None, Query(description="Only this link.")]


def reading_routes(desk: FabricDesk) -> APIRouter:
    """All of them; any role may use them."""
    router = APIRouter(prefix="/v1", dependencies=[needs(Role.VIEWER)])
    _fabric_routes(router, desk)
    _link_routes(router, desk)
    _carried_routes(router, desk)
    _cluster_routes(router, desk)
    return router


def _fabric_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/links", tags=["links"], summary="All links of the file, and those declared on its clusters")
    def list_links() -> list[Json]:
        configuration = desk.fabric().configuration
        declared = configuration.declared or frozenset()
        return [link_summary(link, is_declared=link.name in declared) for link in configuration.links]

    @router.get("/status", tags=["links"], summary="How links, topics and partitions stand")
    def read_status(link: _LinkQuery = None) -> list[Json]:
        fabric = desk.fabric() if link is None else desk.link(link)[0]
        return [each.as_dict() for each in fabric.status(link=link)]

    @router.get("/plan", tags=["links"], summary="What a run would create and copy")
    def read_plan(link: _LinkQuery = None) -> Json:
        fabric = desk.fabric() if link is None else desk.link(link)[0]
        return fabric.plan(link=link).as_dict()

    @router.get("/trees", tags=["trees"], summary="The distribution trees of the file")
    def list_trees() -> list[Json]:
        return [each.as_dict() for each in desk.configuration.trees]

    @router.get("/trees/{tree}", tags=["trees"], summary="One distribution tree")
    def show_tree(tree: str) -> Json:
        for each in desk.configuration.trees:
            if each.tree.name == tree:
                return each.as_dict()
        raise RequestRefused(f"the file has no tree {tree}", status=404, hint="GET /v1/trees lists them.")

    @router.get(
        "/doctor", tags=["clusters"], summary="An examination of clusters, rights, limits, clocks and this host"
    )
    def run_doctor() -> list[Json]:
        return [dict(each.as_dict()) for each in in_loop(examine(desk.fabric().configuration))]

    @router.get("/provenance/{topic}", tags=["links"], summary="Where the records of a topic came from")
    def read_provenance(topic: str) -> Json:
        return Fabric(desk.configuration).provenance(topic).as_dict()


def _link_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/links/{link}", tags=["links"], summary="One link, with what was declared of it")
    def describe_link(link: str, response: Response) -> Json:
        fabric, chosen = desk.link(link)
        declared = fabric.declarations.describe(link) if link in (fabric.configuration.declared or ()) else None
        summary = link_summary(chosen, is_declared=declared is not None)
        response.headers["ETag"] = etag_of(summary) if declared is None else link_etag(declared)
        return {**summary, "declaration": None if declared is None else declared.as_dict()}

    @router.get("/links/{link}/status", tags=["links"], summary="How a link stands")
    def read_link_status(link: str) -> Json:
        return _progress(desk, link).as_dict()

    @router.get("/links/{link}/plan", tags=["links"], summary="What a run of the link would create and copy")
    def read_link_plan(link: str) -> Json:
        return desk.link(link)[0].plan(link=link).as_dict()

    @router.get("/links/{link}/topics", tags=["topics"], summary="The topics of a link, with states and lags")
    def list_link_topics(link: str) -> list[Json]:
        topics: list[Json] = _progress(desk, link).as_dict()["topics"]
        return topics

    @router.get("/links/{link}/topics/{topic}", tags=["topics"], summary="One topic of a link with its partitions")
    def describe_link_topic(link: str, topic: str) -> Json:
        for each in _progress(desk, link).as_dict()["topics"]:
            if topic in (each.get("topic"), each.get("source_topic")):
                return dict(each)
        raise RequestRefused(
            f"link {link} has no topic {topic}", status=404, hint=f"GET /v1/links/{link}/topics lists them."
        )


def _carried_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/links/{link}/groups", tags=["groups"], summary="The consumer groups a link carries")
    def list_link_groups(
        link: str, group: Annotated[str | None, Query(description="Only this group.")] = None
    ) -> list[Json]:
        return [each.as_dict() for each in desk.link(link)[0].groups.plan(link=link, group=group)]

    @router.get("/links/{link}/quarantine", tags=["recovery"], summary="What was set aside when topics were recovered")
    def list_quarantine(link: str) -> list[Json]:
        return [each.as_dict() for each in in_loop(holdings(desk.link(link)[1]))]


def _cluster_routes(router: APIRouter, desk: FabricDesk) -> None:
    @router.get("/clusters", tags=["clusters"], summary="The clusters of the file")
    def list_clusters() -> list[Json]:
        return [
            {"cluster": each.alias, "bootstrap_servers": [str(address) for address in each.bootstrap_servers]}
            for each in desk.configuration.clusters
        ]

    @router.get("/clusters/{cluster}", tags=["clusters"], summary="Brokers, quorum, open transactions, findings")
    def describe_cluster(cluster: str) -> Json:
        return dict(desk.administration(cluster).describe().as_dict())

    @router.get("/clusters/{cluster}/topics", tags=["clusters"], summary="Leaders, replicas and offsets of partitions")
    def list_cluster_topics(
        cluster: str, topic: Annotated[list[str] | None, Query(description="Only these topics.")] = None
    ) -> Json:
        return dict(found(lambda: desk.administration(cluster).topics(topic or ())).as_dict())

    @router.get("/clusters/{cluster}/groups", tags=["clusters"], summary="Groups with state, coordinator and lag")
    def list_cluster_groups(
        cluster: str, group: Annotated[list[str] | None, Query(description="Only these groups.")] = None
    ) -> Json:
        return dict(desk.administration(cluster).groups(group or ()).as_dict())

    @router.get("/clusters/{cluster}/registry", tags=["clusters"], summary="The registry of brokers and partitions")
    def read_registry(cluster: str) -> Json:
        return dict(desk.administration(cluster).registry().as_dict())


def _progress(desk: FabricDesk, link: str) -> LinkProgress:
    return desk.link(link)[0].status(link=link)[0]
