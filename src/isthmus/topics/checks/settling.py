"""Topics that links of several controllers want at once: decide which link continues before anything is created."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from isthmus.deadline import Deadline
from isthmus.memory.claims import Claims
from isthmus.model.lane import LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.topics.plan import STAYING, Action, LinkPlan, TopicPlan

_LOOK_S: Final = 0.1


class Neighbours(Protocol):
    """The links of others that read and write where the link does."""

    async def look(self, topics: Collection[str]) -> None:
        """Read the claims of others to topics, by their names at both ends.

        :raises ClusterError: A cluster as a whole did not answer.
        """

    async def tell(self, topics: Collection[TopicPlan]) -> frozenset[TargetTopic]:
        """Write that these topics are about to be begun; return which of them were not known as begun before. Durable
        when it returns.
        """

    async def leave(self, topics: Iterable[TopicPlan]) -> None:
        """Write that these are refused, and not begun."""


@dataclass(frozen=True, slots=True)
class Settling:
    """The topics one link may begin with, beside others of its own process (`claims`) and `neighbours`, if there are
    any.

    A link that wants a topic at the same time writes within `settle_s` whether it continues with it.
    """

    link: str
    claims: Claims
    neighbours: Neighbours | None
    settle_s: float = 5.0

    async def hear(self, topics: Mapping[TargetTopic, SourceTopic]) -> None:
        """Read which links write those topics that are not held yet.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        new = {name: own for name, own in topics.items() if not self.claims.is_held(self.link, name)}
        if new and self.neighbours is not None:
            await self.neighbours.look({*new, *new.values()})

    async def settle(self, plan: LinkPlan) -> LinkPlan:
        """Return the plan without what others begin at the same time: write what is wanted, then read the others'
        claims. Of links that do so at once the last to read has read all others, and the one the others wait for writes
        its decision soon.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: A cluster as a whole did not answer, or the ledger cannot be written.
        """
        begun = [topic for topic in plan.topics if not topic.reasons and topic.action not in STAYING]
        new = {topic.topic: topic for topic in begun if not self.claims.is_held(self.link, topic.topic)}
        if self.neighbours is None or not new:
            return plan
        wanted = await self.neighbours.tell(new.values())
        lost: dict[TargetTopic, TopicPlan] = {}
        deadline = Deadline(self.settle_s)
        while new:
            await self.neighbours.look({*new, *(topic.source_topic for topic in new.values())})
            left = self._take_settled(new, wanted, is_late=deadline.has_passed)
            await self.neighbours.leave(left.values())
            lost.update(left)
            if new:
                await asyncio.sleep(_LOOK_S)
        return replace(plan, topics=tuple(lost.get(topic.topic, topic) for topic in plan.topics))

    def _take_settled(
        self, new: dict[TargetTopic, TopicPlan], wanted: Collection[TargetTopic], *, is_late: bool
    ) -> dict[TargetTopic, TopicPlan]:
        """Take from the `new` topics those that are settled; return those of them that are left to others."""
        left: dict[TargetTopic, TopicPlan] = {}
        for name, topic in list(new.items()):
            settled = self.claims.settle(self.link, name, is_wanted=name in wanted)
            if settled.waits and not is_late:
                continue
            del new[name]
            if settled.problem is not None:
                self.claims.release(self.link, name)
                left[name] = refuse_topic(topic, settled.problem)
        return left


def refuse_topic(topic: TopicPlan, problem: Problem, state: LaneState = LaneState.REFUSED) -> TopicPlan:
    """Return the plan of a topic that is not copied, with the reason."""
    return TopicPlan(
        topic=topic.topic,
        source_topic=topic.source_topic,
        action=Action.REFUSE,
        partition_count=topic.partition_count,
        reasons=(problem,),
        state=state,
    )
