"""Coroutines for callers that have none: scripts, and notebooks where a loop runs already."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def in_loop(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine, run in a loop of its own; in another thread where this one has a loop already.

    Ctrl-C while that thread is waited for cancels the work and waits until it has ended.
    """
    return _elsewhere(work) if _is_looping() else asyncio.run(work)


def _is_looping() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _elsewhere(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="isthmus", daemon=True)
    thread.start()
    try:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    except BaseException:
        # An interrupt may come before the future is ours to cancel.
        asyncio.run_coroutine_threadsafe(_cancelled(), loop).result()
        raise
    finally:
        asyncio.run_coroutine_threadsafe(_settled(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancelled() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def _settled() -> None:
    """What was cancelled has ended, and what was begun in threads as well."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
