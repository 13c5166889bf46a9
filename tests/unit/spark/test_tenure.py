"""When a lease may write and when it has to end."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from isthmus.lane.producer import ProducerIdentity
from isthmus.ledger.documents import ControllerDocument, Document, LeaseDocument, TaskDocument
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneMark
from isthmus.model.link import Limits
from isthmus.spark.lease import Ending, LeaseSpec, LinkContext
from isthmus.spark.tenure import DRAIN_S, SILENCE_S, Tenure

BEGUN = 1000.0
TERM_S = 60.0
CONTROLLER = 7 << 16


def lane(topic: str) -> Lane:
    """A lane of a topic with one partition."""
    return Lane(
        source_topic=topic,
        source_topic_id=uuid.UUID(int=1),
        target_topic=topic,
        target_topic_id=uuid.UUID(int=2),
        partition=0,
    )


def tenure(*, generation: int = 2, ended_through: int = 0, is_clean: bool = True) -> Tenure:
    """A lease that has just begun, reading the ledger from offset 100."""
    context = LinkContext(
        link="l",
        source=Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",)),
        target=Cluster(alias="west", bootstrap_servers=("127.0.0.1:2",)),
        producer=ProducerIdentity(producer_id=1, marker_producer_id=2),
        limits=Limits(),
    )
    spec = LeaseSpec(
        context=context,
        slot=0,
        controller=CONTROLLER,
        generation=generation,
        revision=5,
        lanes=(lane("orders"),),
        term_s=TERM_S,
        ended_through=ended_through,
        is_clean=is_clean,
        ledger_position=100,
        ledger_topic_id=uuid.UUID(int=3),
    )
    return Tenure(spec, BEGUN)


def said(generation: int, ended_through: int, *, slot: int = 0, controller: int = CONTROLLER) -> TaskDocument:
    """What a task says of itself."""
    return TaskDocument(
        link="l", slot=slot, controller=controller, generation=generation, ended_through=ended_through, is_clean=True
    )


def told(*, revision: int = 6, revoked: int = 0, ended: int = 0, topics: tuple[str, ...] = ("orders",)) -> Document:
    """What the controller says of the slot."""
    return LeaseDocument(
        link="l",
        slot=0,
        controller=CONTROLLER,
        generation=2,
        revision=revision,
        lanes=tuple(lane(topic) for topic in topics),
        revoked_through=revoked,
        ended_through=ended,
        is_clean=False,
    )


def beat(number: int, generation: int = CONTROLLER) -> ControllerDocument:
    """A sign of life of a controller."""
    return ControllerDocument(link="l", generation=generation, beat=number, started_ms=0)


def may_write(lease: Tenure) -> bool:
    """Whether it is the lease's turn."""
    return lease.is_admitted


def announce(lease: Tenure, now: float = BEGUN) -> None:
    """The announcement was written at offset 103, and read."""
    lease.announced(103)
    lease.looked(now, 104, at_end=True)


def test_the_first_lease_writes_once_its_announcement_was_read() -> None:
    """It may have been declared over in the ledger before its announcement, so it reads up to that first."""
    lease = tenure(generation=1)
    lease.looked(BEGUN, 103, at_end=True)
    assert not may_write(lease)
    lease.announced(103)
    assert not may_write(lease)
    lease.looked(BEGUN, 104, at_end=True)
    assert may_write(lease)


def test_a_successor_waits_for_the_release() -> None:
    """Nothing but the word of the lease before, or of the controller about it, lets the next one write."""
    lease = tenure()
    announce(lease)
    lease.hear(said(1, 0), BEGUN)
    lease.hear(said(1, 1, slot=1), BEGUN)
    lease.hear(said(1, 1, controller=CONTROLLER - 1), BEGUN)
    assert not may_write(lease)
    lease.hear(said(1, 1), BEGUN)
    assert may_write(lease)
    assert lease.is_clean


def test_a_successor_hears_how_the_lanes_were_left() -> None:
    """From the release of the lease before; what a lease says of itself before its end, or a later one, is nothing."""
    lease, mark = tenure(generation=3), LaneMark("orders", 0, 120, 7)
    lease.hear(replace(said(1, 1), marks=(mark,)), BEGUN)
    assert lease.marks == (mark,)
    lease.hear(said(2, 1), BEGUN)
    lease.hear(said(4, 4), BEGUN)
    assert lease.marks == (mark,)
    lease.hear(replace(said(2, 2), marks=(mark._replace(position=130),)), BEGUN)
    assert lease.marks == (mark._replace(position=130),)


