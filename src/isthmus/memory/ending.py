"""End the leases of a controller that is gone, as the next controller would, for a verb that needs their end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from isthmus.errors import Fenced
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ControllerDocument, LeaseDocument
from isthmus.ledger.handover import has_ended
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.records import Deletion, in_batches
from isthmus.local.host import whereabouts
from isthmus.spark.leases.tenure import REVOCATION_S

_LOOK_S: Final = 0.2


async def end_leases(link: str, target: Client) -> None:
    """End all leases of a link that no process runs. Their tasks are superseded in the ledger, and none of them writes
    after `REVOCATION_S`, whatever has happened to it (`spark.tenure`). The source is not asked. A controller that takes
    the link over meanwhile ends them instead.

    :raises ClusterError: The ledger cannot be read or written.
    """
    ledger = LinkLedger(target, link, whereabouts=whereabouts())
    try:
        with contextlib.suppress(Fenced):
            await ledger.open()
            async with _following(ledger):
                while left := _find_unended(ledger):
                    if time.monotonic() > ledger.opened_at + REVOCATION_S:
                        # Their requests in flight may have arrived or not: the next owner looks before it writes.
                        ended = [replace(each, ended_through=each.generation, is_clean=False) for each in left]
                        for batch in in_batches(ended):
                            await ledger.write(*batch)
                    await asyncio.sleep(_LOOK_S)
            await ledger.write(Deletion(ControllerDocument.key_of(link)))
    finally:
        ledger.close()


@asynccontextmanager
async def _following(ledger: LinkLedger) -> AsyncIterator[None]:
    """Follow what tasks write, and send heartbeats, for as long as the block lasts."""
    following = asyncio.create_task(ledger.run())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _find_unended(ledger: LinkLedger) -> list[LeaseDocument]:
    leases = LeaseDocument.find_all(ledger.documents.values())
    return [each for each in leases if not has_ended(each, ledger.documents)]
