"""Reading the source: one fetch session per broker, long polls, many partitions per request."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from isthmus.engine.batches.pieces import pieces
from isthmus.engine.batches.rebatch import dense
from isthmus.engine.brokers.distance import RESPONSE_BYTES, Distances, next_bytes
from isthmus.engine.brokers.room import Room
from isthmus.engine.faults import Faults
from isthmus.engine.gate import SchemaMissing, admitted
from isthmus.engine.run import LaneRun
from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import Batch, spans
from isthmus.kafka.client import SILENCE_S
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.fetch import Fetched, FetchSession, Throttle, Want
from isthmus.kafka.log.listoffsets import READ_COMMITTED, READ_UNCOMMITTED
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.model.naming import SourceTopic, SourceTopicPartition
from isthmus.model.schemas.gate import SchemaIds
from isthmus.model.trees.switching import Allowance

LONG_POLL_MS: Final = 500
SHORT_POLL_MS: Final = 5
PAUSE_BYTES: Final = 256 << 10
"""After decoding so much of an answer, let other coroutines run, so that the target is kept busy."""
TINY_BYTES: Final = 2 << 10
SPAN_BYTES: Final = 64 << 10
_ANSWER_S: Final = 15.0
_RETRY_S: Final = 0.2
_ROOM_S: Final = 0.1
_SOON_S: Final = 0.1
_BEYOND_S: Final = 0.5
"""The pause in seconds before asking again for a lane that is further than the source's committed records."""


class Reading(Protocol):
    """The part of the engine that a reader uses."""

    faults: Faults
    room: Room
    source_distances: Distances
    throttled_source_s: float
    schemas: SchemaIds

    def received(self, run: LaneRun, size_bytes: int) -> None: ...


