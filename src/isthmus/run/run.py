"""One link while it is run: retried while a cluster is away, ended by an error that needs an operator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from isthmus.errors import ClusterError, InvariantError, IsthmusError, Occupied
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.lanes.catchup import Arrival
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.view import Bookmark
from isthmus.local.host import whereabouts
from isthmus.memory.claims import Claims, Selects
from isthmus.memory.identity import cluster_ids, pin_clusters, producer_identity
from isthmus.memory.links import now_ms
from isthmus.memory.others import claims_around, selection
from isthmus.memory.switching import check_choice
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.links.progress import LinkProgress
from isthmus.model.problem import Problem
from isthmus.run.following import LinkChange
from isthmus.run.opened import OpenLink
from isthmus.run.session import Session
from isthmus.run.sessionview import SessionView, progress_of
from isthmus.run.state.candidacy import WhenOccupied
from isthmus.run.state.course import RunCourse, Stage
from isthmus.run.state.vigil import Turn
from isthmus.run.succession import Succession
from isthmus.run.workers import Workers
from isthmus.spark.leases.lease import LinkContext
from isthmus.spark.leases.progress import RunProgress
from isthmus.topics.checks.safeguards import safeguards

_DOUBT_S: Final = 0.1
_log = logging.getLogger(__name__)


class LinkRun:
    """One link. `run` returns when it was stopped, or cannot continue; then `error` says why.

    Topics that `earlier` links want too are theirs: it waits until each has claimed what it wants (`has_claimed`), or
    could not. `beside` are all that this process runs, itself included. `when_occupied` says what to do about a link
    that another controller runs. What it copies is counted on top of `progress`.
    """

    def __init__(
        self,
        link: Link,
        configuration: Configuration,
        claims: Claims,
        earlier: Sequence[LinkRun],
        *,
        beside: Sequence[LinkRun] = (),
        when_occupied: WhenOccupied = WhenOccupied.LEAVE,
        progress: RunProgress | None = None,
    ) -> None:
        self.link = link
        self._configuration = configuration
        self.has_claimed = asyncio.Event()
        self._claims = claims
        self._earlier, self._beside = tuple(earlier), beside
        self._course = RunCourse()
        self._warned = ""
        self._succession = Succession(link.name, when_occupied, configuration.timings.silence_s)
        self._candidacy = self._succession.candidacy
        self._started_ms = now_ms()
        self._session: Session | None = None
        self._progress = progress or RunProgress()
        self._stopping = asyncio.Event()

    def follow(self, change: LinkChange) -> None:
        """Apply the settings that may change while a link runs."""
        if change.link != self.link and change.followed:
            _log.warning("link %s: %s changed, and is followed", self.link.name, ", ".join(change.followed))
            if self._session is not None:
                self._session.follow(change.link)
        self.link = change.link

    def stop(self) -> None:
        """End the leases in good order; `run` returns when that is done."""
        self._stopping.set()

    @property
    def error(self) -> IsthmusError | None:
        """What ended the run, if it cannot continue."""
        return self._course.error

    @property
    def was_opened(self) -> bool:
        """Whether both clusters have answered and the ledger was opened."""
        return self._session is not None

    @property
    def is_at_work(self) -> bool:
        """Whether it runs now, and no other process runs the link."""
        return self._course.is_at_work

    def give_up(self) -> None:
        """Do not wait any longer for a cluster that never answered: that is the link's error."""
        if self._course.give_up():
            self.stop()

    async def run(self, workers: Workers) -> None:
        """Run the link. A cluster that does not answer is waited for; nothing is raised."""
        try:
            await self._run_until_over(workers)
        finally:
            self._course.end()
            self.has_claimed.set()

    async def _run_until_over(self, workers: Workers) -> None:
        while not self._stopping.is_set():
            link = self.link
            try:
                await self._run_once(workers)
                break
            except IsthmusError as error:
                if self._warned != error.message:
                    # It is retried every two seconds: warn once.
                    self._warned = error.message
                    _log.warning("link %s: %s", self.link.name, error)
                # If the settings changed meanwhile, the error says nothing about the new ones.
                if self._course.fail(error, is_outdated=self.link != link):
                    break
            except Exception as error:  # noqa: BLE001 - a bug of ours in one link ends no other
                _log.exception("link %s", self.link.name)
                message = f"{type(error).__name__}: {error}"
                self._course.fail(InvariantError(message, hint="This is a bug in Isthmus: please report it."))
                break
            self.has_claimed.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._configuration.timings.retry_s):
                    await self._stopping.wait()

    async def _run_once(self, workers: Workers) -> None:
        link, settings = self.link, self._configuration
        async with ClientSession() as clients:
            source, target = clients.client(link.source), clients.client(link.target)
            source_id, target_id = await cluster_ids(link, source, target)
            # Whatever cluster answers at these addresses later, the link belongs to the two it began with.
            self.link, link = (pin_clusters(each, source_id, target_id) for each in (self.link, link))
            self._course.reach()
            # First at the same time as all other links, as it may take a while; and again when everything else is done.
            if not await self._wait_until_free(target):
                return
            self._claims.doubt(link.name)
            await self._respect_others(source, target)
            if not await self._wait_until_free(target):
                return
            ledger = LinkLedger(
                target,
                link.name,
                replication_factor=settings.ledger.replication_factor,
                whereabouts=whereabouts(),
                started_ms=self._started_ms,
            )
            try:
                await self._open(ledger)
                # No other controller has the link by now, so none lets it change to another leaf.
                await check_choice(link, source)
                producer = await producer_identity(ledger, target, link, source_id=source_id, target_id=target_id)
                context = LinkContext(
                    link=link.name,
                    source=link.source,
                    target=link.target,
                    producer=producer,
                    limits=link.limits,
                    expiration_ms=(await safeguards(target)).expiration_ms or 0,
                    source_mark=source.companion(Bookmark),
                    transforms=link.transforms,
                )
                session = Session(
                    OpenLink(context=context, source=source, target=target, ledger=ledger, timings=settings.timings),
                    link,
                    claims=self._claims,
                    has_claimed=self.has_claimed,
                    respect=partial(self._respect, source, target),
                    progress=self._progress,
                    settings=settings.ledger,
                )
                self._session = session
                self._course.open()
                if self.link != link:
                    # Settings that changed while the link was opened.
                    session.follow(self.link)
                await session.run(workers, self._stopping)
            finally:
                ledger.close()

    async def _wait_until_free(self, target: Client) -> bool:
        """Wait until no other process runs the link; return whether that is so, `False` if this run is to stop."""
        free = asyncio.create_task(self._succession.wait(target, self._tell))
        halt = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((free, halt), return_when=asyncio.FIRST_COMPLETED)
            if free.done():
                await free
            return not self._stopping.is_set()
        finally:
            for task in (free, halt):
                task.cancel()
            await asyncio.gather(free, halt, return_exceptions=True)

    def _tell(self, problem: Problem) -> None:
        _log.info("link %s: %s", self.link.name, problem.message)
        self._course.wait(problem)
        if self.is_standing_by:
            # What the link wants is in the ledger of the process that runs it.
            self.has_claimed.set()

    @property
    def is_standing_by(self) -> bool:
        """Whether another controller runs the link, whose end is awaited."""
        return self._candidacy.is_standing_by

    @property
    def is_run_elsewhere(self) -> bool:
        """Whether another controller runs the link."""
        return self.is_standing_by or isinstance(self.error, Occupied)

    async def _open(self, ledger: LinkLedger) -> None:
        try:
            await ledger.open()
        finally:
            self._candidacy.fence(ledger.generation)
        self._candidacy.take()

    async def _respect_others(self, source: Client, target: Client) -> None:
        """Leave topics to links that were there first: earlier in the file, or run by others."""
        for run in self._earlier:
            await run.has_claimed.wait()
        # The link's own filters may have changed since the configuration was read.
        links = (self.link if each.name == self.link.name else each for each in self._configuration.links)
        await self._respect(source, target, selection(links))

    async def _respect(self, source: Client, target: Client, selects: Selects) -> None:
        """Leave topics that the link is to mirror from now on to the links that write them already."""
        free = await self._find_free_links()
        # Links that others run are no longer those of this process, and for later ones it is unknown yet.
        here = [run for run in self._earlier if not run.is_run_elsewhere]
        here += [run for run in self._beside if run is not self and run.is_at_work and run not in here]
        own = [self.link, *(run.link for run in here)]
        async with ClientSession() as session:
            others = map(session.client, self._configuration.clusters)
            for heard in await claims_around(source, target, others, own, selects, free):
                self._claims.hear(heard)

    async def _find_free_links(self) -> list[Link]:
        """Return the links that this process runs, or is about to, because no other process does, after waiting for
        their former controllers. Otherwise each link would wait as long again.
        """
        while any(run.is_in_doubt for run in self._beside):
            await asyncio.sleep(_DOUBT_S)
        return [run.link for run in self._beside if run.is_free]

    @property
    def is_in_doubt(self) -> bool:
        """Whether it will be known soon if the link's former controller is gone."""
        return self._candidacy.is_in_doubt(time.monotonic())

    @property
    def is_free(self) -> bool:
        """Whether no other process was found to run the link."""
        return self._candidacy.turn is Turn.FREE and self.error is None

    def progress(self) -> LinkProgress:
        """Return how the link stands at this moment, or stood when it ended."""
        now, session = time.monotonic(), self._session
        return progress_of(
            self.link,
            self._course,
            SessionView() if session is None else session.view(now),
            self._progress,
            is_standing_by=self.is_standing_by,
            now=now,
            at_ms=now_ms(),
        )

    @property
    def copied(self) -> RunProgress:
        """The records copied so far, for a run that continues in its place."""
        return self._progress

    @property
    def latency(self) -> list[int]:
        """The latencies of all records copied, as a histogram."""
        return self._progress.latency

    async def arrival(self, *, ignores_open: bool) -> Arrival:
        """Return how far the link is on its way to what the source had, see `CatchUp`."""
        if self.error is not None:
            return Arrival.HELD_UP
        if self._session is None or self._course.stage is not Stage.AT_WORK:
            return Arrival.UNDER_WAY
        try:
            return await self._session.arrival(ignores_open=ignores_open)
        except ClusterError:
            return Arrival.UNDER_WAY
