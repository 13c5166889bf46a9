"""A client of the gateways, as a process of its own: writes, or reads and commits, until it is told to end.

python -m soak.gateway.client --style idempotent --software librdkafka ...

Nothing of Isthmus is imported: kafka-python's clients do not work beside it, as it reads some messages in its own way.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka.errors import KafkaError as PythonError

from soak.gateway.asking import Asking

PARTITIONS: Final = 4
_AT_ONCE: Final = 4
_PAUSE_S: Final = 0.25
_WAITING_MAX: Final = 400
_CALL_S: Final = 30.0
_FLUSH_S: Final = 3.0
_AGAIN_S: Final = 0.5
_ABORTS, _POSITIONS = 0.2, 0.4
_DELIVERY_MS: Final = 120_000
_ERRORS_MAX: Final = 200
_TRANSACTIONS: Final = {"transaction.timeout.ms": 60_000, "delivery.timeout.ms": 15_000}


class Client:
    """What all of them have: a name, numbers for records, and somebody who asks the follower."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.name: str = given.name
        self.topic: str = given.topic
        self.chance = random.Random(f"{given.name} {given.seed}")
        self.asking = Asking(given.log, given.follower, given.topic, PARTITIONS)
        self.over = threading.Event()
        self._errors = Counter[str]()
        self._numbers: dict[int, int] = defaultdict(int)

    def run(self) -> None:
        """Go on until it is over."""
        raise NotImplementedError

    def record(self) -> tuple[int, str]:
        """A partition, and the id of the next record in it."""
        partition = self.chance.randrange(PARTITIONS)
        self._numbers[partition] += 1
        return partition, f"{self.name}.{partition}.{self._numbers[partition]}"

    def acknowledged(self, identity: str, partition: int, offset: int, sent: float) -> None:
        """A record was acknowledged just now."""
        self.asking.tell("ack", id=identity, partition=partition, offset=offset, sent=sent, partitions=[partition])

    def failed(self, what: str, error: object) -> None:
        """Something did not succeed; the first of each kind, and every so often one more, is written down."""
        said = f"{what}: {str(error)[:160]}"
        self._errors[said] += 1
        if self._errors[said] == 1 and len(self._errors) < _ERRORS_MAX:
            self.asking.tell("error", said=said)

    def pause(self) -> None:
        """Wait a moment, as an application does."""
        self.over.wait(self.chance.uniform(0.0, 2 * _PAUSE_S))

    @property
    def settings(self) -> dict[str, Any]:
        """Of librdkafka. A short time-out ends requests before the gateway answers them."""
        timeout_ms = self.given.timeout_ms
        return {
            "bootstrap.servers": self.given.servers,
            "client.id": self.name,
            "log_level": 0,
            "retry.backoff.ms": 100,
            "reconnect.backoff.max.ms": 1000,
            "socket.timeout.ms": max(timeout_ms, 1000),
        }

    @property
    def writing(self) -> dict[str, Any]:
        """Of a producer of librdkafka."""
        return {
            **self.settings,
            "linger.ms": self.chance.choice((0, 5, 20)),
            "request.timeout.ms": self.given.timeout_ms,
            "delivery.timeout.ms": _DELIVERY_MS,
        }


