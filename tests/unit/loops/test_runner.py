"""What a loop of a link is called while it looks and changes, and when it looks again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from isthmus.errors import BrokerRefused, ClusterError, Unreachable
from isthmus.ledger.documents.kinds import Document, LoopDocument
from isthmus.ledger.link import LinkLedger
from isthmus.loops.loop import LinkView
from isthmus.loops.runner import LoopRunner
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.links.pauses import NO_PAUSES
from isthmus.model.loop import Change, LoopState
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicSettings
from isthmus.status import tasks as every
from isthmus.status.tasks import foreseen_changes
from isthmus.topics.plan import LinkPlan

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
LINK = Link(name="l", source=EAST, target=WEST, topics=TopicSettings())
NOWHERE = cast(Any, None)
VIEW = LinkView(link=LINK, source=NOWHERE, target=NOWHERE, plan=LinkPlan(link="l", source="east", target="west"))
STUCK = Change(loop="fake", subject="s", setting="t", before="1", after="2", problem=Problem("no", "do"))
AWAY, REFUSED = Unreachable("gone"), BrokerRefused("never", code=1, name="NEVER")


@dataclass(slots=True)
class FakeLoop:
    """Changes what it is told to, or fails."""

    left: Sequence[Change] = ()
    error: Exception | None = None
    name: str = "fake"
    interval: float | None = 1000.0

    def interval_s(self, link: Link) -> float | None:
        return self.interval

    async def look(self, view: LinkView) -> Sequence[Change]:
        if self.error is not None:
            raise self.error
        return self.left

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        return changes


@dataclass(slots=True)
class FakeLedger:
    """Keeps what is written."""

    documents: dict[str, Document] = field(default_factory=dict)

    async def write(self, document: Document) -> None:
        self.documents[document.key] = document


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(30.0):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("left", "error", "state"),
    [
        ((), None, LoopState.ACTIVE),
        ((STUCK,), None, LoopState.IN_ERROR),
        ((), AWAY, LoopState.IN_ERROR),
        ((), REFUSED, LoopState.IN_ERROR),
        ((), ValueError("a bug"), LoopState.IN_ERROR),
    ],
)
def test_a_loop_is_what_its_last_pass_was(left: Sequence[Change], error: Exception | None, state: LoopState) -> None:
    """What could not be looked at or not be changed is an error, and is written down; nothing ends by it."""
    ledger = FakeLedger()

    async def scenario() -> LoopRunner:
        loop = LoopRunner(FakeLoop(left, error), LINK, lambda: VIEW, cast(LinkLedger, ledger), lambda: NO_PAUSES)
        task = asyncio.create_task(loop.run())
        await until(lambda: bool(ledger.documents))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return loop

    progress = asyncio.run(scenario()).progress
    assert progress.state is state
    (document,) = ledger.documents.values()
    assert isinstance(document, LoopDocument)
    assert (document.state, document.problem) == (state, progress.problem)


@pytest.mark.parametrize(
    ("left", "error", "is_tried_again"),
    [((), None, False), ((STUCK,), None, False), ((), REFUSED, False), ((), AWAY, True)],
    ids=["done", "stuck", "refused", "away"],
)
def test_when_it_looks_again(left: Sequence[Change], error: ClusterError | None, *, is_tried_again: bool) -> None:
    """Soon where a cluster was away; what an operator has to mend is not asked about every two seconds."""

    def runner(loop: FakeLoop) -> LoopRunner:
        return LoopRunner(loop, LINK, lambda: VIEW, cast(LinkLedger, FakeLedger()), lambda: NO_PAUSES, 0.001)

    async def scenario() -> int:
        loop, other = runner(FakeLoop(left, error)), runner(FakeLoop(error=AWAY))
        tasks = [asyncio.create_task(each.run()) for each in (loop, other)]
        # As long as the other one takes for many passes.
        await until(lambda: other.passes >= 10)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return loop.passes

    assert (asyncio.run(scenario()) > 1) is is_tried_again


def test_a_loop_that_cannot_look_does_not_hide_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reason is among the changes that cannot be made, beside those of the others; one that is off says nothing."""
    loops = (FakeLoop(left=(STUCK,)), FakeLoop(error=REFUSED, name="refused"), FakeLoop(error=AWAY, interval=None))
    monkeypatch.setattr(every, "LOOPS", tuple(lambda loop=loop: loop for loop in loops))
    first, second = asyncio.run(foreseen_changes(VIEW))
    assert first == STUCK
    assert second.problem is not None
    assert (second.loop, second.problem.message) == ("refused", "never")
