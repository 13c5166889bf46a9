"""Writing to the target: many partitions per request, several requests in flight where that is safe.

A broker works on one request of a connection at a time, and a request costs it more than the bytes in it. So one
connection sends as many lanes together as are ready, and makes up the next request while the broker works on this one.
A second connection helps out where there is enough for both, or where the first one waits for replicas.

A target that is far away, or whose replicas are, would have us wait instead: there batches are joined, and
requests of other lanes follow while answers are on their way.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from isthmus.errors import ClusterError, Unreachable
from isthmus.lane.distance import Distances, worth_bytes
from isthmus.lane.faults import Faults
from isthmus.lane.parcels import FAT_REQUEST_BYTES, Parcel, behind, head
from isthmus.lane.phase import Phase
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.run import LaneRun
from isthmus.lane.writer import DEPTH, AppendVerdict
from isthmus.wire import produce
from isthmus.wire.client import SILENCE_S
from isthmus.wire.connection import Connection
from isthmus.wire.frames import Frame

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
    """What an appender needs of its engine."""

    producer: ProducerIdentity
    faults: Faults
    target_distances: Distances
    throttled_target_s: float

    def may_write(self) -> bool: ...
    def may_send(self) -> bool: ...
    def appended(self, told: list[AnsweredParcel], now_ms: float) -> None: ...
    def divert(self, run: LaneRun) -> None: ...


class Request(NamedTuple):
    """A request ready to be sent. `keys` tell where the answer to each parcel is found."""

    parcels: list[Parcel]
    keys: list[produce.AnswerKey]
    version: int
    frame: Frame

    def is_due(self, now_ms: float) -> bool:
        """Whether there is something in it, and all of it may be sent now."""
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
"""A parcel, what the lane's writer makes of the answer to it, and the answer."""


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
        """The lane has something to send, unless it is sending already."""
        if not run.is_queued and not run.writer.in_flight and run.phase is Phase.FLOWING and run.pending:
            run.is_queued = True
            self._ready.append(run)
            self._wake.set()

    def wake(self) -> None:
        """Something outside has changed: writes are allowed now."""
        self._wake.set()

    def revoke(self) -> None:
        """Permission has lapsed: nothing that is unanswered shall still reach the broker."""
        for connection in list(self._flying):
            connection.revoke()

    @property
    def is_silent(self) -> bool:
        """Whether the broker owes an answer for longer than usual."""
        return any(connection.silent_s > SILENCE_S for connection in self._flying)

    def leave(self, has_moved: Callable[[LaneRun], bool]) -> None:
        """Give up requests the broker has been silent about, if it does not lead those partitions any more."""
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
                    # Connected before there is anything to send: the first batch shall not wait for a handshake.
                    if connection is None or connection.closed or connection.due_for_renewal:
                        if connection is not None:
                            connection.close()
                        connection = await self._dial(self.node_id)
                except ClusterError as error:
                    await self._unreachable(error)
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

    async def _unreachable(self, error: ClusterError) -> None:
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

    async def _append(self, connection: Connection, *, is_first: bool) -> None:
        """Send request after request while there is something to send without a pause."""
        flying: deque[Flight] = deque()
        self._flying[connection] = flying
        try:
            self._post(connection, self._request(connection, self._collect(())))
            while flying:
                ahead = self._fill(connection, is_first=is_first)
                told, throttle_ms = await self._told(flying)
                # The next request leaves before anything else is done: the broker shall not wait.
                if not throttle_ms:
                    self._post(connection, self._following(connection, ahead))
                self._engine.appended(told, time.time() * 1000)
                if throttle_ms:
                    self._throttled_at = time.monotonic()
                    self._engine.throttled_target_s += throttle_ms / 1000
                    await asyncio.sleep(throttle_ms / 1000)
        except ClusterError as error:
            runs = {parcel.run: None for flight in flying for parcel in flight.request.parcels}
            self._engine.faults.append_lost(list(runs), error)
        finally:
            # Lost or cancelled: what is on its way may be in the log or not.
            for flight in flying:
                for parcel in flight.request.parcels:
                    parcel.run.writer.abandon(connection.muted_until)
            del self._flying[connection]

    def _fill(self, connection: Connection, *, is_first: bool) -> Request:
        """The broker is at work: send what may follow at once, and make ready what comes behind."""
        flying = self._flying[connection]
        while True:
            last = flying[-1].request
            # Not if others wait for their turn, or a helper would keep a few lanes from going with the others.
            keeps = not self._ready and (is_first or last.frame.size_bytes >= FAT_REQUEST_BYTES)
            ahead = self._request(connection, self._behind(last) if keeps else [])
            if not self._has_room(flying):
                return ahead
            if ahead.is_due(time.time() * 1000) and self._post(connection, ahead):
                continue
            if not self._far_s or not self._post(connection, self._request(connection, self._collect(()))):
                return ahead

    def _has_room(self, flying: deque[Flight]) -> bool:
        """Whether one more request may be in flight. Not while the target throttles us: it would lie in the broker's
        host for as long, and be appended there although we gave it up.
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
        keys = [parcel.run.answer_keys[by_id] for parcel in parcels]
        return Request(parcels, keys, version, frame)

    def _following(self, connection: Connection, ahead: Request) -> Request:
        """What was made ready, if all of it is due and nobody waits; else a request made of what there is now."""
        if not self._ready and ahead.is_due(time.time() * 1000):
            return ahead
        return self._request(connection, self._collect(ahead.parcels))

    def _post(self, connection: Connection, request: Request) -> bool:
        """Send a request, if there is something to send and it may be sent now; whether it was."""
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

    async def _told(self, flying: deque[Flight]) -> tuple[list[AnsweredParcel], int]:
        """What the broker answers to the oldest request, and for how many ms it asks to be left alone.

        :raises ClusterError: It does not answer.
        """
        answers, throttle_ms = await flying[0].answer
        request, _ = flying.popleft()
        told = []
        for parcel, key in zip(request.parcels, request.keys, strict=True):
            said = answers[key]
            told.append((parcel, parcel.run.writer.answered(said.error_code, said.base_offset), said))
        return told, throttle_ms

    @property
    def _ready_bytes(self) -> int:
        """About how many bytes the heads of the ready lanes have together."""
        pending = self._ready[0].pending if self._ready else ()
        return len(self._ready) * pending[0].batch.size_bytes if pending else 0

    def _collect(self, ahead: Iterable[Parcel]) -> list[Parcel]:
        """What was made ready and is due, then the heads of the ready lanes in turn, as far as there is room."""
        now_ms = time.time() * 1000
        parcels = [parcel for parcel in ahead if parcel.is_due(now_ms)]
        size = sum(parcel.batch.size_bytes for parcel in parcels)
        # Where there is enough for two fat requests, every connection gets its share.
        bytes_max = min(REQUEST_BYTES, max(self._ready_bytes // CONNECTIONS, FAT_REQUEST_BYTES))
        lanes = len(self._ready) + len(parcels)
        worth = worth_bytes(self._far_s)
        while self._ready and size < bytes_max:
            run = self._ready.popleft()
            run.is_queued = False
            if run.is_over or run.phase is not Phase.FLOWING or not run.pending or run.writer.in_flight:
                continue
            parcel = self._head(run, lanes, worth)
            if parcel is not None:
                parcels.append(parcel)
                size += parcel.batch.size_bytes
        return parcels

    def _head(self, run: LaneRun, lanes: int, worth: int) -> Parcel | None:
        """What a lane sends next; None if it needs care and was handed over."""
        first = run.pending[0]
        if first.is_plain and first.batch.base_offset == run.writer.position:
            try:
                return head(run, self._engine.producer, lanes=lanes, worth_bytes=worth)
            except ValueError:
                # What cannot be decoded here may be right all the same: it goes as it is, batch by batch.
                run.pending[0] = first._replace(is_plain=False)
        self._engine.divert(run)
        return None

    def _behind(self, last: Request) -> list[Parcel]:
        """What the lanes of the last request send next."""
        producer, lanes = self._engine.producer, len(last.parcels)
        worth = worth_bytes(self._far_s)
        following = [behind(parcel, producer, lanes=lanes, worth_bytes=worth) for parcel in last.parcels]
        return [parcel for parcel in following if parcel is not None]
