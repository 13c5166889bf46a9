"""Control records that were given up and come late, from wherever a network held them: brokers refuse them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from isthmus.engine.same.markers import Markers
from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.naming import TargetTopicPartition
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer
from testing.runs.mirror import Mirror, Running, caught_up

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


class Held:
    """A network that keeps the first control record of a topic, and breaks the connection off."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.given: tuple[Any, ...] = ()
        self._options: dict[str, Any] = {}
        self._real = real = Markers._post

        async def post(markers: Markers, connection: Any, key: TargetTopicPartition, ids: Any, **options: Any) -> int:
            if key == (name, 0) and not self.given:
                self.given, self._options = (markers, key, ids), options
                raise Unreachable("it never answered", cluster="nowhere")
            return await real(markers, connection, key, ids, **options)

        monkeypatch.setattr(Markers, "_post", post)

    async def deliver(self, running: Running, *, coordinator_epoch: int | None = None) -> int:
        """Have it arrive now, after all; what the leader makes of it."""
        _, key, ids = self.given
        markers = running.engine._detour._markers
        options = (
            self._options if coordinator_epoch is None else {**self._options, "coordinator_epoch": coordinator_epoch}
        )
        leader = (await running.target.metadata([key[0]])).topics[key[0]].partitions[0].leader
        return await self._real(markers, await running.target.connection(leader), key, ids, **options)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("has_successor", [False, True], ids=["same-owner", "successor"])
def test_a_marker_that_was_given_up_comes_late(
    mirror: Mirror,
    topic: TopicNamer,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    commit: bool,
    has_successor: bool,
) -> None:
    """The one that was written in its place fences it, also that of another owner: no offset is taken twice."""
    name = topic("late")
    topics.create_both(mirror.source, mirror.target, name)
    writing = TransactionalProducer(mirror.source, name)

    def transaction() -> None:
        writing.send(name, topics.some(3, chance))
        writing.end(commit=commit)

    async def scenario() -> None:
        held = Held(monkeypatch, name)
        transaction()
        if has_successor:
            async with mirror.running(name, aborted=AbortedPolicy.AUTO) as running:
                await running.until(lambda _: bool(held.given))
                await running.engine.stop(drain_s=0.0)
            begun = int(time.time())
            while int(time.time()) == begun:
                await asyncio.sleep(0.05)
        async with mirror.running(name, aborted=AbortedPolicy.AUTO) as running:
            await running.until(lambda reports: bool(held.given) and caught_up(reports))
            await asyncio.to_thread(transaction)
            (report,) = (await running.until(lambda reports: all(r.position == 8 for r in reports.values()))).values()
            assert await held.deliver(running) == codes.TRANSACTION_COORDINATOR_FENCED
            assert oracle.ends(mirror.target.bootstrap_servers, name).high == report.position
            # With a later one it would have come in.
            assert await held.deliver(running, coordinator_epoch=(1 << 31) - 1) == codes.NONE
            assert oracle.ends(mirror.target.bootstrap_servers, name).high == report.position + len(held.given[2])

    asyncio.run(scenario())
