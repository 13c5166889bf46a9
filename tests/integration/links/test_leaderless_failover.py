"""A failover names the partitions of which nobody tells what is open, and ends that when it is given again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from isthmus.errors import Unreachable
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions import aborting
from isthmus.kafka.transactions.aborting import leaderless
from isthmus.kafka.transactions.finishing import finish
from isthmus.kafka.transactions.open import open_transactions
from isthmus.links import promotion
from isthmus.links.promotion import OnStep
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.links.promotion import Promotion
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import MODE
from isthmus.model.text.plain import plain
from testing.brokers.hanging import trusting
from testing.gateways.commits import Log
from testing.links.synchronous import ended, leave_prepared
from testing.patience import TERM_S
from testing.records import topics
from testing.verbs import AsyncDeclaredLinks, Promoter

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("taken", ["never", "as it begins", "as it looks"])
def test_what_is_open_where_there_is_no_leader(
    east: LocalCluster,
    west3: LocalCluster,
    topic: Callable[[str], str],
    taken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lanes left open in another partition is aborted at once, but for what another link takes meanwhile."""
    name = topic("leaderless")
    both = Configuration(clusters=(east.cluster(), west3.cluster()), links=())
    topics.create(east, f"{name}.a", partitions=2)
    topics.create(west3, f"{name}.a", assigned=[[1], [3]])
    declarations, maps = Fabric(both).declarations, [NamespaceMap.parse(f"{name}.")]
    declarations.create(name, source="east", target="west3", maps=maps)

    def take() -> None:
        declarations.create(f"{name}-next", source="east", target="west3", maps=maps)
        monkeypatch.undo()

    async def leave_open() -> None:
        async with Client(west3.cluster()) as client:
            for partition in range(2):
                await Log(client, f"{name}.a", partition).write(7)

    def failover() -> tuple[Promotion, list[tuple[int, str]]]:
        found = failed_over(both, name)
        return found, [(each.partition, each.topic) for each in found.aborted]

    async def is_open() -> bool:
        async with Client(west3.cluster()) as client, asyncio.timeout(TERM_S):
            key = f"{name}.a", 1
            while key not in (found := (await log_ranges(client, [key])).values):
                await asyncio.sleep(0.1)
            return found[key].stable_end < found[key].end

    with trusting(west3):
        asyncio.run(leave_open())
        west3.broker(3).kill()
        try:
            asyncio.run(until_leaderless(west3, (f"{name}.a", 1)))
            first, ended = failover()
        finally:
            west3.broker(3).start()
        assert asyncio.run(is_open())
        if taken == "as it begins":
            monkeypatch.setattr(promotion, "finish", while_taken(finish, take, lambda _: True))
        if taken == "as it looks":
            monkeypatch.setattr(aborting, "open_transactions", while_taken(open_transactions, take, any))
        again, ended_again = failover()

    assert ended == [(0, f"{name}.a")]
    assert [each.message.split(":")[0] for each in first.notes] == [f"{name}.a-1 has no leader"]
    assert (ended_again, again.notes) == ([(1, f"{name}.a")] if taken == "never" else [], ())
    assert asyncio.run(is_open()) is (taken != "never")


def while_taken(
    work: Callable[..., Any], take: Callable[[], None], is_time: Callable[[Any], bool]
) -> Callable[..., Any]:
    """The same work, and something that happens as it has come to a result."""

    async def done(*given: Any, **named: Any) -> Any:
        found = await work(*given, **named)
        if is_time(found):
            await asyncio.to_thread(take)
        return found

    return done


def test_a_partition_that_tells_a_commit_is_waited_for(
    east: LocalCluster, west3: LocalCluster, topic: Callable[[str], str]
) -> None:
    """It has no leader as the failover begins, and it alone has the end of a transaction over two partitions: where it
    is not waited for, nobody knows, and a dry run names it.
    """
    name = topic("proof")
    both = Configuration(clusters=(east.cluster(), west3.cluster()), links=())
    topics.create(east, f"{name}.a", partitions=2)
    topics.create(west3, f"{name}.a", assigned=[[1], [3]])
    declarations = Fabric(both).declarations
    declarations.create(name, source="east", target="west3", maps=[NamespaceMap.parse(f"{name}.")])

    async def leave_open() -> None:
        async with Client(west3.cluster()) as client:
            await leave_prepared(client, name, f"{name}.a")

    def start(step: str) -> None:
        if step == "detaching":
            west3.broker(3).start(wait=False)

    with trusting(west3):
        asyncio.run(leave_open())
        west3.broker(3).kill()
        try:
            asyncio.run(until_leaderless(west3, (f"{name}.a", 1)))
            would = failed_over(both, name, dry_run=True)
            found = failed_over(both, name, on_step=start)
        finally:
            west3.broker(3).start()

    assert (ended(would), ended(found)) == ([(0, False)], [(0, True)])
    assert [each.message.split(":")[0] for each in would.notes] == [
        f"{name}.a-1 has no leader",
        "whether the transaction of producer 7 of the source was committed is not known",
    ]
    assert found.notes == ()


