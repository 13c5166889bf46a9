"""When a lease may write and when it has to end."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.ledger.documents.kinds import ControllerDocument, Document, LeaseDocument, MilestonesDocument, TaskDocument
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneKey, LaneMark, Milestone
from isthmus.model.link import Limits
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.receipt import Ending
from isthmus.spark.leases.lease import LeaseSpec, LinkContext
from isthmus.spark.leases.tenure import DRAIN_S, REVOCATION_S, SILENCE_S, Tenure
from testing.patience import TERM_S

BEGUN = 1000.0
CONTROLLER = 7 << 16


def lane(topic: str) -> Lane:
    """A lane of a topic with one partition."""
    return Lane(
        source_topic=SourceTopic(topic),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic(topic),
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


def told(
    *,
    revision: int = 6,
    revoked: int = 0,
    ended: int = 0,
    topics: tuple[str, ...] = ("orders",),
    limits: Limits | None = None,
    parting: tuple[LaneKey, ...] = (),
) -> Document:
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
        limits=limits,
        parting=parting,
    )


def beat(number: int, generation: int = CONTROLLER) -> ControllerDocument:
    """A sign of life of a controller."""
    return ControllerDocument(link="l", generation=generation, beat=number, started_ms=0)


def may_write(lease: Tenure) -> bool:
    """Whether it is the lease's turn."""
    return lease.is_admitted


def announce(lease: Tenure, now: float = BEGUN) -> None:
    """The announcement was written at offset 103, and read."""
    lease.note_announcement(103)
    lease.note_look(now, 104, at_end=True)


def test_the_first_lease_writes_once_its_announcement_was_read() -> None:
    """It may have been declared over in the ledger before its announcement, so it reads up to that first."""
    lease = tenure(generation=1)
    lease.note_look(BEGUN, 103, at_end=True)
    assert not may_write(lease)
    lease.note_announcement(103)
    assert not may_write(lease)
    lease.note_look(BEGUN, 104, at_end=True)
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
    lease, mark = tenure(generation=3), LaneMark(TargetTopic("orders"), 0, 120, 7)
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
    lease.note_unreadable(BEGUN + 21)
    assert lease.write_until == BEGUN + 20 + SILENCE_S
    assert lease.ending(BEGUN + 45) is None
    lease.note_look(BEGUN + 45, 200, at_end=False)
    assert lease.write_until == BEGUN + 20 + SILENCE_S
    lease.note_look(BEGUN + 46, 300, at_end=True)
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
    lease.note_look(BEGUN + 14, 105, at_end=True)
    assert lease.ending(BEGUN + 14) is None
    assert lease.ending(BEGUN + 15.1) is Ending.ORPHANED


def test_silence_does_not_count_while_nothing_could_be_heard() -> None:
    """The controller may have been as cut off as the lease was: it gets its ten seconds again."""
    lease = tenure(ended_through=1)
    announce(lease)
    lease.note_unreadable(BEGUN)
    assert lease.ending(BEGUN + 30) is None
    lease.note_look(BEGUN + 31, 106, at_end=True)
    assert lease.ending(BEGUN + 40) is None
    assert lease.ending(BEGUN + 41.5) is Ending.ORPHANED


def test_silence_does_not_count_while_the_loop_stood_still() -> None:
    """What one lease of a task does for twenty seconds does not end the others: they hear what came meanwhile first.
    Nothing is written before.
    """
    lease = tenure(ended_through=1)
    announce(lease)
    lease.note_tick(BEGUN + 0.2)
    lease.note_tick(BEGUN + 20)
    # The answer to what was asked before.
    lease.note_look(BEGUN + 0.1, 105, at_end=True)
    assert lease.ending(BEGUN + 20) is None
    assert lease.write_until < BEGUN + 20
    lease.note_tick(BEGUN + 20.2)
    assert lease.ending(BEGUN + 20.2) is None
    lease.note_look(BEGUN + 20.3, 106, at_end=True)
    for tenths in range(203, 299):
        lease.note_tick(BEGUN + tenths / 10)
    assert lease.ending(BEGUN + 29.8) is None
    lease.note_tick(BEGUN + 30.5)
    assert lease.ending(BEGUN + 30.5) is Ending.ORPHANED


def test_a_ledger_that_cannot_be_read_now_and_then_hides_no_silence() -> None:
    """Nor does one of which a broker over a quota shows only a part: what there was of silence before still counts."""
    lease = tenure(ended_through=1)
    announce(lease)
    for at in range(0, 18, 2):
        assert lease.ending(BEGUN + at) is None
        if at % 4:
            lease.note_unreadable(BEGUN + at + 1)
        else:
            lease.note_look(BEGUN + at + 1, 104, at_end=False)
        assert lease.ending(BEGUN + at + 1) is None
        lease.note_look(BEGUN + at + 2, 104, at_end=True)
    # It could be heard in every other second.
    assert lease.ending(BEGUN + 18.9) is None
    assert lease.ending(BEGUN + 19.1) is Ending.ORPHANED


