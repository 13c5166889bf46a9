"""What the network's round trips tell of where a cluster is."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from isthmus.engine.brokers.distance import (
    RESPONSE_BYTES,
    RESPONSE_BYTES_FAR,
    Distances,
    RoundTrip,
    next_bytes,
    worth_bytes,
)
from isthmus.engine.brokers.routes import Routes
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Broker, Metadata, PartitionMetadata, TopicMetadata
from testing.values.looks import NOWHERE

NEAR, FAR, FARTHER, UNHEARD = 1, 2, 3, 4
FAR_S: Final = 0.05


def grown(took_s: float, far_s: float, *, start: int = RESPONSE_BYTES) -> int:
    """What is asked for after many full answers that took so long."""
    size = start
    for _ in range(10):
        size = next_bytes(size, took_s, far_s)
    return size


def test_answers_grow_where_the_way_is_long() -> None:
    """A far source is asked for more at once; a near one is not, however slow, and one that came nearer for less."""
    assert grown(0.06, FAR_S) == RESPONSE_BYTES_FAR
    assert grown(0.5, 0.0) == RESPONSE_BYTES
    assert grown(0.06, 0.0, start=RESPONSE_BYTES_FAR) == RESPONSE_BYTES


def test_answers_do_not_grow_on_a_narrow_line() -> None:
    """Where a megabyte takes seconds, more of them at once would only be late: then a time-out may be near."""
    assert grown(3.0, FAR_S) == RESPONSE_BYTES
    assert grown(3.0, FAR_S, start=RESPONSE_BYTES_FAR) == RESPONSE_BYTES


def trip(*answers_s: float) -> RoundTrip:
    """The way to a broker whose answers took so long."""
    found = RoundTrip()
    for seconds in answers_s:
        found.took(seconds)
    return found


def test_one_soon_answer_proves_that_a_broker_is_near() -> None:
    """However many were slow, before it or after it."""
    assert trip(*[0.2] * 99, 0.004).far_s == 0
    assert trip(0.004, *[0.2] * 99).far_s == 0
    assert trip(0.004).is_near


def test_a_broker_is_far_by_the_least_of_many_answers() -> None:
    """What they take more than that is somebody's queue; the less far, the more of them it takes."""
    assert trip(*[0.3] * 7).far_s == 0
    assert trip(*[0.3] * 8).far_s == 0.3
    assert trip(*[0.3] * 8, FAR_S).far_s == FAR_S
    assert trip(*[0.01] * 200).far_s == 0
    assert trip(*[0.01] * 230).far_s == 0.01


def test_joining_is_worth_more_the_farther_the_target_is() -> None:
    """Nothing where it is near."""
    assert worth_bytes(0.0) == 0
    assert worth_bytes(FAR_S) == 2_500_000


def heard(*partitions: tuple[int, tuple[int, ...]]) -> Routes[str]:
    """Routes that know partitions by their leaders and in-sync replicas."""
    found = Routes[str](Client(NOWHERE))
    told = [PartitionMetadata(n, leader, 1, isr, isr, codes.NONE) for n, (leader, isr) in enumerate(partitions)]
    topic = TopicMetadata("orders", uuid.UUID(int=1), tuple(told), codes.NONE, is_internal=False)
    brokers = {node: Broker(node, "127.0.0.1", 9090 + node, None) for node in (NEAR, FAR, FARTHER, UNHEARD)}
    found._take(Metadata("cluster", 1, brokers, {"orders": topic}))
    return found


def distances(routes: Routes[str], *, with_replicas: bool = True) -> Distances:
    """Round trips that were measured, but for one."""
    found = Distances(routes, with_replicas=with_replicas)
    found._far_s = {NEAR: 0.0, FAR: FAR_S, FARTHER: FAR_S * 2}
    return found


def test_an_append_goes_as_far_as_the_replicas_that_acknowledge_it() -> None:
    """A near leader lets wait as long as its farthest follower; others are not waited for."""
    found = distances(heard((NEAR, (NEAR,)), (FAR, (FAR, NEAR)), (FARTHER, (FAR, FARTHER))))

    assert [found.far_s(node) for node in (NEAR, FAR, FARTHER)] == [0.0, FAR_S, FAR_S * 2]
    assert distances(heard((NEAR, (NEAR, UNHEARD)))).far_s(NEAR) == 0
    assert distances(heard((NEAR, (NEAR, FAR)), (FAR, (FAR,)))).far_s(NEAR) == FAR_S


def test_a_read_goes_to_the_leader_only() -> None:
    """Where a source's replicas are is nothing to its readers, and nobody asks them."""
    found = distances(heard((NEAR, (NEAR, FAR))), with_replicas=False)

    assert found.far_s(NEAR) == 0
    assert found._nodes() == {NEAR}


def test_a_broker_that_leads_nothing_any_more_is_not_asked() -> None:
    """It may be gone for good; whoever needs it again asks anew."""
    routes = heard((FAR, (FAR,)))
    found = Distances(routes, with_replicas=False, seldom_s=0.001)

    async def lead_and_leave() -> None:
        asking = asyncio.create_task(found.run())
        while FAR not in found._far_s:
            await asyncio.sleep(0.001)
        routes._acknowledging.clear()
        while found._far_s:
            await asyncio.sleep(0.001)
        asking.cancel()

    asyncio.run(lead_and_leave())
