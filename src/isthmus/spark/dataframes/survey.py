"""Asks a cluster which topics are selected, and where their logs begin and end."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, ConfigError
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.leaders import ask_nodes, leaders_of
from isthmus.kafka.log.listoffsets import EARLIEST, LATEST, READ_COMMITTED, PartitionKey, list_offsets
from isthmus.kafka.log.offsets import log_ranges, may_pass
from isthmus.kafka.log.timestamps import offsets_by_time
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata, TopicMetadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_topic
from isthmus.spark.dataframes.selection import Bound, Subscription

_WHAT: Final = "reading the offsets of"
_TOPICS_EVERY_S: Final = 2.0
_TERM_S: Final = 60.0
_RETRY_S: Final = 0.2
_NO_MATCH: Final = -1


async def selected_topics(client: Client, subscription: Subscription) -> dict[str, TopicMetadata]:
    """Return the topics of a subscription that are there.

    :raises ClusterError: The cluster does not answer, or refuses to show a topic.
    """
    metadata = await client.metadata(subscription.asked)
    return {topic.name: topic for topic in _selected(client, subscription, metadata)}


async def required_topics(client: Client, subscription: Subscription) -> dict[str, TopicMetadata]:
    """Return all topics of a subscription: those that are named have to be there.

    :raises ClusterError: As `selected_topics`; or there is no topic, or no partition, that is named.
    """
    found = await selected_topics(client, subscription)
    lacking = next((name for name in subscription.names if name not in found), None)
    there = {(name, each.partition) for name, topic in found.items() for each in topic.partitions}
    if lacking is None and subscription.assigned - there:
        lacking = min(subscription.assigned - there)[0]
    if lacking is not None:
        code, right = codes.UNKNOWN_TOPIC_OR_PARTITION, on_topic("DESCRIBE", lacking)
        raise codes.error_for(code, f"reading topic {lacking!r}", right, cluster=client.cluster.alias)
    return found


def _selected(client: Client, subscription: Subscription, metadata: Metadata) -> list[TopicMetadata]:
    found: list[TopicMetadata] = []
    for name, topic in sorted(metadata.topics.items()):
        if not any(subscription.selects(name, p.partition, is_internal=topic.is_internal) for p in topic.partitions):
            if name in subscription.names and topic.error_code not in codes.LEADER_MOVED:
                right = on_topic("DESCRIBE", name)
                codes.raise_for_code(topic.error_code, f"reading topic {name!r}", right, cluster=client.cluster.alias)
            continue
        found.append(topic)
    return found


def partitions_of(subscription: Subscription, topics: Mapping[str, TopicMetadata]) -> frozenset[PartitionKey]:
    """Return the selected partitions of topics."""
    return frozenset(
        (name, each.partition)
        for name, topic in topics.items()
        for each in topic.partitions
        if subscription.selects(name, each.partition, is_internal=topic.is_internal)
    )


def ids_of(topics: Mapping[str, TopicMetadata]) -> dict[str, str]:
    """Return the ids of topics, "" for those of brokers that have none."""
    return {name: "" if topic.topic_id == NO_TOPIC_ID else str(topic.topic_id) for name, topic in topics.items()}


class Survey(NamedTuple):
    """The selected topics by their ids, and the logs of their selected partitions."""

    ids: Mapping[str, str]
    logs: Mapping[PartitionKey, LogRange]

    @property
    def uuids(self) -> dict[str, uuid.UUID]:
        """The ids that are known."""
        return {topic: uuid.UUID(text) for topic, text in self.ids.items() if text}


async def survey(client: Client, subscription: Subscription) -> Survey:
    """Find out where all selected logs begin and end.

    :raises ClusterError: One of them is still not known after a minute, or a topic that is named is not there.
    """
    deadline = Deadline(_TERM_S)
    while True:
        try:
            topics = await required_topics(client, subscription)
            keys = partitions_of(subscription, topics)
            logs = (await log_ranges(client, keys)).all() if keys else {}
            return Survey(ids_of(topics), logs)
        except ClusterError as error:
            if not may_pass(error) or deadline.has_passed or _is_unknown(error):
                raise
        await asyncio.sleep(_RETRY_S)


def _is_unknown(error: ClusterError) -> bool:
    return isinstance(error, BrokerRefused) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION


async def resolve(
    client: Client,
    bound: Bound,
    logs: Mapping[PartitionKey, LogRange],
    *,
    isolation: int,
    latest_if_late: bool,
) -> dict[PartitionKey, int]:
    """Return the offset of a bound in each log. Beginnings and ends become those of the logs.

    :raises ConfigError: It names other partitions; or no record is as late as its time, unless `latest_if_late`.
    :raises ClusterError: A leader does not answer.
    """
    values = bound.values(logs)
    ends = {key: readable_end(log, isolation) for key, log in logs.items()}
    if not bound.is_time:
        marks = {key: {EARLIEST: log.start, LATEST: ends[key]} for key, log in logs.items()}
        return {key: marks[key].get(value, value) for key, value in values.items()}
    found = await offsets_by_time(client, values)
    late = sorted(key for key, offset in found.items() if offset == _NO_MATCH)
    if late and not latest_if_late:
        shown = ", ".join(f"{topic}-{partition}" for topic, partition in late)
        raise ConfigError(
            f"no record of {shown} is as late as {bound.option} states",
            field=bound.option,
            hint="Set startingOffsetsByTimestampStrategy to latest to read such partitions from their end on.",
        )
    return {key: ends[key] if offset == _NO_MATCH else offset for key, offset in found.items()}


def readable_end(log: LogRange, isolation: int) -> int:
    """Return where a reader has to stop."""
    return log.stable_end if isolation == READ_COMMITTED else log.end


class _Question(NamedTuple):
    """A question that is open, and the ids of topics when it was asked."""

    task: asyncio.Task[Outcomes[PartitionKey, int]]
    ids: Mapping[str, str]


class LogWatch:
    """What is known of the selected logs, kept up to date by short questions. Use it in one event loop.

    A broker that does not answer delays only what it leads: its question stays open while others are asked again.
    """

    def __init__(self, client: Client, subscription: Subscription, isolation: int) -> None:
        self._client = client
        self._subscription = subscription
        self._isolation = isolation
        self._metadata: Metadata | None = None
        self._fresh = Deadline(0.0)
        self._ends: dict[PartitionKey, int] = {}
        self._asking: dict[int, _Question] = {}
        self._silent_since: float | None = None
        self.ids: Mapping[str, str] = {}
        """The ids of the selected topics."""
        self.partitions: frozenset[PartitionKey] = frozenset()
        """The selected partitions."""
        self.error: ClusterError | None = None
        """Why the last question had no answer."""

    @property
    def is_informed(self) -> bool:
        """Whether the cluster has shown its topics."""
        return self._metadata is not None

    @property
    def silent_s(self) -> float:
        """For how long (s) questions have been without any answer."""
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    @property
    def ends(self) -> dict[PartitionKey, int]:
        """The ends of logs as they were shown last."""
        return dict(self._ends)

    async def look(self, wait_s: float) -> None:
        """Ask for the ends of all logs, and wait so long (s) for answers; they may come with a later look."""
        await self._find_topics()
        if self._metadata is not None:
            self._ask_ends(self._metadata)
        if self._asking:
            await asyncio.wait([each.task for each in self._asking.values()], timeout=wait_s)
        for node in [node for node, each in self._asking.items() if each.task.done()]:
            self._take(self._asking.pop(node))

    async def starts(self, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        """Ask where these logs begin; those without an answer are left out."""
        if not partitions or self._metadata is None:
            return {}
        leaders, without = leaders_of(self._metadata, partitions)
        ask = partial(list_offsets, timestamp=EARLIEST)
        found = await ask_nodes(self._client, leaders, ask, _WHAT, without=without)
        self._hear(found)
        return found.values

    async def _find_topics(self) -> None:
        if not self._fresh.has_passed:
            return
        try:
            metadata = await self._client.metadata(self._subscription.asked)
            topics = {topic.name: topic for topic in _selected(self._client, self._subscription, metadata)}
        except ClusterError as error:
            if not error.retryable:
                raise
            self._note_silence(error)
            return
        ids = ids_of(topics)
        # What was shown of a former topic is not true of the next one.
        self._ends = {key: end for key, end in self._ends.items() if ids.get(key[0]) == self.ids.get(key[0])}
        self._metadata, self.ids = metadata, ids
        self.partitions = partitions_of(self._subscription, topics)
        self._fresh = Deadline(_TOPICS_EVERY_S)
        self._silent_since = None

    def _ask_ends(self, metadata: Metadata) -> None:
        leaders, _ = leaders_of(metadata, self.partitions)
        ask = partial(list_offsets, timestamp=LATEST, isolation=self._isolation)
        for node, epochs in leaders.items():
            if node not in self._asking:
                asking = ask_nodes(self._client, {node: epochs}, ask, _WHAT)
                self._asking[node] = _Question(asyncio.create_task(asking), self.ids)

    def _take(self, question: _Question) -> None:
        found = question.task.result()
        for (topic, partition), end in found.values.items():
            if end >= 0 and self.ids.get(topic) == question.ids.get(topic):
                self._ends[topic, partition] = end
        self._hear(found)

    def _hear(self, found: Outcomes[PartitionKey, int]) -> None:
        if found.values:
            self._silent_since = None
        for error in found.errors.values():
            # Leaders have moved, or are gone.
            self._fresh = Deadline(0.0)
            self._note_silence(error)

    def _note_silence(self, error: ClusterError) -> None:
        self.error = error
        if self._silent_since is None:
            self._silent_since = time.monotonic()

    async def aclose(self) -> None:
        """Give up questions that are open."""
        for each in self._asking.values():
            each.task.cancel()
        await asyncio.gather(*(each.task for each in self._asking.values()), return_exceptions=True)
        self._asking.clear()
