"""The task slots of a Spark application, shared by all links: which leases share a task, and when it is started.

Every group of leases has a *seat*, and seats are spread over all slots, or over all but a spare one. The leases of a
slot's seats run in one task, end at the same time and are succeeded together: in a slot that is free, if there is one.
Otherwise they end, and the task that succeeds them, which Spark has already got, begins in their slot. A lease that
comes in between takes a free slot alone, and joins the others when they are succeeded, so that it does not disturb
other leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from isthmus.errors import HostError
from isthmus.model.process.receipt import Receipt
from isthmus.model.process.whereabouts import NOT_TOLD, Whereabouts
from isthmus.spark.leases.jobs import JobFailed, cancel, is_active, start_job
from isthmus.spark.leases.lease import LeaseSpec, share_limits

if TYPE_CHECKING:
    from pyspark import SparkContext

AHEAD_S: Final = 15.0
"""The time from the start of a successor to the end of a lease's term: a cold executor may need that long to be ready.

The hand-over takes place as soon as the successor is ready.
"""
GATHER_S: Final = 0.25
"""The time that a lease waits for others that share its task, once that slot has been used."""
COMPANY_S: Final = 2.0
"""The time that the first leases wait: links take longer to begin."""
PATIENCE_S: Final = 3.0
"""The time that leases wait for a slot before others have to make room."""
STUCK_S: Final = 2.0
"""A task that was cancelled so long ago and that an executor still has keeps its slot."""
_LOOK_S: Final = 0.1
_STAGGER_S: Final = 1.0


@dataclass(slots=True, eq=False)
class Ticket:
    """A lease that was asked for. `receipt` holds its receipt, or `JobFailed`.

    It `is_urgent` if no task runs its lanes. When `called` is set it `must_end` in good order as soon as it can: its
    slot is needed. `heard_at` is when its task was last known to run (monotonic seconds), if ever, and `process` the
    one that runs it. It `has_spoken` if the ledger has a word of it: before, its Python may be starting still.
    """

    spec: LeaseSpec
    seat: int
    is_urgent: bool
    asked_at: float
    receipt: asyncio.Future[Receipt]
    called: asyncio.Future[None]
    job: SlotJob | None = None
    is_given_up: bool = False
    is_hastened: bool = False
    heard_at: float | None = None
    has_spoken: bool = False
    process: Whereabouts = NOT_TOLD

    @property
    def generation(self) -> int:
        return self.spec.generation

    @property
    def is_live(self) -> bool:
        """Whether its end is not known yet."""
        return not self.receipt.done()

    @property
    def must_end(self) -> bool:
        """Whether it was asked to end."""
        return self.called.done()

    def call(self) -> None:
        """Ask it to end in good order."""
        if not self.called.done():
            self.called.set_result(None)

    @property
    def successor_at(self) -> float:
        """When to ask for its successor, in monotonic seconds: not before its task was heard, or leases that start late
        would be succeeded before they may write, one after the other.
        """
        return math.inf if self.job is None or not self.job.is_heard else self.job.term.successor_at

    def hear(self, now: float) -> None:
        """Note that its task was heard."""
        self.heard_at, self.has_spoken = now, True
        if self.job is not None:
            self.job.is_heard = True
            self.job.term.begin(now)

    def hasten(self, now: float) -> None:
        """Have it succeeded as soon as it runs."""
        self.is_hastened = True
        if self.job is not None:
            self.job.term.hasten(now)


@dataclass(slots=True, eq=False)
class Term:
    """When leases that are succeeded together have to be, and when they end, in monotonic seconds. It counts from the
    moment at which one of them is heard first: before, a task may have waited for its slot, or for a Python.
    """

    started_at: float
    successor_at: float
    ends_at: float
    has_begun: bool = False

    def begin(self, now: float) -> None:
        """Note that a lease was heard."""
        if not self.has_begun:
            self.has_begun = True
            self.successor_at += now - self.started_at
            self.ends_at += now - self.started_at

    def hasten(self, now: float) -> None:
        """Have the leases succeeded as soon as they run."""
        self.has_begun = True
        self.successor_at = min(self.successor_at, now)


@dataclass(slots=True, eq=False)
class SlotJob:
    """One Spark task and the leases in it. `started_at` is in monotonic seconds; `name` is its job group in Spark."""

    name: str
    berth: int
    started_at: float
    term: Term
    tickets: Sequence[Ticket] = field(default_factory=tuple)
    is_heard: bool = False

    @property
    def live(self) -> int:
        """The number of its leases that have not ended."""
        return sum(ticket.is_live for ticket in self.tickets)

    @property
    def is_to_end(self) -> bool:
        """Whether it makes room: all of its leases have ended, or were asked to."""
        return all(ticket.must_end or not ticket.is_live for ticket in self.tickets)


class TaskSlots:
    """`count` slots for `links` links; both may change at any time. Leases last `term_s`.

    All slots but `spare` have leases as long as there are enough groups of them: each link gets its share of the slots,
    rounded up, and at least one. `counting` counts the slots anew. Lanes last moved at `balanced_at` (monotonic s): of
    one link after the other, as two that relieve the same worker at once would only have it be another one.
    """

    def __init__(
        self,
        spark: SparkContext,
        count: int,
        *,
        links: int = 1,
        term_s: float = 60.0,
        spare: int = 0,
        counting: Callable[[], int] | None = None,
    ) -> None:
        self.count = count
        self.links = links
        self.balanced_at = -math.inf
        self._spark = spark
        self._term_s = term_s
        self._spare = spare
        self._counting = counting
        self._seats: set[int] = set()
        self._queue: list[Ticket] = []
        self._running: list[SlotJob] = []
        self._cancelled: dict[str, float] = {}
        self._numbers = itertools.count()
        self._look: asyncio.TimerHandle | None = None

    async def recount(self) -> None:
        """Count the slots again, as executors come and go. One that stands still has none, although Spark counts it for
        minutes: what was started there would wait for as long.
        """
        if self._counting is not None:
            # A Spark that is just ending does not answer, and the leases that wait for its jobs see that.
            with contextlib.suppress(Exception):
                self.count = max(await asyncio.to_thread(self._counting) - await self._count_stuck(), 1)

    async def _count_stuck(self) -> int:
        """Count the tasks that were cancelled and do not end."""
        for name, cancelled_at in list(self._cancelled.items()):
            while await is_active(self._spark, name):
                if time.monotonic() - cancelled_at > STUCK_S:
                    break
                await asyncio.sleep(_LOOK_S)
            else:
                self._cancelled.pop(name, None)
        return len(self._cancelled)

    @property
    def groups_per_link(self) -> int:
        """The number of groups of leases of each link."""
        return math.ceil(self._berths / max(self.links, 1))

    @property
    def _berths(self) -> int:
        return max(self.count - self._spare, 1)

    def take_seat(self) -> int:
        """Take a seat for one group of leases."""
        seat = next(number for number in itertools.count() if number not in self._seats)
        self._seats.add(seat)
        return seat

    def leave(self, seats: Iterable[int]) -> None:
        """Free these seats."""
        self._seats.difference_update(seats)

    def ask(self, spec: LeaseSpec, seat: int, *, is_urgent: bool) -> Ticket:
        """Run a lease as soon as there is a slot for it. Its term is set when it begins.

        :raises HostError: Spark's JVM is gone.
        """
        loop = asyncio.get_running_loop()
        ticket = Ticket(spec, seat, is_urgent, time.monotonic(), loop.create_future(), loop.create_future())
        self._queue.append(ticket)
        self._dispatch()
        return ticket

    async def give_up(self, tickets: Iterable[Ticket]) -> None:
        """Give up waiting for these. A task whose leases were all given up is cancelled."""
        jobs: list[SlotJob] = []
        for ticket in tickets:
            ticket.is_given_up = True
            if ticket in self._queue:
                self._queue.remove(ticket)
                _fail(ticket, JobFailed("it was given up before it began", is_dead=True))
            elif ticket.job is not None and ticket.job not in jobs:
                jobs.append(ticket.job)
        forlorn = [job for job in jobs if all(each.is_given_up for each in job.tickets if each.is_live)]
        names = [job.name for job in forlorn if job in self._running]
        self._cancelled |= dict.fromkeys(names, time.monotonic())
        await cancel(self._spark, names)

    async def lose(self, ticket: Ticket) -> None:
        """Note that Spark has lost the task of a lease. It may wait to run it anew: nobody waits for that."""
        _fail(ticket, JobFailed("Spark has lost its executor", is_dead=False))
        await self.give_up([ticket])

    # When what is started

    def _berth(self, seat: int) -> int:
        # By its rank, as seats that were left between others would leave slots without leases.
        return sum(other < seat for other in self._seats) % self._berths

    def _dispatch(self) -> None:
        now = time.monotonic()
        berths: dict[int, list[Ticket]] = {}
        # Leases whose lanes no task runs come first.
        for ticket in sorted(self._queue, key=lambda each: (not each.is_urgent, each.asked_at)):
            berths.setdefault(self._berth(ticket.seat), []).append(ticket)
        for berth, waiting in berths.items():
            before = [] if len(self._running) < self.count else self._find_jobs(waiting)
            if not _are_succeeded(before, waiting):
                continue
            if not self._has_company(berth, waiting, now, is_patient=bool(before)):
                continue
            if before or len(self._running) < self.count:
                self._start(berth, waiting, now)
                _call(before)
            else:
                self._make_room(waiting, now)
        if self._queue and self._look is None:
            self._look = asyncio.get_running_loop().call_later(GATHER_S, self._look_again)

    def _find_jobs(self, waiting: Sequence[Ticket]) -> list[SlotJob]:
        """Find the tasks that run what these leases are to succeed."""
        seats = {ticket.seat for ticket in waiting}
        return [job for job in self._running if any(each.is_live and each.seat in seats for each in job.tickets)]

    def _look_again(self) -> None:
        self._look = None
        self._dispatch_or_fail()

    def _dispatch_or_fail(self) -> None:
        """Start what can be started; without Spark's JVM fail all waiting leases as never begun."""
        try:
            self._dispatch()
        except HostError as error:
            waiting, self._queue = self._queue, []
            for ticket in waiting:
                _fail(ticket, JobFailed(error.message, is_dead=True, hint=error.hint))

    def _has_company(self, berth: int, waiting: Sequence[Ticket], now: float, *, is_patient: bool) -> bool:
        """Whether all leases that share a task are there, or were waited for long enough: longer if it `is_patient`, as
        nothing rests meanwhile, and a lease that came late would have to wait for a slot.
        """
        company = sum(self._berth(seat) == berth for seat in self._seats)
        has_begun = any(job.berth == berth for job in self._running)
        if not has_begun:
            # Links that have no seat yet may be late.
            company = max(company, math.ceil(self.links / self._berths))
        patience_s = GATHER_S if has_begun and not is_patient else COMPANY_S
        # Some may have waited for a slot for long, until others were asked to come along.
        since = (max if is_patient else min)(each.asked_at for each in waiting)
        return len(waiting) >= company or now - since >= patience_s

    def _start(self, berth: int, waiting: Sequence[Ticket], now: float) -> None:
        job = self._build_job(berth, waiting, now)
        specs = [self._build_spec(ticket, job, len(waiting), now) for ticket in waiting]
        receipts = start_job(self._spark, specs, job.name)
        self._queue = [ticket for ticket in self._queue if ticket not in waiting]
        self._running.append(job)
        for ticket in waiting:
            ticket.job = job
        if any(ticket.is_hastened for ticket in waiting):
            job.term.hasten(now)
        receipts.add_done_callback(lambda done: self._finish_job(job, done))

    def _build_job(self, berth: int, waiting: Sequence[Ticket], now: float) -> SlotJob:
        ahead_s = max(self._term_s - AHEAD_S, self._term_s / 2)
        others = [
            job
            for job in self._running
            if job.berth == berth and job.live and job.term.successor_at > now and not job.is_to_end
        ]
        name = waiting[0].spec.job_group if len(waiting) == 1 else f"isthmus/{id(self)}/{berth}/{next(self._numbers)}"
        if others:
            # They are to be succeeded together.
            host = max(others, key=lambda job: job.started_at)
            return SlotJob(name, berth, now, host.term, waiting)
        if not any(job.berth == berth for job in self._running):
            # Stagger the ends of first leases, and by that those of all later ones.
            ahead_s -= min(_STAGGER_S, ahead_s / 2 / self._berths) * berth
        return SlotJob(name, berth, now, Term(now, now + ahead_s, now + self._term_s), waiting)

    def _build_spec(self, ticket: Ticket, job: SlotJob, company: int, now: float) -> LeaseSpec:
        spec = ticket.spec
        context = replace(spec.context, limits=share_limits(spec.context.limits, company))
        return replace(spec, context=context, term_s=job.term.ends_at - now, company=company)

    def _make_room(self, waiting: Sequence[Ticket], now: float) -> None:
        """If waiting for a slot takes too long have leases that are to share a slot by now, and do not yet, succeeded
        together: those that wait with their own, or else others. Without any, or if they do not come, end the smallest
        task: its leases wait in turn.
        """
        waits_s = now - waiting[0].asked_at
        # Where there are fewer slots than before, links are about to close groups.
        has_many = len(self._seats) > self.groups_per_link * max(self.links, 1)
        if any(job.is_to_end for job in self._running) or waits_s < PATIENCE_S * (2 if has_many else 1):
            return
        apart = self._find_apart(self._berth(waiting[0].seat))
        if apart and waits_s < 2 * PATIENCE_S:
            for job in apart:
                job.term.hasten(now)
        else:
            _call([min(self._running, key=lambda job: job.live)])

    def _find_apart(self, berth: int) -> list[SlotJob]:
        """Find the tasks of a berth whose leases wait, or else those of one that has several tasks."""
        jobs: dict[int, list[SlotJob]] = {}
        for job in self._running:
            for other in {self._berth(ticket.seat) for ticket in job.tickets if ticket.is_live}:
                jobs.setdefault(other, []).append(job)
        return jobs.get(berth) or next((found for found in jobs.values() if len(found) > 1), [])

    def _finish_job(self, job: SlotJob, done: asyncio.Future[tuple[Receipt, ...]]) -> None:
        self._running.remove(job)
        error = None if done.cancelled() else done.exception()
        for index, ticket in enumerate(job.tickets):
            if error is not None or done.cancelled():
                _fail(ticket, error or JobFailed("it was cancelled", is_dead=False))
            elif ticket.is_live:
                ticket.receipt.set_result(done.result()[index])
        self._dispatch_or_fail()


def _are_succeeded(jobs: Iterable[SlotJob], waiting: Iterable[Ticket]) -> bool:
    """Whether all leases of these tasks that go on have a successor among those that wait. One whose link does not ask
    for any, as its ledger is away, would keep the slot until the end of its term, and the others would rest.
    """
    seats = {ticket.seat for ticket in waiting}
    going_on = (
        each for job in jobs for each in job.tickets if each.is_live and not (each.must_end or each.is_given_up)
    )
    return all(each.seat in seats for each in going_on)


def _call(jobs: Iterable[SlotJob]) -> None:
    """Ask all leases of these tasks to end in good order."""
    for job in jobs:
        for ticket in job.tickets:
            ticket.call()


def _fail(ticket: Ticket, error: BaseException) -> None:
    if ticket.is_live:
        ticket.receipt.set_exception(error)
        # Marks the exception as retrieved: nothing awaits a lease that was given up.
        ticket.receipt.exception()
