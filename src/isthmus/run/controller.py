"""Run links: one process, one Spark, as many links as there are. One that fails stops no other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from isthmus.clusters.lastknown.lastknown import remember
from isthmus.errors import IsthmusError
from isthmus.kafka.session import ClientSession
from isthmus.lanes.catchup import Arrival
from isthmus.memory.declarations import Declarations
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.links.outcome import RunOutcome, Until
from isthmus.model.links.progress import LinkProgress
from isthmus.model.process.latency import merge
from isthmus.run.following import Acceptance, Following, as_far_as_known
from isthmus.run.pace import Pace
from isthmus.run.recovering import SelfRecovery
from isthmus.run.state.candidacy import WhenOccupied
from isthmus.run.stopping import StopRequest
from isthmus.run.supervisor import Supervisor, Takes
from isthmus.run.workers import Workers
from isthmus.trees.forcing import TargetKeeper

OnProgress = Callable[[tuple[LinkProgress, ...]], None]

PROGRESS_S: Final = 0.5
RECOUNT_S: Final = 5.0
KNOWN_S: Final = 60.0
"""How old the notes of clusters about each other may be while a run goes on."""
_SOON_S: Final = 2.0
_GRACE_S: Final = 15.0
"""The longest time for all farewells when no cluster answers."""
_ECHO_S: Final = 3.0
"""SIGTERM within so long of the first is the same one: `timeout` sends it to a process and then to its group."""
_TELL_S: Final = 2.0
"""How long an end may take before it is logged."""
_log = logging.getLogger(__name__)


class Controller:
    """Runs some links of a configuration; `workers` are left running when it ends.

    `on_progress` is called twice a second; with very many partitions less often, see `Pace`. With `until="caught-up"`
    the run ends when everything the sources had is copied, with "committed" except records in open transactions, with a
    function when that returns true for the newest progress, and in any case with `stop` or a signal. `when_occupied` is
    what it does about links that another controller runs, `following` how it learns of changes of the configuration,
    `takes` which new links of the configuration it runs, and `stopping` ends it from another thread.
    """

    def __init__(
        self,
        configuration: Configuration,
        links: Sequence[Link],
        workers: Workers,
        *,
        until: Until | None = None,
        on_progress: OnProgress | None = None,
        when_occupied: WhenOccupied = WhenOccupied.LEAVE,
        following: Following | None = None,
        takes: Takes | None = None,
        stopping: StopRequest | None = None,
    ) -> None:
        self.timings = configuration.timings
        self._stop_request = stopping or StopRequest()
        self._links = Supervisor(configuration, links, workers, when_occupied=when_occupied, takes=takes)
        self._following = following or Following()
        self._acceptance = Acceptance(self._following, self.timings.follow_s)
        self._hung_up = asyncio.Event()
        self._refused = ""
        self._workers = workers
        self._until = until
        self._on_progress = on_progress
        self._stopping = asyncio.Event()
        self._signal: int | None = None
        self._signalled_at = 0.0
        self._is_hurried = False
        self._has_begun = False

    def stop(self) -> None:
        """End all links in good order; `run` returns when that is done."""
        self._stopping.set()
        self._links.stop()

    async def run(self) -> RunOutcome:
        """Run the links until they are caught up, stopped, or all have failed.

        SIGINT and SIGTERM end the run in good order; a second one ends it at once, but for an echo of the first.
        """
        begun = time.monotonic()
        self._workers.start()
        with self._signals(), self._stop_request.calling(self.stop):
            self._links.start()
            works = (self._follow, self._count_slots, self._remember, self._recover)
            beside = [asyncio.create_task(kept_up(work)) for work in works]
            arrivals: dict[str, Arrival] = {}
            try:
                try:
                    arrivals = await self._until_done()
                    self.stop()
                    await self._until_ended()
                finally:
                    for task in beside:
                        task.cancel()
                    await asyncio.gather(*beside, return_exceptions=True)
            except asyncio.CancelledError:
                if not self._is_hurried:
                    raise
                # A second signal: the outcome reports the first.
            finally:
                await self._links.aclose()
        return RunOutcome(
            links=self._progress(),
            caught_up=frozenset(link for link, arrival in arrivals.items() if arrival is Arrival.CAUGHT_UP),
            is_to_catch_up=isinstance(self._until, str),
            errors={run.link.name: run.error for run in self._links.runs if run.error is not None},
            signal=self._signal,
            duration_s=time.monotonic() - begun,
            latency=tuple(merge(run.latency for run in self._links.runs)),
        )

    async def _follow(self) -> None:
        """Apply the configuration whenever it has to be read again."""
        following = self._following
        if following.written is None:
            if following.reread is not None:
                await self._follow_file()
            return
        written = following.written
        while True:
            written = await self._follow_declared(written)

    async def _follow_declared(self, written: Configuration) -> Configuration:
        """Apply what is written and declared, until other clusters are written; return what is written then."""
        following, keeper = self._following, TargetKeeper()
        async with ClientSession() as session:
            declarations = Declarations(written.clusters, session, written.ledger)
            while True:
                if await self._wait_to_reread(self.timings.follow_s):
                    before, written = written, await self._reread(written) or written
                    if (written.clusters, written.ledger) != (before.clusters, before.ledger):
                        return written
                try:
                    declared = await declarations.look()
                    configuration = as_far_as_known(self._links.configuration, declared.over(written), declared)
                    await declarations.heal(declared, configuration.trees)
                except IsthmusError as error:
                    self._tell_refused(error)
                else:
                    await self._links.take(configuration)
                    following.on_configuration(configuration)
                    await keeper.keep(configuration, declared, declarations.client, self._links.is_run)

    async def _follow_file(self) -> None:
        while True:
            is_asked = await self._wait_to_reread(self.timings.follow_s if self._following.is_constant else None)
            if is_asked and (configuration := await self._reread(self._links.configuration)):
                await self._links.take(configuration)
                self._following.on_configuration(configuration)

    async def _wait_to_reread(self, term_s: float | None) -> bool:
        """Wait until the file may have changed, at most so long; return whether it may have."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(term_s):
                await self._hung_up.wait()
        is_asked = self._hung_up.is_set() or self._following.is_constant
        self._hung_up.clear()
        return is_asked

    async def _reread(self, before: Configuration) -> Configuration | None:
        """Return the configuration as it is written now, `None` where it cannot be used, or not yet."""
        if self._following.reread is None:
            return None
        begun = time.monotonic()
        try:
            configuration = await asyncio.to_thread(self._following.reread)
            accepted = self._acceptance.accept(before, configuration, begun)
        except IsthmusError as error:
            self._acceptance.break_off()
            self._tell_refused(error)
            return None
        self._refused = ""
        return accepted

    def _tell_refused(self, error: IsthmusError) -> None:
        if self._refused != str(error):
            _log.warning("the configuration cannot be used, everything goes on as it was: %s", error)
        self._refused = str(error)

    async def _count_slots(self) -> None:
        """Let leases use the slots there are, as executors come and go."""
        while True:
            await asyncio.sleep(RECOUNT_S)
            await self._workers.recount()

    async def _remember(self) -> None:
        """Let clusters remember each other, for when one of them is away."""
        while True:
            links = self._links.at_work
            async with ClientSession() as session:
                await remember(links, session, self._links.declared)
            # The first time waits for links to begin.
            await asyncio.sleep(KNOWN_S if links else _SOON_S)

    async def _recover(self) -> None:
        """Recover topics whose source lost records, of links with `on_divergence: recover`."""
        recovery = SelfRecovery()
        while True:
            await asyncio.sleep(_SOON_S)
            await recovery.keep(lambda: self._links.at_work, self._progress, self._links.configuration.ledger)

    async def _until_done(self) -> dict[str, Arrival]:
        """Wait for the end; if that comes when everything is copied, return how far the links came."""
        begun, pace = time.monotonic(), Pace()
        while not self._stopping.is_set() and not self._links.has_ended:
            if pace.is_due(time.monotonic()):
                spent_s = time.thread_time()
                self._tell_progress()
                pace.took(time.monotonic(), time.thread_time() - spent_s)
            self._has_begun = self._has_begun or bool(self._links.at_work)
            if callable(self._until):
                if self._until(self._progress()):
                    break
            elif self._until is not None:
                arrivals = await self._arrivals()
                if Arrival.UNDER_WAY not in arrivals.values():
                    # News since then is reported too, before all is stopped.
                    self._tell_progress()
                    return arrivals
            if time.monotonic() - begun > self.timings.arrival_s:
                self._give_up()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROGRESS_S):
                    await self._stopping.wait()
        return {}

    async def _until_ended(self) -> None:
        if not await self._links.wait_for_end(_TELL_S):
            _log.warning("still ending in good order, for at most %g s; a second Ctrl-C ends at once", _GRACE_S)
            await self._links.wait_for_end(_GRACE_S - _TELL_S)

    def _give_up(self) -> None:
        """End links whose clusters never answered, where waiting for them is pointless.

        While other links run for ever such a link is retried, and so is one that is restarted: links are changed during
        a failover, while a source is lost.
        """
        never = [run for run in self._links.runs if not run.was_opened]
        if self._until is not None or not (self._has_begun or len(never) < len(self._links.runs)):
            for run in never:
                run.give_up()

    async def _arrivals(self) -> dict[str, Arrival]:
        # Links may come and go meanwhile.
        runs = list(self._links.runs)
        ignores_open = self._until == "committed"
        arrivals = await asyncio.gather(*(run.arrival(ignores_open=ignores_open) for run in runs))
        return {run.link.name: arrival for run, arrival in zip(runs, arrivals, strict=True)}

    def _tell_progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._progress())

    def _progress(self) -> tuple[LinkProgress, ...]:
        return tuple(run.progress() for run in self._links.runs)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM, where signals arrive at all: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop, main = asyncio.get_running_loop(), asyncio.current_task()
        before: dict[int, Any] = {}

        def on_signal(number: int) -> None:
            now = time.monotonic()
            if self._signal == number == signal.SIGTERM and now - self._signalled_at < _ECHO_S:
                return
            if self._signal is not None and main is not None and not self._is_hurried:
                self._is_hurried = True
                main.cancel()
            self._signal, self._signalled_at = number, now
            self.stop()

        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, on_signal, number)
        if self._following.reread is not None:
            before[int(signal.SIGHUP)] = signal.getsignal(signal.SIGHUP)
            loop.add_signal_handler(signal.SIGHUP, self._hung_up.set)
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


async def kept_up(work: Callable[[], Awaitable[None]]) -> None:
    """Keep a task running beside the links: a bug in it ends nothing else, and it is restarted."""
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 - copying goes on
            _log.exception("beside the links; this is a bug in Isthmus: please report it")
            await asyncio.sleep(_SOON_S)
        else:
            return
