"""Dead letters as records, and back."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.letters import as_letter, read_letter
from isthmus.engine.mapped.transformer import DeadLetter
from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic

LANE = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.UUID(int=3),
    target_topic=TargetTopic("east.orders"),
    target_topic_id=uuid.UUID(int=4),
    partition=7,
    transform="abc",
)
RECORDS = st.builds(
    Record,
    offset=st.integers(0, 1 << 60),
    timestamp=st.integers(-1, 1 << 50),
    key=st.none() | st.binary(max_size=9),
    value=st.none() | st.binary(max_size=9),
    headers=st.lists(
        st.tuples(st.sampled_from(["a", "isthmus.kind", "isthmus.offset"]), st.none() | st.binary(max_size=3))
    ),
)


@given(RECORDS, st.integers(-1, 9), st.booleans(), st.text(max_size=50))
def test_a_letter_is_read_as_it_was_written(record: Record, epoch: int, is_appended: bool, reason: str) -> None:
    """The record is the source's, whatever headers it has, and also if it was written twice."""
    written = as_letter(DeadLetter(record, epoch, is_appended, reason), LANE, "east", record.offset + 1)
    again = as_letter(DeadLetter(written, epoch, is_appended, reason), LANE, "east", record.offset + 1)
    found, twice = read_letter(written._replace(offset=99)), read_letter(again)
    assert found is not None
    assert twice is not None
    assert (found.record, twice.record) == (record, written)
    assert found.place == (record.offset, epoch)
    assert (found.cluster, found.topic, found.topic_id, found.partition) == ("east", "orders", uuid.UUID(int=3), 7)
    assert found.target_id == uuid.UUID(int=4)
    assert (found.furthest, found.transform, found.is_appended) == (record.offset + 1, "abc", is_appended)
    assert found.reason == reason.encode(errors="replace").decode()


def test_a_reason_is_cut_off() -> None:
    """A function may put the whole record into its error."""
    found = read_letter(as_letter(DeadLetter(Record(1, 1, None, None, []), 0, False, "x" * 10_000), LANE, "east", 1))
    assert found is not None
    assert found.reason == "x" * 2_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isthmus.kind", b"diverged"),
        ("isthmus.kind", None),
        ("isthmus.partition", b"one"),
        ("isthmus.topic-id", b"no"),
        ("isthmus.target-id", None),
        ("isthmus.timestamp-type", b"Now"),
    ],
)
def test_what_others_write_there_is_none(name: str, value: bytes | None) -> None:
    """A record counts only if all of its headers do."""
    written = as_letter(DeadLetter(Record(1, 1, None, None, []), 0, False, "no"), LANE, "east", 1)
    headers = [(each, value if each == name else own) for each, own in written.headers]
    assert read_letter(written._replace(headers=headers)) is None
    assert read_letter(written._replace(headers=written.headers[1:])) is None
    assert read_letter(written._replace(headers=[])) is None


def test_a_letter_is_of_its_lane_until_a_topic_is_created_again() -> None:
    """At either side: a target that begins again asks the transform for all records again."""
    written = as_letter(DeadLetter(Record(1, 1, None, None, []), 0, False, "no"), LANE, "east", 1)
    found = read_letter(written)
    assert found is not None
    assert found.is_of(LANE)
    assert not found.is_of(replace(LANE, source_topic_id=uuid.UUID(int=9)))
    assert not found.is_of(replace(LANE, target_topic_id=uuid.UUID(int=9)))
