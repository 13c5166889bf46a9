"""What is waited for before a cluster leaves a tree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from isthmus import config
from isthmus.control.links import draining
from isthmus.control.links.declarations import Declarations
from isthmus.control.links.draining import check_drained
from isthmus.errors import GateNotMet
from isthmus.local import LocalCluster
from tests.integration.groups.test_carrying import records
from tests.integration.lane import topics
from tests.patience import TERM_S

pytestmark = pytest.mark.integration


def test_somebody_who_produces_now_and_then_is_noticed(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that leaves a tree is quiet once nobody has produced there for so long, topics that come meanwhile
    included, and not as soon as two looks found nothing.
    """
    name = topic("drained")
    topics.create(east, f"{name}-1")
    clusters = {"east": east.bootstrap_servers, "west": west.bootstrap_servers}
    configuration = config.parse(
        json.dumps(
            {
                "clusters": {alias: {"bootstrap_servers": at} for alias, at in clusters.items()},
                "trees": [{"name": name, "clusters": ["east", "west"], "topics": [f"{name}-*"]}],
            }
        )
    )
    (settings,), selected = configuration.trees, configuration.links[0].topics
    looks: asyncio.Queue[None] = asyncio.Queue()
    look: Any = draining._logs

    async def looked(*given: Any) -> Any:
        found = await look(*given)
        looks.put_nowait(None)
        return found

    monkeypatch.setattr(draining, "_logs", looked)

    async def drained(declarations: Declarations, quiet_s: float) -> None:
        await check_drained(declarations, settings.tree, "east", selected, quiet_s=quiet_s)

    def produced(written: str) -> None:
        if written not in topics.names(east):
            topics.create(east, written)
        topics.produce(east, written, records(1))

    async def scenario() -> None:
        async with Declarations(configuration.clusters, configuration.ledger) as declarations:
            await drained(declarations, 0.1)
            for looked_before, written in ((2, f"{name}-1"), (1, f"{name}-2")):
                while not looks.empty():
                    looks.get_nowait()
                checking = asyncio.create_task(drained(declarations, TERM_S))
                for _ in range(looked_before):
                    await looks.get()
                await asyncio.to_thread(produced, written)
                with pytest.raises(GateNotMet, match=f"somebody still produces to {written}-0 of east"):
                    await checking
                # As it is without them, until their records are everywhere.
                topics.delete(east, written)

    asyncio.run(scenario())
