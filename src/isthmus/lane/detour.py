"""The detour: whatever cannot pass as the bytes it is, one lane at a time, in offset order.

Control records, aborted transactions, holes, deleted prefixes, and batches that have to be taken apart. Each is brought
to the target so that every record keeps its offset and both isolation levels see what they see at the source. Nothing
here is tried again blindly: after a failure the log is asked first.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, Protocol

from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from isthmus.errors import ClusterError, NotAuthorized, Unreachable
from isthmus.lane import rebatch
from isthmus.lane.faults import Faults
from isthmus.lane.filler import RECORDS_PER_BATCH, filler
from isthmus.lane.pieces import COMMIT, Piece, control_type, passes
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.routes import Leader, Routes
from isthmus.lane.run import LaneRun
from isthmus.lane.transaction import NO_PRODUCER, Transactions
from isthmus.lane.writer import Verdict
from isthmus.model.lane import LaneState
from isthmus.wire import codes, produce
from isthmus.wire.batch import HEADER_BYTES, Batch, scan, stamp
from isthmus.wire.client import Client
from isthmus.wire.connection import Connection
from isthmus.wire.offsets import log_ends

MARKERS_AT_ONCE: Final = 500
_TXN_PRODUCE_VERSION: Final = 11
_TIMEOUT_S: Final = 15.0
_PRODUCE_TIMEOUT_MS: Final = 10_000
_ARRIVAL_S: Final = 10.0
_ARRIVAL_PAUSE_S: Final = 0.002
_WRITE_TXN_MARKERS: Final = 27


class Careful(Protocol):
    """What the detour needs of its engine."""

    producer: ProducerIdentity
    link: str
    faults: Faults

    def may_write(self) -> bool: ...
    def advanced(self, run: LaneRun, pieces: int, records: int) -> None: ...
    def grown(self, size_bytes: int) -> None: ...


class Refused(Exception):
    """The lane cannot go on; `state` and the reason were set on its run."""


class Detour:
    """Takes lanes past what the fast path cannot carry."""

    def __init__(self, engine: Careful, target: Client, routes: Routes) -> None:
        self._engine = engine
        self._target = target
        self._routes = routes
        self._transactions = Transactions(target, routes, engine.link)
        self._may_write_markers = True

    async def take(self, run: LaneRun) -> None:
        """Go on until the head of the lane is plain again, nothing is pending, or writes are not allowed.

        :raises ClusterError: A request failed; the log has to be looked at.
        :raises Refused: The lane is in another state now.
        """
        while self._engine.may_write() and run.is_placed and not run.is_over and await self._step(run):
            pass

    async def _step(self, run: LaneRun) -> bool:
        """Take what comes next; False when the fast path may go on."""
        position = run.writer.position
        if run.prefix_end > position or run.prefix_undeleted:
            await self._prefix(run)
        elif run.gap_end > position:
            # Deleted at the source and passed as configured: no limit holds here.
            await self._write_markers_to(run, run.gap_end)
        elif run.pending:
            return await self._head(run, run.pending[0])
        else:
            return False
        return True

    async def _head(self, run: LaneRun, piece: Piece) -> bool:
        batch, position = piece.batch, run.writer.position
        if batch.offset_end <= position:
            self._engine.advanced(run, 1, run.pending[0].batch.record_count)
        elif batch.base_offset > position:
            await self._hole(run, batch.base_offset)
        elif batch.is_control:
            await self._marker(run, batch)
        elif batch.record_count == 0:
            await self._hole(run, batch.offset_end)
        elif batch.base_offset == position and piece.is_plain:
            return False
        elif batch.base_offset == position and piece.is_aborted and passes(batch, run.lane.batch_bytes_max):
            await self._aborted(run, batch)
        else:
            self._rebatch(run, piece)
        return True

    def forget(self, run: LaneRun) -> None:
        """The lane was looked at anew: what is known of its transactions may be wrong now."""
        self._transactions.forget(run)

    # Batches that have to be taken apart

    def _rebatch(self, run: LaneRun, piece: Piece) -> None:
        batch, lane = piece.batch, run.lane
        if piece.stored > 1:
            parts = [Piece(part, passes(part, lane.batch_bytes_max), False) for part in scan(batch.view)]
            self._engine.grown(run.replace_head(parts))
            return
        try:
            is_whole = batch.is_dense and batch.base_offset == run.writer.position
            if is_whole and batch.size_bytes > lane.batch_bytes_max:
                batches = rebatch.split(batch, lane.batch_bytes_max)
            else:
                batches = rebatch.dense(batch, begin=run.writer.position)
            _check_complete(batch, batches, run.writer.position)
        except ValueError as error:
            run.fail(
                LaneState.BLOCKED,
                str(error),
                "Check the source broker's disk (kafka-dump-log --deep-iteration names the batch). Isthmus tries again "
                "every few seconds.",
            )
            raise Refused from error
        # Aborted data is told apart by its producer, which a new batch does not have by itself.
        batches = [part._replace(producer_id=batch.producer_id) for part in batches]
        pieces = [Piece(part, not piece.is_aborted, piece.is_aborted) for part in batches]
        if not pieces:
            # Every record of the batch is gone or was copied before; its offsets remain to be filled.
            pieces = [Piece(_empty(batch), False, False)]
        elif pieces[-1].batch.offset_end < batch.offset_end:
            pieces.append(Piece(_empty(batch), False, False))
        self._engine.grown(run.replace_head(pieces))

    # Holes and control records

    async def _hole(self, run: LaneRun, hole_end: int) -> None:
        lane, size = run.lane, hole_end - run.writer.position
        if run.holes + size > lane.holes_max:
            run.fail(
                LaneState.REFUSED,
                f"more than {lane.holes_max} offsets without a record at the source (up to offset {hole_end})",
                "Raise compaction_holes_max of the link; each such offset costs a control record of 78 bytes.",
            )
            raise Refused
        run.holes += size
        await self._write_markers_to(run, hole_end)

    async def _write_markers_to(self, run: LaneRun, end: int) -> None:
        while run.writer.position < end and self._engine.may_write():
            await self._write_markers(run, min(end - run.writer.position, MARKERS_AT_ONCE), commit=False)

    async def _marker(self, run: LaneRun, batch: Batch) -> None:
        commit = control_type(batch) == COMMIT
        transaction = None if commit else await self._transactions.find(run, batch.producer_id)
        if transaction is not None and transaction.is_open:
            position = run.writer.position
            run.writer.sent()
            try:
                await transaction.end(commit=False)
            except ClusterError:
                run.writer.abandon()
                raise
            await self._arrived(run, position + 1)
        else:
            await self._write_markers(run, batch.offset_end - run.writer.position, commit=commit)

    async def _write_markers(self, run: LaneRun, count: int, *, commit: bool) -> None:
        """Append `count` control records that belong to no transaction: they take offsets and nobody sees them.

        Fewer when writes are forbidden meanwhile.
        """
        _, connection = await self._leader(run)
        if self._may_write_markers and _WRITE_TXN_MARKERS in connection.api_versions:
            try:
                return await self._write_markers_directly(run, connection, count, commit=commit)
            except NotAuthorized:
                # CLUSTER ALTER is much to ask for; empty transactions do the same, a few milliseconds each.
                self._may_write_markers = False
        end = run.writer.position + count
        while run.writer.position < end and self._engine.may_write():
            await self._empty_transaction(run, commit=commit)
        return None

    async def _write_markers_directly(self, run: LaneRun, connection: Connection, count: int, *, commit: bool) -> None:
        marker_class: Any = WriteTxnMarkersRequest.WritableTxnMarker
        marker = marker_class(
            producer_id=self._engine.producer.marker_producer_id,
            producer_epoch=self._engine.producer.epoch,
            transaction_result=commit,
            topics=[marker_class.WritableTxnMarkerTopic(name=run.target[0], partition_indexes=[run.target[1]])],
            coordinator_epoch=0,
            transaction_version=0,
        )
        run.writer.sent()
        try:
            answer = await connection.call(WriteTxnMarkersRequest(markers=[marker] * count), timeout_s=_TIMEOUT_S)
        except ClusterError:
            run.writer.abandon()
            raise
        results = [p.error_code for m in answer.markers for t in m.topics for p in t.partitions]
        failed = next((code for code in results if code != codes.NONE), codes.NONE)
        if failed in codes.AUTHORIZATION:
            run.writer.refused()
            raise codes.error_for(failed, "writing transaction markers", cluster=self._target.cluster.alias)
        if failed != codes.NONE or not results:
            run.writer.abandon()
            raise codes.error_for(failed or -1, "writing transaction markers", cluster=self._target.cluster.alias)
        if count == 1:
            run.writer.advanced_unsequenced(count)
        else:
            # The broker answers once for all markers of a producer id, with what became of the last one.
            await self._arrived(run, run.writer.position + count)

    async def _empty_transaction(self, run: LaneRun, *, commit: bool) -> None:
        transaction = await self._transactions.find(run, NO_PRODUCER)
        await self._transactions.open(run, transaction)
        position = run.writer.position
        run.writer.sent()
        try:
            await transaction.end(commit=commit)
        except ClusterError:
            run.writer.abandon()
            raise
        await self._arrived(run, position + 1)

    async def _arrived(self, run: LaneRun, end: int) -> None:
        """Wait until the coordinator's control record is in the log, where nothing else may be."""
        leader, connection = await self._leader(run)
        deadline = time.monotonic() + _ARRIVAL_S
        while time.monotonic() < deadline:
            answer = (await log_ends(connection, {run.target: leader.epoch}))[run.target]
            if answer.error_code == codes.NONE and answer.offset == end:
                run.writer.advanced_unsequenced(end - run.writer.position)
                return
            if answer.error_code == codes.NONE and answer.offset > end:
                run.writer.refused()
                run.fail(
                    LaneState.FOREIGN_WRITE,
                    f"the target's log ends at {answer.offset} where {end} was expected: a control record was written "
                    "twice (the coordinator does so when a leader dies) or somebody else writes to the partition",
                    "Delete the target topic and run again. Granting ALTER on the cluster avoids the doubled records.",
                )
                raise Refused
            await asyncio.sleep(_ARRIVAL_PAUSE_S)
        run.writer.abandon()
        raise Unreachable(
            f"the end of a transaction did not reach {run.lane.key} in {_ARRIVAL_S:g} s",
            cluster=self._target.cluster.alias,
        )

    # Aborted transactions

    async def _aborted(self, run: LaneRun, batch: Batch) -> None:
        transaction = await self._transactions.find(run, batch.producer_id)
        await self._transactions.open(run, transaction)
        header = stamp(batch, transaction.producer_id, transaction.epoch, transaction.sequence, transactional=True)
        append = produce.Append(*run.target_append, header, batch.view[HEADER_BYTES:])
        code, message = await self._append(run, batch, append, transaction.transactional_id)
        if code != codes.NONE:
            self._engine.faults.judged(run, run.writer.answered(code, -1), code, message, batch)
            raise Refused
        transaction.sequence += batch.record_count
        run.writer.advanced_unsequenced(batch.record_count)
        self._engine.advanced(run, 1, run.pending[0].batch.record_count)

    # The prefix that the source has deleted

    async def _prefix(self, run: LaneRun) -> None:
        timestamp = run.pending[0].batch.base_timestamp if run.pending else int(time.time() * 1000)
        while run.writer.position < run.prefix_end and self._engine.may_write():
            batch = filler(min(run.prefix_end - run.writer.position, RECORDS_PER_BATCH), max(timestamp, 0))
            producer = self._engine.producer
            header = stamp(batch, producer.producer_id, producer.epoch, run.writer.sequence)
            append = produce.Append(*run.target_append, header, batch.view[HEADER_BYTES:])
            code, message, base = await self._append_at(run, batch, append, None)
            verdict = run.writer.answered(code, base)
            if verdict is not Verdict.ADVANCED:
                self._engine.faults.judged(run, verdict, code, message, batch)
                raise Refused
        if run.writer.position == run.prefix_end and self._engine.may_write():
            await self._delete_prefix(run)

    async def _delete_prefix(self, run: LaneRun) -> None:
        topic_class: Any = DeleteRecordsRequest.DeleteRecordsTopic
        request = DeleteRecordsRequest(
            topics=[
                topic_class(
                    name=run.target[0],
                    partitions=[
                        topic_class.DeleteRecordsPartition(partition_index=run.target[1], offset=run.prefix_end)
                    ],
                )
            ],
            timeout_ms=_PRODUCE_TIMEOUT_MS,
        )
        _, connection = await self._leader(run)
        answer = await connection.call(request, timeout_s=_TIMEOUT_S)
        code = answer.topics[0].partitions[0].error_code
        codes.raise_for_code(code, f"deleting the fillers of {run.lane.key}", cluster=self._target.cluster.alias)
        run.prefix_end = -1
        run.prefix_undeleted = False
        run.heal()

    # Appending over the shared connection

    async def _append(
        self, run: LaneRun, batch: Batch, append: produce.Append, transactional_id: str | None
    ) -> tuple[int, str | None]:
        code, message, base = await self._append_at(run, batch, append, transactional_id)
        if code == codes.NONE and base != run.writer.position:
            self._engine.faults.judged(run, Verdict.BROKEN, code, f"base offset {base}")
            raise Refused
        return code, message

    async def _append_at(
        self, run: LaneRun, batch: Batch, append: produce.Append, transactional_id: str | None
    ) -> tuple[int, str | None, int]:
        _, connection = await self._leader(run)
        version = produce.version_for(connection.api_versions)
        if transactional_id is not None:
            version = min(version, _TXN_PRODUCE_VERSION)
        elif not append.topic_id.int:
            version = min(version, 12)
        run.writer.sent(batch.record_count, batch.max_timestamp)
        try:
            answers, _ = await produce.post(
                connection,
                [append],
                version=version,
                timeout_ms=_PRODUCE_TIMEOUT_MS,
                timeout_s=_TIMEOUT_S,
                transactional_id=transactional_id,
            )
        except ClusterError:
            run.writer.abandon()
            raise
        answer = answers[produce.answer_key(append, version)]
        return answer.error_code, answer.error_message, answer.base_offset

    async def _leader(self, run: LaneRun) -> tuple[Leader, Connection]:
        leader = self._routes.require(*run.target)
        return leader, await self._target.connection(leader.node_id)


def _check_complete(batch: Batch, parts: list[Batch], begin: int) -> None:
    """Nothing may get lost on the way: a gap between the parts would become a hole at the target.

    :raises ValueError: The parts do not hold what the header of the batch promises.
    """
    count = sum(part.record_count for part in parts)
    if batch.is_dense and count != batch.offset_end - max(batch.base_offset, begin):
        raise ValueError(f"the batch at offset {batch.base_offset} does not hold the records its header promises")


def _empty(batch: Batch) -> Batch:
    """A stand-in for offsets without records up to the end of `batch`."""
    return batch._replace(record_count=0, view=batch.view[:0])
