"""A failover tells of all that gateways acknowledged, up to the moment from which they acknowledge no more."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from pyspark.sql import SparkSession

from isthmus.config.declared import declared_link
from isthmus.fabric.fabric import Fabric
from isthmus.gateway.ports import ListenRange
from isthmus.gateway.registering import registration
from isthmus.gateway.server import GatewaySettings
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import (
    Document,
    GatewayDocument,
    GatewayPairDocument,
    PromisedDocument,
    SynchronizedDocument,
)
from isthmus.ledger.log import LedgerWriter, append_once
from isthmus.ledger.records import Deletion
from isthmus.ledger.topic import on_topic
from isthmus.local import LocalCluster
from isthmus.memory.links import read_ledger
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import FENCE_S, LOOK_S, SYNC, FirstUnheld, OutOfSync, SyncSettings, SyncState
from isthmus.model.link import Link
from isthmus.model.links.declaration import SOURCE, TARGET, Declaration, attachment
from isthmus.model.links.pair import PairState
from isthmus.model.links.promotion import Promised, Promotion
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic
from isthmus.model.process.listening import ListenAddress
from isthmus.model.registers import MODE, Author, change_registers
from isthmus.synchronous.synchronous import Detachment, acknowledged_since, gateway_words
from testing.brokers.hanging import trusting
from testing.brokers.proxy import HOST, Proxy, Weather
from testing.links.synchronous import (
    Side,
    Trial,
    Writer,
    begun,
    ended,
    gateway,
    leave_prepared,
    reached_through,
    run_beside,
)
from testing.patience import TERM_S
from testing.records import topics
from testing.verbs import AsyncDeclaredLinks, Promoter, open_declarations

pytestmark = pytest.mark.integration


def is_told_of(trial: Trial, writer: Writer, proxy: Proxy) -> None:
    """What is acknowledged as a failover detaches, after it has asked what was, and never comes to the follower. It is
    told by whoever gives the command again that was interrupted before its lanes had ended.
    """
    trial.fabric.declarations.update(trial.name, settings={"sync.lag_max_ms": 1000})
    count = len(writer.acknowledged)

    def write(step: str) -> None:
        if step == "detaching":
            writer.write(trial.topic)
        if step.startswith("waiting for the lanes"):
            raise InterruptedError

    with proxy.weather(Weather.CUT):
        with pytest.raises(InterruptedError):
            asyncio.run(Promoter(configuration=trial.direct, name=trial.name, on_step=write).failover())
        found = asyncio.run(Promoter(configuration=trial.direct, name=trial.name).failover()).acknowledged
    assert len(writer.acknowledged) == count + 1
    assert found is not None
    assert found.is_known, found.in_words
    assert found.lets_go == (FirstUnheld(SourceTopic(trial.topic), 0, writer.acknowledged[-1]),)


def is_apart(trial: Trial, side: Side, writer: Writer, proxy: Proxy, other: NamespaceMap) -> None:
    """Some namespaces fail over, and the link goes on with the others: what is held of the former is acknowledged to
    nobody, though somebody writes at the follower, nor is what comes after it.
    """
    topic, count = other.source.prefix + "orders", len(writer.acknowledged)
    keeper = side.links.gateway.keeper if side.links.gateway is not None else None
    assert keeper is not None
    writing = threading.Thread(target=writer.write, args=(topic,), kwargs={"timeout_s": 8.0})
    with proxy.weather(Weather.CUT):
        writing.start()
        while not keeper.count_held():
            time.sleep(0.02)
        promoter = Promoter(configuration=trial.direct, name=trial.name, maps=(other,))
        found = asyncio.run(promoter.failover()).acknowledged
        assert found is not None
        assert (found.is_known, found.lets_go) == (True, ()), found.in_words
        topics.produce(trial.follower, topic, topics.some(9, random.Random(1)))
        writing.join()
        writer.write(topic, timeout_s=3.0)
        assert (len(writer.acknowledged), len(writer.errors)) == (count, 2)
    trial.stands(PairState.IN_SYNC)
    writer.write(trial.topic)
    assert (len(writer.acknowledged), writer.broken) == (count + 1, [])


def test_what_is_acknowledged_while_it_begins(east: LocalCluster, guarded: LocalCluster, spark: SparkSession) -> None:
    """The gateway says that it answers nothing more, and the report has what it had answered by then."""
    trial = begun("told", east, guarded, also=("-b",))
    other = NamespaceMap.parse(f"{trial.name}-b.")

    def scenario(proxy: Proxy) -> None:
        trial.stands(PairState.FOLLOWING)
        trial.fabric.cluster("guarded").namespaces.enforce(other.target, super_user=True)
        trial.is_refused()
        with gateway(trial.direct) as side:
            writer = trial.becomes_synchronous(side)
            is_apart(trial, side, writer, proxy, other)
            is_told_of(trial, writer, proxy)

    with reached_through(trial) as (through, proxy):
        run_beside(trial, spark, partial(scenario, proxy), through)


def declaration(name: str, target: LocalCluster, source: str = "E") -> Declaration:
    """A synchronous link that is nowhere declared."""
    said = {
        SOURCE: {"cluster_id": source, "alias": "east"},
        TARGET: {"cluster_id": target.cluster_id, "alias": "west"},
        MODE: SYNC,
        attachment(NamespaceMap.parse(f"{name}-:x-")): True,
    }
    author = Author(by="somebody", at_ms=1, where=target.cluster_id)
    return Declaration(name=name, registers=change_registers((), said, author))


async def beats(source: Client, one: GatewayDocument) -> None:
    """Have a gateway be heard, until cancelled."""
    writer = LedgerWriter(source)
    try:
        for beat in itertools.count(one.beat + 1):
            await writer.append([replace(one, beat=beat)])
            await asyncio.sleep(LOOK_S)
    finally:
        writer.close()


async def are_heard_beside(link: Link, source: Client) -> bool:
    """Whether gateways of other tests are heard still, which have no word of this link."""
    return any(each.is_heard and each.word is None for each in gateway_words(link, await read_ledger(source)))


@pytest.mark.parametrize("policy", OutOfSync)
def test_who_has_not_heard_of_it_is_named(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], policy: OutOfSync
) -> None:
    """A gateway that is heard is waited for, whatever writers are told while the follower lags: until it knows it takes
    what others write at the follower for what it waits for.
    """
    name = topic("unaware")
    known = declaration(name, west, east.cluster_id)
    link = declared_link(known, east.cluster(), west.cluster())
    assert isinstance(link, Link)
    link = replace(link, sync=SyncSettings(out_of_sync=policy))
    one = registration(GatewaySettings(listen=ListenRange(HOST, 1, 1), advertise=ListenAddress(HOST, 1)))
    word = GatewayPairDocument(
        link=name,
        gateway=one.gateway,
        said=link.mode_said,
        by=one.described,
        state=SyncState.IN_SYNC,
        since_ms=1,
        out_of_sync=policy,
        attached_said=known.attached_said,
    )
    new = replace(one, gateway=secrets.token_hex(4))
    before = Promised(out_of_sync=policy, was_in_sync=True, is_open=False, is_heard=True)

    async def story() -> None:
        async with asyncio.timeout(TERM_S), Client(east.cluster()) as source, Client(west.cluster()) as target:
            writer = LedgerWriter(source)
            try:
                await on_topic(source, partial(writer.append, [one, word]), replication_factor=1)
                beating = asyncio.create_task(beats(source, one))
                while await are_heard_beside(link, source):
                    await asyncio.sleep(0.1)
                detachment = Detachment(time.monotonic(), "another")
                found = await acknowledged_since(link, source, target, before, detachment)
                assert (found.unaware, found.is_known) == ((one.described,), False)
                assert time.monotonic() >= detachment.at_s + FENCE_S, "it may take for its own what others write"
                await writer.append([one, replace(word, attached_said="another")])
                found = await acknowledged_since(link, source, target, before, detachment)
                assert (found.unaware, found.is_known) == ((), True)
                await writer.append([new])
                found = await acknowledged_since(link, source, target, before, detachment)
                assert (found.is_open, found.is_known) == (True, False), "one came that has not said anything"
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
            finally:
                await writer.append([Deletion(each.key) for each in (one, new, word)])
                writer.close()

    asyncio.run(story())


def test_who_cannot_ask_gateways_waits_until_they_take_nothing(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """They may hear the source's ledger still that the failover does not: then nobody is known who could be waited for,
    and what others write at the follower is not let in before nobody takes it for what it waits for.
    """
    nowhere = Cluster(alias="east", bootstrap_servers=(f"{HOST}:1",))
    link = replace(declared_link(declaration(topic("unheard"), west), nowhere, west.cluster()), sync=SyncSettings())
    before = Promised(out_of_sync=OutOfSync.CONSISTENT, was_in_sync=True, is_open=False, is_heard=True)

    async def story() -> None:
        async with asyncio.timeout(TERM_S), Client(nowhere) as source, Client(west.cluster()) as target:
            detachment = Detachment(time.monotonic(), "another")
            found = await acknowledged_since(link, source, target, before, detachment)
            assert time.monotonic() >= detachment.at_s + FENCE_S
            assert not found.is_heard

    asyncio.run(story())


def test_what_was_detached_before_it_fails_over_has_a_word(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Gateways have forgotten by then what they let go of, and hold nothing more since."""
    name = topic("past")
    both = Configuration(clusters=(east.cluster(), west.cluster()), links=())
    topics.create_both(east, west, f"{name}.a")
    each = NamespaceMap.parse(f"{name}.")
    Fabric(both).declarations.create(name, source="east", target="west", maps=[each])
    one = registration(GatewaySettings(listen=ListenRange(HOST, 1, 1), advertise=ListenAddress(HOST, 1)))
    first = FirstUnheld(SourceTopic(f"{name}.a"), 0, 5)

    async def story() -> Promised | None:
        async with asyncio.timeout(TERM_S), Client(east.cluster()) as source, Client(west.cluster()) as target:
            await AsyncDeclaredLinks(both).change(name, lambda _: {MODE: SYNC})
            async with open_declarations(both) as (_, declared):
                known = declared.links[name]
            said = known.mode_said
            word = GatewayPairDocument(
                link=name,
                gateway=one.gateway,
                said=said,
                by=one.described,
                state=SyncState.OUT_OF_SYNC,
                since_ms=1,
                out_of_sync=OutOfSync.AVAILABLE,
                lets_go=(first,),
                attached_said=known.attached_said,
            )
            documents = (one, word, SynchronizedDocument(link=name, said=said, since_ms=1))
            await append_once(source, documents, replication_factor=None)
            await Promoter(configuration=both, name=name).detach()
            await append_once(source, [Deletion(each.key) for each in documents], replication_factor=None)
            found = (await Promoter(configuration=both, name=name, maps=(each,)).failover()).acknowledged
            written = (await read_ledger(target)).of(name).documents.values()
            assert PromisedDocument.find_all(written) == []
            return found

    found = asyncio.run(story())
    assert found is not None
    assert (found.lets_go, found.is_known, found.until_ms >= 0) == ((first,), False, True), found.in_words


