"""A recovery from another host, whose clock may be any: others see whether it is alive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from isthmus.errors import PlanRefused
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import RecoveryClaimDocument, encode_document
from isthmus.ledger.topic import ensure_topic
from isthmus.links.claiming import hold_claim
from isthmus.local import LocalCluster
from isthmus.memory.operators import require_nobody_recovers
from isthmus.model.configuration import LedgerSettings
from isthmus.model.naming import LEDGER_TOPIC
from testing.records import topics
from testing.records.topics import Given
from testing.repeating import repeating

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
HOUR_MS = 3_600_000


def beats(cluster: LocalCluster, link: str, *, clock_ms: int) -> Iterator[None]:
    """Each one more of a recovery of a host whose clock is so far ahead."""
    beat = 0
    while True:
        beat += 1
        claim = RecoveryClaimDocument(link=link, by="ann@far", beat=beat, host="far", host_id="far", pid=1)
        given = Given(claim.key.encode(), encode_document(claim), [], int(time.time() * 1000) + clock_ms)
        topics.produce(cluster, LEDGER_TOPIC, [given])
        yield


@pytest.mark.parametrize("clock_ms", [-HOUR_MS, HOUR_MS], ids=["behind", "ahead"])
def test_a_recovery_of_another_host_lives_as_long_as_it_beats(west: LocalCluster, topic: Namer, clock_ms: int) -> None:
    """Whatever its clock says: nobody else recovers the link meanwhile, and somebody does once it is silent."""
    link = topic("link")

    async def asked() -> RecoveryClaimDocument | None:
        async with Client(west.cluster()) as client:
            await ensure_topic(client, replication_factor=1)
            return await require_nobody_recovers(link, client)

    async def taken() -> None:
        async with Client(west.cluster()) as client, hold_claim(client, link, LedgerSettings()):
            with pytest.raises(PlanRefused, match=f"recovers link {link} now"):
                await require_nobody_recovers(link, client)

    assert asyncio.run(asked()) is None
    beating = beats(west, link, clock_ms=clock_ms)
    with (
        repeating(lambda: next(beating), pause_s=0.1),
        pytest.raises(PlanRefused, match=f"ann@far recovers link {link} now"),
    ):
        asyncio.run(asked())
    asyncio.run(taken())
    assert asyncio.run(asked()) is None
