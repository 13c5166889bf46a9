"""Read the names in requests, and write a refusal of each kind of request. Pure: bytes in, bytes out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from isthmus.gateway.frames.acknowledging import refused_topic
from isthmus.gateway.frames.committing import group_seen, positions_committed
from isthmus.gateway.frames.layout import MessageCursor, written_count, written_text
from isthmus.gateway.frames.messages import (
    ADD_OFFSETS_TO_TXN,
    ALTER_CONFIGS,
    ALTER_SHARE_GROUP_OFFSETS,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_TOPICS,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    JOIN_GROUP,
    LEAVE_GROUP,
    NEVER,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_TOPOLOGY,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from isthmus.kafka import codes
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.namespace import NamespaceKind

_TOPIC_RESOURCE: Final = 2


class BodyWriter:
    """Writes the body of an answer in a version of its message."""

    __slots__ = ("flexible", "found", "version")

    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.found = bytearray()

    def add(self, written: bytes | bytearray) -> BodyWriter:
        """Append bytes that are encoded already."""
        self.found += written
        return self

    def numbers(self, form: str, *values: int) -> BodyWriter:
        """Append numbers, in a `struct` format."""
        return self.add(struct.pack(f">{form}", *values))

    def since(self, version: int, form: str, *values: int) -> BodyWriter:
        """Append numbers that exist from this version on."""
        return self.numbers(form, *values) if self.version >= version else self

    def text(self, text: str | None) -> BodyWriter:
        """Append a string, or null."""
        return self.add(written_text(text, flexible=self.flexible))

    def count(self, count: int) -> BodyWriter:
        """Append the length of an array, -1 for a null array."""
        return self.add(written_count(count, flexible=self.flexible))

    def tags(self) -> BodyWriter:
        """Append an empty tag section, if the version is flexible."""
        return self.add(b"\0" if self.flexible else b"")


class NamedItem(NamedTuple):
    """One item of a request: its name, `None` if that is never reserved, and its partitions or its resource type. It
    is the bytes from `begin` to `end`.
    """

    name: str | None
    parts: Sequence[int] = ()
    begin: int = 0
    end: int = 0


class NameVerdict(NamedTuple):
    """The refusal of reserved names: an error code, and a text for messages that have an error message."""

    code: int
    message: str


ReadItem = Callable[[MessageCursor], NamedItem]
WriteItem = Callable[[BodyWriter, NamedItem, NameVerdict], object]


class Listing(NamedTuple):
    """A request that lists names, each of which is refused or passes by itself: the operation that rules deny, the
    retriable code for names that are not known for sure, the reader of its items, and the writer of answer items.
    """

    kind: NamespaceKind
    operation: str
    unsure: int
    read: ReadItem
    write: WriteItem
    throttled_from: int = 0


class Grouped(NamedTuple):
    """A request about one group: the operation that rules deny, the reader of the group id, and the writer of a
    refusal, which may read the body of the request.
    """

    operation: str
    group: Callable[[MessageCursor], str | None]
    write: Callable[[BodyWriter, MessageCursor, NameVerdict], object]


def _read_produce_topic(body: MessageCursor) -> NamedItem:
    name, parts = body.text(), list[int]()
    for _ in range(body.count()):
        parts.append(body.int32())
        body.skip(body.count())
        body.skip_tags()
    body.skip_tags()
    return NamedItem(name, parts)


def _read_created_topic(body: MessageCursor) -> NamedItem:
    name = body.text()
    body.skip(6)
    for _ in range(body.count()):
        body.skip(4)
        body.skip(4 * body.count())
        body.skip_tags()
    _skip_settings(body, 0)
    return NamedItem(name)


def _skip_settings(body: MessageCursor, operation_bytes: int) -> None:
    for _ in range(body.count()):
        body.skip_text()
        body.skip(operation_bytes)
        body.skip_text()
        body.skip_tags()
    body.skip_tags()


def _read_name(body: MessageCursor) -> NamedItem:
    return NamedItem(body.text())


def _read_delete_records_topic(body: MessageCursor) -> NamedItem:
    name, parts = body.text(), list[int]()
    for _ in range(body.count()):
        parts.append(body.int32())
        body.skip(8)
        body.skip_tags()
    body.skip_tags()
    return NamedItem(name, parts)


def _read_create_partitions_topic(body: MessageCursor) -> NamedItem:
    name = body.text()
    body.skip(4)
    for _ in range(body.count()):
        body.skip(4 * body.count())
        body.skip_tags()
    body.skip_tags()
    return NamedItem(name)


def _read_config_resource(body: MessageCursor, *, operation_bytes: int) -> NamedItem:
    kind, name = body.int8(), body.text()
    _skip_settings(body, operation_bytes)
    return NamedItem(name if kind == _TOPIC_RESOURCE else None, (kind,))


def read_added_topic(body: MessageCursor) -> NamedItem:
    """Read a topic of an AddPartitionsToTxn, and its partitions."""
    name = body.text()
    parts = [body.int32() for _ in range(body.count())]
    body.skip_tags()
    return NamedItem(name, parts)


def tell_added(out: BodyWriter, items: Iterable[tuple[NamedItem, int]]) -> None:
    """Write the body of an answer to AddPartitionsToTxn: topics, each with one code for all of its partitions."""
    found = list(items)
    out.numbers("4x").count(len(found))
    for item, code in found:
        out.text(item.name).count(len(item.parts))
        for partition in item.parts:
            out.numbers("ih", partition, code).tags()
        out.tags()
    out.tags()


def _write_produced(out: BodyWriter, item: NamedItem, verdict: NameVerdict) -> None:
    out.add(refused_topic(item.name or "", [(each, verdict.code) for each in item.parts], version=out.version))


def _write_created(out: BodyWriter, item: NamedItem, verdict: NameVerdict) -> None:
    out.text(item.name).since(7, "16x").numbers("h", verdict.code).text(verdict.message)
    if out.version >= 5:
        out.numbers("ih", -1, -1).count(-1)
    out.tags()


def _write_named(out: BodyWriter, item: NamedItem, verdict: NameVerdict, *, words_from: int) -> None:
    out.text(item.name).numbers("h", verdict.code)
    if out.version >= words_from:
        out.text(verdict.message)
    out.tags()


def _write_records_deleted(out: BodyWriter, item: NamedItem, verdict: NameVerdict) -> None:
    out.text(item.name).count(len(item.parts))
    for each in item.parts:
        out.numbers("iqh", each, -1, verdict.code).tags()
    out.tags()


def _write_configured(out: BodyWriter, item: NamedItem, verdict: NameVerdict) -> None:
    out.numbers("h", verdict.code).text(verdict.message).numbers("b", *item.parts).text(item.name).tags()


LISTINGS: Final[Mapping[int, Listing]] = {
    PRODUCE: Listing("topic", "WRITE", codes.NOT_LEADER_OR_FOLLOWER, _read_produce_topic, _write_produced, NEVER),
    CREATE_TOPICS: Listing("topic", "CREATE", codes.NOT_CONTROLLER, _read_created_topic, _write_created, 2),
    DELETE_TOPICS: Listing("topic", "DELETE", codes.NOT_CONTROLLER, _read_name, partial(_write_named, words_from=5), 1),
    DELETE_RECORDS: Listing(
        "topic", "DELETE", codes.NOT_LEADER_OR_FOLLOWER, _read_delete_records_topic, _write_records_deleted
    ),
    CREATE_PARTITIONS: Listing(
        "topic", "ALTER", codes.NOT_CONTROLLER, _read_create_partitions_topic, partial(_write_named, words_from=0)
    ),
    ALTER_CONFIGS: Listing(
        "topic",
        "ALTER_CONFIGS",
        codes.NOT_CONTROLLER,
        partial(_read_config_resource, operation_bytes=0),
        _write_configured,
    ),
    INCREMENTAL_ALTER_CONFIGS: Listing(
        "topic",
        "ALTER_CONFIGS",
        codes.NOT_CONTROLLER,
        partial(_read_config_resource, operation_bytes=1),
        _write_configured,
    ),
    DELETE_GROUPS: Listing(
        "group", "DELETE", codes.COORDINATOR_NOT_AVAILABLE, _read_name, partial(_write_named, words_from=3)
    ),
}


def _read_first(body: MessageCursor) -> str | None:
    return body.text()


def _read_second(body: MessageCursor) -> str | None:
    body.skip_text()
    return body.text()


def _read_third(body: MessageCursor) -> str | None:
    body.skip_text()
    body.skip(10)
    return body.text()


def _write_positions(
    out: BodyWriter, keys: Iterable[PartitionKey], verdict: NameVerdict, *, throttled_from: int
) -> None:
    out.since(throttled_from, "4x")
    topics = [(topic, list(found)) for topic, found in groupby(sorted(keys), lambda each: each[0])]
    out.count(len(topics))
    for topic, found in topics:
        out.text(topic).count(len(found))
        for _, partition in found:
            out.numbers("ih", partition, verdict.code).tags()
        out.tags()
    out.tags()


def _write_committed(out: BodyWriter, asked: MessageCursor, verdict: NameVerdict) -> None:
    _write_positions(out, positions_committed(asked, out.version)[0].keys, verdict, throttled_from=3)


def _write_txn_committed(out: BodyWriter, asked: MessageCursor, verdict: NameVerdict) -> None:
    group_seen(asked)
    asked.skip(10)
    if out.version >= 3:
        asked.skip(4)
        asked.skip_text()
        asked.skip_text()
    keys = list[PartitionKey]()
    for _ in range(asked.count()):
        topic = asked.text() or ""
        for _ in range(asked.count()):
            keys.append((topic, asked.int32()))
            asked.skip(12 if out.version >= 2 else 8)
            asked.skip_text()
            asked.skip_tags()
        asked.skip_tags()
    _write_positions(out, keys, verdict, throttled_from=0)


def _write_joined(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.since(2, "4x").numbers("hi", verdict.code, -1)
    if out.version >= 7:
        out.text(None)
    out.text(None if out.version >= 7 else "").text("").since(9, "x").text("").count(0).tags()


def _write_heartbeat(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.since(1, "4x").numbers("h", verdict.code).tags()


def _write_left(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.since(1, "4x").numbers("h", verdict.code)
    if out.version >= 3:
        out.count(0)
    out.tags()


def _write_synced(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.since(1, "4x").numbers("h", verdict.code)
    if out.version >= 5:
        out.text(None).text(None)
    out.count(0).tags()


def _write_offsets_added(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.numbers("4xh", verdict.code).tags()


def _write_offsets_deleted(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.numbers("h4x", verdict.code).count(0)


def _write_member(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    # No id, epoch 0, no interval, and no assignment, which is written as a number.
    out.numbers("4xh", verdict.code).text(verdict.message).text(None).numbers("iib", 0, 0, -1).tags()


def _write_streams_member(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.numbers("4xh", verdict.code).text(verdict.message).text("").numbers("12x")
    if out.version == 0:
        out.numbers("4x")
    out.since(1, "q", -1).count(0).count(-1).count(-1).count(-1)
    out.since(1, "x").numbers("4x").count(-1).tags()


def _write_share(out: BodyWriter, _: MessageCursor, verdict: NameVerdict, *, locked_from: int) -> None:
    out.numbers("4xh", verdict.code).text(verdict.message).since(locked_from, "4x")
    out.count(0).count(0).tags()


def _write_share_offsets(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.numbers("4xh", verdict.code).text(verdict.message).count(0).tags()


def _write_topology(out: BodyWriter, _: MessageCursor, verdict: NameVerdict) -> None:
    out.numbers("4xh", verdict.code).text(verdict.message).tags()


GROUPED: Final[Mapping[int, Grouped]] = {
    OFFSET_COMMIT: Grouped("READ", _read_first, _write_committed),
    JOIN_GROUP: Grouped("READ", _read_first, _write_joined),
    HEARTBEAT: Grouped("READ", _read_first, _write_heartbeat),
    LEAVE_GROUP: Grouped("READ", _read_first, _write_left),
    SYNC_GROUP: Grouped("READ", _read_first, _write_synced),
    ADD_OFFSETS_TO_TXN: Grouped("READ", _read_third, _write_offsets_added),
    TXN_OFFSET_COMMIT: Grouped("READ", _read_second, _write_txn_committed),
    OFFSET_DELETE: Grouped("DELETE", _read_first, _write_offsets_deleted),
    CONSUMER_GROUP_HEARTBEAT: Grouped("READ", _read_first, _write_member),
    SHARE_GROUP_HEARTBEAT: Grouped("READ", _read_first, _write_member),
    SHARE_FETCH: Grouped("READ", _read_first, partial(_write_share, locked_from=1)),
    SHARE_ACKNOWLEDGE: Grouped("READ", _read_first, partial(_write_share, locked_from=2)),
    STREAMS_GROUP_HEARTBEAT: Grouped("READ", _read_first, _write_streams_member),
    ALTER_SHARE_GROUP_OFFSETS: Grouped("READ", _read_first, _write_share_offsets),
    DELETE_SHARE_GROUP_OFFSETS: Grouped("DELETE", _read_first, _write_share_offsets),
    STREAMS_GROUP_TOPOLOGY: Grouped("READ", _read_first, _write_topology),
}
