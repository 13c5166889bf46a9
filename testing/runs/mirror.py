"""Engines between two local clusters, run the way a lease runs them, with nothing of Spark in it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.engine import Engine
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from testing.patience import TERM_S
from testing.records import oracle
from testing.records.topics import as_admin

_LOOK_S: Final = 0.02
_DAY_MS: Final = 86_400_000

Reports = dict[LaneKey, LaneReport]


def caught_up(reports: Reports) -> bool:
    """Every lane is active and has nothing left to copy."""
    states = [report.state is LaneState.ACTIVE and report.lag_records == 0 for report in reports.values()]
    return bool(states) and all(states)


def all_are(state: LaneState) -> Callable[[Reports], bool]:
    """Every lane is in this state."""
    return lambda reports: all(report.state is state for report in reports.values())


def reached(offset: int) -> Callable[[Reports], bool]:
    """Every lane has copied what lies before this offset."""
    return lambda reports: all(report.position >= offset for report in reports.values())


class Running:
    """An engine at work."""

    def __init__(self, engine: Engine, source: Client, target: Client) -> None:
        self.engine = engine
        self.source = source
        self.target = target

    @property
    def reports(self) -> Reports:
        return {report.key: report for report in self.engine.lanes.reports()}

    async def until(
        self,
        condition: Callable[[Reports], bool],
        *,
        term_s: float = TERM_S,
        look_s: float = _LOOK_S,
        may_end: bool = False,
    ) -> Reports:
        """Wait for something to become true of the reports. No lane may end for good meanwhile, unless `may_end`."""
        deadline = time.monotonic() + term_s
        while True:
            if self.engine.failure is not None:
                raise self.engine.failure
            reports = self.reports
            if condition(reports):
                return reports
            assert may_end or not any(r.state.is_terminal for r in reports.values()), list(reports.values())
            assert time.monotonic() < deadline, f"still {list(reports.values())}"
            await asyncio.sleep(look_s)

    async def until_copied(self) -> Reports:
        """Wait for all that the source holds now. Reports alone may not know of what has just come."""
        ends = (await log_ranges(self.source, list(self.reports))).values
        assert len(ends) == len(self.reports)
        return await self.until(
            lambda reports: caught_up(reports) and all(reports[key].position >= ends[key].stable_end for key in reports)
        )


class Mirror:
    """Two clusters and the producer ids of a link between them."""

    def __init__(
        self,
        source: LocalCluster,
        target: LocalCluster,
        *,
        source_login: Cluster | None = None,
        target_login: Cluster | None = None,
    ) -> None:
        self.source, self.target = source, target
        self.source_login = source_login or as_admin(source)
        self.target_login = target_login or target.cluster()
        self.producer: ProducerIdentity | None = None

    def forget(self) -> None:
        """Lose the ledger: the next engine gets other producer ids."""
        self.producer = None

    def copy(
        self, *topics: str, until: Callable[[Reports], bool] = caught_up, engine: Any = None, **lane: Any
    ) -> Reports:
        """Run an engine until something is true of its lanes; returns the last reports before it stopped."""

        async def scenario() -> Reports:
            async with self.running(*topics, engine=engine, **lane) as running:
                return await running.until(until, may_end=until is not caught_up)

        return asyncio.run(scenario())

    def copy_with_crashes(
        self, name: str, chance: random.Random, *, crashes: int, partition: int = 0, **settings: Any
    ) -> Reports:
        """Copy a topic by engines that are cut off at offsets picked by chance, then by one that may finish."""
        end = oracle.ends(self.source.admin_bootstrap_servers, name, partition).stable

        async def scenario() -> None:
            async with self.running(name, **settings) as running:
                key = LaneKey(TargetTopic(name), partition)
                await running.until(lambda reports: reports[key].position >= 0, look_s=0)
                begin = running.reports[key].position
                offset = chance.randint(begin, end)
                await running.until(
                    lambda reports: reports[key].position >= offset or reports[key].state.is_terminal, look_s=0
                )
                await asyncio.sleep(chance.random() * 0.003)
                await running.engine.stop(drain_s=0.0)

        for _ in range(crashes):
            asyncio.run(scenario())
        return self.copy(name, **settings)

    @asynccontextmanager
    async def running(self, *topics: str, engine: Any = None, **lane: Any) -> AsyncIterator[Running]:
        """An engine with a lane for each partition of `topics`. `engine` and `lane` change its and their settings."""
        options: dict[str, Any] = {"link": "test", "abandoned": True, "settle_s": 0.3, "expiration_ms": _DAY_MS}
        options |= engine or {}
        async with Client(self.source_login) as source, Client(self.target_login) as target:
            if self.producer is None:
                self.producer = ProducerIdentity(
                    producer_id=await allocate_producer(target), marker_producer_id=await allocate_producer(target)
                )
            running = Engine(source=source, target=target, producer=self.producer, **options)
            await running.start(await lanes_of(source, target, topics, **lane))
            try:
                yield Running(running, source, target)
            finally:
                await running.stop()


async def lanes_of(source: Client, target: Client, topics: tuple[str, ...], **lane: Any) -> list[Lane]:
    """A lane for each partition of topics of the same names, as the controller would plan them."""
    here, there = await source.metadata(topics), await target.metadata(topics)
    return [
        Lane(
            source_topic=SourceTopic(name),
            source_topic_id=here.topics[name].topic_id,
            target_topic=TargetTopic(name),
            target_topic_id=there.topics[name].topic_id,
            partition=p.partition,
            **lane,
        )
        for name in topics
        for p in here.topics[name].partitions
    ]
