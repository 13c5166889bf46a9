"""The detour of an identity lane: writes in offset order all that the fast path cannot send unchanged.

That is control records, transactions that are copied as such, holes, deleted prefixes, and batches that have to be
rebuilt. Each is written so that every record keeps its offset, and consumers of both isolation levels see the same as
at the source. No request is repeated blindly: after a failure the log is looked at first.
"""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

from kafka.protocol.admin import DeleteRecordsRequest

from isthmus.engine.batches.pieces import Piece, passes
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import TargetRoutes
from isthmus.engine.parcels import gathered
from isthmus.engine.regrouping import Regrouping, mark_damaged, regroup
from isthmus.engine.run import LaneRun, Refused
from isthmus.engine.same.aborts import UNVERIFIED, Aborts, LoneTransaction
from isthmus.engine.same.filler import RECORDS_PER_BATCH, filler
from isthmus.engine.same.markers import Markers
from isthmus.engine.same.omission import Omission
from isthmus.engine.state.writer import AppendVerdict
from isthmus.errors import ClusterError
from isthmus.kafka import codes
from isthmus.kafka.batches.aborted import ABORT, COMMIT, control_type
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, check_batch, stamp
from isthmus.kafka.log import produce
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.rights import on_topic
from isthmus.model.lane import LaneState
from isthmus.model.links.remedies import keep_or_delete_unknown
from isthmus.model.text.wording import format_count

_TIMEOUT_S: Final = 15.0
_PRODUCE_TIMEOUT_MS: Final = 10_000


class Careful(Regrouping, Protocol):
    """The part of the engine that the detour uses."""

    producer: ProducerIdentity
    link: str

    def may_send(self) -> bool: ...
    def may_go_on(self, run: LaneRun) -> bool: ...
    def go_by_records(self, run: LaneRun) -> None: ...
    def timed(self, batch: Batch, now_ms: float) -> None: ...
    def advanced(self, run: LaneRun, pieces: int, records: int) -> None: ...


