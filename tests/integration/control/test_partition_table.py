"""KIP-986's table: what clients of both clusters can do in each state of an asynchronous link, cut apart or not."""

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
from confluent_kafka import KafkaError
from pyspark.sql import SparkSession

from isthmus.control.fabric import Fabric, open_fabric
from isthmus.control.links.promotion import Promoter
from isthmus.control.running.following import Following
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import NamespaceMap
from isthmus.model.pair import PairState
from isthmus.model.state import LinkState
from tests.faults.proxy import HOST, Proxy, Weather
from tests.integration.control.running import Running, ends, patient, running
from tests.integration.control.test_declared import cut
from tests.integration.control.test_reservation import admin_of, as_isthmus, until, written
from tests.integration.groups import consumers
from tests.integration.lane import oracle, topics
from tests.integration.lane.transactions import TransactionalProducer
from tests.patience import TERM_S

pytestmark = pytest.mark.integration

BACKLOG: Final = 500
SLOW_BYTES_PER_S: Final = 10_000


class State(StrEnum):
    """The columns, and the link that an operator has ended while the clusters were cut apart."""

    CATCHING_UP = "catching up"
    FOLLOWING = "following"
    CUT = "disconnected"
    ENDED = "disconnected for good"


class Did(StrEnum):
    """What became of a client's work."""

    EVERYTHING = "read everything that was acknowledged"
    SOME = "read a part of it"
    WRITTEN = "written"
    COMMITTED = "committed"
    REFUSED = "refused"


OPEN: Final = dict.fromkeys(State, Did.WRITTEN)
CLOSED: Final = {**dict.fromkeys(State, Did.REFUSED), State.ENDED: Did.WRITTEN}
TABLE: Final = {
    # Footnotes 1 and 2: without transactions the source is available, whatever becomes of the link.
    "source consumers": dict.fromkeys(State, Did.EVERYTHING),
    "source producers": OPEN,
    # Footnotes 3 and 4: transactions wait for no asynchronous target.
    "source transactions": dict.fromkeys(State, Did.COMMITTED),
    # Footnotes 6 and 2: what is there can be read, be it a part, or what was there when the clusters were cut apart.
    "target consumers": {**dict.fromkeys(State, Did.SOME), State.FOLLOWING: Did.EVERYTHING},
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
    """Clients of both clusters that know nothing of the link; those of the target are none of its super users."""

    east: LocalCluster
    guarded: LocalCluster
    stem: str

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

    def work(self, state: State) -> dict[str, Did]:
        """Have every client do its work once."""
        found = {
            "source producers": self.produced({"bootstrap.servers": self.east.admin_bootstrap_servers}, self.orders),
            "source transactions": self.transaction(),
        }
        acknowledged = self.read(self.east)
        found["source consumers"] = Did.EVERYTHING if len(acknowledged) == self.end() else Did.SOME
        if state is State.FOLLOWING:
            wait_for(lambda: len(self.read(self.guarded)) == len(acknowledged))
        assert self.joined(f"{self.stem}-reader") is Did.COMMITTED
        seen = self.read(self.guarded)
        assert seen == acknowledged[: len(seen)], "what is read is not how the source began"
        found["target consumers"] = Did.EVERYTHING if len(seen) == len(acknowledged) else Did.SOME
        # Rules that are taken back reach the part of a broker that judges a moment later.
        if state is State.ENDED:
            until(lambda: written(as_isthmus(self.guarded), self.orders), refused=False)
        found["target consumers of a replicated group"] = self.joined(f"{self.stem}.app")
        found["target producers"] = self.produced(as_isthmus(self.guarded), self.orders)
        found["target producers to a topic that it leads"] = self.produced(as_isthmus(self.guarded), self.own)
        return found

    def end(self) -> int:
        """How many records were ever acknowledged: all offsets but those of the transactions' markers."""
        at = oracle.ends(self.east.admin_bootstrap_servers, self.orders).high
        return at - sum(1 for each in self.read(self.east) if each == b"in a transaction")

    def read(self, cluster: LocalCluster) -> list[bytes | None]:
        (found,) = oracle.records(cluster.admin_bootstrap_servers, self.orders)
        return [each.value for each in found]

    def produced(self, settings: dict[str, Any], topic: str) -> Did:
        error = written(settings, topic)
        if error is None:
            return Did.WRITTEN
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        return Did.REFUSED

    def transaction(self) -> Did:
        producer = TransactionalProducer(self.east, f"{self.stem}-app")
        producer.send(self.orders, [topics.Given(None, b"in a transaction", [], topics.SEPTEMBER)])
        producer.end(commit=True)
        return Did.COMMITTED

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


async def stands(run: Running, state: PairState) -> None:
    await run.until(lambda: bool(run.links) and run.links[0].pair_state is state)


@pytest.fixture(scope="module")
def seen(east: LocalCluster, guarded: LocalCluster, spark: SparkSession) -> Iterator[Seen]:
    """What is seen of one link that catches up, follows, is cut, and is ended meanwhile."""
    clients = Clients(east, guarded, f"table-{secrets.token_hex(4)}")
    (port,) = free_ports(1)
    _, _, broker_port = east.bootstrap_servers.rpartition(":")
    way = ((east.bootstrap_servers, f"{HOST}:{port}"),)
    source = replace(east.cluster(), addresses=way)
    configuration = Configuration(clusters=(source, admin_of(guarded)), links=())
    seen = Seen()
    found = seen.done

    async def scenario(proxy: Proxy) -> None:
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
            with proxy.weather(Weather.CUT):
                await stands(run, PairState.DISCONNECTED)
                found[State.CUT] = await asyncio.to_thread(clients.work, State.CUT)
                await Promoter(configuration=cut(configuration, "east"), name=clients.stem).failover()
                # It has nothing left to do, and waits for the source all the same: there may be new links.
                await run.until(lambda: run.links[0].namespaces == () and run.links[0].state is LinkState.UNAVAILABLE)
                found[State.ENDED] = await asyncio.to_thread(clients.work, State.ENDED)

    with Proxy(port, int(broker_port)) as proxy:
        asyncio.run(scenario(proxy))
        yield seen
        Fabric(configuration).declarations.delete(clients.stem)


async def _has_some(clients: Clients) -> bool:
    return (await ends(clients.guarded, clients.orders))[0] > 0


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("client", TABLE)
def test_what_a_client_can_do(seen: Seen, client: str, state: State) -> None:
    """As the row and the column of the table say."""
    assert seen.done[state][client] is TABLE[client][state]


def test_partitions_are_behind_differently(seen: Seen) -> None:
    """While a link catches up the followers are behind by different amounts, and that is told of each."""
    orders, bills = sorted(seen.behind, reverse=True)
    assert seen.behind[orders] > 3 >= seen.behind[bills] >= 0
