"""The producers: librdkafka, which knows nothing of Isthmus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from demo.flights import Flight
from demo.topics import Topic
from isthmus.errors import HostError
from isthmus.model.text.wording import format_count

TRANSACTION_RECORDS: Final = 2_500
"""How many records a transaction holds."""
ABORTED_EVERY: Final = 7
"""Every seventh transaction is aborted."""
_FLUSH_TERM_S: Final = 60.0


class Load:
    """A producer for one topic. Whatever was not delivered is told by `finish`."""

    def __init__(self, bootstrap_servers: str, topic: Topic, settings: Mapping[str, str | int] | None = None) -> None:
        self._failures: list[KafkaError] = []
        self.topic = topic
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": topic.codec,
                "linger.ms": 50,
                "batch.size": 256 << 10,
                # All of it fits into the queue, so that producing never has to wait.
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
                "log_level": 0,
                **(settings or {}),
            }
        )

    def send(self, flights: Iterable[Flight], key: Callable[[Flight], bytes]) -> None:
        """Hand flights to the producer, which goes on sending them by itself."""
        produce, topic = self.producer.produce, self.topic.name
        for flight in flights:
            produce(topic, flight.value, key(flight), headers=flight.headers, timestamp=flight.timestamp_ms)

    def finish(self) -> None:
        """Wait until everything is delivered.

        :raises KafkaException: A record was refused.
        :raises HostError: The cluster did not take the records in time.
        """
        undelivered = self.producer.flush(_FLUSH_TERM_S)
        if self._failures:
            raise KafkaException(self._failures[0])
        if undelivered:
            raise HostError(
                f"{format_count(undelivered, 'record')} of {self.topic.name} not delivered "
                f"within {_FLUSH_TERM_S:.0f} s",
                hint="The machine is very busy: end other work and try again.",
            )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)


def carrier(flight: Flight) -> bytes:
    """The airline: the key of most topics."""
    return flight.carrier


def route(flight: Flight) -> bytes:
    """The pair of airports: the compacted topic keeps the latest flight of each."""
    return flight.route


def send_transactions(bootstrap_servers: str, topic: Topic, flights: Sequence[Flight]) -> tuple[int, int]:
    """Send flights in transactions, some of which are aborted after all their records were written.

    Returns how many were committed, and how many aborted.
    """
    load = Load(bootstrap_servers, topic, {"transactional.id": f"demo-{topic.name}", "linger.ms": 5})
    producer = load.producer
    producer.init_transactions()
    outcomes = [0, 0]
    for number, begin in enumerate(range(0, len(flights), TRANSACTION_RECORDS), start=1):
        producer.begin_transaction()
        load.send(flights[begin : begin + TRANSACTION_RECORDS], carrier)
        load.finish()
        is_aborted = number % ABORTED_EVERY == 0
        if is_aborted:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        outcomes[is_aborted] += 1
    return outcomes[0], outcomes[1]
