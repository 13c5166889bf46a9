"""A transaction whose writes are refused, as its link is out of sync, is aborted by its client at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from isthmus.gateway.frames.duties import Duty
from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from testing.gateways.synchronous import synchronous
from testing.patience import TERM_S
from testing.records import oracle, topics

pytestmark = pytest.mark.integration
LONG_MS: Final = 600_000
"""So long clients try again, and coordinators wait for them: longer than the test does."""
_JAVA: Final = Path(__file__).with_name("TransactionalClient.java")
_ANSWERING: Final = """
import sys
def answering(does):
    for line in sys.stdin:
        try:
            does[line.strip()]()
            told = "ok"
        except Exception as error:
            told = f"failed {error!r}"
        print(told.replace(chr(10), " "), flush=True)
servers, name, long_ms = sys.argv[1], sys.argv[2], int(sys.argv[3])
"""
_LIBRDKAFKA: Final = """
from confluent_kafka import KafkaException, Producer
producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "transaction.timeout.ms": long_ms})
def send():
    told = []
    producer.produce(name, b"value", partition=0, on_delivery=lambda error, _: told.append(error))
    while not told:
        producer.poll(0.1)
    if told[0] is not None:
        raise KafkaException(told[0])
answering({"init": producer.init_transactions, "begin": producer.begin_transaction, "send": send,
           "commit": producer.commit_transaction, "abort": producer.abort_transaction})
"""
_KAFKA_PYTHON: Final = """
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=long_ms,
                         delivery_timeout_ms=long_ms, max_block_ms=long_ms)
answering({"init": producer.init_transactions, "begin": producer.begin_transaction,
           "send": lambda: producer.send(name, b"value", partition=0).get(long_ms / 1000),
           "commit": producer.commit_transaction, "abort": producer.abort_transaction})
"""
"""A process of its own: this one has other definitions of some messages, which kafka-python's clients do not read."""


def command(client: str) -> list[str]:
    """What starts a client of this kind."""
    if client == "java":
        jvm = jvm_for("tools-4.4.0")
        # The file is compiled by the launcher, for which the class path has to be an option.
        return jvm.command(str(_JAVA), heap_mb=256, options=["-cp", jvm.class_path])
    program = {"librdkafka": _LIBRDKAFKA, "kafka-python": _KAFKA_PYTHON}[client]
    return [sys.executable, "-c", _ANSWERING + program]


@contextmanager
def asked(client: str, servers: str, name: str) -> Iterator[Callable[[str], str]]:
    """A transactional producer in a process of its own that does what it is asked, and tells what came of it."""
    given = [*command(client), servers, name, str(LONG_MS)]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(given, stdin=pipe, stdout=pipe, stderr=nowhere, text=True) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        answers, asking = one.stdout, one.stdin

        def ask(what: str) -> str:
            late = threading.Timer(TERM_S, one.kill)
            late.start()
            try:
                asking.write(f"{what}\n")
                asking.flush()
                return answers.readline().strip() or "it does not end"
            finally:
                late.cancel()

        try:
            yield ask
        finally:
            one.kill()


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "java"])
def test_a_client_goes_on(east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], client: str) -> None:
    """It is told with a write, or with its commit, aborts, and commits once the link is in sync. kafka-python takes any
    refusal of a commit for the end of the producer: the next one of its transactional id aborts.
    """
    name = topic("refused")
    topics.create_both(east, west, name)
    with synchronous(east, west, name) as (front, link):
        link.plain = link.transactional = Duty.PASS
        with asked(client, front.servers, name) as ask:
            assert [ask(each) for each in ("init", "begin", "send")] == ["ok"] * 3
            ends = oracle.ends(east.admin_bootstrap_servers, name)
            assert ends.stable < ends.high
            link.transactional = Duty.REFUSE
            is_written = ask("send") == "ok"
            assert is_written is (client != "java")
            assert ask("commit").startswith("failed")
            is_over = ask("abort") != "ok"
            assert is_over is (client == "kafka-python")
            if not is_over:
                # Nor with the next one.
                assert ask("begin") == "ok"
                assert (ask("send") == "ok") is is_written
                assert ask("commit").startswith("failed")
                assert ask("abort") == "ok"
                oracle.await_decided(east.admin_bootstrap_servers, name)
                link.transactional = Duty.PASS
                assert [ask(each) for each in ("begin", "send", "commit")] == ["ok"] * 3
        if is_over:
            with asked(client, front.servers, name) as ask:
                assert ask("init") == "ok"
                oracle.await_decided(east.admin_bootstrap_servers, name)
                link.transactional = Duty.PASS
                assert [ask(each) for each in ("begin", "send", "commit")] == ["ok"] * 3
    oracle.await_decided(east.admin_bootstrap_servers, name)
    (found,) = oracle.records(east.admin_bootstrap_servers, name)
    assert [each.value for each in found] == [b"value"]
