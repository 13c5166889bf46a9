"""The Spark on which leases run: started once, beside everything else, and shared by all links."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from isthmus.errors import InvariantError
from isthmus.model.configuration import SparkSettings
from isthmus.spark.leases.slots import TaskSlots
from isthmus.spark.session import adopt_session, offered_slots, session, slot_count

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class Workers:
    """A new Spark session for these links, or the one given. The caller that has it started also stops it: `starting`
    is the future of the new one, which may outlast a run that ended early.
    """

    def __init__(self, settings: SparkSettings, *, links: Sequence[str], spark: SparkSession | None = None) -> None:
        self._settings = settings
        self._links = tuple(links)
        self._count = len(self._links)
        self._given = spark
        self._ready: asyncio.Future[SparkSession] | None = None
        self._slots: TaskSlots | None = None
        self.starting: Future[SparkSession] | None = None

    def start(self) -> None:
        """Begin to start Spark, which takes seconds; `ready` waits for it."""
        loop = asyncio.get_running_loop()
        self._ready = ready = loop.create_future()
        if self._given is not None:
            ready.set_result(adopt_session(self._given))
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
            self._slots = self._slots or TaskSlots(
                context, count, links=self._count, term_s=self._settings.lease_term_s
            )
        return context, self._slots

    def share(self, links: int) -> None:
        """Share the slots among so many links from now on."""
        self._count = links
        if self._slots is not None:
            self._slots.links = links

    async def recount(self) -> None:
        """Count the slots again, as executors come and go."""
        if self._slots is not None and self.spark is not None:
            # A Spark that is just ending does not answer, and the leases that wait for its jobs see that.
            with contextlib.suppress(Exception):
                self._slots.count = await asyncio.to_thread(offered_slots, self.spark.sparkContext, self._settings)

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
