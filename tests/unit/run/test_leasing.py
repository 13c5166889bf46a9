"""The lanes of a link that runs, before there are leases for them."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.model.cluster import Cluster
from isthmus.model.link import Limits
from isthmus.model.links.pauses import NO_PAUSES
from isthmus.model.process.timings import USUAL
from isthmus.run.leasing import LeasedLanes
from isthmus.run.opened import OpenLink
from isthmus.spark.leases.lease import LinkContext
from isthmus.spark.leases.progress import RunProgress
from isthmus.spark.leases.slots import TaskSlots

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
CONTEXT = LinkContext(
    link="l",
    source=EAST,
    target=WEST,
    producer=ProducerIdentity(producer_id=1, marker_producer_id=2),
    limits=Limits(),
)
NOWHERE = cast(Any, None)


class Starting:
    """Workers whose Spark has not started yet."""

    def __init__(self) -> None:
        self.started = asyncio.Event()

    async def ready(self) -> tuple[Any, TaskSlots]:
        await self.started.wait()
        return None, TaskSlots(NOWHERE, 2)


def test_limits_that_come_before_spark_has_started_count() -> None:
    """The first leases of a link have the limits that are in force when they begin, not those of its beginning."""
    ledger = SimpleNamespace(
        generation=1,
        was_lost=False,
        opened_at=0.0,
        documents={},
        link="l",
        tail=SimpleNamespace(position=0, topic_id=uuid.UUID(int=1), was_held=lambda _: False),
        listen=lambda _: None,
        be_alone=lambda: None,
    )
    link = OpenLink(context=CONTEXT, source=NOWHERE, target=NOWHERE, ledger=cast(Any, ledger), timings=USUAL)

    async def scenario() -> None:
        workers, lanes = Starting(), LeasedLanes(link, lambda: (), lambda: NO_PAUSES, RunProgress())
        running = asyncio.create_task(lanes.run(cast(Any, workers)))
        await asyncio.sleep(0)
        limits = replace(CONTEXT.limits, bytes_per_s=5)
        lanes.limit(limits)
        workers.started.set()
        while lanes._scheduler is None:
            await asyncio.sleep(0)
        assert lanes._scheduler._context.limits == limits
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
