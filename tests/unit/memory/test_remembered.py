"""What a ledger says, followed over one client from look to look."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from isthmus.ledger.documents.kinds import PauseDocument
from isthmus.ledger.documents.lastknown import KnownClusterDocument
from isthmus.ledger.records import Deletion, LedgerChange, pack_changes
from isthmus.memory.links import LedgerMemory, read_ledger, recollect
from isthmus.model.links.lastknown import KnownCluster
from testing.records.stored import patched
from testing.values.brokers import LEDGER_ID, Answering, asking, fetched, listed

PAUSED: Final = PauseDocument(link="l", since_ms=1)
ELSEWHERE: Final = PauseDocument(link="m", since_ms=2)
KNOWN: Final = KnownClusterDocument(
    cluster=KnownCluster(
        cluster_id="id",
        alias="east",
        versions=(),
        brokers=1,
        topics=0,
        features=(),
        link="l",
        host="here",
        seen_ms=0,
    )
)


def written(offset: int, *changes: LedgerChange) -> list[Any]:
    """The answers to a look that finds this at the end of the log."""
    end = offset + len(changes)
    return [listed(end), fetched(patched(bytes(pack_changes(changes).view), offset), high_watermark=end)]


def test_only_what_is_new_is_read() -> None:
    """Whoever looks with the same client reads the log once, and asks for nothing more than its end after that."""

    async def follow(client: Answering) -> None:
        assert (await read_ledger(client)).documents().keys() == {PAUSED.key, ELSEWHERE.key, KNOWN.key}
        assert (await recollect("l", client)).paused.is_whole
        assert len(client.asked) == 3
        assert (await recollect("l", client)).paused.parts == set()
        assert client.asked[-1].topics[0].partitions[0].fetch_offset == 3
        assert (await read_ledger(client)).documents().keys() == {ELSEWHERE.key}

    first, then = written(0, PAUSED, ELSEWHERE, KNOWN), written(3, Deletion(PAUSED.key), Deletion(KNOWN.key))
    asking([*first, listed(3), *then, listed(5)], follow)


def test_what_was_recollected_stays_as_it_was() -> None:
    """A look that comes later does not change what somebody works with."""

    async def follow(client: Answering) -> None:
        before = await recollect("l", client)
        assert (await recollect("l", client)).documents == {}
        assert before.documents == {PAUSED.key: PAUSED}

    asking([*written(0, PAUSED), *written(1, Deletion(PAUSED.key))], follow)


def test_who_asked_for_a_link_goes_on_with_it() -> None:
    """What is known of a link is of its newest state after each look, whether it is asked for again or not."""

    async def follow(client: Answering) -> None:
        known = (await read_ledger(client)).of("l")
        assert known.documents == {PAUSED.key: PAUSED}
        await read_ledger(client)
        assert known.documents == {}

    asking([*written(0, PAUSED), *written(1, Deletion(PAUSED.key))], follow)


def test_another_log_is_all_there_is() -> None:
    """What a ledger said that was deleted and created again counts no more, of links or of anything else."""

    async def follow(client: Answering) -> None:
        assert len((await read_ledger(client)).documents()) == 2
        client.topic_id = type(LEDGER_ID)(int=6)
        # Who led the ledger before does so no more.
        client.companion(LedgerMemory)._view._tail._leader.close()
        assert (await read_ledger(client)).documents().keys() == {ELSEWHERE.key}

    asking([*written(0, PAUSED, KNOWN), *written(0, ELSEWHERE)], follow)


def test_a_look_that_was_called_off_loses_nothing() -> None:
    """What it had read already is read by the next one."""

    async def follow(client: Answering) -> None:
        with pytest.raises(asyncio.CancelledError):
            await read_ledger(client)
        assert (await recollect("l", client)).paused.is_whole

    cut_off: Any = [listed(2), *written(0, PAUSED)[1:], asyncio.CancelledError()]
    cut_off[1].responses[0].partitions[0].high_watermark = 2
    asking([*cut_off, *written(0, PAUSED, KNOWN)], follow)


def test_what_nobody_asks_for_does_not_pile_up() -> None:
    """Of links that are only followed no more is kept than they amount to, and little beside it."""
    many = [ELSEWHERE] * 999

    async def follow(client: Answering) -> None:
        await read_ledger(client)
        known = await read_ledger(client)
        assert sum(map(len, known._untaken.values())) == 1000
        assert (await read_ledger(client))._untaken == {}
        assert known.documents().keys() == {PAUSED.key, ELSEWHERE.key}

    asking([*written(0, PAUSED), *written(1, *many), *written(1000, PAUSED)], follow)


def test_a_memory_ends_with_its_client() -> None:
    """It is closed with it, or when it is dismissed; whoever asks then has another one made."""
    closed: list[LedgerMemory] = []

    class Noted(LedgerMemory):
        def close(self) -> None:
            closed.append(self)

    async def follow(client: Answering) -> None:
        first = client.companion(Noted)
        assert client.companion(Noted) is first
        client.dismiss(Noted)
        client.dismiss(Noted)
        assert closed == [first]
        assert client.companion(Noted) is not first

    asking([], follow)
    assert len(closed) == 2
