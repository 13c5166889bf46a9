"""The network between Isthmus and a cluster is cut, loses answers, and resets connections while records flow."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest

from isthmus.model.cluster import Cluster
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from testing.brokers.proxy import HOST, Proxy, Weather, behind_proxy
from testing.records import topics
from testing.runs.mirror import Mirror
from testing.runs.witness import until_all_advance, until_told
from tests.faults.stream import DAY_MS, Stream

pytestmark = pytest.mark.faults

PARTITIONS: Final = 2
TopicNamer = Callable[[str], str]


class Remote(NamedTuple):
    """A mirror between clusters of one broker, and the networks on the way to them."""

    mirror: Mirror
    source: Proxy
    target: Proxy

    def proxy(self, side: str) -> Proxy:
        return self.source if side == "source" else self.target


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    """Both clusters reach Isthmus through a proxy only; whoever produces or looks goes straight to them."""
    with behind_proxy("near") as (source, here), behind_proxy("far") as (target, there):
        source_login, target_login = (
            Cluster(alias=c.name, bootstrap_servers=(f"{HOST}:{p.port}",)) for c, p in ((source, here), (target, there))
        )
        yield Remote(Mirror(source, target, source_login=source_login, target_login=target_login), here, there)


@pytest.fixture
def stream(remote: Remote, topic: TopicNamer) -> Stream:
    """Records now, and records three days old, for which no leader keeps the state of our producer."""
    ages_ms = {topic("fresh"): 0, topic("old"): 3 * DAY_MS}
    for name in ages_ms:
        topics.create_both(remote.mirror.source, remote.mirror.target, name, partitions=PARTITIONS)
    return Stream(remote.mirror.source, ages_ms, partitions=PARTITIONS)


@pytest.mark.parametrize("side", ["source", "target"])
def test_cut(remote: Remote, stream: Stream, side: str) -> None:
    """While a cluster is out of reach its lanes say so; they go on by themselves when the network is back."""
    proxy = remote.proxy(side)
    state = LaneState.SOURCE_UNAVAILABLE if side == "source" else LaneState.TARGET_UNAVAILABLE
    key = LaneKey(TargetTopic(next(iter(stream.ages_ms))), 0)

    async def scenario() -> None:
        async with remote.mirror.running(*stream.ages_ms, engine={"settle_s": 2.0}) as running:
            with stream.flowing():
                await until_all_advance(running)
                with proxy.weather(Weather.CUT):
                    # Nobody resets what is cut off: it takes the patience of a request to notice.
                    await until_told(running, key, state)
                await until_all_advance(running)
            await running.until(stream.is_copied)

    asyncio.run(scenario())

    stream.assert_mirrored(remote.mirror.target)


@pytest.mark.parametrize("side", ["source", "target"])
def test_answers_lost(remote: Remote, stream: Stream, chance: random.Random, side: str) -> None:
    """Requests that arrive and whose answers are lost are neither lost nor done twice."""
    proxy = remote.proxy(side)

    async def scenario() -> None:
        async with remote.mirror.running(*stream.ages_ms, engine={"settle_s": 2.0}) as running:
            with stream.flowing():
                for _ in range(4):
                    await until_all_advance(running)
                    lost_bytes = proxy.lost_bytes
                    with proxy.weather(Weather.DEAF):
                        while proxy.lost_bytes == lost_bytes:
                            await asyncio.sleep(0.01)
                        await asyncio.sleep(chance.uniform(0.0, 1.5))
                await until_all_advance(running)
            await running.until(stream.is_copied)

    asyncio.run(scenario())

    stream.assert_mirrored(remote.mirror.target)


def test_connections_reset(remote: Remote, stream: Stream, chance: random.Random) -> None:
    """Connections of both sides that break at any byte cost a moment each and no record."""
    resets = 25

    async def scenario() -> None:
        async with remote.mirror.running(*stream.ages_ms, engine={"settle_s": 0.3}) as running:
            with stream.flowing():
                await until_all_advance(running)
                before = remote.source.resets + remote.target.resets
                while remote.source.resets + remote.target.resets < before + resets:
                    chance.choice((remote.source, remote.target)).reset_one(chance)
                    await asyncio.sleep(chance.uniform(0.0, 0.3))
                await until_all_advance(running)
            await running.until(stream.is_copied)

    asyncio.run(scenario())

    stream.assert_mirrored(remote.mirror.target)
