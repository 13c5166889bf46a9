"""Which leases run a link, by its ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isthmus.ledger.documents.kinds import Document, LeaseDocument, ProgressDocument, TaskDocument
from isthmus.ledger.leases import leases_of
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.model.process.leases import LeaseProgress
from isthmus.model.process.whereabouts import Whereabouts
from testing.values.leases import lane

CONTROLLER = 7


def lease(slot: int, generation: int, *numbers: int, **fields: Any) -> LeaseDocument:
    """What a slot is to run."""
    return LeaseDocument(
        link="l",
        slot=slot,
        generation=generation,
        revision=generation,
        lanes=tuple(lane(number) for number in numbers),
        **{"controller": CONTROLLER, **fields},
    )


def task(slot: int, generation: int, *, ended_through: int = 0, controller: int = CONTROLLER) -> TaskDocument:
    """What its task says of itself."""
    return TaskDocument(
        link="l",
        slot=slot,
        controller=controller,
        generation=generation,
        ended_through=ended_through,
        is_clean=True,
        process=Whereabouts(host=f"host-{slot}", pid=100 + slot),
        executor=str(slot),
    )


def progress(slot: int, generation: int, *, busy: float = 0.25, records_per_s: float = 40.0) -> ProgressDocument:
    """What its task says of its work."""
    return ProgressDocument(
        link="l",
        slot=slot,
        controller=CONTROLLER,
        generation=generation,
        is_full=False,
        reports=(),
        busy=busy,
        records_per_s=records_per_s,
    )


def found(*documents: Document, controller: int = CONTROLLER) -> tuple[LeaseProgress, ...]:
    """The leases by these documents."""
    return leases_of("l", {each.key: each for each in documents}, controller, lambda each: 1.0 + ("prog" in each.key))


def keys(*numbers: int) -> tuple[LaneKey, ...]:
    """Partitions."""
    return tuple(LaneKey(TargetTopic("orders"), number) for number in numbers)


def test_a_lease_says_where_it_runs_what_and_how_much() -> None:
    """In the order of slots; partitions that it may still write are its own."""
    other, first = lease(1, 3, 5), lease(0, 2, 2, 1, parting=keys(9))
    leases = found(other, task(1, 3), progress(1, 3), first, task(0, 2), progress(0, 2, busy=0.5))
    assert leases == (
        LeaseProgress(
            slot=0,
            generation=2,
            executor="0",
            host="host-0",
            pid=100,
            busy=0.5,
            records_per_s=40.0,
            age_s=2.0,
            partitions=keys(1, 2, 9),
        ),
        LeaseProgress(
            slot=1,
            generation=3,
            executor="1",
            host="host-1",
            pid=101,
            busy=0.25,
            records_per_s=40.0,
            age_s=2.0,
            partitions=keys(5),
        ),
    )


def test_a_lease_that_was_not_heard_yet_has_no_place() -> None:
    """Or the one before has ended, or belonged to another controller."""
    unheard = (LeaseProgress(slot=0, generation=2, partitions=keys(1)),)
    assert found(lease(0, 2, 1)) == unheard
    assert found(lease(0, 2, 1), task(0, 1, ended_through=1), progress(0, 1)) == unheard
    assert found(lease(0, 2, 1), task(0, 2, controller=CONTROLLER - 1)) == unheard


def test_until_a_successor_is_heard_the_lease_before_it_counts() -> None:
    """It runs the partitions; what an older lease told of its work does not count."""
    (shown,) = found(lease(0, 3, 1), task(0, 2), progress(0, 1))
    assert (shown.generation, shown.host, shown.busy, shown.records_per_s, shown.age_s) == (
        2,
        "host-0",
        None,
        None,
        1.0,
    )
    (shown,) = found(lease(0, 3, 1), task(0, 2), progress(0, 2, busy=-1.0, records_per_s=-1.0))
    assert (shown.busy, shown.records_per_s, shown.age_s) == (None, None, 2.0)


def test_leases_that_are_over_or_have_nothing_are_not_shown() -> None:
    """Nor those of another controller, or of another link."""
    assert found(lease(0, 2, 1, ended_through=2)) == ()
    assert found(lease(0, 2, 1), task(0, 2, ended_through=2)) == ()
    assert found(lease(0, 2)) == ()
    assert found(lease(0, 2, 1), controller=CONTROLLER + 1) == ()
    assert found(replace(lease(0, 2, 1), link="other")) == ()
