"""The records of a tree's clusters as rows: the digest of each, and whether it came in on its cluster.

A digest covers timestamp, key, value and headers, without the header that holds copy flags. In columns it is of the
stored bytes, see `blocks`: equal digests prove equal records, different ones prove nothing. Digests of decoded records
prove both.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.model.copyflags import FlagsHeader, level_of
from isthmus.spark.compare.blocks import columns_of
from isthmus.spark.logs import Logs
from isthmus.spark.rows import DIGEST_BYTES, RowOrigin, decoded_records, record_digest, timestamp_of

if TYPE_CHECKING:
    from isthmus.model.cluster import Cluster

STANDING_FIELDS: Final = "lane INT, cluster INT, offset BIGINT, is_local BOOLEAN, is_early BOOLEAN, digest BINARY"
_SCHEMA: Final = pa.schema(
    [
        ("lane", pa.int32()),
        ("cluster", pa.int32()),
        ("offset", pa.int64()),
        ("is_local", pa.bool_()),
        ("is_early", pa.bool_()),
        ("digest", pa.binary()),
    ]
)
_TIMESTAMP: Final = struct.Struct("<q").pack


class TreeSlice(NamedTuple):
    """A part of a partition's log on one cluster. `lane` is the number of the partition, `cluster` that of the cluster;
    records before `early_end` were there when the clusters were first looked at.
    """

    lane: int
    cluster: int
    alias: str
    span: OffsetRange
    early_end: int


class RecordColumns(NamedTuple):
    """Records in columns: their offsets, whether they came in on this cluster, and their digests."""

    offsets: npt.NDArray[np.int64]
    is_local: npt.NDArray[np.bool_]
    digests: list[bytes]


class _Content(NamedTuple):
    """The content that a digest covers."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def standing_rows(
    clusters: Mapping[str, Cluster], parts: Iterable[TreeSlice], header: FlagsHeader | None, *, exactly: bool
) -> Iterator[pa.RecordBatch]:
    """Rows of `STANDING_FIELDS` of the records that consumers at read_committed see. `header` is where copy flags
    stand, if not in producer ids alone; `exactly` has every record decoded.

    :raises ClusterError: A cluster cannot be read.
    """
    with Logs(clusters) as logs:
        for part in parts:
            for found in logs.read(part.alias, part.span):
                seen = [item for item in found if not item.batch.is_control and not item.is_aborted]
                if seen:
                    yield _arrow(part, _columns(part, seen, header, exactly=exactly))


def _columns(
    part: TreeSlice, seen: Sequence[StoredBatch], header: FlagsHeader | None, *, exactly: bool
) -> RecordColumns:
    if header is None and not exactly:
        # Codecs raise any error; decoding record by record reports it.
        with contextlib.suppress(Exception):
            return read_stored(seen, part.span)
    return decode_records(seen, RowOrigin(part.alias, part.lane, part.span), header)


def read_stored(seen: Sequence[StoredBatch], span: OffsetRange) -> RecordColumns:
    """Read the records of batches of magic 2 in the range, by their bytes."""
    columns = columns_of(seen, span)
    bases = np.array([item.batch.base_offset for item in seen], np.int64)
    is_local = np.array([level_of(item.batch.producer_id) == 0 for item in seen])
    of_batch = np.searchsorted(bases, columns.offsets, side="right") - 1
    stamps, rests = columns.timestamps.astype("<i8").tobytes(), columns.rests.tobytes()
    digests: list[bytes] = []
    begin = 0
    for number, end in enumerate(columns.ends.tolist()):
        digest = sha256(stamps[8 * number : 8 * number + 8])
        digest.update(rests[begin:end])
        digests.append(digest.digest()[:DIGEST_BYTES])
        begin = end
    return RecordColumns(columns.offsets, is_local[of_batch], digests)


def decode_records(seen: Iterable[StoredBatch], origin: RowOrigin, header: FlagsHeader | None) -> RecordColumns:
    """Decode the records of batches in the range, one by one.

    :raises BrokerRefused: A batch cannot be decoded.
    """
    offsets: list[int] = []
    is_local: list[bool] = []
    digests: list[bytes] = []
    for batch, _ in seen:
        is_own = level_of(batch.producer_id) == 0
        for record in decoded_records(batch, origin):
            headers = record.headers
            offsets.append(record.offset)
            is_local.append(is_own and (header is None or header.read(headers).flags == 0))
            if header is not None:
                headers = [each for each in headers if each[0] != header.name]
            content = record_digest(_Content(record.key, record.value, headers))
            digests.append(sha256(_TIMESTAMP(timestamp_of(record)) + content).digest()[:DIGEST_BYTES])
    return RecordColumns(np.array(offsets, np.int64), np.array(is_local, np.bool_), digests)


def _arrow(part: TreeSlice, columns: RecordColumns) -> pa.RecordBatch:
    count = len(columns.offsets)
    arrays = [
        pa.array(np.full(count, part.lane, np.int32)),
        pa.array(np.full(count, part.cluster, np.int32)),
        pa.array(columns.offsets),
        pa.array(columns.is_local),
        pa.array(columns.offsets < part.early_end),
        pa.array(columns.digests, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
