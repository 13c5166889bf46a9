"""High watermarks of the followers at the target, learnt as they move.

Each leader has a long-polled, incremental fetch session that takes one batch an answer at most: the broker wakes us. A
partition is in it while an offset of it is waited for, and for a while after that. A partition that is first waited for
while a long poll is in flight is asked for repeatedly beside it (ListOffsets), until the next poll has it. The high
watermark of a partition when it left the session is compared with the one when it comes back.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.fetch import Fetched, FetchSession, Want
from isthmus.kafka.log.leaders import leaders_of
from isthmus.kafka.log.listoffsets import LATEST, READ_UNCOMMITTED, list_offsets, log_ends
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata
from isthmus.model.naming import TargetTopic, TargetTopicPartition

_log = logging.getLogger(__name__)
_POLL_MS: Final = 500
_ANSWER_S: Final = 5.0
_AGAIN_S: Final = 0.002
_RETRY_S: Final = 0.1
_KEPT_S: Final = 30.0
_COMPLAINT_AGAIN_S: Final = 30.0
_FRESH_S: Final = 1.5
"""An answer of a leader holds for so long (s): it reports moves at once, and the rest with each long poll."""
_IDLE_LOOK_S: Final = 1.0
_GONE_MAX: Final = 100
"""The maximum number of cancelled waits kept in a heap, beyond twice the number of active ones."""
_NO_EPOCH: Final = -1
_NOWHERE: Final = -1


class _Waiting:
    """One wait for an offset of a partition."""

    __slots__ = ("_partition", "wake")

    def __init__(self, partition: _Partition, wake: Callable[[], None]) -> None:
        self._partition = partition
        self.wake: Callable[[], None] | None = wake

    def cancel(self) -> None:
        """Cancel the wait."""
        if self.wake is not None:
            self.wake = None
            self._partition.leave()


@dataclass(slots=True, eq=False)
class _Partition:
    """The state of one partition. `end` is -1 until it is known, and so is `leader` while there is none. While it
    `is_doubted` it may have less by now. It is waited for without any progress `still_since` then (monotonic s).
    """

    key: TargetTopicPartition
    end: int = -1
    topic_id: uuid.UUID = NO_TOPIC_ID
    leader: int = _NOWHERE
    epoch: int = _NO_EPOCH
    sought_at: float = float("-inf")
    still_since: float | None = None
    quiet_since: float = field(default_factory=time.monotonic)
    is_doubted: bool = False
    waiting: int = 0
    heap: list[tuple[int, int, _Waiting]] = field(default_factory=list)

    def enter(self, offset: int, order: int, wake: Callable[[], None]) -> _Waiting:
        """Add a wait for an offset."""
        if self.still_since is None:
            self.still_since = time.monotonic()
        self.waiting += 1
        waiting = _Waiting(self, wake)
        heapq.heappush(self.heap, (offset, order, waiting))
        return waiting

    def leave(self) -> None:
        """Remove one wait."""
        self.waiting -= 1
        self.quiet_since = time.monotonic()
        if len(self.heap) > 2 * self.waiting + _GONE_MAX:
            self.heap = [each for each in self.heap if each[2].wake is not None]
            heapq.heapify(self.heap)

    def advance(self, end: int) -> None:
        """Take in a new high watermark, and wake all waits for offsets up to it."""
        has_moved = end > self.end >= 0
        self.end = max(end, self.end)
        while self.heap and self.heap[0][0] <= end:
            _, _, waiting = heapq.heappop(self.heap)
            wake = waiting.wake
            if wake is not None:
                has_moved = True
                waiting.cancel()
                wake()
        if has_moved:
            self.still_since = time.monotonic() if self.waiting else None

    @property
    def idle_s(self) -> float:
        """For how long (s) the partition has not been waited for."""
        return 0.0 if self.waiting else time.monotonic() - self.quiet_since

    def rest(self) -> None:
        """Stop asking for it until it is waited for again."""
        self.leader, self.is_doubted, self.still_since = _NOWHERE, self.end >= 0, None


class _Complaint:
    """Logs why a cluster cannot be followed: once, and again when the reason changes, or after a while."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._last_complaint: tuple[str, float] = "", 0.0

    def say(self, why: object) -> None:
        """Log the reason, unless it was logged a moment ago."""
        now = time.monotonic()
        if str(why) != self._last_complaint[0] or now - self._last_complaint[1] > _COMPLAINT_AGAIN_S:
            self._last_complaint = str(why), now
            _log.warning("the followers at %s cannot be asked: %s", self._cluster, why)


