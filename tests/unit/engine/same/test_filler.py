"""Fillers take offsets, and are told from records."""

from __future__ import annotations

from isthmus.engine.same.filler import filler, is_filler
from isthmus.kafka.batches.batch import CONTROL
from testing.records.stored import PLAIN, marker, one, stored


def test_fillers_are_small_and_known_again() -> None:
    """A hundred thousand offsets in less than a byte each, with a key for compacted topics."""
    batch = filler(100_000, 1_700_000_000_000)
    assert batch.record_count == batch.offset_end == 100_000
    assert batch.size_bytes < 100_000
    assert is_filler(batch)
    assert filler(100_000, 1_700_000_000_000) is batch


def test_records_are_no_fillers() -> None:
    """Neither records nor control records are ever taken for something that may be deleted."""
    for data in (stored(0, [PLAIN], codec=4), stored(0, [PLAIN]), marker(0, 1, commit=True)):
        assert not is_filler(one(data))
    assert not is_filler(one(stored(0, [PLAIN._replace(key=b"__isthmus.filler")], codec=4, attributes=CONTROL)))
