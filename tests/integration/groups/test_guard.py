"""A real consumer commits between every two steps of ours: what it committed stays, on old and new coordinators."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, Literal

import pytest

from isthmus.groups.committing import CommitOutcome, GroupCommit, GroupCommitter
from isthmus.groups.transaction import GroupTransaction, Placed, commit_outside
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets
from isthmus.local import LocalCluster
from isthmus.local.zookeeper import ZooKeeperModeCluster
from isthmus.model.kafka import group as model
from isthmus.model.naming import TargetTopic
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records.topics import SEPTEMBER, Brokers, Given, as_admin, create, produce

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
Moment = Literal["before", "placed", "looked"]
MOMENTS: Final[tuple[Moment, ...]] = ("before", "placed", "looked")
KINDS: Final = ("plain", "member", "transaction", "open transaction")


class Interrupted(GroupCommitter):
    """Lets something happen at one moment of the first attempt."""

    def __init__(self, client: Client, link: str, moment: Moment, event: Callable[[], None]) -> None:
        super().__init__(client, link)
        self._moment, self._event = moment, event
        self._is_over = False

    async def _at(self, moment: Moment) -> None:
        if moment == self._moment and not self._is_over:
            self._is_over = True
            await asyncio.to_thread(self._event)

    async def _place(self, transaction: GroupTransaction, commits: Mapping[str, GroupCommit]) -> Placed:
        await self._at("before")
        return await super()._place(transaction, commits)

    async def _find_changed(
        self, commits: Mapping[str, GroupCommit], groups: Collection[str], outcome: CommitOutcome, producer_id: int
    ) -> set[str]:
        await self._at("placed")
        return await super()._find_changed(commits, groups, outcome, producer_id)

    async def _end(self, transaction: GroupTransaction, *, commit: bool) -> None:
        await self._at("looked")
        await super()._end(transaction, commit=commit)


class Old:
    """A broker with the coordinator of before Kafka 4.0, under the names the tests know."""

    def __init__(self, cluster: ZooKeeperModeCluster) -> None:
        self.admin_bootstrap_servers = cluster.bootstrap_servers
        self.cluster = cluster.cluster


@pytest.fixture(scope="module", params=["4.4", "3.9.1", "2.8.2"])
def target(request: pytest.FixtureRequest, west: LocalCluster) -> Iterator[Brokers]:
    """A target with the present coordinator, and one with the old."""
    if request.param == "4.4":
        yield west
        return
    with ZooKeeperModeCluster.start(request.param) as old:
        yield Old(old)


def positions(offset: int, name: str) -> Positions[TargetTopic]:
    return {(TargetTopic(name), 0): model.Committed(offset, metadata="carried")}


def committing(target: Brokers, kind: str, group: str, name: str) -> Callable[[], None]:
    """A real consumer that commits 12 in one of the ways there are; those in transactions are begun at once."""
    if kind == "plain":
        return lambda: consumers.commit(target, {group: {(name, 0): 12}})
    if kind == "member":
        return lambda: come_commit_and_go(target, group, name)
    producer = consumers.transactional(target, group)
    if kind == "open transaction":
        producer.begin_transaction()
        consumers.send_offsets(producer, target, group, {(name, 0): 12})

    def commit() -> None:
        if kind == "transaction":
            producer.begin_transaction()
            consumers.send_offsets(producer, target, group, {(name, 0): 12})
        producer.commit_transaction(TERM_S)
        # The coordinator answers first and has the position written afterwards.
        consumers.await_position(target, group, (name, 0), 12)

    return commit


def come_commit_and_go(target: Brokers, group: str, name: str) -> None:
    """A consumer that does not wait for stable offsets: it joins, commits and leaves."""
    with consumers.joined(target, group, name, isolation_level="read_uncommitted") as member:
        partition = member.assignment()[0]
        partition.offset = 12
        member.commit(offsets=[partition], asynchronous=False)


async def settled(client: Client, group: str, name: str) -> int:
    """The group's position once no transaction holds it."""
    deadline = time.monotonic() + TERM_S
    while time.monotonic() < deadline:
        found: CommittedOffsets[str] = await committed_offsets(client, [group], require_stable=True)
        if group in found.values:
            return found.values[group][name, 0].offset
    raise AssertionError(f"{group} has no stable position")


