"""Runs in the background of a program that has a Spark session: a handle each, and one event loop for all of them."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - see the last line
import contextlib
import threading
import time
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future, wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from isthmus.errors import GateNotMet, IsthmusError, Occupied
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.fabric.blocking import in_loop, wait_for_others
from isthmus.fabric.opening import open_configuration
from isthmus.fabric.status import FabricStatus
from isthmus.kafka.session import ClientSession
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.links.rows import progress_table
from isthmus.model.problem import problem_of
from isthmus.model.text.shown import ShortTable, ShownAsTable
from isthmus.model.text.wording import format_count
from isthmus.run.state.candidacy import WhenOccupied
from isthmus.run.stopping import StopRequest
from isthmus.spark.session import adopt_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from isthmus.model.links.outcome import Until
    from isthmus.model.links.progress import LinkProgress

STOP_S: Final = 30.0
"""How long (s) the end of a run is waited for: twice of what it may take if no cluster answers."""
_HEED_S: Final = 1.0
"""A Ctrl-C that comes just before a wait begins is heard when that ends."""


class _RunLoop:
    """The event loop of all runs in the background, in a thread that is there as long as there are any: runs in one
    loop share the slots of their Spark.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._count = 0

    def begin(self, work: Coroutine[Any, Any, RunOutcome]) -> Future[RunOutcome]:
        """Begin to run it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="isthmus-runs", daemon=True).start()
            self._count += 1
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(self._leave)
        return future

    def _leave(self, _: Future[RunOutcome]) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(wait_for_others())
    finally:
        loop.close()


_LOOP: Final = _RunLoop()
_STARTING: Final = threading.Lock()
_ACTIVE: Final[set[BackgroundRun]] = set()


class BackgroundRun(ShownAsTable):
    """A run that goes on while a program or a notebook does other things. Shown it is a table of its topics.

    `outcome` is how it ended, once it has. As a context manager it is stopped at the end of the block. A program that
    ends before it stops it in good order.
    """

    def __init__(self, links: Iterable[Link]) -> None:
        self._links = tuple(links)
        # A ledger knows links by their names.
        self._held = frozenset((link.name, *sorted(link.target.bootstrap_servers)) for link in self._links)
        self._stopping = StopRequest()
        self._begun_at = time.monotonic()
        self._progress: tuple[LinkProgress, ...] = ()
        self._future: Future[RunOutcome] = Future()

    def _begin(self, work: Coroutine[Any, Any, RunOutcome]) -> None:
        self._future = _LOOP.begin(work)
        _ACTIVE.add(self)
        self._future.add_done_callback(lambda _: _ACTIVE.discard(self))

    def _take(self, links: tuple[LinkProgress, ...]) -> None:
        self._progress = links

    @property
    def is_active(self) -> bool:
        """Whether it still runs, or is just ending."""
        return not self._future.done()

    @property
    def outcome(self) -> RunOutcome | None:
        """How it ended, `None` while it runs and where an error ended it before any link had begun."""
        return None if self.is_active or self._future.exception() is not None else self._future.result()

    def status(self) -> FabricStatus:
        """How its links stand, as the run itself saw it half a second ago, or when it ended. No cluster is asked: see
        `Fabric.status` for that. Empty until the run has begun.
        """
        return FabricStatus(self._progress if self.outcome is None else self.outcome.links)

    def exception(self) -> BaseException | None:
        """The error that ended it: its own, or the first of its links' if each of them ended by one; else `None`."""
        if self.is_active:
            return None
        outcome = self.outcome
        if outcome is None:
            return self._future.exception()
        if outcome.links and all(each.link in outcome.errors for each in outcome.links):
            return next(iter(outcome.errors.values()))
        return None

    def stop(self, timeout_s: float = STOP_S) -> RunOutcome:
        """End it in good order, as SIGTERM ends `isthmus run`, and return how it ended. The Spark session stays.

        :raises GateNotMet: It has not ended by then; it still does.
        :raises IsthmusError: An error has ended it, see `exception`.
        """
        self._stopping.ask()
        return self.await_termination(timeout_s)

    def await_termination(self, timeout_s: float | None = None) -> RunOutcome:
        """Wait until it ends, and return how. Ctrl-C ends the waiting, not the run.

        :raises GateNotMet: It has not ended by then, and goes on.
        :raises IsthmusError: An error has ended it, see `exception`.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while self.is_active:
            left_s = _HEED_S if until is None else until - time.monotonic()
            if left_s <= 0:
                raise GateNotMet(
                    f"{self._names} has not ended within {timeout_s:g} s",
                    hint="Wait longer: await_termination(timeout_s=...); stop() asks it to end.",
                )
            wait([self._future], timeout=min(left_s, _HEED_S))
        error = self.exception()
        if error is not None:
            raise error
        return self._future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self.stop()
            return
        # The block's own error is the one to be seen.
        with contextlib.suppress(IsthmusError):
            self.stop()

    def short_table(self) -> ShortTable:
        table = progress_table(self.status())
        return ShortTable(
            title=f"{self._names} {self._standing}; {table.title}",
            columns=table.columns,
            rows=table.rows,
            notes=tuple(self._errors()),
            tones=table.tones,
        )

    @property
    def _names(self) -> str:
        return f"run of {', '.join(link.name for link in self._links) or 'links to come'}"

    @property
    def _standing(self) -> str:
        if self.is_active:
            verb = "is ending" if self._stopping.is_asked else "is active"
            return f"{verb}, begun {time.monotonic() - self._begun_at:,.0f} s ago"
        return "has ended" if self.outcome is None else f"has ended: {self.outcome.summary}"

    def _errors(self) -> Iterable[str]:
        if self.outcome is not None:
            for link, error in self.outcome.errors.items():
                yield f"{link} has ended: {problem_of(error).in_full}"
        elif (failure := self.exception()) is not None:
            yield problem_of(failure).in_full if isinstance(failure, IsthmusError) else repr(failure)


def start(
    spark: SparkSession,
    config: str | Path | Configuration,
    *,
    until: Until | None = None,
    link: str | None = None,
    take_over: bool = False,
    standby: bool = False,
) -> BackgroundRun:
    """Begin a run in the background; see `isthmus.spark.start`."""

    async def open_once() -> Configuration:
        async with ClientSession() as session:
            return await open_configuration(config, session, declared=None)

    WhenOccupied.of(take_over=take_over, standby=standby)
    configuration = in_loop(open_once())
    adopt_session(spark, configuration.spark)
    run = BackgroundRun(configuration.links if link is None else (configuration.link(link),))

    async def work() -> RunOutcome:
        async with AsyncFabric(configuration, spark=spark) as fabric:
            return await fabric.run(
                until=until,
                link=link,
                take_over=take_over,
                standby=standby,
                on_progress=run._take,
                stopping=run._stopping,
            )

    with _STARTING:
        if not take_over and not standby:
            _refuse_doubles(run)
        run._begin(work())
    return run


def _refuse_doubles(run: BackgroundRun) -> None:
    """Refuse links that this process runs already, at once: a second controller finds the first one in the ledger.

    :raises Occupied: There is one.
    """
    held = {each for other in list(_ACTIVE) if other.is_active for each in other._held}
    doubled = sorted(name for name, *_ in held & run._held)
    if doubled:
        raise Occupied(
            f"{format_count(len(doubled), 'link is', 'links are')} run by this process already: {', '.join(doubled)}",
            hint="Only one controller runs a link. Use the run that was started first, or stop() it; a run that is "
            "started with standby=True waits for its end, one with take_over=True ends it.",
        )


def _stop_all() -> None:
    """End what still runs when the program ends, in good order: its threads could not do that later."""
    runs = list(_ACTIVE)
    for run in runs:
        run._stopping.ask()
    wait([run._future for run in runs], timeout=STOP_S)


# Executors, which runs need to end, are shut down by such a function too, registered when `thread` was imported. That
# comes before `atexit`, and the last one is called first.
threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
