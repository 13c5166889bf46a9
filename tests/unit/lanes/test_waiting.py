"""Whose transactions lanes copy is noted while the source can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.lanes import waiting
from isthmus.lanes.waiting import TransactionNames, TransactionWatch
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.links.promotion import TornTransaction
from isthmus.model.naming import TargetTopic
from testing.values.names import EAST


def report(*within: int) -> LaneReport:
    """A lane within transactions of these producers."""
    return LaneReport(key=LaneKey(TargetTopic("orders"), 0), state=LaneState.ACTIVE, within=within)


def test_names_are_asked_for_until_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not oftener than every ten seconds, and not of producers that are known; what is not told is asked again."""
    now, asked = [0.0], list[Any]()
    answers: list[dict[int, str] | ClusterError] = [ClusterError("away"), {}, {7: "pay"}, {8: "bill"}]

    async def told(_: Client, producers: Collection[int]) -> dict[int, str]:
        asked.append(list(producers))
        answer = answers.pop(0)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    monkeypatch.setattr(waiting, "transactional_ids", told)
    # The event loop goes on by the real clock.
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def scenario() -> None:
        names, known = TransactionNames(Client(EAST)), tuple[TornTransaction, ...]()

        async def look(*within: int) -> tuple[TornTransaction, ...]:
            now[0] += 6.0
            return await names.look_when_due([report(*within)], known)

        assert await look() == ()
        assert asked == []
        found = [await look(7) for _ in range(6)]
        assert asked == [[7], [7], [7]]
        assert found[4] == (TornTransaction(7, "pay"),)
        known = found[4]
        found = [await look(7, 8) for _ in range(2)]
        assert asked[3:] == [[8]]
        assert (TornTransaction(7, "pay"), TornTransaction(8, "bill")) in found
        known = (TornTransaction(7, "pay"), TornTransaction(8, "bill"))
        assert [await look(7, 8) for _ in range(3)] == [(), (), ()]

    asyncio.run(scenario())


def test_a_whole_lane_waits_where_its_source_is_not_decided() -> None:
    """It reads all of the log, and what is open holds consumers back at the target."""
    watch = TransactionWatch(cast(Client, None))
    key = LaneKey(TargetTopic("orders"), 0)
    told = LaneReport(key=key, state=LaneState.ACTIVE, position=9, source_end=9, source_log_end=9, stable_end=4)
    watch.take([told], 1.0)
    watch.take([told], 6.0)
    assert watch.ages_s(6.0) == {key: 5.0}
    watch.take([replace(told, stable_end=9)], 7.0)
    assert watch.ages_s(7.0) == {}
