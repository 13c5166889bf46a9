"""Finding a lane's place: what the target's log says, held against the source, before anything is written.

Many lanes are looked at together: a handful of requests per broker, whatever their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from isthmus.errors import AuthenticationFailed, ClusterError
from isthmus.lane import rebatch
from isthmus.lane.filler import is_filler
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.routes import GONE_AFTER_S, Leader, Routes, TopicGone, TopicRecreated
from isthmus.lane.run import LaneRun
from isthmus.lane.source import Bounds, bounds
from isthmus.lane.target import look, read_once, tails
from isthmus.lane.writer import Look, Place
from isthmus.model.lane import Gap, LaneState
from isthmus.wire import codes
from isthmus.wire.batch import Batch, scan
from isthmus.wire.connection import Connection
from isthmus.wire.fetch import Want

RETRY_S: Final = 0.1
DENIED_RETRY_S: Final = 5.0
DOUBT_S: Final = 1.0


class Placing(Protocol):
    """What a resolver needs of its engine."""

    producer: ProducerIdentity

    def may_write(self) -> bool: ...
    def place(self, run: LaneRun) -> None: ...


class Resolver:
    """Places lanes. `add` a lane whenever its place is in doubt; `run()` is a coroutine of its own."""

    def __init__(self, engine: Placing, source: Routes, target: Routes, *, settle_s: float) -> None:
        self._engine = engine
        self._source = source
        self._target = target
        self._settle_s = settle_s
        self._due: dict[LaneRun, float] = {}
        self._looked_at: dict[LaneRun, float] = {}
        self._doubts: dict[LaneRun, int] = {}
        self._wake = asyncio.Event()

    def add(self, run: LaneRun, delay_s: float = 0.0) -> None:
        """Look for the lane's place, not before `delay_s` from now."""
        run.is_placed = False
        if not run.is_over:
            self._due[run] = time.monotonic() + delay_s
            self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Resolve until cancelled."""
        while True:
            now = time.monotonic()
            due = [run for run, at in self._due.items() if at <= now and not run.is_over]
            if not due or not self._engine.may_write():
                self._wake.clear()
                next_at = min(self._due.values(), default=None)
                # A look before writes are allowed would be out of date by then, so this waits for both.
                timeout = None if next_at is None else max(next_at - now, RETRY_S if due else 0.0)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), timeout)
                continue
            for run in due:
                del self._due[run]
            # While an answer is awaited the log moves under us, and the lane with it.
            waiting = [run for run in due if run.writer.in_flight or run.is_busy]
            for run in waiting:
                self.add(run, RETRY_S / 10)
            await self._resolve([run for run in due if run not in waiting])

    async def warm_up(self, runs: list[LaneRun]) -> None:
        """Learn who leads what and connect, so that the first look takes one round trip."""
        await self._freshen_both(runs)
        for routes in (self._source, self._target):
            nodes = {leader.node_id for run in runs for leader in (self._leader(routes, run),) if leader is not None}
            await asyncio.gather(*(routes.client.connection(node) for node in nodes), return_exceptions=True)

    def _leader(self, routes: Routes, run: LaneRun) -> Leader | None:
        return routes.leader(*(run.source if routes is self._source else run.target))

    async def _freshen_both(self, runs: list[LaneRun]) -> None:
        await asyncio.gather(self._freshen(self._source, runs, "source"), self._freshen(self._target, runs, "target"))

    async def _resolve(self, runs: list[LaneRun]) -> None:
        if not runs:
            return
        await self._freshen_both(runs)
        runs = [run for run in runs if self.exists(run)]
        looks, limits = await asyncio.gather(
            self._ask(self._target, runs, lambda run: run.target, self._look, "target"),
            self._ask(self._source, runs, lambda run: run.source, bounds, "source"),
        )
        ready: list[LaneRun] = []
        for run in runs:
            seen, limit = looks.get(run.target), limits.get(run.source)
            if isinstance(seen, Look) and isinstance(limit, Bounds):
                run.source_start, run.source_end = limit.start, limit.stable_end
                if self._looked(run, seen):
                    ready.append(run)
            else:
                self._unanswered(run, seen, limit)
        checked = await self._check_tails(ready)
        for run in checked:
            self._decide(run)

    async def _freshen(self, routes: Routes, runs: list[LaneRun], side: str) -> None:
        keys = [run.source if side == "source" else run.target for run in runs]
        routes.watch(topic for topic, _ in keys)
        if routes.is_stale or any(routes.leader(*key) is None for key in keys):
            await routes.refresh()

    def exists(self, run: LaneRun) -> bool:
        """Whether both topics are those the lane was planned for and have leaders; else the lane says what is wrong."""
        if run.is_over:
            return False
        for routes, (topic, partition), topic_id, side, state in (
            (self._source, run.source, run.lane.source_topic_id, "source", LaneState.SOURCE_UNAVAILABLE),
            (self._target, run.target, run.lane.target_topic_id, "target", LaneState.TARGET_UNAVAILABLE),
        ):
            try:
                routes.check(topic, topic_id)
            except TopicRecreated:
                run.fail(
                    LaneState.TOPIC_RECREATED,
                    f"the {side} topic {topic} was deleted and created again: its records are others now",
                    f"Decide which data is right; then delete the target topic {run.lane.target_topic} and run again "
                    "to mirror the new source topic from its beginning.",
                )
                return False
            except TopicGone:
                run.fail(
                    LaneState.TOPIC_RECREATED,
                    f"the {side} topic {topic} was deleted (missing for more than {GONE_AFTER_S:g} s)",
                    "Run again to start over with the topics that exist then.",
                )
                return False
            if routes.denied(topic):
                run.fail(
                    LaneState.NOT_AUTHORIZED,
                    f"the {side} does not let us see topic {topic}",
                    f"Grant DESCRIBE on topic {topic}; `isthmus doctor` lists all rights needed.",
                )
                self.add(run, DENIED_RETRY_S)
                return False
            if routes.leader(topic, partition) is None:
                reason = "" if routes.error is None else f": {routes.error}"
                run.fail(
                    state,
                    f"{topic}-{partition} has no reachable leader at the {side}{reason}",
                    "" if routes.error is None else routes.error.hint,
                )
                refused = isinstance(routes.error, AuthenticationFailed)
                self.add(run, DENIED_RETRY_S if refused else RETRY_S)
                return False
        return True

    async def _ask(
        self,
        routes: Routes,
        runs: list[LaneRun],
        key_of: Callable[[LaneRun], tuple[str, int]],
        ask: Callable[[Connection, dict[tuple[str, int], int]], Awaitable[dict[tuple[str, int], Any]]],
        side: str,
    ) -> dict[tuple[str, int], Any]:
        """Ask every leader about its partitions at once; a leader that does not answer leaves its error instead."""
        by_node: dict[int, dict[tuple[str, int], int]] = {}
        for run in runs:
            leader = routes.leader(*key_of(run))
            if leader is not None:
                by_node.setdefault(leader.node_id, {})[key_of(run)] = leader.epoch

        async def one(node_id: int, epochs: dict[tuple[str, int], int]) -> dict[tuple[str, int], Any]:
            try:
                return await ask(await routes.client.connection(node_id), epochs)
            except ClusterError as error:
                return dict.fromkeys(epochs, error)

        answers: dict[tuple[str, int], Any] = {}
        for answer in await asyncio.gather(*(one(node, epochs) for node, epochs in by_node.items())):
            answers |= answer
        return answers

    async def _look(
        self, connection: Connection, epochs: dict[tuple[str, int], int]
    ) -> dict[tuple[str, int], Look | int]:
        return await look(connection, epochs, self._engine.producer.producer_id)

    def _unanswered(self, run: LaneRun, seen: Any, limit: Any) -> None:
        for routes, (topic, partition), answer, state, side in (
            (self._target, run.target, seen, LaneState.TARGET_UNAVAILABLE, "target"),
            (self._source, run.source, limit, LaneState.SOURCE_UNAVAILABLE, "source"),
        ):
            if isinstance(answer, Look | Bounds):
                continue
            routes.forget(topic, partition)
            if isinstance(answer, ClusterError):
                run.fail(state, str(answer), answer.hint)
            elif answer in codes.AUTHORIZATION:
                run.fail(
                    LaneState.NOT_AUTHORIZED,
                    f"the {side} does not allow us to look at {topic}-{partition}",
                    f"Grant {'READ' if side == 'source' else 'WRITE, READ and DESCRIBE'} on topic {topic}.",
                )
                self.add(run, DENIED_RETRY_S)
                return
            elif answer is not None:
                run.fail(state, f"the leader of {topic}-{partition} at the {side} says {codes.name_of(answer)}")
        self.add(run, RETRY_S)

    def _looked(self, run: LaneRun, seen: Look) -> bool:
        now = time.monotonic()
        settled = now - self._looked_at.get(run, now) >= self._settle_s
        place = run.writer.looked(seen, time.time() * 1000, settled=settled)
        if place is Place.READY:
            self._looked_at.pop(run, None)
            return True
        if place is Place.SETTLE:
            self._looked_at[run] = now
            self.add(run, self._settle_s)
        else:
            self.add(run, RETRY_S / 2)
        return False

    async def _check_tails(self, runs: list[LaneRun]) -> list[LaneRun]:
        """Whether the last batch of each target partition is ours, once per lane and lease."""
        unchecked = [run for run in runs if not run.tail_checked and run.writer.position > 0]
        for run in runs:
            run.tail_checked = run.tail_checked or run.writer.position == 0
        found: dict[tuple[str, int], Batch | None] = {}
        by_node: dict[int, list[LaneRun]] = {}
        for run in unchecked:
            leader = self._target.leader(*run.target)
            if leader is not None:
                by_node.setdefault(leader.node_id, []).append(run)
        for node_id, group in by_node.items():
            try:
                found |= await tails(await self._target.client.connection(node_id), group)
            except ClusterError as error:
                for run in group:
                    run.fail(LaneState.TARGET_UNAVAILABLE, str(error), error.hint)
        checked = [run for run in runs if run.tail_checked]
        for run in unchecked:
            if run.target not in found:
                self.add(run, RETRY_S)
            elif await self._is_ours(run, found[run.target]):
                run.tail_checked = True
                checked.append(run)
        return checked

    async def _is_ours(self, run: LaneRun, tail: Batch | None) -> bool:
        ours = self._engine.producer.producer_id
        if tail is None or tail.is_control or tail.is_transactional:
            return True
        if tail.producer_id == ours:
            if run.writer.position <= run.source_start and is_filler(tail):
                run.prefix_end = run.source_start
                run.prefix_undeleted = True
            return True
        # Another producer id: an earlier life of this link whose ledger was lost, or somebody else. The bytes tell.
        try:
            same = await self._same_as_source(run, tail)
        except ClusterError as error:
            run.fail(LaneState.SOURCE_UNAVAILABLE, str(error), error.hint)
            self.add(run, RETRY_S)
            return False
        if not same:
            run.fail(
                LaneState.FOREIGN_WRITE,
                f"the record at offset {run.writer.position - 1} of the target is not the source's: producer "
                f"{tail.producer_id} wrote it, not Isthmus",
                "Mirror into a topic of its own: delete the target topic, or exclude this one. Deny WRITE to others.",
            )
        return same

    async def _same_as_source(self, run: LaneRun, tail: Batch) -> bool:
        leader = self._source.leader(*run.source)
        offset = run.writer.position - 1
        if leader is None or not run.source_start <= offset < run.source_end:
            return False
        connection = await self._source.client.connection(leader.node_id)
        want = {run.source: Want(run.lane.source_topic_id, offset, -1, -1)}
        error_code, records = (await read_once(connection, want)).get(run.source, (codes.NONE, b""))
        if error_code != codes.NONE:
            return False
        here = next((r for r in rebatch.records_of(tail) if r.offset == offset), None)
        for batch in scan(records):
            if batch.base_offset <= offset < batch.offset_end:
                return here is not None and here in rebatch.records_of(batch)
        return False

    def _decide(self, run: LaneRun) -> None:
        position = run.writer.position
        if position > run.source_end:
            # A new leader's high watermark lags for a moment, so one look is not enough.
            self._doubts[run] = self._doubts.get(run, 0) + 1
            if self._doubts[run] < 3:
                run.fail(LaneState.SOURCE_UNAVAILABLE, f"the source ends at {run.source_end}, before {position}")
                self.add(run, DOUBT_S)
                return
            run.fail(
                LaneState.DIVERGED,
                f"the target ends at {position}, the source at {run.source_end}: offsets "
                f"[{run.source_end}, {position}) exist only at the target",
                "The source lost records (unclean election) or the topic was refilled, or somebody writes to the "
                "target. Delete the target topic to mirror it anew, or keep it and exclude the topic.",
            )
            return
        self._doubts.pop(run, None)
        is_held = bool(run.pending) and run.pending[0].batch.base_offset <= position < run.read_offset
        if position < run.source_start and not is_held and not self._pass_gap(run):
            return
        self._engine.place(run)

    def _pass_gap(self, run: LaneRun) -> bool:
        """Whether a lane may go on although the source begins above its position."""
        if run.writer.position == 0 or run.prefix_end >= 0:
            run.prefix_end = run.source_start
            return True
        return pass_gap(run, Gap(run.writer.position, run.source_start))


def pass_gap(run: LaneRun, gap: Gap) -> bool:
    """Record that the source deleted what was not copied yet; whether the lane is configured to go on."""
    if run.lane.continues_after_gap:
        if gap not in run.gaps:
            run.gaps.append(gap)
        return True
    run.fail(
        LaneState.DATA_GAP,
        f"the source deleted offsets [{gap.offset_begin}, {gap.offset_end}) before they were copied",
        "Set on_data_gap: continue on the link to record the gap and go on, or delete the target topic to start anew. "
        "A longer retention at the source avoids this.",
    )
    return False
