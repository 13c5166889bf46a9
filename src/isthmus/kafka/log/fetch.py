"""Fetch (API 1) with incremental sessions (KIP-227): a request carries only the changes since the last one.

A thousand idle partitions then cost no more than one.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, Generic, NamedTuple

from kafka.protocol.consumer import FetchRequest

from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.listoffsets import READ_COMMITTED
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.model.naming import TopicT

_TOPIC_IDS_FROM: Final = 13
_VERSION_MIN: Final = 7
_CONSUMER: Final = -1
_SESSIONLESS: Final = -1
_NO_REPLICA: Final = -1
_FIRST_EPOCH: Final = 0
_LAST_EPOCH: Final = 0x7FFFFFFF
_ANY_SIZE: Final = 0x7FFFFFFF
_BYTES_MIN: Final = 16 << 10
_PAUSE_MAX_S: Final = 12.0
PATIENCE_S: Final = 45.0
"""A broker may throttle its answers for so long before it is an error: longer than all pauses up to the longest."""

SESSION_LOST: Final = frozenset(
    {
        codes.FETCH_SESSION_ID_NOT_FOUND,
        codes.INVALID_FETCH_SESSION_EPOCH,
        codes.FETCH_SESSION_TOPIC_ID_ERROR,
        codes.UNKNOWN_TOPIC_ID,
        codes.INCONSISTENT_TOPIC_ID,
    }
)


class Want(NamedTuple):
    """The place to read one partition from. `fetched_epoch` is the leader epoch of the last batch read, or -1.

    With it the broker reports if its log has diverged from the records read (KIP-320, from version 12 on). An answer
    holds at most `bytes_max`, unless the first batch is larger.
    """

    topic_id: uuid.UUID
    offset: int
    leader_epoch: int
    fetched_epoch: int
    bytes_max: int = _ANY_SIZE


class Fetched(NamedTuple, Generic[TopicT]):
    """One partition's part of an answer. `offset` is the requested one, `diverged_at` is -1 unless the log diverged,
    `preferred` is the replica that the leader wants us to read from instead (KIP-392), -1 for none.
    """

    key: tuple[TopicT, int]
    offset: int
    error_code: int
    stable_end: int
    log_start: int
    diverged_at: int
    aborted: list[tuple[int, int]]
    records: bytes
    high_watermark: int = -1
    preferred: int = -1

    @property
    def end(self) -> int:
        """Up to where the leader could show records: only answers at read_committed have a stable end."""
        return self.high_watermark if self.stable_end < 0 else self.stable_end


class FetchSession(Generic[TopicT]):
    """The fetch session at one broker. Call `want`, build a `request`, and pass its answer to `take_answer`.

    With `incremental=False` there is no session: every request stands alone.
    """

    def __init__(self, *, isolation: int = READ_COMMITTED, incremental: bool = True) -> None:
        self._isolation = isolation
        self._begin = _FIRST_EPOCH if incremental else _SESSIONLESS
        self._wants: dict[tuple[TopicT, int], Want] = {}
        self._changed: set[tuple[TopicT, int]] = set()
        self._forgotten: dict[tuple[tuple[TopicT, int], uuid.UUID], None] = {}
        self._names: dict[uuid.UUID, TopicT] = {}
        self._asked: dict[tuple[TopicT, int], int] = {}
        self._id = 0
        self._epoch = self._begin

    def __len__(self) -> int:
        return len(self._wants)

    def __contains__(self, key: tuple[TopicT, int]) -> bool:
        return key in self._wants

    def want(self, key: tuple[TopicT, int], want: Want) -> None:
        """Read this partition from the next request on."""
        before = self._wants.get(key)
        if before is not None and before.topic_id != want.topic_id:
            # The topic was created again: for the broker these are two partitions.
            self.forget(key)
        # Append it: brokers fill answers in the order of a full request, so all partitions get a turn.
        self._wants.pop(key, None)
        self._wants[key] = want
        self._names[want.topic_id] = key[0]
        self._changed.add(key)
        self._forgotten.pop((key, want.topic_id), None)

    def forget(self, key: tuple[TopicT, int]) -> None:
        """Do not read this partition any more."""
        want = self._wants.pop(key, None)
        self._changed.discard(key)
        if want is not None and self._id:
            self._forgotten[key, want.topic_id] = None

    def reset(self) -> None:
        """Begin a new session with the next request: the old one or its connection is lost."""
        self._id = 0
        self._epoch = self._begin
        self._forgotten.clear()

    def request(self, *, max_wait_ms: int, bytes_max: int, partition_bytes_max: int, by_topic_id: bool) -> FetchRequest:
        """Build the next request. `by_topic_id` means that all wanted topics have ids (version 13)."""
        full = self._epoch <= _FIRST_EPOCH
        keys = self._wants.keys() if full else self._changed
        if full:
            self._asked.clear()
        topics: dict[tuple[str, uuid.UUID], list[Any]] = {}
        for key in keys:
            want = self._wants[key]
            self._asked[key] = want.offset
            topics.setdefault((key[0], want.topic_id), []).append(
                FetchRequest.FetchTopic.FetchPartition(
                    partition=key[1],
                    current_leader_epoch=want.leader_epoch,
                    fetch_offset=want.offset,
                    last_fetched_epoch=want.fetched_epoch,
                    log_start_offset=-1,
                    partition_max_bytes=min(partition_bytes_max, want.bytes_max),
                )
            )
        forgotten: dict[tuple[str, uuid.UUID], list[int]] = {}
        for key, topic_id in self._forgotten:
            if by_topic_id or key not in self._wants:
                forgotten.setdefault((key[0], topic_id), []).append(key[1])
        self._changed.clear()
        self._forgotten.clear()
        return FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=self._isolation,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[
                FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
                for (topic, topic_id), partitions in topics.items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=partitions)
                for (topic, topic_id), partitions in forgotten.items()
            ],
            rack_id="",
            min_version=_VERSION_MIN,
            max_version=None if by_topic_id else _TOPIC_IDS_FROM - 1,
        )

    def take_answer(self, answer: Any) -> int:
        """Take the head of an answer. Return its error code, to be handled by the caller; a lost session is reset."""
        if answer.error_code in SESSION_LOST:
            self.reset()
        elif answer.error_code == codes.NONE:
            self._id = answer.session_id
            if self._id:
                self._epoch = 1 if self._epoch in (_FIRST_EPOCH, _LAST_EPOCH) else self._epoch + 1
            else:
                # The broker has no free session: the next request is a full one again.
                self.reset()
        return int(answer.error_code)

    def partitions(self, answer: Any) -> Iterator[Fetched[TopicT]]:
        """Yield the partitions of an answer, without those that were forgotten meanwhile or belong to another topic."""
        by_id = answer.API_VERSION >= _TOPIC_IDS_FROM
        for topic in answer.responses:
            name = self._names.get(topic.topic_id) if by_id else topic.topic
            if name is None:
                continue
            for p in topic.partitions:
                key = (name, p.partition_index)
                want = self._wants.get(key)
                if want is None or (by_id and want.topic_id != topic.topic_id):
                    continue
                diverging = getattr(p, "diverging_epoch", None)
                elsewhere = getattr(p, "preferred_read_replica", None)
                yield Fetched(
                    key=key,
                    offset=self._asked.get(key, -1),
                    error_code=p.error_code,
                    stable_end=p.last_stable_offset,
                    log_start=p.log_start_offset,
                    diverged_at=-1 if diverging is None or diverging.epoch < 0 else diverging.end_offset,
                    aborted=[(a.producer_id, a.first_offset) for a in p.aborted_transactions or ()],
                    records=p.records or b"",
                    high_watermark=p.high_watermark,
                    preferred=_NO_REPLICA if elsewhere is None else elsewhere,
                )


async def fetch_once(
    connection: Connection,
    wants: Mapping[tuple[TopicT, int], Want],
    *,
    isolation: int,
    bytes_max: int,
    partition_bytes_max: int | None = None,
    max_wait_ms: int = 0,
    timeout_s: float,
) -> list[Fetched[TopicT]]:
    """Fetch these partitions once as `fetch_or_pause` does, again and again, for fewer and fewer bytes, if a quota
    empties the answer. So the result has every wanted partition.

    :raises ClusterError: As `fetch_or_pause`; the broker keeps throttling.
    """
    throttle = Throttle(bytes_max)
    fetch = partial(fetch_or_pause, connection, wants, throttle, isolation=isolation, timeout_s=timeout_s)
    while (found := await fetch(partition_bytes_max=partition_bytes_max, max_wait_ms=max_wait_ms)) is None:
        pass
    return found


async def fetch_or_pause(
    connection: Connection,
    wants: Mapping[tuple[TopicT, int], Want],
    throttle: Throttle,
    *,
    isolation: int,
    partition_bytes_max: int | None = None,
    max_wait_ms: int = 0,
    timeout_s: float,
) -> list[Fetched[TopicT]] | None:
    """Fetch these partitions once, outside any session; each part has an error code of its own. Over a quota a broker
    answers without partitions and without an error (KIP-219): then return `None` after a pause.

    :raises ClusterError: The broker did not answer, throttles for too long, left a partition out, or has its readers
        read from another replica.
    """
    session: FetchSession[TopicT] = FetchSession(isolation=isolation, incremental=False)
    for key, want in wants.items():
        session.want(key, want)
    request = session.request(
        max_wait_ms=max_wait_ms,
        bytes_max=throttle.bytes_max,
        partition_bytes_max=min(partition_bytes_max or throttle.bytes_max, throttle.bytes_max),
        by_topic_id=all(want.topic_id != NO_TOPIC_ID for want in wants.values()),
    )
    answer = await connection.call(request, timeout_s=timeout_s)
    if answer.error_code:
        return [Fetched(key, want.offset, answer.error_code, -1, -1, -1, [], b"") for key, want in wants.items()]
    found = list(session.partitions(answer))
    if away := next((each for each in found if each.preferred != _NO_REPLICA and not each.records), None):
        raise _sent_away(away, connection)
    if {fetched.key for fetched in found} >= wants.keys():
        return found
    if not answer.throttle_time_ms:
        raise Unreachable(f"{connection.where} left a partition out of its answer", cluster=connection.cluster)
    await throttle.sit_out(answer.throttle_time_ms, connection)
    return None


def _sent_away(fetched: Fetched[TopicT], connection: Connection) -> Unreachable:
    """The answer has no records, whatever the log holds."""
    topic, partition = fetched.key
    return Unreachable(
        f"{connection.where} has readers of {topic}-{partition} read from replica {fetched.preferred} (KIP-392), and "
        "Isthmus reads from leaders",
        cluster=connection.cluster,
        hint="Have the brokers' replica.selector.class name the leader to clients without a rack, as Kafka's "
        "RackAwareReplicaSelector does.",
    )


def held_back(what: str, cluster: str) -> Unreachable:
    """Build the error that a client quota prevents reading."""
    return Unreachable(
        f"{what} is held back: a client quota is used up",
        cluster=cluster,
        hint="A link that runs tries again. Raise the quota if it is not meant: `isthmus doctor` shows which count.",
    )


class Throttle:
    """The pauses and sizes of requests to a broker that repeatedly throttles its answers because of a client quota.

    `bytes_max` is the size to ask for: a small answer fits into a quota sooner. `held_at` is when (monotonic) an answer
    was last throttled. `sit_out` raises an error after
    `patience_s` (s) without records.
    """

    def __init__(self, bytes_max: int, *, patience_s: float = PATIENCE_S) -> None:
        self.bytes_max = self._bytes_usual = bytes_max
        self._patience_s = patience_s
        self._times = 0
        self._since = 0.0
        self.held_at = float("-inf")

    @property
    def since_s(self) -> float:
        """For how long (s) all answers were empty; 0 before the first."""
        return time.monotonic() - self._since if self._times else 0.0

    def pause_s(self, throttle_ms: int) -> float:
        """The pause (s) after a throttled answer. It grows beyond the time that the broker announces, as requests use
        the quota as well, and brokers sum up the use of about ten seconds.
        """
        self.held_at = time.monotonic()
        if not self._times:
            self._since = self.held_at
        self._times += 1
        self.bytes_max = min(self.bytes_max, max(self.bytes_max // 2, _BYTES_MIN))
        return float(min(max(_PAUSE_MAX_S, throttle_ms / 1000), throttle_ms / 1000 * 2 ** (self._times - 1)))

    async def sit_out(self, throttle_ms: int, connection: Connection) -> None:
        """Pause for `pause_s`, at most `patience_s`.

        :raises Unreachable: All answers were empty for `patience_s`; raised again after each further pause.
        """
        await asyncio.sleep(min(self.pause_s(throttle_ms), self._patience_s))
        if self.since_s >= self._patience_s:
            raise held_back(connection.where, connection.cluster)

    def end(self) -> None:
        """Note an answer that was not throttled."""
        self._times = 0
        self.bytes_max = min(2 * self.bytes_max, self._bytes_usual)
