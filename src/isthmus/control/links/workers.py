"""The Spark on which leases run: started once, beside everything else, and shared by all links."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from isthmus.errors import InvariantError, PlanRefused
from isthmus.model.configuration import SparkSettings
from isthmus.model.wording import counted
from isthmus.spark.session import adopted, session, slot_count
from isthmus.spark.slots import TaskSlots

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class Workers:
    """A new Spark session for these links, or the one given. Whoever has it started also stops it."""

    def __init__(self, settings: SparkSettings, *, links: Sequence[str], spark: SparkSession | None = None) -> None:
        self._settings = settings
        self._links = tuple(links)
        self._given = spark
        self._ready: asyncio.Future[SparkSession] | None = None
        self._slots: TaskSlots | None = None

    def start(self) -> None:
        """Begin to start Spark, which takes seconds; `ready` waits for it."""
        loop = asyncio.get_running_loop()
        self._ready = ready = loop.create_future()
        if self._given is not None:
            ready.set_result(adopted(self._given))
            return

        def settle(spark: SparkSession | None, error: Exception | None) -> None:
            if ready.done():
                return
            if spark is not None:
                ready.set_result(spark)
            elif error is not None:
                ready.set_exception(error)
                # Nobody may be waiting for it any more.
                ready.exception()

        def run() -> None:
            spark, error = None, None
            try:
                spark = session(self._settings, links=self._links)
            except Exception as failure:  # noqa: BLE001 - it is raised where Spark is waited for
                error = failure
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, spark, error)

        # A daemon: whoever is in a hurry does not wait for a Spark that is just starting.
        threading.Thread(target=run, name="spark-start", daemon=True).start()

    async def ready(self) -> tuple[SparkContext, TaskSlots]:
        """Spark, and the task slots every link may use.

        :raises HostError: Spark cannot be started here.
        :raises PlanRefused: There are fewer slots than links.
        """
        context = (await asyncio.shield(self._started())).sparkContext
        count = await asyncio.to_thread(slot_count, context, self._settings)
        if count < len(self._links):
            raise PlanRefused(
                f"Spark has {counted(count, 'task slot')} for {counted(len(self._links), 'link')}, and each needs one",
                hint="Give Spark more cores, or set spark.slots to the number it has.",
            )
        if self._slots is None:
            self._slots = TaskSlots(count, len(self._links))
        return context, self._slots

    @property
    def spark(self) -> SparkSession | None:
        """The session, once it has started."""
        ready = self._ready
        if ready is None or not ready.done() or ready.cancelled() or ready.exception():
            return None
        return ready.result()

    def _started(self) -> asyncio.Future[SparkSession]:
        if self._ready is None:
            raise InvariantError("Spark is waited for and was never started")
        return self._ready
