"""A gateway registers where it holds acknowledgements: at the cluster that it serves now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.errors import NotAuthorized
from isthmus.gateway.ports import ListenRange
from isthmus.gateway.running import serve
from isthmus.gateway.server import Gateway, GatewaySettings
from isthmus.gateway.standing import standing
from isthmus.kafka.client import Client
from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.gateways import GatewayDocument, GatewayPairDocument, pair_words
from isthmus.ledger.documents.kinds import DeclarationDocument
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import Deletion
from isthmus.ledger.topic import LEDGER_TOPIC, on_topic
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.memory.links import read_ledger
from isthmus.model.configuration import Configuration, MetricsSettings
from isthmus.model.gateways.synchrony import SYNC, SyncState
from isthmus.model.links.declaration import SOURCE, TARGET, attachment
from isthmus.model.namespace import NamespaceMap
from isthmus.model.process.listening import ListenAddress
from isthmus.model.registers import MODE, Author, change_registers
from testing.brokers.acls import denied
from testing.brokers.proxy import Proxy, Weather
from testing.gateways.gateways import HOST, free_range
from testing.patience import TERM_S

pytestmark = pytest.mark.integration


def test_a_gateway_that_turns_holds_for_the_other_cluster(east: LocalCluster, west: LocalCluster) -> None:
    """It says farewell where it was, once it has registered at the other one, by the same id; so on the way back."""
    port = free_range(1)
    settings = GatewaySettings(listen=ListenRange(HOST, port, port), advertise=ListenAddress(HOST, port))
    configuration = Configuration(clusters=(east.cluster(), west.cluster()), links=())

    async def registered(cluster: LocalCluster) -> list[str]:
        async with Client(cluster.cluster()) as client:
            known = (await read_ledger(client)).find_unlinked().values()
        found = [each for each in GatewayDocument.find_all(known) if each.advertised == f"{HOST}:{port}"]
        # Where links of other tests are left that are not in sync, it stays as one that has ended.
        return [each.gateway for each in found if not each.has_ended]

    async def turned(gateway: Gateway, client: Client, here: LocalCluster, there: LocalCluster) -> None:
        ids = await registered(here)
        duties = await gateway.duties_at(client.cluster.alias)
        gateway.turn(client, gateway.places, dict(gateway.brokers), gateway.serving, duties)
        assert (await registered(there), len(ids)) == (ids, 1)
        assert gateway.keeper is not None
        assert gateway.keeper.duties is duties

    async def story() -> None:
        async with asyncio.timeout(TERM_S):
            async with standing(configuration, "east", settings) as gateway:
                (begun,) = await registered(east)
                assert await registered(west) == []
                async with Client(west.cluster()) as client, Client(east.cluster()) as back:
                    await turned(gateway, client, east, west)
                    # It comes back before it has said farewell.
                    await turned(gateway, back, west, east)
                    while await registered(west):
                        await asyncio.sleep(0.05)
                    assert await registered(east) == [begun]
                    await turned(gateway, client, east, west)
                    while await registered(east):
                        await asyncio.sleep(0.05)
                    await gateway.hold_nothing()
            assert await registered(west) == []

    asyncio.run(story())


def test_a_gateway_that_left_a_lost_cluster_ends_there_once_that_is_back(
    east: LocalCluster, west: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It lives elsewhere, so that nobody could say of it that it has ended; it would be waited for for ever."""
    caplog.set_level(logging.DEBUG, "isthmus.gateway.farewell")
    port, (through,) = free_range(1), free_ports(1)
    settings = GatewaySettings(listen=ListenRange(HOST, port, port), advertise=ListenAddress(HOST, port))
    (address,) = east.cluster().bootstrap_servers
    reached = replace(east.cluster(), addresses=((address, f"{HOST}:{through}"),))
    configuration = Configuration(clusters=(reached, west.cluster()), links=())

    async def registered() -> list[GatewayDocument]:
        async with Client(east.cluster()) as client:
            known = (await read_ledger(client)).find_unlinked().values()
        return [each for each in GatewayDocument.find_all(known) if each.advertised == f"{HOST}:{port}"]

    async def story(proxy: Proxy) -> None:
        async with (
            asyncio.timeout(2 * TERM_S),
            standing(configuration, "east", settings) as gateway,
            Client(west.cluster()) as client,
        ):
            with proxy.weather(Weather.CUT):
                duties = await gateway.duties_at("west")
                gateway.turn(client, gateway.places, dict(gateway.brokers), gateway.serving, duties)
                while "does not know yet" not in caplog.text:
                    await asyncio.sleep(0.05)
                assert not any(each.has_ended for each in await registered())
            while not all(each.has_ended for each in await registered()):
                await asyncio.sleep(0.05)
            await gateway.hold_nothing()

    with Proxy(through, int(address.rpartition(":")[2])) as proxy:
        asyncio.run(story(proxy))