class SourceReader:
    """Reads the lanes of one isolation level whose source partitions one broker leads. `run()` is a coroutine."""

    def __init__(
        self, node_id: int, engine: Reading, dial: Callable[[int], Any], *, isolation: int = READ_COMMITTED
    ) -> None:
        self.node_id = node_id
        self._engine = engine
        self._dial = dial
        self._is_all = isolation == READ_UNCOMMITTED
        self._session = FetchSession[SourceTopic](isolation=isolation)
        self._lanes: dict[SourceTopicPartition, LaneRun] = {}
        self._epochs: dict[SourceTopicPartition, int] = {}
        self._asked_at: dict[LaneRun, float] = {}
        self._full: set[LaneRun] = set()
        self._at_end: set[LaneRun] = set()
        self._beyond: set[LaneRun] = set()
        self._nameless: set[LaneRun] = set()
        self._wake = asyncio.Event()
        self._is_asking = False
        self._connection: Connection | None = None
        self._response_bytes = RESPONSE_BYTES
        self._confirmed_since = self._confirmed_at = -math.inf
        self._is_limited = False
        self._short_poll_ms = SHORT_POLL_MS
        self._has_drained = False
        self._throttle = Throttle(RESPONSE_BYTES)

    def __contains__(self, run: LaneRun) -> bool:
        return self._lanes.get(run.source) is run

    def add(self, run: LaneRun, leader_epoch: int) -> None:
        """Read a lane from its `read_offset` on; also called when that offset or the epoch has changed."""
        self._lanes[run.source] = run
        run.join(self)
        self._epochs[run.source] = leader_epoch
        if run.lane.source_topic_id == NO_TOPIC_ID:
            self._nameless.add(run)
        self._full.discard(run)
        self._at_end.discard(run)
        self._beyond.discard(run)
        run.schedule.admit()
        self._want(run)
        self._wake.set()

    def remove(self, run: LaneRun) -> None:
        """Stop reading a lane."""
        self._lanes.pop(run.source, None)
        run.leave(self)
        self._asked_at.pop(run, None)
        self._nameless.discard(run)
        self._full.discard(run)
        self._at_end.discard(run)
        self._beyond.discard(run)
        self._session.forget(run.source)

    @property
    def held(self) -> list[LaneRun]:
        """The lanes that are in no fetch request now: all while reading pauses, else those that have enough pending or
        may not go further.
        """
        return list(self._full | self._at_end | self._beyond if self._is_asking else self._lanes.values())

    def found_end(self, run: LaneRun, now: float) -> float:
        """When (monotonic s) the source was last found to have nothing more for the lane to read now; `-inf` for never.

        Within a session a broker leaves unchanged partitions out. So any answer to a request made since the lane is
        read from this offset proves as much, unless a quota emptied it (`_note_answer`).
        """
        if run in self._at_end or run in self._beyond or (self._is_limited and run.source in self._session):
            # The lane is as far as it may go, or reading is held back by a rate limit.
            return now
        return (
            self._confirmed_at
            if self._is_covered(run) and run.intake.read_offset >= run.source_log.end >= 0
            else -math.inf
        )

    def told_at(self, run: LaneRun) -> float:
        """When (monotonic s) an answer of the source last covered the lane, changed or not; `-inf` for never."""
        return self._confirmed_at if self._is_covered(run) else -math.inf

    def _is_covered(self, run: LaneRun) -> bool:
        """Whether an answer since the lane is read from its present offset covers it."""
        return self._confirmed_since > self._asked_at.get(run, math.inf) and run.source in self._session

    def _note_answer(self, answer: Any, asked_at: float) -> None:
        """Note an answer that covers all lanes. One throttled by a quota may be empty although the logs hold more."""
        if answer.responses or not answer.throttle_time_ms:
            self._confirmed_since, self._confirmed_at = asked_at, time.monotonic()

    @property
    def is_silent(self) -> bool:
        """Whether the broker owes an answer for longer than a long poll explains."""
        return self._connection is not None and self._connection.silent_s > SILENCE_S

    def leave(self, has_moved: Callable[[LaneRun], bool]) -> list[LaneRun]:
        """If the broker is silent, stop reading lanes it does not lead any more. Return them, to be read elsewhere."""
        moved = [run for run in self._lanes.values() if has_moved(run)] if self.is_silent else []
        for run in moved:
            self.remove(run)
        return moved

    def drained(self, run: LaneRun) -> None:
        """Read more of a full lane: some of its pending bytes were released."""
        if run in self._full:
            self._has_drained = True
            self._admit(run)

    def _admit(self, run: LaneRun) -> None:
        """Ask for more of a full lane, if there is room for it."""
        if run.intake.size_bytes < self._share_bytes(run) / 2:
            self._full.discard(run)
            run.schedule.admit()
            self._want(run)
            self._wake.set()

    def shortened(self, run: LaneRun) -> None:
        """Stop fetching a lane whose pending pieces were dropped because it does not advance, until it does."""
        self._at_end.discard(run)
        self._fill(run)

    def _fill(self, run: LaneRun) -> None:
        self._full.add(run)
        run.schedule.fill()
        self._session.forget(run.source)
        self._short_poll_ms = SHORT_POLL_MS

    def _share_bytes(self, run: LaneRun) -> int:
        """How many pending bytes the lane may have now. A stuck lane gets no more than it has, or one answer."""
        return 1 if run.schedule.is_stuck else self._engine.room.share_bytes

    def allow(self, allowances: Mapping[SourceTopicPartition, Allowance]) -> None:
        """Let lanes read up to their allowances."""
        for run in self._lanes.values():
            if run.allow(allowances) and run in self._at_end:
                self._at_end.discard(run)
                self._want(run)
                self._wake.set()

    def _postpone(self) -> None:
        """Ask later for lanes that are further than the source's committed records: the broker may answer such a fetch
        at once, again and again, until the open transactions have ended, and leaves unchanged partitions out.
        """
        further = (
            []
            if self._is_all
            else [run for run in self._lanes.values() if 0 <= run.source_log.end < run.intake.read_offset]
        )
        for run in further:
            if run.source in self._session:
                self._beyond.add(run)
                self._session.forget(run.source)
                asyncio.get_running_loop().call_later(_BEYOND_S, self._ask_again, run)

    def _ask_again(self, run: LaneRun) -> None:
        if run in self._beyond:
            self._beyond.discard(run)
            self._want(run)
            self._wake.set()

    def _want(self, run: LaneRun) -> None:
        self._asked_at[run] = time.monotonic()
        room = self._engine.room
        bytes_max = max(self._share_bytes(run) - run.intake.size_bytes, room.floor_bytes)
        key, intake = run.keys.source, run.intake
        want = Want(run.lane.source_topic_id, intake.read_offset, self._epochs[key], intake.read_epoch, bytes_max)
        self._session.want(key, want)

    async def run(self) -> None:
        """Read until cancelled. A broken connection is dialled again; meanwhile its lanes report the error."""
        try:
            while True:
                try:
                    connection = self._connection
                    if connection is None or connection.closed or connection.due_for_renewal:
                        if connection is not None:
                            connection.close()
                        self._session.reset()
                        self._connection = connection = await self._dial(self.node_id)
                    for run in list(self._full):
                        # Other lanes may have released room.
                        self._admit(run)
                    if not len(self._session):
                        await self._rest()
                        continue
                    size = await self._poll(connection)
                except ClusterError as error:
                    self._engine.faults.source_lost(list(self._lanes.values()), error)
                    await asyncio.sleep(_RETRY_S)
                    if not self._lanes:
                        # A broker that leads none of our source partitions may be gone for good.
                        self._wake.clear()
                        await self._wake.wait()
                else:
                    self._is_limited = True
                    await self._engine.room.throttle(size)
                    self._is_limited = False
        finally:
            if self._connection is not None:
                self._connection.close()

    async def _rest(self) -> None:
        """Wait until there is something to ask for."""
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ROOM_S if self._full else None):
                await self._wake.wait()

    @property
    def _poll_ms(self) -> int:
        """How long (ms) the broker may wait for records. A lane that gets room again must not wait behind a long poll
        of others: polls are short while pieces of full lanes are written, and grow while none are.
        """
        if not self._full:
            return LONG_POLL_MS
        self._short_poll_ms = SHORT_POLL_MS if self._has_drained else min(self._short_poll_ms * 2, LONG_POLL_MS)
        self._has_drained = False
        return self._short_poll_ms

    async def _poll(self, connection: Connection) -> int:
        request = self._session.request(
            max_wait_ms=self._poll_ms,
            bytes_max=self._response_bytes,
            partition_bytes_max=self._response_bytes,
            by_topic_id=not self._nameless,
        )
        asked_at = time.monotonic()
        self._is_asking = True
        try:
            answer = await connection.call(request, timeout_s=_ANSWER_S)
        finally:
            self._is_asking = False
        answered_at = time.monotonic()
        if answer.throttle_time_ms:
            self._engine.throttled_source_s += answer.throttle_time_ms / 1000
            await asyncio.sleep(self._throttle.pause_s(answer.throttle_time_ms))
        else:
            self._throttle.end()
        if self._session.take_answer(answer) != codes.NONE:
            for each in list(self._lanes.values()):
                self._engine.faults.misread(each, _no_data(each, answer.error_code))
            return 0
        size, pause_at = 0, PAUSE_BYTES
        for fetched in self._session.partitions(answer):
            run = self._lanes.get(fetched.key)
            # Ignore an answer for an offset that the lane has left meanwhile.
            if run is not None and fetched.offset == run.intake.read_offset and not run.is_over:
                size += self._take(run, fetched)
                if size >= pause_at:
                    pause_at = size + PAUSE_BYTES
                    await asyncio.sleep(0)
        self._note_answer(answer, asked_at)
        if not size and answered_at - asked_at < _SOON_S:
            self._postpone()
        if size >= self._response_bytes // 2:
            far_s = self._engine.source_distances.far_s(self.node_id)
            self._response_bytes = next_bytes(self._response_bytes, answered_at - asked_at, far_s)
        return size

    def _take(self, run: LaneRun, fetched: Fetched[SourceTopic]) -> int:
        if fetched.error_code != codes.NONE or fetched.diverged_at >= 0:
            self.remove(run)
            self._engine.faults.misread(run, fetched)
            return 0
        if fetched.preferred >= 0 and not fetched.records:
            self.remove(run)
            self._engine.faults.sent_away(run, self.node_id, fetched.preferred)
            return 0
        run.source_log.fetch(fetched, time.monotonic(), is_all=self._is_all)
        if run.source_log.end >= fetched.offset:
            run.intake.committed.answered(fetched.high_watermark)
        if fetched.log_start > run.intake.read_offset:
            self.remove(run)
            self._engine.faults.misread(run, fetched._replace(error_code=codes.OFFSET_OUT_OF_RANGE))
            return 0
        try:
            size = self._offer(run, fetched)
        except SchemaMissing as missing:
            self.remove(run)
            self._engine.faults.await_schema(run, missing.schema_id)
            return 0
        except ValueError as error:
            self.remove(run)
            self._engine.faults.note_unreadable(run, str(error))
            return 0
        self._go_on(run, fetched)
        self._engine.received(run, size)
        return size

    def _go_on(self, run: LaneRun, fetched: Fetched[SourceTopic]) -> None:
        """Ask for the records behind an answer, if there is room for them."""
        if run.intake.is_at_end:
            # Not one of the full lanes: those make polls short.
            self._at_end.add(run)
            self._session.forget(run.source)
        elif run.intake.read_offset != fetched.offset:
            if run.intake.size_bytes >= self._share_bytes(run):
                self._fill(run)
            else:
                self._want(run)

    def _offer(self, run: LaneRun, fetched: Fetched[SourceTopic]) -> int:
        if not fetched.records:
            return 0
        # A run of tiny batches has no producer of its own. So batches are not merged to runs where the answer has
        # aborted transactions, or where the producer or the schemas decide whether a batch is copied.
        tiny_bytes = 0 if fetched.aborted or run.lane.level or run.lane.gated.is_any else TINY_BYTES
        batches: list[tuple[Batch, int]] = []
        try:
            for batch, stored in spans(fetched.records, tiny_bytes=tiny_bytes, span_bytes=SPAN_BYTES):
                if batch.magic == 2:
                    batches.append((batch, stored))
                else:
                    # Convert message sets from before Kafka 0.11 to magic 2 here: later code handles no other format.
                    batches += [(part, 1) for part in dense(batch)]
        except ValueError:
            # Copy the whole batches before the damage; the next answer begins with the damaged one.
            if not batches:
                raise
        if not batches:
            # Brokers send the first batch whole or not at all, so this one is damaged.
            raise ValueError("an incomplete batch")
        found = pieces(batches, fetched.aborted, bytes_max=run.lane.batch_bytes_max, is_whole=self._is_all)
        return run.offer(admitted(run, found, self._engine.schemas) if run.lane.gated.is_any else found)


def _no_data(run: LaneRun, error_code: int) -> Fetched[SourceTopic]:
    return Fetched(run.source, run.intake.read_offset, error_code, -1, -1, -1, [], b"")
