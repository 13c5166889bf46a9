"""An unclean election at the target takes back what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from testing.patience import TERM_S
from testing.records import topics
from testing.runs.mapping import Maps, assert_mapped
from testing.runs.mirror import Mirror
from testing.runs.witness import until_all_advance
from tests.faults.schedule import until_in_sync
from tests.faults.stream import DAY_MS, Stream

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
LEADER: Final = 1
FOLLOWER: Final = 2


@pytest.mark.parametrize(
    ("age_ms", "is_mapped"), [(0, False), (3 * DAY_MS, False), (0, True)], ids=["fresh", "old", "mapped"]
)
def test_unclean_election(
    mirror3: Mirror, topic: TopicNamer, age_ms: int, is_mapped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica that had fallen behind becomes the leader: what it lacks is sent again, once and in order."""
    name = topic("unclean")
    source, target = mirror3.source, mirror3.target
    topics.create(source, name, replicas=3, min_insync_replicas=2)
    _create_on(target, name, [LEADER, FOLLOWER])
    stream, key, maps = Stream(source, {name: age_ms}), LaneKey(TargetTopic(name), 0), Maps()

    async def scenario() -> None:
        engine = {"settle_s": 2.0, **({"maps": maps} if is_mapped else {})}
        async with mirror3.running(name, engine=engine, is_mapped=is_mapped) as running:
            with stream.flowing():
                await until_all_advance(running)
                await asyncio.to_thread(target.broker(FOLLOWER).kill)
                # What was on its way may have reached both; the next ones are acknowledged by the leader alone.
                await _until_alone(running.target, name, LEADER)
                await until_all_advance(running, records=300)
                acknowledged = running.reports[key].position
                await asyncio.to_thread(target.broker(LEADER).kill)
                await asyncio.to_thread(target.broker(FOLLOWER).start)
                await _until_led_by(running.target, name, FOLLOWER)
                await running.until(lambda reports: reports[key].position > acknowledged + 300)
                await asyncio.to_thread(target.broker(LEADER).start)
                await until_in_sync(target, name, replicas=2)
            await running.until(stream.is_copied)
            if is_mapped:
                maps.note(running.engine)

    asyncio.run(scenario())

    assert f"{key}: the target lost" in caplog.text
    stream.assert_mirrored(target)
    if is_mapped:
        assert maps.cursors[key].rewound > 0
        assert_mapped(source, target, name, name, maps.of(name))


def _create_on(cluster: LocalCluster, name: str, replicas: list[int]) -> None:
    """A topic of one partition on these brokers that prefers going on to keeping everything."""
    topics.create(cluster, name, assigned=[replicas], min_insync_replicas=1, unclean_leader_election_enable="true")


async def _until_alone(client: Client, name: str, node_id: int) -> None:
    async with asyncio.timeout(TERM_S):
        while tuple((await client.metadata([name])).topics[name].partitions[0].isr) != (node_id,):
            await asyncio.sleep(0.1)


async def _until_led_by(client: Client, name: str, node_id: int) -> None:
    async with asyncio.timeout(TERM_S):
        while (await client.metadata([name])).topics[name].partitions[0].leader != node_id:
            await asyncio.sleep(0.1)
