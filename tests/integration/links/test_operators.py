"""The operators' stories of KIP-986, step by step, on clusters whose rules keep others away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import KafkaError
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import Fabric, Namespaces, open_fabric
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.lane import LaneState
from isthmus.model.links.pair import FOLLOWING_S, PairState
from isthmus.model.links.reservation import Reservation
from isthmus.model.links.writability import NamespaceState
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.run.following import Following
from testing.groups.carrying import records
from testing.links.reserving import admin_of, as_isthmus, until, written
from testing.records import oracle, topics
from testing.runs.running import Running, ends, patient, running
from testing.verbs import LinkRecoverer, Promoter

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
QUICK = patient(follow_s=0.2)
REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def operated(secured: LocalCluster, guarded: LocalCluster) -> Fabric:
    """Both clusters with the credentials of an operator, who may manage links and namespaces on either."""
    clusters = admin_of(secured), admin_of(guarded)
    return Fabric(Configuration(clusters=clusters, links=(), timings=patient(calm_s=0.5)))


def run_of(operated: Fabric, name: str) -> tuple[Configuration, Following]:
    """What runs the link, and follows what is declared of it."""
    opened = open_fabric(operated.configuration, declared=True).configuration
    only = replace(opened, links=tuple(link for link in opened.links if link.name == name))
    return only, Following(written=only.written)


async def stands(run: Running, state: PairState) -> None:
    """Wait until the link stands so."""
    await run.until(lambda: bool(run.links) and run.links[0].pair_state is state)


def refused(cluster: LocalCluster, topic: str) -> int | None:
    """With which code an application's record is refused; it may have been allowed a moment ago."""
    return until(lambda: written(as_isthmus(cluster), topic))


def taken(cluster: LocalCluster, topic: str) -> None:
    """An application's record is taken; it may have been refused a moment ago."""
    until(lambda: written(as_isthmus(cluster), topic), refused=False)


