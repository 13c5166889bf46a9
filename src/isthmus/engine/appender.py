"""Writing to the target: many partitions per request, several requests in flight where that is safe.

A broker works on one request of a connection at a time, and a request costs it more than the bytes in it. So one
connection sends as many lanes together as are ready, and makes up the next request while the broker works on this one.
A second connection helps out where there is enough for both, or where the first one waits for replicas.

A target that is far away, or whose replicas are far away, answers late. There the appender joins batches, and sends
requests of other lanes while answers are on their way.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from isthmus.engine.brokers.distance import Distances, worth_bytes
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.faults import Faults
from isthmus.engine.parcels import FAT_REQUEST_BYTES, Parcel, behind, head
from isthmus.engine.run import LaneRun
from isthmus.engine.state.phase import Phase
from isthmus.engine.state.writer import DEPTH, AppendVerdict
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.client import SILENCE_S
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.connect.frames import Frame
from isthmus.kafka.log import produce

CONNECTIONS: Final = 2
REQUEST_BYTES: Final = 1 << 20
HELP_AFTER_S: Final = 0.001
"""How long a few ready lanes wait for the first connection before the second one takes them."""
PRODUCE_TIMEOUT_MS: Final = 10_000
_ANSWER_S: Final = 15.0
_THROTTLED_S: Final = 60.0
"""Quotas count what was sent in the last ten seconds or so, and throttle again."""
_RETRY_S: Final = 0.1


class Writing(Protocol):
    """The part of the engine that an appender uses."""

    producer: ProducerIdentity
    faults: Faults
    target_distances: Distances
    throttled_target_s: float

    def may_write(self) -> bool: ...
    def may_send(self) -> bool: ...
    def appended(self, results: list[AnsweredParcel], now_ms: float) -> None: ...
    def divert(self, run: LaneRun) -> None: ...


class Request(NamedTuple):
    """A request ready to be sent. `keys` locate the answer to each parcel."""

    parcels: list[Parcel]
    keys: list[produce.AnswerKey]
    version: int
    frame: Frame

    def is_due(self, now_ms: float) -> bool:
        """Whether the request has parcels, and all of them may be sent now."""
        for parcel in self.parcels:
            if not parcel.is_due(now_ms):
                return False
        return bool(self.parcels)


class Flight(NamedTuple):
    """A request that was sent, and the future of its answer."""

    request: Request
    answer: asyncio.Future[Any]


_NOTHING: Final = Request([], [], 0, Frame([], 0))
AnsweredParcel = tuple[Parcel, AppendVerdict, produce.Appended]
"""A parcel, the verdict of the lane's writer on the answer to it, and the answer."""


