"""Runs the loops of a link concurrently: an error in one loop does not end the others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, Fenced
from isthmus.ledger.documents.kinds import LoopDocument
from isthmus.ledger.link import LinkLedger
from isthmus.loops.loop import Holding, Hurried, LinkView, Loop
from isthmus.model.link import Link
from isthmus.model.links.pauses import Pauses
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.problem import Problem, problem_of
from isthmus.model.process.timings import USUAL

_log = logging.getLogger(__name__)
WAIT_S: Final = 0.25
HURRY_S: Final = 1.0
"""How often (s) to check whether a loop is waited for."""
AGAIN_S: Final = 30.0
"""When (s) to retry a change that was rejected or is impossible for now: an operator has to mend that."""
Viewing = Callable[[], LinkView | None]
"""Returns the current view of the link; `None` until its clusters were first looked at."""


class LoopRunner:
    """Runs one loop as long as `run` runs. `problem` is why it is IN_ERROR.

    A cluster that is unreachable is asked again after `outage_s`.
    """

    def __init__(
        self,
        loop: Loop,
        link: Link,
        look: Viewing,
        ledger: LinkLedger,
        paused: Callable[[], Pauses],
        outage_s: float = USUAL.outage_s,
    ) -> None:
        self.problem: Problem | None = None
        self.passes = 0
        self._loop = loop
        self._link = link
        self._look = look
        self._ledger = ledger
        self._paused = paused
        self._outage_s = outage_s
        self._is_away = False
        self._stirred = asyncio.Event()

    @property
    def progress(self) -> LoopProgress:
        """The progress of the loop."""
        if self._loop.interval_s(self._link) is None:
            return LoopProgress(loop=self._loop.name, state=LoopState.NOT_CONFIGURED)
        state = LoopState.ACTIVE if self.problem is None else LoopState.IN_ERROR
        found = LoopProgress(loop=self._loop.name, state=state, problem=self.problem)
        return found.paused_by(is_paused=self._is_paused())

    def _is_paused(self) -> bool:
        return self._paused().stops(self._loop.name)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do."""
        return self._loop.interval_s(self._link) is None or self._is_paused()

    def follow(self, link: Link) -> None:
        """Go on with other settings, at once."""
        self._link = link
        self.stir()

    def stir(self) -> None:
        """Look now."""
        self._stirred.set()

    async def run(self) -> None:
        """Look and change, again and again, until cancelled.

        :raises Fenced: Another controller has taken the link over.
        """
        try:
            while True:
                await self._cycle()
        finally:
            await self._close_loop()

    async def _cycle(self) -> None:
        self._stirred.clear()
        interval_s = self._loop.interval_s(self._link)
        view = None if self.is_idle else self._look()
        # A loop that is not configured sleeps until new settings wake it.
        pause_s = None if interval_s is None else WAIT_S
        if view is not None and interval_s is not None:
            await self._pass(view)
            pause_s = self._pause_s(interval_s)
        elif self.is_idle:
            await self._close_loop()
        with contextlib.suppress(ClusterError):
            await self._write_progress()
        await self._rest(pause_s)

    async def _rest(self, pause_s: float | None) -> None:
        """Wait for `pause_s`, for ever with `None`; end earlier when it is stirred, or is waited for."""
        deadline = None if pause_s is None else Deadline(pause_s)
        while deadline is None or not deadline.has_passed:
            left_s = None if deadline is None else deadline.left_s
            if left_s is not None and isinstance(self._loop, Hurried):
                left_s = min(left_s, HURRY_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._stirred.wait()
            view = self._look() if isinstance(self._loop, Hurried) and not self._stirred.is_set() else None
            if self._stirred.is_set() or (view is not None and self._is_awaited(view)):
                return

    def _is_awaited(self, view: LinkView) -> bool:
        return isinstance(self._loop, Hurried) and self._loop.is_awaited(view)

    async def _close_loop(self) -> None:
        if isinstance(self._loop, Holding):
            await self._loop.aclose()

    def _pause_s(self, interval_s: float) -> float:
        if self._is_away:
            return self._outage_s
        return interval_s if self.problem is None else min(interval_s, AGAIN_S)

    async def _pass(self, view: LinkView) -> None:
        self._is_away = False
        try:
            changes = await self._loop.look(view)
            left = await self._loop.apply(view, changes)
            if changes:
                _log.info(
                    "link %s: %s: %d of %d done",
                    self._link.name,
                    self._loop.name,
                    len(changes) - len(left),
                    len(changes),
                )
            self.problem = next((change.problem for change in left if change.problem is not None), None)
        except Fenced:
            raise
        except ClusterError as error:
            self.problem, self._is_away = problem_of(error), error.retryable
        except Exception as error:  # noqa: BLE001 - a bug in here must not stop the data
            _log.exception("%s of link %s", self._loop.name, self._link.name)
            message = f"{type(error).__name__}: {error}"
            self.problem = Problem(message, "This is a bug in Isthmus: please report it.")
        self.passes += 1

    async def _write_progress(self) -> None:
        now = self.progress
        document = LoopDocument(link=self._link.name, loop=now.loop, state=now.state, problem=now.problem)
        known = self._ledger.documents.get(document.key)
        if document != known and (known is not None or now.state is not LoopState.NOT_CONFIGURED):
            await self._ledger.write(document)


class LoopRunners:
    """All loops of a link."""

    def __init__(self, runners: Sequence[LoopRunner]) -> None:
        self._runners = tuple(runners)
        self._awaited: tuple[int, ...] | None = None

    @property
    def progress(self) -> tuple[LoopProgress, ...]:
        """The progress of all loops."""
        return tuple(runner.progress for runner in self._runners)

    def follow(self, link: Link) -> None:
        """Go on with other settings."""
        for runner in self._runners:
            runner.follow(link)

    def stir(self) -> None:
        """Have each loop look now."""
        for runner in self._runners:
            runner.stir()

    def catch_up(self) -> bool:
        """Have each loop look and apply; whether all have since the first call. Once true it stays true."""
        if self._awaited is None:
            # A pass that is under way may have seen an older state.
            self._awaited = tuple(runner.passes + 2 for runner in self._runners)
        pairs = zip(self._runners, self._awaited, strict=True)
        waiting = [runner for runner, passes in pairs if runner.passes < passes and not runner.is_idle]
        for runner in waiting:
            runner.stir()
        return not waiting

    async def run(self) -> None:
        """Keep all of them going until cancelled.

        :raises Fenced: Another controller has taken the link over.
        """
        await asyncio.gather(*(runner.run() for runner in self._runners))
