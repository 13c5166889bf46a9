"""Where source logs end while nothing is read of them: a limit holds the reader back, or the target has no room.

What is fetched says where the log ends. A link that falls behind fetches seldom, and how far it is behind is what
somebody wants to know then: whoever looks at the lag, and whoever has to go on without the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun
from isthmus.lane.source import Bounds, bounds

HEAR_S: Final = 1.0


class Hearing:
    """Asks for the ends of lanes that are `held` back, once a second. `run()` is a coroutine of its own."""

    def __init__(self, source: Routes, held: Callable[[], Collection[LaneRun]]) -> None:
        self._source = source
        self._held = held

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await asyncio.sleep(HEAR_S)
            runs = [run for run in self._held() if not run.is_over and run.source_end >= 0]
            if not runs:
                continue
            found = await self._source.ask((run.source for run in runs), bounds)
            for run in runs:
                limit = found.get(run.source)
                # What was fetched meanwhile is newer: a log that became shorter is noticed by whoever reads it.
                if isinstance(limit, Bounds):
                    run.source_end = max(run.source_end, limit.stable_end)
