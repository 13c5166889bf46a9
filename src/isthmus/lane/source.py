"""Looking at the source: where its logs begin and end, and single batches to compare with."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from isthmus.wire.connection import Connection
from isthmus.wire.offsets import EARLIEST, LATEST, READ_COMMITTED, PartitionKey, list_offsets


class Bounds(NamedTuple):
    """The log start and the last stable offset of a source partition."""

    start: int
    stable_end: int


async def bounds(connection: Connection, epochs: dict[PartitionKey, int]) -> dict[PartitionKey, Bounds | int]:
    """The bounds of each partition, or the error code its leader answered instead."""
    starts, ends = await asyncio.gather(
        list_offsets(connection, epochs, EARLIEST),
        list_offsets(connection, epochs, LATEST, isolation=READ_COMMITTED),
    )
    found: dict[PartitionKey, Bounds | int] = {}
    for key in epochs:
        start, end = starts[key], ends[key]
        found[key] = start.error_code or end.error_code or Bounds(start.offset, end.offset)
    return found
