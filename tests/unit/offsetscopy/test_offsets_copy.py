"""Which positions of a source are written into their copy, and which are taken back."""

from __future__ import annotations

from isthmus.kafka.commits.records import CommitKey
from isthmus.model.kafka.group import Committed
from isthmus.model.naming import SourceTopic
from isthmus.offsetscopy.loop import changed_positions

SAME, MOVED, NEW, GONE, LEFT, UNREAD, OTHERWISE = (
    CommitKey(group, SourceTopic("orders"), 0)
    for group in ("same", "moved", "new", "gone", "left", "unread", "otherwise")
)


def test_what_changed_is_written_and_what_went_is_taken_back() -> None:
    """A position that went only where all of its group are known, one that is not to be copied any more always; one
    that was written in another way is written again.
    """
    positions = {key: Committed(7) for key in (SAME, MOVED, NEW, OTHERWISE)}
    known = {
        SAME: Committed(7),
        MOVED: Committed(6),
        OTHERWISE: None,
        GONE: Committed(1),
        LEFT: Committed(1),
        UNREAD: Committed(1),
    }

    due = changed_positions(
        positions, known, lambda group: group != "left", lambda group: group not in ("left", "unread")
    )

    assert due == {MOVED: Committed(7), NEW: Committed(7), OTHERWISE: Committed(7), GONE: None, LEFT: None}
