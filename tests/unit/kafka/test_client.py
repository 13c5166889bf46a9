"""Addresses of brokers, and a client that is closed."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from isthmus.errors import ConfigError, Unreachable
from isthmus.kafka.client import BOOTSTRAP_NODE, Client
from isthmus.kafka.connect.address import split_address
from isthmus.model.cluster import Cluster


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("kafka.example:9092", ("kafka.example", 9092)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:9092", ("::1", 9092)),
    ],
)
def test_addresses(server: str, address: tuple[str, int]) -> None:
    """Host and port, with IPv6 in brackets."""
    assert split_address(server, "east") == address


@pytest.mark.parametrize("server", ["", "kafka.example", ":9092", "kafka.example:", "kafka.example:x"])
def test_what_is_no_address_names_its_field(server: str) -> None:
    """The error tells where in the configuration to look."""
    with pytest.raises(ConfigError) as told:
        split_address(server, "east")
    assert told.value.field == "clusters.east.bootstrap_servers"


def test_a_client_that_is_closed_dials_no_more() -> None:
    """Whoever is still at it then hears the same as over a connection that was closed."""

    async def asked() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            pass
        for question in (client.metadata(), client.dial(BOOTSTRAP_NODE), client._require_no_login(BOOTSTRAP_NODE)):
            with pytest.raises(Unreachable, match="the client of nowhere is closed"):
                await question

    asyncio.run(asked())


class OneFrozen(Client):
    """A cluster of two addresses, of which the first does not answer."""

    def __init__(self) -> None:
        super().__init__(Cluster(alias="half", bootstrap_servers=("127.0.0.1:1", "127.0.0.1:2")))
        self.asked: list[int] = []

    async def broker(self, node_id: int, request: Any, **_: Any) -> Any:
        self.asked.append(node_id)
        if node_id == BOOTSTRAP_NODE:
            await asyncio.Event().wait()
        return request


def test_a_frozen_broker_is_not_waited_for_alone() -> None:
    """Where that is allowed the next one is asked beside it, and its answer is taken."""

    async def scenario() -> None:
        async with OneFrozen() as client:
            assert await client.any("who is there", hedge_s=0.01) == "who is there"
            assert client.asked == [BOOTSTRAP_NODE, BOOTSTRAP_NODE - 1]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.any("who is there"), 0.1)
            assert client.asked[2:] == [BOOTSTRAP_NODE]

    asyncio.run(scenario())


class BothAtOnce(Client):
    """A cluster of two addresses that answer in the same moment: the first by an error."""

    def __init__(self) -> None:
        super().__init__(Cluster(alias="half", bootstrap_servers=("127.0.0.1:1", "127.0.0.1:2")))
        self.answers = asyncio.Event()
        self.asked = 0

    async def broker(self, node_id: int, request: Any, **_: Any) -> Any:
        self.asked += 1
        await self.answers.wait()
        if node_id == BOOTSTRAP_NODE:
            raise Unreachable("half broke the connection off", cluster="half")
        return request


def test_nothing_is_printed_of_a_question_that_nobody_waits_for() -> None:
    """A broker that fails in the moment in which another one answers is no failure that was overlooked."""
    overlooked: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: overlooked.append(context))
        async with BothAtOnce() as client:
            asking = asyncio.create_task(client.any("who is there", hedge_s=0.01))
            while client.asked < 2:
                await asyncio.sleep(0.001)
            client.answers.set()
            assert await asking == "who is there"

    asyncio.run(scenario())
    gc.collect()
    assert not overlooked
