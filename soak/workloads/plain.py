"""Idempotent producers: each with a codec and a size of batches of its own, to all partitions of a topic."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException, Producer

from soak.content import Style, made, record_id
from soak.history import History
from soak.side import Side

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_TICK_S: Final = 0.05
_TELL_S: Final = 1.0
_FLUSH_S: Final = 120.0
PATIENT: Final = {
    # A frozen broker shall hold a producer up no longer than it holds up its cluster.
    "message.timeout.ms": 180_000,
    "request.timeout.ms": 5_000,
    "socket.timeout.ms": 6_000,
    "topic.metadata.refresh.interval.ms": 2_000,
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
    # Without it the library has whoever polls or flushes raise what is no exception, a SystemError; the next call of a
    # producer that is over reports it as it should.
    "error_cb": lambda error: None,
}
_ResultT = TypeVar("_ResultT")


def reported(call: Callable[[float], _ResultT], term_s: float) -> _ResultT:
    """What a call of a producer returns that reports deliveries.

    :raises KafkaException: librdkafka has given the producer up.
    """
    try:
        return call(term_s)
    except KafkaException:
        raise
    except:  # noqa: E722  # deliveries that are reported after the fatal error have the client raise it as it is
        error: object = sys.exc_info()[1]
        if isinstance(error, BaseException):
            raise
    raise KafkaException(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """How a writer writes; the topic goes by its name at the source. `linger_ms` makes batches small or large."""

    name: str
    topic: str
    partitions: int
    codec: str
    linger_ms: int
    records_per_s: float
    style: Style = field(default_factory=Style)


class Acks:
    """What became of records: offsets by partition, told to the history as runs of consecutive ones, as events of a
    `kind`: "sent" to the source, or "stranger" for what others than the mirror send to the target.
    """

    def __init__(self, history: History, writer: str, topic: str, kind: str = "sent") -> None:
        self._history = history
        self._kind = kind
        self._writer, self._topic = writer, topic
        # Without a lock: librdkafka calls back from wherever it is, also while an older producer is being freed.
        self._acked: deque[tuple[int, int, int]] = deque()
        self._failed: deque[tuple[int, int, str]] = deque()
        self._told_at = 0.0
        self.count = 0
        self.offsets: dict[int, int] = {}

    def heard(self, partition: int, number: int, offset: int | None, error: object) -> None:
        """A record was delivered, or was not."""
        if error is None and offset is not None:
            self._acked.append((partition, number, offset))
            self.offsets[partition] = max(offset, self.offsets.get(partition, 0))
            self.count += 1
        else:
            self._failed.append((partition, number, str(error)))

    def tell(self, *, at_once: bool = False) -> None:
        """Write down what was heard, once a second."""
        if not at_once and time.monotonic() - self._told_at < _TELL_S:
            return
        self._told_at = time.monotonic()
        acked = [self._acked.popleft() for _ in range(len(self._acked))]
        failed = [self._failed.popleft() for _ in range(len(self._failed))]
        if acked or failed:
            self._history.tell(
                self._kind, writer=self._writer, topic=self._topic, acked=_runs(acked), failed=[list(f) for f in failed]
            )


class PlainWriter:
    """Writes at a steady pace until it is told to end, to as many partitions as it is told to."""

    def __init__(self, pen: Pen, side: Side, history: History, kind: str = "sent") -> None:
        self.pen = pen
        self.acks = Acks(history, pen.name, pen.topic, kind)
        self._servers, self._called = side.servers, side.names.called(pen.topic)
        self._history = history
        self._sent: dict[int, int] = defaultdict(int)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.partitions = pen.partitions

    def begin(self) -> None:
        """Begin to produce."""
        self._thread = threading.Thread(target=self._run, name=self.pen.name)
        self._thread.start()

    def end(self) -> None:
        """Send no more."""
        self._over.set()

    def wait(self) -> None:
        """Wait until every record was delivered, or was given up."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        producer, begun, count = self._producer(), time.monotonic(), 0
        while not self._over.is_set():
            due = int((time.monotonic() - begun) * self.pen.records_per_s)
            try:
                for number in range(count, due):
                    self._send(producer, number % self.partitions)
                count = max(count, due)
                reported(producer.poll, _TICK_S)
            except KafkaException as error:
                # librdkafka gives up a producer whose order it can no longer vouch for.
                self._history.tell("writer", writer=self.pen.name, problem=str(error))
                producer = self._producer()
            except BufferError:
                begun, count = time.monotonic(), 0
            self.acks.tell()
        with suppress(KafkaException):
            reported(producer.flush, _FLUSH_S)
        self.acks.tell(at_once=True)

    def _send(self, producer: Producer, partition: int) -> None:
        pen, number = self.pen, self._sent[partition]
        timestamp = int(time.time() * 1000) - pen.style.age_ms
        record = made(record_id(pen.name, partition, number), pen.style, timestamp)

        def heard(error: Any, message: Any) -> None:
            self.acks.heard(partition, number, message.offset(), error)

        producer.produce(
            self._called,
            partition=partition,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=timestamp,
            on_delivery=heard,
        )
        self._sent[partition] += 1

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "client.id": self.pen.name,
                "enable.idempotence": True,
                "compression.type": self.pen.codec,
                "linger.ms": self.pen.linger_ms,
                "batch.size": 500_000,
                **PATIENT,
            }
        )


def _runs(acked: list[tuple[int, int, int]]) -> list[list[int]]:
    """Partition, first number, first offset and length of each run in which both go on by one."""
    runs: list[list[int]] = []
    for partition, number, offset in sorted(acked):
        if runs:
            last = runs[-1]
            if (last[0], last[1] + last[3], last[2] + last[3]) == (partition, number, offset):
                last[3] += 1
                continue
        runs.append([partition, number, offset, 1])
    return runs