def test_what_a_consumer_commits_is_never_overwritten(target: Brokers, topic: TopicNamer) -> None:
    """At whatever moment and in whatever way it commits, the group goes on from there (KAFKA-19794)."""
    name = topic("raced")
    create(target, name)
    produce(target, name, [Given(None, b"x", [], SEPTEMBER)] * 30)

    async def race(client: Client, moment: Moment, kind: str) -> None:
        group = topic("raced")
        consumers.commit(target, {group: {(name, 0): 10}})
        event = await asyncio.to_thread(committing, target, kind, group, name)
        committer = Interrupted(client, name, moment, event)
        decided = GroupCommit(positions=positions(20, name), based_on={(TargetTopic(name), 0): model.Committed(10)})
        outcome = await committer.commit({group: decided})
        assert outcome.errors == {}
        assert await settled(client, group, name) == 12, (moment, kind, outcome)
        assert (outcome.changed == {group}) or moment == "looked"
        assert committer.guard == "transaction"

    async def scenario() -> None:
        async with Client(as_admin(target)) as client:
            for moment, kind in itertools.product(MOMENTS, KINDS):
                if (moment, kind) == ("looked", "open transaction"):
                    # Such a transaction is seen while it is open: the commit is given up before it ends.
                    continue
                await race(client, moment, kind)

    asyncio.run(scenario())


def test_looking_first_and_committing_then_is_not_enough(target: Brokers, topic: TopicNamer) -> None:
    """The race is real: an ordinary commit after a look overwrites what was committed in between."""
    name, group = topic("lost"), topic("lost")
    create(target, name)
    consumers.commit(target, {group: {(name, 0): 10}})

    async def scenario() -> None:
        async with Client(as_admin(target)) as client:
            assert await settled(client, group, name) == 10
            await asyncio.to_thread(consumers.commit, target, {group: {(name, 0): 12}})
            await commit_outside(client, {group: positions(5, name)})
            assert await settled(client, group, name) == 5

    asyncio.run(scenario())


def test_a_consumer_of_an_open_transaction_is_waited_for(target: Brokers, topic: TopicNamer) -> None:
    """While a transaction that began before ours is open, nothing is committed for its group."""
    name, group = topic("open"), topic("open")
    create(target, name)
    consumers.commit(target, {group: {(name, 0): 10}})
    end = committing(target, "open transaction", group, name)

    async def scenario() -> None:
        async with Client(as_admin(target)) as client:
            committer = GroupCommitter(client, name)
            decided = GroupCommit(positions=positions(20, name), based_on={(TargetTopic(name), 0): model.Committed(10)})
            assert (await committer.commit({group: decided})).changed == {group}
            await asyncio.to_thread(end)
            assert await settled(client, group, name) == 12

    asyncio.run(scenario())


def test_one_group_in_the_way_stops_no_other(target: Brokers, topic: TopicNamer) -> None:
    """Groups with members, with other positions and with impossible commits are left; the others are committed."""
    name = topic("ways")
    create(target, name)
    groups = {kind: topic(kind) for kind in ("free", "fresh", "moved", "active", "absurd")}
    consumers.commit(target, {groups[kind]: {(name, 0): 10} for kind in ("free", "moved", "active", "absurd")})

    async def scenario() -> None:
        async with Client(as_admin(target)) as client:
            committer = GroupCommitter(client, name)
            based = {(TargetTopic(name), 0): model.Committed(10)}
            commits = {
                group: GroupCommit(positions=positions(20, name), based_on={} if kind == "fresh" else based)
                for kind, group in groups.items()
            }
            commits[groups["moved"]] = GroupCommit(
                positions=positions(20, name), based_on={(TargetTopic(name), 0): model.Committed(9)}
            )
            nowhere = {(TargetTopic(f"{name}-nowhere"), 0): model.Committed(20)}
            commits[groups["absurd"]] = GroupCommit(positions=nowhere, based_on={})
            outcome = await committer.commit(commits)
            assert outcome.done.keys() == {groups["free"], groups["fresh"]}
            assert outcome.changed == {groups["moved"], groups["active"]}
            assert set(outcome.errors) == {groups["absurd"]}
            found = {kind: await settled(client, group, name) for kind, group in groups.items()}
            assert found == {"free": 20, "fresh": 20, "moved": 10, "active": 10, "absurd": 10}
            told: CommittedOffsets[str] = await committed_offsets(client, [groups["free"]])
            assert told.values[groups["free"]] == positions(20, name)

    with consumers.joined(target, groups["active"], name):
        asyncio.run(scenario())


def test_a_transaction_left_open_is_in_nobodys_way(target: Brokers, topic: TopicNamer) -> None:
    """A controller that died between two steps has changed nothing, and the next one goes on at once."""
    name, group = topic("left"), topic("left")
    create(target, name)
    consumers.commit(target, {group: {(name, 0): 10}})

    async def scenario() -> None:
        async with Client(as_admin(target)) as client:
            dying = GroupTransaction(client, name)
            await dying.initialize()
            assert (await dying.place({group: positions(15, name)})).groups.keys() == {group}
            decided = GroupCommit(positions=positions(20, name), based_on={(TargetTopic(name), 0): model.Committed(10)})
            assert (await GroupCommitter(client, name).commit({group: decided})).done.keys() == {group}
            assert await settled(client, group, name) == 20

    asyncio.run(scenario())
