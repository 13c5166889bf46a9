"""Coroutines are run wherever they are called from."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator

import pytest

from isthmus.fabric.blocking import in_loop, in_turn


async def name_of_thread() -> str:
    """Where it runs."""
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_without_a_loop_it_runs_here() -> None:
    """A script's own thread does the work, so that signals arrive where they are handled."""
    assert in_loop(name_of_thread()) == threading.current_thread().name


def test_within_a_loop_it_runs_elsewhere() -> None:
    """A notebook's loop is left alone, and results and errors come back all the same."""

    async def failing() -> None:
        raise ValueError("no")

    async def notebook() -> str:
        with pytest.raises(ValueError, match="no"):
            in_loop(failing())
        return in_loop(name_of_thread())

    assert asyncio.run(notebook()) == "isthmus"


def test_interrupted_work_ends_before_the_caller_goes_on() -> None:
    """Ctrl-C in a notebook cancels the work, which has time to end in good order."""
    ended = threading.Event()

    async def work() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    def notebook() -> None:
        # The way IPython calls what a cell holds: from within its loop, in the main thread.
        async def cell() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            in_loop(work())

        asyncio.run(cell())

    with pytest.raises(KeyboardInterrupt):
        notebook()
    assert ended.is_set()


def test_what_is_awaited_comes_in_turn() -> None:
    """One after the other, until there is no more or nobody asks: then what gave it ends in good order, too."""
    ended = []

    async def numbers(end: int) -> AsyncIterator[int]:
        try:
            for number in range(end):
                await asyncio.sleep(0)
                yield number
        finally:
            await asyncio.sleep(0)
            ended.append(end)

    assert [*in_turn(numbers(3))] == [0, 1, 2]
    for number in in_turn(numbers(60)):
        if number == 5:
            break
    assert ended == [3, 60]


def test_an_error_comes_where_it_is_awaited() -> None:
    """Also one that looks as if nothing had come in time."""

    async def failing() -> AsyncIterator[int]:
        yield 1
        raise TimeoutError("it took too long")

    found = in_turn(failing())
    assert next(found) == 1
    with pytest.raises(TimeoutError, match="it took too long"):
        next(found)
