"""Whether the leases of earlier controllers ended in good order, by their documents."""

from __future__ import annotations

import uuid
from dataclasses import replace

from isthmus.ledger.documents.kinds import Document, LeaseDocument, MilestonesDocument, TaskDocument
from isthmus.ledger.handover import has_ended, is_in_order, marks_left, milestones_left, was_clean
from isthmus.model.lane import Lane, LaneMark, milestone_of
from isthmus.model.naming import SourceTopic, TargetTopic


def lease(*, ended_through: int, is_clean: bool = True, generation: int = 4, link: str = "l") -> LeaseDocument:
    """The controller's word on its slot."""
    return LeaseDocument(
        link=link,
        slot=0,
        controller=9,
        generation=generation,
        revision=1,
        lanes=(),
        ended_through=ended_through,
        is_clean=is_clean,
    )


def task(*, ended_through: int, is_clean: bool = True, controller: int = 9) -> TaskDocument:
    """A task's word on itself."""
    return TaskDocument(
        link="l", slot=0, controller=controller, generation=4, ended_through=ended_through, is_clean=is_clean
    )


def known(*documents: Document) -> dict[str, Document]:
    """A ledger with these documents."""
    return {document.key: document for document in documents}


def test_either_may_say_that_a_lease_has_ended() -> None:
    """The controller's word counts, and a task's of the same controller."""
    assert has_ended(lease(ended_through=4), {})
    assert not has_ended(lease(ended_through=3), {})
    assert has_ended(lease(ended_through=3), known(task(ended_through=4)))
    assert not has_ended(lease(ended_through=3), known(task(ended_through=4, controller=8)))
    assert not has_ended(lease(ended_through=0, generation=1), {})


def test_a_link_may_have_any_name() -> None:
    """Also that of a kind of document."""
    said = replace(task(ended_through=4), link="lease")
    assert has_ended(lease(ended_through=3, link="lease"), known(said))


def test_the_last_to_end_says_how() -> None:
    """What an earlier lease left says nothing of the last one."""
    documents = known(task(ended_through=4, is_clean=False))
    assert not was_clean(lease(ended_through=3), documents)
    assert was_clean(lease(ended_through=4), documents)
    assert not was_clean(lease(ended_through=4, is_clean=False), {})


def test_order_is_that_of_all_leases_of_a_link() -> None:
    """One lease that has not ended, or left a request on its way, is enough for doubt; other links do not matter."""
    assert is_in_order("l", {})
    assert is_in_order("l", known(lease(ended_through=4)))
    assert not is_in_order("l", known(lease(ended_through=3)))
    assert not is_in_order("l", known(lease(ended_through=4, is_clean=False)))
    assert is_in_order("l", known(lease(ended_through=0, link="other")))


def test_marks_are_those_of_the_last_leases_of_a_link() -> None:
    """What tasks of another controller, or of another link, said of the lanes is not believed."""
    mark = LaneMark(TargetTopic("orders"), 0, 120, 7)
    ended = replace(task(ended_through=4), marks=(mark,))
    assert marks_left("l", known(lease(ended_through=3), ended)) == (mark,)
    assert marks_left("l", known(lease(ended_through=3))) == ()
    assert marks_left("l", known(lease(ended_through=3), replace(ended, controller=8))) == ()
    assert marks_left("other", known(lease(ended_through=3), ended)) == ()


def test_milestones_outlive_whoever_wrote_them() -> None:
    """Of all slots, those that exist no more too, the furthest counts: by leader epoch, then by position. A topic that
    was created anew has none, nor has another link.
    """
    lane = Lane(
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.UUID(int=2),
        partition=0,
    )
    mark = milestone_of(lane, LaneMark(*lane.key, 120, 7))
    further = replace(mark, position=90, source_epoch=8)
    written = known(
        MilestonesDocument(link="l", slot=0, milestones=(mark, replace(mark, partition=1))),
        MilestonesDocument(link="l", slot=5, milestones=(further, replace(further, position=80))),
        MilestonesDocument(link="other", slot=0, milestones=(replace(mark, source_epoch=9),)),
    )
    assert milestones_left("l", written, [lane]) == (further,)
    assert milestones_left("l", written, [replace(lane, source_topic_id=uuid.UUID(int=3))]) == ()
    assert milestones_left("l", written, [replace(lane, target_topic_id=uuid.UUID(int=3))]) == ()
