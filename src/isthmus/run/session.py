"""A link at work: its ledger open, its topics watched, its leases running."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from isthmus.errors import ClusterError, IsthmusError
from isthmus.groups.carrier import GroupCarrier
from isthmus.lanes.catchup import Arrival
from isthmus.ledger.documents.kinds import (
    DeclarationDocument,
    Document,
    FiltersDocument,
    PartedDocument,
    PauseDocument,
    ProgressDocument,
    RecoveryDocument,
    SettingsDocument,
    TaskPauseDocument,
    TopicDocument,
    VerificationDocument,
    kind_of,
)
from isthmus.ledger.documents.loops import verify_loop
from isthmus.ledger.leases import leases_of
from isthmus.loops.loop import LinkView
from isthmus.loops.runner import LoopRunner, LoopRunners
from isthmus.loops.states import data_loop, groups_loop, topics_loop
from isthmus.memory.claims import Claims, Selects
from isthmus.memory.links import LedgerMemory, pauses, recollect, recorded_topics
from isthmus.memory.others import selection
from isthmus.model.configuration import LedgerSettings
from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.link import Link
from isthmus.model.links.pauses import Pauses
from isthmus.model.loop import DATA_TASK, GROUPS_TASK, TOPICS_TASK, LoopProgress
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem, problem_of
from isthmus.run.arriving import Approach
from isthmus.run.deletions import SourceDeletions
from isthmus.run.leasing import LeasedLanes
from isthmus.run.opened import OpenLink
from isthmus.run.record import LinkRecord
from isthmus.run.sessionview import SessionView
from isthmus.run.settings import LinkSettings
from isthmus.run.workers import Workers
from isthmus.spark.leases.progress import RunProgress
from isthmus.status.tasks import LOOPS
from isthmus.topics.beginnings import Beginnings
from isthmus.topics.firstlook import first_look_of
from isthmus.topics.loop import TopicLoop
from isthmus.topics.plan import LinkPlan, TopicPlan

Respect = Callable[[Selects], Awaitable[None]]
"""Reads what links of others write to topics."""
_PAUSES: Final = (PauseDocument.KIND, TaskPauseDocument.KIND)
_SAID: Final = (DeclarationDocument.KIND, FiltersDocument.KIND, SettingsDocument.KIND)
_RECOVERED: Final = (RecoveryDocument.KIND, PartedDocument.KIND)
_HASTE: Final = 0.8
"""Topics are looked for a little more often than asked, so that new ones run within that time."""


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Links of others: read through the ledgers of all clusters, and notified through that of the target."""

    respect: Respect
    record: LinkRecord

    async def look(self, topics: Collection[str]) -> None:
        await self.respect(lambda topic: topic in topics)

    async def tell(self, topics: Collection[TopicPlan]) -> frozenset[TargetTopic]:
        return await self.record.announce(topics)

    async def leave(self, topics: Iterable[TopicPlan]) -> None:
        await self.record.reports(topics, {})


