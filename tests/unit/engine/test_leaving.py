"""When nothing of lanes that are over is on its way any more."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

from isthmus.engine.leaving import come_to_an_end, come_to_rest

_LONG_S = 3600.0


def run(*, is_writing: bool = False, abandoned: bool = False, held_until: float = 0.0) -> Any:
    """A lane that is over."""
    writer = SimpleNamespace(abandoned=abandoned, held_until=held_until)
    return cast(Any, SimpleNamespace(is_writing=is_writing, writer=writer))


def test_lanes_come_to_rest_when_the_last_is_answered() -> None:
    """At once where nothing is on its way; nobody settles for what was answered."""

    async def scenario() -> None:
        busy = run(is_writing=True)
        await come_to_rest([run(), run()], _LONG_S)
        waiting = asyncio.create_task(come_to_rest([run(), busy], _LONG_S))
        await asyncio.sleep(0)
        assert not waiting.done()
        busy.is_writing = False
        await waiting

    asyncio.run(scenario())


def test_what_nobody_heard_the_answer_to_is_waited_for() -> None:
    """As long as the next owner of its lane would settle."""

    async def scenario() -> None:
        await come_to_rest([run(abandoned=True)], 0.0)
        waiting = asyncio.create_task(come_to_rest([run(), run(abandoned=True)], _LONG_S))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(scenario())


def test_a_lease_ends_when_a_broker_over_its_quota_reads_on() -> None:
    """What it was sent and nobody heard the answer to comes in then; what was answered holds nobody up."""

    async def scenario() -> None:
        now = time.monotonic()
        await come_to_an_end([run(abandoned=True, held_until=now - 1.0), run(held_until=now + _LONG_S)])
        reads_on = now + 0.2
        await come_to_an_end([run(), run(abandoned=True, held_until=reads_on)])
        assert time.monotonic() >= reads_on

    asyncio.run(scenario())
