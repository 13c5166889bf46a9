"""How much of its time a worker works, and how many records a lease in it copies: over the last seconds."""

from __future__ import annotations

import selectors
import time
from collections import deque
from typing import Final, NamedTuple

_WINDOW_S: Final = 10.0
_MEASURED_FROM_S: Final = 4.0


class WatchedSelector(selectors.DefaultSelector):
    """The selector of an event loop that counts for how long (s) the loop had nothing to do.

    A worker that the host gives too little of a core has none left to wait: its processor time alone would not show it.
    """

    waited_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, see `selectors`."""
        begun = time.monotonic()
        try:
            return super().select(timeout)
        finally:
            self.waited_s += time.monotonic() - begun


class _Look(NamedTuple):
    """What had added up at a moment; times in seconds."""

    at: float
    waited_s: float
    cpu_s: float
    records: int


class Workload:
    """What a lease tells of its worker. Both figures are -1 until it was watched for some seconds, as a lease that
    begins has more to do than later.
    """

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()

    def note(self, at: float, *, waited_s: float, cpu_s: float, records: int) -> None:
        """Note for how long the event loop has waited and how long the process has computed so far, and how many
        records the lease has copied; all of them only grow.
        """
        self._looks.append(_Look(at, waited_s, cpu_s, records))
        while len(self._looks) > 1 and at - self._looks[1].at >= _WINDOW_S:
            self._looks.popleft()

    @property
    def busy(self) -> float:
        """The share of its time for which the worker has worked, in the event loop or in other threads; 1 at most."""
        if not self._is_measured:
            return -1.0
        first, last = self._looks[0], self._looks[-1]
        term_s = last.at - first.at
        looped = 1 - (last.waited_s - first.waited_s) / term_s
        return round(min(max(looped, (last.cpu_s - first.cpu_s) / term_s, 0.0), 1.0), 3)

    @property
    def records_per_s(self) -> float:
        """The records that the lease copies in a second."""
        if not self._is_measured:
            return -1.0
        first, last = self._looks[0], self._looks[-1]
        return round((last.records - first.records) / (last.at - first.at), 1)

    @property
    def _is_measured(self) -> bool:
        return bool(self._looks) and self._looks[-1].at - self._looks[0].at >= _MEASURED_FROM_S
