"""A connection of its own to the leader of one partition, which is found again when it has moved."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Final, Literal, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log import produce
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata
from isthmus.model.kafka.rights import on_cluster, on_topic

ANSWER_S: Final = 6.0
_RETRY_S: Final = 0.1
_PRODUCE_TIMEOUT_MS: Final = 5_000


class LogPlace(NamedTuple):
    """A topic's id (nil before KIP-516), and the node that leads a partition of it in this epoch."""

    topic_id: uuid.UUID
    node_id: int
    leader_epoch: int = -1


def places_of(metadata: Metadata, topic: str) -> dict[int, LogPlace]:
    """The places of the partitions of a topic that have a leader."""
    found = metadata.topics[topic]
    return {
        each.partition: LogPlace(found.topic_id, each.leader, each.leader_epoch)
        for each in found.partitions
        if each.leader in metadata.brokers
    }


def build_leaderless(topic: str, cluster: str) -> Unreachable:
    """The error that a partition has no leader."""
    return Unreachable(
        f"topic {topic} of {cluster} has no leader",
        cluster=cluster,
        hint="Bring the brokers back that hold its replicas (kafka-topics --describe names them).",
    )


class LogLeader:
    """A connection of its own to the leader of a partition, as acks=all and long polls delay others."""

    def __init__(self, client: Client, key: PartitionKey) -> None:
        self.client = client
        self.key = key
        self.name = f"topic {key[0]}"
        self.place = LogPlace(NO_TOPIC_ID, -1)
        self._connection: Connection | None = None
        self._is_over = False

    async def _locate(self) -> LogPlace:
        (topic, partition), alias = self.key, self.client.cluster.alias
        metadata = await self.client.metadata([topic])
        code = metadata.topics[topic].error_code
        if code not in codes.LEADER_MOVED:
            codes.raise_for_code(code, f"finding {self.name}", on_topic("DESCRIBE", topic), cluster=alias)
        if place := places_of(metadata, topic).get(partition):
            return place
        raise build_leaderless(topic, alias)

    async def connect(self) -> Connection:
        """Return the connection, dialled if there is none.

        :raises ClusterError: The topic does not exist, or has no leader, or the leader does not answer.
        """
        held = self._connection
        if held is not None and not held.closed and not held.due_for_renewal:
            return held
        self.close()
        if not self._is_over:
            self.place = await self._locate()
            self._connection = await self.client.dial(self.place.node_id)
        if self._connection is None or self._is_over:
            self.close()
            alias = self.client.cluster.alias
            raise Unreachable(f"{self.name} of {alias} is not used here any more", cluster=alias)
        return self._connection

    @property
    def muted_until(self) -> float:
        """The time (monotonic) until which the leader does not read the connection, because of a quota."""
        return 0.0 if self._connection is None else self._connection.muted_until

    async def wait_until_unmuted(self) -> None:
        """Wait until the leader reads the connection again, or there is another one."""
        while (rest_s := self.muted_until - time.monotonic()) > 0:
            await asyncio.sleep(min(rest_s, _RETRY_S))

    def end(self) -> None:
        """Close it for good: a request that is under way does not dial again."""
        self._is_over = True
        self.close()

    def close(self) -> None:
        """Close the connection: the next request finds the leader again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def produce(self, header: bytes, batch: Batch, *, transactional_id: str | None = None) -> int:
        """Append one batch with this 61-byte header. Return its base offset, or -1 if the leader only remembers that it
        has the producer's batch. One attempt.

        :raises Unreachable: It is unknown whether it was appended, or it was not, for a passing reason.
        :raises ClusterError: The batch was refused.
        """
        connection = await self.connect()
        topic, partition = self.key
        answer = await produce.post_one(
            connection,
            produce.Append(topic, self.place.topic_id, partition, header, batch.view[HEADER_BYTES:]),
            timeout_ms=_PRODUCE_TIMEOUT_MS,
            timeout_s=ANSWER_S,
            transactional_id=transactional_id,
        )
        if answer.error_code != codes.DUPLICATE_SEQUENCE_NUMBER:
            self.check(answer.error_code, "WRITE", answer.error_message)
        return answer.base_offset

    async def append(self, header: bytes, batch: Batch, *, term_s: float, transactional_id: str | None = None) -> int:
        """Append one batch as `produce` does, with retries for `term_s`; without a producer it may be there twice then.

        :raises ClusterError: The batch was refused, or there was no answer in time; it may be there all the same.
        """
        deadline = Deadline(term_s)
        while True:
            try:
                async with asyncio.timeout(deadline.left_s + ANSWER_S):
                    return await self.produce(header, batch, transactional_id=transactional_id)
            except TimeoutError:
                # Closing the connection takes back a request that a quota delays for longer.
                self.close()
                raise self.late_error(term_s) from None
            except Unreachable:
                self.close()
                if deadline.passes_within(_RETRY_S):
                    raise
                await asyncio.sleep(_RETRY_S)

    def late_error(self, term_s: float) -> Unreachable:
        """Build the error for an append without an answer in `term_s`."""
        alias = self.client.cluster.alias
        return Unreachable(
            f"{self.name} of {alias} was not written within {term_s:g} s",
            cluster=alias,
            hint="Is a client quota used up? `isthmus doctor` shows those that count.",
        )

    def check(self, code: int, operation: Literal["READ", "WRITE", "DESCRIBE"], detail: str | None = None) -> None:
        """Raise the error for `code`: `Unreachable` if a retry with the present leader may help."""
        what, topic = f"{'writing' if operation == 'WRITE' else 'reading'} {self.name}", self.key[0]
        if code in codes.APPEND_PASSES:
            self.close()
            raise Unreachable(
                f"{self.client.cluster.alias} refuses {what} for now: {codes.name_of(code)}",
                cluster=self.client.cluster.alias,
                hint=f"Check the brokers that hold topic {topic}; Isthmus tries again.",
            )
        rights = on_topic(operation, topic), on_cluster("IDEMPOTENT_WRITE")
        codes.raise_for_code(code, what, *rights, cluster=self.client.cluster.alias, detail=detail)
