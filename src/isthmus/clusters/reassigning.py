"""Move partitions to other brokers: plan, execute under a throttle, wait, cancel (seed 004)."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.clusters.administration import seen_topics
from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, ConfigError, NotAuthorized, Unreachable
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.admin.partitions import partitions_of
from isthmus.kafka.admin.reassignment import find_throttled, reassign, reassignments, throttle, unthrottle
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.outcomes import Outcomes
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.assignment import Assignment, Move, even_assignments, moves_to
from isthmus.model.text.plain import PlainValue

_LOOK_S: Final = 0.5
_NEWS_S: Final = 10.0
OnMoved = Callable[[int, int], None]
"""Called with the number of moved partitions, and of all."""


class ReassignmentState(enum.StrEnum):
    """How far a partition is."""

    PLANNED = "planned"
    UNDERWAY = "under way"
    MOVED = "moved"
    NOT_NEEDED = "not needed"
    GIVEN_UP = "given up"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment(PlainValue):
    """One partition: the brokers that have it, those that shall, and why it failed if it did."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    state: ReassignmentState
    detail: str = ""

    @classmethod
    def of(cls, move: Move, state: ReassignmentState, detail: str = "") -> Reassignment:
        return cls(
            topic=move.topic,
            partition=move.partition,
            before=move.before,
            after=move.after,
            state=state,
            detail=detail,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentPlan:
    """The current and the wanted assignments of partitions, and the moves between them."""

    before: tuple[Assignment, ...]
    after: tuple[Assignment, ...]
    moves: tuple[Move, ...]


class AsyncReassigning:
    """Reassignments of one cluster. Brokers execute them by themselves."""

    def __init__(self, cluster: Cluster, session: ClientSession) -> None:
        self._cluster = cluster
        self._client = session.client(cluster)

    async def plan(
        self, topics: Collection[str] = (), *, brokers: Collection[int] = (), replicas: int | None = None
    ) -> ReassignmentPlan:
        """Plan an even assignment of all topics, or of those named, to all live brokers, or to those named.

        :raises ConfigError: There is no such topic or broker, or there are fewer brokers than replicas.
        :raises ClusterError: The cluster did not answer.
        """
        racks = await self._find_racks(brokers)
        states = partitions_of(await seen_topics(self._client, topics))
        after = even_assignments(states, racks, replicas=replicas)
        before = tuple(Assignment(state.topic, state.partition, state.replicas) for state in states)
        return ReassignmentPlan(before=before, after=after, moves=moves_to(after, states))

    async def compare(self, assignments: Collection[Assignment]) -> ReassignmentPlan:
        """Plan the moves for these assignments.

        :raises ConfigError: There is no such partition or broker.
        :raises ClusterError: The cluster did not answer.
        """
        await self._find_racks({broker for one in assignments for broker in one.replicas})
        states = partitions_of(await seen_topics(self._client, {one.topic for one in assignments}))
        named = {(one.topic, one.partition) for one in assignments}
        before = tuple(
            Assignment(state.topic, state.partition, state.replicas)
            for state in states
            if (state.topic, state.partition) in named
        )
        return ReassignmentPlan(before=before, after=tuple(assignments), moves=moves_to(assignments, states))

    async def execute(
        self, plan: ReassignmentPlan, *, throttle_bytes_per_s: int | None = None, on_progress: OnMoved = lambda *_: None
    ) -> tuple[Reassignment, ...]:
        """Execute the moves of a plan, wait until they are done, and remove the throttle again.

        Called again after an interruption it waits for moves that are under way, and removes the throttle even if there
        are none. A move that fails does not stop the others.

        :raises NotAuthorized: ALTER on the cluster is missing, or, with a bound, ALTER_CONFIGS.
        :raises ClusterError: The cluster did not answer.
        """
        named = {(one.topic, one.partition): one.replicas for one in plan.after}
        errors = await self._begin(plan, throttle_bytes_per_s)
        waiting = (await reassignments(self._client)).keys() & named.keys() - errors.keys()
        # Partitions whose new brokers are listed already need no move, but may still be under way.
        wanted = sorted({(move.topic, move.partition) for move in plan.moves} | waiting)
        while waiting:
            on_progress(len(wanted) - len(waiting), len(wanted))
            await asyncio.sleep(_LOOK_S)
            waiting &= (await reassignments(self._client)).keys()
        on_progress(len(wanted), len(wanted))
        await self._unbind({topic for topic, _ in named}, may_be_refused=throttle_bytes_per_s is None)
        now = await self._replicas({key: named[key] for key in wanted if key not in errors})
        before = {(one.topic, one.partition): one.replicas for one in plan.before}
        outcomes: list[Reassignment] = []
        for key in wanted:
            move = Move(*key, before.get(key, ()), named[key])
            error = errors.get(key)
            if error is not None:
                outcomes.append(Reassignment.of(move, ReassignmentState.FAILED, error.message))
            elif now.get(key) == move.after:
                outcomes.append(Reassignment.of(move, ReassignmentState.MOVED))
            else:
                shown = ", ".join(map(str, now.get(key, ()))) or "nobody"
                outcomes.append(Reassignment.of(move, ReassignmentState.GIVEN_UP, f"it is on {shown} now"))
        return tuple(outcomes)

    async def _replicas(self, named: Mapping[PartitionKey, tuple[int, ...]]) -> dict[PartitionKey, tuple[int, ...]]:
        """Read the replicas of partitions, once they are those `named`, or after a while: a broker learns of the end of
        a move later than the controller.
        """
        deadline = Deadline(_NEWS_S)
        while True:
            found = partitions_of(await self._client.metadata(sorted({topic for topic, _ in named})))
            now = {(state.topic, state.partition): state.replicas for state in found}
            if all(now.get(key) == replicas for key, replicas in named.items()) or deadline.has_passed:
                return now
            await asyncio.sleep(_LOOK_S)

    async def _begin(
        self, plan: ReassignmentPlan, throttle_bytes_per_s: int | None
    ) -> Mapping[PartitionKey, ClusterError]:
        """Have brokers begin the moves of a plan; return the errors, by partition.

        :raises NotAuthorized: A right is missing; no throttle is left then.
        :raises ClusterError: The cluster did not answer.
        """
        if not plan.moves:
            return {}
        may_have_begun = False
        try:
            if throttle_bytes_per_s is not None:
                await throttle(self._client, plan.moves, throttle_bytes_per_s)
            may_have_begun = True
            return (await reassign(self._client, {(one.topic, one.partition): one.after for one in plan.moves})).errors
        except ClusterError as error:
            # Without an answer brokers may execute all moves, under the throttle; the same call removes it then.
            if not (may_have_begun and isinstance(error, Unreachable)):
                with contextlib.suppress(ClusterError):
                    await self._unbind({one.topic for one in plan.after})
            raise

    async def underway(self) -> tuple[Reassignment, ...]:
        """Return the moves that are under way.

        :raises NotAuthorized: DESCRIBE on the cluster is missing.
        :raises ClusterError: The cluster did not answer.
        """
        return await self._list_underway(())

    async def cancel(self, topics: Collection[str] = (), *, dry_run: bool = False) -> tuple[Reassignment, ...]:
        """Cancel the moves that are under way, of all topics or of those named: partitions stay where they were.

        Throttles of moves are removed, also those that an interrupted call left behind.

        :raises NotAuthorized: ALTER on the cluster is missing.
        :raises ClusterError: The cluster did not answer.
        """
        found = await self._list_underway(topics)
        if dry_run:
            return found
        given_up: Outcomes[PartitionKey, None] = Outcomes()
        if found:
            given_up = await reassign(self._client, {(one.topic, one.partition): None for one in found})
        bounded = await find_throttled(self._client, topics or (await self._client.metadata(None)).topics)
        await self._unbind({*bounded, *(one.topic for one in found)}, may_be_refused=not found and not bounded)
        return tuple(
            Reassignment(
                topic=one.topic,
                partition=one.partition,
                before=one.before,
                after=one.after,
                state=ReassignmentState.FAILED if (error := given_up.errors.get(key)) else ReassignmentState.GIVEN_UP,
                detail=error.message if error else "",
            )
            for one in found
            for key in [(one.topic, one.partition)]
        )

    async def _unbind(self, topics: Collection[str], *, may_be_refused: bool = False) -> None:
        """Remove the throttles of moves from these topics and from all brokers. Topics that still move keep theirs: the
        call that waits for the last move removes those of the brokers, which throttle nothing without topics.

        :raises NotAuthorized: ALTER_CONFIGS is missing, unless it `may_be_refused`: such a login has set no throttle.
        :raises ClusterError: A broker rejected it.
        """
        moving = {topic for topic, _ in await reassignments(self._client)}
        brokers = () if moving else (await describe_cluster(self._client)).brokers
        try:
            await unthrottle(self._client, set(topics) - moving, brokers)
        except NotAuthorized:
            if not may_be_refused:
                raise

    async def _find_racks(self, brokers: Collection[int]) -> dict[int, str | None]:
        """Return the racks of live brokers, of all or of those named.

        :raises ConfigError: One of those named is not live.
        """
        live = (await describe_cluster(self._client)).brokers
        missing = sorted(set(brokers) - live.keys())
        if missing:
            raise ConfigError(
                f"{self._cluster.alias} has no live broker {', '.join(map(str, missing))}",
                hint=f"Live brokers are {', '.join(map(str, sorted(live)))}.",
            )
        return {node: broker.rack for node, broker in sorted(live.items()) if not brokers or node in brokers}

    async def _list_underway(self, topics: Collection[str]) -> tuple[Reassignment, ...]:
        under_way = await reassignments(self._client)
        if not under_way:
            return ()
        states = partitions_of(await self._client.metadata(sorted({topic for topic, _ in under_way})))
        replicas = {(state.topic, state.partition): state.replicas for state in states}
        return tuple(
            Reassignment(
                topic=key[0],
                partition=key[1],
                # Until all new brokers have it, both old and new ones are replicas; the old ones come last.
                before=tuple(broker for broker in replicas.get(key, ()) if broker not in its.adding),
                after=tuple(broker for broker in replicas.get(key, ()) if broker not in its.removing),
                state=ReassignmentState.UNDERWAY,
            )
            for key, its in sorted(under_way.items())
            if not topics or key[0] in topics
        )
