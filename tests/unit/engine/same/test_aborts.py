"""The transactions of aborted data: who may still change one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.engine.brokers.routes import TargetRoutes
from isthmus.engine.run import LaneRun
from isthmus.engine.same.aborts import KNOWN_MAX, NO_PRODUCER, Aborts
from isthmus.engine.state.writer import ProducerState
from isthmus.kafka import codes
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.transactions import lone_producer_id
from isthmus.model.lane import LaneState
from testing.values.brokers import Answering
from testing.values.looks import lane_of


class Asked(Answering):
    """A cluster that notes who is asked before a request leaves."""

    def __init__(self) -> None:
        unknown = SimpleNamespace(error_code=codes.TRANSACTIONAL_ID_NOT_FOUND)
        initialised = SimpleNamespace(error_code=codes.NONE, producer_id=1, producer_epoch=0)
        super().__init__([SimpleNamespace(transaction_states=[unknown]), initialised])
        self.permissions: list[Any] = []

    async def coordinator(self, kind: str, key: str, request: Any, **more: Any) -> Any:
        self.permissions.append(more.get("may_send"))
        return await super().coordinator(kind, key, request)


def test_nothing_of_a_transaction_leaves_when_its_lane_is_over_or_its_term_is() -> None:
    """Whatever was begun before: both are asked when the bytes leave, which may be long after they were written."""
    run, client, allowed = lane_of(), Asked(), [True]
    routes = cast(TargetRoutes, SimpleNamespace(client=client))

    async def begin() -> None:
        aborts = Aborts(routes, "link", lambda: allowed[0])
        transaction = await aborts._look_for(run, NO_PRODUCER, may_be_alone=False)
        assert isinstance(transaction, Transaction)
        await transaction.initialize()

    asyncio.run(begin())
    may_send = client.permissions[-1]
    assert may_send()
    allowed[0] = False
    assert not may_send()
    allowed[0] = True
    assert may_send()
    run.fail(LaneState.DIVERGED, "ended")
    assert not may_send()


def test_what_is_known_of_a_transaction_outlives_that_brokers_begin_to_verify() -> None:
    """It has ended since its lane was placed: what was seen then would say that it is open, at an old sequence."""
    run, producer = lane_of(position=20), 7
    run.transactions.alone = {lone_producer_id(producer): ProducerState(0, 4, 4)}

    async def work() -> None:
        aborts = Aborts(cast(TargetRoutes, SimpleNamespace(client=Asked())), "link", lambda: True)
        begun = await aborts.find_undecided(run, producer)
        begun.is_open, begun.sequence = False, 17
        aborts.note_verification()
        found = await aborts.find_undecided(run, producer)
        assert (found.is_open, found.sequence) == (False, 17)

    asyncio.run(work())


def test_of_many_transactions_those_that_have_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open stays known. Of another one the leader is asked, as what the lane's look told is too old."""
    run, told = lane_of(position=20), ProducerState(0, 41, -1)
    run.transactions.alone = {lone_producer_id(1): ProducerState(0, 4, 4), lone_producer_id(2): ProducerState(0, 5, 5)}

    async def state(_: Aborts, __: LaneRun, producer_id: int) -> ProducerState | None:
        return told if producer_id == lone_producer_id(1) else None

    monkeypatch.setattr(Aborts, "_state", state)

    async def work() -> None:
        aborts = Aborts(cast(TargetRoutes, SimpleNamespace(client=Asked())), "link", lambda: True)
        ended, still_open = [await aborts.find_undecided(run, producer) for producer in (1, 2)]
        ended.is_open = False
        for producer in range(3, KNOWN_MAX + 2):
            await aborts.find_undecided(run, producer)
        assert len(aborts._known) < KNOWN_MAX
        assert [each.producer_id for each in aborts.all_left_alone(run)] == [lone_producer_id(2)]
        assert await aborts.find_undecided(run, 2) is still_open
        found = await aborts.find_undecided(run, 1)
        assert (found.is_open, found.sequence) == (False, 42)

    asyncio.run(work())
