"""Following a ledger from look to look, by what brokers answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.errors import Unreachable
from isthmus.kafka.connect.connection import Connection
from isthmus.ledger import view as views
from isthmus.ledger.link import read_documents
from isthmus.ledger.log import LedgerTail
from isthmus.ledger.records import Deletion, pack_changes
from isthmus.ledger.view import LedgerView
from isthmus.spark.leases.maps import LedgerMaps
from testing.records.stored import patched
from testing.values.brokers import Answering, asking, fetched, held_back, listed


async def read_maps(client: Answering) -> None:
    """All of the ledger, as a lease does for its mapped lanes."""
    spec = SimpleNamespace(context=SimpleNamespace(link="l"), controller=1, slot=0, generation=1)
    entries, position = await LedgerMaps(client, cast(Any, spec))._entries()
    assert (len(entries), position) == (2, 2)


async def read_all(client: Answering) -> None:
    """All of the ledger, as the loop of access rules does."""
    assert await read_documents(client) == {}


@pytest.mark.parametrize("read", [read_maps, read_all])
def test_who_would_begin_again_is_patient(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[Answering], Awaitable[None]]
) -> None:
    """A quota lets all of it through in more than the patience of one look, so no look would ever see its end."""
    monkeypatch.setattr(views, "LedgerTail", partial(LedgerTail, patience_s=0.5))
    parts = [patched(bytes(pack_changes([Deletion("filters/l")]).view), offset) for offset in (0, 1)]
    answers = [held_back(300), fetched(parts[0], high_watermark=2), held_back(300), fetched(parts[1], high_watermark=2)]
    asking([listed(2), *answers], read)


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
