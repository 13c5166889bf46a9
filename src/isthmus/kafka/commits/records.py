"""Encodes and decodes the commits in `__consumer_offsets`.

Keys are versioned: 0 and 1 are commits, 2 is a classic group's metadata, and newer coordinators use higher versions for
other records. Only commits are decoded here, with values of versions 0 to 4; a value of None is a tombstone. Keys are
encoded in version 1 and values in version 3, which tools know since Kafka 2.1 (KIP-320). Kafka's definitions are
OffsetCommitKey.json and OffsetCommitValue.json of its group coordinator.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from isthmus.model.kafka.group import NO_LEADER_EPOCH, Committed
from isthmus.model.naming import SourceTopic
from isthmus.model.text.wording import format_count

_COMMIT_KEYS_UP_TO: Final = 1
_EPOCH_FROM: Final = 3
_FLEXIBLE_FROM: Final = 4
_VALUES_UP_TO: Final = 4
_KEY_WRITTEN: Final = 1
_VALUE_WRITTEN: Final = 3
_TEXT_BYTES_MAX: Final = 32767
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class CommitKey(NamedTuple):
    """The group and the partition of a position."""

    group: str
    topic: SourceTopic
    partition: int


def commit_key(key: bytes) -> CommitKey | None:
    """Decode the key of a commit; `None` for the key of another record.

    :raises ValueError: The bytes are not a valid key.
    """
    try:
        (version,) = _SHORT.unpack_from(key)
        if version > _COMMIT_KEYS_UP_TO:
            return None
        group, position = _text(key, _SHORT.size)
        topic, position = _text(key, position)
        (partition,) = _INT.unpack_from(key, position)
    except struct.error as error:
        raise ValueError(f"a key of {format_count(len(key), 'byte')} ends too soon") from error
    return CommitKey(group, SourceTopic(topic), partition)


def commit_value(value: bytes) -> Committed:
    """Decode the value of a commit.

    :raises ValueError: The bytes are not a valid value, or of an unknown version.
    """
    try:
        (version,) = _SHORT.unpack_from(value)
        if not 0 <= version <= _VALUES_UP_TO:
            raise ValueError(f"commits of version {version} are not known here")
        position = _SHORT.size
        (offset,) = _LONG.unpack_from(value, position)
        position += _LONG.size
        epoch = NO_LEADER_EPOCH
        if version >= _EPOCH_FROM:
            (epoch,) = _INT.unpack_from(value, position)
            position += _INT.size
        metadata, _ = _compact_text(value, position) if version >= _FLEXIBLE_FROM else _text(value, position)
    except (struct.error, IndexError) as error:
        raise ValueError(f"a commit of {format_count(len(value), 'byte')} ends too soon") from error
    return Committed(offset, epoch, metadata)


def commit_key_bytes(key: CommitKey) -> bytes:
    """Encode a key like a coordinator: version 1.

    :raises ValueError: A name is too long for such a key.
    """
    return _SHORT.pack(_KEY_WRITTEN) + _encode_text(key.group) + _encode_text(key.topic) + _INT.pack(key.partition)


def commit_value_bytes(committed: Committed, *, now_ms: int) -> bytes:
    """Encode a value like a coordinator: version 3, with `now_ms` as the time of the commit. Metadata that is too long
    for such a value is left out.
    """
    metadata = committed.metadata if len(committed.metadata.encode()) <= _TEXT_BYTES_MAX else ""
    head = _SHORT.pack(_VALUE_WRITTEN) + _LONG.pack(committed.offset) + _INT.pack(committed.leader_epoch)
    return head + _encode_text(metadata) + _LONG.pack(now_ms)


def _encode_text(text: str) -> bytes:
    octets = text.encode()
    if len(octets) > _TEXT_BYTES_MAX:
        raise ValueError(f"a text of {format_count(len(octets), 'byte')} is too long")
    return _SHORT.pack(len(octets)) + octets


def _text(data: bytes, position: int) -> tuple[str, int]:
    (size,) = _SHORT.unpack_from(data, position)
    return _utf8(data, position + _SHORT.size, size)


def _compact_text(data: bytes, position: int) -> tuple[str, int]:
    size = shift = 0
    while True:
        byte = data[position]
        position += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return _utf8(data, position, size - 1)
        shift += 7


def _utf8(data: bytes, begin: int, size: int) -> tuple[str, int]:
    end = begin + size
    if size < 0 or end > len(data):
        raise ValueError(f"a text of {format_count(size, 'byte')} goes beyond the end")
    return data[begin:end].decode(), end
