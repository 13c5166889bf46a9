"""What the parts of an engine need of it, for tests of one part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isthmus.engine.brokers.distance import Distances
from isthmus.engine.brokers.routes import Routes
from isthmus.engine.run import LaneRun
from isthmus.engine.state.writer import AppendVerdict
from isthmus.errors import ClusterError
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.model.lane import LaneState
from testing.values.looks import NOWHERE, PRODUCER


class Heard:
    """Faults that are noted, in the state that tells them apart."""

    def handle_verdict(self, run: LaneRun, verdict: AppendVerdict, error_code: int, *_: Any) -> None:
        run.fail(LaneState.BLOCKED, f"{verdict} {error_code}")

    def block_damaged(self, run: LaneRun, offset: int, what: str) -> None:
        run.fail(LaneState.BLOCKED, f"damaged at {offset}: {what}")

    def append_lost(self, runs: list[LaneRun], error: ClusterError) -> None:
        for run in runs:
            run.fail(LaneState.TARGET_UNAVAILABLE, str(error))


class Endless:
    """Room that never ends."""

    def take(self, size_bytes: int) -> None:
        """There is more."""


class Part:
    """An engine. `allowed` says whether writing is, one question after the other; the last word stays."""

    producer = PRODUCER
    link = "link"

    def __init__(self, allowed: Iterable[bool] = (True,)) -> None:
        self.faults: Any = Heard()
        self.room: Any = Endless()
        self.target_distances = Distances(Routes(Client(NOWHERE)), with_replicas=True)
        self.throttled_target_s = 0.0
        self.told: list[tuple[LaneRun, AppendVerdict]] = []
        self.handed_over: list[LaneRun] = []
        self._allowed = list(allowed)

    def may_write(self) -> bool:
        return self._allowed.pop(0) if len(self._allowed) > 1 else self._allowed[0]

    def may_send(self) -> bool:
        return True

    def go_by_records(self, run: LaneRun) -> None:
        """The target does not take its transactions whole."""
        run.go_by_records()

    def timed(self, batch: Batch, now_ms: float) -> None:
        """Nobody asks how long it took."""

    def may_go_on(self, run: LaneRun) -> bool:
        return self.may_write() and not run.is_over

    def advanced(self, run: LaneRun, pieces: int, records: int) -> None:
        run.intake.take(pieces)
        run.tally.count(records, 0)

    def grown(self, size_bytes: int) -> None:
        """There is room."""

    def appended(self, told: list[Any], now_ms: float) -> None:
        self.told += [(parcel.run, verdict) for parcel, verdict, _ in told]

    def divert(self, run: LaneRun) -> None:
        self.handed_over.append(run)
