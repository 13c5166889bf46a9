"""Runs lanes: many partitions, one event loop, no Spark.

    source leader ─▶ SourceReader ─▶ Intake.pending ─▶ TargetAppender ─▶ target leader      bytes as they are
                                          │    ▲
                                          ▼    │
                                        Detour (control records, holes, prefixes, batches to be rebuilt)
                                        Resolver (where does the target's log end?)

The readers and appenders are one per broker, never one per lane, so a thousand idle lanes cost next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from isthmus.deadline import Deadline
from isthmus.engine.appender import AnsweredParcel, TargetAppender
from isthmus.engine.brokers.distance import Distances
from isthmus.engine.brokers.permission import Granted
from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.room import Room
from isthmus.engine.brokers.routes import SourceRoutes, TargetRoutes
from isthmus.engine.faults import Faults
from isthmus.engine.hearing import Hearing
from isthmus.engine.leaving import come_to_an_end, come_to_rest
from isthmus.engine.mapped.changing import Changing
from isthmus.engine.mapped.departing import Departing
from isthmus.engine.mapped.detour import ShortDetour
from isthmus.engine.mapped.places import MapStore
from isthmus.engine.mapped.transformer import DeadLetters, Transformer
from isthmus.engine.outlook import DENIED_RETRY_S, USUAL_DOUBT, Doubt
from isthmus.engine.readers import Readers
from isthmus.engine.resolver import Resolver
from isthmus.engine.roster import Roster
from isthmus.engine.run import LaneRun, Refused, Tally
from isthmus.engine.same.detour import Detour
from isthmus.engine.silence import leave_appenders
from isthmus.engine.state.intake import Usability
from isthmus.engine.state.phase import Phase
from isthmus.engine.state.writer import AppendVerdict, Writer
from isthmus.errors import ClusterError
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.model.lane import Lane, LaneKey, LaneMark, LaneReport, LaneState, Milestone
from isthmus.model.link import Limits
from isthmus.model.problem import Problem
from isthmus.model.process.latency import BUCKETS, bucket_of
from isthmus.model.schemas.gate import NO_SCHEMAS, SchemaIds

log = logging.getLogger(__name__)
DEFAULT_LIMITS: Final = Limits()
DEFAULT_SETTLE_S: Final = 2.0
_HOUSEKEEPING_S: Final = 1.0
_LOOK_ON_S: Final = 5.0
_DRAIN_PAUSE_S: Final = 0.005


class Engine:
    """Runs lanes of one link in the current event loop.

    With `writable=False` the engine connects and waits: it neither looks at the target's log nor writes until
    `allow_writes()`. `abandoned` means that an earlier owner of the lanes may have left requests on their way; the
    lanes then settle for `settle_s` before they write. `doubt` defines when a source that ends too early is believed.
    `expiration_ms` is the target's `producer.id.expiration.ms`, 0 where it is not known; see `Writer`. `maps` stores
    the progress of mapped lanes. `schemas` are those that the target knows. `transformers` change the records of lanes
    that name them, and `letters` is where records go that they cannot change.
    """

    def __init__(
        self,
        *,
        source: Client,
        target: Client,
        producer: ProducerIdentity,
        link: str,
        limits: Limits = DEFAULT_LIMITS,
        writable: bool = True,
        abandoned: bool = True,
        settle_s: float = DEFAULT_SETTLE_S,
        doubt: Doubt = USUAL_DOUBT,
        expiration_ms: int = 0,
        maps: MapStore | None = None,
        schemas: SchemaIds = NO_SCHEMAS,
        transformers: Mapping[str, Transformer] = MappingProxyType({}),
        letters: DeadLetters | None = None,
    ) -> None:
        self.producer, self.link, self.schemas = producer, link, schemas
        self.latency = [0] * BUCKETS
        self.throttled_source_s = self.throttled_target_s = 0.0
        self.room = Room(limits)
        self.lanes = Roster()
        self._granted = Granted(is_given=writable)
        self.may_send, self.may_write = self._granted.may_send, self._granted.may_write
        self._source, self._target = source, target
        self._abandoned, self._expiration_ms, self._settle_s = abandoned, expiration_ms, settle_s
        self._source_routes, self._target_routes = SourceRoutes(source), TargetRoutes(target)
        self.source_distances = Distances(self._source_routes, with_replicas=False)
        self.target_distances = Distances(self._target_routes, with_replicas=True)
        self._resolver = Resolver(
            self, self._source_routes, self._target_routes, settle_s=settle_s, doubt=doubt, maps=maps
        )
        self._detour, self._short_detour = Detour(self, self._target_routes), ShortDetour(self)
        self.faults = Faults(self, self._resolver, self._source_routes, self._target_routes)
        self.readers = Readers(self, self._resolver, self._source_routes, self._spawn)
        self._changing, self._departing = Changing(self, transformers, letters, self._spawn), Departing(self, maps)
        self._appenders: dict[int, TargetAppender] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: BaseException | None = None

    async def start(self, lanes: Iterable[Lane]) -> None:
        """Start with these lanes; more may be added later."""
        self.add(lanes)
        hearing = Hearing(self._source_routes, self.readers.held)
        parts = (self._resolver, self.readers, hearing, self._departing, self.source_distances, self.target_distances)
        for work in (*(part.run() for part in parts), self._keep_house(), self._watch_targets()):
            self._spawn(work)
        if not self._granted.is_given:
            self._spawn(self._warm_up())

    async def _warm_up(self) -> None:
        """Prepare all that is possible before writes are allowed, so that taking over takes a few round trips only."""
        runs = list(self.lanes)
        await self._resolver.warm_up(runs)
        for run in runs:
            self.readers.connect(run)
            if (leader := self._target_routes.leader(*run.target)) is not None:
                self._appender(leader.node_id)

    def add(self, lanes: Iterable[Lane]) -> None:
        """Run more lanes; running lanes are not disturbed. A removed lane waits until its former run has ended."""
        for lane in lanes:
            former = self.lanes.get(lane.key)
            if former is not None:
                if not former.is_over:
                    continue
                self._let_go(former)
            if lane.transform and (lane.level or not lane.is_mapped):
                raise ValueError(f"{lane.key} cannot have a transform: it is not mapped, or a distributor's")
            doubtful = self._abandoned or lane.is_unsettled
            writer = Writer(abandoned=doubtful, expiration_ms=self._expiration_ms, is_mapped=lane.is_mapped)
            # One count for both: answers to the former run may still arrive.
            run = LaneRun(lane, writer, tally=Tally() if former is None else former.tally)
            self.lanes.enter(run)
            self._source_routes.watch([lane.source_topic])
            self._target_routes.watch([lane.target_topic])
            self._source_routes.expect(lane.source_topic, lane.source_topic_id)
            self._target_routes.expect(lane.target_topic, lane.target_topic_id)
            self._resolver.add(run)

    def remove(self, keys: Iterable[LaneKey]) -> None:
        """Stop lanes; requests in flight may still be answered."""
        for key in keys:
            if (run := self.lanes.get(key)) is not None:
                run.fail(LaneState.STOPPED, "stopped as asked")
                self._let_go(run)

    def allow_writes(self, *, abandoned: bool, marks: Iterable[LaneMark | Milestone] = ()) -> None:
        """Allow writes. `abandoned` and `marks` describe how the previous owner left the lanes, as far as reported."""
        for mark in marks:
            if (left := self.lanes.get(mark.key)) is not None:
                left.recall(mark)
        self._abandoned = abandoned
        for run in self.lanes.list_all():
            run.writer.take_over(abandoned=abandoned or run.lane.is_unsettled)
        self._granted.is_given = True
        self._wake()

    def learn(self, schemas: SchemaIds) -> None:
        """Note the schemas that the target knows now, and resume the lanes that wait for one of them."""
        self.schemas = schemas
        for run in self.lanes:
            if run.intake.schema_id in schemas and not run.intake.pending:
                self._resolver.add(run)

    def write_until(self, moment: float | None) -> None:
        """Send nothing from that moment (of `lasting_s`) on; `None` for no limit.

        After a lapse, however short, find the place of every lane again: others may have written.
        """
        had_lapsed, is_back = self._granted.has_lapsed, self._granted.renew(moment)
        if had_lapsed or self._granted.has_lapsed:
            self._revoke()
            for run in self.lanes:
                if run.transit is not None and (run.lane.transform or run.transit.cursor.transform):
                    run.transit.outdate()
        if is_back:
            for run in self.lanes:
                self._resolver.add(run)
            self._wake()

    def _wake(self) -> None:
        self._resolver.wake()
        for appender in self._appenders.values():
            appender.wake()

    def _revoke(self) -> None:
        """Keep all our requests from reaching the target, also those that are on their way."""
        for appender in self._appenders.values():
            appender.revoke()
        self._target.revoke()

    def may_go_on(self, run: LaneRun) -> bool:
        """Whether the slow path may send another request for the lane."""
        return self.may_write() and run.phase.is_placed and not run.is_over

    def go_by_records(self, run: LaneRun) -> None:
        """Copy transactions record by record: the target does not accept them whole any more."""
        log.warning("%s: transactions become visible record by record, as the target does not take them", run.lane.key)
        run.go_by_records()
        self._resolver.add(run)

    async def at_rest(self, keys: Iterable[LaneKey]) -> None:
        """Return once no request of these removed lanes is on its way any more."""
        wanted, runs = frozenset(keys), self.lanes.list_all()
        await come_to_rest([run for run in runs if run.lane.key in wanted and run.is_over], self._settle_s)

    def inherit(self, run: LaneRun) -> None:
        """Take over the settling state of the former runs of the lane's key: none of them has requests in flight."""
        for each in self.lanes.leave_former(run):
            self._let_go(each)
            run.writer.inherit(each.writer)

    def _let_go(self, run: LaneRun) -> None:
        """Stop reading a lane that is over, and release its room once no request of it is in flight."""
        self.stop_reading(run)
        if not run.is_writing:
            self._release_room(run, run.intake.read_from(run.intake.read_offset))

    def withheld(self, problem: Problem) -> None:
        """Show why writing is not allowed now at the lanes that have something to write."""
        for run in self.lanes:
            if not run.is_over and (run.intake.pending or not run.phase.is_placed):
                run.hinder(LaneState.SOURCE_UNAVAILABLE, problem.message, problem.hint)

    async def stop(self, drain_s: float = 0.5) -> list[LaneReport]:
        """Send nothing new, wait at most `drain_s` for answers to requests in flight, and close."""
        self._granted.is_over = True
        deadline = Deadline(drain_s)
        while any(run.is_writing for run in self.lanes.list_all()) and not deadline.has_passed:
            await asyncio.sleep(_DRAIN_PAUSE_S)
        self._granted.is_given = False
        self._revoke()
        for run in self.lanes.list_all():
            if run.is_writing:
                run.writer.abandon()
            run.fail(LaneState.STOPPED, "the lease has ended")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await come_to_an_end(self.lanes.list_all())
        return self.lanes.reports()

    # Reading

    def received(self, run: LaneRun, size_bytes: int) -> None:
        """Take note of `size_bytes` that were read of the lane; 0 if the source had nothing."""
        if run.intake.stage is not None:
            self._changing.wake(run)
        if size_bytes:
            self.room.take(size_bytes)
            self._offer(run)
        elif not run.intake.has_waiting:
            run.heal()

    def note_changed(self, run: LaneRun) -> None:
        """Go on with a lane of which records were changed or left out."""
        stage = run.intake.stage
        if stage is not None and stage.outgoing:
            self._departing.add(run)
        elif run.intake.drain():
            self._resolver.add(run)
        self.readers.drained(run)

    def send_departed(self, run: LaneRun) -> None:
        """Send changed records: it is stored where they come from."""
        self._offer(run)

    def stop_reading(self, run: LaneRun) -> None:
        self.readers.stop(run)

    def reroute(self, run: LaneRun) -> None:
        self.readers.route(run)

    # Writing

    def _appender(self, node_id: int) -> TargetAppender:
        appender = self._appenders.get(node_id)
        if appender is None:
            appender = self._appenders[node_id] = TargetAppender(node_id, self, self._target.dial)
            self._spawn(appender.run())
        return appender

    def place(self, run: LaneRun) -> None:
        """Read and write from the lane's place on, which is known now."""
        position = run.writer.position
        run.place()
        self._detour.forget(run)
        if run.lane.hold:
            run.hold()
            return
        if run.state in (LaneState.STARTING, LaneState.SOURCE_UNAVAILABLE, LaneState.TARGET_UNAVAILABLE):
            run.heal()
        if run.written and run.transit is None:
            self._release_room(run, run.intake.take(run.written))
        intake, missing = run.intake, run.missing
        head = intake.pending[0].batch if intake.pending else None
        begin = max(position, run.source_log.start if missing.prefix is None else missing.prefix.end)
        truncated_from = run.writer.truncated_from
        if truncated_from is not None:
            log.warning("%s: the target lost [%d, %d) and gets it again", run.lane.key, position, truncated_from)
        if run.transit is not None:
            run.transit.resume(cursor := run.transit.cursor)  # drops records read since the place was found
            self._restart_reading(run, cursor.source_offset, cursor.source_epoch)
        elif head is None or head.base_offset > position or truncated_from is not None or intake.is_spoilt:
            self._restart_reading(run, begin, run.belief.tail_epoch if begin == position else -1)
        if intake.usability is not Usability.CUT and run not in self.readers:
            self.reroute(run)
        has_gap = missing.gap_end > position and run.transit is None
        if missing.prefix is not None or run.transactions.ending or has_gap:
            self.divert(run)
        self._offer(run)

    def _restart_reading(self, run: LaneRun, offset: int, epoch: int) -> None:
        self._release_room(run, run.intake.restart(offset, epoch))
        self.stop_reading(run)

    def _release_room(self, run: LaneRun, size_bytes: int) -> None:
        self.room.give(size_bytes)
        self.readers.drained(run)

    def _offer(self, run: LaneRun) -> None:
        if run.writer.in_flight or run.phase is not Phase.FLOWING or not run.intake.pending:
            return
        leader = self._target_routes.leader(*run.keys.target)
        if leader is None:
            self._resolver.add(run)
            return
        self._appender(leader.node_id).queue(run)

    def appended(self, results: list[AnsweredParcel], now_ms: float) -> None:
        """Take the results of a fast-path request. Its lanes may have their next request in flight already."""
        for parcel, verdict, answer in results:
            run, batch = parcel.run, parcel.batch
            if verdict is AppendVerdict.ADVANCED:
                self.timed(batch, now_ms)
                if run.transit is not None:
                    run.transit.appended(batch.record_count, answer.base_offset)
                self.advanced(run, parcel.pieces, batch.record_count)
                self._offer(run)
            else:
                self.faults.handle_verdict(run, verdict, answer.error_code, answer.error_message, batch)

    def timed(self, batch: Batch, now_ms: float) -> None:
        """Count the latency of these records, which are at the target at `now_ms` (since 1970)."""
        self.latency[bucket_of(now_ms - batch.max_timestamp)] += batch.record_count

    def advanced(self, run: LaneRun, pieces: int, records: int) -> None:
        """Drop the lane's first pieces: `records` records of them are durable, 0 if they were left out."""
        intake = run.intake
        size = intake.take(pieces)
        run.schedule.advance()
        run.tally.count(records, size)
        self._release_room(run, size)
        # An answer to an earlier request proves nothing about a source that cannot be read any more.
        if run.health.obstacle is not None and run.phase.is_placed and run in self.readers:
            run.heal()
        if intake.drain():
            self._resolver.add(run)

    def divert(self, run: LaneRun) -> None:
        """Hand the lane to the detour."""
        if run.phase is Phase.FLOWING and not run.is_over:
            run.divert()
            self._spawn(self._run_detour(run))

    async def _run_detour(self, run: LaneRun) -> None:
        while run.writer.in_flight:
            # A request behind one that failed is answered too.
            await asyncio.sleep(_DRAIN_PAUSE_S)
        try:
            await (self._detour if run.transit is None else self._short_detour).take(run)
        except Refused:
            if run.phase.is_placed and run.state is LaneState.BLOCKED:
                self._resolver.add(run, DENIED_RETRY_S)
        except ClusterError as error:
            self.faults.write_failed(run, error)
        finally:
            run.come_back()
        self._offer(run)

    async def _keep_house(self) -> None:
        """Regularly refresh the metadata of both clusters, and stop reading lanes whose topics are not as planned or
        have no leader, which report that. Also release room, and connections that are not needed any more.
        """
        while True:
            await asyncio.sleep(_HOUSEKEEPING_S)
            for routes in (self._source_routes, self._target_routes):
                if routes.is_stale:
                    await routes.refresh()
                    there = set(self._resolver.check(self.lanes))
                    for run in self.lanes:
                        if run not in there:
                            self.stop_reading(run)
            for run in [each for each in self.lanes if each.is_over]:
                self._let_go(run)
            self._make_room()
            await self.readers.leave()
            await leave_appenders(self._appenders.values(), self._target_routes)

    def _make_room(self) -> None:
        """Mark lanes that do not advance as stuck, and drop pending pieces of theirs if others need the room."""
        for run in self.lanes:
            intake = run.intake
            if not run.schedule.look(intake.taken, run.progress, has_pending=intake.has_waiting):
                continue
            is_own = not run.is_writing and not run.is_over and intake.usability is Usability.WHOLE
            is_free = run.transit is None or not run.phase.is_placed or run.may_drop_waiting
            if self.room.is_tight and is_own and is_free:
                self.readers.shorten(run)

    async def _watch_targets(self) -> None:
        """Regularly note the log ends of the targets of mapped lanes that rest."""
        while True:
            await asyncio.sleep(_LOOK_ON_S)
            await self._resolver.look_on(self.lanes)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_task_end)

    def _note_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self.failure is None:
            # A bug of ours: the owner of the engine sees `failure` and stops the engine.
            self.failure = _unwrap_failure(task.exception())
            self._granted.is_over = True


def _unwrap_failure(failure: BaseException | None) -> BaseException | None:
    """Return the exception without the groups of one around it."""
    while isinstance(failure, BaseExceptionGroup) and len(failure.exceptions) == 1:
        (failure,) = failure.exceptions
    return failure
