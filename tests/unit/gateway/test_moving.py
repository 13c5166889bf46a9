"""What a gateway does by what ledgers say of clients that move: how a fence ends, and where clients have gone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TypeGuard

import pytest

from isthmus.errors import NotAuthorized, Unreachable
from isthmus.gateway import moving
from isthmus.gateway.arriving import CarriedOver
from isthmus.gateway.moving import Mover
from isthmus.gateway.server import Fence, Gateway
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.ledger.documents.kinds import Document, MovableGatewayDocument, MoveDocument, encode_document
from isthmus.ledger.log import News
from isthmus.ledger.records import Deletion, Entry, LedgerChange
from isthmus.model.cluster import Cluster, Login, Secret, Security
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.carriedproducers import CarriedProducers
from isthmus.model.gateways.carriedtransactions import CarriedTransactions
from isthmus.model.gateways.moves import MoveStep
from isthmus.model.text.patterns import NamePattern
from tests.unit.gateway.passages import HOST, place, run, until

CLUSTERS = tuple(Cluster(alias=each, bootstrap_servers=(f"{HOST}:1",), cluster_id=each) for each in ("east", "west"))


@dataclass(slots=True)
class Ledgers:
    """What the ledger of each cluster holds, in order, what this gateway has written, and whether it may; and whether
    ledgers are cut off: neither read nor written for the moment. One of them may be `slow`, and one `closed`: nobody
    may read it.
    """

    says: dict[str, list[Document | Entry]]
    refuses: bool = False
    is_cut: bool = False
    slow: str = ""
    closed: str = ""
    written: list[MovableGatewayDocument] = field(default_factory=list)

    def view(self, client: Client) -> SimpleNamespace:
        """What follows the ledger of a cluster."""
        seen = list[Document | Entry]()

        async def look() -> News:
            if self.is_cut:
                raise Unreachable("it is cut off", cluster=client.cluster.alias)
            if self.closed == client.cluster.alias:
                raise NotAuthorized("READ is missing", cluster=client.cluster.alias)
            if self.slow == client.cluster.alias:
                await asyncio.sleep(0.3)
            new = self.says[client.cluster.alias][len(seen) :]
            seen.extend(new)
            entries = [each if isinstance(each, Entry) else Entry(0, each.key, encode_document(each)) for each in new]
            return News(entries, is_other_log=False)

        return SimpleNamespace(look=look, close=lambda: None)

    def writer(self, client: Client, *, in_order: bool = False) -> SimpleNamespace:
        """What writes to the ledger of a cluster."""
        del in_order

        async def append(changes: Sequence[LedgerChange]) -> None:
            if self.is_cut:
                raise Unreachable("it is cut off", cluster=client.cluster.alias)
            if self.refuses:
                raise NotAuthorized("WRITE is missing", cluster=client.cluster.alias)
            documents = [each for each in changes if not isinstance(each, Deletion)]
            self.says[client.cluster.alias] += documents
            self.written += [each for each in documents if isinstance(each, MovableGatewayDocument)]

        return SimpleNamespace(append=append, close=lambda: None)

    def moves(self, alias: str) -> list[tuple[MoveStep, str]]:
        """What a ledger says of moves, in order."""
        return [(each.step, each.by) for each in self.says[alias] if isinstance(each, MoveDocument)]


def told(step: MoveStep, beat: int = 0, *, source: str = "east", stay: int = 1) -> MoveDocument:
    """What whoever moves clients says."""
    target = "west" if source == "east" else "east"
    return MoveDocument(
        source=source, source_alias=source, target=target, target_alias=target, link="orders", move=f"m-{stay}",
        step=step, stay=stay, first_node=1, by="me", since_ms=0, beat=beat,
    )  # fmt: skip


@asynccontextmanager
async def followed(
    ledgers: Ledgers,
    monkeypatch: pytest.MonkeyPatch,
    clusters: tuple[Cluster, ...] = CLUSTERS,
    *,
    logs_in: bool = False,
) -> AsyncIterator[tuple[Gateway, Mover]]:
    """A gateway of the first cluster that follows these ledgers, and does not wait for long."""
    for name in ("_HEARD_S", "_RETRY_S", "_LOOK_S", "_UNREADABLE_S"):
        monkeypatch.setattr(moving, name, 0.2 if name == "_HEARD_S" else 0.01)
    monkeypatch.setattr(moving, "LedgerView", ledgers.view)
    monkeypatch.setattr(moving, "LedgerWriter", ledgers.writer)
    async with place() as here:
        here.gateway.client.recognize("east")
        monkeypatch.setattr(here.gateway, "_cluster", clusters[0])
        word = MovableGatewayDocument(gateway="g", described="g", serves="east", ports=1)
        mover = Mover(here.gateway, Configuration(clusters=clusters, links=()), word, logs_in)
        following = asyncio.create_task(mover.follow())
        try:
            yield here.gateway, mover
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


def test_a_move_that_nobody_is_heard_of_is_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger says so before requests pass, and whoever is heard again later, or says that clients are served from
    elsewhere, comes too late: the ledger's last word is put right. Another move is another matter.
    """
    ledgers = Ledgers({"east": [told(MoveStep.FENCE)], "west": []})

    async def story() -> None:
        async with followed(ledgers, monkeypatch) as (gateway, mover):
            await until(lambda: gateway.is_fenced)
            await until(lambda: not gateway.is_fenced)
            assert ledgers.moves("east")[-1] == (MoveStep.OFF, "g")
            ledgers.says["east"] += [told(MoveStep.FENCE, 1), told(MoveStep.SERVE)]
            await until(lambda: ledgers.moves("east")[-1] == (MoveStep.OFF, "g"))
            assert not gateway.is_fenced
            assert gateway.serving.stay == 0
            ledgers.says["east"].append(replace(told(MoveStep.FENCE, 2), move="another"))
            await until(lambda: ledgers.written[-1].move == "another" and mover.word.is_drained)
            assert gateway.is_fenced

    run(story())


