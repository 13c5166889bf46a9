"""Leases whose controller is gone: whoever needs their end brings it about, as the next controller would."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from isthmus.errors import Fenced
from isthmus.ledger.documents import ControllerDocument, LeaseDocument
from isthmus.ledger.handover import has_ended
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.records import Deletion, in_batches
from isthmus.local.host import whereabouts
from isthmus.spark.tenure import REVOCATION_S
from isthmus.wire.client import Client

_LOOK_S: Final = 0.2


async def end_leases(link: str, target: Client) -> None:
    """End all leases of a link that nobody runs. Their tasks are overtaken in the ledger, and none of them writes after
    `REVOCATION_S`, whatever has become of it (`spark.tenure`). The source is not asked. Whoever takes the link over
    meanwhile ends them instead.

    :raises ClusterError: The ledger cannot be read or written.
    """
    ledger = LinkLedger(target, link, whereabouts=whereabouts())
    try:
        with contextlib.suppress(Fenced):
            await ledger.open()
            async with _followed(ledger):
                while left := _left(ledger):
                    if time.monotonic() > ledger.opened_at + REVOCATION_S:
                        # What they had on its way may have arrived or not: who comes next looks before it writes.
                        ended = [replace(each, ended_through=each.generation, is_clean=False) for each in left]
                        for batch in in_batches(ended):
                            await ledger.write(*batch)
                    await asyncio.sleep(_LOOK_S)
            await ledger.write(Deletion(f"{ControllerDocument.KIND}/{link}"))
    finally:
        ledger.close()


@asynccontextmanager
async def _followed(ledger: LinkLedger) -> AsyncIterator[None]:
    """Hear what tasks say, and have others hear that somebody is at it."""
    following = asyncio.create_task(ledger.run())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _left(ledger: LinkLedger) -> list[LeaseDocument]:
    leases = [each for each in ledger.documents.values() if isinstance(each, LeaseDocument)]
    return [each for each in leases if not has_ended(each, ledger.documents)]
