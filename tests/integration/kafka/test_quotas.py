"""A broker over its quota does not read what it is sent (KIP-219), and appends it when it reads on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from isthmus.kafka.batches.batch import HEADER_BYTES, scan, stamp
from isthmus.kafka.batches.records import encode_records
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.connect.frames import Frame
from isthmus.kafka.log import produce
from isthmus.local import LocalCluster
from isthmus.local.probe import ask
from testing.patience import TERM_S, UNFENCED
from testing.records import oracle, topics

pytestmark = pytest.mark.integration

BYTES_PER_S = 1000.0
SIZE = 14_000
"""Some seconds of the quota more than the broker counts together."""
THREE_DAYS_MS = 3 * 86_400_000


@pytest.fixture(scope="module")
def narrow() -> Iterator[LocalCluster]:
    """A broker that forgets producers of old records at once, and gives every client a quota of its own."""
    properties = {"producer.id.expiration.ms": "5000", "producer.id.expiration.check.interval.ms": "10"}
    with LocalCluster.start("narrow", brokers=1, heap_mb=256, properties={**UNFENCED, **properties}) as cluster:
        entry = AlterClientQuotasRequest.EntryData
        everybody = entry(
            entity=[entry.EntityData(entity_type="client-id", entity_name=None)],
            ops=[entry.OpData(key="producer_byte_rate", value=BYTES_PER_S, remove=False)],
        )
        port = int(cluster.admin_bootstrap_servers.rpartition(":")[2])
        answer = ask(port, AlterClientQuotasRequest(entries=[everybody], validate_only=False), cluster="narrow")
        assert [each.error_code for each in answer.entries] == [0]
        yield cluster


class Sender:
    """Appends old records of one producer to a topic, with sequences from 0 on."""

    def __init__(self, cluster: LocalCluster, name: str, producer_id: int) -> None:
        self._cluster, self._name, self._producer_id = cluster, name, producer_id
        self._sequence = 0

    async def throttled(self, client: Client) -> Connection:
        """A connection on which the broker reads nothing for a while."""
        deadline = time.monotonic() + TERM_S
        described = (await client.metadata([self._name])).topics[self._name]
        self._topic_id = described.topic_id
        connection = await client.dial(described.partitions[0].leader)
        # The quota takes effect a moment after it was set.
        while (await self.post(connection, SIZE)).throttle_time_ms < 1000:
            assert time.monotonic() < deadline
        return connection

    def post(self, connection: Connection, size: int) -> asyncio.Future[produce.Answers]:
        """Send a record of this size."""
        return produce.post(
            connection, [self._append(size)], version=self._version(connection), timeout_ms=5000, timeout_s=30.0
        )

    def frame(self, connection: Connection) -> Frame:
        """A request with a small record, to be sent by other means."""
        return produce.encode(
            [self._append(1)],
            version=self._version(connection),
            correlation=connection.next_correlation,
            client_id=connection.client_id,
            timeout_ms=5000,
        )

    def _version(self, connection: Connection) -> int:
        return produce.version_for(connection.api_versions)

    def _append(self, size: int) -> produce.Append:
        old_ms = int(time.time() * 1000) - THREE_DAYS_MS
        batch = next(scan(encode_records([(old_ms, None, bytes(size), [])])))
        header = stamp(batch, self._producer_id, 0, self._sequence)
        self._sequence += 1
        return produce.Append(self._name, self._topic_id, 0, header, batch.view[HEADER_BYTES:])


def test_what_is_given_up_while_the_broker_does_not_read(narrow: LocalCluster, topic: Callable[[str], str]) -> None:
    """It never arrives: not even when the broker reads on, as what others sent it meanwhile does."""
    end = partial(oracle.ends, narrow.admin_bootstrap_servers)

    async def scenario(ours: str, others: str) -> tuple[int, int] | None:
        async with Client(narrow.cluster(), client_id="ours") as mine, Client(narrow.cluster(), client_id="b") as their:
            sender = Sender(narrow, ours, 7000)
            connection = await sender.throttled(mine)
            before = end(ours).stable
            answer = sender.post(connection, 1)
            other = Sender(narrow, others, 8000)
            careless = await other.throttled(their)
            known = end(others).stable
            # Past the connection, which would keep it back.
            for buffer in other.frame(careless).buffers:
                careless._sock.sendall(buffer)
            if time.monotonic() + 0.5 > connection.muted_until:
                # The machine stood still, and the broker may have read on.
                return None
            assert not answer.done()
            connection.close()
            careless.close()
            deadline = time.monotonic() + TERM_S
            while end(others).stable == known:
                assert time.monotonic() < deadline, "what a reset connection left did not arrive"
                await asyncio.sleep(0.1)
            return before, end(ours).stable

    seen = None
    while seen is None:
        names = topic("ours"), topic("others")
        for name in names:
            topics.create(narrow, name)
        seen = asyncio.run(scenario(*names))
    before, after = seen
    assert after == before
