"""How much may be read, and what becomes of those who wait when that changes."""

from __future__ import annotations

import asyncio

from isthmus.lane.room import Room
from isthmus.model.link import Limits


def test_whoever_waits_goes_on_when_limits_are_lifted() -> None:
    """Of a limit of a byte per second, and of no room in flight."""

    async def scenario() -> None:
        room = Room(Limits(bytes_per_s=1, bytes_in_flight=10))
        room.take(20)
        waiting = [asyncio.create_task(room.throttle(1 << 20)), asyncio.create_task(room.wait())]
        await asyncio.sleep(0)
        room.limit(Limits(bytes_in_flight=30))
        await asyncio.gather(*waiting)
        room.limit(Limits(bytes_in_flight=20))
        full = asyncio.create_task(room.wait())
        await asyncio.sleep(0)
        assert not full.done()
        room.give(1)
        await full

    asyncio.run(scenario())
