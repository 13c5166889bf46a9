"""What lanes leave to their next owner, and when nothing of theirs is on its way any more."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from isthmus.lane.mapped.transit import Transit
from isthmus.lane.run import LaneRun
from isthmus.model.lane import LaneKey

_LOOK_S: Final = 0.005
_HELD_MAX_S: Final = 10.0
"""So long a lease that has ended waits for a broker that reads nothing: who is silent for longer is taken for stuck."""


def transits_of(runs: Mapping[LaneKey, LaneRun]) -> dict[LaneKey, Transit]:
    """Where what was copied of mapped lanes went, of those that have begun."""
    transits: dict[LaneKey, Transit] = {}
    for key, run in runs.items():
        if run.transit is not None:
            if run.phase.is_placed:
                run.transit.passed(run.read_epoch)
            transits[key] = run.transit
    return transits


def final(runs: Mapping[LaneKey, LaneRun], keys: Iterable[LaneKey]) -> frozenset[LaneKey]:
    """Which of these mapped lanes are where their transits say, as they are over and nothing else of them was sent."""
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
    """Return once nothing of lanes that are over is on its way any more. What nobody heard the answer to has arrived
    by the time that a next owner would settle, or never does.
    """
    while any(run.is_writing for run in runs):
        await asyncio.sleep(_LOOK_S)
    lost = [run.writer.held_until for run in runs if run.writer.abandoned]
    if lost:
        await asyncio.sleep(max(max(lost) - time.monotonic(), 0.0) + settle_s)


async def come_to_an_end(runs: Collection[LaneRun]) -> None:
    """Return once brokers over their quota read on that were sent something of lanes which nobody heard the answer to
    (KIP-219), or after `_HELD_MAX_S`: what they had not read comes in before a next owner looks.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_HELD_MAX_S):
            await come_to_rest(runs, 0.0)
