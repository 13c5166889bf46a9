"""How much may be read, and what becomes of those who wait when that changes."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.brokers.room import Room
from isthmus.model.link import Limits


def test_whoever_waits_goes_on_when_the_limit_is_lifted() -> None:
    """Of a byte per second."""

    async def scenario() -> None:
        room = Room(Limits(bytes_per_s=1))
        waiting = asyncio.create_task(room.throttle(1 << 20))
        await asyncio.sleep(0)
        room.limit(Limits())
        await waiting

    asyncio.run(scenario())


@given(
    st.integers(1, 1 << 26),
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(1, 4 << 20)), max_size=200),
)
def test_no_lane_takes_the_room_of_another(limit: int, steps: list[tuple[int, bool, int]]) -> None:
    """Whatever others hold and never give back, each lane may have its floor; together they keep to the limit, but for
    the floors.
    """
    room, held = Room(Limits(bytes_in_flight=limit)), [0] * 10
    for lane, gives, size in steps:
        if gives:
            room.give(min(size, held[lane]))
            held[lane] -= min(size, held[lane])
        elif held[lane] < room.share_bytes:
            taken = min(size, room.share_bytes - held[lane])
            room.take(taken)
            held[lane] += taken
        assert room.share_bytes >= room.floor_bytes > 0
        assert sum(held) <= limit + len(held) * room.floor_bytes


def test_one_lane_leaves_room() -> None:
    """However much waits to be read of it; and it has enough for a far target."""
    room, held = Room(Limits(bytes_in_flight=8 << 20)), 0
    while held < room.share_bytes:
        held += 1 << 20
        room.take(1 << 20)
    assert held == 4 << 20
    assert Room(Limits()).share_bytes == 8 << 20


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
