"""How many requests are worked on at a time, and what the others wait for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isthmus.errors import RequestRefused
from isthmus.model.configuration import Configuration
from isthmus.web.access.guard import Caller, RateLimit
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from isthmus.web.rooms import LOOKS_MAX, Rooms, SharedLooks, WorkRoom

NOTHING = Configuration(clusters=(), links=())
_LONG_S = 60


async def ask(app: ASGIApp, send: Send) -> None:
    """A request for the list of clusters."""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/clusters",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8087")],
        "http_version": "1.1",
        "scheme": "http",
    }
    await app(scope, receive, send)


def test_answers_that_nobody_reads_keep_nobody_waiting(tmp_path: Path) -> None:
    """As many as may be worked on at a time are on their way to callers who take nothing; one more is answered."""
    app = create_app(FabricDesk(NOTHING), TokenFile(tmp_path / "tokens.json"), RateLimit(1000.0, 1000))

    async def scenario() -> list[Message]:
        stuck, are_stuck, taken = 0, asyncio.Event(), asyncio.Event()
        sent: list[Message] = []

        async def slow(message: Message) -> None:
            nonlocal stuck
            if message["type"] == "http.response.body":
                stuck += 1
                if stuck == LOOKS_MAX:
                    are_stuck.set()
                await taken.wait()

        async def quick(message: Message) -> None:
            sent.append(message)

        async with asyncio.timeout(_LONG_S), asyncio.TaskGroup() as asking:
            for _ in range(LOOKS_MAX):
                asking.create_task(ask(app, slow))
            await are_stuck.wait()
            await ask(app, quick)
            taken.set()
        return sent

    assert asyncio.run(scenario())[0]["status"] == 200


def test_nobody_has_more_than_half_of_the_places() -> None:
    """Somebody else who comes later is let in before whoever has that many, and every place is given back."""

    async def scenario() -> list[str]:
        room, let_in, done = WorkRoom(4, wait_s=_LONG_S), list[str](), asyncio.Event()

        async def work(caller: str) -> None:
            async with room.place(caller):
                let_in.append(caller)
                await done.wait()

        async with asyncio.timeout(_LONG_S), asyncio.TaskGroup() as working:
            for caller in ("a", "a", "a", "a", "b", "b"):
                working.create_task(work(caller))
            while len(let_in) < 4:
                await asyncio.sleep(0)
            first = [*let_in]
            done.set()
        assert len(let_in) == 6
        return first

    assert asyncio.run(scenario()) == ["a", "a", "b", "b"]


def test_who_waits_for_a_place_is_told_when_there_is_none() -> None:
    """Nothing is left behind of whoever gave up: the next one has the place."""

    async def scenario() -> None:
        room = WorkRoom(1, wait_s=0.01)
        async with room.place("a"):
            with pytest.raises(RequestRefused, match="no place was free") as refused:
                await asyncio.create_task(_entered(room, "b"))
        assert (refused.value.status, refused.value.retry_after_s) == (503, 5)
        await _entered(room, "b")

    asyncio.run(scenario())


async def _entered(room: WorkRoom, caller: str) -> None:
    async with room.place(caller):
        pass


_ASKING = st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 2), st.integers(0, 3))


@given(st.lists(_ASKING, max_size=12))
def test_places_are_neither_lost_nor_given_twice(asked: list[tuple[str, bool, int, int]]) -> None:
    """In whatever order callers come, are cut off and leave."""

    async def scenario() -> None:
        room, inside, most = WorkRoom(3, wait_s=_LONG_S), Counter[str](), [0]

        async def work(caller: str, stays: int) -> None:
            async with room.place(caller):
                inside[caller] += 1
                most.append(inside.total())
                try:
                    for _ in range(stays):
                        await asyncio.sleep(0)
                finally:
                    inside[caller] -= 1

        tasks = []
        for caller, is_cut, pause, stays in asked:
            tasks.append(asyncio.create_task(work(caller, stays)))
            for _ in range(pause):
                await asyncio.sleep(0)
            if is_cut:
                tasks[-1].cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(each) for each in ended} <= {type(None), asyncio.CancelledError}
        async with asyncio.timeout(_LONG_S), room.place("a"), room.place("b"), room.place("c"):
            pass
        assert max(most) <= 3

    asyncio.run(scenario())


def test_a_change_waits_for_no_look_and_a_crowd_costs_two_looks() -> None:
    """Twenty who look at one thing share the look after the one that goes on: each is told what was so after its
    request had come.
    """
    looks, changed = 0, asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal looks
        if scope["method"] == "POST":
            changed.set()
        else:
            looks += 1
            number = looks
            await changed.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": str(number).encode()})

    async def scenario() -> list[bytes]:
        rooms, told = Rooms(app, looks=2), list[bytes]()

        async def sent(message: Message) -> None:
            told.append(message.get("body", b""))

        async def one(method: str, name: str) -> None:
            scope = {
                "type": "http",
                "method": method,
                "path": "/v1/status",
                "query_string": b"",
                "headers": [],
                "state": {"caller": Caller(name, Role.VIEWER)},
            }
            await rooms(scope, _nothing, sent)

        async with asyncio.timeout(_LONG_S), asyncio.TaskGroup() as asking:
            asking.create_task(one("GET", "viewer 0"))
            while not looks:
                await asyncio.sleep(0)
            for number in range(1, 20):
                asking.create_task(one("GET", f"viewer {number}"))
            await one("POST", "viewer 0")
        return sorted(each for each in told if each)

    assert asyncio.run(scenario()) == [b"1"] + [b"2"] * 19


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def test_a_look_that_finds_nothing_out_is_ended() -> None:
    """With an answer that says so, and its place is free again."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        rooms = Rooms(app, looks=1, look_s=0.01)
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/status",
            "query_string": b"",
            "headers": [],
            "state": {"caller": Caller("a", Role.VIEWER)},
        }
        for _ in range(2):
            with pytest.raises(RequestRefused, match="nothing was found out"):
                await rooms(scope, _nothing, _nowhere)

    asyncio.run(scenario())


async def _nowhere(_: Message) -> None:
    return


def test_who_is_cut_off_ends_nobody_elses_look() -> None:
    """Whoever asks at the very moment when the only one who waited is gone has a look of its own."""

    async def scenario() -> list[Message]:
        shared, goes_on = SharedLooks(), asyncio.Event()

        async def look(begin: Callable[[], None]) -> list[Message]:
            begin()
            await goes_on.wait()
            return [{"type": "http.response.start"}]

        async with asyncio.timeout(_LONG_S):
            first = asyncio.create_task(shared.join_look("a", look))
            await asyncio.sleep(0)
            gone = asyncio.create_task(shared.join_look("a", look))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.sleep(0)
            coming = asyncio.create_task(shared.join_look("a", look))
            await asyncio.sleep(0)
            goes_on.set()
            await first
            return await coming

    assert asyncio.run(scenario()) == [{"type": "http.response.start"}]
