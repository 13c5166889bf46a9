"""A cluster with one partition, whose leader reads from what a test has stored there."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Final, cast

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.listoffsets import EARLIEST, EARLIEST_LOCAL
from isthmus.kafka.metadata import Broker, Metadata, PartitionMetadata, TopicMetadata
from isthmus.model.cluster import Cluster

TOPIC: Final = "orders"
KEY: Final = (TOPIC, 0)
NODE: Final = 1
_BROKER: Final = Broker(NODE, "127.0.0.1", 1, None)
_LAST_DELTA: Final = 6
_FETCH, _LIST_OFFSETS = 1, 2


class StoredLog(Client):
    """The partition `KEY` from `start` to `end`; `asked` are the requests that came, `apart` those over connections of
    their own, which are `open` until they are closed.

    A leader that knows replication only up to `shown` shows no more in its answers to Fetch. What lies before
    `local_start` is in a remote tier, and too slow for any request that waits less than `tier_ms`. With `preferred` it
    has its readers read from that replica. The first answer about the topic has the id `named_first`, if given. Each of
    several `partitions` has the same log.
    """

    def __init__(
        self,
        batches: Iterable[bytes],
        *,
        start: int = 0,
        end: int,
        shown: int | None = None,
        local_start: int = 0,
        tier_ms: int = 0,
        preferred: int = -1,
        named_first: uuid.UUID | None = None,
        partitions: int = 1,
    ) -> None:
        super().__init__(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",)))
        self.asked: list[Any] = []
        self.apart: list[Any] = []
        self.open: list[Connection] = []
        self.topic_id = uuid.UUID(int=7)
        self.shown = end if shown is None else shown
        headers = [(HEADER.unpack_from(batch), batch) for batch in batches]
        self._stored = [(fields[0] + fields[_LAST_DELTA] + 1, batch) for fields, batch in headers]
        self._starts = {EARLIEST: start, EARLIEST_LOCAL: local_start}
        self._end = end
        self._tier_ms = tier_ms
        self._preferred = preferred
        self._named_first = named_first
        self._partition_count = partitions

    async def metadata(self, topics: Iterable[str] | None = None, *, node_id: int | None = None) -> Metadata:
        named, self._named_first = self._named_first or self.topic_id, None
        led = tuple(PartitionMetadata(each, NODE, 0, (NODE,), (NODE,), 0) for each in range(self._partition_count))
        return Metadata(None, NODE, {NODE: _BROKER}, {TOPIC: TopicMetadata(TOPIC, named, led, 0, False)})

    async def connection(self, node_id: int) -> Connection:
        versions = {_FETCH: (4, 17), _LIST_OFFSETS: (1, 10)}
        led = SimpleNamespace(call=self._call, where="nowhere", cluster="nowhere", api_versions=versions)
        return cast(Connection, led)

    async def dial(self, node_id: int) -> Connection:
        shared = await self.connection(node_id)

        async def call(request: Any, **_: Any) -> Any:
            self.apart.append(request)
            return await self._call(request)

        attributes = {**vars(shared), "call": call, "closed": False, "due_for_renewal": False}
        own: Connection = cast(Connection, SimpleNamespace(**attributes, close=lambda: self.open.remove(own)))
        self.open.append(own)
        return own

    async def _call(self, request: Any, **_: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, ListOffsetsRequest):
            offset = self._starts.get(request.topics[0].partitions[0].timestamp, self._end)
            listed = SimpleNamespace(partition_index=0, error_code=codes.NONE, offset=offset)
            return SimpleNamespace(topics=[SimpleNamespace(name=TOPIC, partitions=[listed])])
        assert isinstance(request, FetchRequest)
        (topic,) = request.topics
        offset, number = topic.partitions[0].fetch_offset, topic.partitions[0].partition
        is_other = topic.topic_id != self.topic_id
        is_outside = not self._starts[EARLIEST] <= offset <= self._end
        is_slow = offset < self._starts[EARLIEST_LOCAL] and request.max_wait_ms < self._tier_ms
        is_read = not (is_other or is_outside or is_slow or self._preferred >= 0)
        part = SimpleNamespace(
            partition_index=number,
            error_code=codes.UNKNOWN_TOPIC_ID if is_other else codes.OFFSET_OUT_OF_RANGE if is_outside else codes.NONE,
            last_stable_offset=-1,
            log_start_offset=self._starts[EARLIEST],
            aborted_transactions=None,
            records=b"".join(self._from(offset)) if is_read else b"",
            high_watermark=self.shown,
            preferred_read_replica=self._preferred,
        )
        return SimpleNamespace(
            API_VERSION=13,
            error_code=codes.NONE,
            throttle_time_ms=0,
            session_id=0,
            responses=[SimpleNamespace(topic_id=topic.topic_id, partitions=[part])],
        )

    def _from(self, offset: int) -> Iterable[bytes]:
        return (batch for offset_end, batch in self._stored if offset < offset_end <= self.shown)
