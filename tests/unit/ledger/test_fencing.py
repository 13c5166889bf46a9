"""Only the newest controller writes: what it says of itself when it begins, and when it begins again."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from isthmus.errors import BrokerRefused, Fenced, Unreachable, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.records import Deletion
from testing.values.brokers import Answering, asking

PRODUCER, EPOCH = 41, 3


def initialised(error_code: int = codes.NONE) -> Any:
    """The answer to InitProducerId."""
    return SimpleNamespace(error_code=error_code, producer_id=PRODUCER, producer_epoch=EPOCH)


def said(client: Answering) -> list[tuple[int, int]]:
    """The producer id and epoch in each InitProducerId that was sent."""
    asked = [request for request in client.asked if request.name == "InitProducerIdRequest"]
    return [(request.producer_id, request.producer_epoch) for request in asked]


def test_who_takes_over_fences_whoever_was_there() -> None:
    """It asks as nobody, which brokers grant to everybody; generations grow with the producer id and its epoch."""

    async def take_over(client: Answering) -> None:
        writer = FencedWriter(client, "l")
        assert await writer.take_over() == (PRODUCER << 16) + EPOCH == writer.generation
        assert writer.is_later
        assert said(client) == [(-1, -1)]

    asking([initialised()], take_over)


def test_a_controller_is_later_than_any_that_the_ledger_tells_of() -> None:
    """Whatever producer id another coordinator gave that one; who is later already stays what it is."""

    async def outrank(client: Answering) -> None:
        writer = FencedWriter(client, "l")
        own = await writer.take_over()
        for latest, generation in ((own - 1, own), (own, own + 1), (own + 5, own + 6)):
            writer.generation = own
            writer.outrank(latest)
            assert writer.generation == generation

    asking([initialised()], outrank)


def test_no_transaction_is_begun_while_a_quota_mutes_the_leader() -> None:
    """Its coordinator would abort it before anything can be written in it."""

    async def append(client: Answering) -> None:
        writer = FencedWriter(client, "l")
        await writer.take_over()
        until = time.monotonic() + 0.3
        (await writer._leader.connect()).muted_until = until
        with pytest.raises(Unreachable):
            await writer.append([Deletion("pause/l")], term_s=0.0)
        assert time.monotonic() >= until
        assert [request.name for request in client.asked[1:]] == ["AddPartitionsToTxnRequest"]

    asking([initialised(), LOST], append)


LOST = Unreachable("gone", cluster="nowhere")
AWAY = BrokerRefused("away", code=codes.COORDINATOR_NOT_AVAILABLE, name="", cluster="nowhere")
REFUSED = initialised(codes.PRODUCER_FENCED)
ANEW = [(-1, -1), (PRODUCER, EPOCH)]
"""What InitProducerId asks for: as nobody first, then as who it was."""


def described(state: str, epoch: int, producer_id: int = PRODUCER) -> Any:
    """The answer to DescribeTransactions."""
    found = SimpleNamespace(
        error_code=codes.NONE, transaction_state=state, producer_id=producer_id, producer_epoch=epoch
    )
    return SimpleNamespace(transaction_states=[found])


NOT_OURS = [
    # Another one, which may have been aborted in turn.
    described("Empty", EPOCH + 1),
    described("CompleteAbort", EPOCH),
    described("CompleteAbort", EPOCH + 2),
    described("CompleteCommit", EPOCH + 1),
    described("CompleteAbort", EPOCH + 1, PRODUCER + 1),
    SimpleNamespace(transaction_states=[SimpleNamespace(error_code=codes.TRANSACTIONAL_ID_NOT_FOUND)]),
    UnsupportedByBroker("too old", cluster="nowhere"),
]


@pytest.mark.parametrize("found", NOT_OURS)
@pytest.mark.parametrize("failure", [LOST, AWAY], ids=["lost", "no coordinator"])
def test_who_was_fenced_does_not_begin_again(failure: Exception, found: Any) -> None:
    """After a failure that may pass it asks as who it was: brokers refuse that once there is another."""

    async def append(client: Answering) -> None:
        writer = FencedWriter(client, "l")
        await writer.take_over()
        with pytest.raises(Fenced):
            await writer.append([Deletion("group/l/g")])
        assert said(client) == ANEW

    asking([initialised(), failure, REFUSED, found], append)


@pytest.mark.parametrize("second", [codes.NONE, codes.PRODUCER_FENCED])
def test_who_was_only_aborted_begins_again(second: int) -> None:
    """A coordinator that aborts for its owner raises the epoch, and refuses the owner like one that was fenced: it goes
    on from that epoch with the generation it had, unless another comes in between.
    """

    async def recover(client: Answering) -> None:
        writer = FencedWriter(client, "l")
        generation = await writer.take_over()
        if second == codes.NONE:
            await writer._recover()
        else:
            with pytest.raises(Fenced):
                await writer._recover()
        assert said(client) == [*ANEW, (PRODUCER, EPOCH + 1)]
        assert writer.generation == generation

    aborted = [described("PrepareAbort", EPOCH + 1), described("CompleteAbort", EPOCH + 1)]
    asking([initialised(), REFUSED, *aborted, initialised(second)], recover)