class FollowerWatch:
    """The high watermarks at one target. It polls while there are waits, and `kept_s` longer; `aclose` closes it."""

    def __init__(self, client: Client, *, kept_s: float = _KEPT_S) -> None:
        self.client = client
        self.kept_s = kept_s
        self.losses: dict[TargetTopicPartition, tuple[int, int]] = {}
        self._partitions: dict[TargetTopicPartition, _Partition] = {}
        self._leaders: dict[int, _LeaderWatch] = {}
        self._homeless = set[_Partition]()
        self._order = itertools.count()
        self._routing: asyncio.Task[None] | None = None
        self.complaint = _Complaint(client.cluster.alias)

    async def aclose(self) -> None:
        """Cancel all tasks. Pending waits are never woken."""
        tasks = [] if self._routing is None else [self._routing]
        for leader in self._leaders.values():
            tasks += leader.tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for leader in self._leaders.values():
            leader.close()

    def end(self, key: TargetTopicPartition) -> int:
        """See `Follower`."""
        found = self._partitions.get(key)
        return -1 if found is None or found.is_doubted else found.end

    def still_s(self, key: TargetTopicPartition) -> float:
        """See `Follower`."""
        found = self._partitions.get(key)
        if found is None or not found.waiting or found.still_since is None:
            return 0.0
        return time.monotonic() - found.still_since

    def lacks(self, key: TargetTopicPartition, offset: int) -> bool:
        """See `Follower`."""
        found = self._partitions.get(key)
        if found is None or found.is_doubted or not 0 <= found.end <= offset or found.leader == _NOWHERE:
            return False
        return self._leaders[found.leader].is_fresh(found)

    def wait(self, key: TargetTopicPartition, offset: int, wake: Callable[[], None]) -> _Waiting | None:
        """See `Follower`."""
        partition = self._partitions.setdefault(key, _Partition(key))
        if partition.leader == _NOWHERE:
            self._seek([partition])
        if partition.end >= offset and not partition.is_doubted:
            partition.quiet_since = time.monotonic()
            return None
        waiting = partition.enter(offset, next(self._order), wake)
        if partition.leader != _NOWHERE:
            self._leaders[partition.leader].add(partition)
        return waiting

    async def wait_until_covered(self, ends: Mapping[TargetTopicPartition, int]) -> None:
        """See `Follower`."""
        done = asyncio.Event()
        left = set(ends)

        def reach(key: TargetTopicPartition) -> None:
            left.discard(key)
            if not left:
                done.set()

        waiting = []
        try:
            for key, offset in ends.items():
                found = self.wait(key, offset, partial(reach, key))
                if found is None:
                    reach(key)
                else:
                    waiting.append(found)
            if ends:
                await done.wait()
        finally:
            for each in waiting:
                each.cancel()

    def lose(self, partition: _Partition, end: int) -> None:
        """Record that the log of a partition ends before its known high watermark."""
        was = self.losses.get(partition.key, (partition.end, 0))[0]
        self.losses[partition.key] = max(was, partition.end), end
        _log.error(
            "%s-%d of %s has lost records: its log ended at %d, and ends at %d now",
            *partition.key, self.client.cluster.alias, partition.end, end,
        )  # fmt: skip

    def move(self, partitions: Iterable[_Partition]) -> None:
        """Look for the leaders of partitions whose leader has moved."""
        for partition in partitions:
            partition.leader = _NOWHERE
        self._seek(partitions)

    def _seek(self, partitions: Iterable[_Partition]) -> None:
        self._homeless.update(partitions)
        if self._homeless and (self._routing is None or self._routing.done()):
            self._routing = asyncio.create_task(self._route())

    async def _route(self) -> None:
        """Find the leaders of partitions that have none."""
        while self._homeless:
            for partition in [each for each in self._homeless if each.idle_s > self.kept_s]:
                self._homeless.discard(partition)
                partition.rest()
            if any(time.monotonic() - each.sought_at < _RETRY_S for each in self._homeless):
                # The leader found a moment ago was wrong.
                await asyncio.sleep(_RETRY_S)
            sought = {partition.key: partition for partition in self._homeless}
            try:
                metadata = await self.client.metadata(sorted({topic for topic, _ in sought}))
                self._settle(metadata, sought)
            except ClusterError as error:
                self.complaint.say(error)
            except Exception:  # noqa: BLE001 - those that have a leader go on
                _log.exception("the leaders of followers could not be found")
            if self._homeless:
                await asyncio.sleep(_RETRY_S)

    def _settle(self, metadata: Metadata, sought: Mapping[TargetTopicPartition, _Partition]) -> None:
        leaders, _ = leaders_of(metadata, sought)
        for node, epochs in leaders.items():
            if node not in self._leaders:
                self._leaders[node] = _LeaderWatch(node, self)
            for key, epoch in epochs.items():
                partition, topic_id = sought[key], metadata.topics[key[0]].topic_id
                if topic_id != partition.topic_id and partition.topic_id != NO_TOPIC_ID and partition.end > 0:
                    # The topic was created again under this name: the data of the former one is lost.
                    self.lose(partition, 0)
                    partition.end = -1
                partition.leader, partition.epoch, partition.topic_id = node, epoch, topic_id
                partition.sought_at = time.monotonic()
                self._homeless.discard(partition)
                self._leaders[node].add(partition)


