"""Work of seconds beside the event loop, which all leases of a task share: it goes on reading and writing meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

# One thread: with several at once the loop would get its turn after all of them.
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside")


async def aside(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What `work` returns or raises. It may touch nothing that anybody else changes meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(work, *args, **kwargs))
