"""One task of a sink: its rows and its position, prepared in one transaction that is ended for all tasks together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from isthmus.deadline import Deadline
from isthmus.engine.batches.rebatch import split
from isthmus.errors import BrokerRefused, ClusterError, EpochRefused, IsthmusError, Unreachable, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import Batch, scan
from isthmus.kafka.batches.records import encode_records
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.producing import TransactionalProducer
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.cluster import Cluster
from isthmus.model.text.wording import first_few
from isthmus.spark.dataframes.sinklog import POSITIONS_TOPIC, PositionLogs
from isthmus.spark.dataframes.sinkpositions import (
    SEAL,
    EpochIdentity,
    NamePositions,
    SinkPosition,
    StoredPosition,
    TaskVerdict,
    build_in_part,
    check_commit,
    check_epoch,
    check_producers,
    check_rows,
    check_seal,
    decide,
    find_lost,
    is_repeated,
    position_key,
    seal_of,
)
from isthmus.spark.dataframes.sinkrows import RowEncoder

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
_PREFIX: Final = "isthmus-sink-"
_PATIENCE_S: Final = 60.0
_ABORT_S: Final = 5.0
_TURNS: Final = 3
_LINGERS_S: Final = 3.0
"""Spark lets a killed task go on for two seconds (spark.python.task.killTimeout)."""
_LOOK_S: Final = 0.3
_MARKER_S: Final = 0.02
_NAMED_MAX: Final = 3
TAKEN_OVER: Final = codes.PRODUCER_MOVED | {codes.INVALID_TXN_STATE, codes.TRANSACTION_COORDINATOR_FENCED}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """How a task writes: to `topic` or to those that the rows name, compressed by `codec`. `timeout_ms` is for how long
    its transaction may be open; with `commits` it ends it by itself.
    """

    topic: str
    codec: int
    timeout_ms: int
    commits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """What a task has done. Without a `producer_id` it has no transaction that is to be committed: there were no rows,
    they were at the target already (`is_skipped`), or the task has committed by itself.
    """

    identity: EpochIdentity
    position: SinkPosition
    is_skipped: bool = False
    producer_id: int = -1
    producer_epoch: int = -1

    @property
    def is_prepared(self) -> bool:
        return self.producer_id >= 0


@dataclass(slots=True)
class SinkWorker:
    """What a worker process keeps from one task to the next: an event loop, and clients with what they follow."""

    pid: int = field(default_factory=os.getpid)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    session: ClientSession = field(default_factory=ClientSession)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self.loop.run_until_complete(work)


_WORKERS: Final[dict[int, SinkWorker]] = {}


def current_worker() -> SinkWorker:
    """Return what this process keeps; a process that was forked begins without anything."""
    pid = os.getpid()
    if pid not in _WORKERS:
        _WORKERS.clear()
        _WORKERS[pid] = SinkWorker()
    return _WORKERS[pid]


def write_task(
    cluster: Cluster,
    identity: EpochIdentity,
    settings: TaskSettings,
    place: tuple[int, int],
    rows: Iterable[pa.RecordBatch],
) -> TaskOutcome:
    """Write the rows of a task; `place` is its number and that of its attempt.

    :raises RowRefused: A row cannot be written.
    :raises EpochRefused: The epoch may not be written.
    :raises ClusterError: The cluster refused, or did not answer in time. Nothing of these rows becomes visible.
    """
    worker = current_worker()
    task = EpochTask(worker.session.client(cluster), identity, settings, place)
    try:
        worker.run(task.begin())
        for each in rows:
            worker.run(task.take(each))
        return worker.run(task.finish())
    except BaseException as error:
        with contextlib.suppress(Exception):
            worker.run(task.abort())
        if isinstance(error, BrokerRefused) and error.code in TAKEN_OVER:
            raise _taken_over(identity, place[0], settings, error) from error
        raise


def _taken_over(identity: EpochIdentity, task: int, settings: TaskSettings, error: BrokerRefused) -> EpochRefused:
    return EpochRefused(
        f"task {task} of epoch {identity.epoch} of sink {identity.name!r} lost its transaction ({error.name}): another "
        f"attempt has taken its place, or it was open for longer than {settings.timeout_ms // 1000} s (or what the "
        "brokers allow)",
        hint="If the query runs once only: raise transaction.max.timeout.ms of the brokers and the option "
        "transactionTimeout, or write less at once.",
    )


class EpochTask:
    """The rows of one task of an epoch, in one transaction."""

    def __init__(self, client: Client, identity: EpochIdentity, settings: TaskSettings, place: tuple[int, int]) -> None:
        self._task, attempt = place
        self._client = client
        self._identity = identity
        self._settings = settings
        self._log = client.companion(PositionLogs).of(identity.name)
        self._transaction = Transaction(
            client,
            f"{_PREFIX}{identity.name}-{self._task}-{attempt}",
            timeout_ms=settings.timeout_ms,
            patience_s=_PATIENCE_S,
            outlasts=True,
        )
        self._producer = TransactionalProducer(client, self._transaction, split)
        self._encoder = RowEncoder(settings.topic, settings.codec, self._producer.count_partitions)
        self._verdict = TaskVerdict.WRITE
        self._found = NamePositions()
        self._is_begun = False

    async def begin(self) -> None:
        """Find out whether the rows are to be written. Nothing is written, and nobody is fenced.

        :raises EpochRefused: The epoch may not be written.
        :raises ClusterError: The positions cannot be read.
        """
        for _ in range(_TURNS):
            # What came while no task ran is seen: above all that a connection was closed.
            await asyncio.sleep(0)
        await self._decide()

    async def _decide(self) -> None:
        self._found = await self._log.read(self._identity.name)
        self._verdict = decide(self._identity, self._task, self._found)

    async def take(self, rows: pa.RecordBatch) -> None:
        """Write more rows, or compare them with the position.

        :raises RowRefused: A row cannot be written.
        :raises ClusterError: They were refused, or there was no answer in time.
        """
        if not rows.num_rows:
            return
        await self._begin_writing()
        if self._verdict is TaskVerdict.SKIP:
            self._encoder.compare(rows)
            return
        for key, batch in await self._encoder.encode(rows):
            await self._producer.offer(key, batch)

    async def _begin_writing(self) -> None:
        """Begin the transaction, unless it was begun. An earlier attempt with the same transactional id is fenced, and
        its transaction is decided: whether it counts is seen once more.
        """
        if self._verdict is TaskVerdict.SKIP or self._is_begun:
            return
        await self._transaction.initialize()
        await self._decide()
        if self._verdict is TaskVerdict.WRITE:
            self._is_begun = True
            await self._producer.offer(self._log.key, self._encode(self._position()))
            # Another run finds open transactions by their positions: no row is in one that has none yet.
            await self._producer.flush()

    def _position(self, *, is_complete: bool = False) -> SinkPosition:
        return SinkPosition(
            task=self._task,
            owner=self._identity.owner,
            epoch=self._identity.epoch,
            job=self._identity.job,
            transactional_id=self._transaction.transactional_id,
            rows=self._encoder.digest.rows,
            digest=str(self._encoder.digest),
            is_complete=is_complete,
        )

    def _encode(self, position: SinkPosition) -> Batch:
        record = int(time.time() * 1000), position_key(self._identity.name, self._task), position.encode(), ()
        return next(scan(encode_records([record])))

    async def finish(self) -> TaskOutcome:
        """Make everything durable, with the position behind it.

        :raises EpochRefused: The rows are others than those at the target.
        :raises ClusterError: They were refused, or there was no answer in time.
        """
        position = self._position(is_complete=True)
        if self._verdict is TaskVerdict.SKIP:
            self._compare(position)
            return TaskOutcome(identity=self._identity, position=position, is_skipped=True)
        if not self._is_begun:
            return TaskOutcome(identity=self._identity, position=position)
        for key, batch in self._encoder.finish():
            await self._producer.offer(key, batch)
        await self._producer.flush()
        await self._producer.offer(self._log.key, self._encode(position))
        await self._producer.flush()
        prepared = TaskOutcome(
            identity=self._identity,
            position=position,
            producer_id=self._transaction.producer_id,
            producer_epoch=self._transaction.epoch,
        )
        return await self._commit(prepared) if self._settings.commits else prepared

    def _compare(self, position: SinkPosition) -> None:
        """See that the rows are those at the target. Of a whole epoch the driver sees it, whatever task they are in.

        :raises EpochRefused: They are others.
        """
        owner, epoch = self._identity.owner, self._identity.epoch
        if self._found.seal(owner, epoch) is None:
            check_rows(self._identity, self._found.committed(owner, epoch)[self._task], position)

    async def _commit(self, prepared: TaskOutcome) -> TaskOutcome:
        """Commit this task alone; an attempt of the same task with the same rows may have been faster. If the epoch is
        repeated, it is left to the driver.
        """
        try:
            if await commit_tasks(self._client, self._identity, [prepared], task=self._task) is None:
                return prepared
        except (EpochRefused, BrokerRefused):
            await self._decide()
            if self._verdict is not TaskVerdict.SKIP:
                raise
            self._compare(prepared.position)
            await self.abort()
            return TaskOutcome(identity=self._identity, position=prepared.position, is_skipped=True)
        return replace(prepared, producer_id=-1, producer_epoch=-1)

    async def abort(self) -> None:
        """End the transaction without its rows. Its producer is fenced, so nothing on its way is appended later."""
        if self._transaction.producer_id >= 0:
            await fence(
                self._client,
                self._transaction.transactional_id,
                self._transaction.producer_id,
                self._transaction.epoch,
                patience_s=_ABORT_S,
            )


async def fence(
    client: Client, transactional_id: str, producer_id: int, producer_epoch: int, *, patience_s: float = _PATIENCE_S
) -> None:
    """Abort the transaction of this producer, unless it has ended or the transactional id has another producer by now.

    :raises ClusterError: The coordinator does not answer or does not allow it.
    """
    transaction = Transaction(client, transactional_id, patience_s=patience_s, outlasts=True)
    transaction.adopt(producer_id, producer_epoch)
    # An open transaction is aborted whatever its epoch: that of an attempt that has taken our place must not be.
    if await _is_replaced(transaction):
        return
    try:
        await transaction.initialize(is_mine=True)
    except BrokerRefused as error:
        if error.code not in TAKEN_OVER:
            raise


async def _is_replaced(transaction: Transaction) -> bool:
    try:
        return await transaction.is_replaced()
    except UnsupportedByBroker:
        return False


async def commit_tasks(
    client: Client,
    identity: EpochIdentity,
    outcomes: Collection[TaskOutcome],
    *,
    task: int | None = None,
    in_parts: bool = False,
) -> NamePositions | None:
    """Commit the transactions that tasks of an epoch have prepared; those that are committed stay so. With `task` it is
    that task alone, and nothing is done if the epoch is repeated: then `None` is returned, and else the positions that
    there were before. If an epoch that is repeated may be committed `in_parts`, it does not matter that transactions of
    it were aborted: all tasks have compared their rows, so all others are committed before that is an error.

    :raises EpochRefused: They are not all of their epoch, or one of them was aborted. Before the first is committed,
        nothing was; after that the same rows complete the epoch.
    :raises ClusterError: A coordinator does not answer: whether its transactions count is not known. The same rows
        complete the epoch. Or a transaction of another attempt cannot be ended.
    """
    log, deadline = client.companion(PositionLogs).of(identity.name), Deadline(_PATIENCE_S)
    skipped = [each.position.task for each in outcomes if each.is_skipped]
    before: list[StoredPosition] = []
    while True:
        found = await log.read(identity.name)
        # Behind our own position, which is complete: of two runs at least one sees the other.
        if task is not None and is_repeated(identity, found, but=task):
            return None
        lost = find_lost(_producers_of(outcomes), found) if in_parts and skipped else []
        kept = [each for each in outcomes if each.position.task not in lost]
        written = [each.position for each in kept if each.position.rows and not each.is_skipped]
        others = check_commit(identity, written, skipped, found, task=task)
        if not others:
            break
        await asyncio.gather(
            *(fence(client, each.position.transactional_id, each.producer_id, each.producer_epoch) for each in others)
        )
        if others == before and deadline.has_passed:
            raise _left_open_error(client, others)
        before = others
        await asyncio.sleep(_MARKER_S)
    committed = found.committed(identity.owner, identity.epoch).values()
    done = {(each.job, each.transactional_id) for each in committed}
    check_producers(identity, _producers_of(kept), found)
    prepared = [each for each in kept if each.is_prepared]
    left = [each for each in prepared if (each.position.job, each.position.transactional_id) not in done]
    await _end_all(client, sorted(left, key=lambda each: each.position.task))
    if task is not None or not identity.consecutive:
        # Whoever reads behind a batch expects its rows.
        await asyncio.gather(*(_await_visible(client, each) for each in left))
    if lost:
        raise build_in_part(identity, lost)
    return found


def _producers_of(outcomes: Collection[TaskOutcome]) -> dict[int, tuple[int, int]]:
    """Return the producers of prepared tasks: id and epoch."""
    return {each.position.task: (each.producer_id, each.producer_epoch) for each in outcomes if each.is_prepared}


def _left_open_error(client: Client, others: Collection[StoredPosition]) -> Unreachable:
    alias, ids = client.cluster.alias, sorted({each.position.transactional_id for each in others})
    return Unreachable(
        f"the transactions of {first_few(ids, _NAMED_MAX)} are open in {POSITIONS_TOPIC} of {alias}, although their "
        "coordinators were asked to abort them",
        cluster=alias,
        hint=f"`isthmus doctor` finds transactions that hang in {POSITIONS_TOPIC}, and how to end them.",
    )


async def _end_all(client: Client, left: Sequence[TaskOutcome]) -> None:
    # The first task is in most runs: if another run has fenced ours, nothing of ours is committed.
    for several in (left[:1], left[1:]):
        for error in await asyncio.gather(*(_end(client, each) for each in several), return_exceptions=True):
            if error is not None:
                raise error


async def _end(client: Client, prepared: TaskOutcome) -> None:
    transaction = Transaction(client, prepared.position.transactional_id, patience_s=_PATIENCE_S, outlasts=True)
    transaction.adopt(prepared.producer_id, prepared.producer_epoch)
    try:
        await transaction.end(commit=True)
    except BrokerRefused as error:
        if error.code not in TAKEN_OVER:
            raise
        raise EpochRefused(
            f"task {prepared.position.task} of epoch {prepared.identity.epoch} of sink {prepared.identity.name!r} "
            f"could not be committed ({error.name}): another run has taken its place, or it was open for too long",
            hint=_completing_hint(prepared.identity),
        ) from error


async def _await_visible(client: Client, committed: TaskOutcome) -> None:
    """Wait until all partitions have the end of a committed transaction: before, readers do not see its rows.

    The rows count in any case, so that nothing is wrong if a partition has no leader for longer than we wait.
    """
    transaction = Transaction(client, committed.position.transactional_id, patience_s=_PATIENCE_S)
    transaction.adopt(committed.producer_id, committed.producer_epoch)
    with contextlib.suppress(ClusterError):
        await transaction.wait_for_end(commit=True)


def _completing_hint(identity: EpochIdentity) -> str:
    if identity.name == identity.job:
        return (
            "The batch has no name, so it cannot be completed: rows of other tasks may be visible, and writing it "
            "again doubles them. With the options name and epoch it could be repeated."
        )
    return "Start the query again: it completes the epoch. docs/spark.md has the limits of transactions."


async def _commit_and_seal(client: Client, outcomes: Collection[TaskOutcome], *, seals: bool, in_parts: bool) -> None:
    identity = next(iter(outcomes)).identity
    found = await commit_tasks(client, identity, outcomes, in_parts=in_parts)
    if not seals or found is None:
        # They do no harm; the rows are there.
        with contextlib.suppress(ClusterError):
            await _forget(client, outcomes)
        return
    wanted = seal_of(identity, [each.position for each in outcomes])
    stored = found.seal(identity.owner, identity.epoch)
    if stored is not None:
        check_seal(identity, stored, wanted)
        return
    log = client.companion(PositionLogs).of(identity.name)
    # The newest seal counts: a driver that stood still for long must not put an older one behind it.
    check_epoch(identity, await log.read(identity.name))
    await log.write({position_key(identity.name, SEAL): wanted.encode()})


def commit_epoch(cluster: Cluster, outcomes: Collection[TaskOutcome], *, forgets: bool, in_parts: bool = False) -> None:
    """Commit an epoch whose tasks are all done, and seal it. With `forgets` nobody will write it again: its positions
    are deleted. One that is repeated may be committed `in_parts`.

    :raises EpochRefused: As `commit_tasks`; or the epoch has other rows at the target.
    :raises ClusterError: As `commit_tasks`; or it cannot be sealed. The same rows complete the epoch.
    """
    worker = current_worker()
    if outcomes:
        worker.run(_commit_and_seal(worker.session.client(cluster), outcomes, seals=not forgets, in_parts=in_parts))


async def _forget(client: Client, outcomes: Collection[TaskOutcome]) -> None:
    names = {each.identity.name for each in outcomes if each.position.rows}
    for name in names:
        keys = [position_key(name, each.position.task) for each in outcomes if each.position.rows]
        await client.companion(PositionLogs).of(name).write(dict.fromkeys(keys), term_s=_ABORT_S)


def abort_epoch(
    cluster: Cluster, outcomes: Collection[TaskOutcome], *, names: Collection[tuple[str, str]], forgets: bool
) -> None:
    """Abort the tasks of an epoch that has failed, so that nobody waits for the end of their transactions: those that
    are `names` and jobs of, or of which an outcome tells. Whatever goes wrong, they end by themselves later.
    """
    worker = current_worker()
    client = worker.session.client(cluster)
    found = {(each.identity.name, each.identity.job) for each in outcomes} | set(names)
    with contextlib.suppress(IsthmusError):
        for name, job in found:
            worker.run(_abort_job(client, name, job))
        if forgets:
            worker.run(_forget(client, outcomes))


async def _abort_job(client: Client, name: str, job: str) -> None:
    """Fence all tasks of a job, as long as Spark may let killed ones live on."""
    log = client.companion(PositionLogs).of(name)
    deadline = Deadline(_LINGERS_S)
    while True:
        stored = (await log.read(name, term_s=_ABORT_S)).stored
        opened = {each.producer_id: each for each in stored if each.is_open and each.position.job == job}
        for each in opened.values():
            await fence(
                client,
                each.position.transactional_id,
                each.producer_id,
                each.producer_epoch,
                patience_s=_ABORT_S,
            )
        if deadline.passes_within(_LOOK_S):
            return
        await asyncio.sleep(_LOOK_S)
