"""Reads single batches of many logs: the one at or behind an offset, or why there is none."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.aborted import AbortedView
from isthmus.kafka.batches.batch import Batch, scan
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.fetch import Fetched, Want, fetch_once
from isthmus.kafka.log.leaders import leaders_of
from isthmus.kafka.log.listoffsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_LOCAL_FROM,
    READ_UNCOMMITTED,
    list_offsets,
)
from isthmus.model.kafka.rights import on_topic
from isthmus.model.naming import TopicT

_TIMEOUT_S: Final = 3.0
_AT_ONCE: Final = 64
_RESPONSE_BYTES: Final = 32 << 20
_PARTITION_BYTES: Final = 2 << 20
_TIER_MS: Final = 1_000
"""How long a broker may read from a remote tier."""

UNTOLD: Final = Unreachable(
    "the last batch could not be read: the leader cannot report the content of its log there now",
    hint="Isthmus looks again by itself; if it lasts, check the brokers of this partition.",
)


class NoBatch(enum.Enum):
    """Why a log is known to have no batch at an offset."""

    HOLE = "a hole"
    """The log continues behind it, but has no batch there."""
    DELETED = "deleted"
    """The log begins behind it."""


class Read(NamedTuple):
    """The first batch at or behind an offset, or why there is none; `log_start` is -1 if not known.

    `is_aborted` means that it belongs to an aborted transaction; this is only known at read_committed.
    """

    batch: Batch | NoBatch
    log_start: int
    is_aborted: bool = False


Found = Read | ClusterError


async def batches_at(
    connection: Connection,
    wants: Mapping[tuple[TopicT, int], Want],
    isolation: int = READ_UNCOMMITTED,
    *,
    partition_bytes_max: int = _PARTITION_BYTES,
) -> dict[tuple[TopicT, int], Found]:
    """Read the first batch at or behind each wanted offset, or why there is none; else the broker's error. An answer
    holds about `partition_bytes_max` of a partition.

    :raises ClusterError: The broker did not answer, or not with record batches.
    """
    fetch = partial(fetch_once, connection, isolation=isolation, partition_bytes_max=partition_bytes_max)
    found = await _read_batches(connection, wants, fetch)
    if doubted := await find_in_tier(connection, {key: wants[key] for key in _holes_in(found)}):
        # The broker may have given up on its tier.
        found |= await _read_batches(connection, doubted, partial(fetch, max_wait_ms=_TIER_MS))
        found |= dict.fromkeys(_holes_in(found) & doubted.keys(), UNTOLD)
    return found


def _holes_in(found: Mapping[tuple[TopicT, int], Found]) -> set[tuple[TopicT, int]]:
    return {key for key, each in found.items() if isinstance(each, Read) and each.batch is NoBatch.HOLE}


async def find_in_tier(
    connection: Connection, wants: Mapping[tuple[TopicT, int], Want]
) -> dict[tuple[TopicT, int], Want]:
    """Find the wanted offsets that may lie in a remote tier (KIP-405). There an empty answer shows no hole, as the tier
    may have been too slow.

    :raises ClusterError: The broker did not answer.
    """
    if not wants or connection.api_versions[ListOffsetsRequest.API_KEY][1] < EARLIEST_LOCAL_FROM:
        return {}
    epochs = {key: want.leader_epoch for key, want in wants.items()}
    starts = await list_offsets(connection, epochs, EARLIEST_LOCAL, timeout_s=_TIMEOUT_S)
    return {key: wants[key] for key, start in starts.items() if start.error_code or start.offset > wants[key].offset}


async def _read_batches(
    connection: Connection,
    wants: Mapping[tuple[TopicT, int], Want],
    fetch: Callable[..., Awaitable[list[Fetched[TopicT]]]],
) -> dict[tuple[TopicT, int], Found]:
    found: dict[tuple[TopicT, int], Found] = {}
    waiting, outside = dict(wants), dict[tuple[TopicT, int], int]()
    while waiting:
        chunk = dict(islice(waiting.items(), _AT_ONCE))
        parts = await fetch(chunk, bytes_max=_RESPONSE_BYTES, timeout_s=_TIMEOUT_S)
        answers = {fetched.key: fetched for fetched in parts}
        try:
            seen = {key: found_in(fetched) for key, fetched in answers.items()}
        except ValueError as error:
            raise ClusterError(f"{connection.where} has an unreadable batch: {error}") from error
        # An answer full of other batches may have had no room for this one: ask again.
        is_room_left = not any(isinstance(each, Batch) for each in seen.values())
        for key in chunk:
            error_code, each = answers[key].error_code, seen[key]
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
        # A log that ends before the offset proves nothing: its leader may only lag.
        if start.error_code == codes.NONE and start.offset > wants[key].offset:
            found[key] = Read(NoBatch.DELETED, start.offset)
    return found


async def last_batches(client: Client, ends: Mapping[tuple[TopicT, int], int]) -> dict[tuple[TopicT, int], Batch]:
    """Read the batch of each of these logs that ends at the offset; logs that cannot be read now are left out.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    found = await batches_before(client, ends)
    return {key: each for key, each in found.items() if isinstance(each, Batch) and each.offset_end == ends[key]}


async def batches_before(
    client: Client, ends: Mapping[tuple[TopicT, int], int], *, partition_bytes_max: int = _PARTITION_BYTES
) -> dict[tuple[TopicT, int], Batch | NoBatch]:
    """Read the first batch of each of these logs at or behind the last offset before its end, or why there is none;
    logs that cannot be read now are left out. For `partition_bytes_max` see `batches_at`.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    ends = {key: end for key, end in ends.items() if end > 0}
    if not ends:
        return {}
    metadata = await client.metadata(sorted({topic for topic, _ in ends}))
    leaders, _ = leaders_of(metadata, ends)

    async def ask(leader: int, epochs: Mapping[tuple[TopicT, int], int]) -> dict[tuple[TopicT, int], Found]:
        wants = {key: Want(metadata.topics[key[0]].topic_id, ends[key] - 1, epoch, -1) for key, epoch in epochs.items()}
        try:
            connection = await client.connection(leader)
            return await batches_at(connection, wants, partition_bytes_max=partition_bytes_max)
        except ClusterError:
            return {}

    answers = await asyncio.gather(*(ask(leader, epochs) for leader, epochs in leaders.items()))
    return {key: found.batch for answer in answers for key, found in answer.items() if isinstance(found, Read)}


def found_in(fetched: Fetched[Any]) -> Batch | NoBatch | None:
    """Find the batch at or behind the requested offset in an answer, or a hole; None if the answer proves neither.

    :raises ValueError: The answer does not hold record batches.
    """
    if not fetched.records and fetched.error_code == codes.NONE:
        return NoBatch.HOLE if fetched.log_start <= fetched.offset < fetched.end else None
    return _first(fetched.records)


def _read(batch: Batch | NoBatch, fetched: Fetched[Any]) -> Read:
    return Read(batch, fetched.log_start, isinstance(batch, Batch) and AbortedView(fetched.aborted).advance(batch))


def _first(records: bytes) -> Batch | None:
    """Copy the first batch, to release the rest of the answer, which may be a thousand times as large."""
    batch = next(scan(records), None)
    return None if batch is None else batch._replace(view=memoryview(bytes(batch.view)))
