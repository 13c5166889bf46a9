"""A synchronous link as its users have it: declared, run, with a gateway before its source, and what is tried on it."""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from pyspark.sql import SparkSession

from isthmus.errors import PlanRefused
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.gateway.ports import ListenRange
from isthmus.gateway.server import Gateway, GatewaySettings, listening
from isthmus.gateway.synchrony import GatewayLinks
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.aborting import commit_mirrored, transactions_in
from isthmus.ledger.documents.gateways import prepared_commits
from isthmus.ledger.documents.kinds import Document, PreparedDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.links import declaring
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.memory.declared import DeclaredLink
from isthmus.memory.links import recollect
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.prepared import PreparedCommit, PreparedPart
from isthmus.model.gateways.synchrony import FirstUnheld, SyncState
from isthmus.model.links.declaration import Declaration, attachment
from isthmus.model.links.pair import PairState
from isthmus.model.links.progress import LinkProgress
from isthmus.model.links.promotion import Promised, Promotion
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.listening import ListenAddress
from isthmus.model.text.plain import plain
from isthmus.run.following import Following
from testing.brokers.proxy import HOST, Proxy, Weather
from testing.gateways.commits import Log
from testing.gateways.gateways import free_range
from testing.links.reserving import admin_of
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer
from testing.runs.running import patient, running
from testing.verbs import AsyncDeclaredLinks, Promoter


@dataclass(slots=True, eq=False)
class Side:
    """A gateway in a thread of its own, with the links that it holds."""

    links: GatewayLinks
    port: int
    loop: asyncio.AbstractEventLoop
    leave: Callable[[], None]


@contextmanager
def gateway(configuration: Configuration, *, ledgers: Configuration | None = None) -> Iterator[Side]:
    """One before the source that says farewell when the block ends, unless it `leave`s before: from then on it does
    nothing more, as if it had been killed. It may reach `ledgers` in another way than brokers are reached for clients.
    """
    port, loop = free_range(1), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gateway")
    thread.start()

    def done(work: Coroutine[Any, Any, Any]) -> Any:
        if not thread.is_alive():
            return loop.run_until_complete(work)
        return asyncio.run_coroutine_threadsafe(work, loop).result(TERM_S)

    def leave() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    settings = GatewaySettings(listen=ListenRange(HOST, port, port), advertise=ListenAddress(HOST, port))

    async def made() -> GatewayLinks:
        return GatewayLinks(ledgers or configuration, "east", settings)

    links = done(made())
    done(links.begin())

    @asynccontextmanager
    async def beside(found: Gateway) -> AsyncIterator[None]:
        links.stand_behind(found)
        yield

    serving = listening(configuration.cluster("east"), settings, links, beside)
    done(serving.__aenter__())
    try:
        yield Side(links, port, loop, leave)
    finally:
        # What has left says no farewell, though the test lets go of its sockets.
        links.is_registered &= thread.is_alive()
        done(serving.__aexit__(None, None, None))
        done(links.aclose())
        if thread.is_alive():
            leave()
        loop.close()
        # As an operator says of one that was killed. Nobody else can know, as the process of the test lives.
        asyncio.run(_forget(configuration.cluster("east"), links.document.key))


async def _forget(source: Cluster, key: str) -> None:
    async with Client(source) as client:
        await append_once(client, [Deletion(key)], replication_factor=None)


@dataclass(slots=True)
class Writer:
    """A producer of the gateway that looks, as each acknowledgement comes, whether the follower has the record, or the
    ledger an offset at or before it.
    """

    port: int
    follower: LocalCluster
    given_up: Callable[[], tuple[FirstUnheld, ...]]
    acknowledged: list[int] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)

    def write(self, topic: str, *, timeout_s: float = TERM_S) -> None:
        """Write one record, and wait for what becomes of it."""
        producer = Producer(
            {
                "bootstrap.servers": f"{HOST}:{self.port}",
                "delivery.timeout.ms": int(timeout_s * 1000),
                "request.timeout.ms": 20_000,
                "enable.idempotence": False,
            }
        )
        producer.produce(topic, b"value", partition=0, on_delivery=self._told)
        assert producer.flush(2 * TERM_S) == 0

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.code())
            return
        offset = message.offset() or 0
        self.acknowledged.append(offset)
        # In this order: what the follower lacks later, the ledger has had before, though it may be in sync by now.
        is_given_up = any(each.offset <= offset for each in self.given_up())
        is_there = oracle.ends(self.follower.admin_bootstrap_servers, message.topic() or "").high > offset
        if not is_there and not is_given_up:
            self.broken.append(offset)


def ended(found: Promotion) -> list[tuple[int, bool]]:
    """The partitions in which a failover ends transactions, and whether by a commit."""
    every = [*((each, True) for each in found.committed), *((each, False) for each in found.aborted)]
    return [(each.partition, is_committed) for each, is_committed in every]


class _OvertakenLinks(declaring.AsyncDeclaredLinks):
    def __init__(self, configuration: Configuration, session: ClientSession, first: Mapping[str, Any]) -> None:
        super().__init__(configuration, session)
        self._first = first

    async def change(self, name: str, values: Callable[[Declaration], dict[str, Any]], **how: Any) -> DeclaredLink:
        await super().change(name, lambda _: dict(self._first))
        return await super().change(name, values, **how)


class Overtaken(AsyncDeclaredLinks):
    """Changes of links, each with another one of the same link between its check and its writing."""

    first: Mapping[str, Any]

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.core = lambda session: _OvertakenLinks(configuration, session, self.first)


@dataclass(slots=True, kw_only=True)
class Trial:
    """A link, and what is asked of it and done with it."""

    name: str
    each: NamespaceMap
    direct: Configuration
    source: LocalCluster
    follower: LocalCluster

    @property
    def topic(self) -> str:
        return f"{self.name}.orders"

    @property
    def fabric(self) -> Fabric:
        return Fabric(self.direct)

    def status(self) -> LinkProgress:
        (found,) = open_fabric(self.direct, declared=True).status(link=self.name)
        return found

    def stands(self, state: PairState) -> None:
        """Wait until the link is in this state, and in sync is read at the follower."""
        deadline, is_read = time.monotonic() + TERM_S, state is PairState.IN_SYNC
        while (found := self.status()).pair_state is not state or (
            is_read and (found.sync is None or found.sync.is_hidden)
        ):
            assert time.monotonic() < deadline, plain(found)
            time.sleep(0.1)

    def given_up(self) -> tuple[FirstUnheld, ...]:
        found = self.status().sync
        return () if found is None else found.lets_go

    def promised(self) -> Promised:
        """What a failover would say of what was acknowledged."""
        found = asyncio.run(Promoter(configuration=self.direct, name=self.name).failover(dry_run=True)).acknowledged
        assert found is not None
        return found

    def mode(self, value: str) -> str:
        return self.fabric.declarations.update(self.name, mode=value).given_up

    def is_refused(self) -> None:
        """What is missing is named, one thing after the other."""
        with pytest.raises(PlanRefused, match="is not closed by access rules"):
            self.mode("sync")
        self.fabric.cluster("guarded").namespaces.enforce(self.each.target, super_user=True)
        with pytest.raises(PlanRefused, match="no gateway is heard"):
            self.mode("sync")

    def is_overtaken(self) -> None:
        """It does not become synchronous with what was attached while gateways were waited for."""
        late, overtaken = NamespaceMap.parse(f"{self.name}-late."), Overtaken(self.direct)
        overtaken.first = {attachment(late): True}
        with pytest.raises(PlanRefused, match=f"{self.name}-late.* was attached meanwhile"):
            asyncio.run(overtaken.update(self.name, mode="sync"))
        asyncio.run(Promoter(configuration=self.direct, name=self.name, maps=(late,)).detach())
        self.stands(PairState.FOLLOWING)

    def becomes_synchronous(self, side: Side) -> Writer:
        """Whatever is acknowledged from then on is at the follower."""
        self.is_overtaken()
        self.mode("sync")
        with pytest.raises(PlanRefused, match="is synchronous"):
            self.fabric.declarations.attach(self.name, [NamespaceMap.parse(f"{self.name}-more.")])
        self.stands(PairState.IN_SYNC)
        writer = Writer(side.port, self.follower, self.given_up)
        for _ in range(5):
            writer.write(self.topic)
        assert (writer.acknowledged, writer.broken) == ([0, 1, 2, 3, 4], [])
        assert self.promised().is_known
        assert not self.promised().lets_go
        self.is_shown(side)
        return writer

    def commits(self, side: Side) -> None:
        """A transaction over two partitions is there as a whole when its commit is answered, also behind another one
        that is open; nothing of it is left in the ledger.
        """
        servers, admin = f"{HOST}:{side.port}", self.follower.admin_bootstrap_servers
        others = TransactionalProducer(self.source, f"{self.name}-open")
        others.send(self.topic, topics.some(1, random.Random(1)))
        producer = Producer({"bootstrap.servers": servers, "transactional.id": self.name})
        producer.init_transactions(TERM_S)
        for _ in range(3):
            producer.begin_transaction()
            for partition in range(2):
                producer.produce(self.topic, b"value", partition=partition)
            producer.commit_transaction(TERM_S)
            ends = oracle.ends(admin, self.topic, 1)
            assert ends.stable == ends.high == oracle.ends(self.source.bootstrap_servers, self.topic, 1).high
        others.end(commit=False)
        assert [len(each) for each in oracle.records(admin, self.topic, partitions=2)] == [8, 3]
        deadline = time.monotonic() + TERM_S
        while prepared_commits(self.name, self.written()):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def written(self) -> Collection[Document]:
        """What the follower's ledger has of the link."""

        async def story() -> Collection[Document]:
            async with Client(self.direct.cluster("guarded")) as client:
                return (await recollect(self.name, client)).documents.values()

        return asyncio.run(story())

    def is_torn(self, proxy: Proxy, on_step: Callable[[str], None]) -> list[tuple[int, bool]]:
        """Lose the source when the end of a transaction has come to one partition only, and another is undecided; the
        partitions in which a failover ends them, and whether by a commit.
        """
        admin = self.follower.admin_bootstrap_servers
        begins = [oracle.ends(admin, self.topic, partition).high for partition in range(2)]
        writers = [TransactionalProducer(self.source, f"{self.name}-{number}") for number in range(2)]
        for partition, begin in enumerate(begins):
            for writer in writers:
                writer.send(self.topic, topics.some(1, random.Random(1)), partition=partition)
            while oracle.ends(admin, self.topic, partition).high < begin + 2:
                time.sleep(0.05)

        async def story() -> None:
            async with (
                Client(self.direct.cluster("east")) as source,
                Client(self.direct.cluster("guarded")) as target,
            ):
                found = sorted(await transactions_in(source, [self.topic]))
                mine = [each for each in found if each.transactional_id == f"{self.name}-0"]
                there = TargetTopic(self.topic)
                parts = [PreparedPart(there, each.partition, each.first_offset, begins[each.partition] + 2)
                         for each in mine]  # fmt: skip
                commit = PreparedCommit(mine[0].producer_id, tuple(parts))
                noted = PreparedDocument(link=self.name, gateway="gone", commits=(commit,))
                await append_once(target, [noted], replication_factor=None)
                # As if its coordinator were lost between the one and the other.
                await commit_mirrored(source, mine[1:])

        asyncio.run(story())
        while oracle.ends(admin, self.topic, 1).high < begins[1] + 3:
            time.sleep(0.05)
        found = asyncio.run(Promoter(configuration=self.direct, name=self.name).failover(dry_run=True))
        would = ended(found)
        with proxy.weather(Weather.CUT):
            found = asyncio.run(Promoter(configuration=self.direct, name=self.name, on_step=on_step).failover())
        assert found.acknowledged is not None
        assert "0 records that a gateway acknowledged with acks=all are missing" in found.missing_in_words
        assert ended(found) == would
        return would

    def is_shown(self, side: Side) -> None:
        """Whoever looks at gateways sees the one that there is, what it holds, and the link as its status has it."""
        found = open_fabric(self.direct, declared=True).gateways("east")
        (one,) = [each for each in found.gateways if each.address == f"{HOST}:{side.port}"]
        (part,) = [each for each in one.links if each.link == self.name]
        assert (one.cluster, one.serves, one.heard, one.silent, part.state) == ("east", "east", 1, 0, SyncState.IN_SYNC)
        (pair,) = [each for each in found.pairs if each.link == self.name]
        assert (pair.sync, pair.problem, found.away) == (self.status().sync, None, {})

    def is_cut(self, writer: Writer, proxy: Proxy) -> None:
        """Available: it is answered once the first offset is written down. Consistent: it is not."""
        self.fabric.declarations.update(self.name, settings={"sync.lag_max_ms": 1000})
        with proxy.weather(Weather.CUT):
            writer.write(self.topic)
            assert (len(writer.acknowledged), writer.broken) == (6, [])
            self.stands(PairState.OUT_OF_SYNC)
            first = FirstUnheld(SourceTopic(self.topic), 0, writer.acknowledged[5])
            assert self.given_up() == (first,)
            assert self.promised().lets_go == (first,)
        self.stands(PairState.IN_SYNC)
        assert self.given_up() == ()
        self.fabric.declarations.update(self.name, settings={"sync.out_of_sync": "consistent"})
        time.sleep(2)
        with proxy.weather(Weather.CUT):
            writer.write(self.topic, timeout_s=4)
            assert (len(writer.acknowledged), len(writer.errors)) == (6, 1)
            assert self.status().pair_state is PairState.OUT_OF_SYNC
            assert "made asynchronous" not in self.mode("async")
            writer.write(self.topic)
            assert len(writer.acknowledged) == 7
        assert self.status().sync is None
        self.stands(PairState.FOLLOWING)

    def is_refused_by_a_stranger(self) -> None:
        """A gateway whose file lacks the target takes nothing for the link, and the state of the link names it."""
        with gateway(Configuration(clusters=(self.direct.cluster("east"),), links=())) as stranger:
            self.stands(PairState.OUT_OF_SYNC)
            told = self.status().sync
            assert told is not None
            assert f"{HOST}:{stranger.port}" in told.in_words
            assert "guarded" in told.in_words
            writer = Writer(stranger.port, self.follower, self.given_up)
            writer.write(self.topic, timeout_s=3)
            assert (writer.acknowledged, len(writer.errors)) == ([], 1)
        self.stands(PairState.IN_SYNC)

    def outlives_a_gateway(self, side: Side, proxy: Proxy) -> None:
        """Whoever died in sync has left nothing, and whoever comes holds all from the beginning on."""
        self.mode("sync")
        self.stands(PairState.IN_SYNC)
        self.is_refused_by_a_stranger()
        side.leave()
        with gateway(self.direct) as another:
            self.stands(PairState.IN_SYNC)
            writer = Writer(another.port, self.follower, self.given_up)
            writer.write(self.topic)
            assert (len(writer.acknowledged), writer.broken) == (1, [])
            keeper = another.links.gateway.keeper if another.links.gateway is not None else None
            assert keeper is not None
            writing = threading.Thread(target=writer.write, args=(self.topic,), kwargs={"timeout_s": 5.0})

            def is_held(step: str) -> None:
                if step == "detaching":
                    writing.start()
                    while not keeper.count_held():
                        time.sleep(0.02)

            assert self.is_torn(proxy, is_held) == [(0, True), (0, False), (1, False)]
            writing.join()
            assert (len(writer.acknowledged), len(writer.errors)) == (1, 1), "it was acknowledged, and nobody has it"


