"""A link under control, as the controller runs it, with nothing around it but the ledger and the leases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.ledger.link import LinkLedger
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.link import Limits
from isthmus.spark.leases.driver import LeaseScheduler
from isthmus.spark.leases.lease import LinkContext
from isthmus.spark.leases.slots import TaskSlots
from isthmus.spark.leases.timings import USUAL_OF_LEASES, LeaseTimings
from testing.patience import TERM_S
from testing.runs.mirror import lanes_of


@dataclass(slots=True)
class Controlled:
    """A link at work. `controlling` runs its ledger, `scheduling` its leases."""

    source: Client
    target: Client
    ledger: LinkLedger
    scheduler: LeaseScheduler
    controlling: asyncio.Task[None]
    scheduling: asyncio.Task[None]

    async def assign(self, *topics: str, **lane: Any) -> None:
        """Mirror all partitions of these topics; `lane` has other settings of their lanes."""
        self.scheduler.distribution.assign(await lanes_of(self.source, self.target, topics, **lane))

    @property
    def reports(self) -> dict[LaneKey, LaneReport]:
        return {report.key: report for report in self.scheduler.reports()}

    async def until(self, condition: Callable[[], bool], *, term_s: float = TERM_S) -> float:
        """Wait for something to become true; how long it took."""
        begun = time.monotonic()
        while not condition():
            for task in (self.controlling, self.scheduling):
                if task.done():
                    task.result()
            assert time.monotonic() - begun < term_s, self._told()
            await asyncio.sleep(0.01)
        return time.monotonic() - begun

    def _told(self) -> str:
        scheduler = self.scheduler
        return f"still {self.reports}, {list(scheduler.receipts)[-3:]}, {scheduler.problem}, {self.ledger.problem}"

    @property
    def records(self) -> int:
        """How many records were copied, as far as leases have told."""
        return sum(report.records for report in self.reports.values())

    async def until_records(self, count: int) -> None:
        """Wait until so many records were copied."""
        await self.until(lambda: self.records >= count)

    async def until_copied(self, *topics: str, partitions: int = 1, term_s: float = TERM_S) -> None:
        """Wait until the topics end at the target where they end at the source, whatever the reports say."""
        deadline = time.monotonic() + term_s
        while await self.ends(self.target, *topics, partitions=partitions) != await self.ends(
            self.source, *topics, partitions=partitions
        ):
            assert time.monotonic() < deadline, self._told()
            await asyncio.sleep(0.05)

    async def until_written(self, *topics: str, partition: int = 0) -> None:
        """Wait until something is appended at the target to this partition of any of the topics."""
        deadline = time.monotonic() + TERM_S
        count = partition + 1
        begun = (await self.ends(self.target, *topics, partitions=count))[partition::count]
        while (await self.ends(self.target, *topics, partitions=count))[partition::count] == begun:
            assert time.monotonic() < deadline, self._told()
            await asyncio.sleep(0.05)

    async def ends(self, client: Client, *topics: str, partitions: int = 1) -> list[int]:
        """Where the partitions end."""
        keys = [(name, number) for name in topics for number in range(partitions)]
        return [found.end for found in (await log_ranges(client, keys)).values.values()]


@asynccontextmanager
async def controlled(
    spark: SparkSession,
    source: LocalCluster,
    target: LocalCluster,
    link: str,
    *,
    slots: int = 2,
    spare: int = 1,
    counting: Callable[[], int] | None = None,
    term_s: float = 60.0,
    producer: ProducerIdentity | None = None,
    replication_factor: int | None = None,
    timings: LeaseTimings = USUAL_OF_LEASES,
) -> AsyncIterator[Controlled]:
    """Control a link for a while; what was assigned is run by leases of `term_s` in all slots but the `spare` ones.
    With `counting` slots are counted anew every second.

    `replication_factor` is the ledger's, should it have to be created.
    """
    async with Client(source.admin_cluster()) as reading, Client(target.admin_cluster()) as writing:
        ledger = LinkLedger(writing, link, replication_factor=replication_factor)
        await ledger.open()
        context = LinkContext(
            link=link,
            source=source.admin_cluster(),
            target=target.admin_cluster(),
            producer=producer or await identity(writing),
            limits=Limits(),
        )
        task_slots = TaskSlots(spark.sparkContext, slots, term_s=term_s, spare=spare, counting=counting)
        scheduler = LeaseScheduler(spark.sparkContext, ledger, context, slots=task_slots, timings=timings)
        tasks = asyncio.create_task(ledger.run()), asyncio.create_task(scheduler.run())
        counts = asyncio.create_task(_count(task_slots))
        try:
            yield Controlled(reading, writing, ledger, scheduler, *tasks)
        finally:
            counts.cancel()
            for task in reversed(tasks):
                task.cancel()
                await asyncio.wait([task])
            ledger.close()


async def _count(slots: TaskSlots) -> None:
    while True:
        await asyncio.sleep(1.0)
        await slots.recount()


async def identity(target: Client) -> ProducerIdentity:
    """Producer ids for a link."""
    return ProducerIdentity(
        producer_id=await allocate_producer(target), marker_producer_id=await allocate_producer(target)
    )
