"""The application: it writes in one zone at a time, and keeps in mind what was acknowledged."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, Message

from demo.flights import Flight
from demo.load import Load
from demo.topics import Topic

RECORDS_PER_S: Final = 1_000
NUMBER: Final = "number"
_TICK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Where a record was when its cluster acknowledged it, and when that was (s, monotonic)."""

    partition: int
    offset: int
    at: float


class Application:
    """Writes flights to a cluster from `start` to `stop`, each with a number that no other record has."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: Topic,
        flights: Sequence[Flight],
        *,
        numbers: Iterator[int],
        records_per_s: int = RECORDS_PER_S,
    ) -> None:
        self.acknowledged: dict[int, Acknowledged] = {}
        self._topic = topic
        self._producer = Load(bootstrap_servers, topic, {"linger.ms": 5, "delivery.report.only.error": False}).producer
        self._flights = itertools.cycle(flights)
        self._numbers = numbers
        self._records_per_s = records_per_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="application", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, is_lost: bool = False) -> None:
        """Write no more; with `is_lost` what was not acknowledged yet is given up, as by a zone that goes dark."""
        self._stopping.set()
        self._thread.join()
        if is_lost:
            self._producer.purge()
        self._producer.flush()

    def _run(self) -> None:
        begun, sent = time.monotonic(), 0
        while not self._stopping.wait(_TICK_S):
            due = int((time.monotonic() - begun) * self._records_per_s)
            for flight in itertools.islice(self._flights, due - sent):
                number = next(self._numbers)
                self._producer.produce(
                    self._topic.name,
                    flight.value,
                    flight.carrier,
                    headers=[*flight.headers, (NUMBER, b"%d" % number)],
                    on_delivery=partial(self._delivered, number),
                )
            sent = due
            self._producer.poll(0)

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self.acknowledged[number] = Acknowledged(partition, offset, time.monotonic())
