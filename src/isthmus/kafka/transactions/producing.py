"""Writes batches to many partitions within one transaction, several requests in flight."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, RowRefused
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.log import produce
from isthmus.kafka.log.leader import LogLeader, LogPlace, places_of
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.metadata import TopicMetadata
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.rights import on_topic

HELD_BYTES: Final = 16 << 20
"""So much waits for answers at most, and one batch more."""
_REQUEST_BYTES: Final = 4 << 20
_DEPTH: Final = 3
"""Requests in flight at a broker. It remembers the last five batches of a producer (KIP-98)."""
_PRODUCE_TIMEOUT_MS: Final = 15_000
_ANSWER_S: Final = 20.0
_TERM_S: Final = 120.0
_NEW_TOPIC_S: Final = 5.0
_RETRY_S: Final = 0.2
_TOO_LARGE: Final = frozenset({codes.MESSAGE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE})
_WELL: Final = frozenset({codes.NONE, codes.DUPLICATE_SEQUENCE_NUMBER})

Split = Callable[[Batch, int], list[Batch]]
"""Splits a batch into several, each of at most so many bytes unless it holds a single record."""


class UnansweredBatch(NamedTuple):
    """A batch without an answer yet, and its first sequence."""

    batch: Batch
    sequence: int


@dataclass(slots=True)
class ProducedPartition:
    """What one partition is to get. `place` is `None` while no leader is known.

    `is_broken`: an append failed, and those behind it are sent again one by one, once none is `outstanding`.
    """

    key: PartitionKey
    place: LogPlace | None
    waiting: deque[Batch] = field(default_factory=deque)
    sent: deque[UnansweredBatch] = field(default_factory=deque)
    sequence: int = 0
    outstanding: int = 0
    is_added: bool = False
    is_started: bool = False
    is_broken: bool = False

    def take_head(self) -> UnansweredBatch:
        """Move the first waiting batch to those that were sent."""
        batch = self.waiting.popleft()
        head = UnansweredBatch(batch, self.sequence)
        self.sequence += batch.record_count
        self.sent.append(head)
        return head

    @property
    def may_send(self) -> bool:
        # A broker takes any sequence as a producer's first one: the next batch waits until it has the first.
        return (
            bool(self.waiting) and not self.is_broken and self.place is not None and (self.is_started or not self.sent)
        )


class _Flight(NamedTuple):
    partitions: list[ProducedPartition]
    keys: list[produce.AnswerKey]
    answer: asyncio.Future[produce.Answers]


class TransactionalProducer:
    """Writes batches in the transaction of `transaction`, which was initialized, each partition in the order of the
    calls. A batch that is too large for its topic is `split`.
    """

    def __init__(self, client: Client, transaction: Transaction, split: Split, *, term_s: float = _TERM_S) -> None:
        self._client = client
        self._transaction = transaction
        self._split = split
        self._term_s = term_s
        self._topics: dict[str, TopicMetadata] = {}
        self._places: dict[PartitionKey, LogPlace] = {}
        self._partitions: dict[PartitionKey, ProducedPartition] = {}
        self._flights: dict[int, deque[_Flight]] = defaultdict(deque)
        self._held_bytes = 0

    async def count_partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions. A topic that was just created is waited for.

        :raises RowRefused: There is no such topic.
        :raises ClusterError: The cluster does not answer, or does not show the topic.
        """
        found, deadline = self._topics.get(topic), Deadline(_NEW_TOPIC_S)
        while found is None:
            metadata = await self._client.metadata([topic])
            described = metadata.topics[topic]
            if described.error_code in (codes.NONE, codes.LEADER_NOT_AVAILABLE) and described.partitions:
                self._topics[topic] = found = described
                self._places |= {(topic, each): place for each, place in places_of(metadata, topic).items()}
            elif described.error_code not in codes.LEADER_MOVED or deadline.has_passed:
                raise self._missing_error(described)
            else:
                await asyncio.sleep(_RETRY_S)
        return len(found.partitions)

    def _missing_error(self, topic: TopicMetadata) -> Exception:
        alias = self._client.cluster.alias
        if topic.error_code in (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.INVALID_TOPIC):
            return RowRefused(
                f"{alias} has no topic {topic.name!r}, which a row is to be written to",
                hint=f"Create topic {topic.name} at {alias} first: a sink creates none. Or correct the column or the "
                "option topic.",
            )
        right = on_topic("DESCRIBE", topic.name)
        return codes.error_for(topic.error_code, f"finding topic {topic.name!r}", right, cluster=alias)

    async def offer(self, key: PartitionKey, batch: Batch) -> None:
        """Send a batch as soon as possible; wait while `HELD_BYTES` wait for answers. It is durable after `flush`.

        :raises RowRefused: A record is too large for its topic.
        :raises ClusterError: A batch was refused, or there was no answer in time.
        """
        partition = self._partitions.get(key)
        if partition is None:
            await self.count_partitions(key[0])
            partition = self._partitions[key] = ProducedPartition(key, self._places.get(key))
        partition.waiting.append(batch)
        self._held_bytes += batch.size_bytes
        await self._send()
        while self._held_bytes > HELD_BYTES:
            await self._hear()
            await self._send()

    async def flush(self) -> None:
        """Wait until all batches are durable.

        :raises RowRefused: A record is too large for its topic.
        :raises ClusterError: A batch was refused, or there was no answer in time.
        """
        while any(each.waiting or each.sent for each in self._partitions.values()):
            await self._send()
            await self._hear()

    async def _send(self) -> None:
        """Send what may be sent now."""
        # Answers that have come, and the end of a connection, are seen only by a turn of the loop.
        await asyncio.sleep(0)
        self._take_answers()
        waiting = [each for each in self._partitions.values() if each.waiting]
        if added := [each for each in waiting if not each.is_added]:
            await self._transaction.add([each.key for each in added])
            for each in added:
                each.is_added = True
        by_node: dict[int, list[ProducedPartition]] = defaultdict(list)
        for each in waiting:
            if each.place is None and not each.is_broken:
                each.take_head()
                each.is_broken = True
            if each.may_send and each.place is not None:
                by_node[each.place.node_id].append(each)
        for node_id, ready in by_node.items():
            while ready and len(self._flights[node_id]) < _DEPTH:
                await self._post(node_id, ready)
                ready = [each for each in ready if each.may_send]

    async def _post(self, node_id: int, ready: Iterable[ProducedPartition]) -> None:
        """Send the first batches of these partitions in one request, as many as fit into it."""
        partitions: list[ProducedPartition] = []
        appends: list[produce.Append] = []
        size_bytes = 0
        for each in ready:
            if appends and size_bytes + each.waiting[0].size_bytes > _REQUEST_BYTES:
                break
            batch, sequence = each.take_head()
            partitions.append(each)
            appends.append(self._append_of(each, batch, sequence))
            size_bytes += batch.size_bytes
        try:
            connection = await self._client.connection(node_id)
            version = produce.version_for(connection.api_versions, appends, is_transactional=True)
            answer = produce.post(
                connection,
                appends,
                version=version,
                timeout_ms=_PRODUCE_TIMEOUT_MS,
                timeout_s=_ANSWER_S,
                transactional_id=self._transaction.transactional_id,
            )
        except ClusterError:
            for each in partitions:
                each.is_broken = True
            return
        for each in partitions:
            each.outstanding += 1
        keys = [produce.answer_key(append, version) for append in appends]
        self._flights[node_id].append(_Flight(partitions, keys, answer))

    def _append_of(self, partition: ProducedPartition, batch: Batch, sequence: int) -> produce.Append:
        producer = self._transaction
        header = stamp(batch, producer.producer_id, producer.epoch, sequence, transactional=True)
        place = partition.place or LogPlace(self._topics[partition.key[0]].topic_id, -1)
        return produce.Append(*(partition.key[0], place.topic_id, partition.key[1]), header, batch.view[HEADER_BYTES:])

    async def _hear(self) -> None:
        """Wait for the next answer, and send again what failed."""
        if heads := [flights[0].answer for flights in self._flights.values() if flights]:
            await asyncio.wait(heads, return_when=asyncio.FIRST_COMPLETED)
            self._take_answers()
        broken = [each for each in self._partitions.values() if each.is_broken and not each.outstanding]
        for each in broken:
            await self._resend(each)

    def _take_answers(self) -> None:
        for flights in self._flights.values():
            while flights and flights[0].answer.done():
                self._take(flights.popleft())

    def _take(self, flight: _Flight) -> None:
        answers = None if flight.answer.cancelled() or flight.answer.exception() else flight.answer.result().appended
        for partition, key in zip(flight.partitions, flight.keys, strict=True):
            partition.outstanding -= 1
            if partition.is_broken:
                continue
            answered = None if answers is None else answers.get(key)
            if answered is None or answered.error_code not in _WELL:
                # Whether it passes, and what is wrong, the next attempt shows.
                partition.is_broken = True
            else:
                self._held_bytes -= partition.sent.popleft().batch.size_bytes
                partition.is_started = True

    async def _resend(self, partition: ProducedPartition) -> None:
        """Append the batches that were sent once more, in their order; the broker takes each once."""
        leader = LogLeader(self._client, partition.key)
        try:
            while partition.sent:
                batch, sequence = partition.sent[0]
                await self._append(leader, batch, sequence)
                self._held_bytes -= partition.sent.popleft().batch.size_bytes
            partition.place, partition.is_broken, partition.is_started = leader.place, False, True
        finally:
            leader.close()

    async def _append(self, leader: LogLeader, batch: Batch, sequence: int) -> None:
        producer = self._transaction
        header = stamp(batch, producer.producer_id, producer.epoch, sequence, transactional=True)
        try:
            await leader.append(header, batch, term_s=self._term_s, transactional_id=self._transaction.transactional_id)
        except BrokerRefused as error:
            if error.code not in _TOO_LARGE:
                raise
        else:
            return
        if batch.record_count == 1:
            topic = leader.key[0]
            raise RowRefused(
                f"a row for topic {topic!r} makes a record batch of {batch.size_bytes} bytes (column value, key or "
                f"headers), and the brokers of {self._client.cluster.alias} take no batch as large for this topic",
                hint=f"Raise max.message.bytes of topic {topic} (and message.max.bytes of the brokers, if that is the "
                "limit), or leave the row out.",
            )
        for piece in self._split(batch, batch.size_bytes // 2):
            await self._append(leader, piece, sequence)
            sequence += piece.record_count
