"""Finds a lane's place: compares the target's log with the source before anything is written.

Lanes are looked at together: a few requests per broker, however many lanes there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import (
    GONE_AFTER_S,
    Leader,
    Routes,
    SourceRoutes,
    TargetRoutes,
    TopicGone,
    TopicRecreated,
)
from isthmus.engine.mapped.places import MapStore, Places
from isthmus.engine.outlook import DENIED_RETRY_S, RETRY_S, USUAL_DOUBT, Doubt
from isthmus.engine.roster import Roster
from isthmus.engine.run import LaneRun, Look
from isthmus.engine.same.ends import Ends
from isthmus.engine.source import Bounds, bounds
from isthmus.engine.state.writer import LogLook
from isthmus.engine.target import look
from isthmus.errors import AuthenticationFailed, ClusterError
from isthmus.kafka import codes
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.kafka.rights import grant, on_topic
from isthmus.model.lane import LaneState
from isthmus.model.links.remedies import BEGIN_ANEW, HeldOffsets, explain_recreated
from isthmus.model.naming import TargetTopicPartition, TopicT

_SLOW: Final = (LaneState.BLOCKED, LaneState.NOT_AUTHORIZED)


class Absence(NamedTuple):
    """Why a lane's topic or leader is missing. The lane is checked again after `retry_s`, never if that is `None`."""

    state: LaneState
    message: str
    hint: str
    retry_s: float | None = None


class Placing(Protocol):
    """The part of the engine that a resolver uses."""

    producer: ProducerIdentity
    lanes: Roster

    def may_write(self) -> bool: ...
    def inherit(self, run: LaneRun) -> None: ...
    def place(self, run: LaneRun) -> None: ...


