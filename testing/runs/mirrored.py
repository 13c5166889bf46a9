"""A loop over topics that runs for one test, and another link that wants the same topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager

from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.memory.claims import Claim, Claims, ToldClaims
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.link import Link
from isthmus.model.naming import TargetTopic
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.loop import Begin, TopicLoop
from isthmus.topics.plan import TopicPlan


class Rival:
    """A link of another controller that wants the same topic at the same time, and says so for some looks (`says`). It
    keeps what it was told, and whether the topic was there then.
    """

    def __init__(self, claim: Claim, target: Client, says: int) -> None:
        self.claims = Claims()
        self.told: list[tuple[str, bool]] = []
        self._claim, self._target, self._says = claim, target, says

    async def look(self, topics: Collection[str]) -> None:
        assert self._claim.target_topic in topics
        wants = (self._claim,) if self.told and self._says > 0 else ()
        self._says -= bool(wants)
        self.claims.hear(ToldClaims(self._claim.target_id, topics.__contains__, wants))

    async def tell(self, topics: Collection[TopicPlan]) -> frozenset[TargetTopic]:
        known = (await self._target.metadata([each.topic for each in topics])).topics
        self.told += [(name, each.error_code == 0) for name, each in known.items()]
        return frozenset(map(TargetTopic, known))

    async def leave(self, topics: Iterable[TopicPlan]) -> None:
        self.told += [(f"not {each.topic}", False) for each in topics]


class Mirrored:
    """A link between two clusters, with its loop and what it was told to remember."""

    def __init__(self, source: Client, target: Client, pattern: str) -> None:
        self.source, self.target = source, target
        self.recorded: dict[TargetTopic, TopicIds] = {}
        self.forgotten: list[str] = []
        self.link = Link(
            name="east-west",
            source=source.cluster,
            target=target.cluster,
            topics=TopicSettings(include=(TopicPattern.parse(pattern),)),
        )
        self.begin()

    def begin(self, neighbours: Rival | None = None, *, writes: Begin | None = None) -> None:
        """Start over as a new controller would, perhaps beside another one."""
        self.loop = TopicLoop(
            self.link,
            self.source,
            self.target,
            claims=Claims() if neighbours is None else neighbours.claims,
            recorded=dict(self.recorded),
            remember=self._remember,
            begin=writes,
            neighbours=neighbours,
            forget=self._forget,
            has_claimed=asyncio.Event(),
        )

    async def _remember(self, ids: Mapping[TargetTopic, TopicIds]) -> None:
        self.recorded.update(ids)

    async def _forget(self, names: Collection[TargetTopic]) -> None:
        self.forgotten.extend(names)

    async def planned(self, topic: str) -> TopicPlan:
        """The topic's plan after another look, or two where something went away."""
        await self.loop.refresh()
        await self.loop.refresh()
        assert self.loop.plan is not None
        return next(t for t in self.loop.plan.topics if t.topic == topic)


@asynccontextmanager
async def mirrored(east: LocalCluster, west: LocalCluster, pattern: str) -> AsyncIterator[Mirrored]:
    """A link from east to west."""
    async with Client(east.cluster()) as source, Client(west.cluster()) as target:
        yield Mirrored(source, target, pattern)
