"""Runs calls of transforms in threads, so that the event loop that all lanes share goes on meanwhile.

Nobody knows how long a call lasts, and it cannot be ended. So a few calls have their turn at once, as more threads
would only delay the event loop; one that lasts long gives its turn to others. A thread of it never delays the end of
the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

AT_ONCE: Final = 2
PATIENCE_S: Final = 1.0
_T = TypeVar("_T")


class _Worker:
    """A thread that runs one call after the other, and offers itself again after each."""

    def __init__(self, offer: Callable[[_Worker], None]) -> None:
        self._calls: SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[[], Any]]]
        self._calls = SimpleQueue()
        self._offer = offer
        threading.Thread(target=self._run, name="transform", daemon=True).start()

    def start(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], work: Callable[[], Any]) -> None:
        self._calls.put((loop, future, work))

    def _run(self) -> None:
        # A loop that is closed wants no answer any more.
        with contextlib.suppress(RuntimeError):
            while True:
                loop, future, work = self._calls.get()
                try:
                    end = partial(_set_result, future, work())
                except BaseException as error:  # noqa: BLE001 - the caller raises it
                    end = partial(_set_error, future, error)
                loop.call_soon_threadsafe(self._end, end)

    def _end(self, end: Callable[[], None]) -> None:
        self._offer(self)
        end()


class Calls:
    """The threads of one lease. At most `at_once` calls have their turn, which ends after `patience_s`."""

    def __init__(self, *, at_once: int = AT_ONCE, patience_s: float = PATIENCE_S) -> None:
        self._turns = asyncio.Semaphore(at_once)
        self._patience_s = patience_s
        self._idle: list[_Worker] = []

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run `work` in a thread; return or raise its outcome. If the caller is cancelled it goes on unheard."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        async with self._turns:
            worker = self._idle.pop() if self._idle else _Worker(self._idle.append)
            worker.start(loop, future, work)
            await asyncio.wait({future}, timeout=self._patience_s)
        return await future


def _set_result(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _set_error(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        # A future cannot hold a StopIteration, and an exit of a thread is none of the process.
        is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
        future.set_exception(error if is_plain else RuntimeError(f"{type(error).__name__}: {error}"))
