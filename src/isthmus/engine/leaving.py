"""The state that lanes leave to their next owner, and the wait for their last requests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from isthmus.engine.mapped.transit import Transit
from isthmus.engine.run import LaneRun
from isthmus.model.lane import LaneKey

_LOOK_S: Final = 0.005
_HELD_MAX_S: Final = 10.0
"""A lease that has ended waits so long for a broker that reads nothing. A broker silent for longer counts as stuck."""


def transits_of(runs: Mapping[LaneKey, LaneRun]) -> dict[LaneKey, Transit]:
    """The transits of the mapped lanes that have begun: where their records went."""
    transits: dict[LaneKey, Transit] = {}
    for key, run in runs.items():
        if run.transit is not None:
            if run.phase.is_placed:
                run.transit.passed(run.intake.read_epoch)
            transits[key] = run.transit
    return transits


def final(runs: Mapping[LaneKey, LaneRun], keys: Iterable[LaneKey]) -> frozenset[LaneKey]:
    """The mapped lanes among these whose transits are final: the lanes are over, and nothing else of them was sent."""
    found = ((key, run) for key in keys if (run := runs.get(key)) is not None and run.transit is not None)
    return frozenset(
        key
        for key, run in found
        if run.is_over
        and run.transit is not None
        and run.transit.is_final
        and not (run.is_writing or run.writer.is_untold)
    )


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
