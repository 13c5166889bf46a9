"""Documents in record batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.ledger.documents.kinds import GroupDocument, MapDocument
from isthmus.ledger.records import Deletion, in_batches, pack_changes
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange

LIMIT_BYTES = 1_000_000


def segment(number: int, ranges: int) -> MapDocument:
    """A segment as long as it can be written."""
    whole = tuple(MappedRange(2**40 + 7 * n, 2**41 + 9 * n, 3) for n in range(ranges))
    return MapDocument(
        link="l",
        topic=TargetTopic("orders"),
        partition=0,
        segment=str(number),
        ordinal_begin=0,
        ranges=whole,
        cursor=Cursor(2**40, 2**40, 2**41),
    )


@given(st.lists(st.integers(0, 4_000), max_size=8))
def test_batches_hold_as_much_as_brokers_take(sizes: list[int]) -> None:
    """Everything comes once, in its order, in batches that fit, however much there is at once."""
    changes = [segment(number, size) for number, size in enumerate(sizes)]
    batches = list(
        in_batches([*changes, Deletion("map/l/orders-0/0"), GroupDocument(link="l", group="g", standing="")])
    )
    assert [change for batch in batches for change in batch][: len(changes)] == changes
    assert sum(len(batch) for batch in batches) == len(changes) + 2
    assert all(pack_changes(batch).size_bytes < LIMIT_BYTES for batch in batches)
    assert list(in_batches([])) == []
