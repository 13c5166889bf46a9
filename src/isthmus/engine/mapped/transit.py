"""Translates source offsets to ordinals, and these to the target's offsets. Pure.

A mapped lane counts what it appends: the first record has ordinal 0, and the sequence of a record is its ordinal modulo
2^31. Between reader and writer its pieces carry ordinals in place of offsets. So they are always consecutive, although
control records, aborted transactions and records removed by the log cleaner are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, count
from typing import Final, Self

from isthmus.engine.batches.pieces import Piece, passes
from isthmus.engine.batches.rebatch import encode, records_of
from isthmus.engine.mapped.flagging import flagged
from isthmus.kafka.batches.batch import scan
from isthmus.model.copyflags import FlagsHeader, is_done_with
from isthmus.model.lane import NO_END
from isthmus.model.offsets import Cursor, Departure, Skips, Stretch
from isthmus.model.translation import MappedRange

SEGMENT_RANGES: Final = 4_000
"""The number of ranges in a segment, which is stored again while it grows; about 30 KB."""


NONE_DEPARTED: Final = Departure(-1)
_rounds = count()
"""Also a lane that is loaded again gets a later round than before."""


class Transit:
    """The records of one lane that are on their way, and the target offsets of those that have arrived.

    `cursor` is the lane's progress. `ranges` are those of the present segment, which begins with the record
    `ordinal_begin`. The transit `is_doubted` if the source does not know the leader epoch of the cursor; from its
    offset `lost_from` on the source may have lost all. It `is_final` if no record of the lane lay behind the cursor
    when the lane was taken over, or at the last search. It `is_outdated` while another owner may have continued the
    lane since it was loaded.

    A record that is changed on its way departs: its source offset is stored before it is sent, as it cannot be found by
    reading the source again. `departed` are the stretches that the lane's previous owner stored.
    """

    def __init__(self, cursor: Cursor, *, is_final: bool = False) -> None:
        self.cursor = cursor
        self.ordinal_begin = cursor.ordinal
        self.ranges: list[MappedRange] = []
        self._stretches: deque[Stretch] = deque()
        self._replaced: deque[int] = deque()
        self._skips: deque[Skips] = deque()
        self._filtered: deque[Skips] = deque()
        self._read_ordinal, self._read_offset = cursor.ordinal, cursor.source_offset
        self._departed_to, self._round = cursor.ordinal, next(_rounds)
        self.is_doubted = False
        self.lost_from = NO_END
        self.is_final = is_final
        self.is_outdated = False

    @classmethod
    def known(
        cls,
        cursor: Cursor,
        ordinal_begin: int,
        ranges: Iterable[MappedRange],
        is_final: bool = False,
        departed: Departure = NONE_DEPARTED,
    ) -> Self:
        """Build the transit of a lane that has begun before; `ranges` are those of a segment that goes on."""
        transit = cls(cursor, is_final=is_final)
        transit.ordinal_begin, transit.ranges = ordinal_begin, list(ranges)
        transit._stretches.extend(departed.stretches)
        transit._skips.extend(departed.skips)
        return transit

    def resume(self, cursor: Cursor, ranges: Iterable[MappedRange] = ()) -> None:
        """Continue from `cursor`, and drop records on their way; `ranges` are those found to have arrived."""
        for one in ranges:
            self._note(one)
        self.cursor = cursor
        self._stretches.clear()
        self._replaced.clear()
        self._skips.clear()
        self._filtered.clear()
        self._read_ordinal, self._read_offset = cursor.ordinal, cursor.source_offset
        self._departed_to, self._round = cursor.ordinal, next(_rounds)

    def outdate(self) -> None:
        """Note that another owner may have continued the lane: it has to be loaded again."""
        self.is_outdated = True

    def confirm(self) -> None:
        """Note that no later progress of the lane is known anywhere."""
        self.is_outdated = False

    def go_on(self, cursor: Cursor) -> None:
        """Note the lane's cursor, and keep what is on its way."""
        self.cursor = cursor

    def look_on(self, looked_to: int, leader_epoch: int) -> None:
        """Note that in the target's leader epoch no record of the lane lies behind the cursor, before `looked_to`."""
        self.cursor = replace(self.cursor, looked_to=looked_to, looked_epoch=leader_epoch)

    def finish(self) -> None:
        """Note that no record of the lane lies behind the cursor."""
        self.is_final = True

    def doubt(self, lost_from: int) -> None:
        """Note that the source lost the records from an offset on, `NO_END` if that is not known."""
        self.is_doubted = True
        self.lost_from = min(self.lost_from, lost_from)

    def believe(self, source_epoch: int) -> None:
        """Note that the source has the last copied record, in that leader epoch (-1 while unknown). All records behind
        it are read again, as the source may have lost them.
        """
        cursor = self.cursor
        self.is_doubted, self.lost_from = False, NO_END
        believed = replace(
            cursor,
            source_offset=cursor.copied_to,
            source_epoch=source_epoch,
            rewound=cursor.rewound + (cursor.left_out > 0),
            left_out=0,
        )
        if cursor.transform:
            # Records that departed may have arrived: only their stretches tell where they come from.
            self.go_on(believed)
        else:
            self.resume(believed)

    @property
    def placed_ranges(self) -> list[tuple[int, MappedRange]]:
        """The ranges of the present segment, each with the ordinal of its first record. Empty if some records of the
        segment were deleted before they were mapped, as the ordinals do not follow from the ranges then.
        """
        ordinals = list(accumulate((one.length for one in self.ranges), initial=self.ordinal_begin))
        return list(zip(ordinals, self.ranges, strict=False)) if ordinals[-1] == self.cursor.ordinal else []

    def rewind(self, ordinal: int, one: MappedRange) -> None:
        """Go back to `ordinal`, the end of `one`: the last range that the target holds, cut to what it holds."""
        kept = [held for held in self.ranges if held.source_begin < one.source_begin]
        self.ranges = [*kept, one]
        self.resume(
            replace(
                self.cursor,
                source_offset=one.source_end,
                ordinal=ordinal,
                target_offset=one.target_end,
                left_out=0,
                looked_to=-1,
                looked_epoch=-1,
                rewound=self.cursor.rewound + 1,
            )
        )

    def begin_segment(self) -> None:
        """Begin a new segment: the ranges of the present one are stored for good."""
        self.ranges = []
        self.ordinal_begin = self.cursor.ordinal

    @property
    def is_full(self) -> bool:
        """Whether the present segment is long enough."""
        return len(self.ranges) >= SEGMENT_RANGES

    # Reading

    @property
    def read_ordinal(self) -> int:
        """The ordinal of the next record to be read."""
        return self._read_ordinal

    @property
    def read_offset(self) -> int:
        """The source offset up to which records have ordinals or are left out."""
        return self._read_offset

    def take_changed(self, source_offset: int, epoch: int) -> None:
        """Note the source offset and leader epoch of the next record, which was changed."""
        self._read(source_offset, 1, epoch)

    def skip(self) -> None:
        """Note that the next record could not be changed and is left out."""
        _count_one(self._skips, self._read_ordinal)

    def filter_out(self) -> None:
        """Note that the transform leaves the next record out."""
        _count_one(self._filtered, self._read_ordinal)

    def pass_to(self, offset_end: int) -> None:
        """Note that all records before this source offset were taken or left out."""
        self._read_offset = max(offset_end, self._read_offset)

    def depart(self) -> Departure:
        """Return where the records taken since the last call come from: once that is stored they may be sent."""
        begin, self._departed_to = self._departed_to, self._read_ordinal
        found: deque[Stretch] = deque()
        for one in reversed(self._stretches):
            if one.ordinal_end <= begin:
                break
            found.appendleft(_since(one, begin))
        # Those behind the last record go with the next one, unless the cursor passes them before.
        skips = tuple(one for one in self._skips if begin <= one.ordinal < self._read_ordinal)
        return Departure(self._round, tuple(found), skips)

    def take(
        self, piece: Piece, *, bytes_max: int, level: int = 0, flags: FlagsHeader | None = None, end: int = NO_END
    ) -> Piece | None:
        """Convert a piece that was read to the one to be appended, with ordinals; `None` if nothing of it is copied.

        `level` is that of a distributor: records distributed at it or below are left out. With `flags` each record has
        this in a header too, and copies get their own. Nothing is taken from the source's offset `end` on.

        :raises ValueError: Its records have to be decoded, and cannot. The piece is still the next one.
        """
        taken = self._convert(piece, bytes_max, level, flags, end)
        self._read_offset = max(min(piece.batch.offset_end, end), self._read_offset)
        return taken

    def _convert(self, piece: Piece, bytes_max: int, level: int, flags: FlagsHeader | None, end: int) -> Piece | None:
        batch, begin = piece.batch, self._read_offset
        if batch.offset_end <= begin or batch.is_control or piece.is_aborted or batch.record_count == 0:
            return None
        if batch.base_offset >= end or (level and is_done_with(batch.producer_id, level)):
            return None
        if flags is None and batch.is_dense and batch.base_offset >= begin and batch.offset_end <= end:
            ordinal = self._read(batch.base_offset, batch.record_count, batch.leader_epoch)
            return piece._replace(batch=batch._replace(base_offset=ordinal, offset_end=ordinal + batch.record_count))
        # The log cleaner removed records of it, or some are not to be copied, or each has flags of its own.
        # The batches of a run have a checksum each.
        stored = [batch] if piece.stored == 1 else scan(batch.view)
        records = [record for one in stored for record in records_of(one) if begin <= record.offset < end]
        ordinal = self._read_ordinal
        if flags is not None:
            records, replaced = flagged(records, level, flags)
            self._replaced.extend(ordinal + place for place in replaced)
        if not records:
            return None
        for record in records:
            self._read(record.offset, 1, batch.leader_epoch)
        dense = encode([record._replace(offset=ordinal + n) for n, record in enumerate(records)], batch.codec)
        return Piece(dense, passes(dense, bytes_max), is_aborted=False)

    def _read(self, source_begin: int, length: int, epoch: int) -> int:
        ordinal = self._read_ordinal
        self._read_ordinal += length
        last = self._stretches[-1] if self._stretches else None
        if last is not None and (last.source_end, last.epoch) == (source_begin, epoch):
            self._stretches[-1] = last._replace(length=last.length + length)
        else:
            self._stretches.append(Stretch(ordinal, source_begin, length, epoch))
        return ordinal

    def source_offset(self, ordinal: int) -> int:
        """The source offset of the record with this ordinal: all records before it are copied or left out."""
        for stretch in self._stretches:
            if ordinal < stretch.ordinal + stretch.length:
                return stretch.source_begin + max(ordinal - stretch.ordinal, 0)
        return self._read_offset

    # Appending

    def appended(self, records: int, target_offset: int) -> None:
        """Note that the next `records` records are at the target from `target_offset` on; -1 if deleted since."""
        cursor, end = self.cursor, self.cursor.ordinal + records
        left, target = records, target_offset if target_offset >= 0 else cursor.target_offset
        copied_to, epoch = cursor.copied_to, cursor.source_epoch
        while left:
            stretch = self._stretches.popleft()
            length = min(stretch.length, left)
            if target_offset >= 0:
                self._note(MappedRange(stretch.source_begin, target, length))
                target += length
            copied_to, epoch = stretch.source_begin + length, stretch.epoch
            if length < stretch.length:
                rest = Stretch(stretch.ordinal + length, copied_to, stretch.length - length, epoch)
                self._stretches.appendleft(rest)
            left -= length
        ordinal = cursor.ordinal + records
        waiting = len(self._replaced)
        while self._replaced and self._replaced[0] < ordinal:
            self._replaced.popleft()
        self.cursor = replace(
            cursor,
            source_offset=copied_to,
            ordinal=ordinal,
            target_offset=target,
            flags_replaced=cursor.flags_replaced + waiting - len(self._replaced),
            skipped=cursor.skipped + _take_before(self._skips, end),
            filtered=cursor.filtered + _take_before(self._filtered, end),
            source_epoch=epoch,
            left_out=0,
            looked_to=-1,
            looked_epoch=-1,
        )

    def passed(self, source_epoch: int) -> None:
        """If no record is on its way, advance the cursor past offsets that were read and left out."""
        cursor = self.cursor
        if not self._stretches and self._read_offset > cursor.source_offset:
            self.cursor = replace(
                cursor,
                source_offset=self._read_offset,
                source_epoch=source_epoch,
                skipped=cursor.skipped + _take_before(self._skips, self._read_ordinal + 1),
                filtered=cursor.filtered + _take_before(self._filtered, self._read_ordinal + 1),
                left_out=self._read_offset - cursor.copied_to,
            )

    def covers(self, ordinal_end: int) -> bool:
        """Whether it is known where all records before `ordinal_end` come from that are on their way."""
        ordinal = self.cursor.ordinal
        for one in self._stretches:
            if one.ordinal > ordinal or ordinal >= ordinal_end:
                break
            ordinal = one.ordinal_end
        return ordinal >= ordinal_end

    def _note(self, one: MappedRange) -> None:
        last = self.ranges[-1] if self.ranges else None
        if last is not None and (last.source_end, last.target_end) == (one.source_begin, one.target_begin):
            self.ranges[-1] = last._replace(length=last.length + one.length)
        else:
            self.ranges.append(one)


def _count_one(left_out: deque[Skips], ordinal: int) -> None:
    """Count one more record that is left out right before this ordinal."""
    before = left_out.pop().records if left_out and left_out[-1].ordinal == ordinal else 0
    left_out.append(Skips(ordinal, before + 1))


def _take_before(left_out: deque[Skips], ordinal: int) -> int:
    """Count the records that were left out before a record with a lower ordinal, and forget them."""
    count = 0
    while left_out and left_out[0].ordinal < ordinal:
        count += left_out.popleft().records
    return count


def _since(one: Stretch, ordinal: int) -> Stretch:
    """The part of a stretch from `ordinal` on."""
    skipped = max(ordinal - one.ordinal, 0)
    return one._replace(
        ordinal=one.ordinal + skipped, source_begin=one.source_begin + skipped, length=one.length - skipped
    )
