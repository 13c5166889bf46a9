"""What a control record says."""

from __future__ import annotations

from isthmus.kafka.batches.aborted import ABORT, COMMIT, control_type
from testing.records.stored import PLAIN, marker, one, stored


def test_control_records_are_read() -> None:
    """A marker's kind is in its key; other control records are neither."""
    assert control_type(one(marker(5, 1, commit=True))) == COMMIT
    assert control_type(one(marker(5, 1, commit=False))) == ABORT
    leader_change = PLAIN._replace(key=b"\0\0\0\2", value=b"")
    assert control_type(one(stored(0, [leader_change]))) == -1
