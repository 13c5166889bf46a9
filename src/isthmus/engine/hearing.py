"""Asks where source logs end while they are not read, because a limit holds the reader back or the target has no room.

Otherwise each fetch answer shows where the log ends. A link that falls behind fetches seldom, and its lag matters
most then: to operators who watch it, and for a failover that has to go on without the source.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final

from isthmus.engine.brokers.routes import SourceRoutes
from isthmus.engine.run import LaneRun
from isthmus.engine.source import Bounds, bounds

HEAR_S: Final = 1.0


class Hearing:
    """Asks for the ends of lanes that are `held` back, once a second. `run()` is a coroutine of its own."""

    def __init__(self, source: SourceRoutes, held: Callable[[], Collection[LaneRun]]) -> None:
        self._source = source
        self._held = held
        self._asked: set[int] = set()

    async def run(self) -> None:
        """Ask until cancelled. Each broker is asked by itself, so that a silent one does not delay the others."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(HEAR_S)
                waiting: dict[int, list[LaneRun]] = {}
                for run in self._held():
                    leader = self._source.leader(*run.source)
                    if leader is not None and not run.is_over and run.source_log.end >= 0:
                        waiting.setdefault(leader.node_id, []).append(run)
                for node_id, runs in waiting.items():
                    if node_id not in self._asked:
                        self._asked.add(node_id)
                        tasks.create_task(self._ask(node_id, runs))

    async def _ask(self, node_id: int, runs: list[LaneRun]) -> None:
        asked_at = time.monotonic()
        try:
            found = await self._source.ask((run.source for run in runs), bounds)
        finally:
            self._asked.discard(node_id)
        for run in runs:
            limit = found.get(run.source)
            # Fetches meanwhile are newer, hence `max`; the reader notices a log that became shorter.
            if isinstance(limit, Bounds):
                run.source_log.overhear(limit, asked_at, is_whole=run.transactions.is_whole)
