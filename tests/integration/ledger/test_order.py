"""What a gateway writes into a ledger comes in its order, whatever its leader does: its word of a moment ago counts."""

from __future__ import annotations

import asyncio
import struct
import threading
from dataclasses import replace

import pytest

from isthmus.errors import Unreachable
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import PreparedDocument
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.topic import ensure_topic
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.memory.links import recollect
from isthmus.model.gateways.prepared import PreparedCommit
from testing.brokers.proxy import HOST, Link, Proxy

pytestmark = pytest.mark.integration


class Late(Proxy):
    """What is asked with `marked` in it does not get there, and is `kept`."""

    def __init__(self, port: int, upstream_port: int, marked: bytes) -> None:
        super().__init__(port, upstream_port)
        self.kept = b""
        self._marked = marked

    async def admitted(self, link: Link, chunk: bytes, *, is_answer: bool) -> int:
        if is_answer or self._marked not in chunk:
            return len(chunk)
        self.kept = chunk
        return 0


class Held(Proxy):
    """What is asked with `marked` in it gets there once it `passes`; `came` counts how often it was asked."""

    def __init__(self, port: int, upstream_port: int, marked: bytes) -> None:
        super().__init__(port, upstream_port)
        self.came = 0
        self.passes = threading.Event()
        self._marked = marked

    async def admitted(self, link: Link, chunk: bytes, *, is_answer: bool) -> int:
        if not is_answer and self._marked in chunk:
            self.came += 1
            while not self.passes.is_set():
                await asyncio.sleep(0.01)
        return len(chunk)


def ordered(producer_id: int) -> PreparedDocument:
    """A document of one key."""
    return PreparedDocument(link="ordered", gateway="g", commits=(PreparedCommit(producer_id, ()),))


async def left(direct: Client) -> list[PreparedDocument]:
    """What the ledger has of that key."""
    found = (await recollect("ordered", direct)).documents.values()
    return PreparedDocument.find_all(found)


async def arrive(frame: bytes, port: int) -> None:
    """Have a broker take this request, and wait for its answer."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(frame)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    await reader.readexactly(size)
    writer.close()


def test_what_was_given_up_does_not_come_behind_what_is_newer(east: LocalCluster) -> None:
    """A leader that stood still takes what it was sent before, though its writer has gone on since: a commit that was
    let through by then would be unknown.
    """
    (address,) = east.cluster().bootstrap_servers
    (port,) = free_ports(1)
    cluster = replace(east.cluster(), addresses=((address, f"{HOST}:{port}"),))

    async def story(proxy: Late) -> list[PreparedDocument]:
        async with Client(cluster) as client, Client(east.cluster()) as direct:
            await ensure_topic(direct, replication_factor=1)
            writer = LedgerWriter(client, in_order=True)
            for producer_id in (1, 2):
                await writer.append([ordered(producer_id)])
            with pytest.raises(Unreachable):
                await writer.append([ordered(4711)], term_s=0.0)
            await writer.append([ordered(3)])
            await writer.append([ordered(4)])
            writer.close()
            await arrive(proxy.kept, broker)
            return await left(direct)

    broker = int(address.rpartition(":")[2])
    with Late(port, broker, b"4711") as proxy:
        assert asyncio.run(story(proxy)) == [ordered(4)]


def test_who_waits_too_long_leaves_the_one_before_alone(east: LocalCluster) -> None:
    """The one before gets there by what it has sent already. Who comes behind them is written behind them."""
    (address,) = east.cluster().bootstrap_servers
    (port,) = free_ports(1)
    cluster = replace(east.cluster(), addresses=((address, f"{HOST}:{port}"),))

    async def story(proxy: Held) -> list[PreparedDocument]:
        async with Client(cluster) as client, Client(east.cluster()) as direct:
            await ensure_topic(direct, replication_factor=1)
            writer = LedgerWriter(client, in_order=True)
            await writer.append([ordered(1)])
            first = asyncio.create_task(writer.append([ordered(4711)]))
            while not proxy.came:
                await asyncio.sleep(0.01)
            with pytest.raises(Unreachable):
                await writer.append([ordered(2)], term_s=0.1)
            last = asyncio.create_task(writer.append([ordered(3)]))
            proxy.passes.set()
            await asyncio.gather(first, last)
            writer.close()
            assert proxy.came == 1
            return await left(direct)

    with Held(port, int(address.rpartition(":")[2]), b"4711") as proxy:
        assert asyncio.run(story(proxy)) == [ordered(3)]


def test_all_that_waits_goes_as_one(east: LocalCluster) -> None:
    """Where acknowledgements are slow, whoever comes last waits for one write and its own. One that is cancelled
    meanwhile takes no other one with it.
    """
    (address,) = east.cluster().bootstrap_servers
    (port,) = free_ports(1)
    cluster = replace(east.cluster(), addresses=((address, f"{HOST}:{port}"),))

    async def story(proxy: Held) -> list[PreparedDocument]:
        async with Client(cluster) as client, Client(east.cluster()) as direct:
            await ensure_topic(direct, replication_factor=1)
            writer = LedgerWriter(client, in_order=True)
            first = asyncio.create_task(writer.append([ordered(1)]))
            while not proxy.came:
                await asyncio.sleep(0.01)
            waiting = [asyncio.create_task(writer.append([ordered(each)])) for each in range(2, 8)]
            # They have asked once this goes on.
            await asyncio.sleep(0)
            waiting.pop(3).cancel()
            proxy.passes.set()
            offsets = await asyncio.gather(first, *waiting)
            assert [offset - offsets[0] for offset in offsets] == [*range(6)]
            writer.close()
            assert proxy.came == 2
            return await left(direct)

    with Held(port, int(address.rpartition(":")[2]), b'"ordered"') as proxy:
        assert asyncio.run(story(proxy)) == [ordered(7)]
