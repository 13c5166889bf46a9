"""Where brokers may let everybody in whom no access rule is about: what they show of it a real broker was seen to."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.admin.acl import DescribeAclsRequest

from isthmus.access.enforcement import Keeping, examine_reservation, require
from isthmus.errors import NotAuthorized, PlanRefused, Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Broker, Metadata
from isthmus.model.cluster import Cluster
from isthmus.model.links.reservation import Reservation
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem

KEEP = Keeping(principals=("User:isthmus",))
REMOTE = Namespace(prefix="remote-")


class Said:
    """An answer, or a part of one."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class Open(Client):
    """A cluster whose brokers were told `allow.everyone.if.no.acl.found`, and show no value; `ruled` are prefixes that
    the link has rules about.
    """

    def __init__(self, *ruled: str, is_told: bool = True) -> None:
        super().__init__(Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",)))
        self._ruled, self._is_told = ruled, is_told

    async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
        """Its one broker."""
        return Metadata("id", 1, {1: Broker(1, "127.0.0.1", 1, None)}, {})

    async def any(self, request: Any, **more: Any) -> Any:
        """The rules."""
        assert isinstance(request, DescribeAclsRequest)
        acl = Said(principal="User:isthmus", host="*", operation=4, permission_type=3)
        return Said(error_code=0, resources=[Said(resource_name=p, pattern_type=4, acls=[acl]) for p in self._ruled])

    async def broker(self, node_id: int, request: Any, **more: Any) -> Any:
        """Its configuration."""
        assert isinstance(request, DescribeConfigsRequest)
        config = Said(
            name="allow.everyone.if.no.acl.found", value=None, config_source=4, is_sensitive=True, read_only=True
        )
        return Said(results=[Said(error_code=0, error_message=None, configs=[config] if self._is_told else [])])


def test_what_no_rule_is_about_is_not_said_to_be_closed() -> None:
    """Nobody has a rule to write there, and everybody may: it cannot be enforced before a rule is about all of it."""

    async def examined(client: Client) -> Reservation | Problem:
        return await examine_reservation(client, REMOTE, KEEP)

    for client in (Open(), Open("remote-a")):
        found = asyncio.run(examined(client))
        assert isinstance(found, Problem)
        assert "may admit all clients" in found.message
        with pytest.raises(PlanRefused):
            require(found, KEEP, REMOTE)
    for client in (Open("rem"), Open("remote-"), Open(is_told=False)):
        assert asyncio.run(examined(client)) == Reservation()


def test_a_cluster_that_goes_away_in_between_is_one_that_cannot_tell() -> None:
    """It answered about its rules, and about its brokers no more: a problem, of this namespace alone."""

    class Away(Open):
        async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
            raise Unreachable("no broker of west answered", cluster="west")

    found = asyncio.run(examine_reservation(Away(), REMOTE, KEEP))
    assert isinstance(found, Problem)
    assert found.message == "no broker of west answered"


def test_a_broker_that_does_not_tell_is_not_one_that_lets_nobody_in() -> None:
    """A right is missing, or nothing is heard: what is unknown is not "not set". One that says it is set is enough."""

    class Two(Open):
        async def metadata(self, topics: Collection[str] | None = (), *, node_id: int | None = None) -> Metadata:
            return Metadata("id", 1, {node: Broker(node, "127.0.0.1", 1, None) for node in (1, 2)}, {})

        async def broker(self, node_id: int, request: Any, **more: Any) -> Any:
            if node_id == 1:
                raise NotAuthorized("west does not allow to describe the configuration of brokers", cluster="west")
            return await super().broker(node_id, request, **more)

    for is_told, message in ((False, "west does not allow to describe"), (True, "may admit all clients")):
        found = asyncio.run(examine_reservation(Two(is_told=is_told), REMOTE, KEEP))
        assert isinstance(found, Problem)
        assert message in found.message
