"""A topic of a link at both sides, as a recovery looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, PlanRefused
from isthmus.kafka import codes
from isthmus.kafka.admin.topics import describe_topics
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import ends_of_epochs, log_ranges
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import RecoveryDocument
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.links.recovery import DivergedPartition
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.recovery.comparison import compare_partition
from isthmus.topics.preflight import is_compacted

_AT_ONCE: Final = 4
_AGREED_S: Final = 30.0
_LOOK_S: Final = 0.1
_NOTHING = LogRange(0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BothTopics:
    """Both sides of a topic and their logs, by partition; `target` is `None` where it does not exist. `source_epochs`
    are the leader epochs of the source's partitions, read before its logs.
    """

    source: TopicDescription
    target: TopicDescription | None
    source_logs: Mapping[int, LogRange] = field(default_factory=dict)
    target_logs: Mapping[int, LogRange] = field(default_factory=dict)
    source_epochs: Mapping[int, int] = field(default_factory=dict)

    async def compare(self, source: Client, target: Client) -> tuple[DivergedPartition, ...]:
        """Return how far each partition of the target is the same as the source's.

        :raises ClusterError: A log cannot be read.
        """
        there, room = self.target, asyncio.Semaphore(_AT_ONCE)
        if there is None:
            return ()
        names = SourceTopic(self.source.name), TargetTopic(there.name)
        may_lack = is_compacted(self.source) or is_compacted(there)

        async def one(partition: int) -> DivergedPartition:
            logs = self.source_logs.get(partition, _NOTHING), self.target_logs[partition]
            async with room:
                found = await compare_partition(source, target, names, partition, logs, is_compacted=may_lack)
            return replace(found, source_epoch=self.source_epochs.get(partition, -1))

        return tuple(await asyncio.gather(*map(one, sorted(self.target_logs))))


async def both_topics(source: Client, target: Client, source_topic: SourceTopic, topic: TargetTopic) -> BothTopics:
    """Read a topic at both sides as it is now: the target's log first, so that it is never ahead of a growing source.

    :raises PlanRefused: Its brokers do not distinguish topics of the same name.
    :raises ClusterError: A side cannot be asked, or the source has no such topic.
    """
    there = await find_topic(target, topic)
    target_logs = {} if there is None else await logs_of(target, there)
    here = await find_topic(source, source_topic)
    if here is None:
        raise PlanRefused(
            f"{source.cluster.alias} has no topic {source_topic}: there is nothing that {topic} could be filled with",
            hint="Create it there, or take it from the link: the target's topic stays as it is.",
        )
    if there is not None and there.topic_id == NO_TOPIC_ID:
        raise PlanRefused(
            f"the brokers of {target.cluster.alias} give topics no ids, so an interrupted recovery could not go on",
            hint="Upgrade them: Kafka has topic ids from 2.8 on, with inter.broker.protocol.version 2.8.",
        )
    partitions = (await source.metadata([source_topic])).topics[source_topic].partitions
    return BothTopics(
        source=here,
        target=there,
        source_logs=await logs_of(source, here),
        target_logs=target_logs,
        source_epochs={each.partition: each.leader_epoch for each in partitions},
    )


async def is_as_compared(source: Client, both: BothTopics, document: RecoveryDocument) -> bool:
    """Whether the source, as it is now in `both`, still has all that the target shared with it when they were compared:
    it is that topic, its retention has deleted nothing of it, and no leader has lost any of it.

    :raises ClusterError: A leader does not answer.
    """
    if both.source.topic_id != document.source_topic_id:
        return False
    shared = [each for each in document.partitions if each.partition in both.source_logs and each.shared > 0]
    for each in shared:
        log = both.source_logs[each.partition]
        if replace(each, source_begin=max(each.source_begin, log.start)).head != each.head or log.end < each.shared:
            return False
    if any(each.source_epoch < 0 for each in shared):
        return False
    name = both.source.name
    ends = await ends_of_epochs(source, {(name, each.partition): each.source_epoch for each in shared})
    return all(ends[name, each.partition] >= each.shared for each in shared)


async def find_topic(client: Client, topic: str) -> TopicDescription | None:
    """Describe a topic, `None` where the cluster has none of that name.

    :raises ClusterError: It cannot be described.
    """
    deadline = Deadline(_AGREED_S)
    while True:
        metadata = (await client.metadata([topic])).topics[topic]
        if metadata.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        found = await describe_topics(client, [metadata])
        error = found.errors.get(topic)
        if error is None:
            return found.values[topic]
        # Just created or deleted: one broker knows it, another does not.
        is_heard = not (isinstance(error, BrokerRefused) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION)
        if is_heard or deadline.has_passed:
            raise error
        await asyncio.sleep(_LOOK_S)


async def logs_of(client: Client, topic: TopicDescription) -> dict[int, LogRange]:
    """Read the logs of all partitions.

    :raises ClusterError: A log cannot be read.
    """
    keys = [(topic.name, number) for number in range(topic.partition_count)]
    found = await log_ranges(client, keys)
    for error in found.errors.values():
        raise error
    return {partition: log for (_, partition), log in found.values.items()}