def test_a_controller_that_is_held_back_is_waited_for() -> None:
    """For as long as it said that a quota holds its beats back, and no longer than its last word has it."""
    lease = tenure(ended_through=1)
    announce(lease)
    lease.hear(replace(beat(1), held_s=30.0), BEGUN + 2)
    assert lease.ending(BEGUN + 42) is None
    assert lease.ending(BEGUN + 42.1) is Ending.ORPHANED
    heard = tenure(ended_through=1)
    announce(heard)
    heard.hear(replace(beat(1), held_s=30.0), BEGUN + 2)
    heard.hear(beat(2), BEGUN + 20)
    assert heard.ending(BEGUN + 30.1) is Ending.ORPHANED


def test_a_beat_that_is_read_late_is_a_sign_of_life() -> None:
    """Whoever reads a long ledger piece by piece hears what is in it, and counts silence from its end on."""
    lease = tenure(ended_through=1)
    announce(lease)
    lease.note_look(BEGUN + 8, 110, at_end=False)
    lease.hear(beat(1), BEGUN + 12)
    lease.note_look(BEGUN + 11, 120, at_end=False)
    assert lease.ending(BEGUN + 30) is None
    lease.note_look(BEGUN + 30, 130, at_end=True)
    assert lease.ending(BEGUN + 40) is None
    assert lease.ending(BEGUN + 40.1) is Ending.ORPHANED


def test_lanes_change_with_the_revision() -> None:
    """What the lease was started with is not overwritten by what was told before."""
    lease = tenure(ended_through=1)
    lease.hear(told(revision=5, topics=("old",)), BEGUN)
    assert (set(lease.lanes), lease.parting) == ({lane("orders").key}, ())
    lease.hear(told(revision=7, topics=("orders", "new"), parting=(lane("gone").key,)), BEGUN)
    lease.hear(told(revision=6, topics=()), BEGUN)
    assert set(lease.lanes) == {lane("orders").key, lane("new").key}
    assert lease.parting == (lane("gone").key,)


def test_limits_change_with_the_revision() -> None:
    """As lanes do; a controller of an older release says nothing of them."""
    lease = tenure(ended_through=1)
    lease.hear(told(revision=5, limits=Limits(bytes_per_s=5)), BEGUN)
    assert lease.limits is None
    lease.hear(told(revision=7, limits=Limits(bytes_per_s=7)), BEGUN)
    lease.hear(told(revision=6, limits=Limits(bytes_per_s=6)), BEGUN)
    assert lease.limits == Limits(bytes_per_s=7)


def test_a_lost_ledger_needs_a_new_announcement() -> None:
    """A waiting lease is not admitted by an announcement that stands nowhere any more."""
    lease = tenure()
    announce(lease)
    lease.note_loss()
    lease.hear(said(1, 1), BEGUN)
    assert not may_write(lease)
    lease.note_announcement(4)
    lease.note_look(BEGUN, 5, at_end=True)
    assert may_write(lease)


def test_the_first_word_about_an_end_counts() -> None:
    """What is repeated later may come from somebody who knows less; a later lease's end replaces it."""
    lease = tenure(generation=3, ended_through=1, is_clean=False)
    lease.hear(said(1, 1), BEGUN)
    assert not lease.is_clean
    lease.hear(said(2, 2), BEGUN)
    assert (lease.ended_through, lease.is_clean) == (2, True)
    lease.hear(told(ended=2), BEGUN)
    assert lease.is_clean


def test_who_was_revoked_has_written_its_last_byte_when_that_counts() -> None:
    """Even a task that read all the ledger a moment before it was revoked, with time left for requests on their way."""
    lease = tenure(ended_through=1)
    announce(lease)
    on_their_way_s = 2.0
    assert lease.write_until + on_their_way_s <= BEGUN + REVOCATION_S


def test_the_first_reason_to_end_stays() -> None:
    """What ends a lease is told as it was, whatever follows."""
    lease = tenure(ended_through=1)
    announce(lease)
    lease.hear(said(3, 1), BEGUN)
    lease.hear(told(revoked=2), BEGUN)
    assert lease.ending(BEGUN + TERM_S) is Ending.SUCCEEDED


