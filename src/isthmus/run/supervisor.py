"""Start and stop the links of one process, as the configuration says at any moment. None disturbs another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from isthmus.memory.claims import Claims
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.run.following import change_of
from isthmus.run.run import LinkRun
from isthmus.run.state.candidacy import WhenOccupied
from isthmus.run.workers import Workers

Takes = Callable[[Link], bool]
"""Whether a link is one of those that a process runs."""
_log = logging.getLogger(__name__)


class Supervisor:
    """The links that run, by the last `configuration` that was taken. `runs` are in the order they came.

    New links of the configuration are started if it `takes` them; by default it takes any if it was given all there
    were, else none. A link that is gone from the configuration is ended in good order; one with a change that needs a
    restart is ended and started again, and so is a changed one that had failed.
    """

    def __init__(
        self,
        configuration: Configuration,
        links: Sequence[Link],
        workers: Workers,
        *,
        when_occupied: WhenOccupied = WhenOccupied.LEAVE,
        takes: Takes | None = None,
    ) -> None:
        self.runs: list[LinkRun] = []
        self.configuration = configuration
        self._workers = workers
        self._when_occupied = when_occupied
        is_whole = len(links) == len(configuration.links)
        self._takes = takes or (lambda _: is_whole)
        self._claims = Claims()
        self._tasks: dict[LinkRun, asyncio.Task[None]] = {}
        self._is_stopping = False
        for link in links:
            self.runs.append(self._make_run(link))

    def _make_run(self, link: Link, former: LinkRun | None = None) -> LinkRun:
        return LinkRun(
            link,
            self.configuration,
            self._claims,
            earlier=self.runs,
            beside=self.runs,
            when_occupied=self._when_occupied,
            progress=None if former is None else former.copied,
        )

    def start(self) -> None:
        """Run the links given at the beginning."""
        for run in self.runs:
            self._start(run)

    def _start(self, run: LinkRun) -> None:
        self._workers.share(len(self.runs))
        self._tasks[run] = asyncio.create_task(run.run(self._workers))

    def stop(self) -> None:
        """End all links in good order; `wait_for_end` when that is done."""
        self._is_stopping = True
        for run in self.runs:
            run.stop()

    @property
    def at_work(self) -> list[Link]:
        """The links whose clusters were reached, and that have not failed."""
        return [run.link for run in self.runs if run.was_opened and run.error is None]

    def is_run(self, link: str) -> bool:
        """Whether this process runs a link, and no other does."""
        return any(run.link.name == link and not run.is_run_elsewhere for run in self.runs)

    @property
    def declared(self) -> frozenset[str]:
        """The links that are not in the file."""
        return self.configuration.declared or frozenset()

    @property
    def has_ended(self) -> bool:
        """Whether there were links and every one has ended."""
        return bool(self.runs) and all(self._tasks[run].done() for run in self.runs if run in self._tasks)

    async def wait_for_end(self, term_s: float) -> bool:
        """Wait until all links have ended, at most `term_s`; return whether they have."""
        tasks = list(self._tasks.values())
        if not tasks:
            return True
        _, late = await asyncio.wait(tasks, timeout=term_s)
        return not late

    async def aclose(self) -> None:
        """Cancel what still runs, whatever it is doing."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def take(self, configuration: Configuration) -> None:
        """Apply the configuration of now."""
        self.configuration = configuration
        written = {link.name: link for link in configuration.links}
        had_links = bool(self.runs)
        for run in list(self.runs):
            link = written.pop(run.link.name, None)
            if link is None:
                _log.warning("link %s is gone from the configuration, and ends", run.link.name)
                await self._end(run)
            elif link.target.alias != run.link.target.alias and not self._takes(link):
                _log.warning("link %s goes into %s now, and ends here", link.name, link.target.alias)
                await self._end(run)
            else:
                await self._follow(run, link)
        for link in filter(self._takes, written.values()):
            if not self._is_stopping:
                _log.warning("link %s is new, and starts", link.name)
                self._add(self._make_run(link))
        if had_links and not self.runs:
            _log.warning("no link is left here: waiting until one is configured or declared")

    def _add(self, run: LinkRun) -> None:
        self.runs.append(run)
        self._start(run)

    async def _follow(self, run: LinkRun, link: Link) -> None:
        change = change_of(run.link, link)
        is_changed = bool(change.waiting) or change.link != run.link
        if change.waiting or (run.error is not None and is_changed):
            why = ", ".join(change.waiting) or "what it failed with"
            _log.warning("link %s: %s changed, and it is restarted", link.name, why)
            place = self.runs.index(run)
            await self._end(run)
            if not self._is_stopping:
                self._add(self._make_run(link, run))
                # At its former place, for callers that list all runs.
                self.runs.insert(place, self.runs.pop())
        else:
            run.follow(change)

    async def _end(self, run: LinkRun) -> None:
        run.stop()
        await asyncio.gather(self._tasks[run], return_exceptions=True)
        self.runs.remove(run)
        del self._tasks[run]
        self._claims.release_all(run.link.name)
        self._workers.share(len(self.runs))
