"""Finds where identity lanes continue: at the end of the target's log, once it is believed to be our work."""

from __future__ import annotations

import time
from collections.abc import Sequence

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import SourceRoutes, TargetRoutes
from isthmus.engine.outlook import RETRY_S, USUAL_DOUBT, Doubt, unreplicated
from isthmus.engine.run import LaneRun
from isthmus.engine.same.aborts import OWN_PREFIX
from isthmus.engine.same.judgement import beyond, first_check, gap_before, is_left_at, stopped_by
from isthmus.engine.same.tail import Tails, sight_of
from isthmus.engine.state.writer import LogLook, Placement
from isthmus.errors import ClusterError
from isthmus.kafka.transactions.aborting import transactions_holding
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import TransactionState
from isthmus.model.lane import Gap, LaneState


class Ends:
    """Finds the places of identity lanes: call `looked`, then `check`, then `decided`."""

    def __init__(
        self,
        source: SourceRoutes,
        target: TargetRoutes,
        producer: ProducerIdentity,
        *,
        settle_s: float,
        doubt: Doubt = USUAL_DOUBT,
    ) -> None:
        self._source, self._target = source, target
        self._tails = Tails(source, target, producer)
        self._settle_s = settle_s
        self._doubt = doubt
        self._looked_at: dict[LaneRun, float] = {}
        self._doubts: dict[LaneRun, int] = {}

    def looked(self, run: LaneRun, seen: LogLook) -> float | None:
        """Take a look. Return the seconds after which to look again; `None` if the log's end is known."""
        now = time.monotonic()
        looked_at, held_until = self._looked_at.get(run, now), run.writer.held_until
        # Requests that a broker has not read yet because of a quota arrive when it reads on, however long we waited.
        settled = now - looked_at >= self._settle_s and looked_at >= held_until
        before, was_abandoned = run.writer.position, run.writer.abandoned
        run.transactions.raise_epoch(seen.coordinator_epoch, time.time())
        place = run.writer.looked(seen, settled=settled)
        if place is Placement.READY:
            self._looked_at.pop(run, None)
            run.transactions.look(seen)
            self._believe(run, before, was_abandoned=was_abandoned)
            return None
        if place is Placement.SETTLE:
            self._looked_at[run] = now
            run.hinder(
                LaneState.TARGET_UNAVAILABLE, f"requests that were sent to {run.lane.key} before may still arrive there"
            )
            return max(self._settle_s, held_until - now)
        problem = unreplicated(run.lane.key, seen.log_end, seen.high_watermark)
        run.hinder(LaneState.TARGET_UNAVAILABLE, problem.message, problem.hint)
        return RETRY_S / 2

    def _believe(self, run: LaneRun, before: int, *, was_abandoned: bool) -> None:
        """Decide which check the end of the target's log needs; `before` was the expected end."""
        position, belief = run.writer.position, run.belief
        left, been = belief.left, belief.left or belief.milestone
        belief.look(before)
        if position == before:
            leader = self._source.leader(*run.source)
            if leader is None or leader.epoch != belief.source_epoch:
                # Another leader may have another log.
                belief.doubt()
            return
        if before >= 0:
            # The previous owner's mark counts only at the beginning; later other producers may have written.
            left = been = None
        elif been is not None and position <= been.position:
            run.intake.begin_at(been.position, been.source_epoch)
        check = first_check(left, position, is_in_order=not was_abandoned and not run.lane.doubts)
        belief.expect(check, is_known=is_left_at(been, position))

    async def check(self, runs: Sequence[LaneRun]) -> list[LaneRun]:
        """Return the lanes whose target log ends with our work, and grows by our work alone. The state of the others
        shows whether they end or are looked at again.
        """
        believed = await self._tails.check(runs)
        waiting = await self._await_others([run for run in believed if run.transactions.others_open])
        return [run for run in believed if run not in waiting]

    async def _await_others(self, runs: Sequence[LaneRun]) -> set[LaneRun]:
        """Find the lanes in which a coordinator still has to end a transaction that is not ours, as on a cluster that
        was a leader before: its control record takes an offset at the log's end.
        """
        client = self._target.client
        logs = {run.target: LogRange(0, 0, run.writer.position) for run in runs}
        try:
            found = await transactions_holding(client, logs) if logs else ()
        except ClusterError:
            # Without the right to see them the lane goes on, and notices later.
            return set()
        others = {
            (each.topic, each.partition): each
            for each in found
            if each.state is TransactionState.OPEN and not (each.transactional_id or "").startswith(OWN_PREFIX)
        }
        waiting = {run for run in runs if run.target in others}
        for run in waiting:
            run.fail(
                LaneState.BLOCKED,
                f"the transaction of {others[run.target].owner} is open at the target: nothing is written before it "
                "has ended, as its end takes an offset",
                "Its coordinator ends it when it times out, at the latest; kafka-transactions abort does so at once.",
            )
        return waiting

    def decided(self, run: LaneRun) -> float | None:
        """Return the seconds after which to look again at a believed lane; `None` if it is placed or has ended."""
        position = run.writer.position
        sight = sight_of(run, self._target.client.cluster)
        if sight.is_beyond:
            # The source had no record to compare the end with: compare once it gets that far.
            run.belief.doubt()
            self._doubts[run] = self._doubts.get(run, 0) + 1
            if self._doubts[run] < self._doubt.looks:
                message = f"the source ends at {run.source_log.end}, before {position}"
                if run.belief.beyond is None:
                    run.fail(LaneState.SOURCE_UNAVAILABLE, message)
                else:
                    run.fail(LaneState.STARTING, f"{message}, and another producer may have written: looked at again")
                return self._doubt.pause_s
            state, problem = beyond(sight, run.belief.beyond)
            run.fail(state, problem.message, problem.hint)
            run.disprove(-1)
            return None
        self._doubts.pop(run, None)
        is_held = (
            bool(run.intake.pending) and run.intake.pending[0].batch.base_offset <= position < run.intake.read_offset
        )
        is_beginning = position == 0 or run.missing.prefix is not None
        if position < (run.first if is_beginning else run.source_log.start) and not is_held:
            self._pass_gap(run)
        return None

    def _pass_gap(self, run: LaneRun) -> None:
        """Handle a source that begins above the lane's position: with fillers, with a gap, or by ending the lane."""
        target = self._target.client.cluster
        gap = gap_before(sight_of(run, target), is_filling=run.missing.prefix is not None)
        if gap is None:
            run.missing.fill_prefix(run.first, is_stored=False)
        else:
            pass_gap(run, gap, target)


def pass_gap(run: LaneRun, gap: Gap, target: Cluster) -> None:
    """Record that the source deleted offsets before they were copied. The lane ends unless configured to go on."""
    if run.lane.continues_after_gap:
        run.missing.pass_gap(gap)
        return
    problem = stopped_by(sight_of(run, target), gap)
    run.fail(LaneState.DATA_GAP, problem.message, problem.hint)
