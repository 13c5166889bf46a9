"""Something that goes on in a thread of its own until it is told to end."""

from __future__ import annotations

import threading


class Routine:
    """What it does is `_run`, as long as `_over` is not set."""

    def __init__(self, name: str) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def begin(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Begin nothing more."""
        self._over.set()

    def wait(self) -> None:
        """Wait until what was begun is over."""
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError
