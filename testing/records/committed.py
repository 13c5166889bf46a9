"""What of a ledger brokers never drop, and who is killed in the middle of writing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.documents.kinds import Document
from isthmus.ledger.link import newest
from isthmus.ledger.log import LedgerTail
from isthmus.ledger.records import unpack_batches
from isthmus.ledger.topic import LEDGER_TOPIC, PARTITION
from testing.patience import TERM_S


async def killed(transaction: Transaction, *, commit: bool) -> None:
    """In place of the end of a transaction: it never comes."""
    raise asyncio.CancelledError


async def committed(client: Client) -> dict[str, Document]:
    """What a ledger says by what was committed alone, by key."""
    key = (LEDGER_TOPIC, PARTITION)
    end = (await log_ranges(client, [key])).values[key].stable_end
    entries = [
        entry
        async for stored in LogReader(client).read(OffsetRange(*key, 0, end))
        for batch, is_aborted in stored
        if not is_aborted
        for _, found in unpack_batches(bytes(batch.view))
        for entry in found
    ]
    return newest(entries)


async def until_committed(client: Client, is_meant: Callable[[dict[str, Document]], bool]) -> dict[str, Document]:
    """The same, as soon as it says what is meant: brokers acknowledge the end of a transaction before it is in the log,
    and readers of what is committed pass no earlier one, of whoever else, that is open.
    """
    deadline = time.monotonic() + TERM_S
    while not is_meant(found := await committed(client)):
        assert time.monotonic() < deadline, f"it was not committed: {found}"
        await asyncio.sleep(0.05)
    return found


@asynccontextmanager
async def cut_off(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Every look at a ledger is answered by who led it up to now: it does not know what is written from now on."""
    key = (LEDGER_TOPIC, PARTITION)
    end = (await log_ranges(client, [key])).values[key].end
    confirm = LedgerTail._confirm

    async def confirmed(tail: LedgerTail, connection: Connection) -> int:
        tail._end = min(await confirm(tail, connection), end)
        return tail._end

    with monkeypatch.context() as patch:
        patch.setattr(LedgerTail, "_confirm", confirmed)
        yield