class TargetAppender:
    """Appends for all lanes whose target partitions one broker leads."""

    def __init__(self, node_id: int, engine: Writing, dial: Callable[[int], Any]) -> None:
        self.node_id = node_id
        self._engine = engine
        self._dial = dial
        self._ready: deque[LaneRun] = deque()
        self._wake = asyncio.Event()
        self._flying: dict[Connection, deque[Flight]] = {}
        self._throttled_at = -math.inf

    def offer(self, run: LaneRun) -> None:
        """Queue the lane if it has something to send and nothing in flight."""
        if not run.writer.in_flight and run.phase is Phase.FLOWING and run.intake.pending:
            self.queue(run)

    def queue(self, run: LaneRun) -> None:
        """Queue a lane that has something to send and nothing in flight, unless it is queued."""
        schedule = run.schedule
        if not schedule.is_queued:
            schedule.queue()
            self._ready.append(run)
            self._wake.set()

    def wake(self) -> None:
        """Check again for work: writes may be allowed now."""
        self._wake.set()

    def revoke(self) -> None:
        """Permission to write has lapsed: keep unanswered requests from reaching the broker."""
        for connection in list(self._flying):
            connection.revoke()

    @property
    def is_silent(self) -> bool:
        """Whether the broker owes an answer for longer than usual."""
        return any(connection.silent_s > SILENCE_S for connection in self._flying)

    def leave(self, has_moved: Callable[[LaneRun], bool]) -> None:
        """Close connections on which the broker is silent, if it does not lead their partitions any more."""
        for connection, flying in list(self._flying.items()):
            runs = [parcel.run for flight in flying for parcel in flight.request.parcels]
            moved = [run for run in runs if has_moved(run)]
            if moved and connection.silent_s > SILENCE_S:
                connection.close(
                    Unreachable(
                        f"{connection.where} is silent and another broker leads {moved[0].lane.key} now",
                        cluster=connection.cluster,
                        hint="The broker may be frozen or cut off; Isthmus goes on with the new leader.",
                    )
                )

    async def run(self) -> None:
        """Append until cancelled, over `CONNECTIONS` connections at once."""
        async with asyncio.TaskGroup() as group:
            for index in range(CONNECTIONS):
                group.create_task(self._run_connection(is_first=index == 0))

    async def _run_connection(self, *, is_first: bool) -> None:
        connection: Connection | None = None
        try:
            while True:
                try:
                    # Connect before there is anything to send, so that the first batch does not wait for a handshake.
                    if connection is None or connection.closed or connection.due_for_renewal:
                        if connection is not None:
                            connection.close()
                        connection = await self._dial(self.node_id)
                except ClusterError as error:
                    await self._wait_for_broker(error)
                    continue
                if not is_first and self._ready and self._ready_bytes < FAT_REQUEST_BYTES:
                    await asyncio.sleep(HELP_AFTER_S)
                if self._ready and self._engine.may_write():
                    await self._append(connection, is_first=is_first)
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            if connection is not None:
                connection.close()

    async def _wait_for_broker(self, error: ClusterError) -> None:
        """Report the queued lanes as lost, and pause; then wait until a lane is queued."""
        runs = list(self._ready)
        self._ready.clear()
        for run in runs:
            run.schedule.unqueue()
        self._engine.faults.append_lost(runs, error)
        await asyncio.sleep(_RETRY_S)
        if not self._ready:
            # A broker that leads none of our target partitions may be gone for good.
            self._wake.clear()
            await self._wake.wait()

    async def _append(self, connection: Connection, *, is_first: bool) -> None:
        """Send request after request while there is something to send without a pause."""
        flying: deque[Flight] = deque()
        self._flying[connection] = flying
        try:
            self._post(connection, self._request(connection, self._collect(())))
            while flying:
                ahead = self._fill(connection, is_first=is_first)
                results, throttle_ms = await self._receive_answer(flying)
                # Send the next request before anything else, so that the broker does not wait.
                if not throttle_ms:
                    self._post(connection, self._choose_next(connection, ahead))
                self._engine.appended(results, time.time() * 1000)
                if throttle_ms:
                    self._throttled_at = time.monotonic()
                    self._engine.throttled_target_s += throttle_ms / 1000
                    await asyncio.sleep(throttle_ms / 1000)
        except ClusterError as error:
            runs = {parcel.run: None for flight in flying for parcel in flight.request.parcels}
            self._engine.faults.append_lost(list(runs), error)
        finally:
            # Lost or cancelled: requests on their way may be in the log or not.
            for flight in flying:
                for parcel in flight.request.parcels:
                    parcel.run.writer.abandon(connection.muted_until)
            del self._flying[connection]

    def _fill(self, connection: Connection, *, is_first: bool) -> Request:
        """While the broker works, send the requests that may follow at once; return the prepared one behind them."""
        flying = self._flying[connection]
        while True:
            last = flying[-1].request
            # Not if other lanes wait for their turn, or the second connection would keep a few lanes from joining them.
            keeps = not self._ready and (is_first or last.frame.size_bytes >= FAT_REQUEST_BYTES)
            ahead = self._request(connection, self._follow_up(last) if keeps else [])
            if not self._has_room(flying):
                return ahead
            if ahead.is_due(time.time() * 1000) and self._post(connection, ahead):
                continue
            if not self._far_s or not self._post(connection, self._request(connection, self._collect(()))):
                return ahead

    def _has_room(self, flying: deque[Flight]) -> bool:
        """Whether one more request may be in flight. Not while the target throttles us: the request would wait in the
        broker's socket buffer and be appended later, although we gave it up.
        """
        if len(flying) >= DEPTH or time.monotonic() - self._throttled_at < _THROTTLED_S:
            return False
        return self._far_s > 0 or flying[-1].request.frame.size_bytes < REQUEST_BYTES

    @property
    def _far_s(self) -> float:
        return self._engine.target_distances.far_s(self.node_id)

    def _request(self, connection: Connection, parcels: list[Parcel]) -> Request:
        if not parcels:
            return _NOTHING
        appends = [parcel.append for parcel in parcels]
        version = produce.version_for(connection.api_versions, appends)
        frame = produce.encode(
            appends,
            version=version,
            correlation=connection.next_correlation,
            client_id=connection.client_id,
            timeout_ms=PRODUCE_TIMEOUT_MS,
        )
        by_id = produce.by_id(version)
        keys = [parcel.run.keys.answers[by_id] for parcel in parcels]
        return Request(parcels, keys, version, frame)

    def _choose_next(self, connection: Connection, ahead: Request) -> Request:
        """Return the prepared request if all of it is due and no lane waits; else build one from what is ready now."""
        if not self._ready and ahead.is_due(time.time() * 1000):
            return ahead
        return self._request(connection, self._collect(ahead.parcels))

    def _post(self, connection: Connection, request: Request) -> bool:
        """Send a request if it has parcels and may be sent now. Return whether it was sent."""
        is_usable = not connection.closed and not connection.due_for_renewal
        if not request.parcels or not is_usable or not self._engine.may_write():
            for parcel in request.parcels:
                self.offer(parcel.run)
            return False
        answer = connection.post_frame(
            request.frame,
            partial(produce.decode, version=request.version),
            timeout_s=_ANSWER_S,
            what="Produce",
            may_send=self._engine.may_send,
        )
        for parcel in request.parcels:
            batch = parcel.batch
            parcel.run.writer.sent(batch.record_count, batch.max_timestamp)
        self._flying[connection].append(Flight(request, answer))
        return True

    async def _receive_answer(self, flying: deque[Flight]) -> tuple[list[AnsweredParcel], int]:
        """Await the answer to the oldest request. Return its results, and the throttle time in ms.

        :raises ClusterError: The broker does not answer.
        """
        answers, throttle_ms = await flying[0].answer
        request, _ = flying.popleft()
        results = []
        for parcel, key in zip(request.parcels, request.keys, strict=True):
            outcome = answers[key]
            results.append((parcel, parcel.run.writer.answered(outcome.error_code, outcome.base_offset), outcome))
        return results, throttle_ms

    @property
    def _ready_bytes(self) -> int:
        """The estimated size in bytes of the heads of all ready lanes together."""
        pending = self._ready[0].intake.pending if self._ready else ()
        return len(self._ready) * pending[0].batch.size_bytes if pending else 0

    def _collect(self, ahead: Iterable[Parcel]) -> list[Parcel]:
        """Return the prepared parcels that are due, then the heads of ready lanes in turn, up to the request size."""
        now_ms = time.time() * 1000
        parcels = [parcel for parcel in ahead if parcel.is_due(now_ms)]
        size = sum(parcel.batch.size_bytes for parcel in parcels)
        # Where there is enough for two large requests, every connection gets its share.
        bytes_max = min(REQUEST_BYTES, max(self._ready_bytes // CONNECTIONS, FAT_REQUEST_BYTES))
        lanes = len(self._ready) + len(parcels)
        worth = worth_bytes(self._far_s)
        while self._ready and size < bytes_max:
            run = self._ready.popleft()
            run.schedule.unqueue()
            if run.health.is_over or run.phase is not Phase.FLOWING or not run.intake.pending or run.writer.in_flight:
                continue
            parcel = self._head(run, lanes, worth)
            if parcel is not None:
                parcels.append(parcel)
                size += parcel.batch.size_bytes
        return parcels

    def _head(self, run: LaneRun, lanes: int, worth: int) -> Parcel | None:
        """Build the next parcel of a lane; None if its first piece is not plain and the lane was diverted."""
        first = run.intake.pending[0]
        if first.is_plain and first.batch.base_offset == run.writer.position:
            try:
                return head(run, self._engine.producer, lanes=lanes, worth_bytes=worth)
            except ValueError:
                # Batches that cannot be decoded here may be valid all the same: send them as they are, one by one.
                run.intake.divert_head()
        self._engine.divert(run)
        return None

    def _follow_up(self, last: Request) -> list[Parcel]:
        """Build the parcels that follow those of the last request."""
        producer, lanes = self._engine.producer, len(last.parcels)
        worth = worth_bytes(self._far_s)
        following = [behind(parcel, producer, lanes=lanes, worth_bytes=worth) for parcel in last.parcels]
        return [parcel for parcel in following if parcel is not None]