def test_a_link_that_it_cannot_hold_for_is_said_to_be_out_of_sync(
    east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A gateway whose file lacks the target says so in the ledger for as long as it is there, with the reason: nobody
    takes the link for one that is in sync.
    """
    name, port = topic("unheld"), free_range(1)
    settings = GatewaySettings(listen=ListenRange(HOST, port, port), advertise=ListenAddress(HOST, port))
    configuration = Configuration(clusters=(east.cluster(),), links=())
    said = {
        SOURCE: {"cluster_id": east.cluster_id, "alias": "east"},
        TARGET: {"cluster_id": "nowhere", "alias": "west"},
        MODE: SYNC,
        attachment(NamespaceMap.parse(f"{name}-:x-")): True,
    }
    registers = change_registers((), said, Author(by="somebody", at_ms=1, where=east.cluster_id))
    declared = DeclarationDocument(link=name, cluster=east.cluster_id, registers=registers)

    async def words(client: Client) -> list[GatewayPairDocument]:
        documents = (await read_ledger(client)).of(name).documents.values()
        return list(pair_words(name, declaration_of(name, [declared]).mode_said, documents).values())

    async def story() -> None:
        async with asyncio.timeout(TERM_S), Client(east.cluster()) as client:
            writer = LedgerWriter(client)
            try:
                await on_topic(client, partial(writer.append, [declared]), replication_factor=1)
                async with standing(configuration, "east", settings):
                    (word,) = await words(client)
                assert (word.state, word.by.split()[0]) == (SyncState.OUT_OF_SYNC, f"{HOST}:{port}")
                assert "west" in word.reason
                assert await words(client) == []
            finally:
                await writer.append([Deletion(declared.key)])
                writer.close()

    asyncio.run(story())


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("right", [AclOperation.READ, AclOperation.WRITE])
def test_one_that_may_not_use_the_ledger_does_not_begin(
    secured: LocalCluster, processes: int, right: AclOperation
) -> None:
    """It would pass on what is synchronous for all others, and nobody would know, or not wait for it as a link becomes
    so; nothing of it stays in the ledger.
    """
    port = free_range(1)
    settings = GatewaySettings(listen=ListenRange(HOST, port, port), advertise=ListenAddress(HOST, port))
    configuration = Configuration(clusters=(secured.cluster(),), links=())

    async def ledger_is_there() -> None:
        async with standing(configuration, "secured", settings):
            pass

    async def story() -> None:
        async with asyncio.timeout(TERM_S):
            with pytest.raises(NotAuthorized, match=f"a gateway .* ledger of secured.*{right.name}") as told:
                await serve(configuration, "secured", settings, MetricsSettings(), processes=processes)
            assert right.name in (told.value.hint or "")

    asyncio.run(ledger_is_there())
    with denied(secured, ResourceType.TOPIC, LEDGER_TOPIC, right):
        asyncio.run(story())

    async def left() -> list[str]:
        async with Client(secured.cluster()) as client:
            known = (await read_ledger(client)).find_unlinked().values()
        return [each.advertised for each in GatewayDocument.find_all(known)]

    assert f"{HOST}:{port}" not in asyncio.run(left())
