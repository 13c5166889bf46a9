"""The command `isthmus gateway`: how it starts, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.local import LocalCluster
from isthmus.model.naming import LEDGER_TOPIC
from testing.gateways.command import served_by
from testing.gateways.gateways import HOST, free_range
from testing.patience import TERM_S
from testing.runs.command import run, start
from testing.values.standing import free_port

pytestmark = pytest.mark.integration


def command(east: LocalCluster, port: int, *options: str) -> list[str]:
    """The command that has a gateway listen at two ports."""
    servers = f"east={east.bootstrap_servers}"
    where = ("--listen", f"{HOST}:{port}-{port + 1}", "--advertise", f"{HOST}:{port}")
    return ["-b", servers, "gateway", "east", *where, *options]


def ended(words: list[str]) -> tuple[int, str]:
    """How a command ends, and what it says."""
    done = run(*words)
    return done.returncode, done.stderr


def test_it_serves_until_it_is_ended(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """It says where the brokers are, passes on what is written, and ends by SIGTERM in good order."""
    port, name, telling = free_range(2), topic("command"), free_port()
    words = command(east, port, "--metrics", f"{HOST}:{telling}")
    with start(*words, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        told = ""
        while f"are behind {HOST}:{port}-{port + 1}" not in told:
            told += (line := running.stderr.readline())
            assert line, told
        servers = f"{HOST}:{port + 1},{HOST}:{port}"
        client, producer = AdminClient({"bootstrap.servers": servers}), Producer({"bootstrap.servers": servers})
        client.create_topics([NewTopic(name, 1, 1)])[name].result(TERM_S)
        producer.produce(name, b"value")
        assert producer.flush(TERM_S) == 0
        shown = shown_status(telling, lambda shown: any(client["requests"] for client in shown["clients"]))
        running.send_signal(signal.SIGTERM)
        told += running.stderr.read()

    assert running.returncode == 128 + signal.SIGTERM
    assert re.search(rf"broker 1 of east is at {HOST}:{port}\b", told)
    assert "ending" in told
    assert {client["software"] for client in shown["clients"]} == {"confluent-kafka-python"}
    assert all(client["answer_bytes"] for client in shown["clients"])


def shown_status(port: int, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What `isthmus gateway status` shows, once something is so."""
    deadline = time.monotonic() + TERM_S
    while True:
        shown = json.loads(run("gateway", "status", f"{HOST}:{port}", "-o", "json").stdout)
        if is_so(shown) or time.monotonic() > deadline:
            return dict(shown)


def test_several_processes(east: LocalCluster, topic: Callable[[str], str]) -> None:
    """They listen at the same ports and count together; one that is killed is started again, while the other ones
    serve; and all end in good order.
    """
    port, name, telling = free_range(2), topic("processes"), free_port()
    options = ("--metrics", f"{HOST}:{telling}", "--processes", "2")
    with start(*command(east, port, *options), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        told = ""
        while told.count(f"are behind {HOST}:{port}-{port + 1}") < 2:
            told += (line := running.stderr.readline())
            assert line, told
        servers = f"{HOST}:{port}"
        client, producer = AdminClient({"bootstrap.servers": servers}), Producer({"bootstrap.servers": servers})
        client.create_topics([NewTopic(name, 1, 1)])[name].result(TERM_S)
        first, *others = served_by(running)
        os.kill(first, signal.SIGKILL)
        for number in range(20):
            producer.produce(name, f"value {number}".encode())
        assert producer.flush(TERM_S) == 0
        while "it is started again" not in told:
            told += (line := running.stderr.readline())
            assert line, told
        shown = shown_status(telling, lambda shown: shown["processes"] == 2 and shown["clients"] != [])
        code, refused = ended(command(east, port))
        running.send_signal(signal.SIGTERM)
        told += running.stderr.read()

    assert running.returncode == 128 + signal.SIGTERM
    assert len(others) == 1
    assert re.search(r"process [01] has ended \(-9\); it is started again", told)
    assert shown["processes"] == 2
    assert shown["clients"]
    assert code == 21
    assert f"{HOST}:{port}" in refused


def test_what_it_refuses(east: LocalCluster) -> None:
    """A port that is taken, a range that leaves no port for a broker, and a certificate without its key. No ledger
    ever hears of a gateway that cannot listen: whoever goes by it would wait for its word.
    """
    port = free_range(2)
    assert ended(command(east, port, "--first-node", "5"))[0] == 6
    assert ended(command(east, port, "--tls-cert", "cert.pem"))[0] == 2
    with socket.create_server((HOST, port + 1)):
        for options in ((), ("--processes", "2")):
            code, told = ended(command(east, port, *options))
            assert code == 21
            assert f"{HOST}:{port + 1}" in told
    assert not [value for value in ledger_of(east) if f"{HOST}:{port}".encode() in value]


def ledger_of(cluster: LocalCluster) -> list[bytes]:
    """All that was ever written into a cluster's ledger."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        if LEDGER_TOPIC not in consumer.list_topics(timeout=TERM_S).topics:
            return []
        _, end = consumer.get_watermark_offsets(TopicPartition(LEDGER_TOPIC, 0), timeout=TERM_S)
        consumer.assign([TopicPartition(LEDGER_TOPIC, 0, 0)])
        found = list[bytes]()
        while consumer.position([TopicPartition(LEDGER_TOPIC, 0)])[0].offset < end:
            if (record := consumer.poll(TERM_S)) is not None and record.error() is None:
                found.append(record.value() or b"")
        return found
    finally:
        consumer.close()
