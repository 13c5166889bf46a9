"""What the silence of a controller proves while a broker of the target is silent, too."""

from __future__ import annotations

import asyncio

import pytest

from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.problem import Problem
from isthmus.status.silence import DOUBT_S, explain_silence

pytestmark = pytest.mark.integration


def test_silence_beside_a_silent_broker_proves_nothing(west3: LocalCluster) -> None:
    """The broker is named that may not have taken the controller's word; after a minute others have its partitions."""

    async def explain(silent_s: float) -> Problem | None:
        async with Client(west3.cluster()) as client:
            return await explain_silence(client, silent_s)

    assert asyncio.run(explain(15.0)) is None
    frozen = west3.brokers[1]
    frozen.pause()
    try:
        found = asyncio.run(explain(15.0))
        assert found is not None
        assert "it was last heard 15 s ago" in found.message
        assert f"broker {frozen.node_id} does not answer at west3" in found.message
        assert asyncio.run(explain(DOUBT_S + 1.0)) is None
    finally:
        frozen.resume()
