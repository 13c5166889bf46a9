"""A consumer group that goes from cluster to cluster, and what it has read there."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from demo.recovery.application import NUMBER
from demo.tree.schemas import Reading
from isthmus.local import LocalCluster

GROUP: Final = "departures"
_MESSAGES: Final = 500
_POLL_S: Final = 0.2
_TERM_S: Final = 30.0
_SETTINGS: Final = {
    "group.id": GROUP,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # The shortest that brokers take: who is lost with a cluster is to be forgotten soon after it is back.
    "session.timeout.ms": 6_000,
    "log_level": 0,
}


class Departures:
    """The board of departures: it reads flights on one cluster at a time, with the schemas of the registry there, and
    commits what it has read.
    """

    def __init__(self, topic: str, partitions: int) -> None:
        self.seen: Counter[int] = Counter()
        self.unreadable = 0
        self._topic = topic
        self._partitions = partitions
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def read_at(self, cluster: LocalCluster, reading: Reading) -> None:
        """Go on at a cluster, where the group stands there."""
        self._stopping.clear()
        arguments = (cluster.bootstrap_servers, reading)
        self._thread = threading.Thread(target=self._run, args=arguments, name="departures", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Read no more on that cluster, whether it is still there or not."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def positions(self, cluster: LocalCluster) -> dict[int, int]:
        """By partition what is committed for the group on a cluster; those without a position are left out."""
        consumer = Consumer({**_SETTINGS, "bootstrap.servers": cluster.bootstrap_servers})
        try:
            found = consumer.committed(self._everything(), timeout=_TERM_S)
        finally:
            consumer.close()
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def _everything(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in range(self._partitions)]

    def _run(self, bootstrap_servers: str, reading: Reading) -> None:
        consumer = Consumer({**_SETTINGS, "bootstrap.servers": bootstrap_servers})
        consumer.subscribe([self._topic])
        while not self._stopping.is_set():
            messages = [each for each in consumer.consume(_MESSAGES, _POLL_S) if each.error() is None]
            for message in messages:
                self._take(message, reading)
            if messages:
                # Nobody waits for it: what was not committed when a cluster is lost is read again elsewhere.
                consumer.commit(asynchronous=True)
        # To leave the group of a cluster that is gone may take as long as it is gone: nobody waits for that.
        threading.Thread(target=consumer.close, daemon=True).start()

    def _take(self, message: Message, reading: Reading) -> None:
        number = int(dict(message.headers() or [])[NUMBER] or b"-1")
        self.seen[number] += 1
        self.unreadable += not reading.is_flight(message.value() or b"")
