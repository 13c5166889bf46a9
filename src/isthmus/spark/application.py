"""The Spark that a program's runs and verifications use."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from isthmus.local.spark import find_spark
from isthmus.model.configuration import Configuration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkApplication:
    """The Spark session given, else one of our own, which is started when it is needed and stopped by `close`."""

    def __init__(self, configuration: Configuration, given: SparkSession | None = None) -> None:
        self._configuration = configuration
        self._given = given
        self._own: SparkSession | None = None
        self._starting: Future[SparkSession] | None = None

    @property
    def running(self) -> SparkSession | None:
        """The session there is by now."""
        if self._starting is not None and self._starting.done():
            starting, self._starting = self._starting, None
            self._own = None if starting.exception() else starting.result()
        return self._given or self._own

    def keep(self, starting: Future[SparkSession] | None) -> None:
        """What a run has begun to start is gone on with, and stopped by `close`."""
        if starting is not None:
            self._starting = starting

    def find(self) -> None:
        """See that pyspark can be imported; whatever imports it comes after this.

        :raises SparkMissing: There is none.
        """
        if self.running is None:
            find_spark()

    def session(self) -> SparkSession:
        """The session there is, or a new one; that takes seconds.

        :raises HostError: Spark cannot be started here.
        """
        if self._starting is not None and self.running is None:
            # A run that ended early has begun to start it.
            self._own, self._starting = self._starting.result(), None
        if self.running is not None:
            return self.running
        # In a thread of its own: interrupted half-way, Spark would leave its JVM behind.
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(self._start).result()

    def close(self) -> None:
        """Stop the session, if it is our own; one that is just starting as soon as it has."""
        if self._given is not None:
            return
        own, self._own, starting, self._starting = self.running, None, self._starting, None
        if own is not None:
            _stop(own)
        elif starting is not None:
            starting.add_done_callback(lambda done: None if done.exception() else _stop(done.result()))

    def _start(self) -> SparkSession:
        from isthmus.spark.session import session

        self._own = session(self._configuration.spark, links=[link.name for link in self._configuration.links])
        return self._own


def _stop(spark: SparkSession) -> None:
    from isthmus.spark.session import stop

    stop(spark)
