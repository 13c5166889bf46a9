"""What the ledger says of a link, read from its beginning."""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.control.progress import LinkState
from isthmus.control.recollection import Recollection
from isthmus.ledger.documents import (
    ControllerDocument,
    Document,
    PauseDocument,
    ProgressDocument,
    encoded,
)
from isthmus.ledger.records import Entry
from isthmus.model.lane import LaneKey, LaneReport, LaneState

NOW_MS = 1_000_000


def controller(generation: int) -> ControllerDocument:
    """A controller's word that it is alive."""
    return ControllerDocument(link="l", generation=generation, beat=1, started_ms=0)


def progress(generation: int, *positions: tuple[int, int]) -> ProgressDocument:
    """A task's word on partitions and their positions."""
    reports = tuple(
        LaneReport(key=LaneKey("orders", partition), state=LaneState.ACTIVE, position=position)
        for partition, position in positions
    )
    return ProgressDocument(link="l", slot=0, controller=generation, generation=1, is_full=False, reports=reports)


def read(documents: Iterable[Document | str], link: str = "l") -> Recollection:
    """The recollection of a ledger with these documents, or deletions of keys, a second apart."""
    return Recollection.of(
        link,
        (
            Entry(
                offset,
                document if isinstance(document, str) else document.key,
                None if isinstance(document, str) else encoded(document),
                NOW_MS + 1000 * offset,
            )
            for offset, document in enumerate(documents)
        ),
    )


def test_partial_progress_adds_up() -> None:
    """Tasks report what moved; everything they said before still counts."""
    known = read([controller(1), progress(1, (0, 5), (1, 7)), progress(1, (0, 6))])
    assert {key.partition: r.position for key, r in known.reports.items()} == {0: 6, 1: 7}


def test_earlier_controllers_no_longer_count() -> None:
    """A new controller starts with a clean slate, and what old tasks say late is not heard."""
    known = read([controller(1), progress(1, (0, 5)), controller(2), progress(1, (0, 9))])
    assert known.reports == {}


def test_state_follows_the_controllers_word() -> None:
    """A link is active while its controller says so, and stopped when it fell silent or ended."""
    alive = read([controller(1)])
    assert alive.state(NOW_MS + 5_000) is LinkState.ACTIVE
    assert alive.state(NOW_MS + 60_000) is LinkState.STOPPED
    assert read([]).state(NOW_MS) is LinkState.STOPPED
    assert read([controller(1), "controller/l"]).state(NOW_MS) is LinkState.STOPPED


def test_pauses_come_and_go() -> None:
    """A pause counts until it is taken back."""
    whole = PauseDocument(link="l", since_ms=0)
    one = PauseDocument(link="l", topic="orders", since_ms=0)
    known = read([controller(1), whole, one])
    assert known.paused == {None, "orders"}
    assert known.state(NOW_MS) is LinkState.PAUSED
    assert read([controller(1), whole, one, whole.key]).paused == {"orders"}


def test_other_links_are_not_read() -> None:
    """A ledger is shared by all links into a cluster."""
    assert read([controller(1), progress(1, (0, 5))], link="other").reports == {}