class _LeaderWatch:
    """Polls one broker for the partitions that it leads."""

    def __init__(self, node_id: int, watch: FollowerWatch) -> None:
        self._node_id = node_id
        self._watch = watch
        self._client = watch.client
        self._session = FetchSession[TargetTopic](isolation=READ_UNCOMMITTED)
        self._held: dict[TargetTopicPartition, _Partition] = {}
        self._asked: dict[TargetTopicPartition, int] = {}
        """The fetch offset of each partition in the long poll that is in flight, or in the next one."""
        self._moved = set[_Partition]()
        self._nameless = set[_Partition]()
        self._newcomers = set[_Partition]()
        self._has_work = asyncio.Event()
        self._has_newcomers = asyncio.Event()
        self._connection: Connection | None = None
        self._heard_at = self._looked_at = float("-inf")
        self.tasks = [asyncio.create_task(self._poll_always()), asyncio.create_task(self._ask_always())]

    def close(self) -> None:
        """Close the connection to the broker."""
        if self._connection is not None:
            self._connection.close()

    def is_fresh(self, partition: _Partition) -> bool:
        """Whether the broker reported this partition within `_FRESH_S`."""
        return partition.key in self._asked and time.monotonic() - self._heard_at < _FRESH_S

    def add(self, partition: _Partition) -> None:
        """Add a partition that is waited for."""
        if self._held.get(partition.key) is not partition:
            self._held[partition.key] = partition
            if partition.topic_id == NO_TOPIC_ID:
                self._nameless.add(partition)
            self._newcomers.add(partition)
            self._has_newcomers.set()

    def _drop(self, partitions: Iterable[_Partition]) -> None:
        for partition in partitions:
            self._held.pop(partition.key, None)
            self._asked.pop(partition.key, None)
            for each in (self._newcomers, self._moved, self._nameless):
                each.discard(partition)
            self._session.forget(partition.key)

    def _reroute(self, partitions: Iterable[_Partition], error_code: int = codes.NONE) -> None:
        if error_code not in codes.LEADER_MOVED | {codes.NONE}:
            self._watch.complaint.say(f"broker {self._node_id}: {codes.name_of(error_code)}")
        gone = [partition for partition in partitions if partition.key in self._held]
        self._drop(gone)
        self._watch.move(gone)

    async def _poll_always(self) -> None:
        while True:
            try:
                await self._poll()
            except ClusterError as error:
                await self._fail(error)
            except Exception:  # noqa: BLE001 - pending waits go on
                _log.exception("broker %d of %s could not be followed", self._node_id, self._client.cluster.alias)
                await self._fail(None)

    async def _fail(self, error: ClusterError | None) -> None:
        """Reset the session, and look for the leaders again: the partitions may have another one by now."""
        if error is not None:
            self._watch.complaint.say(error)
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._session.reset()
        self._reroute(list(self._held.values()))
        await asyncio.sleep(_RETRY_S)

    async def _poll(self) -> None:
        """Do one long poll, once there is a partition to ask for."""
        self._leave_idle()
        if not len(self._session):
            self._has_work.clear()
            await self._has_work.wait()
        connection = self._connection
        if connection is None or connection.closed or connection.due_for_renewal:
            if connection is not None:
                connection.close()
            self._session.reset()
            self._connection = connection = await self._client.dial(self._node_id)
        for partition in self._moved:
            self._want(partition)
        self._moved.clear()
        self._newcomers = {each for each in self._newcomers if each.key not in self._session}
        request = self._session.request(
            max_wait_ms=_POLL_MS, bytes_max=1, partition_bytes_max=1, by_topic_id=not self._nameless
        )
        answer = await connection.call(request, timeout_s=_ANSWER_S)
        if answer.throttle_time_ms:
            await asyncio.sleep(answer.throttle_time_ms / 1000)
        if self._session.take_answer(answer) != codes.NONE:
            self._watch.complaint.say(f"broker {self._node_id}: {codes.name_of(answer.error_code)}")
            self._reroute(list(self._held.values()))
            await asyncio.sleep(_RETRY_S)
            return
        if answer.responses or not answer.throttle_time_ms:
            # An answer that a quota has emptied shows nothing.
            self._heard_at = time.monotonic()
        for fetched in self._session.partitions(answer):
            self._hear(fetched)

    def _leave_idle(self) -> None:
        """Drop partitions that are no longer waited for; only now and then, as there may be many."""
        now = time.monotonic()
        if now - self._looked_at > _IDLE_LOOK_S:
            self._looked_at = now
            idle = [partition for partition in self._held.values() if partition.idle_s > self._watch.kept_s]
            self._drop(idle)
            for partition in idle:
                partition.rest()

    def _want(self, partition: _Partition) -> None:
        """Have the next long poll fetch the partition from its known end."""
        if self._asked.get(partition.key) != partition.end or partition.key not in self._session:
            self._asked[partition.key] = partition.end
            self._session.want(partition.key, Want(partition.topic_id, partition.end, partition.epoch, _NO_EPOCH))

    def _hear(self, fetched: Fetched[TargetTopic]) -> None:
        partition = self._held.get(fetched.key)
        if partition is None:
            return
        if fetched.error_code == codes.OFFSET_OUT_OF_RANGE or 0 <= fetched.high_watermark < partition.end:
            self._doubt(partition)
        elif fetched.error_code != codes.NONE:
            self._reroute([partition], fetched.error_code)
        elif fetched.high_watermark > partition.end:
            self._moved.add(partition)
            partition.advance(fetched.high_watermark)

    def _doubt(self, partition: _Partition) -> None:
        """Doubt a partition: it may have lost data, or a new leader does not know the high watermark yet."""
        partition.is_doubted = True
        self._moved.discard(partition)
        self._asked.pop(partition.key, None)
        self._session.forget(partition.key)
        self._newcomers.add(partition)
        self._has_newcomers.set()

    async def _ask_always(self) -> None:
        """Ask for partitions that the long poll in flight does not cover."""
        while True:
            await self._has_newcomers.wait()
            self._has_newcomers.clear()
            while self._newcomers:
                try:
                    await self._ask({partition.key: partition for partition in self._newcomers})
                except ClusterError as error:
                    self._watch.complaint.say(error)
                    self._reroute(list(self._newcomers))
                    await asyncio.sleep(_RETRY_S)
                except Exception:  # noqa: BLE001 - pending waits go on
                    _log.exception("broker %d of %s could not be asked", self._node_id, self._client.cluster.alias)
                    await asyncio.sleep(_RETRY_S)
                else:
                    await asyncio.sleep(_AGAIN_S)

    async def _ask(self, asked: Mapping[TargetTopicPartition, _Partition]) -> None:
        connection = await self._client.connection(self._node_id)
        epochs = {key: partition.epoch for key, partition in asked.items()}
        # A long poll may report more while these answers are in flight.
        known = {key: partition.end for key, partition in asked.items()}
        found = await list_offsets(connection, epochs, LATEST)
        doubted = {key: epochs[key] for key, each in asked.items() if each.is_doubted and each.leader == self._node_id}
        ends = await log_ends(connection, doubted) if doubted else {}
        for key, partition in asked.items():
            listed = found[key]
            if partition.leader != self._node_id or self._held.get(key) is not partition:
                continue
            if listed.error_code == codes.OFFSET_NOT_AVAILABLE:
                # A new leader does not know the high watermark yet.
                continue
            if listed.error_code != codes.NONE:
                self._reroute([partition], listed.error_code)
            elif listed.offset >= 0:
                if key in ends and ends[key].error_code == codes.NONE:
                    self._judge(partition, known[key], listed.offset, ends[key].offset)
                elif listed.offset < known[key]:
                    partition.is_doubted = True
                self._take(partition, listed.offset)

    def _judge(self, partition: _Partition, known: int, high_watermark: int, log_end: int) -> None:
        """Judge by its log end whether a doubted partition has lost data that it was known to have."""
        if 0 <= log_end < known:
            self._watch.lose(partition, log_end)
            partition.end = known = high_watermark
        partition.is_doubted = high_watermark < known

    def _take(self, partition: _Partition, high_watermark: int) -> None:
        if not partition.is_doubted:
            partition.advance(high_watermark)
            self._want(partition)
            self._has_work.set()
