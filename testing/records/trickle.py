"""A source that keeps growing while something else happens."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from testing.patience import TERM_S
from testing.records import topics


@contextmanager
def trickling(
    cluster: topics.Brokers, name: str, chance: random.Random, *, partitions: int = 1, **settings: object
) -> Iterator[None]:
    """Records with old timestamps keep coming meanwhile, in batches of all sizes; the first are there already. The
    `settings` are those of the producer.
    """
    begun, stop = threading.Event(), threading.Event()
    own = random.Random(chance.random())

    def write() -> None:
        writing = topics.producer(cluster, linger_ms=0, **settings)
        topics.send(writing, name, topics.some(1, own))
        topics.flush(writing)
        begun.set()
        while not stop.is_set():
            topics.send(writing, name, topics.some(own.randint(1, 60), own), partition=own.randrange(partitions))
            stop.wait(own.random() * 0.02)
        topics.flush(writing)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert begun.wait(TERM_S), "the first record was not written"
        yield
    finally:
        stop.set()
        thread.join()
