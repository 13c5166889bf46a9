"""Executors that come and go, as the driver of leases sees them: which lanes move, and when."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from isthmus.ledger.documents.kinds import LeaseDocument, ProgressDocument
from isthmus.model.link import Limits
from isthmus.model.process.receipt import Ending, Receipt
from isthmus.spark.leases import driver, slots
from isthmus.spark.leases.driver import LeaseScheduler
from isthmus.spark.leases.jobs import JobFailed
from isthmus.spark.leases.slots import TaskSlots
from isthmus.spark.leases.timings import LeaseTimings
from testing.patience import TERM_S
from testing.values.leases import Jobs
from tests.unit.spark.leases.driving import CONTROLLER, Book, ended, running, steps

SOON = LeaseTimings(grow_s=0.01, balance_s=0.0, retry_s=0.0, back_off_s=(0.0,), lost_s=0.0, stall_s=60.0)


class Spark(Jobs):
    """Spark, which knows which of its tasks run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.lost: set[str] = set()
        self.given_up: list[str] = []

    def start(self, *rest: Any) -> asyncio.Future[tuple[Receipt, ...]]:
        self.names.append(rest[-1])
        return super().start(*rest)

    async def is_active(self, _: object, name: str) -> bool:
        return name not in self.lost

    async def is_running(self, _: object, name: str) -> bool:
        return name not in self.given_up

    async def cancel(self, _: object, names: list[str]) -> None:
        self.given_up += names
        for name in names:
            future = self.futures[self.names.index(name)]
            if not future.done():
                future.set_exception(JobFailed("cancelled", is_dead=False))

    def end_of(self, slot: int, generation: int) -> None:
        """A lease ends in good order."""
        found = [n for n, spec in enumerate(self.specs) if (spec.slot, spec.generation) == (slot, generation)]
        self.futures[found[0]].set_result((Receipt(slot=slot, generation=generation, ending=Ending.SUCCEEDED),))


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    """Jobs in the place of Spark's."""
    found = Spark()
    monkeypatch.setattr(slots, "start_job", found.start)
    monkeypatch.setattr(slots, "cancel", found.cancel)
    monkeypatch.setattr(driver, "check", found.nothing)
    monkeypatch.setattr(driver, "is_active", found.is_active)
    monkeypatch.setattr(slots, "is_active", found.is_running)
    return found


def announced(slot: int, generation: int, *, revision: int = -1) -> Any:
    """The word of a task that runs, and has let go of what its slot had lost by a revision."""
    return replace(ended(generation, slot=slot), ended_through=generation - 1, revision=revision)


def working(slot: int, generation: int, busy: float) -> ProgressDocument:
    """The word of a task on how busy its worker is."""
    return ProgressDocument(
        link="l", slot=slot, controller=CONTROLLER, generation=generation, is_full=False, reports=(), busy=busy
    )


async def until(condition: Any) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(TERM_S):
        while not condition():
            await asyncio.sleep(0.005)


def homes(scheduler: LeaseScheduler) -> list[set[int]]:
    """The lanes of each group."""
    return [{key.partition for key in group.lanes} for group in scheduler.distribution.groups]


def test_an_executor_that_comes_gets_lanes_without_the_end_of_a_lease(spark: Spark) -> None:
    """First a lease is started there; when that was heard the busy one gives it half of its lanes, one by one."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 1)
        async with running(spark, book, lanes=range(4), timings=SOON, slots=shared) as scheduler:
            assert homes(scheduler) == [{0, 1, 2, 3}]
            book.hear(announced(0, 1))
            book.hear(working(0, 1, 0.9))
            shared.count = 2
            await until(lambda: len(spark.specs) == 2)
            assert (spark.specs[1].slot, spark.specs[1].lanes) == (1, ())
            await steps()
            assert homes(scheduler) == [{0, 1, 2, 3}, set()]
            book.hear(announced(1, 1))
            await until(lambda: homes(scheduler)[0] == {2, 3})
            assert homes(scheduler)[1] == set()
            await until(lambda: len(told(book, 0)[-1].parting) == 2)
            book.hear(announced(0, 1, revision=told(book, 0)[-1].revision))
            await until(lambda: homes(scheduler) == [{2, 3}, {0, 1}])
            await until(lambda: {lane.partition for lane in told(book, 1)[-1].lanes} == {0, 1})
            assert not told(book, 0)[-1].parting
            assert len(spark.specs) == 2

    asyncio.run(scenario())


def test_lanes_wait_until_the_python_of_a_new_lease_is_there(spark: Spark) -> None:
    """That Spark has begun its task is not enough: lanes that were taken from a lease that copies would rest."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 1)
        timings = replace(SOON, grace_s=0.0, lost_s=60.0)
        async with running(spark, book, lanes=range(4), timings=timings, slots=shared) as scheduler:
            book.hear(announced(0, 1))
            book.hear(working(0, 1, 0.9))
            shared.count = 2
            await until(lambda: len(spark.specs) == 2)
            # The driver asks Spark about a lease that says nothing every second.
            await until(lambda: scheduler._running[scheduler.distribution.groups[1]][0].heard_at is not None)
            await asyncio.sleep(0.1)
            assert homes(scheduler) == [{0, 1, 2, 3}, set()]
            book.hear(announced(1, 1))
            await until(lambda: homes(scheduler)[0] == {2, 3})

    asyncio.run(scenario())


