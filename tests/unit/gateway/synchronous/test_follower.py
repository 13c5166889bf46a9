"""What a leader shows of the end of a follower's log."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.consumer import FetchRequest

from isthmus.gateway.synchronous.follower import FollowerWatch
from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.model.naming import TargetTopic
from testing.values.log import TOPIC, StoredLog

KEY = (TargetTopic(TOPIC), 0)


class Polled(StoredLog):
    """A leader whose long polls end without any change, and with this throttle time (ms)."""

    def __init__(self, throttle_ms: int) -> None:
        super().__init__([], end=5)
        self._throttle_ms = throttle_ms

    async def dial(self, node_id: int) -> Connection:
        led = SimpleNamespace(call=self._call, close=lambda: None, closed=False, due_for_renewal=False)
        return cast(Connection, led)

    async def _call(self, request: Any, **_: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return await super()._call(request)
        await asyncio.sleep(0.01)
        return SimpleNamespace(
            API_VERSION=13, error_code=codes.NONE, session_id=1, responses=[], throttle_time_ms=self._throttle_ms
        )


@pytest.mark.parametrize(("throttle_ms", "lacks"), [(0, True), (1, False)])
def test_an_answer_that_a_quota_has_emptied_shows_nothing(throttle_ms: int, lacks: bool) -> None:
    """Only what a leader has just shown tells that the follower lacks an offset."""

    async def scenario() -> bool:
        watch = FollowerWatch(Polled(throttle_ms))
        try:
            watch.wait(KEY, 7, lambda: None)
            await asyncio.sleep(0.2)
            assert watch.end(KEY) == 5
            return watch.lacks(KEY, 7)
        finally:
            await watch.aclose()

    assert asyncio.run(scenario()) is lacks