def test_a_gateway_that_was_paused_lets_nothing_pass_when_clients_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has heard nothing for long, and the ledger says by now that clients are served from elsewhere: no request
    passes at where they were.
    """
    ledgers = Ledgers({"east": [told(MoveStep.FENCE)], "west": []})
    passed = list[bool]()

    async def story() -> None:
        turned = turning(monkeypatch)
        async with followed(ledgers, monkeypatch) as (gateway, mover):
            monkeypatch.setattr(gateway, "fence", watched(gateway, passed))
            await until(lambda: gateway.is_fenced and mover.word.is_drained)
            ledgers.is_cut = True
            await asyncio.sleep(0.5)
            assert gateway.is_fenced
            ledgers.says["east"].append(told(MoveStep.SERVE))
            ledgers.is_cut = False
            await until(lambda: gateway.serving.stay == 1)
            assert turned == ["west"]
            assert gateway.cluster.alias == "west"
            # Down at the end of the turn alone.
            assert passed.count(False) == 1

    run(story())


def test_a_move_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that reads of it and of its end serves the cluster that it was started for."""
    moved = told(MoveStep.SERVE)
    ledgers = Ledgers({"east": [moved, Entry(1, moved.key, None)], "west": []})

    async def story() -> None:
        turned = turning(monkeypatch)
        async with followed(ledgers, monkeypatch) as (gateway, _):
            await until(lambda: bool(ledgers.written))
            assert (turned, gateway.serving.stay) == ([], 0)

    run(story())


