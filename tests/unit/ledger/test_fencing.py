"""Only the newest controller writes: what it says of itself when it begins, and when it begins again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from isthmus.errors import Fenced, Unreachable
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.records import Deletion
from isthmus.wire import codes
from tests.unit.ledger.brokers import Answering, asking

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


def test_who_was_fenced_does_not_begin_again() -> None:
    """After a failure it asks as who it was: brokers refuse that once there is another."""

    async def append(client: Answering) -> None:
        writer = FencedWriter(client, "l")
        await writer.take_over()
        with pytest.raises(Fenced):
            await writer.append([Deletion("group/l/g")])
        assert said(client) == [(-1, -1), (PRODUCER, EPOCH)]

    lost = Unreachable("gone", cluster="nowhere")
    asking([initialised(), lost, initialised(codes.PRODUCER_FENCED)], append)
