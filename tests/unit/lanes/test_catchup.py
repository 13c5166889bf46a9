"""When a run that ends with `caught-up` is over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from isthmus.errors import Unreachable
from isthmus.kafka.outcomes import Outcomes
from isthmus.lanes import catchup
from isthmus.lanes.catchup import Arrival, CatchUp
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneReport, LaneState
from testing.values.leases import lane


def test_a_source_that_cannot_be_asked_once_more_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrived while everything was copied that was there at the beginning is to be copied too, although the source
    or a leader of it did not answer when it was asked for that first.
    """
    own = lane(0)
    away = Unreachable("not now", cluster="east")
    ends: list[int | None] = [5, None, -1, 9]

    async def log_ranges(_: Any, partitions: Any) -> Outcomes[Any, LogRange]:
        end = ends.pop(0)
        if end is None:
            raise away
        if end < 0:
            return Outcomes({}, dict.fromkeys(partitions, away))
        return Outcomes({key: LogRange(0, end, end) for key in partitions}, {})

    monkeypatch.setattr(catchup, "log_ranges", log_ranges)

    async def scenario() -> None:
        looking = CatchUp(cast(Any, None), stuck_s=10.0)
        report = LaneReport(key=own.key, state=LaneState.ACTIVE, position=5, source_end=9)
        with pytest.raises(Unreachable):
            await looking.look([own], {own.key: report})
        for _ in range(3):
            assert await looking.look([own], {own.key: report}) is Arrival.UNDER_WAY
        assert await looking.look([own], {own.key: replace(report, position=9)}) is Arrival.CAUGHT_UP
        assert ends == []

    asyncio.run(scenario())


def test_what_waits_for_an_open_transaction_is_not_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for while the transaction moves on, and held up once it has not for a while; those who leave it out
    are done.
    """
    own = lane(0)

    async def log_ranges(_: Any, partitions: Any) -> Outcomes[Any, LogRange]:
        return Outcomes({key: LogRange(0, 5, 9) for key in partitions}, {})

    monkeypatch.setattr(catchup, "log_ranges", log_ranges)

    async def scenario() -> None:
        report = LaneReport(key=own.key, state=LaneState.ACTIVE, position=5, source_end=5, source_log_end=9)
        patient = CatchUp(cast(Any, None), stuck_s=10.0)
        for _ in range(4):
            assert await patient.look([own], {own.key: report}) is Arrival.UNDER_WAY
        hasty = CatchUp(cast(Any, None), stuck_s=-1.0)
        moved = replace(report, position=6, source_end=6)
        for each in (report, moved, report, moved):
            assert await hasty.look([own], {own.key: each}) is Arrival.UNDER_WAY
        assert await hasty.look([own], {own.key: moved}) is Arrival.HELD_UP
        unaware = CatchUp(cast(Any, None), stuck_s=10.0)
        assert await unaware.look([own], {own.key: report}, ignores_open=True) is Arrival.UNDER_WAY
        assert await unaware.look([own], {own.key: report}, ignores_open=True) is Arrival.CAUGHT_UP

    asyncio.run(scenario())
