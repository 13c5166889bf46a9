"""The transactions of aborted data: who may still change one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from isthmus.cluster.transaction import Transaction
from isthmus.lane.identity.aborts import NO_PRODUCER, Aborts
from isthmus.lane.routes import Routes
from isthmus.model.lane import LaneState
from isthmus.wire import codes
from tests.unit.lane.looks import lane_of
from tests.unit.ledger.brokers import Answering


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
    routes = cast(Routes, SimpleNamespace(client=client))

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
