"""Records that go on being produced during the run, and how long they take to arrive."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from demo.flights import Flight
from demo.load import Load
from demo.topics import Topic

RECORDS_PER_S: Final = 1_000
_TICK_S: Final = 0.01
_SENT: Final = "sent-ns"
_LOOK_S: Final = 0.2
_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000


class Traffic:
    """Produces flights as if they departed now, a thousand a second, from `start` to `stop`."""

    def __init__(self, bootstrap_servers: str, topic: Topic, flights: Sequence[Flight]) -> None:
        self.sent = 0
        self.is_stopped = False
        self._load = Load(bootstrap_servers, topic, {"linger.ms": 0})
        self._flights = itertools.cycle(flights)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Produce no more, and wait until all of it is delivered.

        :raises KafkaException: A record was refused.
        """
        self._stopping.set()
        self._thread.join()
        self._load.finish()
        self.is_stopped = True

    def _run(self) -> None:
        begun = time.monotonic()
        while not self._stopping.wait(_TICK_S):
            due = int((time.monotonic() - begun) * RECORDS_PER_S)
            while self.sent < due:
                self._send(next(self._flights))
            self._load.producer.poll(0)

    def _send(self, flight: Flight) -> None:
        now_ns = time.time_ns()
        departing = flight._replace(
            timestamp_ms=now_ns // _NS_PER_MS,
            headers=[*flight.headers, (_SENT, b"%d" % now_ns)],
        )
        self._load.send([departing], key=lambda each: each.carrier)
        self.sent += 1


class Arrival(NamedTuple):
    """When a record was handed to its producer, and how long it took until a consumer at the target had it."""

    sent_ns: int
    latency_ms: float


class Probe:
    """A consumer at the target that notes when the records of a topic arrive, from `start` to `stop`."""

    def __init__(self, bootstrap_servers: str, topic: Topic) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._arrivals: list[Arrival] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def latencies_ms(self, begin_s: float, end_s: float) -> list[float]:
        """Of the records sent within these seconds since the epoch: their latencies, the shortest first."""
        begin_ns, end_ns = begin_s * _NS_PER_S, end_s * _NS_PER_S
        return sorted(a.latency_ms for a in self._arrivals if begin_ns <= a.sent_ns < end_ns)

    def _run(self) -> None:
        # A consumer asking for a topic that is not there yet would look for it again only after minutes.
        if not self._await_topic():
            return
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "demo-probe",
                "enable.auto.commit": False,
                # While a broker restarts it is the mirror that is to be measured, not the patience of a consumer.
                "fetch.error.backoff.ms": 10,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 20,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self._topic.name, p, 0) for p in range(self._topic.partitions)])
        while not self._stopping.is_set():
            message = consumer.poll(_LOOK_S)
            if message is not None and message.error() is None:
                sent_ns = int(dict(message.headers() or [])[_SENT] or 0)
                self._arrivals.append(Arrival(sent_ns, (time.time_ns() - sent_ns) / _NS_PER_MS))
        consumer.close()

    def _await_topic(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 0})
        while not self._stopping.wait(_LOOK_S):
            try:
                if self._topic.name in admin.list_topics(timeout=_LOOK_S).topics:
                    return True
            except KafkaException:  # the cluster is busy: ask again
                continue
        return False


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """The value a share `q` of all stay within; `None` of nothing."""
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)] if ordered else None
