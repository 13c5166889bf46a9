"""The driver's side of leases, with jobs that end as a test has them: who is believed to be over, and what is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from isthmus.ledger.documents.kinds import LeaseDocument, MilestonesDocument
from isthmus.local.host import whereabouts
from isthmus.model.lane import LaneMark, milestone_of
from isthmus.model.link import Limits
from isthmus.model.links.transform import Transform
from isthmus.model.process.receipt import Ending, Receipt
from isthmus.spark.leases import driver as leases
from isthmus.spark.leases import slots
from isthmus.spark.leases.jobs import JobFailed, failure_of
from isthmus.spark.leases.tenure import REVOCATION_S
from testing.patience import TERM_S
from testing.values.leases import CONTEXT, Jobs, lane
from tests.unit.spark.leases.driving import CONTROLLER, LONG_AGO, UNPAUSED, Book, ended, running, steps


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Jobs in the place of Spark's."""
    found = Jobs()
    monkeypatch.setattr(slots, "start_job", found.start)
    monkeypatch.setattr(slots, "cancel", found.nothing)
    for name in ("check", "is_active"):
        monkeypatch.setattr(leases, name, found.nothing)
    return found


def receipt(ending: Ending, **fields: Any) -> Receipt:
    """What the first lease of a slot leaves."""
    return Receipt(slot=0, generation=1, ending=ending, **fields)


def test_a_new_transform_has_leases_succeeded_at_once(jobs: Jobs) -> None:
    """Lanes that it is for stop until a lease knows it: they need not wait for the end of the term."""

    async def scenario() -> None:
        book = Book()
        async with running(jobs, book) as scheduler:
            assert len(jobs.specs) == 1
            book.hear(replace(ended(1), ended_through=0))
            scheduler.transform(CONTEXT.transforms)
            await asyncio.sleep(1.5)
            assert len(jobs.specs) == 1
            new = Transform(where="key IS NULL")
            scheduler.transform((new,))
            async with asyncio.timeout(TERM_S):
                while len(jobs.specs) < 2:
                    await asyncio.sleep(0.05)
            assert jobs.specs[1].context.transforms == (new,)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "outcome",
    [JobFailed("lost", is_dead=False), receipt(Ending.RETRIED)],
    ids=["the executor is lost", "Spark tried the task again"],
)
def test_a_lease_that_may_be_running_is_forbidden_to_write(jobs: Jobs, outcome: JobFailed | Receipt) -> None:
    """Nobody knows what became of its process: the ledger revokes it, and none follows before it has said its end."""

    async def scenario() -> None:
        book = Book()
        async with running(jobs, book) as scheduler:
            end(jobs.futures[0], outcome)
            await steps()
            assert [(told.revoked_through, told.ended_through) for told in book.leases] == [(0, 0), (1, 0)]
            assert len(jobs.specs) == 1
            assert scheduler.problem is not None
            book.hear(ended(1))
            await steps()
            assert [(spec.generation, spec.ended_through, spec.is_clean) for spec in jobs.specs[1:]] == [(2, 1, True)]

    asyncio.run(scenario())


def test_a_lease_is_not_stuck_while_a_quota_holds_back_what_is_heard(jobs: Jobs) -> None:
    """Its word may be on the log all the time. It is forbidden to write when it is silent although one hears."""

    async def scenario() -> None:
        book = Book()
        book.is_held = True
        timings = replace(UNPAUSED, stall_s=0.0, grace_s=0.0)
        async with running(jobs, book, timings=timings) as scheduler:

            def is_stuck() -> bool:
                return scheduler.problem is not None and "stuck" in scheduler.problem.message

            book.hear(replace(ended(1), ended_through=0))
            await asyncio.sleep(1.2)
            assert not is_stuck()
            book.is_held = False
            async with asyncio.timeout(TERM_S):
                while not is_stuck():
                    await asyncio.sleep(0.05)
            book.hear(ended(1))

    asyncio.run(scenario())


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_lease_is_over_with_its_process_whatever_spark_says(jobs: Jobs, has_ended: bool) -> None:
    """An executor of which Spark says that it is lost may only be cut off; a process of this host that is gone writes
    nothing any more.
    """
    here = whereabouts()
    process = replace(here, process_start=here.process_start - 1) if has_ended else here

    async def scenario() -> None:
        book = Book()
        async with running(jobs, book):
            book.hear(replace(ended(1), ended_through=0, process=process))
            end(
                jobs.futures[0], failure_of("ExecutorLostFailure: Command exited with code 137\nTraceback (most recent")
            )
            await steps()
            assert [spec.generation for spec in jobs.specs[1:]] == ([2] if has_ended else [])

    asyncio.run(scenario())


def test_of_a_dead_lease_nobody_knows_what_it_left(jobs: Jobs) -> None:
    """The next one need not wait for it, but for what may still be on its way."""

    async def scenario() -> None:
        book = Book()
        async with running(jobs, book):
            assert jobs.specs[0].is_clean
            end(jobs.futures[0], JobFailed("killed", is_dead=True))
            await steps()
            assert [(told.revoked_through, told.ended_through) for told in book.leases[1:]] == [(0, 1), (0, 1)]
            assert [(spec.generation, spec.ended_through, spec.is_clean) for spec in jobs.specs[1:]] == [(2, 1, False)]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("left", "is_clean"),
    [
        ({"has_written": True, "is_clean": True}, True),
        ({"has_written": True, "is_clean": False}, False),
        ({"has_written": False, "is_clean": False}, True),
    ],
)
def test_a_receipt_tells_what_a_lease_left(jobs: Jobs, left: dict[str, bool], is_clean: bool) -> None:
    """One that never wrote left nothing, so what was known before stays."""

    async def scenario() -> None:
        async with running(jobs, Book()) as scheduler:
            end(jobs.futures[0], receipt(Ending.TERM, cpu_s=2.5, **left))
            await steps()
            assert [(spec.generation, spec.ended_through, spec.is_clean) for spec in jobs.specs[1:]] == [
                (2, 1, is_clean)
            ]
            assert ([found.ending for found in scheduler.receipts], scheduler.cpu_s) == ([Ending.TERM], 2.5)

    asyncio.run(scenario())


