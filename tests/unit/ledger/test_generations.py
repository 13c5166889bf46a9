"""Which transform made which records, by what leases wrote down in whatever order it came."""

from __future__ import annotations

from isthmus.ledger.documents.transforms import TransformDocument
from isthmus.ledger.generations import in_force
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Cursor


def made(source_offset: int, transform: str, rewound: int, taken_at: int = 7) -> TransformDocument:
    """Half of the records are left out."""
    return TransformDocument(
        link="l",
        topic=TargetTopic("orders"),
        partition=0,
        ordinal=source_offset // 2,
        transform=transform,
        source_offset=source_offset,
        target_offset=source_offset // 2,
        rewound=rewound,
        taken_at=taken_at,
    )


def begins(*found: TransformDocument, rewound: int = 9) -> list[tuple[int, str]]:
    cursor = Cursor(1_000, 500, 500, rewound=rewound)
    return [(each.source_offset, each.transform) for each in in_force(reversed(found), cursor)]


def test_a_transform_counts_up_to_the_next_one() -> None:
    """Also if no record was copied in between, so that both begin with the same record of the target."""
    assert begins(made(0, "one", 0), made(400, "two", 1), made(401, "", 2)) == [(0, "one"), (400, "two"), (401, "")]


def test_a_lane_that_goes_back_makes_all_records_from_there_on_anew() -> None:
    """What was written of them before does not count any more."""
    assert begins(made(0, "one", 0), made(400, "two", 1), made(300, "two", 2)) == [(0, "one"), (300, "two")]
    assert begins(made(0, "one", 0), made(400, "two", 1), made(0, "two", 2)) == [(0, "two")]


def test_what_a_lease_writes_after_it_has_lost_the_lane_does_not_count() -> None:
    """It has copied nothing by it, whether the next owner has another transform or not."""
    late = made(400, "two", 1, taken_at=7)
    assert begins(made(0, "one", 0), late, rewound=0) == [(0, "one")]
    assert begins(made(0, "one", 0), late, made(600, "three", 1, taken_at=9)) == [(0, "one"), (600, "three")]


def test_documents_of_earlier_releases_count_by_their_places() -> None:
    """They have no numbers."""
    old = [made(0, "one", 0, taken_at=-1), made(400, "two", 0, taken_at=-1)]
    assert begins(*old) == [(0, "one"), (400, "two")]
