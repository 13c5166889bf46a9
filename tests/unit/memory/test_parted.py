"""Topics that go on with mapped offsets since both sides had parted."""

from __future__ import annotations

from isthmus.memory.parted import parted_now
from isthmus.model.text.plain import plain
from testing.values.parted import WHERE, documents


def test_who_had_a_topic_go_on_mapped_is_told_with_where_both_sides_parted() -> None:
    """Of this link's topics alone, and of none that was created again since."""
    known = [*documents("orders"), *documents("bills", now=3), *documents("clicks", link="other")]
    (found,) = parted_now("l", {each.key: each for each in known})
    assert plain(found) == {
        "topic": "orders",
        "by": "kate",
        "since": "1970-01-01T00:00:00Z",
        "partitions": [plain(WHERE)],
    }
