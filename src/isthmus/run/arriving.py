"""How far a link is on its way to what its source had, including everything that it synchronizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from isthmus.groups.carrier import GroupCarrier
from isthmus.lanes.catchup import Arrival, CatchUp
from isthmus.loops.runner import LoopRunners
from isthmus.model.lane import LaneKey
from isthmus.model.links.pauses import Pauses
from isthmus.model.loop import GROUPS_TASK
from isthmus.run.leasing import LeasedLanes
from isthmus.run.opened import OpenLink
from isthmus.topics.loop import TopicLoop
from isthmus.topics.plan import LinkPlan

_ALL: Final = -1
"""The value in place of a partition for a topic as a whole."""


class Approach:
    """Whether the data, the groups and the loops of a link have arrived, checked again and again. `pauses` are what
    operators have paused of it.
    """

    def __init__(
        self,
        link: OpenLink,
        topics: TopicLoop,
        lanes: LeasedLanes,
        groups: GroupCarrier,
        loops: LoopRunners,
        pauses: Callable[[], Pauses],
    ) -> None:
        self._topics, self._lanes, self._groups, self._loops = topics, lanes, groups, loops
        self._pauses = pauses
        self._catch_up = CatchUp(link.source, link.timings.stuck_s)

    async def look(self, *, ignores_open: bool) -> Arrival:
        """Return how far the running parts are; see `CatchUp`.

        :raises ClusterError: A cluster does not answer.
        """
        plan = self._topics.plan
        if plan is None:
            return Arrival.UNDER_WAY
        arrival = await self._catch_up.look(self._lanes.runnable(), self._lanes.reports(), ignores_open=ignores_open)
        if arrival is Arrival.UNDER_WAY or not all(map(self._catch_up.is_stuck, self._note_missing(plan))):
            return Arrival.UNDER_WAY
        await self._topics.settle()
        has_carried = self._pauses().stops(GROUPS_TASK) or self._groups.catch_up()
        return arrival if has_carried and self._loops.catch_up() else Arrival.UNDER_WAY

    def _note_missing(self, plan: LinkPlan) -> list[LaneKey]:
        """Return topics with partitions missing at the target that may come soon, and note whether they are waiting."""
        missing = {LaneKey(topic.topic, _ALL): not topic.reasons and not topic.is_laid_out for topic in plan.topics}
        for key, is_missing in missing.items():
            self._catch_up.note(key, is_waiting=is_missing)
        return [key for key, is_missing in missing.items() if is_missing]
