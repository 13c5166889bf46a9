"""What goes on beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def repeating(act: Callable[[], None], pause_s: float = 0.0) -> Iterator[None]:
    """Act again and again for as long as the block runs, and once before it.

    :raises Exception: What `act` raised, once the block is over.
    """
    has_begun, is_over = threading.Event(), threading.Event()

    def work() -> None:
        try:
            while not is_over.is_set():
                act()
                has_begun.set()
                is_over.wait(pause_s)
        finally:
            has_begun.set()

    with ThreadPoolExecutor(1) as other:
        working = other.submit(work)
        has_begun.wait()
        try:
            yield
        finally:
            is_over.set()
        working.result()