class Writer(Client):
    """librdkafka without transactions."""

    def run(self) -> None:
        is_idempotent = self.given.style == "idempotent"
        producer = Producer({**self.writing, "acks": "all", "enable.idempotence": is_idempotent})
        while not self.over.is_set():
            for _ in range(self.chance.randint(1, _AT_ONCE)):
                partition, identity = self.record()
                told = partial(self._told, identity, time.time())
                try:
                    producer.produce(self.topic, identity.encode(), partition=partition, on_delivery=told)
                except KafkaException as error:
                    # A producer that has come to its end by a fatal error is followed by another one.
                    self.failed("produce", error)
                    producer = Producer({**self.writing, "acks": "all", "enable.idempotence": is_idempotent})
            producer.poll(0)
            self.pause()
            while len(producer) > _WAITING_MAX and not self.over.is_set():
                producer.poll(0.1)
        producer.flush(_FLUSH_S)
        producer.purge()

    def _told(self, identity: str, sent: float, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed("delivery", error)
        else:
            self.acknowledged(identity, message.partition() or 0, offset_of(message), sent)


class Transactions(Client):
    """librdkafka with one transaction after another, which commit positions as well now and then."""

    def run(self) -> None:
        group = f"{self.topic}-{self.name}"
        consumer = Consumer({**self.settings, "group.id": group, "enable.auto.commit": False})
        producer: Producer | None = None
        number = position = 0
        while not self.over.is_set():
            try:
                if producer is None:
                    producer = Producer({**self.writing, **_TRANSACTIONS, "transactional.id": self.name})
                    producer.init_transactions(_CALL_S)
                number += 1
                position += 1
                if not self._transaction(producer, consumer, number, position):
                    producer = None
            except KafkaException as error:
                self.failed("transaction", error)
                producer = None
                self.over.wait(_AGAIN_S)
        consumer.close()

    def _transaction(self, producer: Producer, consumer: Consumer, number: int, position: int) -> bool:
        """Whether the producer can go on."""
        producer.begin_transaction()
        records: list[tuple[int, int, str]] = []
        ids = []
        failed: list[KafkaError] = []
        for _ in range(self.chance.randint(2, 3 * _AT_ONCE)):
            partition, identity = self.record()
            ids.append(identity)
            told = partial(self._told, identity, records, failed)
            producer.produce(self.topic, identity.encode(), partition=partition, on_delivery=told)
            producer.poll(0)
        positions = {}
        group = f"{self.topic}-{self.name}"
        try:
            if self.chance.random() < _POSITIONS:
                positions = {"0": position}
                where = [TopicPartition(self.topic, 0, position)]
                producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), _CALL_S)
            self.pause()
            producer.flush(_CALL_S)
            sent = time.time()
            if self.chance.random() >= _ABORTS:
                self._commit(producer)
                self.asking.tell(
                    "commit", number=number, records=records, ids=ids, sent=sent, group=group, positions=positions,
                    partitions=sorted({partition for partition, _, _ in records}),
                )  # fmt: skip
                return True
        except KafkaException as error:
            self.failed("commit", error)
            if not error.args[0].txn_requires_abort():
                self.asking.tell("unknown", number=number, ids=ids)
                return False
        return self._abort(producer, number, ids)

    def _commit(self, producer: Producer) -> None:
        """Commit, and ask again for as long as that is what is to be done."""
        while True:
            try:
                producer.commit_transaction(_CALL_S)
            except KafkaException as error:
                if not error.args[0].retriable() or self.over.is_set():
                    raise
            else:
                return

    def _abort(self, producer: Producer, number: int, ids: list[str]) -> bool:
        try:
            producer.abort_transaction(_CALL_S)
        except KafkaException as error:
            self.failed("abort", error)
            self.asking.tell("unknown", number=number, ids=ids)
            return False
        self.asking.tell("abort", number=number, ids=ids)
        return True

    def _told(
        self,
        identity: str,
        records: list[tuple[int, int, str]],
        failed: list[KafkaError],
        error: KafkaError | None,
        message: Message,
    ) -> None:
        if error is not None:
            failed.append(error)
            self.failed("delivery", error)
        else:
            records.append((message.partition() or 0, offset_of(message), identity))


class Member(Client):
    """librdkafka's consumer, a member of a group that commits where it is, now and then further back."""

    def run(self) -> None:
        group = f"{self.topic}-{self.name}"
        consumer = Consumer(
            {
                **self.settings,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 30_000,
            }
        )
        consumer.subscribe([self.topic], on_assign=self._assigned)
        reached: dict[int, int] = {}
        while not self.over.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                self.failed("poll", message.error())
                continue
            reached[message.partition() or 0] = (message.offset() or 0) + 1
            if self.chance.random() < 0.1:
                self._commit(consumer, group, reached)
                reached.clear()
        consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.asking.tell("assigned", count=len(partitions))

    def _commit(self, consumer: Consumer, group: str, reached: dict[int, int]) -> None:
        back = self.chance.choice((0, 0, 0, 1))
        positions = {partition: max(offset - back, 0) for partition, offset in reached.items()}
        where = [TopicPartition(self.topic, partition, offset) for partition, offset in positions.items()]
        sent = time.time()
        try:
            told = consumer.commit(offsets=where, asynchronous=False)
        except KafkaException as error:
            self.failed("commit", error)
            return
        refused = {each.partition for each in told or () if each.error is not None}
        kept = {str(each): offset for each, offset in positions.items() if each not in refused}
        for each in refused:
            self.failed("commit", f"partition {each} was refused")
        self.asking.tell("positions", group=group, positions=kept, sent=sent)


