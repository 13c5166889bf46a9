"""What it costs that acknowledgements wait for another cluster: a synchronous link with a gateway, and without one.

    python -m bench.held [--records 300] [--burst 20000] [--commits 100]

Two single-broker clusters; `isthmus run` and `isthmus gateway` are processes of their own. Records of 256 bytes are
written one at a time with acks=all (the next one when the last one was acknowledged), then in bursts, by an idempotent
producer: to the source directly, through the gateway to a topic that nobody copies, through it to one of the
synchronous link (held), and straight to the follower, from a client that is near to it. Positions of a group are
committed one after the other, and transactions of ten records: at the source directly, and held. Then all of it again,
with every byte between the follower and the rest 10 ms on its way.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich import box
from rich.console import Console
from rich.table import Table

from bench.linked import LINK, linked

_RECORD: Final = bytes(256)
_WARM_UP: Final = 100
_SETTLING: Final = 5
_FAR_DELAY_S: Final = 0.010
_GROUP: Final = f"{LINK}.group"
_OF_A_TRANSACTION: Final = 10
_COPIED, _PLAIN = f"{LINK}.records", "plain"
_DIRECT, _HELD = "source", "source, through the gateway, held"


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.held")
    parser.add_argument("--records", type=int, default=300, help="how many are written one at a time")
    parser.add_argument("--burst", type=int, default=20_000, help="how many are written as fast as can be")
    parser.add_argument("--commits", type=int, default=100, help="how many positions and transactions are committed")
    given = parser.parse_args()
    table = Table(box=box.MARKDOWN, title="Acknowledgements that wait for the follower")
    for title in ("round trip to the follower", "what", "where", "p50 ms", "p99 ms", "records/s"):
        table.add_column(title, justify="left" if title in ("what", "where") else "right")
    for delay_s in (0.0, _FAR_DELAY_S):

        def tell(what: str, way: str, found: Sequence[float], pace: str = "", delay_s: float = delay_s) -> None:
            waits_ms = sorted(found)
            p50, p99 = (f"{waits_ms[len(waits_ms) * percent // 100]:.1f}" for percent in (50, 99))
            table.add_row(f"{2000 * delay_s:.0f} ms", what, way, p50, p99, pace)

        with _scene(delay_s) as ways:
            for way, (servers, topic) in ways.items():
                waits_ms = _waits_ms(servers, topic, given.records + _WARM_UP)[_WARM_UP:]
                tell("record", way, waits_ms, f"{_pace(servers, topic, given.burst):,.0f}")
            # To the source directly first: what is held then meets a group and a topic that are there.
            for way in (_DIRECT, _HELD):
                servers = ways[way][0]
                tell("position of a group", way, _commits_ms(servers, given.commits)[_SETTLING:])
                tell(f"transaction of {_OF_A_TRANSACTION}", way, _transactions_ms(servers, given.commits)[_SETTLING:])
    Console(width=140).print(table)
    sys.stdout.write(f"load at the end: {os.getloadavg()[0]:.0f}\n")
    return 0


@contextmanager
def _scene(delay_s: float) -> Iterator[dict[str, tuple[str, str]]]:
    """A synchronous link; addresses and topics by where records are written to."""
    settings = ("--enforce", "--super-user", "--set", "transactions.visibility=record")
    with linked({_COPIED: 1, _PLAIN: 1}, *settings, delay_s=delay_s) as found:
        found.done("link", "update", LINK, "--mode", "sync")
        found.until("IN_SYNC")
        there = found.west.admin_bootstrap_servers
        admin = AdminClient({"bootstrap.servers": there})
        admin.create_topics([NewTopic(_PLAIN, 1, 1)])[_PLAIN].result()
        yield {
            _DIRECT: (found.east.bootstrap_servers, _PLAIN),
            "source, through the gateway": (found.servers, _PLAIN),
            _HELD: (found.servers, _COPIED),
            "follower, by a client beside it": (there, _PLAIN),
        }


def _producer(servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "socket.nagle.disable": True,
        }
    )


def _told(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise SystemExit(f"a record was not taken: {error}")


def _waits_ms(servers: str, topic: str, count: int) -> list[float]:
    """How long the acknowledgement of each record takes, one after the other."""
    producer = _producer(servers)

    def write(_: int) -> None:
        producer.produce(topic, _RECORD, partition=0, on_delivery=_told)
        producer.flush()

    return _each_ms(write, count)


def _commits_ms(servers: str, count: int) -> list[float]:
    """How long each commit of a group's position takes, one after the other."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": _GROUP, "enable.auto.commit": False})
    try:
        return _each_ms(
            lambda number: consumer.commit(offsets=[TopicPartition(_COPIED, 0, number)], asynchronous=False), count
        )
    finally:
        consumer.close()


def _transactions_ms(servers: str, count: int) -> list[float]:
    """How long each transaction takes, from its first record to the answer of its commit."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "held", "linger.ms": 0})
    producer.init_transactions()

    def transact(_: int) -> None:
        producer.begin_transaction()
        for _number in range(_OF_A_TRANSACTION):
            producer.produce(_COPIED, _RECORD, partition=0, on_delivery=_told)
        producer.commit_transaction()

    return _each_ms(transact, count)


def _each_ms(work: Callable[[int], object], count: int) -> list[float]:
    """How long a piece of work takes, each time."""
    found = []
    for number in range(count):
        began = time.perf_counter()
        work(number)
        found.append((time.perf_counter() - began) * 1000)
    return found


def _pace(servers: str, topic: str, count: int) -> float:
    """How many records are acknowledged in a second where nobody waits for the last one."""
    producer = _producer(servers)
    began = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, _RECORD, partition=0, on_delivery=_told)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
