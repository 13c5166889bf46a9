"""Following a ledger from look to look, by what brokers answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.errors import Unreachable
from isthmus.ledger.view import LedgerView
from isthmus.wire.connection import Connection
from tests.unit.ledger.brokers import Answering, asking


def test_who_does_not_answer_is_asked_once() -> None:
    """Only a connection that was held may be a stale one; without one nobody waits twice."""

    async def look(client: Answering) -> None:
        with pytest.raises(Unreachable):
            await LedgerView(client).look()
        assert len(client.asked) == 1

    asking([Unreachable("gone", cluster="nowhere")] * 2, look)


def test_a_view_that_is_closed_in_the_middle_leaves_no_connection() -> None:
    """One that is being dialled is closed when it comes, and none is dialled after it."""
    closed: list[str] = []
    dialling, comes = asyncio.Event(), asyncio.Event()

    class Slow(Answering):
        async def dial(self, *_: Any, **__: Any) -> Connection:
            dialling.set()
            await comes.wait()
            return cast(Connection, SimpleNamespace(close=lambda: closed.append("closed")))

    async def scenario() -> None:
        async with Slow([]) as client:
            view = LedgerView(client)
            look = asyncio.create_task(view.look())
            await dialling.wait()
            view.close()
            comes.set()
            for again in (look, view.look()):
                with pytest.raises(Unreachable):
                    await again
        assert closed == ["closed"]

    asyncio.run(scenario())
