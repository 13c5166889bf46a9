"""KIP-986's table: what clients of both clusters can do in each state of a link, cut apart or not."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.configuration import Configuration
from isthmus.model.links.pair import PairState
from isthmus.model.namespace import NamespaceMap
from isthmus.model.state import LinkState
from isthmus.run.following import Following
from testing.brokers.proxy import HOST, Proxy, Weather
from testing.gateways.gateways import Running
from testing.gateways.gateways import gateway as standing_before
from testing.groups import consumers
from testing.links.reserving import admin_of, as_isthmus, until, written
from testing.links.synchronous import gateway
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs.declaring import cut
from testing.runs.running import Running as Run
from testing.runs.running import ends, patient, running
from testing.verbs import Promoter

pytestmark = pytest.mark.integration

BACKLOG: Final = 500
SLOW_BYTES_PER_S: Final = 10_000


class State(StrEnum):
    """The columns, and the link that an operator has ended while the clusters were cut apart."""

    CATCHING_UP = "catching up"
    FOLLOWING = "following"
    SYNCING = "syncing"
    IN_SYNC = "in sync"
    OUT_OF_SYNC = "out of sync"
    CUT = "disconnected"
    ENDED = "disconnected for good"


class Did(StrEnum):
    """What became of a client's work."""

    EVERYTHING = "read everything that was acknowledged"
    SOME = "read a part of it"
    NOTHING = "read nothing, and waits"
    WRITTEN = "written"
    COMMITTED = "committed"
    REFUSED = "refused"


