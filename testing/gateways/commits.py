"""Commits that a gateway holds back, and clients that wait for them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from kafka.protocol.producer import WriteTxnMarkersRequest

from isthmus.engine.same.filler import filler
from isthmus.kafka.batches.batch import HEADER_BYTES, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.produce import Append, post
from isthmus.model.kafka.transactions import lone_producer_id
from testing.gateways.gateways import Running
from testing.patience import TERM_S
from testing.records import topics

HELD_S = 0.3


class Doing:
    """Something that a client waits for, in a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._found: list[Any] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it has been answered."""
        return not self._thread.is_alive()

    def result(self) -> Any:
        """What came of it."""
        self._thread.join(TERM_S)
        (found,) = self._found
        if isinstance(found, Exception):
            raise found
        return found

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except Exception as error:  # noqa: BLE001 - it is raised where it is asked for
            self._found.append(error)


def await_held(front: Running, answers: int = 1) -> None:
    """Wait until so many answers are held, and see that they stay."""
    assert front.gateway.keeper is not None
    deadline = time.monotonic() + TERM_S
    while sum(each.answers for each in front.gateway.keeper.count_held().values()) < answers:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(HELD_S)


class Log:
    """A partition of the follower, written as lanes do."""

    def __init__(self, client: Client, name: str, partition: int = 0) -> None:
        self._client = client
        self.name = name
        self.partition = partition

    async def end(self) -> int:
        """Where it ends."""
        key = self.name, self.partition
        return (await log_ranges(self._client, [key])).values[key].end

    async def _part(self) -> Any:
        every = (await self._client.metadata([self.name])).topics[self.name].partitions
        return next(each for each in every if each.partition == self.partition)

    async def write(self, producer: int, *, sequence: int = 0) -> int:
        """A record in a transaction; its offset."""
        part, topic_id = await self._part(), (await self._client.metadata([self.name])).topics[self.name].topic_id
        connection = await self._client.connection(part.leader)
        at, batch = await self.end(), filler(1, topics.SEPTEMBER)
        header = stamp(batch, lone_producer_id(producer), 0, sequence, transactional=True)
        append = Append(self.name, topic_id, self.partition, header, batch.view[HEADER_BYTES:])
        answers, _ = await post(
            connection, [append], version=11, timeout_ms=10_000, timeout_s=TERM_S, transactional_id=self.name
        )
        assert [each.error_code for each in answers.values()] == [0]
        return at

    async def finish(self, producer: int, *, commit: bool) -> None:
        """The end of one."""
        kind: Any = WriteTxnMarkersRequest.WritableTxnMarker
        marker = kind(
            producer_id=lone_producer_id(producer),
            producer_epoch=0,
            transaction_result=commit,
            topics=[kind.WritableTxnMarkerTopic(name=self.name, partition_indexes=[self.partition])],
            coordinator_epoch=0,
            transaction_version=0,
        )
        end = await self.end()
        await self._client.broker((await self._part()).leader, WriteTxnMarkersRequest(markers=[marker]))
        while await self.end() == end:
            await asyncio.sleep(0.01)
