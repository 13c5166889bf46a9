"""The lease task: runs in the Python worker of an executor, owns its lanes for a term, and returns a receipt."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext

from isthmus.engine.engine import Engine
from isthmus.engine.mapped.lettertopics import LetterTopics
from isthmus.engine.mapped.transformer import Transformer
from isthmus.errors import ClusterError, IsthmusError
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import (
    DepartureDocument,
    Document,
    MilestonesDocument,
    ProgressDocument,
    ReceiptDocument,
    SchemaIdsDocument,
    TaskDocument,
)
from isthmus.ledger.log import GATHER_S, RETRY_S, LedgerTail, LedgerWriter
from isthmus.ledger.records import Entry
from isthmus.local.host import executor_id, whereabouts
from isthmus.model.lane import Lane, LaneKey, LaneMark, LaneReport, Milestone
from isthmus.model.problem import Problem, problem_of
from isthmus.model.process.receipt import Ending, Receipt
from isthmus.registry.lookup import SchemaBook
from isthmus.spark.leases.allowance import SourceWord, follow, prove
from isthmus.spark.leases.lease import LeaseSpec, share_limits
from isthmus.spark.leases.maps import LedgerMaps
from isthmus.spark.leases.telling import Milestones, Telling
from isthmus.spark.leases.tenure import DRAIN_S, Tenure
from isthmus.spark.leases.workload import WatchedSelector, Workload
from isthmus.spark.memory import memory_bytes, tune_memory
from isthmus.spark.transforms.calls import Calls
from isthmus.spark.transforms.expressions import by_expressions
from isthmus.spark.transforms.python import build_functions

if TYPE_CHECKING:
    import pyarrow as pa

    from isthmus.spark.transforms.expressions import Compiled
    from isthmus.spark.transforms.pipe import SqlPipe

PROGRESS_S: Final = 1.0
_log = logging.getLogger(__name__)
_FULL_EVERY: Final = 8
"""One in so many reports has all lanes, moved or not, so that each healthy lane is reported within ten seconds."""
_TICK_S: Final = 0.2
_RELEASE_TERM_S: Final = 2.0
_UNHEARD: Final = frozenset({ProgressDocument.KIND, DepartureDocument.KIND})


def lease_task(specs: Sequence[LeaseSpec], rows: Iterable[object]) -> Iterator[Receipt]:
    """Run these leases concurrently, each for a link or a slot of its own: the function of the one task of a job.

    No error of Kafka makes it raise. The receipts are in the order of `specs`.
    """
    # Spark reuses a Python worker only if the task has read all of its input: 0.1 s between leases instead of 0.8.
    for _ in rows:
        pass
    yield from _run_leases(specs)


def changing_lease_task(
    specs: Sequence[LeaseSpec], name: str, compiled: Compiled, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run leases as `lease_task`, with records that Spark's SQL changes: `rows` are its results (`SqlPipe`).

    The receipts are rows of one binary column each.
    """
    import pyarrow as pa

    from isthmus.spark.transforms.pipe import SqlPipe

    with SqlPipe(name, compiled, rows) as pipe:
        receipts = list(_run_leases(specs, pipe))
    yield pa.record_batch([pa.array(map(pickle.dumps, receipts), pa.binary())], names=["receipt"])


def _run_leases(specs: Sequence[LeaseSpec], pipe: SqlPipe | None = None) -> Iterator[Receipt]:
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        # Only the driver decides when a lease is started again; a retry of Spark would be a second writer.
        for spec in specs:
            yield Receipt(slot=spec.slot, generation=spec.generation, ending=Ending.RETRIED)
    else:
        tune_memory()
        watched = WatchedSelector()
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(watched)) as runner:
            yield from runner.run(_run_all(specs, watched, pipe))


async def _run_all(specs: Sequence[LeaseSpec], watched: WatchedSelector, pipe: SqlPipe | None = None) -> list[Receipt]:
    """Run leases and return their receipts, also of those that fail by a bug: Spark would report its own exception."""
    ended = await asyncio.gather(*(_run_one(spec, watched, pipe) for spec in specs), return_exceptions=True)
    return [
        _build_failed_receipt(spec, outcome) if isinstance(outcome, BaseException) else outcome
        for spec, outcome in zip(specs, ended, strict=True)
    ]


