"""A link that is reversed: nobody may be at work at its source, and its filters name topics by their names there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.errors import ClusterError, GateNotMet, NotAuthorized, PlanRefused
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import describe_groups
from isthmus.links.reversing import require_no_members
from isthmus.local import LocalCluster
from isthmus.memory.filtering import Filters
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.namespace import NamespaceMap
from testing.brokers import acls
from testing.groups import consumers
from testing.records import topics
from testing.runs.declaring import both as both
from testing.runs.declaring import name as name
from testing.runs.running import link_of, patient
from testing.verbs import Promoter

pytestmark = pytest.mark.integration


def test_filters_have_the_names_of_the_new_source(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """What the link left out is left out on the way back, also what an operator had it leave out while it ran. Of a
    regular expression nobody knows what it is there: it is told before anything changes.
    """
    for number in (1, 2, 3):
        topics.create(east, f"{name}.a-{number}")
        topics.create(west, f"{name}.x-{number}")
    links, each, way_back = Fabric(both).declarations, NamespaceMap.parse(f"{name}.a-:{name}.x-"), f"{name}-back"
    settings = {"topics.include": [f"{name}.a-*"], "topics.exclude": [f"/{name}.a-2/"]}
    links.create(name, source="east", target="west", maps=[each], settings=settings)
    promoter = Promoter(configuration=replace(both, timings=patient(calm_s=0.1)), name=name, quiet_s=0.1)
    for is_dry in (True, False):
        with pytest.raises(PlanRefused, match=rf"topics.exclude is /{name}.a-2/") as told:
            asyncio.run(promoter.reverse(way_back, dry_run=is_dry))
        assert "isthmus filters" in told.value.hint
    assert links.describe(name).declaration.maps == (each,)

    with open_fabric(both, declared=True) as fabric:
        fabric.filter(name, Filters(topics_exclude=(f"{name}.a-2", f"{name}.a-3*")))
    assert asyncio.run(promoter.reverse(way_back)).is_done
    found = links.describe(way_back).declaration
    assert found.settings == {
        "topics.include": [f"{name}.x-*"],
        "topics.exclude": [f"{name}.x-2", f"{name}.x-3*"],
    }
    (planned,) = open_fabric(both, declared=True).plan(link=way_back).links
    assert {one.source_topic: one.topic for one in planned.topics} == {f"{name}.x-1": f"{name}.a-1"}
    links.delete(way_back)


def test_a_consumer_that_begins_meanwhile_is_noticed(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """Its position would be behind what was carried: nothing is detached."""
    for cluster, topic in ((east, f"{name}.a-1"), (west, f"{name}.x-1")):
        topics.create(cluster, topic)
    links = Fabric(both).declarations
    maps = [NamespaceMap.parse(f"{name}.a-:{name}.x-"), NamespaceMap.parse(f"{name}.", "group")]
    links.create(name, source="east", target="west", maps=maps)
    with ExitStack() as joined:

        def begins(step: str) -> None:
            if step.startswith("waiting until east is quiet"):
                joined.enter_context(consumers.joined(east, f"{name}.app", f"{name}.a-1"))

        promoter = Promoter(configuration=both, name=name, quiet_s=0.1, on_step=begins)
        with pytest.raises(GateNotMet, match=f"at work at east: {name}.app"):
            asyncio.run(promoter.reverse(f"{name}-back"))
    assert set(links.describe(name).declaration.maps) == set(maps)


def test_groups_that_cannot_be_asked_count_as_at_work(
    east3: LocalCluster, secured: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Whether their broker does not answer or they may not be seen, an error says so."""
    name = topic("unseen")

    async def coordinator(cluster: LocalCluster) -> str:
        async with Client(cluster.cluster()) as client:
            node = (await describe_groups(client, [name])).all()[name].coordinator
            broker = (await client.metadata()).brokers[node]
            return f"{broker.host}:{broker.port}"

    async def asked(source: LocalCluster, *, without: str = "") -> None:
        seen = replace(source.cluster(), addresses=((without, "127.0.0.1:1"),) if without else ())
        groups = GroupSettings(include=(GroupPattern.parse(name),))
        async with Client(seen) as client:
            await require_no_members(replace(link_of(seen, secured.cluster(), "*"), groups=groups), client)

    for cluster in (east3, secured):
        topics.create(cluster, name)
        with consumers.joined(cluster, name, name):
            with pytest.raises(GateNotMet, match=f"at work at .*: {name}"):
                asyncio.run(asked(cluster))
            if cluster is east3:
                with pytest.raises(ClusterError):
                    asyncio.run(asked(cluster, without=asyncio.run(coordinator(cluster))))
                continue
            acls.deny(cluster, ResourceType.GROUP, name, AclOperation.DESCRIBE)
            try:
                with pytest.raises(NotAuthorized, match=name):
                    asyncio.run(asked(cluster))
            finally:
                acls.permit(cluster, ResourceType.GROUP, name, AclOperation.DESCRIBE)