def test_a_gateway_that_stood_still_reads_the_ledger_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was at when it stood still does not count, and a ledger that cannot be read tells nothing. Where it says
    that clients are to move, no request passes in between.
    """
    ledgers = Ledgers({"east": [told(MoveStep.OFF)], "west": []})
    passed = list[bool]()

    async def story() -> None:
        async with followed(ledgers, monkeypatch) as (gateway, mover):
            await until(lambda: bool(ledgers.written))
            assert gateway.asleep_max_s < 7.0
            ledgers.is_cut = True
            gateway.awake(lasting_s() + 10.0)
            assert gateway.is_in_doubt
            # The next look begins before that.
            monkeypatch.setattr(gateway, "doubted_at", time.monotonic() + 0.2)
            ledgers.is_cut = False
            await asyncio.sleep(0.1)
            assert gateway.is_fenced
            await until(lambda: not gateway.is_fenced)
            ledgers.is_cut = True
            gateway.awake(lasting_s() + 30.0)
            monkeypatch.setattr(gateway, "doubted_at", time.monotonic())
            await asyncio.sleep(0.2)
            assert gateway.is_fenced
            monkeypatch.setattr(gateway, "fence", watched(gateway, passed))
            ledgers.says["east"].append(replace(told(MoveStep.FENCE), move="another"))
            ledgers.is_cut = False
            await until(lambda: not gateway.is_in_doubt and mover.word.is_drained)
            assert passed == [True] * len(passed) != []

    run(story())


def test_a_gateway_that_its_own_ledger_does_not_know_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the word of a gateway that may not read the ledger of its cluster: it lets pass what comes, and
    is not kept for ever from what it cannot read.
    """
    ledgers = Ledgers({"east": [told(MoveStep.OFF)], "west": [told(MoveStep.OFF, source="west")]}, closed="east")

    async def story() -> None:
        async with followed(ledgers, monkeypatch) as (gateway, _):
            await until(lambda: len(ledgers.says["west"]) > 1)
            await asyncio.sleep(0.1)
            gateway.awake(lasting_s() + 10.0)
            assert not gateway.is_fenced

    run(story())


