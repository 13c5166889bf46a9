"""The gate of a lane: what may be copied before the target knows a schema, and what has to wait."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isthmus.engine.batches.pieces import Piece
from isthmus.engine.batches.rebatch import Record, encode
from isthmus.engine.gate import SchemaMissing, admitted
from isthmus.engine.run import LaneRun
from isthmus.kafka.batches.batch import CONTROL, Batch
from isthmus.model.copyflags import FlagsHeader, distributor_producer_id
from isthmus.model.schemas.gate import GatedFields, SchemaIds
from testing.values.looks import lane_of

VALUES = GatedFields(value=True)


def batch(offset: int, *ids: int) -> Batch:
    """A record for each id, from an offset on."""
    return encode([Record(offset + n, 1, None, b"\0" + id_.to_bytes(4) + b"v", []) for n, id_ in enumerate(ids)], 0)


def passed(run: LaneRun, pieces: Sequence[Piece], *known: int) -> list[int]:
    """The offsets of the batches that go on."""
    return [piece.batch.base_offset for piece in admitted(run, pieces, SchemaIds.of(known))]


def plain(*batches: Batch) -> list[Piece]:
    return [Piece(each, True, False) for each in batches]


def test_all_up_to_an_unknown_schema_goes_on() -> None:
    """A batch waits as a whole, and nothing overtakes it; it is named once it is the next, and goes on once known."""
    run = lane_of(gated=VALUES)
    found = plain(batch(0, 1, 2), batch(2, 2, 7), batch(4, 1))
    assert passed(run, found, 1, 2) == [0]
    assert run.intake.schema_id == -1
    run.intake.read_offset = 2
    with pytest.raises(SchemaMissing, match="schema 7"):
        passed(run, found[1:], 1, 2)
    assert run.intake.schema_id == 7
    assert passed(run, found[1:], 1, 2, 7) == [2, 4]
    assert run.intake.schema_id == -1


def test_what_nobody_reads_there_waits_for_nothing() -> None:
    """Aborted data, control records, what was copied before, and what other distributors brought."""
    run = lane_of(gated=VALUES, level=2)
    run.intake.read_offset = 1
    brought = batch(3, 9)._replace(producer_id=distributor_producer_id(1, 5))
    control = batch(4, 9)._replace(attributes=CONTROL)
    pieces = [*plain(batch(0, 9)), Piece(batch(1, 9), False, True), *plain(brought, control)]
    assert passed(run, pieces, 1) == [0, 1, 3, 4]
    with pytest.raises(SchemaMissing, match="schema 9"):
        passed(run, plain(batch(5, 9)._replace(producer_id=distributor_producer_id(3, 5))), 1)


def test_what_a_header_leaves_alone_waits_for_nothing() -> None:
    """A distributor does not copy it, whoever wrote it; what it does copy of the same batch waits."""
    run = lane_of(gated=VALUES, level=2, flags=FlagsHeader(name="f", width_bytes=1))

    def records(*flags: bytes) -> list[Piece]:
        found = [Record(n, 1, None, b"\0\0\0\0\x09v", [("f", each)]) for n, each in enumerate(flags)]
        return plain(encode(found, 0))

    assert passed(run, records(b"\x02", b"\x03"), 1) == [0]
    with pytest.raises(SchemaMissing, match="schema 9"):
        passed(run, records(b"\x02", b"\x04"), 1)


def test_what_comes_before_what_waits_goes_on() -> None:
    """Also where it is a control record alone: the lane writes it, and tells that it waits once that is written."""
    run = lane_of(gated=VALUES)
    run.intake.read_offset = 0
    control = batch(0, 9)._replace(attributes=CONTROL)
    pieces = [Piece(control, False, False), *plain(batch(1, 7))]
    size = run.offer(admitted(run, pieces, SchemaIds.of([1])))
    assert (len(run.intake.pending), run.intake.read_offset, run.intake.size_bytes) == (1, 1, size)
    assert size == control.size_bytes
    with pytest.raises(SchemaMissing, match="schema 7"):
        run.offer(admitted(run, pieces[1:], SchemaIds.of([1])))
    assert run.intake.schema_id == 7
