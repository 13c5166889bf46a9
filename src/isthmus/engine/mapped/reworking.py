"""Decodes the records of a chunk, and encodes what a transformer made of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from isthmus.engine.batches.pieces import Piece, passes
from isthmus.engine.batches.rebatch import Record, encode, records_of
from isthmus.engine.state.stage import StagedPart
from isthmus.kafka.batches.batch import scan

CALL_RECORDS: Final = 5_000
CALL_BYTES: Final = 4 << 20
"""A transformer gets at most so many records and (decoded) bytes at once, or one record."""
_RECORD_BYTES: Final = 40
_HEADER_BYTES: Final = 12
"""What a record and a header of one take at most, besides their contents."""


class Original(NamedTuple):
    """A record of the source, with its leader epoch and the codec of its batch; its timestamp may be the broker's."""

    record: Record
    epoch: int
    codec: int
    is_appended: bool = False


class Decoded(NamedTuple):
    """The records of a chunk up to `offset_end`; the next ones are `damaged` if that is not empty."""

    origins: list[Original]
    offset_end: int
    damaged: str = ""


def decode(parts: Iterable[StagedPart], begin: int) -> Decoded:
    """Decode the records of a chunk from the source's offset `begin` on, up to a batch that cannot be decoded."""
    origins: list[Original] = []
    offset_end = begin
    for piece, part_end in parts:
        if piece is not None:
            batch = piece.batch
            try:
                # The batches of a run have a checksum each.
                records = [r for one in ([batch] if piece.stored == 1 else scan(batch.view)) for r in records_of(one)]
            except ValueError as error:
                return Decoded(origins, offset_end, str(error))
            origins += [
                Original(record, batch.leader_epoch, batch.codec, batch.is_log_append_time)
                for record in records
                if begin <= record.offset < part_end
            ]
        offset_end = max(part_end, offset_end)
    return Decoded(origins, offset_end)


def portions(origins: Sequence[Original]) -> Iterator[Sequence[Original]]:
    """Split the records of a chunk into those of single calls."""
    begin = size = 0
    for place, origin in enumerate(origins):
        own = measure(origin.record)
        if place > begin and (size + own > CALL_BYTES or place - begin >= CALL_RECORDS):
            yield origins[begin:place]
            begin, size = place, 0
        size += own
    if begin < len(origins):
        yield origins[begin:]


def measure(record: Record) -> int:
    """The largest size in bytes that a record can take in a batch without compression."""
    size = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        # A character of a name takes up to four bytes.
        size += _HEADER_BYTES + 4 * len(name) + len(value or b"")
    return size


def encode_pieces(records: Sequence[tuple[Record, int]], ordinal: int, bytes_max: int) -> list[Piece]:
    """Encode records, each with its codec, as dense batches with ordinals from `ordinal` on, of at most `bytes_max`
    unless one holds a single record.

    :raises Exception: A record has values that no record can have. The type depends on the encoder.
    """
    pieces: list[Piece] = []
    run: list[Record] = []
    size, kind = 0, (0, False)
    for record, codec in records:
        own, own_kind = measure(record), (codec, record.timestamp < 0)
        if run and (own_kind != kind or size + own > bytes_max):
            pieces.append(_encode_piece(run, kind[0], bytes_max))
            run, size = [], 0
        run.append(record._replace(offset=ordinal))
        ordinal, size, kind = ordinal + 1, size + own, own_kind
    if run:
        pieces.append(_encode_piece(run, kind[0], bytes_max))
    return pieces


def _encode_piece(run: Sequence[Record], codec: int, bytes_max: int) -> Piece:
    batch = encode(run, codec)
    return Piece(batch, passes(batch, bytes_max), is_aborted=False)
