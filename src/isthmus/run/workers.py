"""The Spark on which leases run: started once, beside everything else, and shared by all links."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from isthmus.errors import InvariantError
from isthmus.model.configuration import SparkSettings
from isthmus.spark.leases.slots import TaskSlots
from isthmus.spark.session import adopt_session, is_embedded, offered_slots, session, slot_count

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class _Shared:
    """The slots of one Spark, and how many links of each run share them."""

    context: SparkContext
    slots: TaskSlots
    links: dict[Workers, int] = field(default_factory=dict)


_SHARED: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[SparkContext, _Shared]]] = WeakKeyDictionary()


class Workers:
    """A new Spark session for these links, or the one given. The caller that has it started also stops it: `starting`
    is the future of the new one, which may outlast a run that ended early.

    Runs in one event loop and on one Spark share its slots, as the links of one run do: each has a `Workers` of its
    own, and has to `leave` it. The settings of the first one count.
    """

    def __init__(self, settings: SparkSettings, *, links: Sequence[str], spark: SparkSession | None = None) -> None:
        self._settings = settings
        self._links = tuple(links)
        self._count = len(self._links)
        self._given = spark
        self._ready: asyncio.Future[SparkSession] | None = None
        self._slots: TaskSlots | None = None
        self._shared: _Shared | None = None
        self.starting: Future[SparkSession] | None = None

    def start(self) -> None:
        """Begin to start Spark, which takes seconds; `ready` waits for it."""
        loop = asyncio.get_running_loop()
        self._ready = ready = loop.create_future()
        if self._given is not None:
            ready.set_result(adopt_session(self._given, self._settings))
            return

        starting: Future[SparkSession] = Future()
        self.starting = starting

        def settle() -> None:
            if ready.done():
                return
            error = starting.exception()
            if error is None:
                ready.set_result(starting.result())
            else:
                ready.set_exception(error)
                # Perhaps no task waits for it any more.
                ready.exception()

        def run() -> None:
            try:
                starting.set_result(session(self._settings, links=self._links))
            except Exception as failure:  # noqa: BLE001 - it is raised where Spark is waited for
                starting.set_exception(failure)
            # The loop may be at its end by now.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle)

        # A daemon: a process that ends at once does not wait for a Spark that is just starting.
        threading.Thread(target=run, name="spark-start", daemon=True).start()

    async def ready(self) -> tuple[SparkContext, TaskSlots]:
        """Return Spark, and the task slots every link may use.

        :raises HostError: Spark cannot be started here.
        """
        context = (await asyncio.shield(self._session_future())).sparkContext
        if self._slots is None:
            count = await asyncio.to_thread(slot_count, context, self._settings)
            # Another link may have asked meanwhile.
            self._slots = self._slots or self._join(context, count)
        return context, self._slots

    def _join(self, context: SparkContext, count: int) -> TaskSlots:
        known = _SHARED.setdefault(asyncio.get_running_loop(), {})
        if context not in known:
            slots = TaskSlots(
                context,
                count,
                term_s=self._settings.lease_term_s,
                spare=self._count_spare(context),
                counting=partial(offered_slots, context, self._settings),
            )
            known[context] = _Shared(context, slots)
        self._shared = known[context]
        self.share(self._count)
        return self._shared.slots

    def _count_spare(self, context: SparkContext) -> int:
        """Return how many slots are kept free: one where they are threads, which cost nothing, so that a lease is
        succeeded before it ends; and one in the session of a program, which has other jobs too, unless it says how many
        are for leases.
        """
        is_shared = self._given is not None and self._settings.slots is None
        return 1 if is_embedded(context) or is_shared else 0

    def share(self, links: int) -> None:
        """Share the slots among so many links from now on, and those of other runs."""
        self._count = links
        if self._shared is not None:
            self._shared.links[self] = links
            self._shared.slots.links = sum(self._shared.links.values())

    def leave(self) -> None:
        """Leave the slots to other runs."""
        shared, self._shared = self._shared, None
        if shared is None:
            return
        del shared.links[self]
        shared.slots.links = sum(shared.links.values())
        if not shared.links:
            del _SHARED[asyncio.get_running_loop()][shared.context]

    async def recount(self) -> None:
        """Count the slots again, as executors come and go."""
        if self._slots is not None:
            await self._slots.recount()

    @property
    def spark(self) -> SparkSession | None:
        """The session, once it has started."""
        ready = self._ready
        if ready is None or not ready.done() or ready.cancelled() or ready.exception():
            return None
        return ready.result()

    def _session_future(self) -> asyncio.Future[SparkSession]:
        if self._ready is None:
            raise InvariantError("Spark is waited for and was never started")
        return self._ready
