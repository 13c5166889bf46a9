"""A controller that runs beside a test."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql import SparkSession

from isthmus.errors import Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.ledger.topic import is_missing
from isthmus.local import LocalCluster
from isthmus.memory.leaving import writing_lanes
from isthmus.memory.links import recollect
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration, SparkSettings
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.process.timings import Timings
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.run.controller import Controller
from isthmus.run.following import Following
from isthmus.run.state.candidacy import WhenOccupied
from isthmus.run.workers import Workers
from testing.patience import TERM_S, pause_s
from testing.records.topics import as_admin


def patient(**settings: float) -> Timings:
    """Timings of a run that gives nothing up because the machine stands still, with others besides."""
    return replace(Timings(arrival_s=TERM_S, farewell_s=30.0, patience_s=60.0), **settings)


PATIENT: Final = patient()


def link_of(source: Cluster, target: Cluster, *patterns: str, name: str = "east-west") -> Link:
    """A link of some topics."""
    include = tuple(TopicPattern.parse(pattern) for pattern in patterns)
    return Link(name=name, source=source, target=target, topics=TopicSettings(include=include))


def configuration_of(*links: Link, term_s: float = 60.0) -> Configuration:
    """A configuration of these links."""
    clusters = {cluster.alias: cluster for link in links for cluster in (link.source, link.target)}
    settings = SparkSettings(lease_term_s=term_s)
    return Configuration(clusters=tuple(clusters.values()), links=links, spark=settings, timings=PATIENT)


@dataclass(slots=True)
class Running:
    """A controller at work, what it last said, and how many records it ever said were copied."""

    controller: Controller
    task: asyncio.Task[RunOutcome]
    links: tuple[LinkProgress, ...] = ()
    counts: list[int] = field(default_factory=list)

    def topic(self, name: str) -> TopicProgress | None:
        """How a topic stands, `None` while the controller does not know it."""
        return next((t for link in self.links for t in link.topics if t.topic == name), None)

    def state_of(self, name: str) -> LaneState | None:
        """The state of a topic, `None` while the controller does not know it."""
        found = self.topic(name)
        return None if found is None else found.state

    async def until(self, condition: Callable[[], Awaitable[bool] | bool]) -> float:
        """Wait for something to become true; how long it took (s)."""
        begun = time.monotonic()
        while True:
            looking = time.monotonic()
            # A cluster that stands still for a moment has nothing to say.
            with contextlib.suppress(Unreachable):
                answer = condition()
                if answer if isinstance(answer, bool) else await answer:
                    return time.monotonic() - begun
            assert not self.task.done(), f"the run has ended: {self.task.result()}"
            assert time.monotonic() - begun < TERM_S, f"still {self.links}"
            await asyncio.sleep(pause_s(time.monotonic() - looking))

    async def until_resting(self, link: Link, name: str) -> None:
        """Wait until no task writes a topic any more: leases hear after the controller that it is to rest."""
        async with Client(link.target) as target:

            async def is_resting() -> bool:
                return not writing_lanes(await recollect(link.name, target), lambda topic: topic == name)

            await self.until(is_resting)

    async def end_well(self) -> RunOutcome:
        """Stop it when nothing is in its way: what is away for a moment would be told as not done."""
        await self.until(lambda: not any(link.is_unfinished for link in self.links))
        return await self.end()

    async def end(self) -> RunOutcome:
        """Stop it in good order."""
        self.controller.stop()
        return await self.task


@asynccontextmanager
async def running(
    configuration: Configuration,
    spark: SparkSession | None,
    *,
    until_caught_up: bool = False,
    when_occupied: WhenOccupied = WhenOccupied.LEAVE,
    following: Following | None = None,
    timings: Timings = PATIENT,
) -> AsyncIterator[Running]:
    """Run all links of a configuration until the block is left."""
    configuration = replace(configuration, timings=timings)
    workers = Workers(configuration.spark, links=[link.name for link in configuration.links], spark=spark)
    run: list[Running] = []

    def said(links: tuple[LinkProgress, ...]) -> None:
        if run:
            run[0].links = links
            run[0].counts.append(sum(link.records for link in links))

    controller = Controller(
        configuration,
        configuration.links,
        workers,
        until="caught-up" if until_caught_up else None,
        on_progress=said,
        when_occupied=when_occupied,
        following=following,
    )
    run.append(Running(controller, asyncio.create_task(controller.run())))
    try:
        yield run[0]
    finally:
        controller.stop()
        await asyncio.gather(run[0].task, return_exceptions=True)
        workers.leave()


async def ends(cluster: LocalCluster, name: str, *, partitions: int = 1) -> list[int]:
    """Where the partitions of a topic end, -1 where there is none."""
    keys = [(name, number) for number in range(partitions)]
    deadline = time.monotonic() + TERM_S
    async with Client(as_admin(cluster)) as client:
        while True:
            with contextlib.suppress(Unreachable):
                found = await log_ranges(client, keys, timeout_s=0.5)
                if all(is_missing(error) for error in found.errors.values()):
                    return [found.values[key].end if key in found.values else -1 for key in keys]
            assert time.monotonic() < deadline, f"{cluster.name} does not say where {name} ends"
            await asyncio.sleep(0.05)
