"""A cluster as the ledger sees it: it notes what it is asked and answers as it is told."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from kafka.protocol.consumer import ListOffsetsRequest

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.metadata import Broker, Metadata, PartitionMetadata, TopicMetadata
from isthmus.ledger.topic import LEDGER_TOPIC, PARTITION
from isthmus.model.cluster import Cluster

NODE: Final = 1
LEDGER_ID: Final = uuid.UUID(int=5)
ResultT = TypeVar("ResultT")


class Answering(Client):
    """A client whose every request gets the next of `answers`, or raises it; `asked` are the requests.

    Where a log ends is told without an answer for it, as long as none comes next: at its beginning.
    """

    def __init__(self, answers: Iterable[Any]) -> None:
        super().__init__(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",)))
        self.asked: list[Any] = []
        self.topic_id = LEDGER_ID
        self._answers = deque(answers)

    async def metadata(self, topics: Iterable[str] | None = None, *, node_id: int | None = None) -> Metadata:
        partition = PartitionMetadata(PARTITION, NODE, 0, (NODE,), (NODE,), 0)
        topic = TopicMetadata(LEDGER_TOPIC, self.topic_id, (partition,), 0, False)
        return Metadata(None, NODE, {NODE: Broker(NODE, "127.0.0.1", 1, None)}, {LEDGER_TOPIC: topic})

    async def dial(self, *_: Any, **__: Any) -> Connection:
        return cast(Connection, self._connection())

    async def coordinator(self, kind: str, key: str, request: Any, **_: Any) -> Any:
        return self._answer(request)

    def _connection(self) -> Any:
        async def call(request: Any, **_: Any) -> Any:
            return self._answer(request)

        return SimpleNamespace(
            call=call, where="nowhere", cluster="nowhere", close=lambda: None, closed=False, due_for_renewal=False
        )

    def _answer(self, request: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, ListOffsetsRequest) and hasattr(self._answers[0], "responses"):
            self.asked.pop()
            return listed(0)
        answer = self._answers.popleft()
        if isinstance(answer, BaseException):
            raise answer
        for topic in getattr(answer, "responses", ()):
            topic.topic_id = self.topic_id
        return answer


def fetched(stored: bytes, *, high_watermark: int, error_code: int = codes.NONE, diverged_at: int = -1) -> Any:
    """The answer to a fetch; `diverged_at` is where the log leaves what was read of it."""
    partition = SimpleNamespace(
        partition_index=PARTITION,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=-1,
        log_start_offset=0,
        diverging_epoch=None if diverged_at < 0 else SimpleNamespace(epoch=0, end_offset=diverged_at),
        aborted_transactions=None,
        records=stored,
    )
    topic = SimpleNamespace(partitions=[partition])
    return SimpleNamespace(API_VERSION=13, error_code=codes.NONE, responses=[topic], throttle_time_ms=0)


def held_back(throttle_ms: int) -> Any:
    """The answer to a fetch of a broker over a quota."""
    return SimpleNamespace(API_VERSION=13, error_code=codes.NONE, responses=[], throttle_time_ms=throttle_ms)


def listed(offset: int, *, error_code: int = codes.NONE) -> Any:
    """The answer to ListOffsets."""
    partition = SimpleNamespace(partition_index=0, error_code=error_code, offset=offset)
    return SimpleNamespace(topics=[SimpleNamespace(name="__isthmus.ledger", partitions=[partition])])


def asking(answers: Iterable[Any], work: Callable[[Answering], Awaitable[ResultT]]) -> ResultT:
    """Do something with a cluster that answers so."""

    async def scenario() -> ResultT:
        async with Answering(answers) as client:
            return await work(client)

    return asyncio.run(scenario())
