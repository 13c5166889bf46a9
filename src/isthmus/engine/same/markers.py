"""Writes control records at the target: ends of transactions, and placeholders for offsets without a visible record.

With ALTER on the cluster they are written directly (WriteTxnMarkers), exactly once like records: no request is repeated
before a look at the log. Without it the coordinator of an empty transaction writes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from kafka.protocol.producer import WriteTxnMarkersRequest

from isthmus.deadline import Deadline
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import TargetRoutes
from isthmus.engine.run import LaneRun, Refused
from isthmus.engine.same.aborts import NO_PRODUCER, ONCE_HINT, Aborts, LoneTransaction
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.listoffsets import LATEST, list_offsets, log_ends
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.rights import on_cluster
from isthmus.model.kafka.transactions import marker_producer_ids
from isthmus.model.lane import LaneState
from isthmus.model.links.remedies import keep_or_delete_unknown
from isthmus.model.naming import TargetTopicPartition

AT_ONCE: Final = 2_000
"""The maximum of markers in one request: a leader takes about 30 microseconds for each."""
_FENCED_STEP: Final = 3600
_WRITE_TXN_MARKERS: Final = 27
_TIMEOUT_S: Final = 15.0
_ARRIVAL_S: Final = 10.0
_ARRIVAL_PAUSE_S: Final = 0.002
_NO_PARTITION: Final = (1 << 31) - 1


class Marking(Protocol):
    """The part of the engine that the markers use."""

    producer: ProducerIdentity

    def may_send(self) -> bool: ...
    def may_go_on(self, run: LaneRun) -> bool: ...


class Markers:
    """Writes control records for one lane at a time, one request at a time.

    All methods raise `ClusterError` when a request failed, so that the log has to be looked at, and `Refused`.
    """

    def __init__(self, engine: Marking, routes: TargetRoutes, aborts: Aborts) -> None:
        self._engine = engine
        self._routes = routes
        self._aborts = aborts
        self._are_allowed: bool | None = None

    async def ask_whether_allowed(self, run: LaneRun) -> bool:
        """Whether the target lets us write control records directly. This is tested with one for a partition that no
        topic has, and remembered until one is refused.
        """
        if self._are_allowed is None:
            _, connection = await self._routes.reach(*run.target)
            nowhere = (run.target[0], _NO_PARTITION)
            self._are_allowed = _WRITE_TXN_MARKERS in connection.api_versions and (
                await self._post(connection, nowhere, [self._engine.producer.marker_producer_id], coordinator_epoch=0)
                not in codes.AUTHORIZATION
            )
        return self._are_allowed

    async def fill(self, run: LaneRun, end: int) -> None:
        """Fill the offsets up to `end` with control records; fewer if the lane may not write any more."""
        while run.writer.position < end and self._engine.may_go_on(run):
            await self.write(run, min(end - run.writer.position, AT_ONCE), commit=False)

    async def write(self, run: LaneRun, count: int, *, commit: bool) -> None:
        """Append `count` control records that belong to no transaction: they take offsets and consumers skip them.

        Writes fewer if the lane may not write any more.
        """
        if await self.ask_whether_allowed(run):
            ids = marker_producer_ids(self._engine.producer.marker_producer_id, run.writer.position, count)
            await self._append(run, ids, commit=commit)
            return
        end = run.writer.position + count
        while run.writer.position < end and self._engine.may_go_on(run):
            transaction = await self._aborts.find(run, NO_PRODUCER, may_be_alone=False)
            await self._aborts.open(run, transaction)
            await self.end(run, NO_PRODUCER, transaction, commit=commit)

    async def end(
        self,
        run: LaneRun,
        source_producer_id: int,
        transaction: Transaction | LoneTransaction,
        *,
        commit: bool = False,
    ) -> None:
        """End a transaction with one control record."""
        if isinstance(transaction, LoneTransaction):
            await self._append(run, [transaction.producer_id], commit=commit, producer_epoch=transaction.epoch)
            transaction.is_open = False
            return
        self._check(run)
        end = run.writer.position + 1
        run.transactions.begin_ending([source_producer_id])
        with _in_doubt(run):
            await transaction.end(commit=commit)
            await transaction.wait_for_end(commit=commit)
            await self._wait_for_arrival(run, end)
        run.transactions.end(source_producer_id)

    async def confirm(self, run: LaneRun) -> None:
        """Wait for coordinators that may still be ending transactions: the lane does not write before."""
        for source_producer_id in list(run.transactions.ending):
            await self._aborts.find(run, source_producer_id, may_be_alone=False)
        self._aborts.forget(run)
        run.transactions.end_all()

    async def _append(
        self, run: LaneRun, producer_ids: Sequence[int], *, commit: bool, producer_epoch: int | None = None
    ) -> None:
        _, connection = await self._routes.reach(*run.target)
        count = len(producer_ids)
        self._check(run)
        with _in_doubt(run):
            code = await self._post(
                connection,
                run.target,
                producer_ids,
                commit=commit,
                coordinator_epoch=run.transactions.marker_epoch,
                producer_epoch=producer_epoch,
            )
            if code == codes.TRANSACTION_COORDINATOR_FENCED:
                # A previous owner's clock was ahead, and the leader does not report its epoch.
                run.transactions.skip_epochs(_FENCED_STEP)
            if code in codes.AUTHORIZATION:
                run.writer.refused()
                self._are_allowed = None
            what, right = "writing transaction markers", on_cluster("ALTER")
            codes.raise_for_code(code, what, right, cluster=self._routes.client.cluster.alias)
            if len(set(producer_ids)) == count:
                run.writer.advanced_unsequenced(count)
            else:
                # The broker answers once for all markers of a producer id, with the result of the last one.
                await self._wait_for_arrival(run, run.writer.position + count)

    async def _post(
        self,
        connection: Connection,
        key: TargetTopicPartition,
        producer_ids: Sequence[int],
        *,
        coordinator_epoch: int,
        producer_epoch: int | None = None,
        commit: bool = False,
    ) -> int:
        """Ask a leader to write a control record of each producer. Return an error code, -1 without full answer."""
        marker_class: Any = WriteTxnMarkersRequest.WritableTxnMarker
        markers = [
            marker_class(
                producer_id=producer_id,
                producer_epoch=self._engine.producer.epoch if producer_epoch is None else producer_epoch,
                transaction_result=commit,
                topics=[marker_class.WritableTxnMarkerTopic(name=key[0], partition_indexes=[key[1]])],
                coordinator_epoch=coordinator_epoch,
                transaction_version=0,
            )
            for producer_id in producer_ids
        ]
        request = WriteTxnMarkersRequest(markers=markers)
        answer = await connection.call(request, timeout_s=_TIMEOUT_S, may_send=self._engine.may_send)
        results = [p.error_code for m in answer.markers for t in m.topics for p in t.partitions]
        is_answered = len(results) == len(set(producer_ids))
        return next((code for code in results if code != codes.NONE), codes.NONE if is_answered else -1)

    async def _wait_for_arrival(self, run: LaneRun, end: int) -> None:
        """Wait until the control records are in the log and replicated, and the log ends with them."""
        leader, connection = await self._routes.reach(*run.target)
        epochs = {run.target: leader.epoch}
        deadline = Deadline(_ARRIVAL_S)
        while not deadline.has_passed:
            # In this order: a high watermark read before the log end could be that of a shorter log.
            ends, marks = await asyncio.gather(log_ends(connection, epochs), list_offsets(connection, epochs, LATEST))
            log_end, mark = ends[run.target], marks[run.target]
            if log_end.error_code == mark.error_code == codes.NONE:
                if log_end.offset > end:
                    self._fail_doubled(run, log_end.offset, end)
                if mark.offset >= log_end.offset == end:
                    run.writer.advanced_unsequenced(end - run.writer.position)
                    return
            await asyncio.sleep(_ARRIVAL_PAUSE_S)
        raise Unreachable(
            f"the end of a transaction did not reach {run.lane.key} in {_ARRIVAL_S:g} s",
            cluster=self._routes.client.cluster.alias,
        )

    def _check(self, run: LaneRun) -> None:
        if not self._engine.may_go_on(run):
            raise Refused

    def _fail_doubled(self, run: LaneRun, log_end: int, end: int) -> None:
        run.writer.refused()
        run.fail(
            LaneState.FOREIGN_WRITE,
            f"the target's log ends at {log_end} where {end} was expected: a control record was written twice (the "
            "coordinator does so when a leader goes) or another producer writes to the partition",
            f"{keep_or_delete_unknown(run.target[0], self._routes.client.cluster, run.target[1])} {ONCE_HINT}",
        )
        raise Refused


@contextmanager
def _in_doubt(run: LaneRun) -> Iterator[None]:
    """Count the request inside as in flight, and abandon it on failure: it may be in the log or not."""
    run.writer.sent()
    try:
        yield
    except ClusterError:
        if run.writer.in_flight:
            run.writer.abandon()
        raise
