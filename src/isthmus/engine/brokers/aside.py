"""Runs work of seconds in a thread, so that the event loop that all leases of a task share goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

# One thread: with several the event loop would get its turn after all of them.
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside")


async def aside(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run `work` in the thread; return or raise its outcome. It may not touch state that other code changes."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(work, *args, **kwargs))