@pytest.mark.parametrize("was_lost", [False, True])
def test_a_lost_ledger_says_nothing_of_former_leases(jobs: Jobs, was_lost: bool) -> None:
    """There were controllers before, of which it knows nothing: what they left may still be on its way."""

    async def scenario() -> None:
        book = Book(was_lost=was_lost)
        async with running(jobs, book):
            assert [spec.is_clean for spec in jobs.specs] == [not was_lost]
            assert book.is_alone is not was_lost

    asyncio.run(scenario())


@pytest.mark.parametrize("was_lost", [False, True])
def test_leases_of_which_a_lost_ledger_says_nothing_are_waited_for(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, was_lost: bool
) -> None:
    """They may write until their time is over: no lease begins before."""
    # Slots go by the real clock, which begins with the machine: no successor is due by this one.
    now = LONG_AGO
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: now))

    async def scenario() -> None:
        nonlocal now
        book = Book(was_lost=was_lost)
        book.opened_at = now
        async with running(jobs, book):
            assert len(jobs.specs) == (0 if was_lost else 1)
            now += REVOCATION_S + 0.1
            await steps()
            assert len(jobs.specs) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("lanes", "bytes_per_s", "shares"),
    [(range(2), 101, [50, 50]), (range(1), 101, [101]), (range(2), 1, [1, 1]), (range(2), None, [None, None])],
)
def test_a_limit_is_for_all_leases_together(
    jobs: Jobs, lanes: range, bytes_per_s: int | None, shares: list[int | None]
) -> None:
    """Each that has lanes gets its share, and at least something."""

    async def scenario() -> None:
        async with running(jobs, Book(), count=3, lanes=lanes, limits=Limits(bytes_per_s=bytes_per_s)):
            assert [spec.context.limits.bytes_per_s for spec in jobs.specs] == shares

    asyncio.run(scenario())


def test_a_limit_that_changes_is_told_to_running_leases(jobs: Jobs) -> None:
    """At once, each its share; the same limit again is no news."""

    async def scenario() -> None:
        book = Book()
        async with running(jobs, book, count=3, lanes=range(2)) as scheduler:
            before = {each.slot: each.revision for each in book.leases}
            book.leases.clear()
            scheduler.limit(Limits(bytes_per_s=100))
            await steps()
            told = {each.slot: each for each in book.leases if each.lanes}
            assert {slot: each.limits for slot, each in told.items()} == dict.fromkeys(before, Limits(bytes_per_s=50))
            assert all(each.revision > before[slot] for slot, each in told.items())
            book.leases.clear()
            scheduler.limit(Limits(bytes_per_s=100))
            await steps()
            assert book.leases == []

    asyncio.run(scenario())


def test_former_leases_that_ended_in_good_order_are_not_doubted(jobs: Jobs) -> None:
    """Each has said its end, and how; one that left something on its way makes all new ones settle, and keeps the
    controller from telling that nothing may come of what is detached.
    """

    async def scenario(*, is_clean: bool) -> list[bool]:
        book = Book()
        former = LeaseDocument(
            link="l",
            slot=0,
            controller=CONTROLLER - 1,
            generation=3,
            revision=1,
            lanes=(),
            revoked_through=0,
            ended_through=2,
            is_clean=True,
        )
        task = replace(ended(3, is_clean=is_clean), controller=CONTROLLER - 1)
        book.documents = {former.key: former, task.key: task}
        async with running(jobs, book):
            assert book.is_alone is is_clean
            return [spec.is_clean for spec in jobs.specs]

    assert asyncio.run(scenario(is_clean=True)) == [True]
    jobs.specs.clear()
    jobs.futures.clear()
    assert asyncio.run(scenario(is_clean=False)) == [False]


def test_a_lease_is_told_how_its_lanes_were_left_and_how_far_they_have_been(jobs: Jobs) -> None:
    """Of its own lanes only. What the former task has left counts, and what was written down on the way."""
    own, other = lane(0), lane(1)
    marks = tuple(LaneMark(*each.key, 120, 7) for each in (own, other))
    milestones = tuple(milestone_of(each, LaneMark(*each.key, 100, 7)) for each in (own, other))
    lease = LeaseDocument(link="l", slot=0, controller=CONTROLLER - 1, generation=3, revision=1, lanes=())
    task = replace(ended(3), controller=CONTROLLER - 1, marks=marks)
    told = MilestonesDocument(link="l", slot=0, milestones=milestones)
    book = Book()
    book.documents = {document.key: document for document in (lease, task, told)}

    async def scenario() -> None:
        async with running(jobs, book):
            (spec,) = jobs.specs
            assert (spec.marks, spec.milestones) == (marks[:1], milestones[:1])

    asyncio.run(scenario())


def end(job: asyncio.Future[tuple[Receipt, ...]], outcome: JobFailed | Receipt) -> None:
    """A job ends so."""
    if isinstance(outcome, Receipt):
        job.set_result((outcome,))
    else:
        job.set_exception(outcome)