def turning(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Clusters tell of themselves without being there; which ones were asked."""
    described = list[str]()

    async def describe(client: Client) -> SimpleNamespace:
        described.append(client.cluster.alias)
        return SimpleNamespace(cluster_id=client.cluster.cluster_id, brokers={}, fenced=())

    async def carried(*_: object) -> CarriedOver:
        return CarriedOver(CarriedProducers(), CarriedTransactions(), {}, {})

    monkeypatch.setattr(moving, "describe_cluster", describe)
    monkeypatch.setattr(moving, "carried_from", carried)
    return described


def watched(gateway: Gateway, passed: list[bool]) -> Callable[..., None]:
    """Has it be known when a fence goes up and down."""

    def fence(*, is_up: bool, why: Fence = "move") -> None:
        Gateway.fence(gateway, is_up=is_up, why=why)
        passed.append(gateway.is_fenced)

    return fence


def test_a_gateway_that_may_not_write_is_not_fenced_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for its word: once the command is silent it goes on, as it could never say that it does."""
    ledgers = Ledgers({"east": [told(MoveStep.FENCE)], "west": []}, refuses=True)

    async def story() -> None:
        async with followed(ledgers, monkeypatch) as (gateway, _):
            await until(lambda: gateway.is_fenced)
            await until(lambda: not gateway.is_fenced)

    run(story())


def test_a_gateway_calls_a_move_off_before_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the ledger does not take its word, one that is counted on takes no requests."""
    ledgers = Ledgers({"east": [told(MoveStep.FENCE)], "west": []})

    async def story() -> None:
        async with followed(ledgers, monkeypatch) as (gateway, mover):
            await until(lambda: gateway.is_fenced and mover.word.is_drained and ledgers.written)
            ledgers.refuses = True
            await asyncio.sleep(0.5)
            assert gateway.is_fenced
            ledgers.refuses = False
            await until(lambda: not gateway.is_fenced)
            assert ledgers.moves("east")[-1] == (MoveStep.OFF, "g")

    run(story())


@pytest.mark.parametrize("third", [[], [MoveStep.FENCE, MoveStep.OFF]])
def test_a_cluster_that_clients_have_left_again_is_not_asked(
    third: list[MoveStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that is started when clients are back goes on where they are, as often as they have moved, whatever was
    begun and called off since: the other cluster may be away by now.
    """
    there_and_back = [told(MoveStep.SERVE), told(MoveStep.SERVE, source="west", stay=2)]
    said = [*there_and_back, *(told(step, stay=3) for step in third)]
    ledgers = Ledgers({"east": list(said), "west": []})

    async def story() -> None:
        described = turning(monkeypatch)
        async with followed(ledgers, monkeypatch) as (gateway, mover):
            await mover.begin()
            assert (gateway.cluster.alias, gateway.serving.stay) == ("east", 2)
            assert described == ["east"]
            assert not gateway.is_fenced

    run(story())


def test_what_a_failover_decided_is_heard_before_clients_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in the ledger of its target alone, and the source is there again."""
    ledgers = Ledgers({"east": [], "west": [replace(told(MoveStep.SERVE), is_lost=True)]}, slow="west")

    async def story() -> None:
        turning(monkeypatch)
        async with followed(ledgers, monkeypatch) as (gateway, mover):
            await mover.begin()
            assert (gateway.cluster.alias, gateway.serving.stay) == ("west", 1)

    run(story())


def test_nobody_is_served_before_the_ledger_shows_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever moves clients finds it there, or the gateway has heard of the move: there is nothing between."""
    ledgers = Ledgers({"east": [told(MoveStep.OFF)], "west": []})

    def writer(client: Client, *, in_order: bool = False) -> SimpleNamespace:
        """Somebody fences before it is written that the gateway is there, and then the ledger is cut off."""

        async def append(changes: Sequence[LedgerChange]) -> None:
            ledgers.says["east"] += [told(MoveStep.FENCE, 1, stay=2), *(each for each in changes if told_of(each))]
            ledgers.is_cut = True

        return SimpleNamespace(append=append, close=lambda: None)

    def told_of(change: LedgerChange) -> TypeGuard[MovableGatewayDocument]:
        return isinstance(change, MovableGatewayDocument)

    async def story() -> None:
        async with followed(ledgers, monkeypatch) as (gateway, mover):
            monkeypatch.setattr(moving, "LedgerWriter", writer)
            beginning = asyncio.create_task(mover.begin())
            await until(lambda: ledgers.is_cut)
            await asyncio.sleep(0.2)
            assert not beginning.done()
            ledgers.is_cut = False
            await beginning
            assert gateway.is_fenced

    run(story())


def test_what_a_newer_release_wrote_hides_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What came with a record that cannot be read is not taken for read: nobody is served by half of a ledger, nothing
    is sure any more of what is reserved, and the log says so once.
    """
    newer = Entry(1, "namespace/topic/kept.", b'{"schema_version": 99}')
    ledgers = Ledgers({"east": [told(MoveStep.OFF)], "west": [newer, replace(told(MoveStep.SERVE), is_lost=True)]})

    async def story() -> None:
        async with followed(ledgers, monkeypatch) as (gateway, mover):
            await until(lambda: "east" in mover._looked and "west" in mover._problems)
            ledgers.says["east"] += [newer, told(MoveStep.FENCE, stay=2)]
            await until(lambda: "east" in mover._problems)
            heard_at = gateway.serving.reserved.heard_at
            await asyncio.sleep(0.2)
            assert gateway.serving.reserved.heard_at == heard_at
            assert "west" not in mover._looked
            assert not gateway.is_fenced

    with caplog.at_level(logging.WARNING):
        run(story())
    assert len([each for each in caplog.messages if "schema version 99" in each]) == 2


@pytest.mark.parametrize("logs_in", [True, False])
def test_whose_certificates_another_cluster_has_no_login_for_stands_in_its_ledger(
    monkeypatch: pytest.MonkeyPatch, logs_in: bool
) -> None:
    """Whoever moves clients there is to know before. A gateway that takes no certificates lacks none."""
    pattern = NamePattern.split("CN=orders")
    security = Security(protocol="SASL_SSL", mechanism="PLAIN", username="orders", password=Secret("sesame"))
    login = Login(name="orders", security=security, certificates=(pattern,))
    east, west = CLUSTERS
    clusters = replace(east, security=security, logins=(login,)), replace(west, security=security)
    ledgers = Ledgers({each.alias: [told(MoveStep.OFF, source="other")] for each in clusters})

    async def story() -> None:
        async with followed(ledgers, monkeypatch, clusters, logs_in=logs_in):
            await until(lambda: all(len(says) > 1 for says in ledgers.says.values()))
            lacks = [
                {each.lacks for each in ledgers.says[alias] if isinstance(each, MovableGatewayDocument)}
                for alias in ("east", "west")
            ]
            assert lacks == [{()}, {("CN=orders",) if logs_in else ()}]

    run(story())
