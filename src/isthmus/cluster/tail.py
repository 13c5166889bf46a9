"""Single batches of many logs: what a leader has at or behind an offset, and what it can tell where it has none."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from isthmus.cluster.offsets import leaders_of
from isthmus.errors import ClusterError, Unreachable
from isthmus.model.rights import on_topic
from isthmus.wire import codes
from isthmus.wire.aborted import AbortedView
from isthmus.wire.batch import Batch, scan
from isthmus.wire.client import Client
from isthmus.wire.connection import Connection
from isthmus.wire.fetch import Fetched, Want, fetch_once
from isthmus.wire.offsets import EARLIEST, READ_UNCOMMITTED, PartitionKey, list_offsets

_TIMEOUT_S: Final = 3.0
_AT_ONCE: Final = 64
_RESPONSE_BYTES: Final = 32 << 20
_PARTITION_BYTES: Final = 2 << 20

UNTOLD: Final = Unreachable(
    "the last batch could not be read: the leader cannot tell now what its log holds there",
    hint="Isthmus looks again by itself; if it lasts, check the brokers of this partition.",
)


class NoBatch(enum.Enum):
    """Why a log is known to have no batch at an offset."""

    HOLE = "a hole"
    """The log goes on behind it, but nothing is stored there."""
    DELETED = "deleted"
    """The log begins behind it."""


class Read(NamedTuple):
    """The first batch at or behind an offset, or why there is none; `log_start` is -1 where it is not told.

    `is_aborted` says that it belongs to an aborted transaction; only what is read at read_committed tells.
    """

    batch: Batch | NoBatch
    log_start: int
    is_aborted: bool = False


Found = Read | ClusterError


async def batches_at(
    connection: Connection, wants: Mapping[PartitionKey, Want], isolation: int = READ_UNCOMMITTED
) -> dict[PartitionKey, Found]:
    """The first batch at or behind each wanted offset, or why there is none; an error where the broker cannot tell.

    :raises ClusterError: The broker did not answer, or not with record batches.
    """
    found: dict[PartitionKey, Found] = {}
    waiting, outside = dict(wants), dict[PartitionKey, int]()
    while waiting:
        chunk = dict(islice(waiting.items(), _AT_ONCE))
        answers = {fetched.key: fetched for fetched in await _fetch_some(connection, chunk, isolation)}
        try:
            told = {key: found_in(fetched) for key, fetched in answers.items()}
        except ValueError as error:
            raise ClusterError(f"{connection.where} has an unreadable batch: {error}") from error
        # While others got theirs there may have been no room for a batch: it comes with the next answer.
        is_room_left = not any(isinstance(each, Batch) for each in told.values())
        for key in chunk:
            error_code, each = answers[key].error_code, told[key]
            if not isinstance(each, Batch) and error_code == codes.NONE and not is_room_left:
                continue
            del waiting[key]
            if error_code != codes.NONE:
                what = f"reading {key[0]}-{key[1]} at offset {wants[key].offset}"
                found[key] = codes.error_for(error_code, what, on_topic("READ", key[0]), cluster=connection.cluster)
                if error_code == codes.OFFSET_OUT_OF_RANGE:
                    outside[key] = wants[key].leader_epoch
            else:
                found[key] = UNTOLD if each is None else _read(each, answers[key])
    starts = await list_offsets(connection, outside, EARLIEST, timeout_s=_TIMEOUT_S) if outside else {}
    for key, start in starts.items():
        # A log that ends before it is no proof of anything: its leader may only lag behind.
        if start.error_code == codes.NONE and start.offset > wants[key].offset:
            found[key] = Read(NoBatch.DELETED, start.offset)
    return found


async def last_batches(client: Client, ends: Mapping[PartitionKey, int]) -> dict[PartitionKey, Batch]:
    """The batch of each of these logs that ends there; those that cannot be read now are left out.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    found = await batches_before(client, ends)
    return {key: each for key, each in found.items() if isinstance(each, Batch) and each.offset_end == ends[key]}


async def batches_before(client: Client, ends: Mapping[PartitionKey, int]) -> dict[PartitionKey, Batch | NoBatch]:
    """The first batch of each of these logs at or behind the last offset before these, or why there is none; logs that
    cannot be read now are left out.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    ends = {key: end for key, end in ends.items() if end > 0}
    if not ends:
        return {}
    metadata = await client.metadata(sorted({topic for topic, _ in ends}))
    leaders, _ = leaders_of(metadata, ends)

    async def ask(leader: int, epochs: Mapping[PartitionKey, int]) -> dict[PartitionKey, Found]:
        wants = {key: Want(metadata.topics[key[0]].topic_id, ends[key] - 1, epoch, -1) for key, epoch in epochs.items()}
        try:
            return await batches_at(await client.connection(leader), wants)
        except ClusterError:
            return {}

    answers = await asyncio.gather(*(ask(leader, epochs) for leader, epochs in leaders.items()))
    return {key: found.batch for answer in answers for key, found in answer.items() if isinstance(found, Read)}


def found_in(fetched: Fetched) -> Batch | NoBatch | None:
    """What an answer shows at or behind the offset asked for; None if it does not tell.

    :raises ValueError: It holds something else than record batches.
    """
    if not fetched.records and fetched.error_code == codes.NONE:
        # Only at read_committed the stable end is told, and nothing is read beyond it.
        end = fetched.high_watermark if fetched.stable_end < 0 else fetched.stable_end
        is_within = fetched.log_start <= fetched.offset < end
        return NoBatch.HOLE if is_within else None
    return _first(fetched.records)


def _read(batch: Batch | NoBatch, fetched: Fetched) -> Read:
    return Read(batch, fetched.log_start, isinstance(batch, Batch) and AbortedView(fetched.aborted).advance(batch))


async def _fetch_some(connection: Connection, wants: Mapping[PartitionKey, Want], isolation: int) -> list[Fetched]:
    return await fetch_once(
        connection,
        wants,
        isolation=isolation,
        bytes_max=_RESPONSE_BYTES,
        partition_bytes_max=_PARTITION_BYTES,
        timeout_s=_TIMEOUT_S,
    )


def _first(records: bytes) -> Batch | None:
    """The first batch, without what came behind it: that may be a thousand times as much."""
    batch = next(scan(records), None)
    return None if batch is None else batch._replace(view=memoryview(bytes(batch.view)))
