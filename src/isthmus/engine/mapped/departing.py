"""Stores where changed records come from, before they are sent. `run()` is a coroutine of its own.

All lanes that have something to send share a write. While it is on its way, what comes waits for the next one, and
what was stored before is sent.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from isthmus.engine.mapped.places import MapStore
from isthmus.engine.mapped.transit import Transit
from isthmus.engine.outlook import state_of
from isthmus.engine.run import LaneRun
from isthmus.engine.state.stage import TransformStage
from isthmus.errors import ClusterError
from isthmus.model.lane import LaneState
from isthmus.model.offsets import Departure

_RETRY_S: Final = 0.1


class Departed(Protocol):
    """The part of the engine that departing uses."""

    def send_departed(self, run: LaneRun) -> None: ...


class _Leaving(NamedTuple):
    """The first `pieces` outgoing pieces of a lane, which may be sent once their departure is stored."""

    transit: Transit
    stage: TransformStage
    generation: int
    pieces: int
    departure: Departure

    def is_current(self, run: LaneRun) -> bool:
        """Whether the pieces are still to be sent, and the lane is the one that was loaded."""
        is_same = run.transit is self.transit and not self.transit.is_outdated
        return is_same and self.stage.generation == self.generation and not run.is_over


class Departing:
    """Stores the departures of all lanes of an engine."""

    def __init__(self, engine: Departed, store: MapStore | None) -> None:
        self._engine = engine
        self._store = store
        self._due: set[LaneRun] = set()
        self._wake = asyncio.Event()

    def add(self, run: LaneRun) -> None:
        """Have the lane's outgoing pieces depart."""
        self._due.add(run)
        self._wake.set()

    async def run(self) -> None:
        """Store until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            leaving = {run: found for run in self._due if (found := _leave(run)) is not None}
            self._due.clear()
            if leaving and await self._store_all(leaving):
                for run, one in leaving.items():
                    if one.is_current(run):
                        run.intake.release(one.pieces)
                        self._engine.send_departed(run)

    async def _store_all(self, leaving: dict[LaneRun, _Leaving]) -> bool:
        """Store all departures, however long it takes. Return whether any lane still waits for it."""
        if self._store is None:
            raise ValueError("lanes with a transform need a place for their maps")
        while True:
            waiting = {run: one for run, one in leaving.items() if one.is_current(run)}
            if not waiting:
                return False
            try:
                await self._store.depart({run.lane.key: one.departure for run, one in waiting.items()})
            except ClusterError as error:
                for run in waiting:
                    run.hinder(state_of(error, LaneState.TARGET_UNAVAILABLE), str(error), error.hint)
                await asyncio.sleep(_RETRY_S)
            else:
                return True


def _leave(run: LaneRun) -> _Leaving | None:
    stage, transit = run.intake.stage, run.transit
    if stage is None or transit is None or run.is_over or not run.phase.is_placed or not stage.outgoing:
        return None
    return _Leaving(transit, stage, stage.generation, len(stage.outgoing), transit.depart())
