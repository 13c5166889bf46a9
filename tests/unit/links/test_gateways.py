"""What ledgers tell of gateways: processes of a command, clients that have moved, and who is silent."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from isthmus.config.declared import declared_link
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.fabric.fabric import Fabric
from isthmus.ledger.documents.gateways import HeldForLink, RefusedCount
from isthmus.ledger.documents.kinds import (
    Document,
    GatewayDocument,
    GatewayPairDocument,
    MovableGatewayDocument,
    MoveDocument,
)
from isthmus.links.gateways import LOOK_S, gateways_in
from isthmus.memory.closed import has_gateway
from isthmus.memory.hearing import is_told
from isthmus.memory.links import LedgerMemory, Silence
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.moves import MoveStep
from isthmus.model.gateways.registered import (
    GatewayPair,
    GatewaysReport,
    RegisteredGateway,
    by_command,
    named_gateways,
    with_held,
)
from isthmus.model.gateways.synchrony import OutOfSync, SyncState
from isthmus.model.text.plain import plain
from tests.unit.memory.pairs import _EAST, _KNOWN, _WEST

_LINK = declared_link(_KNOWN, _EAST, _WEST)


def process(gateway: str, pid: int, *, answers: int = 0, oldest_ms: int = 0, processes: int = 2) -> GatewayDocument:
    """What a process of the command 7 says of itself."""
    return GatewayDocument(
        gateway=gateway, host="proxy", pid=pid, advertised="kafka:19092", ports=(19092, 19099), version="1", since_ms=5,
        beat=3, command=7, processes=processes, connections=2, held=(HeldForLink("orders", answers, oldest_ms),),
        refused=(RefusedCount("silent", 1),),
    )  # fmt: skip


def word(gateway: str, state: SyncState, said: str = _LINK.mode_said) -> GatewayPairDocument:
    """What a process says of the link."""
    return GatewayPairDocument(
        link="orders", gateway=gateway, said=said, by="proxy", state=state, since_ms=9, out_of_sync=OutOfSync.AVAILABLE
    )


def movable(gateway: str, serves: str, *, move: str = "", is_drained: bool = False) -> MovableGatewayDocument:
    """What a process says to who moves clients."""
    return MovableGatewayDocument(
        gateway=gateway, described="kafka:19092", serves=serves, ports=8, move=move, is_drained=is_drained
    )


def ledger(ages_s: dict[str, float], *documents: Document) -> LedgerMemory:
    """A ledger with these documents, some of which are older."""
    unlinked = {each.key: each for each in documents if not isinstance(each, GatewayPairDocument)}
    of = {each.key: each for each in GatewayPairDocument.find_all(documents)}
    return cast(
        LedgerMemory,
        SimpleNamespace(
            find_unlinked=lambda: unlinked,
            unlinked_silences=lambda _: {key: Silence(0.0, math.inf, ages_s.get(key, 0.0)) for key in unlinked},
            of=lambda _: SimpleNamespace(documents=of),
        ),
    )


def found(**ledgers: LedgerMemory) -> tuple[RegisteredGateway, ...]:
    return by_command(gateways_in(ledgers, {"S": "east", "T": "west"}, [_LINK]))


def test_processes_of_a_command_are_one_gateway() -> None:
    """What they hold adds up, and they are in sync together if both are. One that was killed is silent, and holds
    nothing more; what it said of the link counts all the same.
    """
    documents = [
        process("a", 8, answers=2, oldest_ms=1500), process("b", 9, answers=1, oldest_ms=4000), process("c", 10),
        word("a", SyncState.IN_SYNC), word("b", SyncState.IN_SYNC), word("c", SyncState.SYNCING),
    ]  # fmt: skip

    (both,) = found(east=ledger({}, *documents[:2], *documents[3:5]))
    (part,) = both.links
    assert (both.address, both.pid, both.heard, both.silent, both.connections) == ("kafka:19092", 7, 2, 0, 4)
    assert (part.state, part.held, part.oldest_s) == (SyncState.IN_SYNC, 3, 4.0)
    assert both.refused == {"silent": 2}

    (killed,) = found(east=ledger({"gateway/b": 11.0}, *documents))
    (part,) = killed.links
    assert (killed.heard, killed.silent, killed.beat_age_s, killed.connections) == (2, 1, 11.0, 4)
    assert (part.state, part.held, part.oldest_s) == (SyncState.SYNCING, 2, 1.5)
    assert not killed.is_silent

    pair = GatewayPair(link="orders", source="east", target="west", out_of_sync=OutOfSync.AVAILABLE)
    assert (with_held(pair, [killed]).held, with_held(pair, [both]).oldest_s) == (2, 4.0)


def test_a_gateway_whose_clients_have_moved() -> None:
    """It was started for one cluster and serves the other, by the newest word of all ledgers; a ledger that is not
    heard any more leaves it as one that the other one knows.
    """
    at_east = ledger({"movable-gateway/a": 60.0}, process("a", 7, processes=1), movable("a", "S"))
    at_west = ledger({}, movable("a", "T"))

    (one,) = found(east=at_east, west=at_west)
    assert (one.cluster, one.serves, one.heard, one.beat_age_s) == ("east", "west", 1, 0.0)
    (other,) = found(west=at_west)
    assert (other.cluster, other.serves, other.host, plain(other)["since"]) == ("", "west", "", None)


def test_a_cluster_that_clients_have_moved_to_is_named_while_it_is_away() -> None:
    """By the alias that the move had for it; not if another cluster has that by now."""
    move = MoveDocument(
        source="S", source_alias="east", target="T", target_alias="west", link="orders", move="m", step=MoveStep.SERVE,
        stay=1, first_node=1, by="me", since_ms=0,
    )  # fmt: skip
    at_east = ledger({}, move, movable("a", "T"))

    def served(**ids: str) -> list[str]:
        return [each.serves for each in gateways_in({"east": at_east}, ids, ())]

    assert (served(S="east"), served(S="east", U="west")) == (["west"], ["T"])


def test_what_is_said_of_a_move_counts_while_it_is_under_way() -> None:
    """A fence that was taken down again leaves its word in the ledger."""
    move = MoveDocument(
        source="S", source_alias="east", target="T", target_alias="west", link="orders", move="m", step=MoveStep.FENCE,
        stay=1, first_node=1, by="me", since_ms=0,
    )  # fmt: skip
    waiting, drained = movable("a", "S", move="m"), movable("a", "S", move="m", is_drained=True)

    def told(step: MoveStep, document: MovableGatewayDocument) -> str:
        (one,) = found(east=ledger({}, process("a", 7), replace(move, step=step), document))
        return one.move

    assert told(MoveStep.FENCE, drained) == "takes no requests: clients are to move to west"
    assert told(MoveStep.FENCE, replace(waiting, waits_for=("java at h",))).startswith("waits for answers of java at h")
    assert told(MoveStep.OFF, drained) == ""


def test_a_link_of_which_nothing_was_said_yet() -> None:
    """A word of a former statement is none: the gateway may still answer what it likes."""
    (one,) = found(east=ledger({}, process("a", 7), word("a", SyncState.IN_SYNC, said="former")))

    (part,) = one.links
    assert (part.state, plain(part)["state"], part.described) == (None, None, "orders no report yet")


def test_what_an_older_release_wrote() -> None:
    """Its command is not known: each process is a gateway by itself."""
    older = replace(process("a", 8), command=0, processes=1, connections=0, held=(), refused=())
    one, other = found(east=ledger({}, older, replace(older, gateway="b", pid=9)))

    assert (one.pid, other.pid, one.processes, one.heard) == (8, 9, 1, 1)


def silence(least_s: float, most_s: float, told_s: float) -> Silence:
    """For how long nothing came, as looks and clocks have it."""
    return Silence(least_s, most_s, told_s)


@pytest.mark.parametrize(
    ("silences", "told", "likely_s"),
    [
        ([silence(0.0, math.inf, 0.0)], False, 0.0),
        ([silence(0.2, 1.2, 3600.0)], True, 1.2),
        ([silence(9.0, math.inf, 0.0)], False, 9.0),
        ([silence(11.0, math.inf, 0.0)], True, 11.0),
        ([silence(1.0, math.inf, 3600.0)], False, 3600.0),
        ([silence(4.0, math.inf, 3600.0)], True, 3600.0),
        ([silence(4.0, math.inf, 3600.0), silence(0.1, 3.0, 0.0)], True, 3600.0),
        ([silence(4.0, math.inf, 3600.0), silence(4.0, math.inf, 0.0)], False, 3600.0),
    ],
)
def test_who_is_heard_does_not_depend_on_clocks(silences: list[Silence], told: bool, likely_s: float) -> None:
    """What was seen counts more than what they show, which only spares looking at who has been silent for long."""
    assert (is_told(silences), silences[0].likely_s) == (told, likely_s)


def test_whoever_writes_that_one_has_ended_waits_until_it_is_fenced() -> None:
    """Whatever clocks show: one that beats again after four seconds has answered all along."""
    slow = [silence(4.0, math.inf, 3600.0)]
    assert (is_told(slow), is_told(slow, is_patient=True)) == (True, False)
    assert is_told([silence(10.5, math.inf, 3600.0)], is_patient=True)
    assert is_told([silence(0.2, 1.2, 3600.0)], is_patient=True)


@pytest.mark.parametrize(
    ("seen", "written_s_ago", "is_heard"),
    [
        (silence(0.0, math.inf, 0.0), 5.0, True),
        (silence(0.0, math.inf, 0.0), 3600.0, False),
        (silence(0.0, math.inf, 0.0), -3600.0, False),
        (silence(0.5, 4.0, 3600.0), 3600.0, True),
        (silence(0.5, 4.0, 0.0), -3600.0, True),
        (silence(12.0, math.inf, 0.0), 5.0, False),
    ],
)
def test_a_gateway_in_front_is_heard_by_what_is_seen(seen: Silence, written_s_ago: float, is_heard: bool) -> None:
    """What its clock shows counts only where nobody has looked for long enough; one that is ahead shows nothing."""
    word = replace(movable("a", "S"), keeps_reserved=True)
    known = SimpleNamespace(
        find_unlinked=lambda: {word.key: word},
        unlinked_written_ms=lambda: {word.key: int(time.time() * 1000 - written_s_ago * 1000)},
        unlinked_silences=lambda _: {word.key: seen},
    )
    assert has_gateway(cast(LedgerMemory, known), "S") is is_heard


def test_of_a_gateway_that_two_ledgers_know_the_one_counts_where_it_is() -> None:
    """At the other one it has ended, or was heard before."""
    known = process("a", 7, processes=1)
    (one,) = found(west=ledger({"gateway/a": 5.0}, known), east=ledger({}, replace(known, has_ended=True)))
    assert (one.cluster, one.ids) == ("west", ("a",))
    (one,) = found(west=ledger({}, known), east=ledger({"gateway/a": 60.0}, known))
    assert (one.cluster, one.heard) == ("west", 1)


def test_one_that_has_ended_is_shown_as_such() -> None:
    """Its own word counts, or an operator's, whatever its age."""
    (one,) = found(east=ledger({}, replace(process("a", 7, processes=1), has_ended=True)))
    assert (one.heard, one.silent, one.ended, one.beat_in_words) == (0, 1, 1, "now: has ended")