async def _run_one(spec: LeaseSpec, watched: WatchedSelector, pipe: SqlPipe | None) -> Receipt:
    """Run one lease and return its receipt. If it failed beside other leases the receipt is written to the ledger at
    once, as the task goes on as long as they do. It is not if the lanes may still write: the driver has to revoke the
    lease, and to wait.
    """
    lease = LeaseTask(spec, watched, pipe)
    try:
        return await lease.run()
    except Exception as failure:  # noqa: BLE001 - whatever it is, others go on
        receipt = _build_failed_receipt(spec, failure)
    if spec.company > 1 and not lease.may_write:
        async with ClientSession() as session:
            writer = LedgerWriter(session.client(spec.context.target))
            await _tell(writer, spec, receipt)
            writer.close()
    return receipt


async def _tell(writer: LedgerWriter, spec: LeaseSpec, receipt: Receipt) -> None:
    """Write the receipt of a lease to the ledger: its task goes on with other leases, and Spark waits for all."""
    document = ReceiptDocument(link=spec.context.link, controller=spec.controller, receipt=receipt)
    with contextlib.suppress(ClusterError):
        await writer.append([document], term_s=_RELEASE_TERM_S)


def _build_failed_receipt(spec: LeaseSpec, failure: BaseException) -> Receipt:
    """Build the receipt of a lease that failed by a bug: the state it left is unknown."""
    _log.error("a lease of link %s failed", spec.context.link, exc_info=failure)
    return Receipt(
        slot=spec.slot,
        generation=spec.generation,
        ending=Ending.FAILED,
        has_written=True,
        is_clean=False,
        problem=_bug_problem(failure),
    )


def _bug_problem(failure: BaseException) -> Problem:
    return Problem(f"{type(failure).__name__}: {failure}", "This is a bug in Isthmus: please report it.")