class PythonWriter(Client):
    """kafka-python without transactions."""

    def run(self) -> None:
        producer: Any = None
        while not self.over.is_set():
            try:
                if producer is None:
                    producer = kafka.KafkaProducer(
                        bootstrap_servers=self.given.servers.split(","),
                        client_id=self.name,
                        acks="all",
                        enable_idempotence=self.given.style == "idempotent",
                        request_timeout_ms=self.given.timeout_ms,
                        delivery_timeout_ms=_DELIVERY_MS,
                        linger_ms=5,
                        max_block_ms=5_000,
                        bootstrap_timeout_ms=60_000,
                    )
                for _ in range(self.chance.randint(1, _AT_ONCE)):
                    partition, identity = self.record()
                    future = producer.send(self.topic, identity.encode(), partition=partition)
                    future.add_callback(partial(self._told, identity, time.time()))
                    future.add_errback(partial(self.failed, "delivery"))
            except PythonError as error:
                self.failed("produce", error)
                if producer is not None and "Fatal" in type(error).__name__:
                    producer.close(timeout=0)
                    producer = None
                self.over.wait(_AGAIN_S)
            self.pause()
        if producer is not None:
            with contextlib.suppress(PythonError):
                producer.close(timeout=_FLUSH_S)

    def _told(self, identity: str, sent: float, told: Any) -> None:
        self.acknowledged(identity, told.partition, told.offset, sent)


class JavaWriter(Client):
    """Kafka's own verifiable producer, which is idempotent: it says of each record where it stands."""

    def run(self) -> None:
        settings = Path(self.given.log).with_suffix(".properties")
        settings.write_text(
            f"client.id={self.name}\nrequest.timeout.ms={self.given.timeout_ms}\ndelivery.timeout.ms={_DELIVERY_MS}\n"
            # By itself it neither tries again nor is idempotent.
            "retries=2147483647\nenable.idempotence=true\n"
        )
        options = ["--topic", self.topic, "--bootstrap-server", self.given.servers, "--throughput", "8"]
        # Its records are then named as this client is, which has a number for a name.
        options += ["--acks", "-1", "--value-prefix", self.name, "--command-config", str(settings)]
        java = subprocess.Popen(
            [*json.loads(self.given.java), *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        ending = threading.Thread(target=self._end, args=(java,), name="ending")
        ending.start()
        for line in java.stdout or ():
            told = self._parsed(line)
            if told.get("name") == "producer_send_success":
                # When it was sent it does not say.
                self.acknowledged(told["value"], told["partition"], told["offset"], time.time())
            elif told.get("name") == "producer_send_error":
                self.failed("delivery", told.get("message"))
        self.over.set()
        ending.join()

    @staticmethod
    def _parsed(line: str) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _end(self, java: subprocess.Popen[str]) -> None:
        self.over.wait()
        java.terminate()
        try:
            java.wait(_FLUSH_S)
        except subprocess.TimeoutExpired:
            java.kill()


def offset_of(message: Message) -> int:
    """Where a record stands, -1 if its client was not told, as of a batch that the broker had already."""
    offset = message.offset()
    return -1 if offset is None else offset


CLIENTS: Final[dict[tuple[str, str], Callable[[argparse.Namespace], Client]]] = {
    ("librdkafka", "plain"): Writer,
    ("librdkafka", "idempotent"): Writer,
    ("librdkafka", "transactional"): Transactions,
    ("librdkafka", "group"): Member,
    ("kafka-python", "plain"): PythonWriter,
    ("kafka-python", "idempotent"): PythonWriter,
    ("java", "idempotent"): JavaWriter,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Be one of them until SIGTERM."""
    parser = argparse.ArgumentParser(prog="soak.gateway.client")
    parser.add_argument("--software", required=True)
    parser.add_argument("--style", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--follower", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--timeout-ms", type=int, required=True)
    parser.add_argument("--java", default="[]", help="the command of the verifiable producer, as a JSON array")
    given = parser.parse_args(arguments)
    client = CLIENTS[given.software, given.style](given)
    signal.signal(signal.SIGTERM, lambda *_: client.over.set())
    try:
        client.run()
    finally:
        client.asking.tell("over")
        client.asking.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
