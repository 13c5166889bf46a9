"""Acknowledgements of Produce: read them, change them, and build our own for requests not forwarded. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from isthmus.gateway.frames.layout import MessageCursor, response_body, written_count, written_text
from isthmus.gateway.frames.messages import PRODUCE, is_flexible
from isthmus.gateway.frames.walking import BatchWritten
from isthmus.kafka import codes
from isthmus.kafka.log.listoffsets import PartitionKey

_SIZE: Final = struct.Struct(">i")
_CORRELATION: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihq")
_CODE: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NOWHERE: Final = -1
_APPEND_TIME_FROM: Final = 2
_LOG_START_FROM: Final = 5
_ERRORS_FROM: Final = 8


class Acknowledged(NamedTuple):
    """The acknowledgement of a partition, and where its error code is in the frame. `base` is the first offset."""

    key: PartitionKey
    code: int
    base: int
    code_at: int


def read_acknowledgements(frame: memoryview, version: int) -> list[Acknowledged]:
    """Read all acknowledgements of an answer.

    :raises Short: It is cut off.
    :raises ValueError: It is no such answer.
    """
    flexible = is_flexible(PRODUCE, version)
    body = response_body(frame[_SIZE.size :], flexible=flexible, has_tags=flexible)
    found = []
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            at = _SIZE.size + body.skip(_HEAD.size)
            partition, code, base = _HEAD.unpack_from(frame, at)
            found.append(Acknowledged((topic, partition), code, base, at + _INT32.size))
            body.skip((8 if version >= _APPEND_TIME_FROM else 0) + (8 if version >= _LOG_START_FROM else 0))
            if version >= _ERRORS_FROM:
                skip_errors(body)
            body.skip_tags()
        body.skip_tags()
    return found


def skip_errors(body: MessageCursor) -> None:
    """Skip the record errors of a partition, and its error message (KIP-467).

    :raises Short: It is cut off.
    """
    for _ in range(body.count()):
        body.skip(4)
        body.skip_text()
        body.skip_tags()
    body.skip_text()


def fail(frame: bytearray, code_at: int, code: int) -> None:
    """Set the error code at this place of an answer."""
    _CODE.pack_into(frame, code_at, code)


def build_refusal(
    written: Iterable[BatchWritten], refusals: Mapping[PartitionKey, int], *, version: int, correlation: int
) -> bytes:
    """Build the answer to a request that is not forwarded: partitions get the error codes `refusals`, and all others
    NOT_LEADER_OR_FOLLOWER, for which clients send them again.
    """
    flexible = is_flexible(PRODUCE, version)
    tags = b"\0" if flexible else b""
    topics = [(topic, list(found)) for topic, found in groupby(written, lambda each: each.topic)]
    parts = [_CORRELATION.pack(correlation), tags, written_count(len(topics), flexible=flexible)]
    for topic, partitions in topics:
        found = [
            (one.partition, refusals.get((topic, one.partition), codes.NOT_LEADER_OR_FOLLOWER)) for one in partitions
        ]
        parts.append(refused_topic(topic, found, version=version))
    parts += (_INT32.pack(0), tags)
    payload = b"".join(parts)
    return _SIZE.pack(len(payload)) + payload


def refused_topic(topic: str, found: Sequence[tuple[int, int]], *, version: int) -> bytes:
    """Build the part of an answer for a topic to which nothing was appended: partitions and their error codes."""
    flexible = is_flexible(PRODUCE, version)
    tags = b"\0" if flexible else b""
    parts = [written_text(topic, flexible=flexible), written_count(len(found), flexible=flexible)]
    for partition, code in found:
        parts.append(_HEAD.pack(partition, code, _NOWHERE))
        parts.append(_times_and_errors(version, flexible=flexible) + tags)
    return b"".join((*parts, tags))


def _times_and_errors(version: int, *, flexible: bool) -> bytes:
    found = b"\xff" * 8 if version >= _APPEND_TIME_FROM else b""
    if version >= _LOG_START_FROM:
        found += b"\xff" * 8
    if version >= _ERRORS_FROM:
        found += written_count(0, flexible=flexible) + written_text(None, flexible=flexible)
    return found


def ends_of(
    written: Iterable[BatchWritten], answered: Iterable[Acknowledged]
) -> Mapping[PartitionKey, tuple[int, int]]:
    """Return the offsets `[begin, end)` of batches that were appended outside a transaction."""
    records = {(each.topic, each.partition): each.records for each in written if not each.is_transactional}
    return {
        each.key: (each.base, each.base + records[each.key])
        for each in answered
        if each.code == codes.NONE and each.base >= 0 and each.key in records
    }
