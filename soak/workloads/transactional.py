"""Transactional producers: several partitions, commits, aborts, and transactions that nobody ends."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from soak.content import Style, made, record_id
from soak.history import History
from soak.workloads.plain import PATIENT, Acks, reported
from soak.workloads.routine import Routine

_TIMEOUT_MS: Final = 10_000
"""A transaction that nobody ends is ended by its coordinator after so long."""
_CALL_S: Final = 60.0
_FLUSH_S: Final = 60.0
_ABORTS, _LEFT_OPEN = 0.3, 0.04
_RECORDS_MAX: Final = 25
_STYLE: Final = Style(value_bytes=300)


class TransactionalWriter(Routine):
    """One transaction after another, each a while after the one before, until it is told to end."""

    def __init__(
        self,
        name: str,
        topic: str,
        partitions: int,
        servers: str,
        history: History,
        seed: int,
        *,
        pause_s: tuple[float, float] = (0.1, 0.9),
        style: Style = _STYLE,
    ) -> None:
        super().__init__(name)
        self.name = name
        self.topic = topic
        self.acks = Acks(history, name, topic)
        self._partitions = partitions
        self._servers = servers
        self._pause_s = pause_s
        self._style = style
        self._history = history
        self._chance = random.Random(f"{name} {seed}")
        self._sent: dict[int, int] = defaultdict(int)
        self._producer: Producer | None = None

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                if self._producer is None:
                    self._producer = self._made()
                self._transaction(self._producer)
            except (KafkaException, TimeoutError) as error:
                # What became of the transaction is for the coordinator to decide: the next producer of this name asks.
                self._history.tell("writer", writer=self.name, problem=str(error)[:200])
                self._producer = None
                self._over.wait(1.0)
            self.acks.tell()
        # Whatever is open ends in a moment; nothing shall be left that could be.
        if self._producer is None:
            self._settle()
        self.acks.tell(at_once=True)

    def _made(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "client.id": self.name,
                "transactional.id": self.name,
                "transaction.timeout.ms": _TIMEOUT_MS,
                "compression.type": self._chance.choice(("none", "lz4", "zstd")),
                "linger.ms": self._chance.choice((1, 20)),
                **PATIENT,
                "message.timeout.ms": _TIMEOUT_MS,
            }
        )
        producer.init_transactions(_CALL_S)
        return producer

    def _transaction(self, producer: Producer) -> None:
        chance = self._chance
        producer.begin_transaction()
        spans: dict[int, list[int]] = {}
        for _ in range(chance.randint(1, 3)):
            for _ in range(chance.randint(1, _RECORDS_MAX)):
                self._send(producer, chance.randrange(self._partitions), spans)
            if reported(producer.flush, _FLUSH_S):
                raise TimeoutError("records were not delivered")
            self._over.wait(chance.uniform(0.0, 0.3))
        fate = chance.random()
        if fate < _LEFT_OPEN and not self._over.is_set():
            self._history.tell("txn", writer=self.name, topic=self.topic, ended="left open", spans=_told(spans))
            self._producer = None
            # As long as it is open nothing behind it is stable.
            self._over.wait(_TIMEOUT_MS / 1000)
            return
        is_aborted = fate < _LEFT_OPEN + _ABORTS
        (producer.abort_transaction if is_aborted else producer.commit_transaction)(_CALL_S)
        ended = "aborted" if is_aborted else "committed"
        self._history.tell("txn", writer=self.name, topic=self.topic, ended=ended, spans=_told(spans))
        self._over.wait(chance.uniform(*self._pause_s))

    def _send(self, producer: Producer, partition: int, spans: dict[int, list[int]]) -> None:
        number = self._sent[partition]
        timestamp = int(time.time() * 1000)
        record = made(record_id(self.name, partition, number), self._style, timestamp)

        def heard(error: Any, message: Any) -> None:
            self.acks.heard(partition, number, message.offset(), error)
            if error is None:
                span = spans.setdefault(partition, [message.offset(), message.offset()])
                span[0], span[1] = min(span[0], message.offset()), max(span[1], message.offset())

        producer.produce(
            self.topic,
            partition=partition,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=timestamp,
            on_delivery=heard,
        )
        self._sent[partition] += 1
        reported(producer.poll, 0)

    def _settle(self) -> None:
        """A producer of the same name ends what the one before has left open."""
        deadline = time.monotonic() + _CALL_S
        while time.monotonic() < deadline:
            try:
                self._made()
            except KafkaException:
                time.sleep(1.0)
            else:
                return


def _told(spans: dict[int, list[int]]) -> list[list[int]]:
    """Partition, first and last offset of what a transaction wrote."""
    return [[partition, *span] for partition, span in sorted(spans.items())]
