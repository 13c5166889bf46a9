"""Numbered ranges of logs as rows in Arrow, for every Spark: read in tasks of the data source and of verification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from isthmus.kafka.log.reading import OffsetRange
from isthmus.kafka.log.slices import SLICE_BYTES
from isthmus.model.cluster import Cluster
from isthmus.spark.logs import Copying, Logs
from isthmus.spark.rows import BATCH_COLUMNS, RECORD_COLUMNS, RowColumn, RowOrigin, Rows

if TYPE_CHECKING:
    import pyarrow as pa

NumberedRange = tuple[int, str, OffsetRange]
"""A range of a partition: its number, the alias of its cluster, and its offsets."""

MODES: Final[Mapping[str, Mapping[str, RowColumn]]] = {
    "batches": BATCH_COLUMNS,
    "records": RECORD_COLUMNS,
}
"""The columns of each mode of reading."""

_GROUP_BYTES_MIN: Final = 1 << 20
_GROUPS_PER_SLOT: Final = 2

RangeT = TypeVar("RangeT")


def group_ranges(ranges: Iterable[tuple[RangeT, int]], *, group_bytes: int = SLICE_BYTES) -> Iterator[list[RangeT]]:
    """Group ranges with sizes, in their order, into groups of at most `group_bytes` (or one range)."""
    group: list[RangeT] = []
    filled_bytes = 0
    for item, size_bytes in ranges:
        if group and filled_bytes + size_bytes > group_bytes:
            yield group
            group, filled_bytes = [], 0
        group.append(item)
        filled_bytes += size_bytes
    if group:
        yield group


def grouped_for_slots(sized: Sequence[tuple[RangeT, int]], slots: int) -> list[list[RangeT]]:
    """Group ranges with sizes into groups for one task each, where `slots` tasks run at once."""
    share = sum(size_bytes for _, size_bytes in sized) // (slots * _GROUPS_PER_SLOT)
    return list(group_ranges(sized, group_bytes=max(_GROUP_BYTES_MIN, min(share, SLICE_BYTES))))


def read_rows(
    clusters: Mapping[str, Cluster],
    mode: str,
    names: Sequence[str],
    ranges: Iterable[NumberedRange],
    copying: Mapping[str, Copying] = MappingProxyType({}),
) -> Iterator[pa.RecordBatch]:
    """Read the rows of ranges, with these columns of a mode; for `copying` see `Logs`.

    :raises ClusterError: A cluster cannot be read.
    """
    rows = Rows(MODES[mode], names)
    make = rows.of_batches if mode == "batches" else rows.of_records
    with Logs(clusters, copying) as logs:
        for number, alias, span in ranges:
            origin = RowOrigin(alias, number, span)
            for found in logs.read(alias, span):
                yield from make(found, origin)
