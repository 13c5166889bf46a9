"""A gateway in front of a cluster, in a thread and event loop of its own, and clients of it."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from isthmus.gateway.bounds import DEFAULTS, GatewayBounds
from isthmus.gateway.frames.duties import NO_DUTIES, Duties
from isthmus.gateway.moving import moving_with
from isthmus.gateway.ports import BrokerNames, ListenRange
from isthmus.gateway.server import Gateway, GatewaySettings, listening
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.producers import active_producers
from isthmus.local import LocalCluster
from isthmus.local.ports import is_free
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.carriedproducers import CarriedProducer
from isthmus.model.process.listening import ListenAddress

HOST: Final = "127.0.0.1"
_FROM, _TO = 21_000, 29_000


@dataclass(slots=True)
class Running:
    """A gateway that listens, and its first port."""

    gateway: Gateway
    port: int
    loop: asyncio.AbstractEventLoop
    clients: list[Client] = field(default_factory=list)
    """Of other clusters, closed with it."""
    carried: list[CarriedProducer] = field(default_factory=list)

    @property
    def servers(self) -> str:
        """What clients are given as bootstrap servers."""
        return f"{HOST}:{self.port}"


def free_range(size: int) -> int:
    """The first of so many free ports in a row, chosen at random so that tests beside each other rarely meet."""
    firsts = range(_FROM, _TO, size)
    for first in random.sample(firsts, len(firsts)):
        if all(is_free(first + index) for index in range(size)):
            return first
    raise AssertionError("no ports are free")


@contextmanager
def gateway(
    cluster: Cluster,
    *,
    size: int = 1,
    bounds: GatewayBounds = DEFAULTS,
    certificate: Path | None = None,
    key: Path | None = None,
    client_ca: Path | None = None,
    host: str = HOST,
    names: str = "",
    duties: Duties = NO_DUTIES,
    configuration: Configuration | None = None,
    advertised: int = 0,
) -> Iterator[Running]:
    """A gateway on free ports. It goes on whatever the test does. With a configuration its clients can be moved. They
    are told another first port where one is `advertised`.
    """
    port = free_range(size)
    settings = GatewaySettings(
        listen=ListenRange(HOST, port, port + size - 1),
        advertise=BrokerNames.parse(f"{names}:{port}") if names else ListenAddress(host, advertised or port),
        certificate=certificate,
        key=key,
        client_ca=client_ca,
        bounds=bounds,
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gateway")
    thread.start()
    context = listening(cluster, settings, duties, moving_with(configuration, settings))
    try:
        found = asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result()
        try:
            running = Running(found, port, loop)
            yield running
        finally:
            for client in running.clients:
                asyncio.run_coroutine_threadsafe(client.aclose(), loop).result()
            asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result()
            asyncio.run_coroutine_threadsafe(_come_to_rest(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _come_to_rest() -> None:
    """A connection that was being accepted as the gateway ended is ended as well."""
    while left := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(left)
    await asyncio.sleep(0)


def producers_of(east: LocalCluster, name: str) -> list[int]:
    """The ids of those who wrote to the topic, as its leader knows them."""

    async def story() -> list[int]:
        async with Client(east.cluster()) as client:
            leaders = {(name, 0): partitions_of(await client.metadata([name]))[0].leader}
            found = (await active_producers(client, leaders)).values
        return [each.producer_id for each in found[name, 0]]

    return asyncio.run(story())
