"""The memory of the Python worker that runs a lease: less work about it, and how much it ever had."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
from typing import Final

_GARBAGE_OBJECTS: Final = 20_000
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 32 << 20
"""As much as glibc allows for the second of these (mallopt(3))."""


def tune_memory() -> None:
    """Have Python and libc do less about memory, once a worker.

    The garbage collector goes through the modules and through what is merely on its way: some 3 % of the time, and
    almost 30 ms at once. What makes cycles (tasks, errors) is little. And libc hands back what a large batch has left,
    so that the next one's has to be zeroed again, page by page: a fifth of the time with batches of 260 KiB.
    """
    if gc.get_freeze_count():
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS)
    # Other libcs than glibc have no such function.
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def memory_bytes() -> int:
    """The most memory this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
