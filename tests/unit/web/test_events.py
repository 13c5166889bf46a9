"""Events: who is told what, and how many may listen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from isthmus.errors import RequestRefused
from isthmus.web.events import STREAMS_MAX, Happenings


def following(happenings: Happenings, link: str | None = None, last: str | None = None) -> AsyncGenerator[bytes, None]:
    """What one of them is told."""
    return happenings.stream(happenings.listen(link, last), [])


def test_each_is_told_what_happens_to_its_link() -> None:
    """In order, each with a number, until the end."""

    async def scenario() -> list[bytes]:
        happenings = Happenings()
        stream = following(happenings, "a")
        found = [await anext(stream)]
        for number, link in enumerate(["a", "b", "a"]):
            happenings.publish("link", link, {"number": number})
        happenings.close()
        return [*found, *[each async for each in stream]]

    retry, first, second = asyncio.run(scenario())
    assert retry == b"retry: 3000\n\n"
    assert first.endswith(b'event: link\ndata: {"number": 0}\n\n')
    assert second.endswith(b'event: link\ndata: {"number": 2}\n\n')


def test_who_comes_back_is_told_what_was_missed() -> None:
    """Behind the last one heard; a number of another server, or no number, is not known."""

    async def scenario() -> list[list[bytes]]:
        happenings = Happenings()
        stream = following(happenings)
        await anext(stream)
        for number in range(3):
            happenings.publish("link", "a", {"number": number})
        first = await anext(stream)
        last = first.decode().splitlines()[0].removeprefix("id: ")
        streams = [following(happenings, last=each) for each in (last, "0.1", "x", "1.²")]
        for each in streams:
            await anext(each)
        happenings.close()
        return [[told async for told in each] for each in streams]

    missed, *others = asyncio.run(scenario())
    assert [each.splitlines()[2] for each in missed] == [b'data: {"number": 1}', b'data: {"number": 2}']
    assert others == [[], [], []]


def test_so_many_may_listen() -> None:
    """One more is sent away, and let in when another one has left."""

    async def scenario() -> None:
        happenings = Happenings()
        streams = [following(happenings) for _ in range(STREAMS_MAX)]
        for each in streams:
            await anext(each)
        with pytest.raises(RequestRefused, match="64 streams of events are open"):
            happenings.listen(None, None)
        await streams[0].aclose()
        happenings.listen(None, None)

    asyncio.run(scenario())


def test_who_reads_too_slowly_is_sent_away() -> None:
    """After what was in order."""

    async def scenario() -> int:
        happenings = Happenings(behind_max=3)
        stream = following(happenings)
        await anext(stream)
        for number in range(10):
            happenings.publish("link", "a", {"number": number})
        return len([each async for each in stream])

    assert asyncio.run(scenario()) < 10


def test_who_reads_nothing_keeps_nobody_out() -> None:
    """Once it is too far behind its place is free, though its connection still hangs."""

    async def scenario() -> None:
        happenings = Happenings(behind_max=3, streams_max=1)
        hanging = following(happenings)
        await anext(hanging)
        with pytest.raises(RequestRefused):
            happenings.listen(None, None)
        for number in range(10):
            happenings.publish("link", "a", {"number": number})
        await asyncio.sleep(0)
        await anext(following(happenings))

    asyncio.run(scenario())


def test_who_may_listen_no_more_is_told_nothing_more() -> None:
    """Neither what happens from then on, nor while nothing does."""

    async def scenario(*, is_quiet: bool) -> list[bytes]:
        may_listen = [True]
        happenings = Happenings(look_s=0.01)
        stream = happenings.stream(happenings.listen(None, None), [], lambda: may_listen[0])
        await anext(stream)
        happenings.publish("link", "a", {"number": 0})
        await anext(stream)
        may_listen[0] = False
        if not is_quiet:
            happenings.publish("link", "a", {"number": 1})
        left = [each async for each in stream]
        assert not happenings.is_heard
        return left

    assert asyncio.run(scenario(is_quiet=True)) == asyncio.run(scenario(is_quiet=False)) == []


def test_silence_is_told_as_well() -> None:
    """So that whoever left is noticed."""

    async def scenario() -> bytes:
        stream = following(Happenings(quiet_s=0.01))
        await anext(stream)
        return await anext(stream)

    assert asyncio.run(scenario()).startswith(b":")
