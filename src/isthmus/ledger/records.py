"""Converts documents to record batches and back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from isthmus.kafka.batches.batch import Batch, scan
from isthmus.kafka.batches.records import records_in
from isthmus.ledger.documents.kinds import (
    DepartureDocument,
    Document,
    MapDocument,
    decode_document,
    encode_document,
    kind_of,
    link_of,
)
from isthmus.ledger.poison import pass_over

_MAGIC: Final = 2
_NO_CODEC: Final = 0
_ZSTD: Final = 4
_COMPRESS_FROM_BYTES: Final = 1024
_BUILDER_BYTES: Final = 1 << 30
_RANGES_MAX: Final = 10_000
"""The maximum of map ranges in one batch: brokers accept a megabyte, and a range takes about 25 bytes uncompressed."""
_RANGES_OF_OTHERS: Final = 10
"""The rest of a document counts as so many ranges."""


class Entry(NamedTuple):
    """One record of the ledger; `value` is None where the document was deleted; `timestamp` is in ms, by its writer."""

    offset: int
    key: str
    value: bytes | None
    timestamp: int = -1

    @property
    def kind(self) -> str:
        return kind_of(self.key)

    @property
    def link(self) -> str:
        return link_of(self.key)

    def decode(self) -> Document | None:
        """Decode the document; `None` where it was deleted, of an unknown kind, or no document.

        :raises PlanRefused: A newer Isthmus wrote it.
        """
        return None if self.value is None else decode_document(self.key, self.value)


class Deletion(NamedTuple):
    """A document to delete."""

    key: str


def mark_key(link: str, *of: object) -> str:
    """The key of a mark: the deletion of a document that never existed, written to check that it is read. It leaves no
    trace in the compacted log.
    """
    return "/".join(["mark", link, *map(str, of)])


LedgerChange = Document | Deletion


def in_batches(changes: Iterable[LedgerChange]) -> Iterator[list[LedgerChange]]:
    """Split the changes, in order, into batches that brokers certainly accept."""
    batch: list[LedgerChange] = []
    ranges = 0
    for change in changes:
        size = _RANGES_OF_OTHERS + _count_ranges(change)
        if batch and ranges + size > _RANGES_MAX:
            yield batch
            batch, ranges = [], 0
        batch.append(change)
        ranges += size
    if batch:
        yield batch


def _count_ranges(change: LedgerChange) -> int:
    match change:
        case MapDocument(ranges=ranges):
            return len(ranges)
        case DepartureDocument(stretches=stretches, skips=skips):
            return len(stretches) + len(skips)
        case _:
            return 0


def pack_changes(changes: Iterable[LedgerChange]) -> Batch:
    """Encode all changes as one batch, ready to be stamped."""
    records = [
        (change.key.encode(), None if isinstance(change, Deletion) else encode_document(change)) for change in changes
    ]
    size = sum(len(value or b"") for _, value in records)
    codec = _ZSTD if size >= _COMPRESS_FROM_BYTES else _NO_CODEC
    builder = DefaultRecordBatchBuilder(_MAGIC, codec, 0, -1, -1, -1, _BUILDER_BYTES)
    now_ms = int(time.time() * 1000)
    for delta, (key, value) in enumerate(records):
        builder.append(delta, now_ms, key, value, [])
    return next(scan(bytes(builder.build())))


def unpack_batches(records: bytes) -> Iterator[tuple[Batch, list[Entry]]]:
    """Decode the batches of a fetched record set, each with its entries (none for control batches).

    A batch that cannot be decoded is ignored: only brokers and other programs write such batches.
    """
    for batch in scan(records):
        yield batch, [] if batch.is_control else _entries(batch)


def _entries(batch: Batch) -> list[Entry]:
    try:
        return [
            Entry(record.offset, record.key.decode(errors="replace"), record.value, record.timestamp)
            for record in records_in(batch)
            if record.key is not None
        ]
    except Exception as error:  # noqa: BLE001  # each codec has errors of its own
        pass_over(f"the batch at offset {batch.base_offset}", error)
        return []
