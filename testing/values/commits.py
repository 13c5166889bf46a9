"""Records of `__consumer_offsets`, in bytes."""

from __future__ import annotations

import struct
import uuid

from isthmus.model.kafka.group import Committed


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def compact(value: str) -> bytes:
    data = value.encode()
    size, out = len(data) + 1, bytearray()
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size]) + data


def key(version: int, group: str, topic: str, partition: int) -> bytes:
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def value(version: int, committed: Committed, at_ms: int) -> bytes:
    head = struct.pack(">hq", version, committed.offset)
    if version >= 3:
        head += struct.pack(">i", committed.leader_epoch)
    body = compact(committed.metadata) if version >= 4 else text(committed.metadata)
    tail = struct.pack(">q", at_ms)
    if version == 1:
        tail += struct.pack(">q", at_ms + 1)
    if version >= 4:
        # One tagged field: the topic's id.
        tail += b"\x01\x00\x10" + uuid.UUID(int=7).bytes
    return head + body + tail
