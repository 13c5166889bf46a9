"""Single-task Spark jobs, each started from a thread of its own and awaited in the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import InheritableThread

from isthmus.errors import HostError
from isthmus.model.links.transform import Transform
from isthmus.model.process.receipt import Receipt
from isthmus.model.text.wording import first_few
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.leases.lease import LeaseSpec
from isthmus.spark.leases.task import changing_lease_task, lease_task
from isthmus.spark.session import stopped_error
from isthmus.spark.transforms.expressions import by_expressions, compile_for_leases, project
from isthmus.spark.transforms.workers import function_workers

if TYPE_CHECKING:
    from pyspark import SparkContext

AnswerT = TypeVar("AnswerT")

_NO_MODULE: Final = "ModuleNotFoundError"


class JobFailed(Exception):
    """A lease's job ended without a receipt. `is_dead` says that it never began."""

    def __init__(self, message: str, *, is_dead: bool, hint: str = "") -> None:
        super().__init__(message)
        self.is_dead = is_dead
        self.hint = hint


def failure_of(text: str) -> JobFailed:
    """Build the failure from the text of a Spark exception, which does not prove that the task has ended."""
    hint = ""
    if _NO_MODULE in text:
        hint = "Give the executors a Python that has Isthmus: set PYSPARK_PYTHON, or ship it with --archives."
    return JobFailed(_telling_line(text), is_dead=False, hint=hint)


def start_job(spark: SparkContext, specs: Sequence[LeaseSpec], group: str) -> asyncio.Future[tuple[Receipt, ...]]:
    """Start a job of one task that runs these leases; the future holds their receipts, in this order, or `JobFailed`.

    `group` is for `cancel` and `is_active`.

    :raises HostError: Spark has ended.
    """
    _require(spark)
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Receipt, ...]] = loop.create_future()

    def settle(receipts: tuple[Receipt, ...] | None, error: Exception | None) -> None:
        if future.done():
            return
        if receipts is not None:
            future.set_result(receipts)
        else:
            future.set_exception(error or JobFailed("the job returned nothing", is_dead=False))
            # Marks the exception as retrieved: nothing awaits a job that was given up.
            future.exception()

    def run() -> None:
        receipts, error = None, None
        try:
            receipts = _collect_receipts(spark, specs, group)
        except Exception as failure:  # noqa: BLE001  # a SparkContext that is stopped meanwhile raises any error
            error = failure_of(str(failure))
        # The loop may be gone when the driver ends in a hurry.
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, receipts, error)

    try:
        InheritableThread(target=run, name=describe_job(specs), daemon=True).start()
    except (Py4JError, OSError) as error:
        raise _gone_error() from error
    return future


async def check(spark: SparkContext) -> None:
    """Require that Spark is running.

    :raises HostError: It has ended.
    """
    java = _require(spark)
    # While it is being stopped its jobs have failed, and it answers.
    if await _ask_spark(lambda: bool(java.sc().isStopped())):
        raise stopped_error()


def _require(spark: SparkContext) -> Any:
    """Require that the application has not stopped its session, and return that of the JVM."""
    if spark._jsc is None:
        raise stopped_error()
    return spark._jsc


async def _ask_spark(question: Callable[[], AnswerT]) -> AnswerT:
    try:
        return await asyncio.to_thread(question)
    except (Py4JError, OSError) as error:
        raise _gone_error() from error


def _gone_error() -> HostError:
    return HostError(
        "Spark has ended: its JVM does not answer any more",
        hint="The system's log may have the cause (too little memory?). Run again: it goes on where it was.",
    )


def describe_job(specs: Sequence[LeaseSpec]) -> str:
    """Describe a job's leases, for the Spark UI."""
    return specs[0].description if len(specs) == 1 else f"isthmus {first_few(spec.name for spec in specs)}"


def _collect_receipts(spark: SparkContext, specs: Sequence[LeaseSpec], group: str) -> tuple[Receipt, ...]:
    spark.setJobGroup(group, describe_job(specs), interruptOnCancel=True)
    # Two links may have the same transform, and other schemas.
    prepared = dict.fromkeys(
        each for spec in specs for each in by_expressions(spec.context.transforms, spec.context.columns)
    )
    if prepared:
        return _collect_by_expressions(spark, specs, tuple(prepared))
    work = partial(lease_task, tuple(specs))
    with function_workers(spark, _transforms_of(specs)):
        rows = spark.parallelize([None], 1).mapPartitions(work)
        # Its environment is taken now.
        _ = rows._jrdd
    receipts: list[Receipt] = rows.collect()
    return tuple(receipts)


def _transforms_of(specs: Sequence[LeaseSpec]) -> list[Transform]:
    return [each for spec in specs for each in spec.context.transforms]


def _collect_by_expressions(
    spark: SparkContext, specs: Sequence[LeaseSpec], prepared: tuple[Prepared, ...]
) -> tuple[Receipt, ...]:
    """Run leases whose records pass Spark's SQL within the same task."""
    # Loading pyarrow takes a moment, which other links do not need.
    from isthmus.spark.transforms.pipe import feed_rows

    session, compiled = compile_for_leases(spark, prepared)
    name = uuid.uuid4().hex
    with function_workers(spark, _transforms_of(specs)):
        fed = session.range(0, 1, 1, 1).mapInArrow(partial(feed_rows, name, compiled), compiled.fed_ddl)
        work = partial(changing_lease_task, tuple(specs), name, compiled)
        rows = project(session, fed, compiled).mapInArrow(work, "receipt BINARY")
    return tuple(pickle.loads(row.receipt) for row in rows.collect())  # noqa: S301 - written by our own task


async def is_active(spark: SparkContext, group: str) -> bool:
    """Whether an executor has the task of a job, as far as Spark knows.

    :raises HostError: Spark has ended.
    """

    def look() -> bool:
        tracker = spark.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)

    _require(spark)
    return await _ask_spark(look)


async def cancel(spark: SparkContext, groups: Iterable[str]) -> None:
    """Cancel jobs whose tasks did not end by themselves. Without Spark there is nothing to cancel."""
    with contextlib.suppress(HostError, Py4JError, OSError):
        for group in groups:
            _require(spark)
            await asyncio.to_thread(spark.cancelJobGroup, group)


def _telling_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "Error" in line]
    return (telling or lines or ["the job failed"])[0][:400]
