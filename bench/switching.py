"""How long writes pause while the clients of a gateway are moved to another cluster, with their topics.

    python -m bench.switching [--partitions 100] [--clients 50]

Half of the clients are idempotent producers, each of which writes 50 records a second, the others read as members of
groups. `isthmus link reverse` is given once lanes are caught up. Times are those that producers see: between two
acknowledgements that follow one another, of all of them together and of each.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer

from bench.linked import LINK, linked

_A_SECOND: Final = 50
_TOPICS: Final = 10
_PER_GROUP: Final = 5
_BEFORE_S: Final = 15.0
_AFTER_S: Final = 10.0
_RECORD: Final = bytes(256)


def main() -> int:
    """Measure and print what producers saw."""
    parser = argparse.ArgumentParser(prog="python -m bench.switching")
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--clients", type=int, default=50)
    given = parser.parse_args()
    topics = {f"{LINK}.t{number}": given.partitions // _TOPICS for number in range(_TOPICS)}
    with linked(topics, secure=False) as found, ExitStack() as stack:
        writers = given.clients // 2
        times = stack.enter_context(_written(found.servers, list(topics), writers))
        stack.enter_context(_read(found.servers, list(topics), given.clients - writers))
        time.sleep(_BEFORE_S)
        found.until("FOLLOWING")
        begun = time.monotonic()
        told = found.done("link", "reverse", LINK, "--as", "back", "--yes")
        ended = time.monotonic()
        time.sleep(_AFTER_S)
        each = [_longest(one, begun, ended + _AFTER_S) for one in times]
        together = _longest(sorted(at for one in times for at in one), begun, ended + _AFTER_S)
    said = re.search(r"no request passed for [\d.]+ s", told)
    sys.stdout.write(
        f"{given.partitions} partitions, {given.clients} clients: the command took {ended - begun:.1f} s "
        f"({said[0] if said else 'it told no pause'}); nobody was answered for {together:.2f} s; "
        f"longest wait of a producer: median {statistics.median(each):.2f} s, most {max(each):.2f} s\n"
        f"load at the end: {os.getloadavg()[0]:.0f}\n"
    )
    return 0


def _longest(times: list[float], begin: float, end: float) -> float:
    """The longest time (s) between two answers that follow one another."""
    return max((after - before for before, after in pairwise(times) if begin <= after <= end), default=end - begin)


@contextmanager
def _written(servers: str, topics: list[str], count: int) -> Iterator[list[list[float]]]:
    """So many producers that write until the block ends; when each was answered."""
    times: list[list[float]] = [[] for _ in range(count)]
    is_over = threading.Event()

    def work() -> None:
        producers = [
            Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5}) for _ in range(count)
        ]

        def told(error: KafkaError | None, number: int) -> None:
            if error is not None:
                raise SystemExit(f"a record was not taken: {error}")
            times[number].append(time.monotonic())

        turn = 0
        while not is_over.is_set():
            due = time.monotonic() + 1 / _A_SECOND
            for number, producer in enumerate(producers):

                def answered(error: KafkaError | None, _: Message, number: int = number) -> None:
                    told(error, number)

                producer.produce(topics[(number + turn) % len(topics)], _RECORD, on_delivery=answered)
                producer.poll(0)
            turn += 1
            time.sleep(max(due - time.monotonic(), 0.0))
        for producer in producers:
            producer.flush()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield times
    finally:
        is_over.set()
        thread.join()


@contextmanager
def _read(servers: str, topics: list[str], count: int) -> Iterator[None]:
    """So many members of groups that read until the block ends."""
    is_over = threading.Event()
    consumers = [
        Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"{LINK}.g{number // _PER_GROUP}",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1000,
            }
        )
        for number in range(count)
    ]

    def work(consumer: Consumer) -> None:
        consumer.subscribe(topics)
        while not is_over.is_set():
            consumer.consume(500, 0.2)
        consumer.close()

    threads = [threading.Thread(target=work, args=(consumer,)) for consumer in consumers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    sys.exit(main())