@pytest.mark.parametrize("last", ["waiting until gateways have heard of it", "releasing the namespaces"])
def test_what_a_failover_found_is_told_by_whoever_gives_it_again(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], last: str
) -> None:
    """It was interrupted once the link was asynchronous, or once transactions had their ends: nobody can tell any more
    that there was something to hold, or that they had none.
    """
    name = topic("named")
    both = Configuration(clusters=(east.cluster(), west.cluster()), links=())
    topics.create_both(east, west, f"{name}.a", partitions=2)
    Fabric(both).declarations.create(name, source="east", target="west", maps=[NamespaceMap.parse(f"{name}.")])

    def stop(step: str) -> None:
        if step == last:
            raise InterruptedError

    async def story() -> Promotion:
        async with asyncio.timeout(TERM_S), Client(west.cluster()) as target:
            await AsyncDeclaredLinks(both).change(name, lambda _: {MODE: SYNC})
            await leave_prepared(target, name, f"{name}.a")
            with pytest.raises(InterruptedError):
                await Promoter(configuration=both, name=name, on_step=stop).failover()
            return await Promoter(configuration=both, name=name).failover()

    with trusting(west):
        found = asyncio.run(story())
    assert ended(found) == [(0, True)]
    assert found.acknowledged is not None


def test_a_part_that_fails_over_again_names_its_own_commits(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """All of the link was to fail over, and was interrupted; of the part that is given again later as well."""
    name = topic("parts")
    both = Configuration(clusters=(east.cluster(), west.cluster()), links=())
    parts = [f"{name}-{each}." for each in "ab"]
    maps = [NamespaceMap.parse(each) for each in parts]
    for each in parts:
        topics.create_both(east, west, f"{each}orders", partitions=2)
    Fabric(both).declarations.create(name, source="east", target="west", maps=maps)

    def stop(step: str) -> None:
        if step == "releasing the namespaces":
            raise InterruptedError

    async def story() -> list[list[str]]:
        async with asyncio.timeout(TERM_S), Client(west.cluster()) as target:
            await AsyncDeclaredLinks(both).change(name, lambda _: {MODE: SYNC})
            for each in parts:
                await leave_prepared(target, name, f"{each}orders", gateway=each)
            with pytest.raises(InterruptedError):
                await Promoter(configuration=both, name=name, on_step=stop).failover()
            again = [Promoter(configuration=both, name=name, maps=(each,)) for each in reversed(maps)]
            return [[one.topic for one in (await each.failover()).committed] for each in again]

    with trusting(west):
        assert asyncio.run(story()) == [[f"{each}orders"] for each in reversed(parts)]


def test_a_part_that_fails_over_keeps_what_another_one_has_found(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """That was interrupted, and gateways have forgotten since what they had let go of it."""
    name = topic("apart")
    both = Configuration(clusters=(east.cluster(), west.cluster()), links=())
    parts = [f"{name}-{each}." for each in "ab"]
    one, other = (NamespaceMap.parse(each) for each in parts)
    for each in parts:
        topics.create_both(east, west, f"{each}orders")
    Fabric(both).declarations.create(name, source="east", target="west", maps=[one, other])
    first = FirstUnheld(SourceTopic(f"{parts[0]}orders"), 0, 5)

    def stop(step: str) -> None:
        if step == "releasing the namespaces":
            raise InterruptedError

    async def said(source: Client) -> list[Document]:
        await AsyncDeclaredLinks(both).change(name, lambda _: {MODE: SYNC})
        async with open_declarations(both) as (_, declared):
            said = declared.links[name].mode_said
        # Words alone: a gateway that has ended.
        word = GatewayPairDocument(
            link=name, gateway="g", said=said, by="g", state=SyncState.OUT_OF_SYNC, since_ms=1,
            out_of_sync=OutOfSync.AVAILABLE, lets_go=(first,),
        )  # fmt: skip
        found: list[Document] = [word, SynchronizedDocument(link=name, said=said, since_ms=1)]
        await append_once(source, found, replication_factor=None)
        return found

    async def story() -> Promised | None:
        async with asyncio.timeout(TERM_S), Client(east.cluster()) as source, Client(west.cluster()) as target:
            documents = await said(source)
            with pytest.raises(InterruptedError):
                await Promoter(configuration=both, name=name, maps=(one,), on_step=stop).failover()
            await append_once(source, [Deletion(each.key) for each in documents], replication_factor=None)
            await Promoter(configuration=both, name=name, maps=(other,)).failover()
            found = await Promoter(configuration=both, name=name, maps=(one,)).failover()
            written = (await read_ledger(target)).of(name).documents.values()
            assert PromisedDocument.find_all(written) == []
            return found.acknowledged

    found = asyncio.run(story())
    assert found is not None
    assert (found.lets_go, found.is_known) == ((first,), True), found.in_words
