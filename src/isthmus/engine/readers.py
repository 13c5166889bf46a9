"""The readers of the source: per broker one for lanes that read committed records only, and one for lanes that read
all. Each lane is read by a reader of the broker that leads its source partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from isthmus.engine.brokers.routes import SourceRoutes
from isthmus.engine.reader import Reading, SourceReader
from isthmus.engine.resolver import Resolver
from isthmus.engine.run import LaneRun
from isthmus.engine.silence import leave_readers
from isthmus.kafka.log.listoffsets import READ_COMMITTED, READ_UNCOMMITTED
from isthmus.model.naming import SourceTopicPartition
from isthmus.model.trees.switching import Allowance

_ROUTE_RETRY_S: Final = 0.1


class Readers:
    """The readers of one engine. `run()` is a coroutine of its own; `spawn` starts those of the single readers."""

    def __init__(
        self,
        engine: Reading,
        resolver: Resolver,
        routes: SourceRoutes,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._engine = engine
        self._resolver = resolver
        self._routes = routes
        self._spawn = spawn
        self._readers: dict[tuple[int, int], SourceReader] = {}
        self._allowances: dict[SourceTopicPartition, Allowance] = {}
        self.unrouted: set[LaneRun] = set()
        self._lost: set[LaneRun] = set()
        self._rerouting = asyncio.Event()

    def __contains__(self, run: LaneRun) -> bool:
        return any(run in reader for reader in self._readers.values())

    def connect(self, run: LaneRun) -> None:
        """Start the reader that the lane will need, if its leader is known."""
        leader = self._routes.leader(*run.source)
        if leader is not None:
            self._reader(leader.node_id, run)

    def stop(self, run: LaneRun) -> None:
        """Stop reading the lane."""
        for reader in self._readers.values():
            if run in reader:
                reader.remove(run)
        self.unrouted.discard(run)
        self._lost.discard(run)

    def route(self, run: LaneRun) -> None:
        """Have the lane read from the leader of its partition."""
        if run.intake.read_offset >= 0 and not run.is_over:
            self.unrouted.add(run)
            self._rerouting.set()

    def drained(self, run: LaneRun) -> None:
        """Read more of a full lane: it has room again."""
        if run.schedule.is_full:
            for reader in self._readers.values():
                reader.drained(run)

    def shorten(self, run: LaneRun) -> None:
        """Drop most pending pieces of a lane that does not advance."""
        size, goes_on = run.shorten(), run.transit is None or run.may_drop_waiting
        if not goes_on:
            self.stop(run)
        for reader in self._readers.values():
            if run in reader:
                reader.shortened(run)
        self._engine.room.give(size)

    def allow(self, allowances: Iterable[Allowance]) -> None:
        """Let lanes read up to their allowances, also lanes that are added later."""
        self._allowances |= {(each.topic, each.partition): each for each in allowances}
        for reader in self._readers.values():
            reader.allow(self._allowances)

    def held(self) -> list[LaneRun]:
        """The lanes that are in no fetch request now."""
        return [run for reader in self._readers.values() for run in reader.held]

    async def leave(self) -> None:
        """Reroute the lanes that silent brokers do not lead any more."""
        for run in await leave_readers(self._readers.values(), self._routes):
            self.route(run)

    async def run(self) -> None:
        """Give lanes to the readers of their leaders, as soon as these are known."""
        while True:
            await self._rerouting.wait()
            self._rerouting.clear()
            lost = [run for run in self.unrouted if not self._give(run)]
            self.unrouted.clear()
            if lost:
                self._spawn(self._find(lost))

    async def _find(self, runs: list[LaneRun]) -> None:
        """Ask for the leaders of these lanes. The resolver handles lanes without one: their topic may be deleted."""
        self._lost.update(runs)
        await self._routes.refresh()
        for run in runs:
            if run in self._lost and not self._give(run):
                self._resolver.add(run, _ROUTE_RETRY_S)
        self._lost.difference_update(runs)

    def _give(self, run: LaneRun) -> bool:
        """Give a lane to the reader of its leader. Return whether the leader is known."""
        leader = self._routes.leader(*run.source)
        if leader is None:
            return False
        if run.intake.read_epoch < 0 < run.writer.position and leader.epoch != run.belief.source_epoch:
            # Without an epoch the new leader cannot report whether its log was truncated: compare the logs.
            self._resolver.add(run)
        else:
            run.allow(self._allowances)
            self._reader(leader.node_id, run).add(run, leader.epoch)
        return True

    def _reader(self, node_id: int, run: LaneRun) -> SourceReader:
        isolation = READ_UNCOMMITTED if run.transactions.is_whole else READ_COMMITTED
        reader = self._readers.get((node_id, isolation))
        if reader is None:
            reader = SourceReader(node_id, self._engine, self._routes.client.dial, isolation=isolation)
            self._readers[node_id, isolation] = reader
            self._spawn(reader.run())
        return reader
