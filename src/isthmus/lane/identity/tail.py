"""The ends of both logs, read for many lanes at once and held against each other (`judgement` has the rules)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.lane.identity.judgement import (
    UNTOLD,
    Judgement,
    NoBatch,
    Sight,
    Weight,
    compare,
    unanswered,
    undecodable,
    weigh,
)
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun, Prefix, TailCheck
from isthmus.lane.source import Bounds
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneKey, LaneState
from isthmus.model.rights import on_topic
from isthmus.wire import codes
from isthmus.wire.batch import Batch, scan
from isthmus.wire.connection import Connection
from isthmus.wire.fetch import Fetched, FetchSession, Want
from isthmus.wire.offsets import EARLIEST, READ_COMMITTED, READ_UNCOMMITTED, PartitionKey, list_offsets

_TIMEOUT_S: Final = 3.0
_AT_ONCE: Final = 64
_RESPONSE_BYTES: Final = 32 << 20
_PARTITION_BYTES: Final = 2 << 20


class Read(NamedTuple):
    """The first batch at or behind an offset, or why there is none; `log_start` is -1 where it is not told.

    `is_aborted` says that it belongs to an aborted transaction; only what is read at read_committed tells.
    """

    batch: Batch | NoBatch
    log_start: int
    is_aborted: bool = False


Found = Read | ClusterError


class TailLook(NamedTuple):
    """A lane whose end is in doubt: what is seen of it, and what it takes to believe its end."""

    lane: Lane
    sight: Sight
    check: TailCheck


class Judged(NamedTuple):
    """What a look brought: the sight with what was learnt of the target's log, and the judgement."""

    sight: Sight
    judgement: Judgement


class Tails:
    """Looks at the last batches of many lanes at once. Without a `producer` nothing is known to be ours."""

    def __init__(self, source: Routes, target: Routes, producer: ProducerIdentity | None) -> None:
        self._source = source
        self._target = target
        self._ours = () if producer is None else (producer.producer_id, producer.marker_producer_id)

    async def check(self, runs: Sequence[LaneRun]) -> list[LaneRun]:
        """The lanes whose target is not in doubt. Of the others the state tells whether that is for good or for now."""
        doubted = [run for run in runs if run.tail_check is not TailCheck.DONE and run.writer.position > 0]
        cluster = self._target.client.cluster
        leaders = {run: self._source.leader(*run.source) for run in runs}
        judged = await self.judge([TailLook(run.lane, sight_of(run, cluster), run.tail_check) for run in doubted])
        unsure: set[LaneRun] = set()
        for run in doubted:
            sight, judgement = judged[run.lane.key]
            run.target_start = sight.target_start
            run.ending.update(judgement.ending)
            run.tail_epoch = judgement.source_epoch
            if judgement.has_fillers:
                run.prefix = Prefix(run.source_start, is_stored=True)
            if judgement.state is not None and judgement.problem is not None:
                run.fail(judgement.state, judgement.problem.message, judgement.problem.hint)
                unsure.add(run)
        believed = [run for run in runs if run not in unsure]
        for run in believed:
            leader = leaders[run]
            # What ends before the target does has not shown yet what it will have there.
            if run.writer.position <= run.source_end and leader is not None:
                run.believe_tail(leader.epoch)
        return believed

    async def judge(self, looks: Iterable[TailLook]) -> dict[LaneKey, Judged]:
        """Read the last batches at the target, and at the source those that have to be compared."""
        waiting = {look.lane.key: look for look in looks}
        judged: dict[LaneKey, Judged] = {}
        tails = await _batches(self._target, {(k.topic, k.partition): _at_target(look) for k, look in waiting.items()})
        doubted: dict[LaneKey, tuple[TailLook, Batch]] = {}
        for key, look in waiting.items():
            outcome = self._weighed(look, tails[key])
            if isinstance(outcome, Judged):
                judged[key] = outcome
            else:
                doubted[key] = outcome
        wants: dict[PartitionKey, Want] = {
            (look.lane.source_topic, key.partition): _at_source(look) for key, (look, _) in doubted.items()
        }
        # All of them are stable: what ends behind its source is not compared.
        sources = await _batches(self._source, wants, READ_COMMITTED)
        for key, (look, batch) in doubted.items():
            judged[key] = self._compared(look, batch, sources[look.lane.source_topic, key.partition])
        return judged

    def _weighed(self, look: TailLook, found: Found) -> Judged | tuple[TailLook, Batch]:
        """What the end of the target's log tells by itself, or the batch that has to be compared."""
        sight = look.sight
        if isinstance(found, ClusterError):
            return Judged(sight, _unread(look.lane.target_topic, found, LaneState.TARGET_UNAVAILABLE))
        sight = replace(sight, target_start=max(found.log_start, 0))
        try:
            weight = weigh(sight, look.check, self._ours, found.batch)
        except ValueError as error:
            return Judged(sight, undecodable(error))
        if weight is Weight.DOUBTED and not isinstance(found.batch, NoBatch):
            return look._replace(sight=sight), found.batch
        return Judged(sight, Judgement(has_fillers=weight is Weight.FILLERS))

    def _compared(self, look: TailLook, batch: Batch, found: Found) -> Judged:
        """What the end of the target's log amounts to, held against what the source says."""
        if isinstance(found, ClusterError):
            return Judged(look.sight, _unread(look.lane.source_topic, found, LaneState.SOURCE_UNAVAILABLE))
        return Judged(look.sight, compare(look.sight, self._ours, batch, found.batch, is_aborted=found.is_aborted))


