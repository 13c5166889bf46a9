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


def test_what_was_read_under_a_former_limit_is_not_waited_for() -> None:
    """Where a byte per second was too little by mistake, a megabyte that was read then is worth days."""

    async def scenario() -> None:
        room = Room(Limits(bytes_per_s=1))
        waiting = asyncio.create_task(room.throttle(1 << 20))
        await asyncio.sleep(0)
        room.limit(Limits(bytes_per_s=1 << 30))
        await waiting
        await room.throttle(1)

    asyncio.run(scenario())
