"""The batch that one lane sends in one request: one of the source as it is, or several joined."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Final, NamedTuple

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import join
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.run import LaneRun
from isthmus.engine.state.phase import Phase
from isthmus.kafka.batches.batch import HEADER_BYTES, SEQUENCE_MASK, Batch, check_batch, stamp
from isthmus.kafka.log.produce import Append

FAT_REQUEST_BYTES: Final = 128 << 10
JOIN_BELOW_BYTES: Final = 32 << 10
JOIN_BELOW_RECORDS: Final = 32
JOIN_UP_TO_BYTES: Final = 512 << 10
JOIN_UP_TO_RECORDS: Final = 10_000
_GATHER_BELOW_BYTES: Final = 64 << 10
_GZIP: Final = 1
_GZIP_COST: Final = 8
"""Joining gzip batches takes so many times as long as with other codecs."""


class Parcel(NamedTuple):
    """`batch` carries `pieces` pieces of the lane; `pieces_end` counts the lane's pieces up to its end.

    `append` is the batch as it is sent, with `sequence` in its header.
    """

    run: LaneRun
    batch: Batch
    pieces: int
    pieces_end: int
    sequence: int
    append: Append

    def is_due(self, now_ms: float) -> bool:
        """Whether this is the next parcel of the lane, and it may be sent now."""
        run = self.run
        return (
            run.phase is Phase.FLOWING
            and not run.health.is_over
            and run.writer.takes(self.batch.base_offset, self.sequence, now_ms)
        )


def head(run: LaneRun, producer: ProducerIdentity, *, lanes: int, worth_bytes: int) -> Parcel:
    """Build the next parcel of a lane, in a request with `lanes` lanes. The lane's first piece has to be plain.

    Joining ordinary batches pays up to `worth_bytes` in the request: see `distance.worth_bytes`.

    :raises ValueError: A run of tiny batches cannot be decoded.
    """
    sequence = run.writer.sequence
    return _build_parcel(run, 0, sequence, producer, worth_bytes // lanes, lanes)


def behind(sent: Parcel, producer: ProducerIdentity, *, lanes: int, worth_bytes: int) -> Parcel | None:
    """Build the parcel behind `sent`, the lane's last one; None if its pieces are not ready or not plain."""
    run = sent.run
    intake = run.intake
    skip = sent.pieces_end - intake.taken
    if not 0 <= skip < len(intake.pending):
        return None
    following = intake.pending[skip]
    if not following.is_plain or following.batch.base_offset != sent.batch.offset_end:
        return None
    sequence = (sent.sequence + sent.batch.record_count) & SEQUENCE_MASK
    try:
        return _build_parcel(run, skip, sequence, producer, worth_bytes // lanes, lanes)
    except ValueError:
        # `head` raises it once this is the lane's first piece.
        return None


def _build_parcel(
    run: LaneRun, skip: int, sequence: int, producer: ProducerIdentity, worth_bytes: int, lanes: int
) -> Parcel:
    batch, pieces = _batch_from(run, skip, worth_bytes, lanes)
    header = stamp(batch, producer.producer_id, producer.epoch, sequence)
    topic, topic_id, partition = run.keys.append
    append = Append(topic, topic_id, partition, header, batch.view[HEADER_BYTES:])
    return Parcel(run, batch, pieces, run.intake.taken + skip + pieces, sequence, append)


def _batch_from(run: LaneRun, skip: int, worth_bytes: int, lanes: int) -> tuple[Batch, int]:
    """Build a batch from the pending pieces from `skip` on. Return it and the number of its pieces.

    Joining costs about half a microsecond a record (one if compressed), sending a batch by itself about twenty, and a
    request a quarter of a millisecond. So batches of few records are joined, and larger ones are sent as they are, also
    where the heads of `lanes` lanes fill a large request. If the target is far away, waiting for answers takes most of
    the time, and joining up to `worth_bytes` of a lane costs less. Batches that cannot be joined are sent as they are.
    """
    pending = run.intake.pending
    first = pending[skip]
    bytes_max, piece_bytes_max = JOIN_UP_TO_BYTES, JOIN_BELOW_BYTES
    if first.stored == 1:
        batch = first.batch
        if len(pending) == skip + 1:
            return batch, 1
        if batch.record_count >= JOIN_BELOW_RECORDS or batch.size_bytes * lanes >= FAT_REQUEST_BYTES:
            if not worth_bytes:
                return batch, 1
            worth_bytes //= _GZIP_COST if batch.codec == _GZIP else 1
            bytes_max = piece_bytes_max = min(bytes_max, worth_bytes)
            if batch.size_bytes * 2 > bytes_max:
                return batch, 1
    bytes_max = min(bytes_max, run.lane.batch_bytes_max // 2)
    pieces = _select_joinable(first.batch, islice(pending, skip, None), piece_bytes_max, bytes_max) or [first]
    return _join_pieces(pieces)


def _join_pieces(pieces: list[Piece]) -> tuple[Batch, int]:
    """Join pieces that follow one another to one batch, or take the first alone if that fails. Return the batch and
    the number of its pieces.

    :raises ValueError: The first is a run of tiny batches that cannot be decoded.
    """
    first = pieces[0]
    if len(pieces) > 1 or first.stored > 1:
        try:
            # Check single batches first: they were not decoded before, and joining writes a new checksum.
            return join([piece.batch if piece.stored > 1 else check_batch(piece.batch) for piece in pieces]), len(
                pieces
            )
        except ValueError:
            if first.stored > 1:
                raise
    return first.batch, 1


def gathered(run: LaneRun) -> tuple[Batch, int]:
    """Join the first pieces of a lane that are of one transaction. Return the batch and the number of its pieces. The
    first piece has to begin at the writer's position, and to pass by itself or to be a run of tiny batches.

    Each batch of a transaction costs a round trip, so joining pays as it does for a target that is far away.

    :raises ValueError: A run of tiny batches cannot be decoded.
    """
    first = run.intake.pending[0]
    piece_bytes_max = _GATHER_BELOW_BYTES // (_GZIP_COST if first.batch.codec == _GZIP else 1)
    bytes_max = min(JOIN_UP_TO_BYTES, run.lane.batch_bytes_max // 2)
    own = takewhile(lambda each: _is_joinable(first, each), run.intake.pending)
    return _join_pieces(
        _select_joinable(first.batch, (each._replace(is_plain=True) for each in own), piece_bytes_max, bytes_max)
        or [first]
    )


def _is_joinable(first: Piece, piece: Piece) -> bool:
    """Whether a piece can be joined to the first one, which is of an undecided transaction."""
    batch = piece.batch
    return (
        piece.is_undecided
        and batch.producer_id == first.batch.producer_id
        and batch.is_dense
        and not batch.is_log_append_time
    )


def _select_joinable(first: Batch, pieces: Iterator[Piece], piece_bytes_max: int, bytes_max: int) -> list[Piece]:
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
            # In a joined batch, records without a timestamp would get that of another record.
            or batch.base_timestamp < 0
            or len(batch.view) >= (piece_bytes_max if piece.stored == 1 else bytes_max)
            or size > bytes_max
            or records > JOIN_UP_TO_RECORDS
        ):
            break
        found.append(piece)
        end = batch.offset_end
    return found
