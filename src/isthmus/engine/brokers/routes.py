"""The leaders of the partitions of one cluster that the lanes of one engine need."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar, cast

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata, PartitionMetadata, TopicMetadata
from isthmus.model.naming import SourceTopic, TargetTopic, TopicT

T = TypeVar("T")

REFRESH_S: Final = 30.0
REFRESH_PAUSE_S: Final = 0.1
GONE_AFTER_S: Final = 5.0
_NO_EPOCH: Final = -1


class Leader(NamedTuple):
    node_id: int
    epoch: int


class TopicRecreated(Exception):
    """The topic has another id than the lane was planned for."""


class TopicGone(Exception):
    """The topic has been missing for longer than a metadata delay explains."""


class Routes(Generic[TopicT]):
    """Leaders of partitions, refreshed when one proves wrong.

    Leader epochs never go backwards here, as long as the topic is the same: a broker that was cut off reports itself or
    another former leader, whose logs end too early.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._topics: set[TopicT] = set()
        self._leaders: dict[tuple[TopicT, int], Leader] = {}
        self._epochs: dict[TopicT, dict[int, int]] = {}
        self._in_sync: dict[tuple[TopicT, int], tuple[int, ...]] = {}
        self._acknowledging: dict[int, frozenset[int]] = {}
        self._heard = asyncio.Event()
        self._ids: dict[TopicT, uuid.UUID] = {}
        self._superseded: dict[TopicT, uuid.UUID] = {}
        self._codes: dict[TopicT, int] = {}
        self._missing: dict[TopicT, tuple[float, float]] = {}
        self._refreshed_at = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self.error: ClusterError | None = None

    def watch(self, topics: Iterable[TopicT]) -> None:
        """Include these topics from the next refresh on."""
        before = len(self._topics)
        self._topics.update(topics)
        if len(self._topics) != before:
            self._refreshed_at = 0.0

    def expect(self, topic: TopicT, topic_id: uuid.UUID) -> None:
        """Expect this id of a topic, for which a lane was planned. Forget the metadata of another topic of that name,
        and ignore brokers that still report the other one.
        """
        known = self._ids.get(topic, NO_TOPIC_ID)
        if self._superseded.get(topic) == topic_id:
            del self._superseded[topic]
        is_another = NO_TOPIC_ID not in (known, topic_id) and known != topic_id
        if is_another:
            self._superseded[topic] = known
        if is_another or topic in self._missing:
            for heard in (self._ids, self._epochs, self._missing):
                heard.pop(topic, None)
            for key in [key for key in self._leaders if key[0] == topic]:
                del self._leaders[key]
            self._refreshed_at = 0.0

    def leader(self, topic: TopicT, partition: int) -> Leader | None:
        """The last known leader, or None while the partition has none."""
        return self._leaders.get((topic, partition))

    @property
    def leaders(self) -> set[int]:
        """The brokers that lead any of the partitions."""
        return set(self._acknowledging)

    def in_sync(self, node_id: int) -> frozenset[int]:
        """A broker and the in-sync replicas of the partitions that it leads."""
        return self._acknowledging.get(node_id, frozenset((node_id,)))

    async def wait_for_news(self) -> None:
        """Wait for the next metadata of the cluster. For a single listener."""
        self._heard.clear()
        await self._heard.wait()

    async def reach(self, topic: TopicT, partition: int) -> tuple[Leader, Connection]:
        """Return the leader and the shared connection to it.

        :raises Unreachable: The partition has no known leader, or the leader does not answer.
        """
        leader = self.leader(topic, partition)
        if leader is None:
            alias = self.client.cluster.alias
            raise Unreachable(f"{topic}-{partition} has no leader at {alias}", cluster=alias)
        return leader, await self.client.connection(leader.node_id)

    def forget(self, topic: TopicT, partition: int) -> None:
        """Drop a leader that proved wrong, until the next refresh. Its epoch stays known."""
        self._leaders.pop((topic, partition), None)

    async def ask(
        self,
        keys: Iterable[tuple[TopicT, int]],
        ask: Callable[[Connection, dict[tuple[TopicT, int], int]], Awaitable[Mapping[tuple[TopicT, int], T]]],
    ) -> dict[tuple[TopicT, int], T | ClusterError]:
        """Call `ask` for every leader and its partitions (with their leader epochs) at once.

        Partitions of a leader that does not answer get its error; partitions without a leader are left out.
        """
        by_node: dict[int, dict[tuple[TopicT, int], int]] = {}
        for key in keys:
            leader = self.leader(*key)
            if leader is not None:
                by_node.setdefault(leader.node_id, {})[key] = leader.epoch

        async def one(
            node_id: int, epochs: dict[tuple[TopicT, int], int]
        ) -> Mapping[tuple[TopicT, int], T | ClusterError]:
            try:
                return await ask(await self.client.connection(node_id), epochs)
            except ClusterError as error:
                return dict.fromkeys(epochs, error)

        answers: dict[tuple[TopicT, int], T | ClusterError] = {}
        for answer in await asyncio.gather(*(one(node, epochs) for node, epochs in by_node.items())):
            answers |= answer
        return answers

    def check(self, topic: TopicT, topic_id: uuid.UUID) -> None:
        """Check that a topic is the one a lane was planned for.

        :raises TopicRecreated: The topic has another id now.
        :raises TopicGone: The topic was missing in every answer of `GONE_AFTER_S`.
        """
        known = self._ids.get(topic, NO_TOPIC_ID)
        if NO_TOPIC_ID not in (known, topic_id) and known != topic_id:
            raise TopicRecreated
        # A single answer proves nothing, however old: that broker may not have known the topic yet.
        first, last = self._missing.get(topic, (0.0, 0.0))
        if last - first > GONE_AFTER_S:
            raise TopicGone

    def is_denied(self, topic: TopicT) -> bool:
        """Whether the cluster denies us the topic's metadata."""
        return self._codes.get(topic) == codes.TOPIC_AUTHORIZATION_FAILED

    @property
    def is_stale(self) -> bool:
        return time.monotonic() - self._refreshed_at > REFRESH_S

    async def refresh(self) -> None:
        """Ask the cluster for metadata, at most every `REFRESH_PAUSE_S`. Callers at the same time share one request.

        If the cluster does not answer, the routes stay as they are, and `error` holds the reason.
        """
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        wait_s = self._refreshed_at + REFRESH_PAUSE_S - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        try:
            answer = await self.client.metadata(sorted(self._topics))
        except ClusterError as error:
            self.error = error
        else:
            self.error = None
            self._take(answer)
        self._refreshed_at = time.monotonic()

    def _take(self, metadata: Metadata) -> None:
        # They are the topics that were asked for.
        for name, topic in cast("Mapping[TopicT, TopicMetadata]", metadata.topics).items():
            if topic.topic_id != NO_TOPIC_ID and topic.topic_id == self._superseded.get(name):
                continue
            self._codes[name] = topic.error_code
            known_id = self._ids.get(name, NO_TOPIC_ID)
            if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
                now = time.monotonic()
                first, _ = self._missing.get(name, (now, now))
                self._missing[name] = first, now
                if known_id == NO_TOPIC_ID:
                    # Without topic ids nothing else distinguishes the next topic of this name from this one.
                    self._epochs.pop(name, None)
            elif topic.error_code == codes.NONE:
                self._missing.pop(name, None)
                if topic.topic_id not in (NO_TOPIC_ID, known_id):
                    self._ids[name] = topic.topic_id
                    if known_id != NO_TOPIC_ID:
                        self._epochs.pop(name, None)
            for p in topic.partitions:
                self._lead(name, p, p.leader in metadata.brokers)
        acknowledging: dict[int, set[int]] = {}
        for key, leader in self._leaders.items():
            acknowledging.setdefault(leader.node_id, {leader.node_id}).update(self._in_sync.get(key, ()))
        self._acknowledging = {node_id: frozenset(nodes) for node_id, nodes in acknowledging.items()}
        self._heard.set()

    def _lead(self, name: TopicT, reported: PartitionMetadata, is_reachable: bool) -> None:
        epochs = self._epochs.setdefault(name, {})
        known = epochs.get(reported.partition, _NO_EPOCH)
        if _NO_EPOCH < reported.leader_epoch < known:
            return
        epochs[reported.partition] = max(reported.leader_epoch, known)
        self._in_sync[name, reported.partition] = reported.isr
        if is_reachable:
            self._leaders[name, reported.partition] = Leader(reported.leader, reported.leader_epoch)
        else:
            self._leaders.pop((name, reported.partition), None)


SourceRoutes = Routes[SourceTopic]
TargetRoutes = Routes[TargetTopic]
