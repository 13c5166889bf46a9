"""A scheduler of leases that a test drives: the jobs of Spark and the ledger are the test's."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from isthmus.ledger.documents.kinds import LeaseDocument, ProgressDocument, TaskDocument
from isthmus.model.link import Limits
from isthmus.spark.leases.driver import LeaseScheduler
from isthmus.spark.leases.slots import TaskSlots
from isthmus.spark.leases.timings import LeaseTimings
from testing.values.leases import CONTEXT, Jobs, lane

CONTROLLER = 7 << 16
STEPS = 200
LONG_AGO = -1e9
UNPAUSED = LeaseTimings(retry_s=0.0, back_off_s=(0.0,))


class Book:
    """A link's ledger: what was written to it stands in `leases`, in order."""

    link = "l"
    generation = CONTROLLER
    problem = None

    def __init__(self, *, was_lost: bool = False) -> None:
        self.was_lost = was_lost
        self.opened_at = LONG_AGO
        self.documents: dict[str, Any] = {}
        self.is_held = False
        self.tail = SimpleNamespace(position=100, topic_id=uuid.UUID(int=3), was_held=lambda _: self.is_held)
        self.leases: list[LeaseDocument] = []
        self.is_alone = False
        self._listeners: list[Callable[[str, Any], None]] = []

    def listen(self, listener: Callable[[str, Any], None]) -> None:
        self._listeners.append(listener)

    def be_alone(self) -> None:
        self.is_alone = True

    def hear(self, document: TaskDocument | ProgressDocument) -> None:
        for listener in self._listeners:
            listener(document.key, document)

    async def write(self, *changes: Any) -> None:
        self.leases += LeaseDocument.find_all(changes)


@contextlib.asynccontextmanager
async def running(
    jobs: Jobs,
    book: Book,
    *,
    count: int = 2,
    lanes: Iterable[int] = (0,),
    limits: Limits = CONTEXT.limits,
    timings: LeaseTimings = UNPAUSED,
    slots: TaskSlots | None = None,
) -> AsyncIterator[LeaseScheduler]:
    """A scheduler without pauses that has started the first leases, in all slots but one unless `slots` are given; it
    ends in good order.
    """
    scheduler = LeaseScheduler(
        cast(Any, None),
        cast(Any, book),
        replace(CONTEXT, limits=limits),
        slots=slots or TaskSlots(cast(Any, None), count, spare=1),
        timings=timings,
    )
    scheduler.distribution.assign(lane(number) for number in lanes)
    task = asyncio.create_task(scheduler.run())
    await steps()
    try:
        yield scheduler
    finally:
        jobs.end()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def steps() -> None:
    """Let everybody go on as far as they can."""
    for _ in range(STEPS):
        await asyncio.sleep(0)


def ended(generation: int, *, is_clean: bool = True, slot: int = 0) -> TaskDocument:
    """What the task of a lease says when it will never write again."""
    return TaskDocument(
        link="l",
        slot=slot,
        controller=CONTROLLER,
        generation=generation,
        ended_through=generation,
        is_clean=is_clean,
    )
