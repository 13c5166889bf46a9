"""A link's groups carried between two local clusters as its controller does it, with nothing of Spark in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import Consumer

import isthmus
from isthmus.errors import BrokerRefused
from isthmus.groups.loop import GroupLoop
from isthmus.groups.plan import GroupPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets
from isthmus.ledger.documents.kinds import LinkDocument, TopicDocument
from isthmus.ledger.link import LinkLedger
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.link import Link
from isthmus.model.naming import TargetTopic
from isthmus.model.process.timings import USUAL, Timings
from isthmus.model.selection import TopicPattern, TopicSettings
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records.topics import SEPTEMBER, Brokers, Given, as_admin, create_both, produce


def link_of(
    source: Cluster, target: Cluster, topics: list[str], groups: list[str], *, name: str, **settings: Any
) -> Link:
    """A link that carries these groups."""
    return Link(
        name=name,
        source=replace(source, alias="source"),
        target=replace(target, alias="target"),
        topics=TopicSettings(include=tuple(map(TopicPattern.parse, topics))),
        groups=GroupSettings(include=tuple(map(GroupPattern.parse, groups)), **settings),
    )


class Carrying:
    """A loop at work."""

    def __init__(self, loop: GroupLoop, source: Client, target: Client) -> None:
        self.loop, self.source, self.target = loop, source, target

    def group(self, name: str) -> GroupPlan | None:
        """How a group stands, `None` while it is not known."""
        return next((group for group in self.loop.plan.groups if group.group == name), None)

    def standing(self, name: str) -> Standing | None:
        found = self.group(name)
        return None if found is None else found.standing

    async def tell(self, topic: str, **settings: Any) -> None:
        """Say in the ledger, as a controller would, how a topic stands."""
        ledger = self.loop._ledger
        (known,) = (d for d in TopicDocument.find_all(ledger.documents.values()) if d.target_topic == topic)
        await ledger.write(replace(known, **settings))

    async def position(self, group: str) -> Positions[str]:
        """What the target says of a group, once no transaction holds it: also ours ends a moment after it is told."""
        deadline = time.monotonic() + TERM_S
        while True:
            found: CommittedOffsets[str] = await committed_offsets(self.target, [group], require_stable=True)
            if group not in found.errors:
                return dict(found.values.get(group, {}))
            error = found.errors[group]
            passes = error.retryable or (isinstance(error, BrokerRefused) and error.code in codes.GROUP_PASSES)
            if not passes or time.monotonic() > deadline:
                raise error
            await asyncio.sleep(_LOOK_S)

    async def offsets(self, group: str) -> dict[int, int]:
        """The positions at the target by partition, of groups that read one topic."""
        return {partition: found.offset for (_, partition), found in (await self.position(group)).items()}

    async def until(self, condition: Callable[[], Any], *, term_s: float = TERM_S) -> None:
        """Wait for something to become true."""
        begun = time.monotonic()
        while True:
            answer = condition()
            if await answer if asyncio.iscoroutine(answer) else answer:
                return
            assert time.monotonic() - begun < term_s, f"still {self.loop.plan}"
            await asyncio.sleep(_LOOK_S)

    async def until_in_step(self, group: str, offset: int) -> None:
        """Wait until the link itself says that the first position stands there on both sides."""

        def is_in_step() -> bool:
            found = self.group(group)
            if found is None or found.standing is not Standing.IN_STEP:
                return False
            position = found.positions[0]
            return position.committed is not None and position.source.offset == position.committed.offset == offset

        await self.until(is_in_step)

    async def until_at(self, group: str, offsets: dict[int, int], *, term_s: float = TERM_S) -> None:
        """Wait until a group stands there at the target.

        Its first commit is no assertion's matter: until the transaction around it has ended, brokers answer who asks
        for all positions with none, not with a position that is not stable yet.
        """

        async def is_there() -> bool:
            return await self.offsets(group) == offsets

        await self.until(is_there, term_s=term_s)


_LOOK_S: Final = 0.02


@asynccontextmanager
async def carrying(link: Link, *, known: bool = True, timings: Timings = USUAL) -> AsyncIterator[Carrying]:
    """Carry the groups of a link until the block is left; its topics count as mirrored if they are `known`."""
    async with Client(link.source) as source, Client(link.target) as target:
        ledger = LinkLedger(target, link.name)
        await ledger.open()
        follow = asyncio.create_task(ledger.run())
        if known:
            await declare(link, ledger, source, target)
        loop = GroupLoop(link, source, target, ledger, timings)
        run = asyncio.create_task(loop.run())
        try:
            yield Carrying(loop, source, target)
            await loop.remember()
        finally:
            for task in (run, follow):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            ledger.close()


async def declare(link: Link, ledger: LinkLedger, source: Client, target: Client) -> None:
    """Say in the ledger, as a controller would, which clusters the link has, and that the topics were mirrored."""
    names = link.topics.literals
    here, there = await source.metadata(names), await target.metadata(names)
    identity = LinkDocument(
        link=link.name,
        source_cluster_id=here.cluster_id or "",
        target_cluster_id=there.cluster_id or "",
        producer_id=-1,
        marker_producer_id=-1,
    )
    await ledger.write(identity)
    for name in names:
        document = TopicDocument(
            link=link.name,
            source_topic=name,
            source_topic_id=here.topics[name].topic_id,
            target_topic=TargetTopic(name),
            target_topic_id=there.topics[name].topic_id,
            state="ACTIVE",
        )
        await ledger.write(document)


def between(source: Brokers, target: Brokers, topics: list[str], groups: list[str], **settings: Any) -> Link:
    """A link between two local clusters, as a super user; named after its first topic."""
    return link_of(as_admin(source), as_admin(target), topics, groups, name=topics[0], **settings)


async def declared(link: Link) -> None:
    """The same in a ledger that nobody holds."""
    async with Client(link.source) as source, Client(link.target) as target:
        ledger = LinkLedger(target, link.name)
        try:
            await ledger.open()
            await declare(link, ledger, source, target)
        finally:
            ledger.close()


def records(count: int, *, begin: int = 0) -> list[Given]:
    """Records a second apart, whose values are their numbers."""
    return [Given(None, b"%d" % n, [], SEPTEMBER + n * 1000) for n in range(begin, begin + count)]


def filled(east: LocalCluster, west: LocalCluster, name: str, count: int, *, partitions: int = 1) -> None:
    """A topic that is alike on both sides, as a mirror would leave it."""
    create_both(east, west, name, partitions=partitions)
    for cluster in (east, west):
        for partition in range(partitions):
            produce(cluster, name, records(count), partition=partition)


def commit_in_transaction(cluster: LocalCluster, group: str, offsets: consumers.Offsets) -> None:
    producer = consumers.transactional(cluster, group)
    producer.begin_transaction()
    consumers.send_offsets(producer, cluster, group, offsets)
    producer.commit_transaction(TERM_S)


def read(member: Consumer, count: int) -> list[bytes]:
    """So many records, each committed as it is read."""
    values: list[bytes] = []
    while len(values) < count:
        message = member.poll(TERM_S)
        assert message is not None, f"only {len(values)} of {count} records came"
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        values.append(value)
        member.commit(message=message, asynchronous=False)
    return values


def going_on(cluster: LocalCluster, group: str, topic: str, count: int, protocol: str = "classic") -> list[bytes]:
    """What a member reads from where its group stands, until it has so many records."""
    member = consumers.consumer(cluster, group, group_protocol=protocol, auto_offset_reset="error")
    try:
        member.subscribe([topic])
        return read(member, count)
    finally:
        member.close()


def opened(*links: Link) -> isthmus.Fabric:
    """A fabric of these links."""
    clusters = {cluster.alias: cluster for link in links for cluster in (link.source, link.target)}
    return isthmus.open(Configuration(clusters=tuple(clusters.values()), links=links))
