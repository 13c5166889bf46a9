"""Looking at the target: where its logs end, what it remembers of our producer, and what its last batches are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kafka.protocol.admin import DescribeProducersRequest

from isthmus.errors import ClusterError
from isthmus.lane.run import LaneRun
from isthmus.lane.writer import Look, ProducerState
from isthmus.wire import codes
from isthmus.wire.batch import Batch, scan
from isthmus.wire.connection import Connection
from isthmus.wire.fetch import FetchSession, Want
from isthmus.wire.offsets import LATEST, READ_UNCOMMITTED, PartitionKey, list_offsets, log_ends

_DESCRIBE_PRODUCERS: Final = 61
_TAIL_RESPONSE_BYTES: Final = 32 << 20
_TAILS_AT_ONCE: Final = 64
_TIMEOUT_S: Final = 3.0


async def look(
    connection: Connection, epochs: dict[PartitionKey, int], producer_id: int
) -> dict[PartitionKey, Look | int]:
    """A look at each partition, or the error code its leader answered instead. Three requests for all of them.

    The log end is asked for first and the high watermark second, so that `high_watermark >= log_end` proves that
    everything up to that end is replicated.
    """
    ends, marks, producers = await asyncio.gather(
        log_ends(connection, epochs, timeout_s=_TIMEOUT_S),
        list_offsets(connection, epochs, LATEST, isolation=READ_UNCOMMITTED, timeout_s=_TIMEOUT_S),
        producer_states(connection, epochs, producer_id),
    )
    looks: dict[PartitionKey, Look | int] = {}
    for key in epochs:
        end, mark = ends.get(key), marks.get(key)
        if end is None or mark is None:
            looks[key] = codes.UNKNOWN_TOPIC_OR_PARTITION
        elif end.error_code or mark.error_code:
            looks[key] = end.error_code or mark.error_code
        else:
            looks[key] = Look(end.offset, mark.offset, producers.get(key))
    return looks


async def producer_states(
    connection: Connection, keys: Iterable[PartitionKey], producer_id: int
) -> dict[PartitionKey, ProducerState]:
    """What the leader keeps of `producer_id` in each partition; nothing where it keeps none or does not tell."""
    if _DESCRIBE_PRODUCERS not in connection.api_versions:
        return {}
    topics: dict[str, list[int]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(partition)
    request = DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=partitions)
            for name, partitions in topics.items()
        ]
    )
    answer = await connection.call(request, timeout_s=_TIMEOUT_S)
    return {
        (topic.name, p.partition_index): ProducerState(
            state.producer_epoch, state.last_sequence, state.last_timestamp
        )
        for topic in answer.topics
        for p in topic.partitions
        for state in p.active_producers
        if state.producer_id == producer_id
    }


async def tails(connection: Connection, runs: Sequence[LaneRun]) -> dict[PartitionKey, Batch | None]:
    """The last batch before each writer's position; None where the log holds no record any more.

    Partitions whose leader did not answer are left out.
    """
    found: dict[PartitionKey, Batch | None] = {}
    for begin in range(0, len(runs), _TAILS_AT_ONCE):
        chunk = [run for run in runs[begin : begin + _TAILS_AT_ONCE] if run.writer.position > 0]
        while chunk:
            got = await _tails(connection, chunk)
            if not got:
                break
            found |= got
            chunk = [run for run in chunk if run.target not in found]
    return found


async def _tails(connection: Connection, runs: Sequence[LaneRun]) -> dict[PartitionKey, Batch | None]:
    wants = {run.target: Want(run.lane.target_topic_id, run.writer.position - 1, -1, -1) for run in runs}
    found: dict[PartitionKey, Batch | None] = {}
    for key, (error_code, records) in (await read_once(connection, wants)).items():
        if error_code == codes.OFFSET_OUT_OF_RANGE:
            found[key] = None
        elif error_code == codes.NONE:
            batches = list(scan(records))
            if batches:
                found[key] = batches[-1]
    return found


async def read_once(
    connection: Connection, wants: dict[PartitionKey, Want], *, bytes_max: int = _TAIL_RESPONSE_BYTES
) -> dict[PartitionKey, tuple[int, bytes]]:
    """One fetch outside any session: error code and record bytes by partition."""
    session = FetchSession(isolation=READ_UNCOMMITTED, incremental=False)
    for key, want in wants.items():
        session.want(key, want)
    request: Any = session.request(
        max_wait_ms=0,
        bytes_max=bytes_max,
        partition_bytes_max=bytes_max,
        by_topic_id=all(want.topic_id.int for want in wants.values()),
    )
    answer = await connection.call(request, timeout_s=_TIMEOUT_S)
    if answer.error_code != codes.NONE:
        raise ClusterError(f"{connection.where} refused a fetch: {codes.name_of(answer.error_code)}")
    return {p.key: (p.error_code, p.records) for p in session.partitions(answer)}
