"""Writing to the target: many partitions per request, several connections per broker, one request in flight per lane.

A broker works on one request of a connection at a time, so throughput comes from fat requests on a few connections.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from isthmus.errors import ClusterError, Unreachable
from isthmus.lane.faults import Faults
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.rebatch import join
from isthmus.lane.run import LaneRun
from isthmus.wire import produce
from isthmus.wire.batch import HEADER_BYTES, Batch, stamp
from isthmus.wire.client import SILENCE_S
from isthmus.wire.connection import Connection

CONNECTIONS: Final = 2
REQUEST_BYTES: Final = 1 << 20
JOIN_BELOW_BYTES: Final = 32 << 10
JOIN_BELOW_RECORDS: Final = 128
JOIN_BELOW_RECORDS_COMPRESSED: Final = 32
JOIN_UP_TO_BYTES: Final = 512 << 10
FAT_REQUEST_BYTES: Final = 128 << 10
PRODUCE_TIMEOUT_MS: Final = 10_000
_ANSWER_S: Final = 15.0
_RETRY_S: Final = 0.1


class Writing(Protocol):
    """What an appender needs of its engine."""

    producer: ProducerIdentity
    faults: Faults

    def may_write(self) -> bool: ...
    def appended(self, run: LaneRun, parcel: Parcel, answer: produce.Appended, now_ms: float) -> None: ...
    def needs_care(self, run: LaneRun) -> None: ...


class Parcel(NamedTuple):
    """What one lane sends in one request: `batch` carries the first `pieces` pending pieces."""

    batch: Batch
    pieces: int


class TargetAppender:
    """Appends for all lanes whose target partitions one broker leads."""

    def __init__(self, node_id: int, engine: Writing, dial: Callable[[int], Any]) -> None:
        self.node_id = node_id
        self._engine = engine
        self._dial = dial
        self._ready: deque[LaneRun] = deque()
        self._wake = asyncio.Event()
        self._sending: dict[Connection, list[LaneRun]] = {}

    def offer(self, run: LaneRun) -> None:
        """The lane has something to send, unless it is sending already."""
        if not run.is_queued and not run.writer.in_flight and not run.is_busy and run.is_placed and run.pending:
            run.is_queued = True
            self._ready.append(run)
            self._wake.set()

    def wake(self) -> None:
        """Something outside has changed: writes are allowed now."""
        self._wake.set()

    @property
    def is_silent(self) -> bool:
        """Whether the broker owes an answer for longer than usual."""
        return any(connection.silent_s > SILENCE_S for connection in self._sending)

    def leave(self, has_moved: Callable[[LaneRun], bool]) -> None:
        """Give up requests the broker has been silent about, if it does not lead those partitions any more."""
        for connection, runs in list(self._sending.items()):
            if connection.silent_s > SILENCE_S and any(has_moved(run) for run in runs):
                connection.close(
                    Unreachable(
                        f"{connection.where} is silent and another broker leads {runs[0].lane.key} now",
                        cluster=connection.cluster,
                        hint="The broker may be frozen or cut off; Isthmus goes on with the new leader.",
                    )
                )

    async def run(self) -> None:
        """Append until cancelled, over `CONNECTIONS` connections at once."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(self._run_connection())

    async def _run_connection(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                try:
                    # Connected before there is anything to send: the first batch shall not wait for a handshake.
                    if connection is None or connection.closed or connection.due_for_renewal:
                        if connection is not None:
                            connection.close()
                        connection = await self._dial(self.node_id)
                except ClusterError as error:
                    runs = list(self._ready)
                    self._ready.clear()
                    for run in runs:
                        run.is_queued = False
                    self._engine.faults.append_lost(runs, error)
                    await asyncio.sleep(_RETRY_S)
                    if not self._ready:
                        # A broker that leads nothing we write to may be gone for good.
                        self._wake.clear()
                        await self._wake.wait()
                    continue
                if self._ready and self._engine.may_write():
                    await self._send(connection)
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            if connection is not None:
                connection.close()

    async def _send(self, connection: Connection) -> None:
        parcels = self._collect()
        if not parcels or not self._engine.may_write():
            self._put_back(parcels)
            return
        producer = self._engine.producer
        appends = [
            produce.Append(
                run.lane.target_topic,
                run.lane.target_topic_id,
                run.lane.partition,
                stamp(parcel.batch, producer.producer_id, producer.epoch, run.writer.sequence),
                parcel.batch.view[HEADER_BYTES:],
            )
            for run, parcel in parcels
        ]
        version = version_for(connection, appends)
        correlation = connection.next_correlation
        frame = produce.encode(
            appends,
            version=version,
            correlation=correlation,
            client_id=connection.client_id,
            timeout_ms=PRODUCE_TIMEOUT_MS,
        )
        for run, _ in parcels:
            run.writer.sent()
        runs = self._sending[connection] = [run for run, _ in parcels]
        try:
            future = connection.post_frame(frame, lambda payload, c: produce.decode(payload, c, version))
            answers, throttle_ms = await connection.within(future, _ANSWER_S, "Produce")
        except ClusterError as error:
            for run in runs:
                run.writer.abandon()
            self._engine.faults.append_lost(runs, error)
            return
        except BaseException:
            # Cancelled: the request may be in the log or not.
            for run in runs:
                run.writer.abandon()
            raise
        finally:
            del self._sending[connection]
        now_ms = time.time() * 1000
        for (run, parcel), append in zip(parcels, appends, strict=True):
            self._engine.appended(run, parcel, answers[produce.answer_key(append, version)], now_ms)
        if throttle_ms:
            await asyncio.sleep(throttle_ms / 1000)

    def _collect(self) -> list[tuple[LaneRun, Parcel]]:
        """The heads of the ready lanes, in turn, up to `REQUEST_BYTES`; lanes that need care are handed over."""
        parcels: list[tuple[LaneRun, Parcel]] = []
        size = 0
        lanes = (len(self._ready) + sum(map(len, self._sending.values()))) / CONNECTIONS
        while self._ready and size < REQUEST_BYTES:
            run = self._ready.popleft()
            run.is_queued = False
            if run.is_over or run.is_busy or not run.is_placed or not run.pending or run.writer.in_flight:
                continue
            head = run.pending[0]
            if not head.is_plain or head.batch.base_offset != run.writer.position:
                self._engine.needs_care(run)
                continue
            try:
                parcel = _parcel(run, lanes)
            except ValueError:
                # What cannot be decoded here may be right all the same: it goes as it is, batch by batch.
                if head.stored > 1:
                    run.pending[0] = head._replace(is_plain=False)
                    self._engine.needs_care(run)
                    continue
                parcel = Parcel(head.batch, 1)
            parcels.append((run, parcel))
            size += parcel.batch.size_bytes
        return parcels

    def _put_back(self, parcels: list[tuple[LaneRun, Parcel]]) -> None:
        for run, _ in parcels:
            self.offer(run)


def version_for(connection: Connection, appends: list[produce.Append]) -> int:
    """By topic id where every topic has one, so that a topic of the same name created anew refuses our bytes."""
    version = produce.version_for(connection.api_versions)
    return version if all(append.topic_id.int for append in appends) else min(version, 12)


def _parcel(run: LaneRun, lanes: float) -> Parcel:
    """The head as it is, or several small plain batches that follow one another joined into one.

    Joining costs about half a microsecond a record (one where it is compressed), sending a batch by itself some twenty,
    and a request a quarter of a millisecond. So batches of few records are joined; larger ones go as they are, and
    certainly where the heads of `lanes` lanes make a fat request together.
    """
    head = run.pending[0]
    codec = head.batch.codec
    small = head.batch.record_count < (JOIN_BELOW_RECORDS_COMPRESSED if codec else JOIN_BELOW_RECORDS)
    thin = head.batch.size_bytes * lanes < FAT_REQUEST_BYTES
    if head.stored == 1 and not (small and thin and len(run.pending) > 1):
        return Parcel(head.batch, 1)
    limit = min(JOIN_UP_TO_BYTES, run.lane.batch_bytes_max // 2)
    batches: list[Batch] = []
    end, size = head.batch.base_offset, 0
    for piece in run.pending:
        batch = piece.batch
        size += len(batch.view)
        if (
            not piece.is_plain
            or batch.base_offset != end
            or batch.codec != codec
            # Records without a timestamp would get that of another in the batch they are joined to.
            or batch.base_timestamp < 0
            or len(batch.view) >= (JOIN_BELOW_BYTES if piece.stored == 1 else limit)
            or size > limit
        ):
            break
        batches.append(batch)
        end = batch.offset_end
    if head.stored == 1 and len(batches) < 2:
        return Parcel(head.batch, 1)
    return Parcel(join(batches or [head.batch]), max(len(batches), 1))
