"""Wait for Spark: report its progress, and cancel its jobs when the caller is interrupted."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

from pyspark.sql import SparkSession

from isthmus.spark.compare.failure import our_errors

OnVerified = Callable[[str, int, int], None]
"""Called now and then, from a thread of its own, with the current work, the number of its finished tasks, and of its
known tasks; none while it is being planned."""

_INTERVAL_S: Final = 0.2
ResultT = TypeVar("ResultT")


def run_watched(
    spark: SparkSession, description: str, progress: OnVerified | None, work: Callable[[], ResultT]
) -> ResultT:
    """Do some work with Spark in a thread of its own; the Spark UI shows its jobs as "isthmus" with `description`.

    So an interruption reaches the caller that waits here, and not a call to the JVM, whose connection would be unusable
    afterwards. Interrupted work is cancelled, and has ended when this raises.

    :raises ClusterError: A cluster could not be read by a worker.
    """
    group = f"isthmus-verify-{secrets.token_hex(4)}"

    def run() -> ResultT:
        spark.sparkContext.setJobGroup(group, f"isthmus {description}")
        return work()

    with ThreadPoolExecutor(2, thread_name_prefix="verify") as threads:
        future = threads.submit(run)
        if progress is not None:
            threads.submit(_report_progress, spark, group, description, progress, future)
        try:
            wait([future])
        except BaseException:
            # A job that is still being planned is not known to Spark yet.
            while wait([future], timeout=_INTERVAL_S).not_done:
                spark.sparkContext.cancelJobGroup(group)
            raise
    with our_errors():
        return future.result()


def _report_progress(
    spark: SparkSession, group: str, description: str, progress: OnVerified, future: Future[ResultT]
) -> None:
    tracker = spark.sparkContext.statusTracker()
    while wait([future], timeout=_INTERVAL_S).not_done:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        # Skipped stages, whose output exists already, would never be done.
        known = [stage for stage in stages if stage is not None and stage.numCompletedTasks + stage.numActiveTasks]
        progress(description, sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known))


def run_coroutine(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine, also where an event loop runs already, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()