def told(book: Book, slot: int) -> list[LeaseDocument]:
    """What the ledger has of a slot."""
    return [each for each in book.leases if each.slot == slot]


def test_the_lanes_of_a_lost_executor_go_to_others_and_no_other_moves(spark: Spark) -> None:
    """There is no slot for its lease any more. Those that took lanes over are as they were."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 3)
        shared._counting = lambda: 2
        async with running(spark, book, lanes=range(6), timings=SOON, slots=shared) as scheduler:
            before = homes(scheduler)
            for slot in range(3):
                book.hear(announced(slot, 1))
            spark.futures[1].set_exception(JobFailed("lost", is_dead=True))
            await until(lambda: homes(scheduler)[1] == set())
            after = homes(scheduler)
            assert after[0] > before[0]
            assert after[2] > before[2]
            assert after[0] | after[2] == set(range(6))
            await steps()
            assert len(spark.specs) == 3
            assert [group.is_closed for group in scheduler.distribution.groups] == [False, True, False]
            shared._counting = lambda: 3
            shared.count = 3
            await until(lambda: not scheduler.distribution.groups[1].is_closed)

    asyncio.run(scenario())


def test_a_task_that_spark_is_about_to_run_anew_is_noticed(spark: Spark) -> None:
    """It waits for a slot that there is not, as Spark does not count the loss of a worker as a failure of the task."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 2)
        shared._counting = lambda: 1
        async with running(spark, book, lanes=range(4), timings=SOON, slots=shared) as scheduler:
            for slot in range(2):
                book.hear(announced(slot, 1))
            spark.lost.add(spark.names[0])
            await until(lambda: spark.given_up == [spark.names[0]])
            # It may still write until its end is known.
            assert homes(scheduler)[0] == {0, 2}
            book.hear(ended(1))
            await until(lambda: homes(scheduler) == [set(), {0, 1, 2, 3}])
            assert scheduler.problem is not None
            assert "Spark has lost its executor" in scheduler.problem.message

    asyncio.run(scenario())


def test_fewer_slots_close_groups_whose_leases_end_in_good_order(spark: Spark) -> None:
    """As when another link begins: nothing is lost, so one is chosen, and told to end."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 2)
        async with running(spark, book, lanes=range(4), timings=replace(SOON, lost_s=60.0), slots=shared) as scheduler:
            for slot in (1, 0):
                book.hear(announced(slot, 1))
            shared.links = 2
            await until(lambda: scheduler.distribution.groups[1].is_closed)
            await until(lambda: told(book, 1)[-1].revoked_through == 1)
            spark.end_of(1, 1)
            book.hear(ended(1, slot=1))
            await until(lambda: homes(scheduler) == [{0, 1, 2, 3}, set()])
            shared.links = 1
            await until(lambda: not scheduler.distribution.groups[1].is_closed)

    asyncio.run(scenario())


def test_a_lease_ends_for_its_successor_where_no_slot_is_free(spark: Spark) -> None:
    """Spark has got that before, and it begins in the slot."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 1, term_s=1.0)
        async with running(spark, book, lanes=range(2), timings=replace(SOON, lost_s=60.0), slots=shared):
            book.hear(announced(0, 1))
            await until(lambda: len(spark.specs) == 2)
            await until(lambda: told(book, 0)[-1].revoked_through == 1)
            assert (spark.specs[1].generation, spark.specs[1].ended_through) == (2, 0)
            assert told(book, 0)[-1].generation == 2
            spark.end_of(0, 1)
            book.hear(ended(1))
            await steps()
            assert told(book, 0)[-1].ended_through == 1

    asyncio.run(scenario())