class Detour:
    """Takes lanes past pieces that the fast path cannot send."""

    def __init__(self, engine: Careful, routes: TargetRoutes) -> None:
        self._engine = engine
        self._routes = routes
        self._aborts = Aborts(routes, engine.link, engine.may_send)
        self._markers = Markers(engine, routes, self._aborts)
        self._omission = Omission(engine, self._aborts, self._markers)

    async def take(self, run: LaneRun) -> None:
        """Continue until the head of the lane is plain again, nothing is pending, or the lane may not write any more.

        The permission is checked again before every request, after all waits.

        :raises ClusterError: A request failed; the log has to be looked at.
        :raises Refused: The lane cannot go on; its state shows why.
        """
        while self._engine.may_go_on(run) and await self._step(run):
            pass

    async def _step(self, run: LaneRun) -> bool:
        """Do the next step; return False when the fast path may go on."""
        position, prefix = run.writer.position, run.missing.prefix
        if run.transactions.ending:
            await self._markers.confirm(run)
        elif prefix is not None and (prefix.end > position or prefix.is_stored):
            await self._write_fillers(run, prefix.end)
        elif run.missing.gap_end > position:
            # Deleted at the source, and skipped as configured: no limit applies here.
            await self._fill_gap(run)
        elif run.intake.pending:
            return await self._take_head(run, run.intake.pending[0])
        else:
            return False
        return True

    async def _take_head(self, run: LaneRun, piece: Piece) -> bool:
        batch, position = piece.batch, run.writer.position
        if batch.offset_end <= position:
            self._engine.advanced(run, 1, run.intake.pending[0].batch.record_count)
        elif batch.base_offset > position:
            await self._fill_hole(run, batch.base_offset)
        elif batch.is_control:
            await self._write_marker(run, batch)
        elif batch.record_count == 0:
            await self._fill_hole(run, batch.offset_end)
        elif batch.base_offset == position and piece.is_plain:
            return False
        elif piece.is_undecided:
            await self._append_undecided(run, piece)
        elif piece.is_aborted and await self._omission.applies(run):
            await self._omission.take(run)
        elif batch.base_offset == position and piece.is_aborted and passes(batch, run.lane.batch_bytes_max):
            await self._append_aborted(run, batch)
        else:
            regroup(run, piece, self._engine)
        return True

    def forget(self, run: LaneRun) -> None:
        """Forget the lane's transactions after a new look at its log: their known state may be wrong now."""
        self._aborts.forget(run)

    # Holes and control records

    async def _fill_gap(self, run: LaneRun) -> None:
        """Abort the transactions that are open at the target, as the source may have deleted their ends, and fill the
        gap with control records.
        """
        room = run.missing.gap_end - run.writer.position
        left_open = self._aborts.all_left_alone(run)
        if run.transactions.is_whole and len(left_open) > room:
            run.fail(
                LaneState.FAILED,
                f"{format_count(len(left_open), 'transaction')} open at the target when the source deleted what "
                f"follows, up to offset {run.missing.gap_end}: that leaves no room for the control "
                "records that would end them",
                keep_or_delete_unknown(run.target[0], self._routes.client.cluster, run.target[1]),
            )
            raise Refused
        for transaction in left_open[:room]:
            await self._markers.end(run, transaction.producer_id, transaction)
        await self._markers.fill(run, run.missing.gap_end)

    async def _fill_hole(self, run: LaneRun, hole_end: int) -> None:
        lane, size = run.lane, hole_end - run.writer.position
        if run.missing.holes + size > lane.holes_max:
            run.fail(
                LaneState.REFUSED,
                f"more than {format_count(lane.holes_max, 'offset')} without a record at the source (up to offset "
                f"{hole_end})",
                "Raise compaction_holes_max of the link; each such offset costs a control record of 78 bytes.",
            )
            raise Refused
        run.missing.count_holes(size)
        await self._markers.fill(run, hole_end)

    async def _write_marker(self, run: LaneRun, batch: Batch) -> None:
        kind = control_type(batch)
        commit = kind == COMMIT
        transaction: Transaction | LoneTransaction | None
        if run.transactions.is_whole:
            transaction = await self._aborts.find_undecided(run, batch.producer_id)
        elif commit:
            # Open if the lane was whole before. In a compacted topic it may be aborted, and its end cleaned away.
            transaction = None if run.lane.is_compacted else self._aborts.left_alone(run, batch.producer_id)
        elif kind == ABORT and await self._omission.applies(run):
            await self._omission.take(run)
            return
        else:
            transaction = await self._aborted_transaction(run, batch)
        if transaction is not None and transaction.is_open:
            await self._markers.end(run, batch.producer_id, transaction, commit=commit)
        else:
            await self._markers.write(run, batch.offset_end - run.writer.position, commit=commit)

    # Aborted transactions

    async def _aborted_transaction(self, run: LaneRun, batch: Batch) -> Transaction | LoneTransaction:
        may_be_alone = await self._markers.ask_whether_allowed(run)
        return await self._aborts.find(run, batch.producer_id, may_be_alone=may_be_alone)

    async def _append_aborted(self, run: LaneRun, batch: Batch) -> None:
        try:
            # The target would refuse it, but a transaction begun in vain times out, and its end takes an offset.
            check_batch(batch)
        except ValueError as error:
            raise mark_damaged(run, error, self._engine.faults) from error
        transaction = await self._aborted_transaction(run, batch)
        if not transaction.is_open and await self._omission.applies(run):
            # Another lane has found meanwhile that brokers verify transactions.
            return
        await self._append_in(run, transaction, batch, 1)

    # Undecided transactions: it is not known yet how they end

    async def _append_undecided(self, run: LaneRun, piece: Piece) -> None:
        batch = piece.batch
        if not run.transactions.is_whole:
            # It was read before the lane changed to copying record by record.
            raise Refused
        if batch.base_offset != run.writer.position or not passes(batch, run.lane.batch_bytes_max):
            regroup(run, piece, self._engine)
            return
        transaction = await self._aborts.find_undecided(run, batch.producer_id)
        if not transaction.is_open and not await self._may_begin(run, transaction):
            self._engine.go_by_records(run)
            raise Refused
        try:
            joined, pieces = gathered(run)
        except ValueError:
            # Its parts raise the error one by one.
            regroup(run, piece, self._engine)
            return
        if not await self._append_in(run, transaction, joined, pieces):
            self._engine.go_by_records(run)
            raise Refused

    async def _may_begin(self, run: LaneRun, transaction: Transaction | LoneTransaction) -> bool:
        """Whether to begin a transaction that only we can end."""
        return (
            isinstance(transaction, LoneTransaction)
            and await self._markers.ask_whether_allowed(run)
            and await self._aborts.may_be_alone(run)
        )

    async def _append_in(
        self, run: LaneRun, transaction: Transaction | LoneTransaction, batch: Batch, pieces: int
    ) -> bool:
        """Append the first pieces as one batch of a transaction; False if a broker requires a coordinator for it.

        :raises ClusterError: The request failed; the log has to be looked at.
        :raises Refused: The lane cannot go on; its state shows why.
        """
        await self._aborts.open(run, transaction)
        header = stamp(batch, transaction.producer_id, transaction.epoch, transaction.sequence, transactional=True)
        append = produce.Append(*run.keys.append, header, batch.view[HEADER_BYTES:])
        code, message = await self._append(run, batch, append, transaction.transactional_id)
        if (
            code in UNVERIFIED
            and isinstance(transaction, LoneTransaction)
            and (run.transactions.is_whole or not transaction.is_open)
        ):
            run.writer.refused()
            self._aborts.note_verification()
            return False
        if code == codes.NOT_ENOUGH_REPLICAS and isinstance(transaction, LoneTransaction) and not transaction.is_open:
            await self._aborts.find_coordinator(run, transaction)
        if code != codes.NONE:
            self._engine.faults.handle_verdict(run, run.writer.answered(code, -1), code, message, batch)
            raise Refused
        transaction.note_appended(batch.record_count)
        run.writer.advanced_unsequenced(batch.record_count)
        self._engine.timed(batch, time.time() * 1000)
        self._engine.advanced(run, pieces, batch.record_count)
        return True

    # The prefix that the source has deleted

    async def _write_fillers(self, run: LaneRun, end: int) -> None:
        timestamp = run.intake.pending[0].batch.base_timestamp if run.intake.pending else int(time.time() * 1000)
        while run.writer.position < end and self._engine.may_go_on(run):
            batch = filler(min(end - run.writer.position, RECORDS_PER_BATCH), max(timestamp, 0))
            producer = self._engine.producer
            header = stamp(batch, producer.producer_id, producer.epoch, run.writer.sequence)
            append = produce.Append(*run.keys.append, header, batch.view[HEADER_BYTES:])
            code, message, base = await self._append_at(run, batch, append, None)
            verdict = run.writer.answered(code, base)
            if verdict is not AppendVerdict.ADVANCED:
                self._engine.faults.handle_verdict(run, verdict, code, message, batch)
                raise Refused
        if run.writer.position == end and self._engine.may_go_on(run):
            # If the deletion is refused, the fillers still have to be deleted when the lane is placed again.
            run.missing.fill_prefix(end, is_stored=True)
            await self._delete_prefix(run, end)

    async def _delete_prefix(self, run: LaneRun, end: int) -> None:
        topic_class: Any = DeleteRecordsRequest.DeleteRecordsTopic
        request = DeleteRecordsRequest(
            topics=[
                topic_class(
                    name=run.target[0],
                    partitions=[topic_class.DeleteRecordsPartition(partition_index=run.target[1], offset=end)],
                )
            ],
            timeout_ms=_PRODUCE_TIMEOUT_MS,
        )
        _, connection = await self._routes.reach(*run.target)
        self._check(run)
        answer = await connection.call(request, timeout_s=_TIMEOUT_S, may_send=self._engine.may_send)
        code = answer.topics[0].partitions[0].error_code
        what, right = f"deleting the fillers of {run.lane.key}", on_topic("DELETE", run.target[0])
        codes.raise_for_code(code, what, right, cluster=self._routes.client.cluster.alias)
        run.missing.drop_prefix()
        run.heal()

    # Appending over the shared connection

    async def _append(
        self, run: LaneRun, batch: Batch, append: produce.Append, transactional_id: str | None
    ) -> tuple[int, str | None]:
        code, message, base = await self._append_at(run, batch, append, transactional_id)
        if code == codes.NONE and base != run.writer.position:
            self._engine.faults.handle_verdict(run, AppendVerdict.BROKEN, code, f"base offset {base}")
            raise Refused
        return code, message

    async def _append_at(
        self, run: LaneRun, batch: Batch, append: produce.Append, transactional_id: str | None
    ) -> tuple[int, str | None, int]:
        _, connection = await self._routes.reach(*run.target)
        self._check(run)
        run.writer.sent(batch.record_count, batch.max_timestamp)
        try:
            answer = await produce.post_one(
                connection,
                append,
                timeout_ms=_PRODUCE_TIMEOUT_MS,
                timeout_s=_TIMEOUT_S,
                transactional_id=transactional_id,
                may_send=self._engine.may_send,
            )
        except ClusterError:
            run.writer.abandon(connection.muted_until)
            raise
        return answer.error_code, answer.error_message, answer.base_offset

    def _check(self, run: LaneRun) -> None:
        if not self._engine.may_go_on(run):
            raise Refused