def test_what_is_committed_later_is_named_by_whoever_goes_on(
    east: LocalCluster, west3: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A failover that is given again, as a partition had no leader before, is interrupted once it has ended that."""
    name = topic("later")
    both = Configuration(clusters=(east.cluster(), west3.cluster()), links=())
    topics.create(east, f"{name}.a", partitions=2)
    topics.create(west3, f"{name}.a", assigned=[[3], [1]])
    declarations = Fabric(both).declarations
    declarations.create(name, source="east", target="west3", maps=[NamespaceMap.parse(f"{name}.")])

    async def become_synchronous() -> None:
        await AsyncDeclaredLinks(both).change(name, lambda _: {MODE: SYNC})
        async with Client(west3.cluster()) as client:
            await leave_prepared(client, name, f"{name}.a")

    def stop(step: str) -> None:
        if step == "forgetting that they were copies":
            raise InterruptedError

    with trusting(west3):
        asyncio.run(become_synchronous())
        west3.broker(3).kill()
        try:
            asyncio.run(until_leaderless(west3, (f"{name}.a", 0)))
            first = failed_over(both, name)
        finally:
            west3.broker(3).start()
        with pytest.raises(InterruptedError):
            failed_over(both, name, on_step=stop)
        found = [failed_over(both, name) for _ in range(2)]

    assert (ended(first), *map(ended, found)) == ([], [(0, True)], [])


def test_a_release_names_what_may_be_committed(
    east: LocalCluster, west3: LocalCluster, topic: Callable[[str], str]
) -> None:
    """What was detached is released while the partition that could tell has no leader: what it aborts is in doubt."""
    name = topic("released")
    both = Configuration(clusters=(east.cluster(), west3.cluster()), links=())
    each = NamespaceMap.parse(f"{name}.")
    topics.create(east, f"{name}.a", partitions=2)
    topics.create(west3, f"{name}.a", assigned=[[1], [3]])
    Fabric(both).declarations.create(name, source="east", target="west3", maps=[each])

    async def leave_open() -> None:
        async with Client(west3.cluster()) as client:
            await leave_prepared(client, name, f"{name}.a")

    with trusting(west3):
        asyncio.run(leave_open())
        asyncio.run(Promoter(configuration=both, name=name).detach())
        west3.broker(3).kill()
        try:
            asyncio.run(until_leaderless(west3, (f"{name}.a", 1)))
            found = Fabric(both).cluster("west3").namespaces.update(each.target, reserved=False)
        finally:
            west3.broker(3).start()

    assert [one.partition for one in found.aborted] == [0]
    (told,) = plain(found)["in_doubt"]
    assert told.startswith("whether the transaction of ")
    assert f"{name}.a-1 may have it, and no leader" in told


async def until_leaderless(cluster: LocalCluster, key: PartitionKey) -> None:
    """Wait until the cluster knows that a broker is gone."""
    async with Client(cluster.cluster()) as client, asyncio.timeout(TERM_S):
        while await leaderless(client, [key[0]]) != [key]:
            await asyncio.sleep(0.1)


def failed_over(
    both: Configuration, name: str, *, dry_run: bool = False, on_step: OnStep = lambda _: None
) -> Promotion:
    """A failover, given again while the ledger cannot be read: for a moment its leader was just elected."""
    deadline = time.monotonic() + TERM_S
    while True:
        try:
            found = asyncio.run(Promoter(configuration=both, name=name, on_step=on_step).failover(dry_run=dry_run))
        except Unreachable:
            assert time.monotonic() < deadline
        else:
            assert found.is_done is not dry_run
            return found