class LeaseTask:
    """One lease while it runs. It `may_write` from the start of its engine until that has stopped."""

    may_write = False

    def __init__(self, spec: LeaseSpec, watched: WatchedSelector, pipe: SqlPipe | None = None) -> None:
        self._spec = spec
        self._pipe = pipe
        registry = spec.context.source.schema_registry
        self._book = SchemaBook(registry) if registry is not None and spec.context.columns else None
        self._watched, self._workload = watched, Workload()
        self._tenure = Tenure(spec, lasting_s())
        self._telling = Telling()
        self._milestones = Milestones()
        self._process, self._executor = whereabouts(), executor_id()
        self._has_written = False
        self._has_ended = asyncio.Event()
        self._must_announce = asyncio.Event()
        self._must_announce.set()
        self._has_lost = asyncio.Event()
        self._heard_of = self._let_go_of = -1
        self._failure: BaseException | None = None
        self._ledger_error: ClusterError | None = None

    async def run(self) -> Receipt:
        """Run the lease to its end."""
        begun, cpu_begun = time.monotonic(), time.process_time()
        context = self._spec.context
        async with ClientSession() as session:
            source, target = session.client(context.source), session.client(context.target)
            self._maps = LedgerMaps(target, self._spec)
            self._engine = Engine(
                source=source,
                target=target,
                producer=context.producer,
                link=context.link,
                limits=context.limits,
                writable=False,
                expiration_ms=context.expiration_ms,
                maps=self._maps,
                schemas=self._spec.schemas,
                transformers=self._build_transformers(),
                letters=LetterTopics(context.source.alias, target, context.link, lambda: self._engine.may_write()),
            )
            self._source_word = SourceWord(
                context.link, self._spec.slot, context.target.alias, self._engine.readers.allow
            )
            mark = context.source_mark
            self._source_tail = LedgerTail(source, position=mark.position, topic_id=mark.topic_id)
            self._lanes = dict(self._tenure.lanes)
            self._engine.write_until(self._write_until)
            self._tail = LedgerTail(target, position=self._spec.ledger_position, topic_id=self._spec.ledger_topic_id)
            # Progress may take long to write, and must not delay the release.
            self._writer, self._progress_writer = LedgerWriter(target), LedgerWriter(target)
            self._source_writer = LedgerWriter(source)
            self.may_write = True
            try:
                await self._engine.start(self._lanes.values())
                await self._run_until_ended()
            finally:
                last = await self._engine.stop(DRAIN_S)
                self.may_write = False
            reports = self._telling.last(last, self._lanes)
            is_released = self._has_written and await self._release(reports)
            receipt = self._receipt(
                reports,
                is_released=is_released,
                duration_s=time.monotonic() - begun,
                cpu_s=time.process_time() - cpu_begun,
            )
            if self._spec.company > 1:
                await _tell(self._writer, self._spec, receipt)
            tails, writers = (self._tail, self._source_tail), (self._writer, self._progress_writer, self._source_writer)
            for end in (*tails, *writers, self._maps):
                end.close()
            if self._book is not None:
                await self._book.aclose()
        return receipt

    def _build_transformers(self) -> Mapping[str, Transformer]:
        context = self._spec.context
        functions = build_functions(context.transforms, Calls())
        if self._pipe is None:
            return functions
        prepared = by_expressions(context.transforms, context.columns)
        return {**functions, **self._pipe.build_transformers(prepared, self._book)}

    def _receipt(self, reports: Iterable[LaneReport], *, is_released: bool, duration_s: float, cpu_s: float) -> Receipt:
        return Receipt(
            slot=self._spec.slot,
            generation=self._spec.generation,
            ending=self._ending(),
            has_written=self._has_written,
            is_clean=self._engine.lanes.is_clean,
            is_released=is_released,
            reports=tuple(reports) if self._has_written else (),
            latency=tuple(self._engine.latency),
            cpu_s=cpu_s / self._spec.company,
            memory_bytes=memory_bytes(),
            duration_s=duration_s,
            throttled_source_s=self._engine.throttled_source_s,
            throttled_target_s=self._engine.throttled_target_s,
            problem=self._problem(),
        )

    async def _run_until_ended(self) -> None:
        tasks = [asyncio.create_task(self._run_guarded(work)) for work in self._work()]
        await self._has_ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _work(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield self._follow()
        yield self._with_allowance(lambda: follow(self._source_tail, self._source_word, self._step))
        yield self._with_allowance(lambda: prove(self._source_writer, self._source_word, self._step))
        yield self._announce()
        yield self._let_go()
        yield self._tick()
        yield self._report()
        yield self._map()

    async def _run_guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work of the lease. An exception in it is a bug: it ends the lease, and the receipt reports it."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, the lease has to end in good order
            self._failure = error
            self._has_ended.set()

    def _ending(self) -> Ending:
        if self._failure or self._engine.failure:
            return Ending.FAILED
        return self._tenure.ending(lasting_s()) or Ending.FAILED

    def _problem(self) -> Problem | None:
        failure = self._failure or self._engine.failure
        if isinstance(failure, IsthmusError):
            return problem_of(failure)
        if failure is not None:
            return _bug_problem(failure)
        if self._ledger_error is not None and not self._has_written:
            return Problem(f"an executor cannot use the ledger: {self._ledger_error}", self._ledger_error.hint)
        return None

    # The ledger

    async def _follow(self) -> None:
        while True:
            try:
                poll = await self._tail.poll()
            except ClusterError:
                # The ledger may be moving to another broker or being created again; the tenure limits how long.
                self._tenure.note_unreadable(lasting_s())
                await asyncio.sleep(RETRY_S)
                continue
            if poll.is_other_log:
                self._tenure.note_loss()
                self._maps.note_loss()
                self._must_announce.set()
            for entry in filter(self._is_ours, poll.entries):
                self._hear(entry)
            self._tenure.note_look(poll.asked_at, self._tail.position, at_end=poll.at_end)
            self._step()
            if poll.entries and poll.at_end and not any(map(self._is_ours, poll.entries)):
                await asyncio.sleep(GATHER_S)

    def _is_ours(self, entry: Entry) -> bool:
        return entry.link == self._spec.context.link

    async def _with_allowance(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run work once a lane needs the allowance of the source's ledger."""
        while not self._needs_allowance:
            await asyncio.sleep(_TICK_S)
        await work()

    @property
    def _needs_allowance(self) -> bool:
        return any(lane.has_allowance for lane in self._lanes.values())

    @property
    def _write_until(self) -> float:
        tenure = self._tenure.write_until
        return min(tenure, self._source_word.write_until) if self._needs_allowance else tenure

    def _hear(self, entry: Entry) -> None:
        # Most entries are progress of other leases, and departures, which are not needed here.
        if entry.kind not in _UNHEARD:
            document = entry.decode()
            if isinstance(document, SchemaIdsDocument):
                self._engine.learn(document.ids)
            elif document is not None:
                self._tenure.hear(document, lasting_s())

    async def _announce(self) -> None:
        """Write to the ledger that the task has started, and again when the ledger was lost."""
        while True:
            await self._must_announce.wait()
            self._must_announce.clear()
            ended_through = min(self._tenure.ended_through, self._spec.generation - 1)
            try:
                self._tenure.note_announcement(await self._writer.append([self._build_task_document(ended_through)]))
            except ClusterError as error:
                self._ledger_error = error
                self._must_announce.set()
                await asyncio.sleep(RETRY_S)

    async def _let_go(self) -> None:
        """Write to the ledger that lanes taken from the slot have no writes in flight any more."""
        while True:
            await self._has_lost.wait()
            self._has_lost.clear()
            revision, parting = self._tenure.revision, self._tenure.parting
            try:
                if self._has_written:
                    await self._engine.at_rest(parting)
                    transits, final = self._engine.lanes.transits(), self._engine.lanes.find_final(parting)
                    await self._maps.save(transits, final=final, term_s=PROGRESS_S)
                self._let_go_of = revision
                task_document = self._build_task_document(min(self._tenure.ended_through, self._spec.generation - 1))
                # The next owner of these lanes starts from their last reports.
                due = self._telling.due(self._engine.lanes.reports(), self._lanes, is_full=False)
                left = [each for each in due if each.key in parting]
                await self._writer.append(
                    [self._progress(left, is_full=False), task_document] if left else [task_document]
                )
                self._telling.note_reported(left)
            except ClusterError:
                self._has_lost.set()
                await asyncio.sleep(RETRY_S)

    async def _release(self, reports: Iterable[LaneReport]) -> bool:
        """Write to the ledger how far the lease came, and that it never writes again; whether that was written. If not,
        the receipt tells it to the driver.
        """
        # The next owner finds out by itself what could not be written here.
        with contextlib.suppress(ClusterError):
            transits = self._engine.lanes.transits()
            await self._maps.save(transits, final=self._engine.lanes.find_final(transits), term_s=_RELEASE_TERM_S)
        try:
            marks = self._marks()
            self._milestones.note_marks(self._lanes, marks)
            last: list[Document] = [
                self._build_milestones_document(self._milestones.furthest),
                self._build_task_document(self._spec.generation, marks),
            ]
            if unreported := self._telling.untold(reports, self._lanes):
                last.insert(0, self._progress(unreported, is_full=False))
            await self._writer.append(last, term_s=_RELEASE_TERM_S)
        except ClusterError:
            return False
        return True

    def _build_task_document(self, ended_through: int, marks: tuple[LaneMark, ...] = ()) -> TaskDocument:
        spec = self._spec
        return TaskDocument(
            link=spec.context.link,
            slot=spec.slot,
            controller=spec.controller,
            generation=spec.generation,
            ended_through=ended_through,
            is_clean=self._engine.lanes.is_clean if ended_through == spec.generation else self._tenure.is_clean,
            marks=marks,
            revision=self._let_go_of,
            process=self._process,
            executor=self._executor,
        )

    def _marks(self) -> tuple[LaneMark, ...]:
        """Return the marks of the lanes that the lease has now."""
        return tuple(mark for mark in self._engine.lanes.marks() if mark.key in self._lanes)

    def _build_milestones_document(self, milestones: tuple[Milestone, ...]) -> MilestonesDocument:
        return MilestonesDocument(link=self._spec.context.link, slot=self._spec.slot, milestones=milestones)

    # The rules

    async def _tick(self) -> None:
        while True:
            self._step()
            await asyncio.sleep(_TICK_S)

    def _step(self) -> None:
        """Act on the tenure: end the lease, or extend its time and allow writes; change its lanes and limits."""
        now = lasting_s()
        tenure, engine = self._tenure, self._engine
        tenure.note_tick(now)
        if tenure.ending(now) is not None or engine.failure is not None:
            # The time to write is not extended either: the lease may have been revoked.
            self._has_ended.set()
        else:
            engine.write_until(self._write_until)
            if not self._has_written and tenure.is_admitted:
                self._has_written = True
                self._milestones.note_milestones(tenure.milestones)
                left: list[LaneMark | Milestone] = [*tenure.marks, *self._milestones.furthest]
                engine.allow_writes(abandoned=not tenure.is_clean, marks=left)
        self._take_lanes()
        if tenure.limits is not None:
            engine.room.limit(share_limits(tenure.limits, self._spec.company))

    def _take_lanes(self) -> None:
        if self._lanes != self._tenure.lanes:
            self._change_lanes(self._tenure.lanes)
        if self._tenure.parting and self._tenure.revision > self._heard_of:
            self._heard_of = self._tenure.revision
            self._has_lost.set()

    def _change_lanes(self, wanted: Mapping[LaneKey, Lane]) -> None:
        parted = [key for key, lane in self._lanes.items() if wanted.get(key) != lane]
        self._engine.remove(parted)
        self._telling.forget_lanes(parted)
        self._engine.add([lane for key, lane in wanted.items() if self._lanes.get(key) != lane])
        self._lanes = dict(wanted)

    # Progress

    async def _report(self) -> None:
        beat = 0
        while True:
            await asyncio.sleep(PROGRESS_S)
            if not self._has_written:
                continue
            is_full = beat % _FULL_EVERY == 0
            if self._needs_allowance and (problem := self._source_word.withheld(lasting_s())) is not None:
                self._engine.withheld(problem)
            reports = self._engine.lanes.reports()
            self._workload.note(
                time.monotonic(),
                waited_s=self._watched.waited_s,
                cpu_s=time.process_time(),
                records=sum(each.records for each in reports),
            )
            due = self._telling.due(reports, self._lanes, is_full=is_full)
            beat += 1
            self._milestones.note_marks(self._lanes, self._marks())
            milestones = self._milestones.due(is_full=is_full)
            documents: list[Document] = [self._build_milestones_document(milestones)] if milestones else []
            if due or is_full:
                documents.append(self._progress(due, is_full=is_full))
            if documents:
                # Progress that cannot be written now is in the next document.
                with contextlib.suppress(ClusterError):
                    await self._progress_writer.append(documents, term_s=PROGRESS_S)
                    self._telling.note_reported(due)
                    self._milestones.note_reported(milestones)

    async def _map(self) -> None:
        """Write the positions of mapped lanes now and then, so that their next owner reads only what came later."""
        while True:
            await asyncio.sleep(PROGRESS_S)
            # A lease that may no longer write may have lost the lanes: their next owner knows newer positions.
            if self._engine.may_write():
                with contextlib.suppress(ClusterError):
                    await self._maps.save(self._engine.lanes.transits(), term_s=PROGRESS_S)

    def _progress(self, reports: Iterable[LaneReport], *, is_full: bool) -> ProgressDocument:
        spec = self._spec
        return ProgressDocument(
            link=spec.context.link,
            slot=spec.slot,
            controller=spec.controller,
            generation=spec.generation,
            is_full=is_full,
            reports=tuple(reports),
            latency=tuple((bucket, count) for bucket, count in enumerate(self._engine.latency) if count),
            cpu_s=time.process_time() / spec.company,
            memory_bytes=memory_bytes(),
            beat=self._tenure.beat,
            busy=self._workload.busy,
            records_per_s=self._workload.records_per_s,
        )
