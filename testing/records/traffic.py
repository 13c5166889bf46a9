"""Records that keep coming while leases come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from isthmus.local import LocalCluster
from testing.records import topics

_PAUSE_S: Final = 0.002


class Traffic:
    """What was produced so far."""

    def __init__(self) -> None:
        self.records = 0


@contextmanager
def traffic(
    cluster: LocalCluster, topic: str, *, partitions: Sequence[int] = (0,), records_per_s: float = 500.0
) -> Iterator[Traffic]:
    """Keep producing to these partitions in turn; when this ends every record is durable."""
    produced, over = Traffic(), threading.Event()

    def produce() -> None:
        writing = topics.producer(cluster, linger_ms=0)
        begun = time.monotonic()
        while not over.is_set():
            while produced.records < (time.monotonic() - begun) * records_per_s:
                number = produced.records
                writing.produce(topic, partition=partitions[number % len(partitions)], value=b"%d" % number)
                produced.records += 1
            writing.poll(_PAUSE_S)
        topics.flush(writing)

    thread = threading.Thread(target=produce, name=f"traffic-{topic}")
    thread.start()
    try:
        yield produced
    finally:
        over.set()
        thread.join()
