"""What is paused of a link: all of it, topics, and namespaces, each by itself."""

from __future__ import annotations

import pytest

from isthmus.ledger.documents.kinds import PauseDocument
from isthmus.model.links.pauses import Pause, PausedPart, Pauses, told_of
from isthmus.model.namespace import Namespace
from isthmus.model.naming import TargetTopic

ORDERS = TargetTopic("orders-1")
SPACE = Namespace(prefix="orders-")


@pytest.mark.parametrize(
    ("part", "is_covered"),
    [(None, True), (ORDERS, True), (SPACE, True), (TargetTopic("orders-2"), False), (Namespace(prefix="o-"), False)],
)
def test_a_topic_is_covered_by_what_holds_it(part: PausedPart, *, is_covered: bool) -> None:
    """By its own pause, by that of a namespace it is in, and by that of the link."""
    assert Pauses.of([part]).covers(ORDERS) is is_covered


def test_each_pause_is_taken_back_by_itself() -> None:
    """A topic goes on once none covers it any more."""
    all_of_them = Pauses.of([None, ORDERS, SPACE])
    left = all_of_them.without(None).without(SPACE)
    assert (all_of_them.is_whole, left.is_whole, left.topics, left.namespaces) == (True, False, (ORDERS,), ())
    assert left.covers(ORDERS)
    assert not left.without(ORDERS).covers(ORDERS)


def test_documents_of_pauses_have_keys_of_their_own() -> None:
    """That of a namespace is neither that of a topic with its name nor that of the link."""
    documents = [PauseDocument(link="l", since_ms=0), PauseDocument(link="l", topic=TargetTopic("orders-"), since_ms=0)]
    documents.append(PauseDocument(link="l", prefix="orders-", since_ms=0))
    assert len({each.key for each in documents}) == 3
    assert [each.part for each in documents] == [None, "orders-", SPACE]


def test_people_are_told_of_ten_pauses() -> None:
    """That of the whole link first, each with who gave it where that is known, and then how many more there are."""
    parts: list[PausedPart] = [*(TargetTopic(f"t{number:02}") for number in range(11)), None]
    paused = Pauses.from_pauses(Pause(part=part, since_ms=0, by="" if part is None else "anna") for part in parts)
    told = told_of(paused.authored)

    assert told[0] == "all of it is paused since 1970-01-01T00:00:00Z"
    assert told[1] == "topic t00 is paused since 1970-01-01T00:00:00Z by anna"
    assert (len(told), told[-1]) == (11, "2 more pauses: -o json has them all")
    assert told_of(paused.without(None).authored)[-1] == "1 more pause: -o json has them all"
