"""The driver's side of leases: start them, and conclude them when they end or die."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, IsthmusError
from isthmus.ledger.documents.kinds import Document, LeaseDocument, ProgressDocument, ReceiptDocument, TaskDocument
from isthmus.ledger.documents.schemas import known_schemas
from isthmus.ledger.handover import has_ended, is_in_order, marks_left, milestones_left
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.records import Deletion
from isthmus.local.host import liveness_of
from isthmus.model.lane import LaneReport
from isthmus.model.link import Limits
from isthmus.model.links.transform import Transform
from isthmus.model.problem import Problem
from isthmus.model.process.latency import BUCKETS
from isthmus.model.process.receipt import Ending, Receipt
from isthmus.model.process.whereabouts import Liveness
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.leases.distribution import Distribution, LeaseGroup
from isthmus.spark.leases.jobs import JobFailed, check, is_active
from isthmus.spark.leases.lease import LeaseSpec, LinkContext
from isthmus.spark.leases.progress import RunProgress
from isthmus.spark.leases.slots import TaskSlots, Ticket
from isthmus.spark.leases.spread import describe, spread
from isthmus.spark.leases.timings import USUAL_OF_LEASES, LeaseTimings

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)
_RECEIPTS: Final = 1_000
_WINDOW_S: Final = 10.0
"""For so long after lanes have moved, workers tell how busy they were before."""


class LeaseScheduler:
    """Keeps the lanes of one link running on Spark, each by one lease at a time.

    Assign the lanes to its `distribution` whenever they change and keep `run()` running; cancelling it ends all leases
    in good order.
    `ledger` has to be open, and to run concurrently. `progress` has the counts of earlier sessions. `receipts` are the
    newest, `cpu_s` is the CPU time of all leases, and `problem` is why a lease ended that should not have.
    """

    def __init__(
        self,
        spark: SparkContext,
        ledger: LinkLedger,
        context: LinkContext,
        *,
        slots: TaskSlots,
        progress: RunProgress | None = None,
        timings: LeaseTimings = USUAL_OF_LEASES,
    ) -> None:
        self.receipts: deque[Receipt] = deque(maxlen=_RECEIPTS)
        self.cpu_s = 0.0
        self.problem: Problem | None = None
        self._spark = spark
        self._ledger = ledger
        self._context = context
        self._slots = slots
        self._timings = timings
        self._groups: list[LeaseGroup] = []
        self._seats: dict[LeaseGroup, int] = {}
        self._running: dict[LeaseGroup, list[Ticket]] = {}
        for _ in range(slots.groups_per_link):
            self._add_group()
        self._progress = progress or RunProgress()
        self._progress.begin()
        self.distribution = Distribution(self._groups, self._progress)
        self._declaring, self._fitting = asyncio.Lock(), asyncio.Lock()
        self._share_told = self._share()
        ledger.listen(self._hear)

    # What the controller does with it

    def limit(self, limits: Limits) -> None:
        """Set the limits of the link from now on."""
        if limits == self._context.limits:
            return
        self._context = replace(self._context, limits=limits)
        self._retell()

    def transform(self, transforms: tuple[Transform, ...], columns: tuple[Prepared, ...] = ()) -> None:
        """Give these transforms to all leases that begin from now on; one that runs keeps those that it began with. If
        there are new ones, or `columns` of theirs, leases are succeeded at once: their lanes would stop until the end
        of their terms.
        """
        has_new = {each.digest for each in transforms} - {each.digest for each in self._context.transforms}
        if not has_new and columns == self._context.columns:
            return
        self._context = replace(self._context, transforms=transforms, columns=columns)
        now = time.monotonic()
        for lease in (lease for running in self._running.values() for lease in running):
            # One that waits for its slot was made before, too.
            lease.hasten(now)

    def reports(self) -> list[LaneReport]:
        """Return the reports of the assigned lanes; counts are those of `progress`."""
        return self._progress.reports()

    async def run(self) -> None:
        """Run leases until cancelled.

        :raises Fenced: Another controller has taken the link over.
        :raises HostError: Spark has ended.
        """
        try:
            await self._await_earlier_leases()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tell())
                tended = 0
                while True:
                    for group in self._groups[tended:]:
                        tasks.create_task(self._tend(group))
                    tended = len(self._groups)
                    await asyncio.sleep(self._timings.grow_s)
                    await self._fit()
                    self._balance()
                    self._share_out()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            try:
                await self._say_farewell()
            finally:
                self._slots.leave(self._seats.values())

    # Which lanes are where

    def _add_group(self) -> None:
        group = LeaseGroup(link=self._context.link, slot=len(self._groups), controller=self._ledger.generation)
        self._groups.append(group)
        self._running[group] = []
        self._seats[group] = self._slots.take_seat()

    async def _fit(self) -> None:
        """Open as many groups as there are slots for the link, and close those for which there is none any more: rather
        those that have no lease, or whose lease was not heard for longer.
        """
        async with self._fitting:
            wanted = self._slots.groups_per_link
            opened = [each for each in self._groups if not each.is_closed]
            if len(opened) > wanted:
                for lease in [lease for group in opened for lease in self._running[group]]:
                    if await self._is_lost(lease, math.inf):
                        await self._slots.lose(lease)
                opened.sort(key=self._heard_at)
            closed = [each for each in self._groups if each.is_closed]
            for group in closed[: max(wanted - len(opened), 0)]:
                self._seats[group] = self._slots.take_seat()
                self.distribution.reopen(group)
            for _ in range(wanted - len(opened) - len(closed)):
                self._add_group()
            for group in opened[: max(len(opened) - wanted, 0)]:
                await self._close_group(group)

    def _heard_at(self, group: LeaseGroup) -> float:
        heard = (lease.heard_at for lease in self._running[group] if lease.is_live)
        return max((at for at in heard if at is not None), default=-math.inf)

    async def _is_lost(self, lease: Ticket, silent_s: float) -> bool:
        """Whether Spark has lost the task of a lease that was heard: it may be about to run it elsewhere, and wait for
        a slot. A lease that was heard lately is not asked about.
        """
        if lease.job is None or lease.heard_at is None or not lease.is_live or silent_s < self._timings.lost_s:
            return False
        if lease.generation not in self._groups[lease.spec.slot].held:
            # It said its end: Spark is about to hand its receipt over.
            return False
        return not await is_active(self._spark, lease.job.name)

    async def _close_group(self, group: LeaseGroup) -> None:
        """Have other groups run its lanes: each when the leases of this one are over."""
        self._slots.leave([self._seats.pop(group)])
        self.distribution.close(group)
        for lease in self._running[group]:
            lease.call()
        # There may never be a slot for it.
        await self._slots.give_up([lease for lease in self._running[group] if lease.heard_at is None])

    def _balance(self) -> None:
        """Move lanes from workers that have much to do to others. A slot without a lease gets one first: it takes
        seconds to start, for which lanes need not rest.
        """
        now, weighed = time.monotonic(), self.distribution.weigh()
        moves = [] if weighed is None else spread(weighed)
        goals = {move.goal for move in moves}
        if all(self._groups[goal].lanes for goal in goals) and now - self._slots.balanced_at < self._timings.balance_s:
            return
        for goal in goals:
            if not self._groups[goal].held:
                self._groups[goal].expect()
        moves = [move for move in moves if self._is_steady(move.slot) and self._is_steady(move.goal)]
        if moves:
            self._slots.balanced_at = now
            for slot in {slot for move in moves for slot in (move.slot, move.goal)}:
                self._groups[slot].busy = None
            _log.info("link %s: %s", self._context.link, describe(moves))
            self.distribution.move(moves)

    def _share_out(self) -> None:
        """Tell all leases their share of the limits if another number of groups has lanes now."""
        if self._share() != self._share_told:
            self._share_told = self._share()
            self._retell()

    def _retell(self) -> None:
        for group in self._groups:
            group.retell()
        self.distribution.changed.set()

    def _is_steady(self, slot: int) -> bool:
        """Whether one lease runs in the slot, and no other is about to succeed it."""
        leases = self._running[self._groups[slot]]
        return len(leases) == 1 and leases[0].has_spoken and not leases[0].must_end

    # Leases, one after the other

    async def _tend(self, group: LeaseGroup) -> None:
        failures = 0
        while True:
            pauses_s = self._timings.back_off_s
            await asyncio.sleep(pauses_s[min(failures, len(pauses_s) - 1)])
            while not group.needs_lease:
                group.stirred.clear()
                await group.stirred.wait()
            lease = await self._launch(group, is_urgent=True)
            asked_at = time.monotonic()
            while lease is not None:
                asked_at = lease.asked_at
                lease = await self._see_through(group, lease)
            failures = failures + 1 if time.monotonic() - asked_at < self._timings.short_life_s else 0

    async def _see_through(self, group: LeaseGroup, lease: Ticket) -> Ticket | None:
        """Wait for the end of a lease; return its successor, if one was started ahead and lives."""
        successor: Ticket | None = None
        await self._wait(group, lease, is_ahead=True)
        if not lease.receipt.done() and not lease.must_end:
            if group.lanes:
                successor = await self._launch(group, is_urgent=False)
            else:
                # Others of its task may wait for the slot.
                lease.call()
        await self._wait(group, lease)
        await self._conclude(group, lease)
        if successor is not None and successor.receipt.done():
            await self._conclude(group, successor)
            return None
        return successor

    async def _wait(self, group: LeaseGroup, lease: Ticket, *, is_ahead: bool = False) -> None:
        """Wait until the lease has ended, or seems to be stuck; with `is_ahead` until its successor is due."""
        quiet_since = time.monotonic()
        while not lease.receipt.done():
            now = time.monotonic()
            until = lease.successor_at if is_ahead else math.inf
            if now >= until:
                return
            if lease.must_end and group.revoked_through < lease.generation:
                group.revoked_through = lease.generation
                await self._declare(group)
            if self._ledger.problem is not None or self._ledger.tail.was_held(self._timings.stall_s):
                # No task can be heard. A quota that delays our reads delays the tasks too.
                quiet_since = now
            elif lease.heard_at is None:
                # The task may not have had a slot yet.
                job = lease.job
                is_late = job is not None and now - job.started_at > self._timings.grace_s
                if job is not None and is_late and await is_active(self._spark, job.name):
                    lease.heard_at = now
            elif await self._is_lost(lease, now - max(lease.heard_at, quiet_since)):
                await self._slots.lose(lease)
            elif now - max(lease.heard_at, quiet_since) > self._timings.stall_s:
                return
            ends: list[asyncio.Future[Any]] = [lease.receipt] if lease.must_end else [lease.receipt, lease.called]
            await asyncio.wait(ends, timeout=min(until - now, 1.0), return_when=asyncio.FIRST_COMPLETED)

    async def _launch(self, group: LeaseGroup, *, is_urgent: bool) -> Ticket | None:
        """Start the group's next lease. It is in the ledger before Spark gets it, so that no reader overlooks it.
        Return `None` if the group was closed meanwhile.
        """
        self.distribution.hand_over(group)
        generation, seat = group.generation, self._seats[group]
        await self._declare(group)
        self.distribution.send_out(group)
        if group.is_closed:
            # There may never be a slot for it.
            self.distribution.note_end(group, generation, is_clean=None)
            await self._declare(group)
            return None
        spec = LeaseSpec(
            context=self._context.renew(self._share()),
            slot=group.slot,
            controller=group.controller,
            generation=generation,
            revision=group.revision,
            lanes=tuple(group.lanes.values()),
            ended_through=group.ended_through,
            is_clean=group.is_clean,
            ledger_position=self._ledger.tail.position,
            ledger_topic_id=self._ledger.tail.topic_id,
            marks=tuple(mark for mark in group.marks if mark.key in group.lanes),
            milestones=milestones_left(group.link, self._ledger.documents, group.lanes.values()),
            schemas=known_schemas(self._ledger.link, self._ledger.documents),
            records=self._progress.records,
            size_bytes=self._progress.size_bytes,
        )
        lease = self._slots.ask(spec, seat, is_urgent=is_urgent)
        self._running[group].append(lease)
        _log.info("link %s: lease %d.%d of %d lanes", group.link, group.slot, lease.generation, len(spec.lanes))
        return lease

    def _share(self) -> Limits:
        """Return the share of one lease in the link's limits."""
        limits = self._context.limits
        if limits.bytes_per_s is None:
            return limits
        busy = sum(1 for group in self._groups if group.lanes)
        return replace(limits, bytes_per_s=max(limits.bytes_per_s // max(busy, 1), 1))

    async def _conclude(self, group: LeaseGroup, lease: Ticket) -> None:
        """Take the receipt of a lease that ended. Without one revoke the lease, unless it is known to be dead."""
        await asyncio.wait([lease.receipt], timeout=self._timings.grace_s)
        receipt: Receipt | None = None
        try:
            receipt = lease.receipt.result()
            is_over = receipt.ending is not Ending.RETRIED
            if not is_over:
                self._complain(group, "was lost: Spark tried its task again", "Set spark.task.maxFailures=1.")
        except JobFailed as failure:
            # If Spark has ended there is no next lease.
            await check(self._spark)
            is_over = failure.is_dead
            self._complain(group, f"was lost: {failure}", failure.hint)
        except asyncio.InvalidStateError:
            is_over = False
            self._complain(group, "is stuck: nothing is heard of it", "Its process may be paused or cut off.")
        if not is_over:
            receipt = None
            await self._revoke(group, lease)
        self._close(group, lease, receipt)
        if receipt is None or not receipt.is_released:
            # A successor may be waiting for the ledger to have this end.
            await self._declare(group)
        if receipt is None:
            # Its executor may be lost: then others run its lanes.
            await self._slots.recount()
            await self._fit()

    def _complain(self, group: LeaseGroup, message: str, hint: str) -> None:
        self.problem = Problem(f"lease {group.slot} {message}", f"{hint} Its controller starts it again.".strip())
        _log.warning("link %s: %s", group.link, self.problem.message)

    def _close(self, group: LeaseGroup, lease: Ticket, receipt: Receipt | None) -> None:
        self._running[group].remove(lease)
        is_clean: bool | None = False
        reports: tuple[LaneReport, ...] = ()
        latency: tuple[int, ...] = ()
        if receipt is not None:
            self.receipts.append(receipt)
            self.cpu_s += receipt.cpu_s
            self.problem = receipt.problem
            is_clean = receipt.is_clean if receipt.has_written else None
            reports, latency = receipt.reports, receipt.latency
        how = "lost" if receipt is None else receipt.ending.value.lower()
        _log.info("link %s: lease %d.%d has ended: %s", group.link, group.slot, lease.generation, how)
        self._progress.close(group.slot, lease.generation, reports, latency, time.monotonic())
        self._progress.note_end(receipt)
        self.distribution.note_end(group, lease.generation, is_clean=is_clean)
        self._park(reports)

    async def _revoke(self, group: LeaseGroup, lease: Ticket) -> None:
        """Revoke a lease that may still run, and wait until it must have noticed, or its process has ended."""
        group.revoked_through = max(group.revoked_through, lease.generation)
        await self._declare(group)
        deadline = Deadline(self._timings.revocation_s)
        while (
            lease.generation in group.held
            and liveness_of(lease.process) is not Liveness.DEAD
            and not deadline.has_passed
        ):
            await asyncio.sleep(self._timings.retry_s)
        if not lease.receipt.done():
            await self._slots.give_up([lease])

    # The ledger

    async def _declare(self, *groups: LeaseGroup) -> None:
        """Write the documents of groups to the ledger, and retry until they are written.

        :raises Fenced: Another controller has taken the link over.
        """
        while True:
            async with self._declaring:
                documents = [group.document(self._share()) for group in groups]
                for group in groups:
                    group.is_untold = False
                try:
                    await self._ledger.write(*documents)
                    return
                except ClusterError:
                    # The ledger reports its problem itself. Leases go on as long as they may.
                    pass
            await asyncio.sleep(self._timings.retry_s)

    async def _tell(self) -> None:
        """Write changed lanes and limits to the ledger for running leases, within milliseconds."""
        changed = self.distribution.changed
        while True:
            await changed.wait()
            changed.clear()
            # The launch of a lease declares its group already.
            untold = [group for group in self._groups if group.is_untold and group.held]
            if untold:
                await self._declare(*untold)

    def _hear(self, _: str, document: Document | None) -> None:
        match document:
            case ReceiptDocument(receipt=receipt) if self._is_ours(receipt.slot, document.controller):
                lease = self._lease(receipt.slot, receipt.generation)
                if lease is not None and not lease.receipt.done():
                    lease.receipt.set_result(receipt)
            case TaskDocument(slot=slot) | ProgressDocument(slot=slot) if self._is_ours(slot, document.controller):
                lease = self._lease(slot, document.generation)
                if lease is not None:
                    lease.hear(time.monotonic())
                    if isinstance(document, TaskDocument):
                        lease.process = document.process
                if isinstance(document, ProgressDocument):
                    self._hear_progress(document)
                elif document.has_ended:
                    self._hear_end(document)
                else:
                    self.distribution.let_go(self._groups[slot], document.generation, document.revision)

    def _lease(self, slot: int, generation: int) -> Ticket | None:
        running = self._running[self._groups[slot]]
        return next((lease for lease in running if lease.generation == generation), None)

    def _hear_end(self, document: TaskDocument) -> None:
        group = self._groups[document.slot]
        group.marks = document.marks
        for generation in [held for held in group.held if held <= document.generation]:
            is_clean = document.is_clean if generation == document.generation else None
            self.distribution.note_end(group, generation, is_clean=is_clean)

    def _hear_progress(self, document: ProgressDocument) -> None:
        slot, generation = document.slot, document.generation
        if generation in self._groups[slot].held:
            latency = [0] * BUCKETS
            for bucket, count in document.latency:
                if 0 <= bucket < BUCKETS:
                    latency[bucket] = count
            now = time.monotonic()
            self._progress.take(slot, generation, document.reports, latency, now, beat=document.beat)
            # What was measured before lanes moved is of no use.
            if document.busy >= 0 and now - self._slots.balanced_at > _WINDOW_S:
                self._groups[slot].busy = document.busy
            self._park(document.reports)

    def _is_ours(self, slot: int, controller: int) -> bool:
        return controller == self._ledger.generation and 0 <= slot < len(self._groups)

    def _park(self, reports: Iterable[LaneReport]) -> None:
        self.distribution.park([report.key for report in reports if report.state.is_terminal])

    # The beginning and the end

    async def _await_earlier_leases(self) -> None:
        """Wait until no task of an earlier controller writes: until their documents say so, or, if some do not or the
        ledger was lost, until `revocation_s` after it was opened.
        """
        former = LeaseDocument.find_all(self._ledger.documents.values())
        deadline = self._ledger.opened_at + self._timings.revocation_s
        while self._ledger.was_lost or not all(has_ended(d, self._ledger.documents) for d in former):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(self._timings.retry_s)
        is_clean = not self._ledger.was_lost and is_in_order(self._ledger.link, self._ledger.documents)
        marks = marks_left(self._ledger.link, self._ledger.documents)
        if is_clean:
            self._ledger.be_alone()
        for group in self._groups:
            group.is_clean, group.marks = is_clean, marks
        if former:
            await self._delete_slots(former)

    async def _delete_slots(self, former: list[LeaseDocument]) -> None:
        """Delete the documents of former slots; there may have been more slots than now."""
        kinds = (LeaseDocument, TaskDocument, ReceiptDocument, ProgressDocument)
        keys = [kind.key_of(each.link, str(each.slot)) for each in former for kind in kinds]
        with contextlib.suppress(ClusterError):
            await self._ledger.write(*(Deletion(key) for key in keys))

    async def _say_farewell(self) -> None:
        """End all leases: through the ledger, which takes milliseconds, or else through Spark."""
        leases = [(group, lease) for group in self._groups for lease in self._running[group]]
        if not leases:
            return
        jobs = [lease.receipt for _, lease in leases]
        for group in self._groups:
            group.revoked_through = group.generation
        await self._declare_if_possible()
        await self._slots.give_up([lease for _, lease in leases if lease.job is None])
        await asyncio.wait(jobs, timeout=self._timings.farewell_s)
        await self._slots.give_up([lease for _, lease in leases if not lease.receipt.done()])
        await asyncio.wait(jobs, timeout=self._timings.cancelling_s)
        for group, lease in leases:
            if lease.receipt.done() and not lease.receipt.exception():
                self._close(group, lease, lease.receipt.result())
        await self._declare_if_possible()

    async def _declare_if_possible(self) -> None:
        with contextlib.suppress(IsthmusError, TimeoutError):
            async with asyncio.timeout(self._timings.farewell_s):
                await self._declare(*(group for group in self._groups if group.generation))
