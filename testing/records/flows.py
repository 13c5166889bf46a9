"""Flows as the tests of MirrorMaker 2 have them, and what clients that are not ours see of both clusters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.link import Link
from isthmus.model.naming import MirrorMakerNaming
from isthmus.model.selection import TopicPattern, TopicSettings
from testing.groups import consumers
from testing.groups.carrying import going_on, read
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import SEPTEMBER, Given
from testing.runs.running import Running, ends

PARTITIONS: Final = 3
PER_PARTITION: Final = 10
Positions = dict[tuple[str, int], int]
Way = Literal["identity", "mapped"]


@dataclass(frozen=True, slots=True)
class Side:
    """A cluster under an alias of its own."""

    cluster: LocalCluster
    alias: str

    @property
    def servers(self) -> str:
        return self.cluster.admin_bootstrap_servers

    def known(self) -> Cluster:
        """The cluster as a link knows it."""
        return replace(self.cluster.cluster(), alias=self.alias)


@dataclass(frozen=True, slots=True)
class Flow:
    """From one cluster to another: the topics and groups whose names hold a stem."""

    source: Side
    target: Side
    stem: str
    groups: GroupSettings = field(default_factory=GroupSettings)

    @classmethod
    def between(cls, source: LocalCluster, target: LocalCluster, stem: str) -> Self:
        """From `primary` to `backup`, under aliases that no other stem has."""
        mark = stem.rpartition("-")[2]
        return cls(Side(source, f"primary-{mark}"), Side(target, f"backup-{mark}"), stem)

    @property
    def back(self) -> Flow:
        """The other direction of the same."""
        return replace(self, source=self.target, target=self.source)

    def remote(self, topic: str) -> str:
        """What a topic of the source is called at the target."""
        return f"{self.source.alias}.{topic}"

    def carrying(self, way: Way = "identity") -> Flow:
        """The flow with all groups whose names begin with the stem."""
        return replace(self, groups=GroupSettings(include=(GroupPattern.parse(f"{self.stem}*"),), way=way))

    def link(self, **settings: Any) -> Link:
        """The link of the flow, with the names of MirrorMaker 2 unless told otherwise."""
        naming = MirrorMakerNaming(source_alias=self.source.alias, target_alias=self.target.alias)
        include = (TopicPattern.parse(f"/.*{self.stem}.*/"),)
        return Link(
            name=f"{self.source.alias}.{self.target.alias}",
            source=self.source.known(),
            target=self.target.known(),
            topics=replace(TopicSettings(include=include, naming=naming), **settings),
            groups=self.groups,
            topics_interval_s=0.5,
        )


def numbered(count: int, *, begin: int = 0) -> list[Given]:
    """Records whose values are their numbers."""
    return [
        Given(b"key-%d" % (n % 3), b"%d" % n, [("n", b"%d" % n)], SEPTEMBER + n) for n in range(begin, begin + count)
    ]


def produce(
    side: Side, topic: str, *, partitions: int = PARTITIONS, count: int = PER_PARTITION, begin: int = 0
) -> None:
    """So many records into each of the first partitions: thousands tell the partition."""
    for partition in range(partitions):
        topics.produce(side.cluster, topic, numbered(count, begin=1000 * partition + begin), partition=partition)


def create(side: Side, topic: str, *, partitions: int = PARTITIONS, **configs: Any) -> None:
    topics.create(side.cluster, topic, partitions=partitions, **configs)


def grow(side: Side, topic: str, count: int) -> None:
    """Enlarge a topic."""
    admin = AdminClient({"bootstrap.servers": side.servers})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)
    topics.await_served(side.cluster, topic, partitions=count)


def values(side: Side, topic: str, *, partitions: int = PARTITIONS) -> list[list[bytes | None]]:
    """What a consumer at read_committed reads, by partition."""
    found = oracle.records(side.servers, topic, partitions=partitions)
    return [[seen.value for seen in records] for records in found]


def contents(side: Side, topic: str, *, partitions: int = PARTITIONS) -> list[list[oracle.Seen]]:
    """The same with keys, headers and timestamps; not with the offsets."""
    found = oracle.records(side.servers, topic, partitions=partitions)
    return [[seen._replace(offset=-1) for seen in records] for records in found]


def positions(side: Side, group: str) -> Positions:
    """Where a group stands, once no transaction holds a position of it."""
    admin = AdminClient({"bootstrap.servers": side.servers})
    asked = ConsumerGroupTopicPartitions(group)
    consumers.await_coordinator(side.servers, group)
    deadline = time.monotonic() + TERM_S
    while True:
        (future,) = admin.list_consumer_group_offsets([asked], require_stable=True, request_timeout=TERM_S).values()
        try:
            found = future.result(TERM_S).topic_partitions or []
            break
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNSTABLE_OFFSET_COMMIT or time.monotonic() > deadline:
                raise
        time.sleep(0.05)
    return {(each.topic, each.partition): each.offset for each in found if each.error is None and each.offset >= 0}


async def until_at(run: Running, side: Side, group: str, expected: Mapping[tuple[str, int], int]) -> None:
    """Wait until a group stands exactly there."""

    async def is_there() -> bool:
        return await asyncio.to_thread(positions, side, group) == expected

    await run.until(is_there)


async def until_there(run: Running, side: Side, topic: str, counts: Sequence[int]) -> None:
    """Wait until a topic's partitions end there, and never behind."""

    async def is_there() -> bool:
        found = await ends(side.cluster, topic, partitions=len(counts))
        assert all(end <= count for end, count in zip(found, counts, strict=True)), f"{topic} has {found}"
        return found == list(counts)

    await run.until(is_there)


def consume(side: Side, group: str, names: Sequence[str], count: int) -> list[bytes]:
    """What a member reads of some topics until it has so many records, each of which is committed."""
    member = consumers.consumer(side.cluster, group)
    try:
        member.subscribe(list(names))
        return read(member, count)
    finally:
        member.close()


def go_on(side: Side, group: str, topic: str, count: int) -> list[bytes]:
    """What a group reads next, which fails where it does not stand anywhere."""
    return going_on(side.cluster, group, topic, count)
