"""Produce (API 0) for record batches that are already bytes.

This is the only request that is not encoded by kafka-python's codec, which copies every record twice; this encoder
copies none. Answers without errors are decoded here too, for speed; all others by the library. Tests compare both with
the library, byte for byte.
"""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kafka.protocol.producer import ProduceResponse

from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.connect.frames import Buffer, Frame, skip_response_header, uvarint
from isthmus.kafka.permission import Permission

API_KEY: Final = 0
VERSION_MIN: Final = 3
VERSION_MAX: Final = 13
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13
_ADDED_BY_CLIENT_MAX: Final = 11
_ACKS_ALL: Final = -1
_ONE_BYTE: Final = [bytes((value,)) for value in range(0x80)]
_HEAD: Final = struct.Struct(">hhih")
_ACKS: Final = struct.Struct(">hi")
_SIZE: Final = struct.Struct(">i")
_WELL: Final = struct.Struct(">ihqqqBBB")
"""Partition, error, base offset, append time, log start; the sizes of the record errors, the message, the tags."""


AnswerKey = tuple[bytes | str, int]
"""A topic, by the bytes of its id from version 13 on, else by name, and the partition."""


class Append(NamedTuple):
    """One record batch for one partition: a stamped 61-byte header and the records behind it."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    header: bytes
    records: memoryview


class Appended(NamedTuple):
    """The leader's answer to an append. `base_offset` is -1 if it was refused."""

    error_code: int
    base_offset: int
    error_message: str | None


class Answers(NamedTuple):
    """The result of each append, and the throttle time in ms."""

    appended: dict[AnswerKey, Appended]
    throttle_time_ms: int


def version_for(api_versions: Any, appends: Iterable[Append] = (), *, is_transactional: bool = False) -> int:
    """The Produce version to use for `appends` with a broker that offers `api_versions`.

    Topics are identified by id if all of them have one: then a new topic of the same name refuses our bytes.
    Transactions do not use versions that add partitions by themselves (KIP-890).
    """
    version = int(min(VERSION_MAX, api_versions[API_KEY][1]))
    if is_transactional:
        return min(version, _ADDED_BY_CLIENT_MAX)
    return version if all(append.topic_id.int for append in appends) else min(version, _TOPIC_IDS_FROM - 1)


def encode(
    appends: Sequence[Append],
    *,
    version: int,
    correlation: int,
    client_id: str,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> Frame:
    """Encode a whole request frame, which refers to the given views of records. acks is always -1 (all).

    Appends to one topic must stand together, one batch per partition.
    """
    flexible = version >= _FLEXIBLE_FROM
    no_tags = b"\0" if flexible else b""
    client = client_id.encode()
    out = b"".join((_HEAD.pack(API_KEY, version, correlation, len(client)), client, no_tags))
    out += _compact_string(transactional_id) if flexible else _string(transactional_id)
    out += _ACKS.pack(_ACKS_ALL, timeout_ms)
    topics = _by_topic(appends)
    out += _count(len(topics), flexible)
    buffers: list[Buffer] = [b""]
    total = 0
    for group in topics:
        if version >= _TOPIC_IDS_FROM:
            out += group[0].topic_id.bytes
        else:
            out += _compact_string(group[0].topic) if flexible else _string(group[0].topic)
        out += _count(len(group), flexible)
        for _, _, partition, header, records in group:
            size = len(header) + len(records)
            length = _uvarint(size + 1) if flexible else _SIZE.pack(size)
            before = b"".join((out, _SIZE.pack(partition), length, header))
            buffers += (before, records)
            total += len(before) + len(records)
            out = no_tags
        out += no_tags
    out += no_tags
    if out:
        buffers.append(out)
        total += len(out)
    buffers[0] = _SIZE.pack(total)
    return Frame(buffers, _SIZE.size + total)


def post(
    connection: Connection,
    appends: Sequence[Append],
    *,
    version: int,
    timeout_ms: int,
    timeout_s: float,
    transactional_id: str | None = None,
    may_send: Permission | None = None,
) -> asyncio.Future[Answers]:
    """Send a request now. The broker answers after `timeout_ms` at the latest; we give up after `timeout_s`.

    For `may_send` see `Connection.post_frame`.

    :raises Unreachable: The connection is closed.
    """
    frame = encode(
        appends,
        version=version,
        correlation=connection.next_correlation,
        client_id=connection.client_id,
        timeout_ms=timeout_ms,
        transactional_id=transactional_id,
    )
    return connection.post_frame(
        frame, partial(decode, version=version), timeout_s=timeout_s, what="Produce", may_send=may_send
    )


async def post_one(
    connection: Connection,
    append: Append,
    *,
    timeout_ms: int,
    timeout_s: float,
    transactional_id: str | None = None,
    may_send: Permission | None = None,
) -> Appended:
    """Send one batch and wait for its leader's answer; see `post`.

    :raises Unreachable: No answer came: it is unknown whether the batch was appended.
    """
    version = version_for(connection.api_versions, [append], is_transactional=transactional_id is not None)
    answers, _ = await post(
        connection,
        [append],
        version=version,
        timeout_ms=timeout_ms,
        timeout_s=timeout_s,
        transactional_id=transactional_id,
        may_send=may_send,
    )
    return answers[answer_key(append, version)]


def decode(payload: memoryview, correlation: int, version: int) -> Answers:
    """Decode the answers and the throttle time in ms."""
    flexible = version >= _FLEXIBLE_FROM
    position = skip_response_header(payload, correlation, flexible=flexible)
    if flexible and (well := _decode_all_well(payload[position:], by_id=version >= _TOPIC_IDS_FROM)) is not None:
        return well
    answer = ProduceResponse.decode(payload[position:], version=version)
    appended = {
        (topic.topic_id.bytes if version >= _TOPIC_IDS_FROM else topic.name, p.index): Appended(
            p.error_code, p.base_offset, getattr(p, "error_message", None)
        )
        for topic in answer.responses
        for p in topic.partition_responses
    }
    return Answers(appended, answer.throttle_time_ms or 0)


def _decode_all_well(body: memoryview, *, by_id: bool) -> Answers | None:
    """Decode an answer without errors, messages and unknown fields; None for every other."""
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
    return None if body[position + _SIZE.size] else Answers(appended, throttle_ms)


def answer_key(append: Append, version: int) -> AnswerKey:
    """The key under which `decode` puts the answer to an append."""
    return answer_keys(append.topic, append.topic_id, append.partition)[by_id(version)]


def answer_keys(topic: str, topic_id: uuid.UUID, partition: int) -> tuple[AnswerKey, AnswerKey]:
    """The keys under which `decode` puts the answers to a partition: by topic name and by topic id, see `by_id`."""
    return (topic, partition), (topic_id.bytes, partition)


def by_id(version: int) -> bool:
    """Whether this version identifies topics by id (KIP-516) instead of by name."""
    return version >= _TOPIC_IDS_FROM


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
    if value < 1 << 7:
        return _ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((value & 0x7F | 0x80,)) + _uvarint(value >> 7)
