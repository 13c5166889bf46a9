"""Which topics a link begins with, and which it leaves to links of other controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace

from isthmus.memory.claims import Claim, Claims, ToldClaims
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.topics.checks.settling import Settling, refuse_topic
from isthmus.topics.plan import Action, LinkPlan, TopicPlan

TOPIC = TargetTopic("orders")
OWN = Claim(link="own", source_topic=SourceTopic("from"), target_topic=TOPIC, source_id="a", target_id="b")
WANTED = TopicPlan(topic=TOPIC, source_topic=SourceTopic("from"), action=Action.CREATE)
PLAN = LinkPlan(link="own", source="east", target="west", topics=(WANTED,))


class Others:
    """The links of others: they say the same at every look, and keep what was asked and told."""

    def __init__(self, claims: Claims, *says: Claim) -> None:
        self.asked: list[set[str]] = []
        self.told: list[str] = []
        self._claims, self._says = claims, says

    async def look(self, topics: Collection[str]) -> None:
        self.asked.append(set(topics))
        self._claims.hear(ToldClaims("b", topics.__contains__, self._says))

    async def tell(self, topics: Collection[TopicPlan]) -> frozenset[TargetTopic]:
        self.told += [f"wants {each.topic}" for each in topics]
        return frozenset(each.topic for each in topics)

    async def leave(self, topics: Iterable[TopicPlan]) -> None:
        self.told += [f"leaves {each.topic}" for each in topics]


def test_what_is_held_or_refused_is_not_settled_again() -> None:
    """A topic is looked for by its names at both ends, until the link holds it."""
    claims = Claims()
    others = Others(claims)
    own = Settling("own", claims, others)
    assert claims.grant(OWN) is None

    async def scenario() -> None:
        await own.hear({TOPIC: SourceTopic("from")})
        assert await own.settle(PLAN) == PLAN
        assert (others.asked, others.told) == ([{"from", "orders"}] * 2, ["wants orders"])
        await own.hear({TOPIC: SourceTopic("from")})
        assert await own.settle(PLAN) == PLAN
        failed = replace(PLAN, topics=(refuse_topic(replace(WANTED, topic=TargetTopic("bad")), Problem("no")),))
        assert await own.settle(failed) == failed
        assert (len(others.asked), others.told) == (2, ["wants orders"])

    asyncio.run(scenario())


def test_whoever_does_not_give_way_in_time_has_the_topic() -> None:
    """The others are told that the link leaves it, and it stands in nobody's way here."""
    claims = Claims()
    others = Others(claims, replace(OWN, link="zeta", source_id="c", is_wanted=True))
    assert claims.grant(OWN) is None
    found = asyncio.run(Settling("own", claims, others, settle_s=0.0).settle(PLAN))
    (topic,) = found.topics
    assert (topic.action, others.told) == (Action.REFUSE, ["wants orders", "leaves orders"])
    claims.hear(ToldClaims("b", lambda _: True, ()))
    assert claims.grant(replace(OWN, link="beside")) is None
