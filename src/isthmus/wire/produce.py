"""Produce (API 0) for record batches that are already bytes.

The one request encoded here rather than by kafka-python's codec: that one copies every record twice, this one none.
Answers that say that all is well are read here too, as each is waited for; all others are the library's. Tests hold
both against it, byte for byte.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.producer import ProduceResponse

from isthmus.wire import codes
from isthmus.wire.connection import Buffer
from isthmus.wire.frames import skip_response_header, uvarint

API_KEY: Final = 0
VERSION_MIN: Final = 3
VERSION_MAX: Final = 13
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13
_ACKS_ALL: Final = -1
_ONE_BYTE: Final = [bytes((value,)) for value in range(0x80)]
_SIZE: Final = struct.Struct(">i")
_WELL: Final = struct.Struct(">ihqqqBBB")
"""Partition, error, base offset, append time, log start; then the sizes of the record errors, the message, the tags."""


AnswerKey = tuple[bytes | str, int]
"""A topic, by the bytes of its id from version 13 on, and the partition."""


class Append(NamedTuple):
    """One record batch for one partition: a stamped 61-byte header and the records behind it."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    header: bytes
    records: memoryview


class Appended(NamedTuple):
    """What the leader answered. `base_offset` is -1 where it refused."""

    error_code: int
    base_offset: int
    error_message: str | None


def version_for(api_versions: Any) -> int:
    """The Produce version to use with a broker that offers `api_versions`."""
    return int(min(VERSION_MAX, api_versions[API_KEY][1]))


def encode(
    appends: Sequence[Append],
    *,
    version: int,
    correlation: int,
    client_id: str,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> list[Buffer]:
    """A whole request frame as a list of buffers; the records are the views that were given. acks is always -1 (all).

    Appends to one topic must stand together, one batch per partition.
    """
    flexible = version >= _FLEXIBLE_FROM
    client = client_id.encode()
    out = bytearray(struct.pack(">hhih", API_KEY, version, correlation, len(client)))
    out += client
    if flexible:
        out.append(0)
        out += _compact_string(transactional_id)
    else:
        out += _string(transactional_id)
    out += struct.pack(">hi", _ACKS_ALL, timeout_ms)
    topics = _by_topic(appends)
    out += _count(len(topics), flexible)
    buffers: list[Buffer] = []
    for group in topics:
        if version >= _TOPIC_IDS_FROM:
            out += group[0].topic_id.bytes
        else:
            out += _compact_string(group[0].topic) if flexible else _string(group[0].topic)
        out += _count(len(group), flexible)
        for append in group:
            size = len(append.header) + len(append.records)
            out += _SIZE.pack(append.partition)
            out += _uvarint(size + 1) if flexible else _SIZE.pack(size)
            out += append.header
            buffers += (out, append.records)
            out = bytearray(b"\0" if flexible else b"")
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        buffers.append(out)
    return [_SIZE.pack(sum(map(len, buffers))), *buffers]


def decode(payload: memoryview, correlation: int, version: int) -> tuple[dict[AnswerKey, Appended], int]:
    """The answers, and the throttle time in ms."""
    flexible = version >= _FLEXIBLE_FROM
    position = skip_response_header(payload, correlation, flexible=flexible)
    if flexible and (well := _all_well(payload[position:], by_id=version >= _TOPIC_IDS_FROM)) is not None:
        return well
    answer = ProduceResponse.decode(payload[position:], version=version)
    appended = {
        (topic.topic_id.bytes if version >= _TOPIC_IDS_FROM else topic.name, p.index): Appended(
            p.error_code, p.base_offset, getattr(p, "error_message", None)
        )
        for topic in answer.responses
        for p in topic.partition_responses
    }
    return appended, answer.throttle_time_ms or 0


def _all_well(body: memoryview, *, by_id: bool) -> tuple[dict[AnswerKey, Appended], int] | None:
    """An answer without any error, without messages and unknown fields; None for every other."""
    appended: dict[AnswerKey, Appended] = {}
    topics, position = uvarint(body, 0)
    for _ in range(topics - 1):
        topic: bytes | str
        if by_id:
            end = position + 16
            topic = bytes(body[position:end])
        else:
            length, position = uvarint(body, position)
            end = position + length - 1
            topic = str(body[position:end], "utf-8")
        partitions, position = uvarint(body, end)
        for _ in range(partitions - 1):
            index, error, base_offset, _, _, record_errors, message, tags = _WELL.unpack_from(body, position)
            if error or record_errors != 1 or message or tags:
                return None
            appended[topic, index] = Appended(codes.NONE, base_offset, None)
            position += _WELL.size
        if body[position]:
            return None
        position += 1
    (throttle_ms,) = _SIZE.unpack_from(body, position)
    return None if body[position + _SIZE.size] else (appended, throttle_ms)


def answer_key(append: Append, version: int) -> AnswerKey:
    """Where `decode` puts the answer to an append."""
    return (append.topic_id.bytes if version >= _TOPIC_IDS_FROM else append.topic), append.partition


def _by_topic(appends: Sequence[Append]) -> list[list[Append]]:
    groups: dict[str, list[Append]] = {}
    for append in appends:
        groups.setdefault(append.topic, []).append(append)
    return list(groups.values())


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _compact_string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    data = text.encode()
    return _uvarint(len(data) + 1) + data


def _count(n: int, flexible: bool) -> bytes:
    return _uvarint(n + 1) if flexible else _SIZE.pack(n)


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    return bytes((value & 0x7F | 0x80,)) + _uvarint(value >> 7)
