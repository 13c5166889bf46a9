"""The groups of a running link: carried by one loop, and by another one as soon as settings change."""

from __future__ import annotations

import asyncio
import contextlib

from isthmus.errors import IsthmusError
from isthmus.groups.loop import GroupLoop
from isthmus.groups.plan import GroupsPlan
from isthmus.kafka.client import Client
from isthmus.ledger.link import LinkLedger
from isthmus.model.link import Link
from isthmus.model.links.progress import GroupProgress
from isthmus.model.problem import Problem
from isthmus.model.process.timings import Timings


class GroupCarrier:
    """Carries the groups of one link, if any are configured, as long as `run` is kept running."""

    def __init__(self, link: Link, source: Client, target: Client, ledger: LinkLedger, timings: Timings) -> None:
        self._timings = timings
        self._source, self._target = source, target
        self._ledger = ledger
        self._changed = asyncio.Event()
        self._pass: int | None = None
        self._link = link
        self._loop = self._loop_of(link)

    def _loop_of(self, link: Link) -> GroupLoop | None:
        if not link.groups.is_configured:
            return None
        return GroupLoop(link, self._source, self._target, self._ledger, self._timings)

    def follow(self, link: Link) -> None:
        """Apply other settings, as soon as the work so far is written down."""
        self._link = link
        self._changed.set()

    @property
    def problem(self) -> Problem | None:
        """Why no groups can be carried now, if there is a reason."""
        return None if self._loop is None else self._loop.problem

    @property
    def plan(self) -> GroupsPlan | None:
        """The standing of the groups in all detail, `None` where none are to be carried."""
        return None if self._loop is None else self._loop.plan

    @property
    def progress(self) -> tuple[GroupProgress, ...]:
        """The standing of the groups."""
        plans = () if self._loop is None else self._loop.plan.groups
        return tuple(
            GroupProgress(
                group=plan.group, standing=str(plan.standing), behind_records=plan.behind_records, problem=plan.problem
            )
            for plan in plans
        )

    async def run(self) -> None:
        """Carry groups until cancelled."""
        while True:
            if self._changed.is_set():
                with contextlib.suppress(IsthmusError):
                    await self.remember()
                self._loop, self._pass = self._loop_of(self._link), None
                self._changed.clear()
            running = None if self._loop is None else asyncio.create_task(self._loop.run())
            try:
                await self._changed.wait()
            finally:
                if running is not None:
                    running.cancel()
                    await asyncio.gather(running, return_exceptions=True)

    async def remember(self) -> None:
        """Write down what changed.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The ledger cannot be written.
        """
        if self._loop is not None:
            await self._loop.remember()

    def catch_up(self) -> bool:
        """Request a look at all groups; return whether it was done since the first request."""
        if self._loop is None:
            return True
        if self._pass is None:
            self._pass = self._loop.begin_pass()
        return self._loop.has_ended(self._pass)
