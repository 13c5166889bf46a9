"""The wait for the last requests of lanes that are over."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection
from typing import Final

from isthmus.engine.run import LaneRun

_LOOK_S: Final = 0.005
_HELD_MAX_S: Final = 10.0
"""A lease that has ended waits so long for a broker that reads nothing. A broker silent for longer counts as stuck."""


async def come_to_rest(runs: Collection[LaneRun], settle_s: float) -> None:
    """Return once no request of lanes that are over is on its way any more. A request without an answer has arrived
    after the settling time, or never arrives.
    """
    while any(run.is_writing for run in runs):
        await asyncio.sleep(_LOOK_S)
    lost = [run.writer.held_until for run in runs if run.writer.abandoned]
    if lost:
        await asyncio.sleep(max(max(lost) - time.monotonic(), 0.0) + settle_s)


async def come_to_an_end(runs: Collection[LaneRun]) -> None:
    """Return once brokers that mute connections over their quota (KIP-219) read on, if requests of these lanes have
    no answer yet, or after `_HELD_MAX_S`: such requests are appended before the next owner looks at the log.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_HELD_MAX_S):
            await come_to_rest(runs, 0.0)
