"""The request to end a run in good order, from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequest:
    """Ends the run that it was given to, as SIGTERM ends one; also if `ask` is called before that has begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tell: Callable[[], object] | None = None
        self._asked = threading.Event()

    @property
    def is_asked(self) -> bool:
        """Whether the end was asked for."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Have the run end in good order. It goes on for as long as that takes."""
        with self._lock:
            self._asked.set()
            if self._tell is not None:
                self._tell()

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
        """Within the block `stop` is called in the present event loop when the request is made, or at once if it was
        made before.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            self._tell = lambda: loop.call_soon_threadsafe(stop)
        if self.is_asked:
            stop()
        try:
            yield
        finally:
            # The loop may be closed later.
            with self._lock:
                self._tell = None
