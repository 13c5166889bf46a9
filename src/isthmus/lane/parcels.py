"""What one lane sends in one request: a batch as it is, or several joined."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Final, NamedTuple

from isthmus.lane.phase import Phase
from isthmus.lane.pieces import Piece
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.rebatch import join
from isthmus.lane.run import LaneRun
from isthmus.wire.batch import HEADER_BYTES, SEQUENCE_MASK, Batch, checked, stamp
from isthmus.wire.produce import Append

FAT_REQUEST_BYTES: Final = 128 << 10
JOIN_BELOW_BYTES: Final = 32 << 10
JOIN_BELOW_RECORDS: Final = 32
JOIN_UP_TO_BYTES: Final = 512 << 10
JOIN_UP_TO_RECORDS: Final = 10_000
_GATHER_BELOW_BYTES: Final = 64 << 10
_GZIP: Final = 1
_GZIP_COST: Final = 8
"""How much longer than with other codecs it takes to join batches."""


class Parcel(NamedTuple):
    """`batch` carries `pieces` pieces of the lane, up to `pieces_end` since it began.

    `append` is the batch as it is sent, with `sequence` in its header.
    """

    run: LaneRun
    batch: Batch
    pieces: int
    pieces_end: int
    sequence: int
    append: Append

    def is_due(self, now_ms: float) -> bool:
        """Whether this is what the lane has to send next, and may send now."""
        run = self.run
        return (
            run.phase is Phase.FLOWING
            and not run.is_over
            and run.writer.takes(self.batch.base_offset, self.sequence, now_ms)
        )


def head(run: LaneRun, producer: ProducerIdentity, *, lanes: int, worth_bytes: int) -> Parcel:
    """What a lane sends next; `lanes` of them make up the request. The lane's first piece has to be plain.

    Up to `worth_bytes` in the request joining ordinary batches pays: see `distance.worth_bytes`.

    :raises ValueError: A run of tiny batches cannot be decoded.
    """
    sequence = run.writer.sequence
    return _parcel(run, 0, sequence, producer, worth_bytes // lanes, lanes)


def behind(sent: Parcel, producer: ProducerIdentity, *, lanes: int, worth_bytes: int) -> Parcel | None:
    """What the lane sends behind `sent`, its last one; None if that is not known yet."""
    run = sent.run
    skip = sent.pieces_end - run.taken
    if not 0 <= skip < len(run.pending):
        return None
    following = run.pending[skip]
    if not following.is_plain or following.batch.base_offset != sent.batch.offset_end:
        return None
    sequence = (sent.sequence + sent.batch.record_count) & SEQUENCE_MASK
    try:
        return _parcel(run, skip, sequence, producer, worth_bytes // lanes, lanes)
    except ValueError:
        # Told when it is the lane's first piece.
        return None


def _parcel(run: LaneRun, skip: int, sequence: int, producer: ProducerIdentity, worth_bytes: int, lanes: int) -> Parcel:
    batch, pieces = _taken(run, skip, worth_bytes, lanes)
    header = stamp(batch, producer.producer_id, producer.epoch, sequence)
    topic, topic_id, partition = run.target_append
    append = Append(topic, topic_id, partition, header, batch.view[HEADER_BYTES:])
    return Parcel(run, batch, pieces, run.taken + skip + pieces, sequence, append)


def _taken(run: LaneRun, skip: int, worth_bytes: int, lanes: int) -> tuple[Batch, int]:
    """The batch made of pending pieces from `skip` on, and of how many.

    Joining costs about half a microsecond a record (one where it is compressed), sending a batch by itself some twenty,
    and a request a quarter of a millisecond. So batches of few records are joined; larger ones go as they are, and
    certainly where the heads of `lanes` lanes make a fat request together. Unless the target is far away: then we
    would wait for answers most of the time, and joining up to `worth_bytes` of a lane costs less. What cannot be joined
    goes as it is.
    """
    first = run.pending[skip]
    bytes_max, piece_bytes_max = JOIN_UP_TO_BYTES, JOIN_BELOW_BYTES
    if first.stored == 1:
        batch = first.batch
        if len(run.pending) == skip + 1:
            return batch, 1
        if batch.record_count >= JOIN_BELOW_RECORDS or batch.size_bytes * lanes >= FAT_REQUEST_BYTES:
            if not worth_bytes:
                return batch, 1
            worth_bytes //= _GZIP_COST if batch.codec == _GZIP else 1
            bytes_max = piece_bytes_max = min(bytes_max, worth_bytes)
            if batch.size_bytes * 2 > bytes_max:
                return batch, 1
    bytes_max = min(bytes_max, run.lane.batch_bytes_max // 2)
    pieces = _joinable(first.batch, islice(run.pending, skip, None), piece_bytes_max, bytes_max) or [first]
    return _joined(pieces)


def _joined(pieces: list[Piece]) -> tuple[Batch, int]:
    """Pieces that follow one another as one batch, if they can be joined, or else the first; and how many those are.

    :raises ValueError: The first is a run of tiny batches that cannot be decoded.
    """
    first = pieces[0]
    if len(pieces) > 1 or first.stored > 1:
        try:
            # A single batch was not looked at when it came: by itself it would pass on as it is, checksum and all.
            return join([piece.batch if piece.stored > 1 else checked(piece.batch) for piece in pieces]), len(pieces)
        except ValueError:
            if first.stored > 1:
                raise
    return first.batch, 1


def gathered(run: LaneRun) -> tuple[Batch, int]:
    """The first pieces of a lane that are of one transaction, as one batch, and how many they are. The very first has
    to follow what was written, and has to pass by itself or to be a run of tiny ones.

    Each costs a round trip, so that joining pays as it does for a target that is far away.

    :raises ValueError: A run of tiny batches cannot be decoded.
    """
    first = run.pending[0]
    piece_bytes_max = _GATHER_BELOW_BYTES // (_GZIP_COST if first.batch.codec == _GZIP else 1)
    bytes_max = min(JOIN_UP_TO_BYTES, run.lane.batch_bytes_max // 2)
    own = takewhile(lambda each: _is_with(first, each), run.pending)
    return _joined(
        _joinable(first.batch, (each._replace(is_plain=True) for each in own), piece_bytes_max, bytes_max) or [first]
    )


def _is_with(first: Piece, piece: Piece) -> bool:
    """Whether a piece can be written with the first one, which is of an undecided transaction."""
    batch = piece.batch
    return (
        piece.is_undecided
        and batch.producer_id == first.batch.producer_id
        and batch.is_dense
        and not batch.is_log_append_time
    )


def _joinable(first: Batch, pieces: Iterator[Piece], piece_bytes_max: int, bytes_max: int) -> list[Piece]:
    found: list[Piece] = []
    end, codec, size, records = first.base_offset, first.codec, 0, 0
    for piece in pieces:
        batch = piece.batch
        size += len(batch.view)
        records += batch.record_count
        if (
            not piece.is_plain
            or batch.base_offset != end
            or batch.codec != codec
            # Records without a timestamp would get that of another in the batch they are joined to.
            or batch.base_timestamp < 0
            or len(batch.view) >= (piece_bytes_max if piece.stored == 1 else bytes_max)
            or size > bytes_max
            or records > JOIN_UP_TO_RECORDS
        ):
            break
        found.append(piece)
        end = batch.offset_end
    return found
