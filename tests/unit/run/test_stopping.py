"""A run is asked to end from another thread."""

from __future__ import annotations

import asyncio
import threading

from isthmus.run.stopping import StopRequest


def test_it_is_heard_in_the_loop_of_the_run() -> None:
    """In its own thread, whichever thread asks."""
    threads: list[int] = []

    async def scenario() -> None:
        request, heard = StopRequest(), asyncio.Event()

        def stop() -> None:
            threads.append(threading.get_ident())
            heard.set()

        with request.calling(stop):
            await asyncio.to_thread(request.ask)
            await heard.wait()

    asyncio.run(scenario())
    assert threads == [threading.get_ident()]


def test_one_that_came_before_the_run_is_heard_and_one_behind_it_hurts_nobody() -> None:
    """The loop of the run may be closed by then."""
    request, calls = StopRequest(), []
    request.ask()

    async def scenario() -> None:
        with request.calling(lambda: calls.append(1)):
            assert calls == [1]

    asyncio.run(scenario())
    request.ask()
    assert calls == [1]
