"""A link at work: its ledger open, its topics watched, its leases running."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from isthmus.cluster.offsets import log_ranges
from isthmus.control.groups.carrier import GroupCarrier
from isthmus.control.lanes.audit import Audit, LaneWord
from isthmus.control.lanes.catchup import Arrival, CatchUp
from isthmus.control.lanes.idle import IdleLanes
from isthmus.control.lanes.maps import lane_cursors
from isthmus.control.links.claims import Claims
from isthmus.control.links.filtering import filters_of
from isthmus.control.links.memory import pauses, rebuilt_topics, recorded_topics
from isthmus.control.links.record import LinkRecord
from isthmus.control.links.workers import Workers
from isthmus.control.loops.all import LOOPS
from isthmus.control.loops.loop import LinkView
from isthmus.control.loops.runner import LoopRunner, LoopRunners
from isthmus.control.loops.standing import data_standing, groups_standing, topics_standing
from isthmus.control.topics.loop import TopicLoop
from isthmus.control.topics.plan import LinkPlan
from isthmus.errors import ClusterError, IsthmusError
from isthmus.ledger.documents import (
    Document,
    FiltersDocument,
    PauseDocument,
    ProgressDocument,
    RecoveryDocument,
    TaskPauseDocument,
    VerificationDocument,
    kind_of,
)
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.standing import verify_standing
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.loop import DATA_TASK, GROUPS_TASK, TOPICS_TASK, LoopProgress
from isthmus.model.pauses import Pauses
from isthmus.model.problem import Problem, problem_of
from isthmus.model.progress import GroupProgress
from isthmus.model.timings import Timings
from isthmus.spark.lease import LinkContext
from isthmus.spark.leases import LeaseScheduler
from isthmus.spark.progress import RunProgress
from isthmus.wire.client import Client

_ALL: Final = -1
"""In place of a partition: a topic as a whole."""
_PAUSES: Final = (PauseDocument.KIND, TaskPauseDocument.KIND)
_HASTE: Final = 0.8
"""Topics are looked for a little more often than asked, so that what is new runs in that time."""


Respect = Callable[[Link], Awaitable[None]]


class Session:
    """One link from the moment its ledger is open until it is closed.

    `has_claimed` is set once the topics it wants were chosen, or could not be; before others are wanted `respect` finds
    out which of them links of others write. `progress` counts what it copies.

    A cluster that cannot be looked at for a while stops nothing else.
    """

    def __init__(
        self,
        context: LinkContext,
        link: Link,
        source: Client,
        target: Client,
        *,
        ledger: LinkLedger,
        claims: Claims,
        has_claimed: asyncio.Event,
        respect: Respect,
        progress: RunProgress,
        timings: Timings,
    ) -> None:
        self._away: Problem | None = None
        self._timings = timings
        self._context = context
        self._link = self._written = link
        self._source, self._target = source, target
        self._ledger = ledger
        self._record = LinkRecord(ledger)
        self._has_claimed = has_claimed
        self._progress = progress
        self._topics = TopicLoop(
            link,
            source,
            target,
            claims=claims,
            recorded=recorded_topics(link.name, ledger.documents),
            remember=self._record.begun,
            has_claimed=has_claimed,
            refused_s=timings.refused_s,
        )
        self._catch_up = CatchUp(source, timings.stuck_s)
        self._audit = Audit(link.target)
        self._audited_at = time.monotonic()
        self._groups = GroupCarrier(link, source, target, ledger, timings)
        self._loops = LoopRunners(
            [LoopRunner(make(), link, self._view, ledger, lambda: self.paused, timings.outage_s) for make in LOOPS]
        )
        # What an operator has it select is taken over at the first look, when it is known what others write of it.
        self._wanted: Link | None = self._filtered()
        self._respect = respect
        self._scheduler: LeaseScheduler | None = None
        self._known: dict[LaneKey, LaneReport] = {}
        self._idle = IdleLanes(source, target)
        self._stirred = asyncio.Event()
        self._stopping = asyncio.Event()
        ledger.listen(self._hear)

    @property
    def plan(self) -> LinkPlan | None:
        """What is carried out, `None` until the clusters were first looked at."""
        return self._topics.plan

    @property
    def problem(self) -> Problem | None:
        """Why things are not as they should be, when that was last looked at."""
        if self._away is not None:
            return self._away
        if self._ledger.problem is not None:
            return problem_of(self._ledger.problem)
        return None if self._scheduler is None else self._scheduler.problem

    @property
    def is_away(self) -> bool:
        """Whether a cluster did not answer when it was last looked at."""
        return self._away is not None

    @property
    def has_begun(self) -> bool:
        """Whether a lease has been heard, unless there is nothing for one to do. Spark takes seconds to start."""
        return self.plan is not None and (bool(self._known) or not self._runnable())

    def follow(self, link: Link) -> None:
        """Go on with other settings: without a new lease, and soon."""
        self._written = link
        self._wanted = self._filtered()
        self._stirred.set()

    def _filtered(self) -> Link:
        """The link as it is written, with the filters that an operator has given it since."""
        return filters_of(self._written.name, self._ledger.documents).of(self._written)

    async def _take_over_settings(self) -> None:
        """Between two looks, so that none is half of each.

        :raises ClusterError: What others write cannot be read now; it is tried again.
        """
        link = self._wanted
        if link is None or link == self._link:
            self._wanted = None
            return
        await self._respect(link)
        self._link, self._wanted = link, None if self._wanted is link else self._wanted
        self._topics.follow(link)
        if self._scheduler is not None:
            self._scheduler.limit(link.limits)
        self._groups.follow(link)
        self._loops.follow(link)

    def stop(self) -> None:
        """End the leases in good order; `run` returns when that is done."""
        self._stopping.set()

    async def run(self, workers: Workers) -> None:
        """Keep the lanes running until `stop`.

        :raises Fenced: Another controller has taken the link over.
        :raises HostError: Spark cannot be started.
        """
        follow = asyncio.create_task(self._ledger.run())
        leases = asyncio.create_task(self._lease(workers))
        watch = asyncio.create_task(self._watch())
        # Not waited for: what happens to them never ends the copying.
        groups = asyncio.create_task(self._groups.run())
        loops = asyncio.create_task(self._loops.run())
        halt = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait((follow, leases, watch, halt), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            # The leases need the ledger to say farewell, so it goes last.
            for task in (halt, groups, loops, watch, leases):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            if not follow.done():
                for farewell in (self._groups.remember, self._write_reports, self._record.ended):
                    with contextlib.suppress(IsthmusError, TimeoutError):
                        async with asyncio.timeout(self._timings.farewell_s):
                            await farewell()
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)

    def reports(self) -> dict[LaneKey, LaneReport]:
        """What was last reported of every lane, those that may not run now included."""
        reports = dict(self._heard())
        for key, find in self._audit.found.items():
            report = reports.get(key, LaneReport(key=key, state=LaneState.STARTING))
            reports[key] = replace(report, state=LaneState.FOREIGN_WRITE, problem=find.problem)
        for key, end in self._idle.ends.items():
            report = reports.get(key, LaneReport(key=key, state=LaneState.STARTING))
            reports[key] = replace(report, source_end=max(report.source_end, end))
        return reports

    def _heard(self) -> Mapping[LaneKey, LaneReport]:
        """What the lanes said themselves."""
        if self._scheduler is not None:
            self._known.update((report.key, report) for report in self._scheduler.reports())
        return self._known

    @property
    def idle(self) -> frozenset[LaneKey]:
        """The lanes that do not run now: where their source ends is looked at by the session itself."""
        return frozenset(self._idle.ends)

    async def arrival(self) -> Arrival:
        """How far the link is on its way to what the source had; see `CatchUp`.

        What could not be copied, and how the groups stand, is in the ledger when it is under way no more: whoever is
        told may look at once.

        :raises ClusterError: A cluster does not answer, or the ledger cannot be written.
        """
        plan = self.plan
        if plan is None:
            return Arrival.UNDER_WAY
        arrival = await self._catch_up.look(self._runnable(), self.reports())
        if arrival is Arrival.UNDER_WAY or not all(map(self._catch_up.is_stuck, self._note_missing(plan))):
            return Arrival.UNDER_WAY
        await self._topics.settle()
        if not self._has_carried_groups() or not self._loops.has_settled():
            return Arrival.UNDER_WAY
        await self._write_reports()
        await self._groups.remember()
        if arrival is Arrival.HELD_UP or not plan.is_whole or not await self._measure_idle():
            return Arrival.HELD_UP
        return Arrival.CAUGHT_UP

    def _note_missing(self, plan: LinkPlan) -> list[LaneKey]:
        """Which topics have partitions missing at the target that may come soon; that they have is noted."""
        missing = {LaneKey(topic.topic, _ALL): not topic.reasons and not topic.is_laid_out for topic in plan.topics}
        for key, is_missing in missing.items():
            self._catch_up.note(key, is_waiting=is_missing)
        return [key for key, is_missing in missing.items() if is_missing]

    async def _measure_idle(self) -> bool:
        """Look where the source ends in lanes that do not run now; whether the target has all of it.

        :raises ClusterError: A cluster does not answer.
        """
        runnable, reports = {lane.key for lane in self._runnable()}, self.reports()
        idle = [
            lane
            for lane in self._topics.lanes
            if lane.key not in runnable or (lane.key in reports and reports[lane.key].state.is_terminal)
        ]
        is_complete = await self._idle.look(idle, lane_cursors(self._link.name, self._ledger.documents))
        return is_complete and not (self._audit.found and idle)

    def _has_carried_groups(self) -> bool:
        """Whether all groups were looked at since the data was complete."""
        return self.paused.stops(GROUPS_TASK) or self._groups.has_carried()

    # Lanes

    @property
    def paused(self) -> Pauses:
        """What an operator has paused."""
        return pauses(self._link.name, self._ledger.documents)

    def _runnable(self) -> list[Lane]:
        paused = self.paused
        former = {ids.former for ids in rebuilt_topics(self._link.name, self._ledger.documents).values()}
        lanes = (
            lane
            for lane in self._topics.lanes
            if not paused.covers(lane.target_topic) and lane.target_topic_id not in former
        )
        return [self._audit.doubted(lane) for lane in lanes]

    def _assign(self) -> None:
        if self._scheduler is not None:
            self._scheduler.assign(self._runnable())

    async def _lease(self, workers: Workers) -> None:
        spark, slots = await workers.ready()
        self._scheduler = LeaseScheduler(spark, self._ledger, self._context, slots=slots, progress=self._progress)
        self._assign()
        await self._scheduler.run()

    # Groups

    @property
    def groups(self) -> tuple[GroupProgress, ...]:
        """How the groups stand."""
        return self._groups.progress

    @property
    def loops(self) -> tuple[LoopProgress, ...]:
        """How the data, the topics, the groups and everything else stand that the link keeps alike."""
        verified = self._ledger.documents.get(f"{VerificationDocument.KIND}/{self._link.name}")
        return (*self._standing(), *self._loops.progress, verify_standing(verified))

    def _standing(self) -> tuple[LoopProgress, ...]:
        paused, carrier, groups = self.paused, self._groups, self._link.groups
        trouble = None if self._scheduler is None else self._scheduler.problem
        return (
            data_standing(self.reports().values(), trouble, is_paused=paused.stops(DATA_TASK)),
            topics_standing(self.plan, self._away, is_paused=paused.stops(TOPICS_TASK)),
            groups_standing(carrier.problem, is_configured=groups.is_configured, is_paused=paused.stops(GROUPS_TASK)),
        )

    def _view(self) -> LinkView | None:
        if self.plan is None:
            return None
        return LinkView(
            link=self._link,
            source=self._source,
            target=self._target,
            plan=self.plan,
            reports=self.reports(),
            groups=self._groups.plan,
            documents=self._ledger.documents,
            remember=self._ledger.write,
        )

    # Topics

    async def _watch(self) -> None:
        while True:
            try:
                await self._take_over_settings()
                self._topics.accept(rebuilt_topics(self._link.name, self._ledger.documents))
                await self._topics.refresh(is_paused=self.paused.stops(TOPICS_TASK))
                await self._audit_when_due()
                await self._write_reports()
                await self._measure_idle()
            except ClusterError as error:
                self._away = problem_of(error)
            else:
                self._away = None
            self._has_claimed.set()
            self._assign()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), self._link.topics_interval_s * _HASTE)
            self._stirred.clear()

    async def _audit_when_due(self) -> None:
        self._audit.review(self._topics.lanes, self._told())
        if time.monotonic() - self._audited_at > self._timings.audit_s:
            self._audited_at = time.monotonic()
            lanes = self._runnable()
            ranges = await log_ranges(self._target, [(lane.target_topic, lane.partition) for lane in lanes])
            # The logs first: what is told by now, and what is said from now on, is later.
            self._audit.look(lanes, ranges.values, self._told(), self._ledger.beat)

    def _told(self) -> dict[LaneKey, LaneWord]:
        beats = self._progress.beats
        return {key: LaneWord(report, beats.get(key, -1)) for key, report in self._heard().items()}

    # The ledger

    async def _write_reports(self) -> None:
        """Tell what is refused or has ended and why, and what was never copied."""
        topics = () if self.plan is None else self.plan.topics
        await self._record.reports(topics, self.reports())
        await self._record.loops(self._standing())

    def _hear(self, key: str, document: Document | None) -> None:
        if kind_of(key) in _PAUSES:
            self._assign()
            self._loops.stir()
            self._stirred.set()
        elif key.startswith(f"{FiltersDocument.KIND}/"):
            self._wanted = self._filtered()
            self._stirred.set()
        elif isinstance(document, RecoveryDocument):
            self._stirred.set()
        elif isinstance(document, ProgressDocument) and any(r.state.is_terminal for r in document.reports):
            # Groups shall not be carried onto what is no mirror any more.
            self._stirred.set()