def test_a_lease_that_starts_late_is_not_succeeded_before_it_was_heard(spark: Spark) -> None:
    """On a machine with too much to do none would live to write: each would end for the one behind it."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 1, term_s=0.1)
        async with running(spark, book, timings=replace(SOON, lost_s=60.0), slots=shared):
            await asyncio.sleep(0.5)
            assert len(spark.specs) == 1
            assert told(book, 0)[-1].revoked_through == 0
            book.hear(announced(0, 1))
            await until(lambda: len(spark.specs) == 2)
            await until(lambda: told(book, 0)[-1].revoked_through == 1)

    asyncio.run(scenario())


def test_a_lease_is_not_asked_for_in_a_group_that_was_closed_meanwhile(spark: Spark) -> None:
    """There may never be a slot for it, and its lanes would rest for as long."""

    class Closing(Book):
        """A ledger that takes so long to write the first lease of a slot that its executor is gone by then."""

        scheduler: LeaseScheduler | None = None

        async def write(self, *changes: Any) -> None:
            await super().write(*changes)
            if self.scheduler is not None and any(each.slot == 1 for each in LeaseDocument.find_all(changes)):
                scheduler, self.scheduler = self.scheduler, None
                await scheduler._close_group(scheduler.distribution.groups[1])

    async def scenario() -> None:
        book, shared = Closing(), TaskSlots(cast(Any, None), 2)
        async with running(spark, book, lanes=range(4), timings=replace(SOON, grow_s=60.0), slots=shared) as scheduler:
            for slot in range(2):
                book.hear(announced(slot, 1))
            book.scheduler = scheduler
            spark.end_of(1, 1)
            await until(lambda: homes(scheduler) == [{0, 1, 2, 3}, set()])
            await until(lambda: told(book, 1)[-1].ended_through == told(book, 1)[-1].generation)
            assert [spec.slot for spec in spark.specs] == [0, 1]

    asyncio.run(scenario())


def test_what_a_link_may_take_is_shared_by_the_leases_that_have_lanes(spark: Spark) -> None:
    """Also by those that come and go while others run."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 2)
        limits = Limits(bytes_per_s=100)
        timings = replace(SOON, lost_s=60.0)
        async with running(spark, book, lanes=range(2), limits=limits, timings=timings, slots=shared) as scheduler:
            assert [told(book, slot)[-1].limits for slot in range(2)] == [Limits(bytes_per_s=50)] * 2
            book.hear(announced(0, 1))
            shared.links = 2
            await until(lambda: scheduler.distribution.groups[1].is_closed)
            book.hear(ended(1, slot=1))
            await until(lambda: told(book, 0)[-1].limits == limits)

    asyncio.run(scenario())


def test_only_one_link_at_a_time_moves_lanes_between_workers(spark: Spark) -> None:
    """Two that relieve the worker that both use would only have the other one be busy, and do it again then."""

    async def scenario() -> None:
        books, shared = (Book(), Book()), TaskSlots(cast(Any, None), 4, links=2)
        timings = replace(SOON, balance_s=60.0, lost_s=60.0)
        async with (
            running(spark, books[0], lanes=range(4), timings=timings, slots=shared) as one,
            running(spark, books[1], lanes=range(4), timings=timings, slots=shared) as other,
        ):
            for book in books:
                for slot in range(2):
                    book.hear(announced(slot, 1))
                    book.hear(working(slot, 1, 0.9 - slot * 0.8))
            await until(lambda: {len(homes(link)[0]) for link in (one, other)} != {2})
            await asyncio.sleep(0.1)
            assert sorted(len(homes(link)[0]) for link in (one, other)) == [1, 2]

    asyncio.run(scenario())


def test_a_lease_without_lanes_ends_when_others_of_its_task_are_succeeded(spark: Spark) -> None:
    """They need its slot, and it needs no successor."""

    async def scenario() -> None:
        book, shared = Book(), TaskSlots(cast(Any, None), 1, term_s=1.0)
        timings = replace(SOON, lost_s=3600.0, stall_s=3600.0)
        async with running(spark, book, lanes=range(2), timings=timings, slots=shared) as scheduler:
            book.hear(announced(0, 1))
            scheduler.distribution.assign([])
            await until(lambda: told(book, 0)[-1].revoked_through == 1)
            assert len(spark.specs) == 1

    asyncio.run(scenario())
