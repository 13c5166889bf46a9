"""The figures that a Spark task returns for a slice after reading both sides: batch by batch, then block by block."""

from __future__ import annotations

import struct
from collections import Counter
from hashlib import sha256
from typing import Final, NamedTuple

from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.kafka.log.spans import spans_of
from isthmus.model.translation import MappedRange
from isthmus.spark.compare.blocks import Blocks
from isthmus.spark.compare.projection import Projection
from isthmus.spark.logs import Logs
from isthmus.spark.rows import digest_batch

_PLACE: Final = struct.Struct(">qqi").pack


class Pair(NamedTuple):
    """The same slice in two logs, each named by the alias of its cluster.

    With `ranges` of a map only those parts of the target are read, and aborted transactions of the source are left out.
    """

    source_alias: str
    source: OffsetRange
    target_alias: str
    target: OffsetRange
    ranges: tuple[MappedRange, ...] | None = None


class _Side:
    """One side of a slice. Aborted records are counted apart from the others: index with `[is_aborted]`."""

    def __init__(self, logs: Logs, alias: str, span: OffsetRange) -> None:
        self.records = [0, 0]
        self.size_bytes = 0
        digests = (sha256(), sha256())
        if not span.is_empty:
            for found in logs.read(alias, span):
                for batch, is_aborted in found:
                    # A batch over the border of two ranges is counted once, where it ends.
                    if batch.offset_end > span.offset_end:
                        continue
                    self.size_bytes += batch.size_bytes
                    count = span.records_of(batch)
                    if batch.is_control or count <= 0:
                        continue
                    self.records[is_aborted] += count
                    digest = digests[is_aborted]
                    digest.update(_PLACE(batch.base_offset, batch.offset_end, batch.size_bytes))
                    digest_batch(digest, batch)
        self.digests = [digest.digest() for digest in digests]


class _MappedSide:
    """The target's side of a mapped slice. It `is_whole` if all of it lies in batches that lie in one range each."""

    def __init__(self, logs: Logs, alias: str, span: OffsetRange, ranges: tuple[MappedRange, ...]) -> None:
        self.records = self.size_bytes = 0
        self.is_whole = True
        digest = sha256()
        projection = Projection(ranges)
        for part in spans_of(span, ranges):
            for found in logs.read(alias, part):
                for batch, is_aborted in found:
                    self.size_bytes += batch.size_bytes
                    reach = projection.extent(batch.base_offset, batch.offset_end)
                    if batch.is_control or reach is None:
                        continue
                    shift = projection.shift(batch.base_offset, batch.offset_end)
                    self.is_whole &= shift is not None and not is_aborted
                    self.records += min(batch.record_count, reach[1] - reach[0])
                    place = (batch.base_offset - (shift or 0), batch.offset_end - (shift or 0), batch.size_bytes)
                    digest.update(_PLACE(*place))
                    digest_batch(digest, batch)
        self.digest = digest.digest()


def batch_totals(logs: Logs, pair: Pair, *, may_lack_aborted: bool = False) -> tuple[int, int, int, int, bool, int]:
    """Return the records at the source and at the target, the bytes at the source and at both, whether all batches that
    hold records are alike (in offsets and in all that a raw copy shares with its source), and how many aborted records
    are no difference because the target, which `may_lack_aborted`, has none of them.

    Control batches count in bytes only: consumers never see them, and the target has more of them where they fill holes
    in the source's offsets, or stand for aborted records.
    """
    if pair.ranges is not None:
        return _mapped_totals(logs, pair, pair.ranges)
    source = _Side(logs, pair.source_alias, pair.source)
    target = _Side(logs, pair.target_alias, pair.target)
    left_out = source.records[True] if may_lack_aborted and not target.records[True] else 0
    return (
        sum(source.records),
        sum(target.records),
        source.size_bytes,
        source.size_bytes + target.size_bytes,
        source.digests[False] == target.digests[False]
        and (left_out > 0 or source.digests[True] == target.digests[True]),
        left_out,
    )


def _mapped_totals(logs: Logs, pair: Pair, ranges: tuple[MappedRange, ...]) -> tuple[int, int, int, int, bool, int]:
    source = _Side(logs, pair.source_alias, pair.source)
    target = _MappedSide(logs, pair.target_alias, pair.target, ranges)
    return (
        source.records[False],
        target.records,
        source.size_bytes,
        source.size_bytes + target.size_bytes,
        target.is_whole and source.digests[False] == target.digest,
        source.records[True],
    )


def unlike_blocks(logs: Logs, pair: Pair) -> list[int]:
    """Find the blocks of offsets whose records are not known to be equal, in ascending order."""
    if pair.ranges is None:
        at_source = _blocks(logs, "source", pair.source_alias, pair.source)
        at_target = _blocks(logs, "target", pair.target_alias, pair.target)
    else:
        at_source = _committed_blocks(logs, pair.source_alias, pair.source)
        at_target = _mapped_blocks(logs, pair.target_alias, pair.target, pair.ranges)
    return sorted({block for block, _ in (at_source - at_target) + (at_target - at_source)})


def _blocks(logs: Logs, side: str, alias: str, span: OffsetRange) -> Counter[tuple[int, bytes]]:
    blocks_found: Counter[tuple[int, bytes]] = Counter()
    if not span.is_empty:
        blocks = Blocks(side, span)
        for found in logs.read(alias, span):
            blocks_found.update(blocks.take(found))
        blocks_found.update(blocks.rest())
    return blocks_found


def _committed_blocks(logs: Logs, alias: str, span: OffsetRange) -> Counter[tuple[int, bytes]]:
    blocks, blocks_found = Blocks("source", span), Counter[tuple[int, bytes]]()
    for found in logs.read(alias, span):
        blocks_found.update(blocks.take([item for item in found if not item.is_aborted]))
    blocks_found.update(blocks.rest())
    return blocks_found


def _mapped_blocks(
    logs: Logs, alias: str, span: OffsetRange, ranges: tuple[MappedRange, ...]
) -> Counter[tuple[int, bytes]]:
    projection = Projection(ranges)
    blocks, blocks_found = Blocks("target", span, projection), Counter[tuple[int, bytes]]()
    for part in spans_of(span, ranges):
        for found in logs.read(alias, part):
            blocks_found.update(blocks.take([item for item in found if _is_touched(projection, item)]))
    blocks_found.update(blocks.rest())
    return blocks_found


def _is_touched(projection: Projection, item: StoredBatch) -> bool:
    return projection.extent(item.batch.base_offset, item.batch.offset_end) is not None
