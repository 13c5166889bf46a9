"""Looks at both clusters all the time, and remembers where every partition ended when."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaException

from soak.history import History
from soak.judge.evidence import PartitionKey
from soak.judge.reading import Ends, Ruler
from soak.side import Side

_EVERY_S: Final = 1.0
_TERM_S: Final = 5.0
Look = dict[PartitionKey, Ends]


def highs(look: Look) -> dict[PartitionKey, int]:
    """Where everything ended."""
    return {key: ends.high for key, ends in look.items()}


class Watch:
    """Measures both sides about once a second: the target first, so that it is never ahead of the source."""

    def __init__(self, source: Side, target: Side, history: History) -> None:
        self._rulers = {side.name: Ruler(side.servers, side.names) for side in (target, source)}
        self._history = history
        self._over = threading.Event()
        self._told: dict[str, Look] = {"target": {}, "source": {}}
        self.newest: dict[str, Look] = {"target": {}, "source": {}}
        self.looks = 0

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look again and again."""
        thread = threading.Thread(target=self._run, name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            for side in ("target", "source"):
                self._look(side)
            self.looks += 1

    def _look(self, side: str) -> None:
        ruler, begun = self._rulers[side], self._history.now()
        try:
            found = ruler.ends(ruler.partitions(term_s=_TERM_S), term_s=_TERM_S)
        except KafkaException:
            found = {}
        self.newest[side] = found
        told = self._told[side]
        # What did not answer is told too: everything else is as it was.
        changed = {f"{t}:{p}": list(ends) for (t, p), ends in found.items() if told.get((t, p)) != ends}
        unseen = [f"{t}:{p}" for t, p in told.keys() - found.keys()]
        self._told[side] = {**told, **found}
        load = {"load": os.getloadavg()[0], "processors": os.cpu_count() or 1}
        self._history.tell("ends", side=side, begun=round(begun, 3), changed=changed, unseen=unseen, **load)


class Stillness:
    """Whether what is seen has not changed for a while."""

    def __init__(self, term_s: float) -> None:
        self._term_s = term_s
        self._seen: object = None
        self._since = time.monotonic()

    def lasts(self, seen: object) -> bool:
        """Whether this is what was seen all the time for so long."""
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since > self._term_s
