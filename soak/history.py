"""What happened in a run, in the order it happened: one JSON object a line."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any, Self

Event = dict[str, Any]


class History:
    """Events written down as they happen, from any thread.

    Each has `at`, seconds on the monotonic clock since the history began, `wall`, ms since the epoch, and `kind`;
    the other fields are those of its kind.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._output = file.open("w", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._output.close()

    def now(self) -> float:
        """Seconds since the history began."""
        return time.monotonic() - self._begun

    def tell(self, kind: str, **fields: Any) -> None:
        """Write down an event; it is on its way to the disk when this returns."""
        with self._lock:
            event = {"at": round(self.now(), 3), "wall": int(time.time() * 1000), "kind": kind, **fields}
            if not self._output.closed:
                self._output.write(json.dumps(event) + "\n")
                self._output.flush()


def read_history(file: Path) -> list[Event]:
    """All events of a history, in order. A last line that was cut off is left out."""
    events: list[Event] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return events