OPEN: Final = dict.fromkeys(State, Did.WRITTEN)
CLOSED: Final = {**dict.fromkeys(State, Did.REFUSED), State.ENDED: Did.WRITTEN}
TABLE: Final = {
    # Footnotes 1 and 2: without transactions the source is available, whatever becomes of the link.
    "source consumers": dict.fromkeys(State, Did.EVERYTHING),
    "source producers": OPEN,
    # Footnotes 3 and 4: transactions wait for no asynchronous target. Footnote 5: they fail where the synchronous one
    # does not keep up.
    "source transactions": {**dict.fromkeys(State, Did.COMMITTED), State.OUT_OF_SYNC: Did.REFUSED},
    # Footnotes 6 and 2: what is there can be read, be it a part, or what was there when the clusters were cut apart.
    # Footnote 8: in sync it is all that was acknowledged, at once. Out of sync the link prefers to be available (1).
    # Footnote 7: until it has been in sync nothing is read.
    "target consumers": {
        **dict.fromkeys(State, Did.SOME),
        State.SYNCING: Did.NOTHING,
        State.FOLLOWING: Did.EVERYTHING,
        State.IN_SYNC: Did.EVERYTHING,
    },
    # Footnotes 9 and 10, until an operator has it otherwise (2).
    "target consumers of a replicated group": {**dict.fromkeys(State, Did.REFUSED), State.ENDED: Did.COMMITTED},
    "target producers": CLOSED,
    # Each cluster leads topics of its own, whatever becomes of a link.
    "target producers to a topic that it leads": OPEN,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What the clients could do in each state, and how far each topic was behind while the link was catching up."""

    done: dict[State, dict[str, Did]] = field(default_factory=dict)
    behind: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients of both clusters that know nothing of the link; those of the target are none of its super users, but who
    reads there through the gateway at `front`, which hides a topic from super users too.
    """

    east: LocalCluster
    guarded: LocalCluster
    stem: str
    front: str
    unread: list[str] = field(default_factory=list)
    """The states in which a transaction was ended at the source, as each end takes an offset, and again those in which
    what it wrote was aborted.
    """

    @property
    def orders(self) -> str:
        return f"{self.stem}.orders"

    @property
    def bills(self) -> str:
        return f"{self.stem}.bills"

    @property
    def own(self) -> str:
        """A topic of the target that follows nobody."""
        return f"{self.stem}-own"

    @property
    def login(self) -> dict[str, Any]:
        return {name.replace(".", "_"): value for name, value in as_isthmus(self.guarded).items()}

    def work(self, state: State, source: str = "") -> dict[str, Did]:
        """Have every client do its work once; those that write to the source reach it there."""
        source = source or self.east.admin_bootstrap_servers
        found = {
            "source producers": self.produced({"bootstrap.servers": source}, self.orders),
            "source transactions": self.transaction(state, source),
        }
        acknowledged = self.read(self.east)
        found["source consumers"] = Did.EVERYTHING if len(acknowledged) == self.end() else Did.SOME
        if state is State.FOLLOWING:
            wait_for(lambda: len(self.read(self.guarded)) == len(acknowledged))
        seen = self.read_through(is_hidden=state is State.SYNCING)
        assert self.joined(f"{self.stem}-reader") is Did.COMMITTED
        assert seen == acknowledged[: len(seen)], "what is read is not how the source began"
        part = Did.SOME if seen else Did.NOTHING
        found["target consumers"] = Did.EVERYTHING if len(seen) == len(acknowledged) else part
        # Rules that are taken back reach the part of a broker that judges a moment later.
        if state is State.ENDED:
            until(lambda: written(as_isthmus(self.guarded), self.orders), refused=False)
        found["target consumers of a replicated group"] = self.joined(f"{self.stem}.app")
        found["target producers"] = self.produced(as_isthmus(self.guarded), self.orders)
        found["target producers to a topic that it leads"] = self.produced(as_isthmus(self.guarded), self.own)
        return found

    def end(self) -> int:
        """How many records were ever acknowledged: all offsets but those that nobody reads."""
        return oracle.ends(self.east.admin_bootstrap_servers, self.orders).high - len(self.unread)

    def read(self, cluster: LocalCluster) -> list[bytes | None]:
        (found,) = oracle.records(cluster.admin_bootstrap_servers, self.orders)
        return [each.value for each in found]

    def read_through(self, *, is_hidden: bool) -> list[bytes | None]:
        """What a consumer of the target reads through the gateway before it; of a topic beside it reads everything."""
        consumer = Consumer({"bootstrap.servers": self.front, "group.id": "nobody"})
        consumer.assign([TopicPartition(name, 0, 0) for name in (self.orders, self.own)])
        there = len(self.read(self.guarded))
        found: dict[str, list[bytes | None]] = {self.orders: [], self.own: []}
        try:
            for _ in range(2):
                assert self.produced(as_isthmus(self.guarded), self.own) is Did.WRITTEN
                beside = oracle.ends(self.guarded.admin_bootstrap_servers, self.own).high
                deadline = time.monotonic() + TERM_S
                while len(found[self.own]) < beside or (len(found[self.orders]) < there and not is_hidden):
                    assert time.monotonic() < deadline, {name: len(each) for name, each in found.items()}
                    message = consumer.poll(0.1)
                    if message is not None and message.error() is None:
                        found[message.topic() or ""].append(message.value())
        finally:
            consumer.close()
        return found[self.orders]

    def produced(self, settings: dict[str, Any], topic: str) -> Did:
        error = written(settings, topic)
        if error is None:
            return Did.WRITTEN
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        return Did.REFUSED

    def transaction(self, state: State, source: str) -> Did:
        """Write a record and commit it; what is refused for seconds is aborted, as an application would."""
        producer = Producer(
            {
                "bootstrap.servers": source,
                "transactional.id": f"{self.stem}-app",
                "message.timeout.ms": 3_000,
                "transaction.timeout.ms": 60_000,
            }
        )
        producer.init_transactions(TERM_S)
        producer.begin_transaction()
        producer.produce(self.orders, b"in a transaction", partition=0)
        self.unread.append(state)
        did = Did.COMMITTED
        try:
            producer.commit_transaction(TERM_S)
        except KafkaException:
            producer.abort_transaction(TERM_S)
            did = Did.REFUSED
            # librdkafka hears that it is refused with its commit: what it wrote is aborted.
            self.unread.append(state)
        # The coordinator answers first and has the marker written afterwards.
        wait_for(lambda: self.end() == len(self.read(self.east)))
        return did

    def joined(self, group: str) -> Did:
        """Read the first record at the target in a group, and commit it."""
        consumer = consumers.consumer(self.guarded, group, **self.login)
        consumer.subscribe([self.orders])
        deadline = time.monotonic() + TERM_S
        try:
            while (message := consumer.poll(0.5)) is None:
                assert time.monotonic() < deadline, f"{group} heard nothing"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
                return Did.REFUSED
            consumer.commit(message=message, asynchronous=False)
        finally:
            consumer.close()
        return Did.COMMITTED


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TERM_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def declared(clients: Clients, configuration: Configuration) -> Configuration:
    """A slow link with a backlog, into names that access rules keep others out of."""
    for name in (clients.orders, clients.bills):
        topics.create(clients.east, name)
    topics.create(clients.guarded, clients.own)
    topics.produce(clients.east, clients.bills, topics.some(3, random.Random(2)))
    backlog = topics.some(BACKLOG, random.Random(1), value_bytes=8_000)
    topics.produce(clients.east, clients.orders, backlog, batch_size=16_384)
    consumers.commit(clients.east, {f"{clients.stem}.app": {(clients.orders, 0): 1}})
    maps = [NamespaceMap.parse(f"{clients.stem}."), NamespaceMap.parse(f"{clients.stem}.", "group")]
    fabric = Fabric(configuration)
    settings = {"limits.bytes_per_s": SLOW_BYTES_PER_S}
    fabric.declarations.create(clients.stem, source="east", target="guarded", maps=maps, settings=settings)
    for each_map in maps:
        fabric.cluster("guarded").namespaces.enforce(each_map.target, super_user=True)
    opened = open_fabric(configuration, declared=True).configuration
    return replace(opened, links=tuple(link for link in opened.links if link.name == clients.stem))


def synchronous(
    clients: Clients, through: Configuration, proxy: Proxy, front: Running, found: dict[State, dict[str, Did]]
) -> None:
    """Have the link be synchronous, with clients of the source that reach it through a gateway, and see what they can
    do in each state. It is asynchronous again in the end.
    """
    direct = replace(through, clusters=(clients.east.cluster(), through.clusters[1]))

    def stand(state: PairState) -> None:
        wait_for(lambda: open_fabric(direct, declared=True).status(link=clients.stem)[0].pair_state is state)

    declarations = Fabric(direct).declarations
    declarations.update(clients.stem, settings={"transactions.visibility": "record", "sync.lag_max_ms": 1000})
    stand(PairState.FOLLOWING)
    with gateway(direct) as side:
        servers = f"{HOST}:{side.port}"
        # One that does not reach the follower proves nothing: as long as it is there the link is not in sync.
        nowhere = replace(direct.clusters[1], bootstrap_servers=(f"{HOST}:1",))
        with gateway(replace(direct, clusters=(direct.clusters[0], nowhere))):
            declarations.update(clients.stem, mode="sync")
            stand(PairState.SYNCING)
            wait_for(lambda: front.gateway.serving.hidden.holds(clients.orders))
            found[State.SYNCING] = clients.work(State.SYNCING, servers)
            stand(PairState.SYNCING)
        stand(PairState.IN_SYNC)
        wait_for(lambda: not front.gateway.serving.hidden)
        found[State.IN_SYNC] = clients.work(State.IN_SYNC, servers)
        stand(PairState.IN_SYNC)
        with proxy.weather(Weather.CUT):
            assert written({"bootstrap.servers": servers}, clients.orders) is None
            stand(PairState.OUT_OF_SYNC)
            found[State.OUT_OF_SYNC] = clients.work(State.OUT_OF_SYNC, servers)
            stand(PairState.OUT_OF_SYNC)
        declarations.update(clients.stem, mode="async")
    stand(PairState.FOLLOWING)


async def stands(run: Run, state: PairState) -> None:
    await run.until(lambda: bool(run.links) and run.links[0].pair_state is state)


@pytest.fixture(scope="module")
def seen(east: LocalCluster, guarded: LocalCluster, spark: SparkSession) -> Iterator[Seen]:
    """What is seen of one link that catches up, follows, is cut, and is ended meanwhile."""
    (port,) = free_ports(1)
    _, _, broker_port = east.bootstrap_servers.rpartition(":")
    way = ((east.bootstrap_servers, f"{HOST}:{port}"),)
    source = replace(east.cluster(), addresses=way)
    configuration = Configuration(clusters=(source, admin_of(guarded)), links=())
    seen = Seen()
    found = seen.done

    async def scenario(clients: Clients, front: Running, proxy: Proxy) -> None:
        only = await asyncio.to_thread(declared, clients, configuration)
        following, timings = Following(written=only.written), patient(follow_s=0.2)
        async with running(only, spark, following=following, timings=timings) as run:
            await run.until(lambda: _has_some(clients))
            await stands(run, PairState.CATCHING_UP)
            await asyncio.to_thread(until, lambda: written(as_isthmus(guarded), clients.orders))
            found[State.CATCHING_UP] = await asyncio.to_thread(clients.work, State.CATCHING_UP)
            assert run.links[0].pair_state is PairState.CATCHING_UP
            seen.behind.update((each.topic, each.lag_records) for each in run.links[0].topics)
            lifted = {"limits.bytes_per_s": None}
            await asyncio.to_thread(lambda: Fabric(configuration).declarations.update(clients.stem, settings=lifted))
            await stands(run, PairState.FOLLOWING)
            found[State.FOLLOWING] = await asyncio.to_thread(clients.work, State.FOLLOWING)
            await asyncio.to_thread(synchronous, clients, configuration, proxy, front, found)
            with proxy.weather(Weather.CUT):
                await stands(run, PairState.DISCONNECTED)
                found[State.CUT] = await asyncio.to_thread(clients.work, State.CUT)
                await Promoter(configuration=cut(configuration, "east"), name=clients.stem).failover()
                # It has nothing left to do, and waits for the source all the same: there may be new links.
                await run.until(lambda: run.links[0].namespaces == () and run.links[0].state is LinkState.UNAVAILABLE)
                found[State.ENDED] = await asyncio.to_thread(clients.work, State.ENDED)

    stands_before = standing_before(
        admin_of(guarded), configuration=Configuration(clusters=(admin_of(guarded),), links=())
    )
    with Proxy(port, int(broker_port)) as proxy, stands_before as front:
        clients = Clients(east, guarded, f"table-{secrets.token_hex(4)}", front.servers)
        asyncio.run(scenario(clients, front, proxy))
        yield seen
        Fabric(configuration).declarations.delete(clients.stem)


async def _has_some(clients: Clients) -> bool:
    return (await ends(clients.guarded, clients.orders))[0] > 0


@pytest.mark.parametrize(("client", "state"), [(client, state) for client in TABLE for state in State])
def test_what_a_client_can_do(seen: Seen, client: str, state: State) -> None:
    """As the row and the column of the table say."""
    assert seen.done[state][client] is TABLE[client][state]


def test_partitions_are_behind_differently(seen: Seen) -> None:
    """While a link catches up the followers are behind by different amounts, and that is told of each."""
    orders, bills = sorted(seen.behind, reverse=True)
    assert seen.behind[orders] > 3 >= seen.behind[bills] >= 0