def sight_of(run: LaneRun, target: Cluster) -> Sight:
    """What an engine sees of a lane."""
    return Sight(
        key=run.lane.key,
        target=target,
        position=run.writer.position,
        source=Bounds(run.source_start, run.source_end),
        target_start=run.target_start,
        is_compacted=run.lane.is_compacted,
        is_known=run.is_known,
    )


def _at_target(look: TailLook) -> Want:
    return Want(look.lane.target_topic_id, look.sight.position - 1, -1, -1)


def _at_source(look: TailLook) -> Want:
    return Want(look.lane.source_topic_id, look.sight.position - 1, -1, -1)


def _unread(topic: str, error: ClusterError, state: LaneState) -> Judgement:
    if isinstance(error, NotAuthorized):
        error = NotAuthorized(error.message, cluster=error.cluster, hint=f"Grant READ on topic {topic}.")
    return unanswered(error, state)


async def _batches(
    routes: Routes, wants: Mapping[PartitionKey, Want], isolation: int = READ_UNCOMMITTED
) -> dict[PartitionKey, Found]:
    answers = await routes.ask(
        wants,
        lambda connection, epochs: batches_at(
            connection, {key: wants[key]._replace(leader_epoch=epoch) for key, epoch in epochs.items()}, isolation
        ),
    )
    return {key: answers.get(key, UNTOLD) for key in wants}


async def batches_at(
    connection: Connection, wants: Mapping[PartitionKey, Want], isolation: int = READ_UNCOMMITTED
) -> dict[PartitionKey, Found]:
    """The first batch at or behind each wanted offset, or why there is none; an error where the broker cannot tell.

    :raises ClusterError: The broker did not answer, or not with record batches.
    """
    found: dict[PartitionKey, Found] = {}
    waiting, outside = dict(wants), dict[PartitionKey, int]()
    while waiting:
        chunk = dict(islice(waiting.items(), _AT_ONCE))
        answers = {fetched.key: fetched for fetched in await _read_once(connection, chunk, isolation)}
        try:
            told = {key: found_in(fetched) for key, fetched in answers.items()}
        except ValueError as error:
            raise ClusterError(f"{connection.where} has an unreadable batch: {error}") from error
        # While others got theirs there may have been no room for a batch: it comes with the next answer.
        is_room_left = not any(isinstance(each, Batch) for each in told.values())
        for key in chunk:
            error_code = answers[key].error_code if key in answers else codes.UNKNOWN_TOPIC_OR_PARTITION
            each = told.get(key)
            if not isinstance(each, Batch) and error_code == codes.NONE and not is_room_left:
                continue
            del waiting[key]
            if error_code != codes.NONE:
                what = f"reading {key[0]}-{key[1]} at offset {wants[key].offset}"
                found[key] = codes.error_for(error_code, what, on_topic("READ", key[0]), cluster=connection.cluster)
                if error_code == codes.OFFSET_OUT_OF_RANGE:
                    outside[key] = wants[key].leader_epoch
            else:
                found[key] = UNTOLD if each is None else _read(each, answers[key])
    starts = await list_offsets(connection, outside, EARLIEST, timeout_s=_TIMEOUT_S) if outside else {}
    for key, start in starts.items():
        # A log that ends before it is no proof of anything: its leader may only lag behind.
        if start.error_code == codes.NONE and start.offset > wants[key].offset:
            found[key] = Read(NoBatch.DELETED, start.offset)
    return found


def found_in(fetched: Fetched) -> Batch | NoBatch | None:
    """What an answer shows at or behind the offset asked for; None if it does not tell.

    :raises ValueError: It holds something else than record batches.
    """
    if not fetched.records and fetched.error_code == codes.NONE:
        # Only at read_committed the stable end is told, and nothing is read beyond it.
        end = fetched.high_watermark if fetched.stable_end < 0 else fetched.stable_end
        is_within = fetched.log_start <= fetched.offset < end
        return NoBatch.HOLE if is_within else None
    return _first(fetched.records)


def _read(batch: Batch | NoBatch, fetched: Fetched) -> Read:
    is_aborted = (
        isinstance(batch, Batch)
        and batch.is_transactional
        and any(producer == batch.producer_id and first < batch.offset_end for producer, first in fetched.aborted)
    )
    return Read(batch, fetched.log_start, is_aborted)


async def _read_once(connection: Connection, wants: Mapping[PartitionKey, Want], isolation: int) -> list[Fetched]:
    """One fetch outside any session."""
    session = FetchSession(isolation=isolation, incremental=False)
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
    return list(session.partitions(answer))


def _first(records: bytes) -> Batch | None:
    """The first batch, without what came behind it: that may be a thousand times as much."""
    batch = next(scan(records), None)
    return None if batch is None else batch._replace(view=memoryview(bytes(batch.view)))
