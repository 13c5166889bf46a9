"""Which lane is read where: each by the reader of the broker that leads its source partition, one for lanes that read
what is committed, and one for those that read all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from isthmus.lane.reader import Reading, SourceReader
from isthmus.lane.resolver import Resolver
from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun
from isthmus.lane.silence import leave_readers
from isthmus.model.switching import Allowance
from isthmus.wire.offsets import READ_COMMITTED, READ_UNCOMMITTED, PartitionKey

_ROUTE_RETRY_S: Final = 0.1


class Readers:
    """The readers of one engine. `run()` is a coroutine of its own; `spawn` starts those of the readers."""

    def __init__(
        self,
        engine: Reading,
        resolver: Resolver,
        routes: Routes,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._engine = engine
        self._resolver = resolver
        self._routes = routes
        self._spawn = spawn
        self._readers: dict[tuple[int, int], SourceReader] = {}
        self._told: dict[PartitionKey, Allowance] = {}
        self.unrouted: set[LaneRun] = set()
        self._lost: set[LaneRun] = set()
        self._rerouting = asyncio.Event()

    def __contains__(self, run: LaneRun) -> bool:
        return any(run in reader for reader in self._readers.values())

    def connect(self, run: LaneRun) -> None:
        """Have the reader ready that the lane will need, if that is known."""
        leader = self._routes.leader(*run.source)
        if leader is not None:
            self._reader(leader.node_id, run)

    def stop(self, run: LaneRun) -> None:
        """Read nothing more of the lane."""
        for reader in self._readers.values():
            if run in reader:
                reader.remove(run)
        self.unrouted.discard(run)
        self._lost.discard(run)

    def route(self, run: LaneRun) -> None:
        """Read the lane where its partition is led."""
        if run.read_offset >= 0 and not run.is_over:
            self.unrouted.add(run)
            self._rerouting.set()

    def drained(self, run: LaneRun) -> None:
        """The lane has room again."""
        if run.is_full:
            for reader in self._readers.values():
                reader.drained(run)

    def shorten(self, run: LaneRun) -> None:
        """Forget most of what was read of the lane: it does not flow."""
        size = run.shorten()
        if run.transit is not None:
            self.stop(run)
        for reader in self._readers.values():
            if run in reader:
                reader.shortened(run)
        self._engine.room.give(size)

    def allow(self, told: Iterable[Allowance]) -> None:
        """Let lanes that go by what they are told go as far as that, and those that are read later too."""
        self._told |= {(each.topic, each.partition): each for each in told}
        for reader in self._readers.values():
            reader.allow(self._told)

    def held(self) -> list[LaneRun]:
        """The lanes that nothing is asked of now."""
        return [run for reader in self._readers.values() for run in reader.held]

    async def leave(self) -> None:
        """Read elsewhere what silent brokers do not lead any more."""
        for run in await leave_readers(self._readers.values(), self._routes):
            self.route(run)

    async def run(self) -> None:
        """Give lanes to the readers of their leaders, as soon as those are known."""
        while True:
            await self._rerouting.wait()
            self._rerouting.clear()
            lost = [run for run in self.unrouted if not self._give(run)]
            self.unrouted.clear()
            if lost:
                self._spawn(self._find(lost))

    async def _find(self, runs: list[LaneRun]) -> None:
        """Ask who leads these lanes. One without a leader is the resolver's: it tells deleted from leaderless."""
        self._lost.update(runs)
        await self._routes.refresh()
        for run in runs:
            if run in self._lost and not self._give(run):
                self._resolver.add(run, _ROUTE_RETRY_S)
        self._lost.difference_update(runs)

    def _give(self, run: LaneRun) -> bool:
        """Have a lane read where it is led, if that is known."""
        leader = self._routes.leader(*run.source)
        if leader is None:
            return False
        if run.read_epoch < 0 < run.writer.position and leader.epoch != run.source_epoch:
            # The new leader cannot be asked whether its log was truncated: what it has has to be compared.
            self._resolver.add(run)
        else:
            run.allow(self._told)
            self._reader(leader.node_id, run).add(run, leader.epoch)
        return True

    def _reader(self, node_id: int, run: LaneRun) -> SourceReader:
        isolation = READ_UNCOMMITTED if run.is_whole else READ_COMMITTED
        reader = self._readers.get((node_id, isolation))
        if reader is None:
            reader = SourceReader(node_id, self._engine, self._routes.client.dial, isolation=isolation)
            self._readers[node_id, isolation] = reader
            self._spawn(reader.run())
        return reader
