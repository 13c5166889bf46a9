"""Prebuilt batches poured into a topic as fast as its broker takes them.

Fills the sources, and is itself a contender: the ceiling. It sends what a copier sends (the same batches, many
partitions per request) but has no source to read and stamps nothing while it runs.

    python -m bench.pouring '{"bootstrap_servers": ..., "topic": ..., "codec": ..., "batch_records": ..., ...}'
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from bench.payload import Shape, templates
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log import produce
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.rights import on_topic

CONNECTIONS: Final = 2
_IN_FLIGHT: Final = 5
_REQUEST_BYTES: Final = 1 << 20
_ANSWER_S: Final = 60.0
_NO_PRODUCER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pour:
    """What to pour: `batches` batches into each partition of a topic."""

    bootstrap_servers: str
    topic: str
    partitions: int
    batches: int
    codec: str
    batch_records: int

    @property
    def records(self) -> int:
        return self.partitions * self.batches * self.batch_records

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Stamped:
    """A batch ready to be sent."""

    header: bytes
    records: memoryview

    @property
    def size_bytes(self) -> int:
        return len(self.header) + len(self.records)


async def pour(task: Pour, batches: Sequence[Batch] = ()) -> None:
    """Send everything and wait until all of it is durable: these batches into every partition, again and again; else
    those of the task, in every partition from another one on.

    :raises ClusterError: The broker refused a batch or does not answer.
    """
    # Without a producer id nothing depends on the place in the log, so all can be stamped beforehand.
    shape = Shape(codec=task.codec, batch_records=task.batch_records)
    ready = [_stamped(batch) for batch in batches or templates(shape)]
    cluster = Cluster(alias="target", bootstrap_servers=(task.bootstrap_servers,))
    async with Client(cluster, client_id="ceiling") as client:
        topic = (await client.metadata([task.topic])).topics[task.topic]
        leader = topic.partitions[0].leader
        connections = [await client.dial(leader) for _ in range(min(CONNECTIONS, task.partitions))]
        shares = [range(index, task.partitions, len(connections)) for index in range(len(connections))]
        async with asyncio.TaskGroup() as group:
            for connection, share in zip(connections, shares, strict=True):
                group.create_task(
                    _pour_share(connection, task, topic.topic_id, share, ready, shift=0 if batches else 1)
                )
        for connection in connections:
            connection.close()


def _stamped(batch: Batch) -> Stamped:
    return Stamped(stamp(batch, _NO_PRODUCER, -1, -1), batch.view[HEADER_BYTES:])


async def _pour_share(
    connection: Connection,
    task: Pour,
    topic_id: uuid.UUID,
    partitions: Sequence[int],
    ready: Sequence[Stamped],
    *,
    shift: int,
) -> None:
    waiting: deque[asyncio.Future[produce.Answers]] = deque()
    per_request = max(_REQUEST_BYTES // max(stamped.size_bytes for stamped in ready), 1)
    for turn in range(task.batches):
        for begin in range(0, len(partitions), per_request):
            appends = [
                _append(task.topic, topic_id, partition, ready[(turn + partition * shift) % len(ready)])
                for partition in partitions[begin : begin + per_request]
            ]
            waiting.append(_post(connection, appends))
            if len(waiting) >= _IN_FLIGHT:
                _check(await waiting.popleft())
    while waiting:
        _check(await waiting.popleft())


def _append(topic: str, topic_id: uuid.UUID, partition: int, stamped: Stamped) -> produce.Append:
    return produce.Append(topic, topic_id, partition, stamped.header, stamped.records)


def _post(connection: Connection, appends: Sequence[produce.Append]) -> asyncio.Future[produce.Answers]:
    version = produce.version_for(connection.api_versions)
    return produce.post(connection, appends, version=version, timeout_ms=30_000, timeout_s=_ANSWER_S)


def _check(answer: produce.Answers) -> None:
    for (_, partition), appended in answer[0].items():
        if appended.error_code != codes.NONE:
            what, right = f"pouring into partition {partition}", on_topic("WRITE")
            raise codes.error_for(appended.error_code, what, right, cluster="target")


if __name__ == "__main__":
    asyncio.run(pour(Pour(**json.loads(sys.argv[1]))))
