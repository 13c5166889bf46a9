"""Telling how far a Spark job has come, and ending it with whoever waits for it."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql import SparkSession

Progress = Callable[[str, int, int], None]
"""Called now and then with what is being done, how many tasks of it are done, and how many there are."""

_INTERVAL_S: Final = 0.2
_GROUP: Final = "spark.jobGroup.id"
_DESCRIPTION: Final = "spark.job.description"


@contextlib.contextmanager
def watched(spark: SparkSession, description: str, progress: Progress | None) -> Iterator[None]:
    """Describe this thread's Spark jobs, tell `progress` about them, and cancel them if they are abandoned."""
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in (_GROUP, _DESCRIPTION)}
    group = f"isthmus-verify-{secrets.token_hex(4)}"
    context.setJobGroup(group, description)
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(spark, group, description, progress, over), daemon=True)
    if progress is not None:
        teller.start()
    try:
        yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        over.set()
        if progress is not None:
            teller.join()
        for name, value in before.items():
            # None takes the property away, whatever the annotation says.
            context.setLocalProperty(name, value)  # type: ignore[arg-type]


def _tell(spark: SparkSession, group: str, description: str, progress: Progress, over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(_INTERVAL_S):
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        known = [stage for stage in stages if stage is not None]
        progress(description, sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known))
