"""Whether a link has arrived: by its pauses at the moment in which its groups are asked."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from isthmus.lanes.catchup import Arrival
from isthmus.model.links.pauses import NO_PAUSES, PausedTask, Pauses
from isthmus.model.loop import GROUPS_TASK
from isthmus.model.process.timings import USUAL
from isthmus.run.arriving import Approach
from isthmus.topics.plan import LinkPlan

PAUSED = Pauses.of([PausedTask(GROUPS_TASK)])


class Parts:
    """Those of a running link without lanes, whose groups are not carried; `then` are its pauses after a moment."""

    def __init__(self, before: Pauses, then: Pauses) -> None:
        self.plan = LinkPlan(link="l", source="east", target="west", topics=())
        self.source, self.timings = None, USUAL
        self.pauses, self.then = before, then

    async def settle(self) -> None:
        """Take a moment, in which an operator changes the pauses."""
        self.pauses = self.then

    def approach(self) -> Approach:
        """The link's approach, over its own parts."""
        own: Any = self
        lanes: Any = SimpleNamespace(runnable=list, reports=dict)
        groups: Any = SimpleNamespace(catch_up=lambda: False)
        loops: Any = SimpleNamespace(catch_up=lambda: True)
        return Approach(own, own, lanes, groups, loops, lambda: self.pauses)


@pytest.mark.parametrize(
    ("before", "then", "arrival"),
    [
        (PAUSED, PAUSED, Arrival.CAUGHT_UP),
        (PAUSED, NO_PAUSES, Arrival.UNDER_WAY),
        (NO_PAUSES, PAUSED, Arrival.CAUGHT_UP),
        (NO_PAUSES, NO_PAUSES, Arrival.UNDER_WAY),
    ],
)
def test_groups_that_are_resumed_during_a_look_are_waited_for(before: Pauses, then: Pauses, arrival: Arrival) -> None:
    """Brokers may take seconds to answer a look: a run that ended by the pauses of its beginning would leave behind
    groups that an operator has resumed since.
    """
    approach = Parts(before, then).approach()
    assert asyncio.run(approach.look(ignores_open=False)) is arrival
