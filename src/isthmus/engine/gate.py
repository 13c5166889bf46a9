"""Holds records back until the schemas that they were written with are known at the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.engine.run import LaneRun
from isthmus.kafka.batches.batch import Batch
from isthmus.model.copyflags import is_done_with, is_to_copy
from isthmus.model.schemas.gate import SchemaIds, unknown_id


class SchemaMissing(Exception):
    """The next record of a lane has a schema that is not known at the target."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(f"schema {schema_id}")
        self.schema_id = schema_id


def admitted(run: LaneRun, found: Iterable[Piece], known: SchemaIds) -> Iterator[Piece]:
    """Yield the pieces up to the first whose records have to wait. Records of aborted transactions never wait, as no
    consumer reads them; neither do records that a distributor does not copy because others brought them.

    :raises SchemaMissing: The very first piece has to wait.
    :raises ValueError: The records of a piece cannot be decoded.
    """
    run.intake.await_schema(-1)
    is_first = True
    for piece in found:
        batch = piece.batch
        is_seen = not (batch.is_control or piece.is_aborted or is_done_with(batch.producer_id, run.lane.level))
        is_new = batch.offset_end > run.intake.read_offset
        missing = unknown_id(run.lane.gated, known, _select_records(run, batch)) if is_seen and is_new else None
        if missing is not None:
            if is_first:
                run.intake.await_schema(missing)
                raise SchemaMissing(missing)
            return
        # Pieces that were taken before have to be written first.
        is_first &= not is_new
        yield piece


def _select_records(run: LaneRun, batch: Batch) -> list[Record]:
    """The records of a batch without those whose header marks them as distributed."""
    records, header = records_of(batch), run.lane.flags
    return [one for one in records if header is None or is_to_copy(header.read(one.headers)[0], run.lane.level)]
