"""Which rights on topics of a synchronous link a gateway finds missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.gateway.synchronous.readable import ReadRights
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from testing.brokers.acls import denied
from testing.records import topics

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("right", [AclOperation.READ, AclOperation.DESCRIBE])
def test_a_topic_that_may_not_be_read_is_named(
    east: LocalCluster, secured: LocalCluster, topic: Callable[[str], str], right: AclOperation
) -> None:
    """Also one that may not be described, of which brokers report no rights: a login without any rule is so. A topic
    that does not exist is not named.
    """
    name, gone = topic("unread"), topic("gone")
    topics.create(secured, name)

    assert missing(east, secured, {gone: name, name: gone}) == ""
    with denied(secured, ResourceType.TOPIC, name, right):
        assert missing(east, secured, {gone: name}) == f"a gateway's login may not READ {name} of secured"
    assert missing(east, secured, {gone: name}) == ""


def missing(source: LocalCluster, target: LocalCluster, names: Mapping[str, str]) -> str:
    """What a gateway says of these topics, by their names at the source and at the target."""

    async def look() -> str:
        async with Client(source.cluster()) as here, Client(target.cluster()) as there:
            rights = ReadRights(here, there)
            await rights.look(names)
            return rights.missing

    return asyncio.run(look())