class Resolver:
    """Places lanes. `add` a lane whenever its place is in doubt; `run()` is a coroutine of its own."""

    def __init__(
        self,
        engine: Placing,
        source: SourceRoutes,
        target: TargetRoutes,
        *,
        settle_s: float,
        doubt: Doubt = USUAL_DOUBT,
        maps: MapStore | None = None,
    ) -> None:
        self._engine = engine
        self._source = source
        self._target = target
        self._ends = Ends(source, target, engine.producer, settle_s=settle_s, doubt=doubt)
        self._places = Places(source, target, engine.producer, maps, settle_s=settle_s, doubt=doubt)
        self._due: dict[LaneRun, float] = {}
        self._looked_at: set[LaneRun] = set()
        self._wake = asyncio.Event()

    def __contains__(self, run: LaneRun) -> bool:
        """Whether the lane's place is being looked for, or is due to be."""
        return run in self._due or run in self._looked_at

    def add(self, run: LaneRun, delay_s: float = 0.0) -> None:
        """Look for the lane's place, not before `delay_s` from now."""
        run.doubt()
        if not run.is_over:
            self._due[run] = time.monotonic() + delay_s
            self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Resolve until cancelled. Lanes led by the same brokers are looked at together, so that a broker that does not
        answer delays no other lanes.
        """
        async with asyncio.TaskGroup() as tasks:
            while True:
                now = time.monotonic()
                # Drop lanes that have ended since they were added.
                self._due = {run: at for run, at in self._due.items() if not run.is_over}
                # A lane waits while a former run of its key is looked at.
                busy = {run.lane.key for run in self._looked_at}
                free = {run: at for run, at in self._due.items() if run.lane.key not in busy}
                due = [run for run, at in free.items() if at <= now]
                if not due or not self._engine.may_write():
                    await self._rest(min(free.values(), default=None), has_due=bool(due))
                    continue
                for run in due:
                    del self._due[run]
                # While a request is in flight the log may grow, and the lane's position with it.
                waiting = [run for run in due if run.is_writing or not self._engine.lanes.is_alone(run)]
                for run in waiting:
                    self.add(run, RETRY_S / 10)
                ready = [run for run in due if run not in waiting]
                for run in ready:
                    self._engine.inherit(run)
                for nodes, runs in self._group_by_leaders(ready).items():
                    self._looked_at.update(runs)
                    tasks.create_task(self._find_leaders(runs) if nodes is None else self._resolve(runs))

    async def _rest(self, next_at: float | None, *, has_due: bool) -> None:
        """Wait until a lane is due, or until `wake`."""
        self._wake.clear()
        # Wait for permission to write as well: a look before would be out of date by then.
        timeout = None if next_at is None else max(next_at - time.monotonic(), RETRY_S if has_due else 0.0)
        # Not `wait_for`: before Python 3.12 it forgets that it was cancelled if it is woken at that moment.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake.wait()

    def _group_by_leaders(self, runs: Iterable[LaneRun]) -> dict[tuple[int, int] | None, list[LaneRun]]:
        """Group lanes by the brokers that lead them on both sides, `None` where one of these is not known."""
        found: dict[tuple[int, int] | None, list[LaneRun]] = {}
        for run in runs:
            source, target = self._source.leader(*run.source), self._target.leader(*run.target)
            nodes = None if source is None or target is None else (source.node_id, target.node_id)
            found.setdefault(nodes, []).append(run)
        return found

    async def look_on(self, runs: Iterable[LaneRun]) -> None:
        """Note the log ends of the targets of mapped lanes that rest."""
        await self._places.look_on(runs, self._engine.may_write)

    async def warm_up(self, runs: list[LaneRun]) -> None:
        """Find the leaders and connect to them, so that the first look takes one round trip."""
        await self._freshen_both(runs)
        for routes in (self._source, self._target):
            nodes = {leader.node_id for run in runs for leader in (self._leader(routes, run),) if leader is not None}
            await asyncio.gather(*(routes.client.connection(node) for node in nodes), return_exceptions=True)

    def _leader(self, routes: Routes[Any], run: LaneRun) -> Leader | None:
        return routes.leader(*(run.source if routes is self._source else run.target))

    async def _freshen_both(self, runs: list[LaneRun]) -> None:
        await asyncio.gather(
            _freshen(self._source, [run.source for run in runs]), _freshen(self._target, [run.target for run in runs])
        )

    async def _find_leaders(self, runs: list[LaneRun]) -> None:
        """Ask both clusters for the leaders of these lanes, and make the lanes due again."""
        try:
            await self._freshen_both(runs)
            for run in self.check(runs):
                if run not in self._due:
                    self.add(run)
        finally:
            self._release(runs)

    async def _resolve(self, runs: list[LaneRun]) -> None:
        """Look at lanes that the same brokers lead, and place those whose log end is believed."""
        try:
            await self._look_at(self.check(runs))
        finally:
            self._release(runs)

    def _release(self, runs: list[LaneRun]) -> None:
        self._looked_at.difference_update(runs)
        self._wake.set()

    async def _look_at(self, runs: list[LaneRun]) -> None:
        looks, limits = await asyncio.gather(
            self._target.ask((run.target for run in runs), self._look),
            self._source.ask((run.source for run in runs), bounds),
        )
        ready: list[LaneRun] = []
        mapped: list[Look] = []
        for run in runs:
            seen, limit = looks.get(run.target), limits.get(run.source)
            if isinstance(seen, LogLook) and isinstance(limit, Bounds):
                run.source_log.look(limit, time.monotonic(), is_whole=run.transactions.is_whole)
                if run.lane.is_mapped:
                    mapped.append(Look(run, seen, limit))
                elif (delay_s := self._ends.looked(run, seen)) is None:
                    ready.append(run)
                else:
                    self.add(run, delay_s)
            else:
                self._handle_missing_answers(run, seen, limit)
        # New mapped lanes are apart: their place is read from the ledger, and the search may take long.
        new = [each for each in mapped if each.run.needs_progress]
        begun = [each for each in mapped if not each.run.needs_progress]
        await asyncio.gather(self._place_same(ready), self._place_mapped(begun), self._place_mapped(new))

    async def _place_same(self, runs: list[LaneRun]) -> None:
        believed = set(await self._ends.check(runs))
        for run in runs:
            if run in self._due:
                # Its place came into doubt during the look, which may be out of date.
                continue
            if run in believed:
                self._place(run, self._ends.decided(run))
            else:
                self.add(run, DENIED_RETRY_S if run.state in _SLOW else RETRY_S)

    async def _place_mapped(self, looks: list[Look]) -> None:
        for run, delay_s in (await self._places.find(looks, self._engine.may_write)).items():
            self._place(run, delay_s)

    def _place(self, run: LaneRun, delay_s: float | None) -> None:
        """Place the lane if `delay_s` is `None`, unless it came into doubt or ended; else look again after it."""
        if delay_s is not None:
            self.add(run, delay_s)
        elif run not in self._due and not run.is_over:
            self._engine.place(run)

    def check(self, runs: Iterable[LaneRun]) -> list[LaneRun]:
        """Return the lanes whose topics are as planned and have leaders. The others report the problem."""
        there: list[LaneRun] = []
        for run in [each for each in runs if not each.is_over]:
            absence = self._find_absence(run)
            if absence is None:
                there.append(run)
                continue
            run.fail(absence.state, absence.message, absence.hint)
            if absence.retry_s is not None:
                self.add(run, absence.retry_s)
        return there

    def _find_absence(self, run: LaneRun) -> Absence | None:
        """Find the missing topic, right or leader of a lane; None if all is there."""
        lane = run.lane
        return self._find_absence_at(
            self._source, run, run.source, lane.source_topic_id, LaneState.SOURCE_UNAVAILABLE
        ) or self._find_absence_at(self._target, run, run.target, lane.target_topic_id, LaneState.TARGET_UNAVAILABLE)

    def _find_absence_at(
        self, routes: Routes[TopicT], run: LaneRun, key: tuple[TopicT, int], topic_id: uuid.UUID, state: LaneState
    ) -> Absence | None:
        topic, partition = key
        side = "target" if state is LaneState.TARGET_UNAVAILABLE else "source"
        try:
            routes.check(topic, topic_id)
        except TopicRecreated:
            return Absence(
                LaneState.TOPIC_RECREATED,
                f"the {side} topic {topic} was deleted and created again: its records are others now",
                BEGIN_ANEW
                if side == "target"
                else explain_recreated(run.target[0], self._target.client.cluster, [_held_offsets(run)]),
            )
        except TopicGone:
            return Absence(
                LaneState.TOPIC_RECREATED if side == "target" else LaneState.SOURCE_DELETED,
                f"the {side} topic {topic} was deleted (missing for more than {GONE_AFTER_S:g} s)",
                "Run again to start over with the topics that exist then." if side == "target" else "",
                DENIED_RETRY_S,
            )
        if routes.is_denied(topic):
            return Absence(
                LaneState.NOT_AUTHORIZED,
                f"the {side} does not let us see a topic: {on_topic('DESCRIBE', topic)} is missing",
                grant(on_topic("DESCRIBE", topic), routes.client.cluster.alias),
                DENIED_RETRY_S,
            )
        if routes.leader(topic, partition) is None:
            reason = "" if routes.error is None else f": {routes.error}"
            return Absence(
                state,
                f"{topic}-{partition} has no reachable leader at the {side}{reason}",
                "" if routes.error is None else routes.error.hint,
                DENIED_RETRY_S if isinstance(routes.error, AuthenticationFailed) else RETRY_S,
            )
        return None

    async def _look(
        self, connection: Connection, epochs: dict[TargetTopicPartition, int]
    ) -> dict[TargetTopicPartition, LogLook | int]:
        return await look(connection, epochs, self._engine.producer.producer_id)

    def _handle_missing_answers(self, run: LaneRun, seen: Any, limit: Any) -> None:
        sides: tuple[tuple[Routes[Any], PartitionKey, Any, LaneState, str], ...] = (
            (self._target, run.target, seen, LaneState.TARGET_UNAVAILABLE, "target"),
            (self._source, run.source, limit, LaneState.SOURCE_UNAVAILABLE, "source"),
        )
        for routes, (topic, partition), answer, state, side in sides:
            if isinstance(answer, LogLook | Bounds):
                continue
            routes.forget(topic, partition)
            if isinstance(answer, ClusterError):
                run.fail(state, str(answer), answer.hint)
            elif answer in codes.AUTHORIZATION:
                right = on_topic("READ", topic)
                run.fail(
                    LaneState.NOT_AUTHORIZED,
                    f"the {side} does not allow us to look at {topic}-{partition}: {right} is missing",
                    grant(right, routes.client.cluster.alias),
                )
                self.add(run, DENIED_RETRY_S)
                return
            elif answer is not None:
                run.fail(state, f"the leader of {topic}-{partition} at the {side} says {codes.name_of(answer)}")
            else:
                run.hinder(state, f"no leader of {topic}-{partition} is known at the {side}")
        self.add(run, RETRY_S)


def _held_offsets(run: LaneRun) -> HeldOffsets:
    """The offsets of a lane that the target holds, as far as known."""
    return HeldOffsets(run.lane.partition, run.belief.target_start, run.writer.position)


async def _freshen(routes: Routes[TopicT], keys: list[tuple[TopicT, int]]) -> None:
    routes.watch(topic for topic, _ in keys)
    if routes.is_stale or any(routes.leader(*key) is None for key in keys):
        await routes.refresh()
