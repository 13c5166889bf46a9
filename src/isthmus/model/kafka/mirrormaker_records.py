"""The records of MirrorMaker 2's internal topics, byte for byte: heartbeats, checkpoints and pairs of offsets.

Fields are Kafka's protocol types in big-endian order, a text being a 16-bit length and UTF-8. Checkpoints and
heartbeats have a version before the value, pairs of offsets have none. Sources: Checkpoint.java and Heartbeat.java of
Kafka's connect/mirror-client, OffsetSync.java of connect/mirror. There are no tombstones: MirrorClient fails on them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from isthmus.model.naming import SourceTopic, TargetTopic

VERSION: Final = 0
TEXT_BYTES_MAX: Final = 32767
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_HEARTBEAT: Final = struct.Struct(">hq")
_CHECKPOINT: Final = struct.Struct(">hqq")
_SYNC: Final = struct.Struct(">qq")
_T = TypeVar("_T")


class KeyedRecord(NamedTuple):
    """A record of a compacted topic, as bytes."""

    key: bytes
    value: bytes


class Heartbeat(NamedTuple):
    """A sign that one cluster is mirrored into another; `timestamp` in ms since the epoch."""

    source_alias: str
    target_alias: str
    timestamp: int

    @property
    def record(self) -> KeyedRecord:
        """Encode it."""
        key = _text(self.source_alias) + _text(self.target_alias)
        return KeyedRecord(key, _HEARTBEAT.pack(VERSION, self.timestamp))


class CheckpointKey(NamedTuple):
    """The group and partition of a checkpoint; the topic by its name at the target."""

    group: str
    topic: TargetTopic
    partition: int


class Checkpoint(NamedTuple):
    """The position of a group: the next offset to read at the source (`upstream`), and at the target (`downstream`)."""

    key: CheckpointKey
    upstream: int
    downstream: int
    metadata: str = ""

    @property
    def record(self) -> KeyedRecord:
        """Encode it. Metadata that no such record can hold is left out."""
        group, topic, partition = self.key
        metadata = self.metadata if len(self.metadata.encode(errors="replace")) <= TEXT_BYTES_MAX else ""
        value = _CHECKPOINT.pack(VERSION, self.upstream, self.downstream) + _text(metadata)
        return KeyedRecord(_text(group) + _text(topic) + _INT.pack(partition), value)


class SyncKey(NamedTuple):
    """A partition, its topic by the name at the source."""

    topic: SourceTopic
    partition: int


class OffsetSync(NamedTuple):
    """A record of the source at offset `upstream` is at `downstream` at the target."""

    key: SyncKey
    upstream: int
    downstream: int

    @property
    def record(self) -> KeyedRecord:
        """Encode it."""
        key = _text(self.key.topic) + _INT.pack(self.key.partition)
        return KeyedRecord(key, _SYNC.pack(self.upstream, self.downstream))


def heartbeat_of(record: KeyedRecord) -> Heartbeat:
    """Decode a heartbeat.

    :raises ValueError: It is none, or of another version.
    """
    return _parse_record("heartbeat", record, _heartbeat)


def checkpoint_of(record: KeyedRecord) -> Checkpoint:
    """Decode a checkpoint.

    :raises ValueError: It is none, or of another version.
    """
    return _parse_record("checkpoint", record, _checkpoint)


def offset_sync_of(record: KeyedRecord) -> OffsetSync:
    """Decode a pair of offsets.

    :raises ValueError: It is none.
    """
    return _parse_record("pair of offsets", record, _offset_sync)


def _parse_record(what: str, record: KeyedRecord, parse: Callable[[KeyedRecord], _T]) -> _T:
    try:
        return parse(record)
    except struct.error as error:
        raise ValueError(f"a record of {len(record.key)} and {len(record.value)} bytes is no {what}") from error


def _heartbeat(record: KeyedRecord) -> Heartbeat:
    source, position = _read_text(record.key, 0)
    target, _ = _read_text(record.key, position)
    version, timestamp = _HEARTBEAT.unpack_from(record.value)
    _require(version)
    return Heartbeat(source, target, timestamp)


def _checkpoint(record: KeyedRecord) -> Checkpoint:
    group, position = _read_text(record.key, 0)
    topic, position = _read_text(record.key, position)
    (partition,) = _INT.unpack_from(record.key, position)
    version, upstream, downstream = _CHECKPOINT.unpack_from(record.value)
    _require(version)
    metadata, _ = _read_text(record.value, _CHECKPOINT.size)
    return Checkpoint(CheckpointKey(group, TargetTopic(topic), partition), upstream, downstream, metadata)


def _offset_sync(record: KeyedRecord) -> OffsetSync:
    topic, position = _read_text(record.key, 0)
    (partition,) = _INT.unpack_from(record.key, position)
    return OffsetSync(SyncKey(SourceTopic(topic), partition), *_SYNC.unpack_from(record.value))


def _require(version: int) -> None:
    if version != VERSION:
        raise ValueError(f"version {version} is not known here")


def _text(text: str) -> bytes:
    octets = text.encode(errors="replace")
    return _SHORT.pack(len(octets)) + octets


def _read_text(octets: bytes, position: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(octets, position)
    begin = position + _SHORT.size
    if not 0 <= length <= len(octets) - begin:
        raise struct.error("a text ends too soon")
    return octets[begin : begin + length].decode(errors="replace"), begin + length
