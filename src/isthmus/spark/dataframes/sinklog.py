"""The topic of positions at a target: created on first use, and followed by each worker process."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, EpochRefused, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.admin.changes import (
    BROKER_DEFAULT,
    NewTopic,
    await_leaders,
    create_topics,
    is_about_settings,
    is_there_already,
)
from isthmus.kafka.admin.configs import describe_topic_configs
from isthmus.kafka.batches.aborted import COMMIT, control_type
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, scan
from isthmus.kafka.batches.records import encode_records, records_in
from isthmus.kafka.client import Client
from isthmus.kafka.log.fetch import Throttle, Want, fetch_or_pause
from isthmus.kafka.log.leader import ANSWER_S, LogLeader
from isthmus.kafka.log.listoffsets import EARLIEST, LATEST, READ_UNCOMMITTED, list_offsets
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.spark.dataframes.sinkpositions import (
    PARTITIONS,
    NamePositions,
    SinkPosition,
    StoredPosition,
    name_of_key,
    partition_of,
)

POSITIONS_TOPIC: Final = "__isthmus.sinks"
_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_CONFIGS: Final = {
    _POLICY: _COMPACT,
    # Every epoch writes positions: small segments, compacted early, keep the first read of a worker short.
    "segment.bytes": str(4 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_FETCH_BYTES: Final = 4 << 20
_TERM_S: Final = 60.0
_RETRY_S: Final = 0.1
_CREATION_S: Final = 20.0


async def ensure_positions_topic(client: Client) -> None:
    """Create the topic of positions unless it is there. Needs CREATE on it, or on the cluster, the first time.

    :raises ClusterError: The topic is missing and cannot be created, or has partitions without a leader.
    """
    metadata = await client.metadata([POSITIONS_TOPIC])
    if metadata.topics[POSITIONS_TOPIC].error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
        error = await _create(client, _CONFIGS)
        if is_about_settings(error):
            # Some providers allow few settings, and only compaction is required.
            error = await _create(client, {_POLICY: _COMPACT})
        if error is not None and not is_there_already(error):
            raise error
    if not await await_leaders(client, {POSITIONS_TOPIC: PARTITIONS}, timeout_s=_CREATION_S):
        alias = client.cluster.alias
        raise Unreachable(
            f"topic {POSITIONS_TOPIC} of {alias} has not {PARTITIONS} partitions with a leader each",
            cluster=alias,
            hint=f"Bring the brokers back that hold its replicas. Isthmus creates it with {PARTITIONS} partitions.",
        )


async def _create(client: Client, configs: dict[str, str]) -> ClusterError | None:
    topic = NewTopic(
        name=POSITIONS_TOPIC, partition_count=PARTITIONS, replication_factor=BROKER_DEFAULT, configs=configs
    )
    return (await create_topics(client, [topic])).errors.get(POSITIONS_TOPIC)


class _Logged(NamedTuple):
    """A record of a position as it stands in the log; `value` is `None` where it was deleted."""

    key: bytes
    value: bytes | None
    offset: int
    producer_id: int
    producer_epoch: int


class PositionLog:
    """Follows one partition of the topic of positions, committed or not, and knows the end of each transaction."""

    def __init__(self, client: Client, partition: int) -> None:
        self._client = client
        self._key = POSITIONS_TOPIC, partition
        self._leader = LogLeader(client, self._key)
        self._topic_id: uuid.UUID = NO_TOPIC_ID
        self._begin_at(0)

    def _begin_at(self, offset: int) -> None:
        self._position = offset
        self._committed: dict[bytes, _Logged] = {}
        self._open: dict[int, list[_Logged]] = {}

    @property
    def key(self) -> tuple[str, int]:
        return self._key

    async def read(self, name: str, *, term_s: float = _TERM_S) -> NamePositions:
        """Read to the present end of the log. Return the positions of a sink; the topic is created if it is missing.

        :raises ClusterError: The topic cannot be read or created.
        :raises EpochRefused: It holds positions of a newer Isthmus.
        """
        deadline = Deadline(term_s)
        while True:
            try:
                await self._read_to_end()
                break
            except Unreachable:
                self._leader.close()
                if deadline.passes_within(_RETRY_S):
                    raise
            # A topic that does not exist has no leader either.
            with contextlib.suppress(Unreachable):
                await ensure_positions_topic(self._client)
            await asyncio.sleep(_RETRY_S)
        return NamePositions(tuple(self._of(name)))

    def _of(self, name: str) -> Iterator[StoredPosition]:
        for logged, is_open in self._all():
            if logged.value is not None and name_of_key(logged.key) == name:
                position = SinkPosition.decode(logged.value)
                yield StoredPosition(position, logged.offset, logged.producer_id, logged.producer_epoch, is_open)

    def _all(self) -> Iterator[tuple[_Logged, bool]]:
        yield from ((each, False) for each in self._committed.values())
        yield from ((each, True) for found in self._open.values() for each in found)

    async def _read_to_end(self) -> None:
        connection = await self._leader.connect()
        place = self._leader.place
        if self._topic_id != place.topic_id:
            # Another topic of the same name: what was read of the former one is gone.
            self._begin_at(0)
            await self._check_policy()
            self._topic_id = place.topic_id
        latest = (await list_offsets(connection, {self._key: place.leader_epoch}, LATEST, timeout_s=ANSWER_S))[
            self._key
        ]
        self._leader.check(latest.error_code, "DESCRIBE")
        if latest.offset < self._position:
            await self._begin_again()
        throttle = Throttle(_FETCH_BYTES)
        while self._position < latest.offset:
            want = Want(place.topic_id, self._position, place.leader_epoch, -1)
            found = await fetch_or_pause(
                connection, {self._key: want}, throttle, isolation=READ_UNCOMMITTED, timeout_s=ANSWER_S
            )
            if found is None:
                continue
            (fetched,) = found
            if fetched.error_code == codes.OFFSET_OUT_OF_RANGE:
                await self._begin_again()
                continue
            self._leader.check(fetched.error_code, "READ")
            if not fetched.records and fetched.high_watermark < latest.offset:
                raise Unreachable(
                    f"{connection.where} does not show the end of {POSITIONS_TOPIC}", cluster=connection.cluster
                )
            before = self._position
            for batch in scan(fetched.records):
                self._take(batch)
            if not fetched.records and self._position == before:
                # The rest of the log was compacted away.
                self._position = latest.offset

    async def _check_policy(self) -> None:
        """See that the topic keeps the newest position of each key. Without DESCRIBE_CONFIGS this is not seen.

        :raises EpochRefused: It deletes old ones.
        :raises Unreachable: The brokers do not answer.
        """
        outcomes = await describe_topic_configs(self._client, [POSITIONS_TOPIC], only=[_POLICY])
        error = outcomes.errors.get(POSITIONS_TOPIC)
        if isinstance(error, Unreachable):
            raise error
        entry = outcomes.values.get(POSITIONS_TOPIC, {}).get(_POLICY)
        if entry is not None and entry.value not in (None, _COMPACT):
            alias = self._client.cluster.alias
            raise EpochRefused(
                f"topic {POSITIONS_TOPIC} of {alias} has {_POLICY}={entry.value}: positions would be deleted with "
                "time, and rows written twice without anybody noticing",
                hint=f"Set {_POLICY}={_COMPACT} for {POSITIONS_TOPIC}. If it was otherwise for long, positions may be "
                "gone: see that no query has to repeat an epoch.",
            )

    async def _begin_again(self) -> None:
        connection = await self._leader.connect()
        start = (await list_offsets(connection, {self._key: -1}, EARLIEST, timeout_s=ANSWER_S))[self._key]
        self._leader.check(start.error_code, "DESCRIBE")
        self._begin_at(start.offset)

    def _take(self, batch: Batch) -> None:
        begin, self._position = self._position, max(self._position, batch.offset_end)
        if batch.is_control:
            ended = self._open.pop(batch.producer_id, [])
            if control_type(batch) == COMMIT:
                for each in ended:
                    self._count(each)
            return
        for record in records_in(batch):
            if record.key is None or record.offset < begin:
                continue
            logged = _Logged(record.key, record.value, record.offset, batch.producer_id, batch.producer_epoch)
            if batch.is_transactional:
                self._open.setdefault(batch.producer_id, []).append(logged)
            else:
                self._count(logged)

    def _count(self, logged: _Logged) -> None:
        before = self._committed.get(logged.key)
        if before is not None and before.offset > logged.offset:
            return
        if logged.value is None:
            self._committed.pop(logged.key, None)
        else:
            self._committed[logged.key] = logged

    async def write(self, records: Mapping[bytes, bytes | None], *, term_s: float = _TERM_S) -> None:
        """Write positions outside of transactions, by key; `None` deletes one.

        :raises ClusterError: They were refused, or there was no answer in time.
        """
        now_ms = int(time.time() * 1000)
        batch = next(scan(encode_records((now_ms, key, value, ()) for key, value in records.items())))
        await self._leader.append(bytes(batch.view[:HEADER_BYTES]), batch, term_s=term_s)

    def close(self) -> None:
        """Close the connection; the next look opens another one."""
        self._leader.close()


class PositionLogs:
    """The followers of a client, one for each partition that was asked for, kept for as long as the client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._logs: dict[int, PositionLog] = {}

    def of(self, name: str) -> PositionLog:
        """Return the follower of the partition that has the positions of a sink."""
        partition = partition_of(name)
        if partition not in self._logs:
            self._logs[partition] = PositionLog(self._client, partition)
        return self._logs[partition]

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