def test_the_controller_may_declare_the_lease_before_over() -> None:
    """Where the process is known to be dead; what it left on its way is told."""
    lease = tenure()
    announce(lease)
    lease.hear(told(ended=1), BEGUN)
    assert may_write(lease)
    assert not lease.is_clean


def test_a_lease_revoked_before_it_was_announced_never_writes() -> None:
    """The driver gave it up while it waited for a slot: the ledger has that before the announcement."""
    lease = tenure(ended_through=1)
    lease.hear(told(revoked=2), BEGUN)
    announce(lease)
    assert not may_write(lease)
    assert lease.ending(BEGUN) is Ending.REVOKED


def test_nothing_is_written_after_ten_seconds_without_the_ledger() -> None:
    """A lease that cannot read the ledger does not know whether it was revoked."""
    lease = tenure(ended_through=1)
    assert lease.write_until < BEGUN
    announce(lease, BEGUN + 20)
    assert lease.write_until == BEGUN + 20 + SILENCE_S
    lease.unreadable()
    assert lease.write_until == BEGUN + 20 + SILENCE_S
    assert lease.ending(BEGUN + 45) is None
    lease.looked(BEGUN + 45, 200, at_end=False)
    assert lease.write_until == BEGUN + 20 + SILENCE_S
    lease.looked(BEGUN + 46, 300, at_end=True)
    assert lease.write_until == BEGUN + 46 + SILENCE_S


def test_nothing_is_written_after_the_term() -> None:
    """However fresh the ledger is."""
    lease = tenure(ended_through=1)
    announce(lease, BEGUN + TERM_S - 1)
    assert lease.write_until == BEGUN + TERM_S
    assert lease.ending(BEGUN + TERM_S - DRAIN_S) is Ending.TERM


@pytest.mark.parametrize(
    ("document", "ending"),
    [
        (said(3, 1), Ending.SUCCEEDED),
        (told(revoked=2), Ending.REVOKED),
        (beat(1, CONTROLLER + 1), Ending.SUPERSEDED),
        (said(2, 1), None),
        (said(1, 1), None),
        (told(revoked=1), None),
        (beat(1, CONTROLLER - 1), None),
    ],
)
def test_what_ends_a_lease(document: Document, ending: Ending | None) -> None:
    """A ready successor, the controller's word, another controller; nothing said of or by earlier leases."""
    lease = tenure(ended_through=1)
    announce(lease)
    lease.hear(document, BEGUN)
    assert lease.ending(BEGUN) is ending
    assert may_write(lease) == (ending is None)


def test_a_lease_without_a_controller_ends() -> None:
    """No newer beat for ten seconds while the ledger can be read: a repeated beat does not count."""
    lease = tenure(ended_through=1)
    announce(lease)
    lease.hear(beat(1), BEGUN + 5)
    lease.hear(beat(1), BEGUN + 14)
    lease.looked(BEGUN + 14, 105, at_end=True)
    assert lease.ending(BEGUN + 14) is None
    assert lease.ending(BEGUN + 15.1) is Ending.ORPHANED


def test_silence_does_not_count_while_nothing_could_be_heard() -> None:
    """The controller may have been as cut off as the lease was: it gets its ten seconds again."""
    lease = tenure(ended_through=1)
    announce(lease)
    lease.unreadable()
    assert lease.ending(BEGUN + 30) is None
    lease.looked(BEGUN + 31, 106, at_end=True)
    assert lease.ending(BEGUN + 40) is None
    assert lease.ending(BEGUN + 41.5) is Ending.ORPHANED


def test_lanes_change_with_the_revision() -> None:
    """What the lease was started with is not overwritten by what was told before."""
    lease = tenure(ended_through=1)
    lease.hear(told(revision=5, topics=("old",)), BEGUN)
    assert set(lease.lanes) == {lane("orders").key}
    lease.hear(told(revision=7, topics=("orders", "new")), BEGUN)
    lease.hear(told(revision=6, topics=()), BEGUN)
    assert set(lease.lanes) == {lane("orders").key, lane("new").key}


def test_a_lost_ledger_needs_a_new_announcement() -> None:
    """A waiting lease is not admitted by an announcement that stands nowhere any more."""
    lease = tenure()
    announce(lease)
    lease.lost()
    lease.hear(said(1, 1), BEGUN)
    assert not may_write(lease)
    lease.announced(4)
    lease.looked(BEGUN, 5, at_end=True)
    assert may_write(lease)