def begun(
    kind: str,
    east: LocalCluster,
    guarded: LocalCluster,
    *,
    partitions: int = 1,
    also: Sequence[str] = (),
    has_groups: bool = False,
    settings: Mapping[str, object] | None = None,
) -> Trial:
    """A declared link of one topic, and of another one for each suffix of its name that is given `also`; if it
    `has_groups`, of those too that begin with its name.
    """
    name = f"{kind}-{secrets.token_hex(4)}"
    direct = Configuration(clusters=(east.cluster(), admin_of(guarded)), links=())
    trial = Trial(name=name, each=NamespaceMap.parse(f"{name}."), direct=direct, source=east, follower=guarded)
    topics.create(east, trial.topic, partitions=partitions)
    for suffix in also:
        topics.create(east, f"{name}{suffix}.orders")
    maps = [trial.each, *(NamespaceMap.parse(f"{name}{suffix}.") for suffix in also)]
    maps += [NamespaceMap.parse(f"{name}.", kind="group")] * has_groups
    trial.fabric.declarations.create(name, source="east", target="guarded", maps=maps, settings=settings or {})
    return trial


@contextmanager
def reached_through(trial: Trial) -> Iterator[tuple[Configuration, Proxy]]:
    """A configuration by which the source is reached through a proxy, and that."""
    (port,) = free_ports(1)
    source, target = trial.direct.clusters
    (address,) = source.bootstrap_servers
    source = replace(source, addresses=((address, f"{HOST}:{port}"),))
    with Proxy(port, int(address.rpartition(":")[2])) as proxy:
        yield Configuration(clusters=(source, target), links=()), proxy