def test_a_lease_is_admitted_as_it_was_started() -> None:
    """What its controller knew when it was started counts: no word is needed of those that were over by then."""
    lease = tenure(generation=3, ended_through=2, is_clean=False)
    assert (lease.ended_through, lease.is_clean, lease.write_until) == (2, False, -1.0)
    assert lease.marks == lease.spec.marks == ()
    assert lease.ending(BEGUN) is None
    lease.note_announcement(100)
    assert not may_write(lease)
    lease.note_look(BEGUN, 101, at_end=True)
    assert may_write(lease)


def test_its_own_end_and_those_before_the_last_do_not_admit_a_lease() -> None:
    """The lease right before it has to be over."""
    lease = tenure(generation=3)
    announce(lease)
    lease.hear(said(1, 1), BEGUN)
    assert not may_write(lease)
    lease.hear(said(2, 1), BEGUN)
    assert not may_write(lease)
    lease.hear(said(2, 2), BEGUN)
    assert may_write(lease)


def test_the_moments_at_which_a_lease_ends() -> None:
    """A little before the end of its term, so that what is in flight is answered; after ten seconds of silence."""
    lease = tenure(ended_through=1)
    announce(lease, BEGUN + TERM_S - DRAIN_S)
    assert lease.ending(BEGUN + TERM_S - DRAIN_S - 0.001) is None
    assert lease.ending(BEGUN + TERM_S - DRAIN_S) is Ending.TERM
    silent = tenure(ended_through=1)
    announce(silent)
    assert silent.ending(BEGUN + SILENCE_S) is None
    assert silent.ending(BEGUN + SILENCE_S + 0.001) is Ending.ORPHANED


def test_beats_count_from_the_first_to_the_newest() -> None:
    """A controller's first beat has number 0; one that was heard before it is no sign of life, whoever sent it."""
    lease = tenure(ended_through=1)
    announce(lease)
    lease.hear(beat(0), BEGUN + 5)
    assert lease.ending(BEGUN + 14) is None
    lease.hear(beat(3), BEGUN + 15)
    lease.hear(beat(2), BEGUN + 24)
    lease.hear(beat(9, CONTROLLER - 1), BEGUN + 24)
    assert lease.ending(BEGUN + 25) is None
    assert lease.ending(BEGUN + 25.1) is Ending.ORPHANED


def test_silence_counts_from_when_the_ledger_could_be_read_again() -> None:
    """Looking again while it can be read gives a silent controller no more time."""
    lease = tenure(ended_through=1)
    lease.note_look(BEGUN + 3, 104, at_end=True)
    lease.note_look(BEGUN + 12, 104, at_end=True)
    assert lease.ending(BEGUN + 13) is None
    assert lease.ending(BEGUN + 13.1) is Ending.ORPHANED


def test_other_lanes_are_told_once() -> None:
    """A revision that was heard is not heard again, and a revoked lease takes no more lanes."""
    lease = tenure(ended_through=1)
    lease.hear(told(revision=6, topics=("new",)), BEGUN)
    lease.hear(told(revision=6, topics=()), BEGUN)
    assert set(lease.lanes) == {lane("new").key}
    assert lease.lanes[lane("new").key] == lane("new")


def test_milestones_of_the_slot_are_heard() -> None:
    """The lease before may write them until it ends, and one of another slot says nothing of these lanes."""
    mark = Milestone(
        topic=TargetTopic("orders"),
        partition=0,
        source_topic_id=uuid.UUID(int=1),
        target_topic_id=uuid.UUID(int=2),
        position=120,
        source_epoch=7,
    )
    lease = tenure(ended_through=1)
    document = MilestonesDocument(link="l", slot=lease.spec.slot, milestones=(mark,))
    lease.hear(replace(document, slot=lease.spec.slot + 1), BEGUN)
    assert not lease.milestones
    lease.hear(document, BEGUN)
    lease.hear(replace(document, milestones=()), BEGUN)
    assert lease.milestones == (mark,)


def test_what_a_lease_says_of_itself_leaves_it_no_marks() -> None:
    """Marks are those of the lease before: its own word, read again, is none."""
    lease, mark = tenure(ended_through=1), LaneMark(TargetTopic("orders"), 0, 120, 7)
    lease.hear(replace(said(2, 2), marks=(mark,)), BEGUN)
    assert lease.marks == ()


@pytest.mark.parametrize("is_clean", [True, False])
def test_how_the_lease_before_ended_is_heard_from_the_controller(is_clean: bool) -> None:
    """Whether it left something on its way is for its successor to know."""
    lease = tenure(is_clean=not is_clean)
    declared = told(ended=1)
    assert isinstance(declared, LeaseDocument)
    lease.hear(replace(declared, is_clean=is_clean), BEGUN)
    assert lease.is_clean is is_clean
