"""Transactions as clients before KIP-890 use them (KIP-98, "TV1"), which every broker supports.

Lanes copy the data of an aborted source transaction into an aborted one of ours, and use empty ones to write control
records where WriteTxnMarkers is not allowed; the ledger is written in transactions; groups' positions are committed in
them. The next owner of a transactional id continues an open transaction (`find`), or fences the previous owner
(`initialize`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from functools import partial
from typing import Any, Final

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import SEQUENCE_MASK, Batch, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.log.leader import LogLeader
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.permission import Permission
from isthmus.model.kafka.rights import Right, on_topic, on_transactional_id

_TIMEOUT_MS: Final = 900_000
"""The maximum that brokers allow by default: an engine that is away for longer loses its open transaction."""
_PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.005
_OUTAGE_S: Final = 0.2


class Transaction:
    """One transactional id of ours. `is_open` means that a transaction was begun and not yet ended.

    `sequence` is the next sequence of its producer in the partition. `may_send`, if given, is checked before each
    request that changes it. Requests answered with one of the `passing` error codes are repeated for `patience_s`, and
    with `outlasts` also those without an answer, or while there is no coordinator: every request has the same result if
    it is made twice.
    """

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        timeout_ms: int = _TIMEOUT_MS,
        may_send: Permission | None = None,
        patience_s: float = _PATIENCE_S,
        passing: frozenset[int] = codes.TRANSACTION_PASSES,
        outlasts: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self.sequence = 0
        self.is_open = False
        self._client = client
        self._timeout_ms = timeout_ms
        self._may_send = may_send
        self._patience_s = patience_s
        self._passing = passing
        self._outlasts = outlasts

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Act as this producer of the transactional id, whose transaction may be open."""
        self.producer_id, self.epoch, self.is_open = producer_id, epoch, True

    async def probe(self) -> None:
        """Check whether we may use the transactional id, without disturbing its present user.

        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        # Brokers check rights before the producer id, which is invalid on purpose.
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=-1, producer_epoch=-1, committed=False, max_version=4
        )
        try:
            await self._ask(request, lambda answer: answer.error_code, "a transaction")
        except BrokerRefused:
            return

    async def find(self, key: PartitionKey) -> None:
        """Take up a transaction that an earlier owner left open; without one `producer_id` stays -1.

        :raises UnsupportedByBroker: Before 3.0 (KIP-664) brokers do not describe transactions.
        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        found = await self._describe()
        if (
            found is not None
            and found.transaction_state == "Ongoing"
            and any(topic.topic == key[0] and key[1] in topic.partitions for topic in found.topics)
        ):
            self.producer_id, self.epoch, self.is_open = found.producer_id, found.producer_epoch, True

    async def reclaim(self) -> bool:
        """Adopt the epoch that the coordinator raised when it aborted our transaction by itself. Return whether it did.

        After that the coordinator may refuse its owner as if another one had fenced it. Another owner's `initialize`
        leaves the transactional id empty at the next epoch, and an abort by the coordinator then raises it once more.
        So an abort at the next epoch is that of our transaction, if no owner ever aborts one by `end`.

        :raises UnsupportedByBroker: Before 3.0 (KIP-664) brokers do not describe transactions.
        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        found = await self._describe()
        is_ours = (
            found is not None
            and found.transaction_state == "CompleteAbort"
            and (found.producer_id, found.producer_epoch) == (self.producer_id, self.epoch + 1)
        )
        if is_ours:
            self.epoch += 1
        return is_ours

    async def is_replaced(self) -> bool:
        """Return whether the transactional id has another producer, another epoch, or none by now.

        :raises UnsupportedByBroker: Before 3.0 (KIP-664) brokers do not describe transactions.
        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        found = await self._describe()
        return found is None or (found.producer_id, found.producer_epoch) != (self.producer_id, self.epoch)

    async def _describe(self) -> Any:
        """Describe the transactional id, once no control record is missing; `None` if its coordinator has none."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        deadline = Deadline(self._patience_s)
        while True:
            answer = await self._reach(request, deadline)
            found = answer.transaction_states[0]
            if found.error_code == codes.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            if found.error_code in self._passing:
                self._client.forget_coordinator("transaction", self.transactional_id)
            elif found.error_code != codes.NONE:
                right = on_transactional_id("DESCRIBE", self.transactional_id)
                raise self._refusal(found.error_code, "describing its transactions", right)
            elif not found.transaction_state.startswith("Prepare"):
                return found
            await self._pause(deadline)

    async def initialize(self, *, is_mine: bool = False) -> None:
        """Get a producer id and epoch. This aborts a transaction that an earlier owner left open.

        With `is_mine` the epoch is raised only if we are the last owner (KIP-360). But brokers compare the epoch only
        while no transaction is open: an open one is aborted, even if a later owner began it. See `is_replaced`.

        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        timeout_ms = self._timeout_ms
        # In a cluster without earlier transactions the log of transactions has to be created first.
        patience_s = self._patience_s if is_mine else max(self._patience_s, _PATIENCE_S)
        deadline = Deadline(patience_s)
        while True:
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=self.producer_id if is_mine else -1,
                producer_epoch=self.epoch if is_mine else -1,
                max_version=4,
            )
            try:
                answer = await self._ask(
                    request, lambda a: a.error_code, "beginning a transaction", patience_s=patience_s
                )
            except BrokerRefused as error:
                if error.code == codes.INVALID_TRANSACTION_TIMEOUT:
                    timeout_ms //= 2
                elif error.code in codes.COORDINATOR_MOVED and not is_mine:
                    await self._pause(deadline)
                else:
                    raise
            else:
                break
        self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    async def begin(self, key: PartitionKey) -> None:
        """Begin a transaction with the partition.

        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        await self.add([key])

    async def add(self, keys: Collection[PartitionKey]) -> None:
        """Add partitions to the transaction, which begins with the first ones.

        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        topic_class: Any = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        partitions = defaultdict[str, list[int]](list)
        for topic, partition in keys:
            partitions[topic].append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic_class(name=name, partitions=found) for name, found in partitions.items()],
            max_version=3,
        )
        what = "adding a partition to a transaction"
        await self._ask(request, _code_of_added, what, on_topic("WRITE", *partitions))
        self.is_open = True

    async def end(self, *, commit: bool) -> None:
        """End the transaction. The control record reaches the partition a little later.

        :raises Unreachable: It is unknown whether it ended: look at the log.
        :raises ClusterError: The end was refused.
        """
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
            max_version=4,
        )
        await self._ask(request, lambda a: a.error_code, "ending a transaction")
        self.is_open = False

    def continue_at(self, sequence: int) -> None:
        """Write next with this sequence: those of a partition begin at 0 with every epoch."""
        self.sequence = sequence

    def note_appended(self, records: int) -> None:
        """Note that these records were appended: it is open, and the next sequence is behind them."""
        self.sequence, self.is_open = (self.sequence + records) & SEQUENCE_MASK, True

    async def write(self, leader: LogLeader, batch: Batch, *, term_s: float | None = None) -> int:
        """Append a batch as a whole transaction, the only one of its producer there. Return its base offset. With
        `term_s` an append without an answer is repeated; the broker takes it once.

        :raises ClusterError: It was refused, or it is unknown whether it counts: `initialize` before the next one.
        """
        # First, as a coordinator would abort a transaction that is open while nothing can be written.
        await leader.wait_until_unmuted()
        await self.begin(leader.key)
        header = stamp(batch, self.producer_id, self.epoch, self.sequence, transactional=True)
        append = leader.produce if term_s is None else partial(leader.append, term_s=term_s)
        base = await append(header, batch, transactional_id=self.transactional_id)
        await self.end(commit=True)
        self.sequence += batch.record_count
        return base

    async def wait_for_end(self, *, commit: bool) -> None:
        """Wait until the coordinator has written the last control record of the ended transaction: none follows.

        It answers another end of the transaction with CONCURRENT_TRANSACTIONS until then.

        :raises ClusterError: As for `end`.
        """
        await self.end(commit=commit)

    async def _ask(self, request: Any, code_of: Any, what: str, *rights: Right, patience_s: float | None = None) -> Any:
        deadline = Deadline(self._patience_s if patience_s is None else patience_s)
        while True:
            answer = await self._reach(request, deadline, self._may_send)
            code = code_of(answer)
            if code == codes.NONE:
                return answer
            if code not in self._passing:
                raise self._refusal(code, what, on_transactional_id("WRITE", self.transactional_id), *rights)
            if code != codes.CONCURRENT_TRANSACTIONS:
                self._client.forget_coordinator("transaction", self.transactional_id)
            await self._pause(deadline)

    async def _reach(self, request: Any, deadline: Deadline, may_send: Permission | None = None) -> Any:
        """Return the coordinator's answer. With `outlasts` one that is silent, or not elected yet, is waited for."""
        while True:
            try:
                return await self._client.coordinator("transaction", self.transactional_id, request, may_send=may_send)
            except (Unreachable, BrokerRefused) as error:
                is_away = isinstance(error, Unreachable) or error.code in codes.COORDINATOR_MOVED
                if not self._outlasts or not is_away or deadline.passes_within(_OUTAGE_S):
                    raise
            await asyncio.sleep(_OUTAGE_S)

    async def _pause(self, deadline: Deadline) -> None:
        if deadline.has_passed:
            raise Unreachable(
                f"the transaction coordinator of {self._client.cluster.alias} is not ready",
                cluster=self._client.cluster.alias,
                hint="Check the brokers that hold __transaction_state: enough of them have to be in sync.",
            )
        await asyncio.sleep(_PAUSE_S)

    def _refusal(self, code: int, what: str, right: Right, *others: Right) -> ClusterError:
        what = f"{what} of {self.transactional_id}"
        return codes.error_for(code, what, right, *others, cluster=self._client.cluster.alias)


def _code_of_added(answer: Any) -> int:
    """The error code of an answer to AddPartitionsToTxn. One refused partition keeps the others from being added."""
    results = [each for topic in answer.results_by_topic_v3_and_below for each in topic.results_by_partition]
    found = {each.partition_error_code for each in results} - {codes.NONE}
    return min(found - {codes.OPERATION_NOT_ATTEMPTED} or found, default=codes.NONE)