def test_one_that_has_left_a_cluster_has_not_ended_while_it_is_heard() -> None:
    """Its clients have moved to a cluster that does not answer; the ledger that it left has what it has not proven."""
    left = replace(process("a", 7, processes=1), has_ended=True)
    (one,) = found(east=ledger({}, left, movable("a", "T")))
    assert (one.heard, one.silent, one.ended) == (1, 0, 0)
    (one,) = found(east=ledger({"movable-gateway/a": 60.0}, left, movable("a", "T")))
    assert (one.heard, one.silent, one.ended) == (0, 1, 1)


def test_gateways_of_two_hosts_are_two_though_these_have_one_name() -> None:
    """As containers may: who names the one that has ended does not mean the other."""
    one, other = process("one1", 1, processes=1), process("two2", 1, processes=1)
    both = found(east=ledger({}, replace(one, host_id="boot 1"), replace(other, host_id="boot 2")))
    assert {each.ids for each in both} == {("one1",), ("two2",)}
    assert len(found(east=ledger({}, replace(one, host_id="boot 1"), replace(other, host_id="boot 1")))) == 1


def test_gateways_are_named_by_address_or_id() -> None:
    """The beginning of an id is enough if it is no accident."""
    every = found(east=ledger({}, process("abcdef", 7), process("abc123", 8), process("abcd00", 9)))
    one, other = every[0], replace(every[0], ids=("abXYZ",), address="other:1")
    assert named_gateways([one, other], "kafka:19092") == [one]
    assert named_gateways([one, other], "abXY") == [other]
    assert named_gateways([one, other], "abX") == []
    assert named_gateways([one, other], "abcd0") == [one]

    # All that is left where another ledger has forgotten it.
    word = replace(movable("abcdef", "S"), described=process("abcdef", 7).described)
    (left,) = found(west=ledger({}, word))
    assert named_gateways([left], "kafka:19092") == [left]
    assert named_gateways([left], "kafka:1909") == []


