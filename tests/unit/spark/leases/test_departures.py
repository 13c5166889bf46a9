"""Where changed records come from: what a lease writes, and what the next one reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.ledger.documents.transforms import DepartureDocument
from isthmus.ledger.records import Deletion
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Departure, Skips, Stretch
from isthmus.spark.leases.departures import LaneDepartures, find_departed


def make(part: int, number: int, stretches: Sequence[Stretch], skips: Sequence[Skips]) -> DepartureDocument:
    return DepartureDocument(
        link="l",
        topic=TargetTopic("orders"),
        partition=0,
        part=f"1.0.1.{part}",
        taken_at=5,
        round=number,
        stretches=tuple(stretches),
        skips=tuple(skips),
    )


def apart(begin: int, end: int) -> tuple[Stretch, ...]:
    """A stretch for each record: every other one of the source is left out."""
    return tuple(Stretch(ordinal, 2 * ordinal, 1, 0) for ordinal in range(begin, end))


class Ledger:
    """The documents by key."""

    def __init__(self, **settings: Any) -> None:
        self.held: dict[str, DepartureDocument] = {}
        self.departures = LaneDepartures(make, **settings)

    def write(self, departure: Departure, stored: int = -1) -> list[str]:
        """Take and write a departure; return the keys that were written."""
        self.departures.take(departure, stored)
        changes = self.departures.changes()
        for change in changes:
            if isinstance(change, Deletion):
                self.held.pop(change.key, None)
            elif isinstance(change, DepartureDocument):
                self.held[change.key] = change
        self.departures.note_written(changes)
        return [change.key for change in changes]

    def read(self, ordinal: int) -> Departure:
        return find_departed(list(self.held.values()), ordinal)


def test_a_document_grows_up_to_its_size() -> None:
    """What follows goes into the next, and a known departure is not written again."""
    ledger = Ledger(part_stretches=4)
    first = ledger.write(Departure(1, apart(0, 2)))
    assert ledger.write(Departure(1, apart(2, 4))) == first
    assert ledger.write(Departure(1, apart(2, 4))) == []
    assert len(ledger.write(Departure(1, apart(4, 13)))) == 3
    assert ledger.read(3).stretches == apart(3, 13)


def test_consecutive_records_are_one_stretch() -> None:
    """Without a filter a document stays small, however often it is written."""
    ledger = Ledger()
    for n in range(20):
        ledger.write(Departure(1, (Stretch(n, 100 + n, 1, 0),)))
    assert ledger.read(0).stretches == (Stretch(0, 100, 20, 0),)
    assert ledger.read(7).stretches == (Stretch(7, 107, 13, 0),)


def test_what_lies_before_the_stored_cursor_is_deleted() -> None:
    """Nothing is needed of it: its records are in the map."""
    ledger = Ledger(part_stretches=4)
    ledger.write(Departure(1, apart(0, 10)))
    assert len(ledger.held) == 3
    ledger.write(Departure(1, apart(10, 11)), 9)
    assert ledger.read(9).stretches == apart(9, 11)
    assert sum(len(each.stretches) for each in ledger.held.values()) == 2


def test_a_later_round_replaces_all_before() -> None:
    """From the lane's place on other records have the same ordinals; an earlier round comes too late."""
    ledger = Ledger(found=["departure/l/orders-0/1.0.0.7"])
    assert "departure/l/orders-0/1.0.0.7" in ledger.write(Departure(1, apart(0, 5)))
    other = (Stretch(3, 60, 2, 1),)
    ledger.write(Departure(2, other), 3)
    assert ledger.write(Departure(1, apart(5, 7)), 3) == []
    assert ledger.read(3).stretches == other


def test_the_last_owner_counts() -> None:
    """Whatever one before it writes late."""
    late = make(1, 9, apart(0, 9), ())
    newer = make(2, 1, apart(4, 6), ())
    found = [newer, late, make(3, 1, apart(6, 7), ())]
    assert find_departed(found, 4).stretches == apart(4, 9)
    last = [each if each is late else _taken_at(each, 6) for each in found]
    assert find_departed(last, 4).stretches == apart(4, 7)
    assert find_departed([], 4).stretches == ()


def _taken_at(document: DepartureDocument, position: int) -> DepartureDocument:
    fields = {name: getattr(document, name) for name in ("part", "round", "stretches", "skips")}
    return DepartureDocument(link="l", topic=document.topic, partition=0, taken_at=position, **fields)


def test_skipped_records_go_with_the_next_that_departs() -> None:
    """They count once, when that has arrived."""
    ledger = Ledger()
    ledger.write(Departure(1, apart(0, 3), (Skips(0, 2), Skips(2, 1))))
    ledger.write(Departure(1, apart(3, 5), (Skips(4, 7),)), 1)
    assert ledger.read(1).skips == (Skips(2, 1), Skips(4, 7))


def test_a_ledger_that_was_lost_gets_all_again() -> None:
    """With the next departure."""
    ledger = Ledger(part_stretches=2)
    ledger.write(Departure(1, apart(0, 4)))
    ledger.held.clear()
    ledger.departures.write_again()
    ledger.write(Departure(1, apart(4, 5)))
    assert ledger.read(0).stretches == apart(0, 5)
