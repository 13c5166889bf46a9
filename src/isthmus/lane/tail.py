"""The ends of both logs, read for many lanes at once and held against each other (`judgement` has the rules)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized, Unreachable
from isthmus.lane.judgement import Judgement, Sight, Weight, compare, unanswered, undecodable, weigh
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun, TailCheck
from isthmus.lane.source import Bounds
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneKey, LaneState
from isthmus.model.rights import on_topic
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


class Read(NamedTuple):
    """The first batch at or behind an offset, None where the log has none; `log_start` is -1 where it is not told."""

    batch: Batch | None
    log_start: int


Found = Read | ClusterError


class Look(NamedTuple):
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
        judged = await self.judge([Look(run.lane, sight_of(run, cluster), run.tail_check) for run in doubted])
        unsure: set[LaneRun] = set()
        for run in doubted:
            sight, judgement = judged[run.lane.key]
            run.target_start = sight.target_start
            run.ending.update(judgement.ending)
            if judgement.has_fillers:
                run.prefix_end = run.source_start
                run.prefix_undeleted = True
            if judgement.state is not None and judgement.problem is not None:
                run.fail(judgement.state, judgement.problem.message, judgement.problem.hint)
                unsure.add(run)
        believed = [run for run in runs if run not in unsure]
        for run in believed:
            run.tail_check = TailCheck.DONE
        return believed

    async def judge(self, looks: Iterable[Look]) -> dict[LaneKey, Judged]:
        """Read the last batches at the target, and at the source those that have to be compared."""
        waiting = {look.lane.key: look for look in looks}
        judged: dict[LaneKey, Judged] = {}
        tails = await _batches(self._target, {(k.topic, k.partition): _at_target(look) for k, look in waiting.items()})
        doubted: dict[LaneKey, tuple[Look, Batch]] = {}
        for key, look in waiting.items():
            outcome = self._weighed(look, tails[key])
            if isinstance(outcome, Judged):
                judged[key] = outcome
            else:
                doubted[key] = outcome
        wants = {(look.lane.source_topic, key.partition): _at_source(look) for key, (look, _) in doubted.items()}
        sources = await _batches(self._source, wants)
        for key, (look, batch) in doubted.items():
            found = sources[look.lane.source_topic, key.partition]
            if isinstance(found, ClusterError):
                judgement = _unread(look.lane.source_topic, found, LaneState.SOURCE_UNAVAILABLE)
            else:
                judgement = compare(look.sight, self._ours, batch, found.batch)
            judged[key] = Judged(look.sight, judgement)
        return judged

    def _weighed(self, look: Look, found: Found) -> Judged | tuple[Look, Batch]:
        """What the end of the target's log tells by itself, or the batch that has to be compared."""
        sight = look.sight
        if isinstance(found, BrokerRefused) and found.code == codes.OFFSET_OUT_OF_RANGE:
            # All that was there is deleted. (At the source that may only just have happened: it is looked at again.)
            return Judged(replace(sight, target_start=sight.position), Judgement())
        if isinstance(found, ClusterError):
            return Judged(sight, _unread(look.lane.target_topic, found, LaneState.TARGET_UNAVAILABLE))
        sight = replace(sight, target_start=max(found.log_start, 0))
        try:
            weight = weigh(sight, look.check, self._ours, found.batch)
        except ValueError as error:
            return Judged(sight, undecodable(error))
        if weight is Weight.DOUBTED and found.batch is not None:
            return look._replace(sight=sight), found.batch
        return Judged(sight, Judgement(has_fillers=weight is Weight.FILLERS))


def sight_of(run: LaneRun, target: Cluster) -> Sight:
    """What an engine sees of a lane."""
    return Sight(
        key=run.lane.key,
        target=target,
        position=run.writer.position,
        source=Bounds(run.source_start, run.source_end),
        target_start=run.target_start,
        is_compacted=run.lane.is_compacted,
    )


def _at_target(look: Look) -> Want:
    return Want(look.lane.target_topic_id, look.sight.position - 1, -1, -1)


def _at_source(look: Look) -> Want:
    return Want(look.lane.source_topic_id, look.sight.position - 1, -1, -1)


def _unread(topic: str, error: ClusterError, state: LaneState) -> Judgement:
    if isinstance(error, NotAuthorized):
        error = NotAuthorized(error.message, cluster=error.cluster, hint=f"Grant READ on topic {topic}.")
    return unanswered(error, state)


async def _batches(routes: Routes, wants: Mapping[PartitionKey, Want]) -> dict[PartitionKey, Found]:
    answers = await routes.ask(
        wants, lambda connection, epochs: batches_at(connection, {key: wants[key] for key in epochs})
    )
    return {key: answers.get(key, _NO_ANSWER) for key in wants}


async def batches_at(connection: Connection, wants: Mapping[PartitionKey, Want]) -> dict[PartitionKey, Found]:
    """The first batch at or behind each wanted offset, or what the broker says instead.

    :raises ClusterError: The broker did not answer, or not with record batches.
    """
    found: dict[PartitionKey, Found] = {}
    waiting = dict(wants)
    while waiting:
        chunk = dict(islice(waiting.items(), _AT_ONCE))
        answers = await _read_once(connection, chunk)
        # While others got theirs there may have been no room for a batch: it comes with the next answer.
        is_room_left = not any(read.batch for _, read in answers.values())
        for key in chunk:
            error_code, read = answers.get(key, (codes.UNKNOWN_TOPIC_OR_PARTITION, Read(None, -1)))
            if read.batch is None and error_code == codes.NONE and not is_room_left:
                continue
            if error_code == codes.NONE:
                found[key] = read
            else:
                what = f"reading {key[0]}-{key[1]} at offset {wants[key].offset}"
                found[key] = codes.error_for(error_code, what, on_topic("READ", key[0]), cluster=connection.cluster)
            del waiting[key]
    return found


async def _read_once(
    connection: Connection, wants: Mapping[PartitionKey, Want]
) -> dict[PartitionKey, tuple[int, Read]]:
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
        return {p.key: (p.error_code, Read(_first(p.records), p.log_start)) for p in session.partitions(answer)}
    except ValueError as error:
        raise ClusterError(f"{connection.where} has an unreadable batch: {error}") from error


def _first(records: bytes) -> Batch | None:
    """The first batch, without what came behind it: that may be a thousand times as much."""
    batch = next(scan(records), None)
    return None if batch is None else batch._replace(view=memoryview(bytes(batch.view)))