def test_gateways_of_one_address_that_differ_are_named() -> None:
    """In the broker behind the first port, or in how many there are; one that is silent is gone, as a rule."""
    one, other = replace(process("a", 7), first_node=1), replace(process("b", 8), host="h", command=9, first_node=0)

    def clashes(second: GatewayDocument, ages_s: dict[str, float] | None = None) -> int:
        return len(GatewaysReport(gateways=found(east=ledger(ages_s or {}, one, second))).clashes)

    assert clashes(other) == 1
    assert clashes(replace(other, first_node=1)) == 0
    assert clashes(replace(other, first_node=-1)) == 0, "an older release does not report it"
    assert clashes(replace(other, first_node=1, ports=(19092, 19095))) == 1
    assert clashes(replace(other, first_node=1, ports=(29092, 29099))) == 0, "a load balancer may map ports"
    assert clashes(replace(other, advertised="another:19092")) == 0
    assert clashes(other, {"gateway/b": 60.0}) == 0


async def just_opened(configuration: Configuration) -> GatewaysReport:
    """What is shown by a command, which begins with what is declared."""
    async with await AsyncFabric.open(configuration, declared=True) as fabric:
        return await fabric.gateways(away=fabric.configuration.unread)


def test_a_cluster_that_hangs_keeps_nobody_waiting() -> None:
    """One that takes connections and says nothing is named after a few seconds, and how its link stands is unknown."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        east, west = replace(_EAST, bootstrap_servers=(address,)), replace(_WEST, bootstrap_servers=(address,))
        link = replace(_LINK, source=east, target=west)
        began = time.monotonic()
        report = Fabric(Configuration(clusters=(east, west), links=(link,))).gateways()

        middle = time.monotonic()
        # Whether links are declared there is asked before: what hung then is not waited for once more.
        again = asyncio.run(just_opened(Configuration(clusters=(east, west), links=(link,))))

    assert max(middle - began, time.monotonic() - middle) < 2 * LOOK_S
    for each in (report, again):
        assert set(each.away) == {"east", "west"}
        (pair,) = each.pairs
        assert (pair.link, pair.described) == ("orders", "how it stands is unknown")
        assert pair.problem is not None