def run_beside(trial: Trial, spark: SparkSession, scenario: Callable[[], None], configuration: Configuration) -> None:
    """Have the link run, as this configuration reaches its clusters, while a scenario goes on, and delete it then."""

    async def run() -> None:
        opened = open_fabric(configuration, declared=True).configuration
        only = replace(opened, links=tuple(link for link in opened.links if link.name == trial.name))
        following = Following(written=only.written)
        async with running(only, spark, following=following, timings=patient(follow_s=0.2)):
            await asyncio.to_thread(scenario)

    asyncio.run(run())
    trial.fabric.declarations.delete(trial.name)


async def leave_prepared(client: Client, name: str, topic: str, *, gateway: str = "gone") -> None:
    """Have two partitions of a topic as a gateway and a source leave them that are gone in the middle of a commit: one
    has the end of the transaction, and in the other it is open.
    """
    logs = [Log(client, topic, partition) for partition in range(2)]
    begins = [await log.write(7) for log in logs]
    await logs[1].finish(7, commit=True)
    parts = [PreparedPart(TargetTopic(topic), at, begin, begin + 1) for at, begin in enumerate(begins)]
    noted = PreparedDocument(link=name, gateway=gateway, commits=(PreparedCommit(7, tuple(parts)),))
    await append_once(client, [noted], replication_factor=None)
