"""Positions of consumer groups on their way through a distribution tree (Axual's model): the map and its rules. Pure.

What goes from cluster to cluster is no offset, as each has others, but a time: whatever is older was read by the group.
It is the timestamp of the record at the position less a margin, in which every message has to have come to every
cluster. Each cluster holds what came to it in a compacted topic:

    key    ["group", "topic", partition]
    value  {"timestamp_ms": ..., "flags": ..., "distributor": ..., "offset": ..., "metadata": ...}

`flags` are the copy flags of the tree (`model.copyflags`): a distributor leaves alone what has its own or a lower one,
and adds its own. The other fields may be missing: `distributor` is the link that wrote it, `offset` the position that
the time was taken from, -1 where that was on another cluster, and `metadata` what the consumer wrote beside it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from isthmus.model.copyflags import add_flag, is_to_copy
from isthmus.model.kafka.group import NO_OFFSET
from isthmus.model.kafka.mirrormaker_records import KeyedRecord
from isthmus.model.naming import SourceTopic

OffsetFlags = Literal["producer-id", "metadata"]
"""The place of a commit's copy flags: in the producer id of its author, or in front of its metadata."""
POSITIONS_TOPIC: Final = "__isthmus.positions"
_FLAGGED: Final = re.compile(r"copy-flags=([0-9a-f]{1,16});(.*)", re.DOTALL)
_KEY_PARTS: Final = 3


class PositionKey(NamedTuple):
    """The identity of a position. Names are the same on all clusters of a tree: the source's stands for all."""

    group: str
    topic: SourceTopic
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionEntry:
    """The content of one entry of the map of positions: every record older than `timestamp_ms` was read."""

    timestamp_ms: int
    flags: int = 0
    distributor: str = ""
    offset: int = NO_OFFSET
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCommit:
    """A position at the cluster of a distributor: the time of its record less the margin, and its flags.

    It has flags if a distributor committed it and not a consumer.
    """

    timestamp_ms: int
    offset: int
    flags: int = 0
    metadata: str = ""


def record_of(key: PositionKey, entry: PositionEntry) -> KeyedRecord:
    """Encode an entry."""
    value = {
        "timestamp_ms": entry.timestamp_ms,
        "flags": entry.flags,
        "distributor": entry.distributor,
        "offset": entry.offset,
        "metadata": entry.metadata,
    }
    return KeyedRecord(_json(list(key)), _json(value))


def entry_in(key: bytes, value: bytes) -> tuple[PositionKey, PositionEntry]:
    """Decode an entry of the map from a record, whichever distributor wrote it.

    :raises ValueError: It holds none.
    """
    parts, fields = json.loads(key), json.loads(value)
    if not isinstance(parts, list) or len(parts) != _KEY_PARTS or not isinstance(fields, dict):
        raise ValueError("it is no entry of the map")
    group, topic, partition = parts
    entry = PositionEntry(
        timestamp_ms=_number(fields, "timestamp_ms"),
        flags=_number(fields, "flags", 0),
        distributor=_text(fields, "distributor"),
        offset=_number(fields, "offset", NO_OFFSET),
        metadata=_text(fields, "metadata"),
    )
    if not isinstance(group, str) or not isinstance(topic, str) or type(partition) is not int or entry.flags < 0:
        raise ValueError("it is no entry of the map")
    return PositionKey(group, SourceTopic(topic), partition), entry


def add_flags(metadata: str, flags: int) -> str:
    """Return the metadata of a commit with copy flags in front of it, for `offset_flags: metadata`."""
    return f"copy-flags={flags:02x};{metadata}"


def split_flags(metadata: str) -> tuple[str, int]:
    """Split a consumer's own metadata and the copy flags in front of it."""
    found = _FLAGGED.fullmatch(metadata)
    return (metadata, 0) if found is None else (found[2], int(found[1], 16))


def level_in(flags: int) -> int:
    """Return the level of the distributor that brought an entry to the cluster where it is: that of its lowest flag."""
    return (flags & -flags).bit_length()


def is_to_send(flags: int, level: int, here: PositionEntry | None) -> bool:
    """Return whether a distributor sends a commit with these flags: for a distributor's commit the
    map is more exact.
    """
    return is_to_copy(flags, level) and not (flags and here is not None)


def sent_entry(
    link: str, level: int, commit: SeenCommit | None, here: PositionEntry | None, there: PositionEntry | None
) -> PositionEntry | None:
    """Return the entry that a distributor sends for a position: for the commit at its cluster, or for an entry that
    came from above.

    `here` and `there` are the entries of its cluster and of its target. `None` if it leaves the position alone.
    """
    entries = []
    if commit is not None and is_to_send(commit.flags, level, here):
        timestamp_ms = commit.timestamp_ms
        if there is not None and there.distributor == link and NO_OFFSET < there.offset <= commit.offset:
            # Records need not be in the order of their times: a consumer that has read on has not gone back.
            timestamp_ms = max(timestamp_ms, there.timestamp_ms)
        entries.append(_entry(link, level, commit.flags, timestamp_ms, commit.offset, commit.metadata))
    if here is not None and is_to_copy(here.flags, level):
        offset = NO_OFFSET if commit is None else commit.offset
        entries.append(_entry(link, level, here.flags, here.timestamp_ms, offset, here.metadata))
    return max(entries, key=lambda entry: entry.timestamp_ms, default=None)


def is_news(entry: PositionEntry, there: PositionEntry | None) -> bool:
    """Return whether to write an entry over the target's: a later one always, of two with the same time the one that
    more distributors pass on, an earlier one only over one's own.

    So if consumers of a group were at work on several clusters, the furthest of them counts, and distributors do not
    overwrite each other again and again.
    """
    if there is None or _rank(entry) > _rank(there):
        return True
    return there.distributor == entry.distributor and there != entry


def _rank(entry: PositionEntry) -> tuple[int, bool, int]:
    # Without flags every distributor passes it on, otherwise those of lower levels.
    return entry.timestamp_ms, not entry.flags, level_in(entry.flags)


def is_to_commit(entry: PositionEntry, link: str, level: int) -> bool:
    """Return whether a distributor has to commit an entry of its target: it wrote it, or a foreign one of its level
    did.
    """
    return entry.distributor == link or (not entry.distributor and level_in(entry.flags) == level)


def _entry(link: str, level: int, flags: int, timestamp_ms: int, offset: int, metadata: str) -> PositionEntry:
    return PositionEntry(
        timestamp_ms=timestamp_ms, flags=add_flag(flags, level), distributor=link, offset=offset, metadata=metadata
    )


def _json(value: object) -> bytes:
    # Names of groups may contain invalid surrogates.
    return json.dumps(value, separators=(",", ":")).encode()


def _number(fields: dict[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name, default)
    if type(value) is not int:
        raise ValueError(f"its {name} is no whole number")
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"its {name} is no text")
    return value
