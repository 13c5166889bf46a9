"""Who may recover a link."""

from __future__ import annotations

import asyncio

from isthmus.kafka.client import Client
from isthmus.links.claiming import RecoveryClaim
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings

WEST = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))


def test_a_recovery_that_is_stopped_waits_for_no_ledger_that_is_away() -> None:
    """A run that recovers by itself would not end before that was back: whoever is cancelled gives up the claim and is
    through.
    """

    async def holding(claim: RecoveryClaim, is_held: asyncio.Event) -> None:
        try:
            is_held.set()
            await asyncio.Event().wait()
        finally:
            await claim.give_up()

    async def scenario() -> None:
        async with Client(WEST) as target:
            is_held = asyncio.Event()
            claim = RecoveryClaim(target, "l", LedgerSettings(), farewell_s=0.01)
            task = asyncio.create_task(holding(claim, is_held))
            await is_held.wait()
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError)

    asyncio.run(scenario())
