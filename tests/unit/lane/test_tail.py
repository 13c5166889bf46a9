"""When the end of a target's log is a copy of its source."""

from __future__ import annotations

import pytest

from isthmus.lane.judgement import is_copy
from tests.unit.wire.stored import PLAIN, marker, one, stored

RECORDS = [PLAIN._replace(value=b"%d" % n) for n in range(6)]
SOURCE = one(stored(10, RECORDS, codec=4))
HOLES = one(stored(10, RECORDS[:2] + RECORDS[5:], deltas=[0, 1, 5]))


@pytest.mark.parametrize("offset", [13, 15])
def test_boundaries_and_codecs_do_not_matter(offset: int) -> None:
    """A record is the source's wherever its batch begins and however it is compressed."""
    assert is_copy(one(stored(12, RECORDS[2:], codec=1)), SOURCE, offset, is_compacted=False)


def test_other_records_are_no_copy() -> None:
    """Another value, another timestamp, another place: somebody else's."""
    for tail in (
        stored(10, [*RECORDS[:5], PLAIN]),
        stored(10, [*RECORDS[:5], RECORDS[5]._replace(timestamp=1)]),
        stored(11, RECORDS),
    ):
        assert not is_copy(one(tail), SOURCE, 15, is_compacted=False)


def test_control_records_stand_where_the_source_has_no_record() -> None:
    """A marker or a hole of the source is a control record here, and a record of the source is none."""
    control = one(marker(13, 1, commit=False))
    assert is_copy(control, one(marker(13, 99, commit=True)), 13, is_compacted=False)
    assert is_copy(control, HOLES, 13, is_compacted=False)
    assert is_copy(control, None, 13, is_compacted=False)
    assert not is_copy(control, SOURCE, 13, is_compacted=False)


def test_cleaned_records_cannot_be_compared() -> None:
    """What the source's cleaner took since is believed; in a log that is not cleaned it is somebody else's."""
    tail = one(stored(10, RECORDS))
    assert is_copy(tail, HOLES, 13, is_compacted=True)
    assert not is_copy(tail, HOLES, 13, is_compacted=False)
    assert not is_copy(one(stored(10, [PLAIN] * 6)), HOLES, 15, is_compacted=True)
