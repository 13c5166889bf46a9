"""The gate before records that carry ids of schemas: which ids, of which topics, and what is known of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.batches.rebatch import Record
from isthmus.model.schemas.gate import GatedFields, SchemaGate, SchemaIds, schema_id, unknown_id
from isthmus.model.selection import TopicPattern


@given(st.sets(st.integers(0, 60)), st.integers(-1, 61))
def test_ids_are_kept_as_ranges(ids: set[int], asked: int) -> None:
    """They hold what was put in and nothing else, and neighbours become one range."""
    held = SchemaIds.of(ids)
    assert (asked in held) is (asked in ids)
    assert [n for first, last in held.ranges for n in range(first, last + 1)] == sorted(ids)
    assert all(held.ranges[n].last + 1 < held.ranges[n + 1].first for n in range(len(held.ranges) - 1))


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        (None, None),
        (b"", None),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01\x02", 258),
        (b"\x00\xff\xff\xff\xffrest", 2**32 - 1),
        (b"\x01\x00\x00\x01\x02", None),
        (b'{"json": 1}', None),
    ],
)
def test_an_id_is_in_the_first_five_bytes(stored: bytes | None, found: int | None) -> None:
    """A zero, and four bytes of the id; what has none has no schema to wait for."""
    assert schema_id(stored) == found


def test_only_what_is_gated_is_looked_at() -> None:
    """Keys that are numbers begin with zeros too: they are left alone unless they are named."""
    record = Record(0, 1, b"\x00\x00\x00\x00\x07\x00\x00\x09", b"\x00\x00\x00\x00\x05v", [])
    assert unknown_id(GatedFields(value=True), SchemaIds.of([5]), [record]) is None
    assert unknown_id(GatedFields(value=True), SchemaIds.of([6]), [record]) == 5
    assert unknown_id(GatedFields(key=True), SchemaIds.of([5]), [record]) == 7
    gate = SchemaGate(values=(TopicPattern.parse("orders*"),), keys=(TopicPattern.parse("orders.x"),))
    assert gate.of("orders.x") == GatedFields(value=True, key=True)
    assert gate.of("orders.y") == GatedFields(value=True)
    assert not gate.of("other").is_any