def test_a_link_with_an_empty_namespace_and_a_follower_made_writable(
    operated: Fabric, secured: LocalCluster, guarded: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """Creating a link; adding an empty namespace to it and a topic within it afterwards; removing the follower topic
    from the link and making it writable.
    """
    name = topic("story")
    local, remote = Namespace.of(f"{name}.local-"), Namespace.of(f"{name}.remote-")
    clicks, copy = f"{name}.local-clicks", f"{name}.remote-clicks"
    leader, follower = (operated.cluster(each.name).namespaces for each in (secured, guarded))
    # The handshake found out what both sides can keep, and both hold the same of the link.
    made = operated.declarations.create(name, source=secured.name, target=guarded.name, maps=[])
    ids = {secured.cluster_id, guarded.cluster_id}
    assert set(made.declaration.semantics) == ids
    assert (made.behind, dict(made.away)) == ((), {})
    leader.create(local)
    follower.create(remote)
    each = NamespaceMap(source=local, target=remote)
    operated.declarations.attach(name, [each])
    assert follower.describe(remote).is_reserved
    closed = follower.enforce(remote, super_user=True).in_force
    assert isinstance(closed, Reservation)
    only, following = run_of(operated, name)

    async def scenario() -> None:
        async with running(only, spark, following=following, timings=QUICK) as run:
            await stands(run, PairState.FOLLOWING)
            stood: set[PairState] = set()

            def is_there() -> bool:
                new = run.topic(copy)
                # What was seen of its source longer ago proves nothing.
                if new is None or all(each.source_age_s < FOLLOWING_S for each in new.partitions):
                    stood.add(run.links[0].pair_state)
                return run.state_of(copy) is LaneState.ACTIVE

            await asyncio.to_thread(topics.create, secured, clicks)
            await run.until(is_there)
            assert stood == {PairState.FOLLOWING}, "it did not remain so"
            await asyncio.to_thread(topics.produce, secured, clicks, records(20))
            await run.until(lambda: ends_at(guarded, copy, 20))
            await stands(run, PairState.FOLLOWING)
            assert await asyncio.to_thread(refused, guarded, copy) == REFUSED
            await asyncio.to_thread(operated.link(name).promoter([each]).detach)
            await run.until(lambda: not run.links[0].topics)
            await stands(run, PairState.FOLLOWING)
            assert await asyncio.to_thread(refused, guarded, copy) == REFUSED
            await asyncio.to_thread(follower.update, remote, reserved=False)
            await asyncio.to_thread(taken, guarded, copy)
            await asyncio.to_thread(topics.produce, secured, clicks, records(5))
            await run.end()

    asyncio.run(scenario())
    (seen,) = oracle.records(guarded.admin_bootstrap_servers, copy)
    assert [each.offset for each in seen] == list(range(21))
    assert seen[-1].value == b"mine"
    operated.declarations.delete(name)
    leader.delete(local)
    follower.delete(remote)


async def is_at_state(namespaces: Namespaces, namespace: Namespace, state: NamespaceState) -> bool:
    """Whether a namespace stands so at every leader."""
    return (await asyncio.to_thread(namespaces.describe, namespace)).state is state


async def ends_at(cluster: LocalCluster, name: str, end: int) -> bool:
    """Whether a topic of one partition ends there."""
    return await ends(cluster, name) == [end]


async def unclean_link_recovery(
    run: Running, operated: Fabric, name: str, pair: NamespaceMap, source: LocalCluster, target: LocalCluster
) -> None:
    """The last of several links that run is disconnected, both sides go on apart, and it is established again."""
    leading, following = pair.source.prefix, pair.target.prefix
    (shared,) = await ends(target, following)
    quickly = replace(operated.configuration, timings=patient(calm_s=0.5))
    await Promoter(configuration=quickly, name=name).failover()
    await asyncio.to_thread(taken, target, following)
    for _ in range(2):
        await asyncio.to_thread(taken, source, leading)
    # Examine the last shared offset, and the current end offset in both namespaces. The source has more: it leads.
    told = await asyncio.to_thread(operated.provenance, following)
    assert max(each.offset_end for each in told.origins if each.link == name) == shared
    assert (await ends(source, leading), await ends(target, following)) == ([shared + 2], [shared + 1])
    # Move all clients to the leader: the follower is reserved, and takes nothing from them any more.
    follower = operated.cluster(target.name).namespaces
    await asyncio.to_thread(follower.enforce, pair.target, super_user=True)
    assert await asyncio.to_thread(refused, target, following) == REFUSED
    # The link is asynchronous. Once the pair is added the link stops where both sides differ: nothing goes by itself.
    assert operated.declarations.describe(name).declaration.mode == "async"
    await asyncio.to_thread(operated.declarations.attach, name, [pair])
    await run.until(lambda: (state := run.state_of(following)) is not None and state.is_terminal)
    assert await ends(target, following) == [shared + 1]
    # It is brought back to the last shared offset, and catches up.
    opened = open_fabric(operated.configuration, declared=True).configuration
    (found,) = (await LinkRecoverer(configuration=opened, name=name, quiet_s=0.3).recover()).topics
    assert ([each.shared for each in found.partitions], found.quarantined) == ([shared], 1)
    await run.until(
        lambda: run.links[-1].state_of(pair) is PairState.FOLLOWING and ends_at(target, following, shared + 2)
    )


def test_a_single_topic_that_exists_its_reversal_and_unclean_link_recovery(
    operated: Fabric, secured: LocalCluster, guarded: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """Adding a single existing topic to a link, and no other whose name begins so; reversing its direction with full
    consistency: nobody may write to both, and every record is on both sides at the same offset. Then unclean link
    recovery, after which that is so again.
    """
    name = topic("single")
    clicks, copy = f"{name}.local-clicks", f"{name}.remote-clicks"
    # Some answers to be read, each of which is waited for.
    held = topics.some(250, random.Random(1), value_bytes=10_000)
    for each in (clicks, f"{clicks}2"):
        topics.create(secured, each)
        topics.produce(secured, each, held if each == clicks else held[:1], batch_size=16_384)
    single = NamespaceMap.parse(f"{clicks}:{copy}", is_exact=True)
    leader, follower = (operated.cluster(each.name).namespaces for each in (secured, guarded))
    leader.create(single.source)
    follower.create(single.target)
    slow = {"limits.bytes_per_s": 1_000_000}
    operated.declarations.create(name, source=secured.name, target=guarded.name, maps=[], settings=slow)
    back = f"{name}-back"
    operated.declarations.create(back, source=guarded.name, target=secured.name, maps=[])
    only, following = run_of(operated, name)
    both = replace(only, links=(*only.links, *run_of(operated, back)[0].links))

    async def scenario() -> None:
        async with running(both, spark, following=following, timings=QUICK) as run:
            await stands(run, PairState.FOLLOWING)
            await asyncio.to_thread(operated.declarations.attach, name, [single])
            await stands(run, PairState.CATCHING_UP)
            assert follower.describe(single.target).is_reserved
            await asyncio.to_thread(follower.enforce, single.target, super_user=True)
            await run.until(lambda: ends_at(guarded, copy, len(held)))
            await stands(run, PairState.FOLLOWING)
            assert await ends(guarded, f"{copy}2") == [-1]
            assert await asyncio.to_thread(refused, guarded, copy) == REFUSED
            await run.until(lambda: run.links[1].pair_state is PairState.FOLLOWING)
            # From here on nobody but the link writes on either side.
            await asyncio.to_thread(leader.enforce, single.source, super_user=True)
            assert await asyncio.to_thread(refused, secured, clicks) == REFUSED
            await run.until(partial(is_at_state, leader, single.source, NamespaceState.RESERVED))
            (end,) = await ends(secured, clicks)
            await run.until(lambda: ends_at(guarded, copy, end))
            await asyncio.to_thread(operated.link(name).promoter([single]).detach)
            await asyncio.to_thread(operated.declarations.attach, back, [single.reversed])
            await asyncio.to_thread(follower.update, single.target, reserved=False)
            await run.until(partial(is_at_state, follower, single.target, NamespaceState.WRITABLE))
            await asyncio.to_thread(taken, guarded, copy)
            (end,) = await ends(guarded, copy)
            await run.until(lambda: ends_at(secured, clicks, end))
            assert await asyncio.to_thread(refused, secured, clicks) == REFUSED
            await unclean_link_recovery(run, operated, back, single.reversed, guarded, secured)
            await run.end()

    asyncio.run(scenario())
    (there,), (here,) = (
        oracle.records(each.admin_bootstrap_servers, found) for each, found in ((secured, clicks), (guarded, copy))
    )
    assert there == here
    assert there[-1].value == b"mine"
    for each in (name, back):
        operated.declarations.delete(each)
    leader.update(single.source, reserved=False)
