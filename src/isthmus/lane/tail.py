"""The end of the target's log, held against the source: is it our work?

Our producer id alone does not tell: after a foreign write records of ours may stand behind it, at wrong offsets. So
the last record is compared with what the source has at the same offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from isthmus.errors import ClusterError, Unreachable
from isthmus.lane.aborts import NO_PRODUCER, ONCE_HINT
from isthmus.lane.filler import is_filler
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.rebatch import Record, records_of
from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun, TailCheck
from isthmus.model.lane import LaneState
from isthmus.model.transactions import is_lone
from isthmus.wire import codes
from isthmus.wire.batch import Batch, scan
from isthmus.wire.connection import Connection
from isthmus.wire.fetch import FetchSession, Want
from isthmus.wire.offsets import READ_UNCOMMITTED, PartitionKey

_TIMEOUT_S: Final = 3.0
_AT_ONCE: Final = 64
_RESPONSE_BYTES: Final = 32 << 20
_PARTITION_BYTES: Final = 2 << 20
_NO_ANSWER: Final = Unreachable("the last batch could not be read")

Found = Batch | ClusterError | None


class Tails:
    """Looks at the last batches of many lanes at once."""

    def __init__(self, source: Routes, target: Routes, producer: ProducerIdentity) -> None:
        self._source = source
        self._target = target
        self._ours = (producer.producer_id, producer.marker_producer_id)

    async def check(self, runs: Sequence[LaneRun]) -> list[LaneRun]:
        """The lanes whose target is not in doubt. Of the others the state tells whether that is for good or for now."""
        doubted = [run for run in runs if run.tail_check is not TailCheck.DONE and run.writer.position > 0]
        wants = {run.target: Want(run.lane.target_topic_id, run.writer.position - 1, -1, -1) for run in doubted}
        tails = await _batches(self._target, wants)
        compared = [run for run in doubted if not self._is_believed(run, tails[run.target])]
        wants = {run.source: Want(run.lane.source_topic_id, run.writer.position - 1, -1, -1) for run in compared}
        sources = await _batches(self._source, wants)
        unsure = {run for run in compared if not self._is_confirmed(run, tails[run.target], sources[run.source])}
        for run in runs:
            if run not in unsure:
                run.tail_check = TailCheck.DONE
        return [run for run in runs if run not in unsure]

    def _is_believed(self, run: LaneRun, tail: Found) -> bool:
        """Whether the last batch needs no comparison: it is known, or the source has nothing to compare it with."""
        if isinstance(tail, ClusterError):
            return False
        if tail is None or run.writer.position > run.source_end:
            return True
        if run.writer.position <= run.source_start:
            if is_filler(tail):
                run.prefix_end = run.source_start
                run.prefix_undeleted = True
            return True
        return run.tail_check is TailCheck.PRODUCER and tail.producer_id in self._ours

    def _is_confirmed(self, run: LaneRun, tail: Found, source: Found) -> bool:
        """Whether the last record of the target is the source's; if not, the lane is told why."""
        if isinstance(tail, ClusterError):
            run.fail(LaneState.TARGET_UNAVAILABLE, str(tail), tail.hint)
            return False
        if isinstance(source, ClusterError) or tail is None:
            run.fail(LaneState.SOURCE_UNAVAILABLE, str(source), getattr(source, "hint", ""))
            return False
        offset = run.writer.position - 1
        try:
            if is_copy(tail, source, offset, is_compacted=run.lane.is_compacted):
                if tail.is_control and tail.producer_id not in self._ours and not is_lone(tail.producer_id):
                    # A coordinator wrote it, and may write it once more until it is heard that it need not.
                    run.ending.update({NO_PRODUCER} if source is None else {NO_PRODUCER, source.producer_id})
                return True
        except ValueError as error:
            run.fail(
                LaneState.BLOCKED,
                f"the end of the target's log cannot be compared with the source: {error}",
                "Check the disks of the brokers (kafka-dump-log --deep-iteration names the batch).",
            )
            return False
        if tail.is_control:
            what = (
                "a control record where the source has a record: a coordinator wrote the end of an aborted transaction "
                "twice, or ended one that nobody went on with in time, or somebody else writes to the partition"
            )
            hint = ONCE_HINT
        else:
            what = f"not the source's record but one of producer {tail.producer_id}: somebody else writes to it"
            hint = "Mirror into a topic of its own: delete the target topic, or exclude this one. Deny WRITE to others."
        run.fail(LaneState.FOREIGN_WRITE, f"what the target has at offset {offset} is {what}", hint)
        return False


def is_copy(tail: Batch, source: Batch | None, offset: int, *, is_compacted: bool) -> bool:
    """Whether `tail` shows at `offset` what the source has there, `source` being its first batch from there on.

    Where the source has no record (a control batch, a hole) the target must have none either, unless the source's log
    cleaner may have taken it (`is_compacted`).

    :raises ValueError: One of the batches cannot be decoded.
    """
    wanted = None if source is None else _record_at(source, offset)
    return (wanted is None and is_compacted) or _record_at(tail, offset) == wanted


def _record_at(batch: Batch, offset: int) -> Record | None:
    if batch.is_control:
        return None
    return next((record for record in records_of(batch) if record.offset == offset), None)


async def _batches(routes: Routes, wants: Mapping[PartitionKey, Want]) -> dict[PartitionKey, Found]:
    answers = await routes.ask(
        wants, lambda connection, epochs: batches_at(connection, {key: wants[key] for key in epochs})
    )
    return {key: answers.get(key, _NO_ANSWER) for key in wants}


async def batches_at(connection: Connection, wants: Mapping[PartitionKey, Want]) -> dict[PartitionKey, Batch | None]:
    """The first batch at or behind each wanted offset; None where the log has none.

    Partitions about which the broker answered an error are left out.

    :raises ClusterError: The broker did not answer, or not with record batches.
    """
    found: dict[PartitionKey, Batch | None] = {}
    waiting = dict(wants)
    while waiting:
        chunk = dict(islice(waiting.items(), _AT_ONCE))
        answers = await _read_once(connection, chunk)
        # While others got theirs there may have been no room for a batch: it comes with the next answer.
        is_room_left = not any(batch for _, batch in answers.values())
        for key in chunk:
            error_code, batch = answers.get(key, (codes.UNKNOWN_TOPIC_OR_PARTITION, None))
            if batch is None and error_code == codes.NONE and not is_room_left:
                continue
            if error_code in (codes.NONE, codes.OFFSET_OUT_OF_RANGE):
                found[key] = batch
            del waiting[key]
    return found


async def _read_once(
    connection: Connection, wants: Mapping[PartitionKey, Want]
) -> dict[PartitionKey, tuple[int, Batch | None]]:
    """One fetch outside any session: error code and first batch by partition."""
    session = FetchSession(isolation=READ_UNCOMMITTED, incremental=False)
    for key, want in wants.items():
        session.want(key, want)
    request: Any = session.request(
        max_wait_ms=0,
        bytes_max=_RESPONSE_BYTES,
        partition_bytes_max=_PARTITION_BYTES,
        by_topic_id=all(want.topic_id.int for want in wants.values()),
    )
    answer = await connection.call(request, timeout_s=_TIMEOUT_S)
    if answer.error_code != codes.NONE:
        raise ClusterError(f"{connection.where} refused a fetch: {codes.name_of(answer.error_code)}")
    try:
        return {p.key: (p.error_code, next(scan(p.records), None)) for p in session.partitions(answer)}
    except ValueError as error:
        raise ClusterError(f"{connection.where} has an unreadable batch: {error}") from error
