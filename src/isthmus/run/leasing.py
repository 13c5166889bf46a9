"""The lanes of a running link: assigned to leases, audited against both logs, with their last reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from isthmus.kafka.log.offsets import log_ranges
from isthmus.lanes.audit import Audit, LaneWord
from isthmus.lanes.idle import IdleLanes
from isthmus.lanes.maps import lane_cursors
from isthmus.lanes.waiting import TransactionNames, TransactionWatch
from isthmus.ledger.documents.kinds import TransactionNamesDocument
from isthmus.memory.links import names_of_transactions
from isthmus.model.lane import Lane, LaneKey, LaneReport, LaneState
from isthmus.model.link import Limits
from isthmus.model.links.pauses import Pauses
from isthmus.model.links.transform import Transform
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem
from isthmus.run.opened import OpenLink
from isthmus.run.workers import Workers
from isthmus.spark.leases.driver import LeaseScheduler
from isthmus.spark.leases.lease import with_transforms
from isthmus.spark.leases.progress import RunProgress
from isthmus.spark.transforms.expressions import by_expressions, require_sound
from isthmus.spark.transforms.schemawatch import SchemaWatch

if TYPE_CHECKING:
    from pyspark import SparkContext


class LeasedLanes:
    """The lanes that are `wanted` and that no pause covers, run by leases. `progress` counts what they copy."""

    def __init__(
        self, link: OpenLink, wanted: Callable[[], Sequence[Lane]], pauses: Callable[[], Pauses], progress: RunProgress
    ) -> None:
        self._link = link
        self._wanted = wanted
        self._pauses = pauses
        self._progress = progress
        self._limits, self._transforms = link.context.limits, link.context.transforms
        cursors = lane_cursors(link.name, link.ledger.documents).values()
        begun = {cursor.transform for cursor in cursors}
        first = [each for each in link.context.transforms if each.digest not in begun]
        self._schemas = SchemaWatch(link.context.source, first)
        self._scheduler: LeaseScheduler | None = None
        self._known: dict[LaneKey, LaneReport] = {}
        self._idle = IdleLanes(link.source, link.target)
        self.watch = TransactionWatch(link.source)
        self._names = TransactionNames(link.source)
        self._audit = Audit(link.context.target)
        self._audited_at = time.monotonic()

    async def run(self, workers: Workers) -> None:
        """Run leases until cancelled, which ends them in good order.

        :raises Fenced: Another controller has taken the link over.
        :raises HostError: Spark cannot be started, or has ended.
        :raises ConfigError: Spark does not understand an expression of a transform.
        """
        spark, slots = await workers.ready()
        if prepared := by_expressions(self._transforms, ()):
            # A mistake in them is found before the first byte.
            await asyncio.to_thread(require_sound, spark, prepared)
        context = replace(self._link.context, limits=self._limits, transforms=self._transforms)
        scheduler = LeaseScheduler(spark, self._link.ledger, context, slots=slots, progress=self._progress)
        self._scheduler = scheduler
        self.assign()
        tasks = asyncio.create_task(scheduler.run()), asyncio.create_task(self._follow_schemas(spark, scheduler))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_schemas(self, spark: SparkContext, scheduler: LeaseScheduler) -> None:
        """Look at the schemas that transforms decode by, again and again: leases get what is new at once.

        :raises ConfigError: An expression does not go with them, and nothing was copied by it yet.
        """
        try:
            while True:
                await self._schemas.look(spark, self._transforms, self._wanted())
                scheduler.transform(self._transforms, self._schemas.columns)
                self.assign()
                await self._schemas.pause()
        finally:
            await self._schemas.aclose()

    def assign(self) -> None:
        """Assign to leases the lanes that are to run by now, those whose schemas were looked at."""
        if self._scheduler is not None:
            self._scheduler.distribution.assign(self._schemas.select_seen(self.runnable(), self._transforms))

    def forget(self, topics: Container[TargetTopic]) -> None:
        """Report only lanes into these topics from now on."""
        self._known = {key: report for key, report in self._update_known().items() if key.topic in topics}

    def limit(self, limits: Limits) -> None:
        """Limit what the link may take from now on."""
        self._limits = limits
        if self._scheduler is not None:
            self._scheduler.limit(limits)

    def transform(self, transforms: Sequence[Transform]) -> None:
        """Let leases that begin from now on change records by these as well."""
        self._transforms = with_transforms(self._transforms, transforms)
        if self._scheduler is not None:
            self._scheduler.transform(self._transforms, self._schemas.columns)

    def runnable(self) -> list[Lane]:
        """Return the lanes that are to run now."""
        pauses = self._pauses()
        former = {ids.former for ids in self._link.rebuilt.values()}
        # Lanes that were planned before a topic was to continue mapped would look for their position at the same
        # offsets.
        parted = {ids.target for ids in self._link.parted.values()}
        lanes = (
            lane
            for lane in self._wanted()
            if not pauses.covers(lane.target_topic)
            and lane.target_topic_id not in former
            and (lane.is_mapped or lane.target_topic_id not in parted)
        )
        return [self._audit.add_doubts(lane) for lane in lanes]

    # Reports

    @property
    def problem(self) -> Problem | None:
        """The problem of a lease that ended and should not have."""
        return None if self._scheduler is None else self._scheduler.problem

    @property
    def has_begun(self) -> bool:
        """Whether a lease has been heard, unless there is no work for one. Spark takes seconds to start."""
        return bool(self._known) or not self.runnable()

    def reports(self) -> dict[LaneKey, LaneReport]:
        """Return the last report of every lane, including those that may not run now."""
        reports = dict(self._update_known())
        for key, find in self._audit.found.items():
            report = reports.get(key, LaneReport(key=key, state=LaneState.STARTING))
            reports[key] = replace(report, state=LaneState.FOREIGN_WRITE, problem=find.problem)
        for key, log in self._idle.logs.items():
            report = reports.get(key, LaneReport(key=key, state=LaneState.STARTING))
            end = max(report.source_end, log.stable_end)
            stable_end = -1 if report.stable_end < 0 else log.stable_end
            reports[key] = replace(report, source_end=end, source_log_end=max(log.end, end), stable_end=stable_end)
        return reports

    def _update_known(self) -> Mapping[LaneKey, LaneReport]:
        """Take in the new reports of the lanes themselves; return the last of each."""
        if self._scheduler is not None:
            self._known.update((report.key, report) for report in self._scheduler.reports())
        return self._known

    @property
    def idle(self) -> frozenset[LaneKey]:
        """The lanes that do not run now: the end of their source is looked at here."""
        return frozenset(self._idle.logs)

    async def look_at_transactions(self) -> None:
        """Look now and then which open transactions lanes wait for, and for the names of those that they copy.

        :raises ClusterError: The ledger cannot be written.
        :raises Fenced: Another controller has taken the link over.
        """
        reports = self.reports()
        sources = {lane.target_topic: lane.source_topic for lane in self._wanted()}
        await self.watch.look_when_due(reports, sources)
        known = names_of_transactions(self._link.name, self._link.ledger.documents)
        if names := await self._names.look_when_due(reports.values(), known):
            await self._link.ledger.write(TransactionNamesDocument(link=self._link.name, names=names))

    async def measure_idle(self, *, ignores_open: bool = False) -> bool:
        """Look where the source ends in lanes that do not run; return whether the target has it all, see `IdleLanes`.

        :raises ClusterError: A cluster does not answer.
        """
        runnable, reports = {lane.key for lane in self.runnable()}, self.reports()
        idle = [
            lane
            for lane in self._wanted()
            if lane.key not in runnable or (lane.key in reports and reports[lane.key].state.is_terminal)
        ]
        cursors = lane_cursors(self._link.name, self._link.ledger.documents)
        is_complete = await self._idle.look(idle, cursors, ignores_open=ignores_open)
        return is_complete and not (self._audit.found and idle)

    async def audit_when_due(self) -> None:
        """Compare both logs of each lane, every now and then.

        :raises ClusterError: The target does not answer.
        """
        self._audit.review(self._wanted(), self._last_words())
        if time.monotonic() - self._audited_at > self._link.timings.audit_s:
            self._audited_at = time.monotonic()
            lanes = self.runnable()
            ranges = await log_ranges(self._link.target, [(lane.target_topic, lane.partition) for lane in lanes])
            # The logs first, so that the reports read afterwards are later.
            self._audit.look(lanes, ranges.values, self._last_words(), self._link.ledger.beat)

    def _last_words(self) -> dict[LaneKey, LaneWord]:
        beats = self._progress.beats
        return {key: LaneWord(report, beats.get(key, -1)) for key, report in self._update_known().items()}
