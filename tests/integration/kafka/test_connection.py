"""Connections to real brokers, and to what is none."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from isthmus.errors import Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.connect.address import split_address
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.connect.dial import dial
from isthmus.kafka.log.fetch import FetchSession, Want
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.cluster import ClientProperties, Cluster
from testing.records.topics import create

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def everything() -> MetadataRequest:
    return MetadataRequest(topics=None, allow_auto_topic_creation=False, min_version=4)


@contextmanager
def listener(answer: bytes) -> Iterator[Cluster]:
    """Something that listens, says `answer` to whoever asks, and is no broker."""
    with socket.create_server(("127.0.0.1", free_ports(1)[0])) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                held.append(sock)
                sock.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield Cluster(alias="odd", bootstrap_servers=(f"127.0.0.1:{server.getsockname()[1]}",))
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for sock in held:
                sock.close()


def test_requests_are_pipelined(east: LocalCluster) -> None:
    """Many requests leave before the first answer comes, and each gets its own."""

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            connection = await client.connection(1)
            asked = [everything() if n % 2 else FindCoordinatorRequest(key=f"k{n}", key_type=0) for n in range(60)]
            futures = [connection.post(request) for request in asked]
            assert connection.unanswered == len(asked)
            answers = await asyncio.gather(*futures)
            assert connection.unanswered == 0
            assert [hasattr(answer, "brokers") for answer in answers] == [bool(n % 2) for n in range(60)]

    asyncio.run(scenario())


def test_a_broker_that_answers_one_by_one(east: LocalCluster, topic: TopicNamer) -> None:
    """Each answer has its time from the one before it on, however long all of them take together."""
    name = topic("empty")
    create(east, name)

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            topic_id = (await client.metadata([name])).topics[name].topic_id
            connection = await client.connection(1)
            session = FetchSession[str](incremental=False)
            # Nothing is there to fetch, so each takes its four seconds, and the next one begins after that.
            slow = []
            for _ in range(3):
                session.want((name, 0), Want(topic_id, 0, -1, -1))
                slow.append(session.request(max_wait_ms=4000, bytes_max=1, partition_bytes_max=1, by_topic_id=True))
            begun = time.monotonic()
            answers = await asyncio.gather(*(connection.post(request, timeout_s=10.0) for request in slow))
            assert not any(fetched.error_code for answer in answers for fetched in session.partitions(answer))
            assert time.monotonic() - begun > 10.0

    asyncio.run(scenario())


def test_silence_closes_the_connection(east: LocalCluster) -> None:
    """A call that is not answered in time fails, and so do those behind it; the next one connects anew."""

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            connection = await client.connection(1)
            east.broker(1).pause()
            try:
                behind = connection.post(everything())
                with pytest.raises(Unreachable, match="did not answer Metadata") as told:
                    await connection.call(everything(), timeout_s=0.3)
            finally:
                east.broker(1).resume()
            assert told.value.retryable
            assert connection.closed
            with pytest.raises(Unreachable):
                await behind
            with pytest.raises(Unreachable):
                connection.post(everything())
            assert (await client.metadata()).brokers

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answer", "said", "timeout_s"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer as a Kafka broker does", 30.0), (b"", "timed out", 0.5)],
    ids=["another protocol", "silence"],
)
def test_what_is_no_broker(answer: bytes, said: str, timeout_s: float) -> None:
    """An error that says what was found, in time, whatever listens there."""

    async def scenario(cluster: Cluster) -> None:
        patience = ClientProperties(connection_setup_timeout_s=timeout_s)
        async with Client(replace(cluster, properties=patience)) as client:
            with pytest.raises(Unreachable, match=said) as told:
                await client.dial(-1)
            assert told.value.hint

    with listener(answer) as cluster:
        asyncio.run(asyncio.wait_for(scenario(cluster), 60.0))


def test_dialling_that_nobody_waits_for(east: LocalCluster) -> None:
    """A connection that is made after its caller has given up does not stay open."""

    async def scenario() -> None:
        async with Client(east.cluster()) as client:
            await client.metadata()
            dialling = [asyncio.create_task(client.dial(1)) for _ in range(8)]
            await asyncio.sleep(0.001)
            for task in dialling:
                task.cancel()
            for result in await asyncio.gather(*dialling, return_exceptions=True):
                if isinstance(result, Connection):
                    result.close()
                else:
                    assert isinstance(result, asyncio.CancelledError)

    # Sockets left open would be warnings, which are errors in this suite.
    asyncio.run(scenario())


def test_buffers_are_as_large_as_they_are_said_to_be(east: LocalCluster) -> None:
    """Linux gives twice what it is asked for, and says so."""
    properties = ClientProperties(send_buffer_bytes=50_000, receive_buffer_bytes=70_000)
    cluster = replace(east.cluster(), properties=properties)
    host, port = split_address(cluster.bootstrap_servers[0], cluster.alias)
    with dial(cluster, host, port, "me").sock as sock:
        sizes_bytes = [sock.getsockopt(socket.SOL_SOCKET, which) for which in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
    assert sizes_bytes == [100_000, 140_000]