class Session:
    """One link from the moment its ledger is open until it is closed: its settings, topics, lanes, groups and loops.
    Each keeps its own state; here they are put together.

    `has_claimed` is set once the topics it wants were chosen, or could not be. It learns which topics links of others
    write with `respect`. `progress` counts what it copies, `settings` are those of the ledger's topic.

    A cluster that cannot be looked at for a while stops nothing else.
    """

    def __init__(
        self,
        link: OpenLink,
        written: Link,
        *,
        claims: Claims,
        has_claimed: asyncio.Event,
        respect: Respect,
        progress: RunProgress,
        settings: LedgerSettings,
    ) -> None:
        source, target, ledger, timings = link.source, link.target, link.ledger, link.timings
        self._open = link
        self._settings = LinkSettings(written, ledger, self._prepare)
        written = self._settings.link
        self._respect = respect
        self._record = LinkRecord(ledger)
        self._topics = TopicLoop(
            written,
            source,
            target,
            claims=claims,
            recorded=recorded_topics(link.name, ledger.documents),
            remember=self._record.write_begun,
            # Distributors write between others, and their headers tell what came by them.
            begin=None if written.level else Beginnings(ledger, target).write_down,
            neighbours=_Neighbours(respect, self._record),
            first_look=first_look_of(link.name, ledger.documents),
            note=self._record.write_look,
            forget=self._record.forgotten,
            has_claimed=has_claimed,
            positions=self._positions,
            refused_s=timings.refused_s,
        )
        self._lanes = LeasedLanes(link, lambda: self._topics.lanes, lambda: self.paused, progress)
        self._groups = GroupCarrier(written, source, target, ledger, timings)
        self._deletions = SourceDeletions(
            link, lambda: self._settings.link, lambda: self.plan, lambda: self.paused, self._forget, settings
        )
        self._loops = LoopRunners(
            [LoopRunner(make(), written, self._see, ledger, lambda: self.paused, timings.outage_s) for make in LOOPS]
        )
        self._approach = Approach(link, self._topics, self._lanes, self._groups, self._loops, lambda: self.paused)
        self._has_claimed = has_claimed
        self._away: Problem | None = None
        self._has_begun = False
        self._stirred = asyncio.Event()
        self._parting = asyncio.Event()
        ledger.listen(self._hear)
        ledger.go_by(self._settings.attached_said)

    def _positions(self) -> dict[LaneKey, int]:
        return {key: report.position for key, report in self._lanes.reports().items()}

    # Work

    def follow(self, link: Link) -> None:
        """Apply other settings soon, without a new lease; detached namespaces are dropped at once."""
        self._settings.follow(link)
        self._stirred.set()
        self._parting.set()

    async def run(self, workers: Workers, stopping: asyncio.Event) -> None:
        """Keep the lanes running until `stopping` is set, and end the leases in good order.

        :raises Fenced: Another controller has taken the link over.
        :raises HostError: Spark cannot be started.
        """
        follow = asyncio.create_task(self._open.ledger.run())
        leases = asyncio.create_task(self._lanes.run(workers))
        beside = asyncio.create_task(self._keep_alike())
        halt = asyncio.create_task(stopping.wait())
        try:
            done, _ = await asyncio.wait((follow, leases, beside, halt), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            tasks = (halt, beside, leases, follow)
            try:
                await self._end(*tasks)
            finally:
                # An end that takes too long is given up: no task may go on with clients that are closed.
                await _cancel(*tasks)

    async def _keep_alike(self) -> None:
        """Run everything beside the copying. Where a namespace is detached all of it ends and begins again without
        that: only then are its lanes taken from their leases, so that a verb that waits for their end waits for
        everything.
        """
        while True:
            watch = asyncio.create_task(self._watch())
            # Not awaited: their failure never ends the copying.
            groups = asyncio.create_task(self._groups.run())
            loops = asyncio.create_task(self._loops.run())
            deletions = asyncio.create_task(self._deletions.run())
            parting = asyncio.create_task(self._await_parting())
            try:
                done, _ = await asyncio.wait((watch, parting), return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    await task
            finally:
                await _cancel_in_order(parting, deletions, groups, loops, watch)
            # The settings may have been renewed once more before the end.
            self._settings.part()
            self._follow_now(self._settings.link)
            self._open.ledger.go_by(self._settings.attached_said)

    async def _await_parting(self) -> None:
        """Wait until a namespace was detached."""
        while True:
            await self._parting.wait()
            self._parting.clear()
            if self._settings.part() is not None:
                return

    async def _end(self, *tasks: asyncio.Task[Any]) -> None:
        """End the tasks one after another, the one that follows the ledger last: leases need it to say farewell."""
        *before, follow = tasks
        for task in before:
            await _cancel(task)
        if not follow.done():
            for farewell in (self._groups.remember, self._write_reports, self._record.write_farewell):
                with contextlib.suppress(IsthmusError, TimeoutError):
                    async with asyncio.timeout(self._open.timings.farewell_s):
                        await farewell()

    async def _watch(self) -> None:
        while True:
            try:
                await self._renew_settings()
                self._topics.accept(self._open.rebuilt, self._open.parted)
                await self._topics.refresh(is_paused=self.paused.stops(TOPICS_TASK))
                if not self._has_begun:
                    # What others write counts again only when there is a new topic.
                    self._open.target.dismiss(LedgerMemory)
                await self._lanes.audit_when_due()
                await self._write_reports()
                await self._lanes.measure_idle()
                await self._lanes.look_at_transactions()
            except ClusterError as error:
                self._away = problem_of(error)
            else:
                self._away = None
            self._has_claimed.set()
            self._lanes.assign()
            self._has_begun = self.has_begun
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.link.topics_interval_s * _HASTE):
                    await self._stirred.wait()
            self._stirred.clear()

    async def _prepare(self, link: Link) -> None:
        """Read what others have written of what the link is to copy from now on.

        :raises ClusterError: It cannot be read now.
        """
        await self._respect(selection([link]))
        if set(link.namespaces) - set(self._topics.namespaces):
            known = await recollect(link.name, self._open.target)
            self._topics.recall(recorded_topics(link.name, known.documents))

    async def _renew_settings(self) -> None:
        link = await self._settings.renew()
        if link is not None:
            self._lanes.limit(link.limits)
            self._lanes.transform(link.transforms)
            self._follow_now(link)

    def _follow_now(self, link: Link) -> None:
        for part in (self._topics, self._groups, self._loops):
            part.follow(link)
        self._lanes.assign()
        # Topics that the link has let go of must not be reported as if they were still in the way.
        self._forget_lanes()

    async def _forget(self, topics: Collection[TargetTopic]) -> None:
        """Make the ledger and all parts forget these topics, which the source no longer has."""
        await self._record.forgotten(topics)
        for topic in topics:
            self._topics.forgotten(topic)
        self._forget_lanes()

    def _forget_lanes(self) -> None:
        """Make the lanes forget those of topics that are not planned any more."""
        self._lanes.forget(() if self.plan is None else {topic.topic for topic in self.plan.topics})

    async def _write_reports(self) -> None:
        """Write down what is refused or has ended and why, and what was never copied."""
        topics = () if self.plan is None else self.plan.topics
        await self._record.reports(topics, self.reports())
        await self._record.loops(self._main_loops())

    def _hear(self, key: str, document: Document | None) -> None:
        if kind_of(key) == TopicDocument.KIND and document is None:
            # An operator has the link forget a topic that its source no longer has.
            self._topics.forgotten(TargetTopic(key.removeprefix(TopicDocument.key_of(self._open.name, ""))))
            self._forget_lanes()
        elif kind_of(key) in _PAUSES:
            self._lanes.assign()
            self._loops.stir()
            self._stirred.set()
        elif kind_of(key) in _SAID:
            self._settings.reread()
            self._stirred.set()
            # A namespace may have been detached.
            self._parting.set()
        elif kind_of(key) in _RECOVERED:
            self._stirred.set()
        elif isinstance(document, ProgressDocument) and any(r.state.is_terminal for r in document.reports):
            # Groups must not be carried to a topic that is no mirror any more.
            self._stirred.set()

    # State

    @property
    def plan(self) -> LinkPlan | None:
        """The plan that is carried out, `None` until the clusters were first looked at."""
        return self._topics.plan_with(self._deletions.problems)

    @property
    def has_begun(self) -> bool:
        """Whether the clusters were looked at, and a lease has been heard unless there was no work for one: a link that
        has begun does not begin again when there is some.
        """
        return self._has_begun or (self.plan is not None and self._lanes.has_begun)

    @property
    def paused(self) -> Pauses:
        """What an operator has paused."""
        return pauses(self._open.name, self._open.ledger.documents)

    def reports(self) -> dict[LaneKey, LaneReport]:
        """Return the last report of every lane, including those that may not run now."""
        return self._lanes.reports()

    def view(self, now: float) -> SessionView:
        """Return all that is known of the link at this moment (monotonic s)."""
        ledger, lanes = self._open.ledger, self._lanes
        verified = VerificationDocument.find(ledger.documents, self._open.name)
        problem = lanes.problem if ledger.problem is None else problem_of(ledger.problem)
        return SessionView(
            plan=self.plan,
            namespaces=self._topics.namespaces,
            paused=self.paused,
            problem=self._away or problem,
            reports=self.reports(),
            idle=lanes.idle,
            looked_s=self._topics.looked_s,
            waiting_s=lanes.watch.ages_s(now),
            transactions=lanes.watch.transactions,
            groups=self._groups.progress,
            loops=(*self._main_loops(), *self._loops.progress, verify_loop(verified)),
            leases=leases_of(self._open.name, ledger.documents, ledger.generation, lambda _: None),
            silence_s=ledger.silence_s(now),
            is_held=ledger.is_held,
            is_away=self._away is not None,
            has_begun=self.has_begun,
        )

    def _main_loops(self) -> tuple[LoopProgress, ...]:
        paused, carrier, groups = self.paused, self._groups, self._settings.link.groups
        return (
            data_loop(self.reports().values(), self._lanes.problem, is_paused=paused.stops(DATA_TASK)),
            topics_loop(self.plan, self._away, is_paused=paused.stops(TOPICS_TASK)),
            groups_loop(carrier.problem, is_configured=groups.is_configured, is_paused=paused.stops(GROUPS_TASK)),
        )

    async def arrival(self, *, ignores_open: bool) -> Arrival:
        """Return how far the link is on its way to what the source had; see `CatchUp`.

        Records that could not be copied, and how the groups stand, are in the ledger when it is under way no more: the
        caller may look at once.

        :raises ClusterError: A cluster does not answer, or the ledger cannot be written.
        """
        plan = self.plan
        arrival = await self._approach.look(ignores_open=ignores_open)
        if plan is None or arrival is Arrival.UNDER_WAY:
            return Arrival.UNDER_WAY
        await self._write_reports()
        await self._groups.remember()
        if arrival is Arrival.HELD_UP or not plan.is_whole:
            return Arrival.HELD_UP
        is_complete = await self._lanes.measure_idle(ignores_open=ignores_open)
        return Arrival.CAUGHT_UP if is_complete else Arrival.HELD_UP

    def _see(self) -> LinkView | None:
        if self.plan is None:
            return None
        link = self._open
        return LinkView(
            link=self._settings.link,
            source=link.source,
            target=link.target,
            plan=self.plan,
            reports=self.reports(),
            groups=self._groups.plan,
            documents=link.ledger.documents,
            remember=link.ledger.write,
        )


async def _cancel_in_order(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks one after another; where that takes too long, all at once."""
    try:
        for task in tasks:
            await _cancel(task)
    finally:
        await _cancel(*tasks)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
