"""Looks at the source: where its logs begin and end."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.listoffsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    list_offsets,
)
from isthmus.model.naming import SourceTopicPartition


class Bounds(NamedTuple):
    """The log start and the last stable offset of a source partition, and the end of its log, -1 if not asked for.
    Records between the last two wait for open transactions.
    """

    start: int
    stable_end: int
    log_end: int = -1

    def read_end(self, *, is_whole: bool) -> int:
        """Where copying ends now: at the log end, or at the last stable offset."""
        return max(self.log_end, self.stable_end) if is_whole else self.stable_end


async def bounds(
    connection: Connection, epochs: dict[SourceTopicPartition, int]
) -> dict[SourceTopicPartition, Bounds | int]:
    """Ask for the bounds of each partition. The value is the error code if its leader answered one."""
    # In this order: asked for first, the stable end of a growing log would lie before its end without a transaction.
    starts, ends, stable_ends = await asyncio.gather(
        list_offsets(connection, epochs, EARLIEST),
        list_offsets(connection, epochs, LATEST, isolation=READ_UNCOMMITTED),
        list_offsets(connection, epochs, LATEST, isolation=READ_COMMITTED),
    )
    found: dict[SourceTopicPartition, Bounds | int] = {}
    for key in epochs:
        start, end, stable = starts[key], ends[key], stable_ends[key]
        code = start.error_code or end.error_code or stable.error_code
        found[key] = code or Bounds(start.offset, stable.offset, max(end.offset, stable.offset))
    return found
