"""Reads the ends of both logs for many lanes at once, and compares them by the rules of `judgement`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import Routes, SourceRoutes, TargetRoutes
from isthmus.engine.run import LaneRun
from isthmus.engine.same.judgement import (
    Judgement,
    Sight,
    Weight,
    among_fillers,
    compare,
    foreign,
    lost,
    may_be_let_go,
    unanswered,
    undecodable,
    weigh,
    weigh_beyond,
    written_beyond,
)
from isthmus.engine.state.belief import TailCheck
from isthmus.errors import ClusterError, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log.fetch import Want
from isthmus.kafka.log.listoffsets import READ_COMMITTED, READ_UNCOMMITTED, Offset, epoch_ends
from isthmus.kafka.log.tail import UNTOLD, Found, NoBatch, batches_at
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.rights import on_topic
from isthmus.model.lane import Lane, LaneKey, LaneState, Milestone
from isthmus.model.naming import SourceTopicPartition, TargetTopicPartition, TopicT


class TailLook(NamedTuple):
    """A lane whose end is in doubt: its sight, and the check that its end needs.

    If it has a `milestone` before its end, the source is asked whether it still has the records up to there.
    """

    lane: Lane
    sight: Sight
    check: TailCheck
    milestone: Milestone | None = None


class Judged(NamedTuple):
    """The result of a look: the sight, completed from the target's log, and the judgement."""

    sight: Sight
    judgement: Judgement


class Tails:
    """Looks at the last batches of many lanes at once. Without a `producer` no batch is known to be ours."""

    def __init__(self, source: SourceRoutes, target: TargetRoutes, producer: ProducerIdentity | None) -> None:
        self._source = source
        self._target = target
        self._ours = () if producer is None else (producer.producer_id, producer.marker_producer_id)

    async def check(self, runs: Sequence[LaneRun]) -> list[LaneRun]:
        """Return the lanes whose target is believed. The state of the others shows whether they end or are retried."""
        doubted = [run for run in runs if run.belief.check is not TailCheck.DONE and run.writer.position > 0]
        cluster = self._target.client.cluster
        leaders = {run: self._source.leader(*run.source) for run in runs}
        judged = await self.judge(
            [TailLook(run.lane, sight_of(run, cluster), run.belief.check, run.belief.milestone) for run in doubted]
        )
        unsure: set[LaneRun] = set()
        for run in doubted:
            sight, judgement = judged[run.lane.key]
            run.transactions.begin_ending(judgement.ending)
            run.belief.compare(judgement.source_epoch, judgement.beyond, sight.target_start)
            if judgement.has_fillers:
                run.missing.fill_prefix(run.first, is_stored=True)
            if judgement.state is not None and judgement.problem is not None:
                run.fail(judgement.state, judgement.problem.message, judgement.problem.hint)
                if judgement.state.is_terminal:
                    run.disprove(judgement.proven_end)
                unsure.add(run)
        believed = [run for run in runs if run not in unsure]
        for run in believed:
            leader = leaders[run]
            # A source that ends before the target has no record to compare yet.
            if not sight_of(run, cluster).is_beyond and leader is not None:
                run.belief.believe(leader.epoch)
        return believed

    async def judge(self, looks: Iterable[TailLook]) -> dict[LaneKey, Judged]:
        """Read the last batches at the target, and at the source those that have to be compared.

        A failover that lets go of a copy aborts all open transactions of a partition at once. So where such an end is
        the last record, the record before it is compared as well.
        """
        every = {look.lane.key: look for look in looks}
        judged, befores = await self._judge_last(every)
        while befores:
            before, befores = await self._judge_last(befores)
            judged |= {key: each for key, each in before.items() if each.judgement.state is not None}
        return judged | await self._find_foreign_before(every, judged)

    async def _judge_last(
        self, every: Mapping[LaneKey, TailLook]
    ) -> tuple[dict[LaneKey, Judged], dict[LaneKey, TailLook]]:
        """Judge lanes by their last records. Return also those that have to be looked at one record before."""
        judged = await self._find_lost(every.values())
        tails = await _read_batches(
            self._target, {(k.topic, k.partition): _want_target(look) for k, look in every.items()}
        )
        doubted: dict[LaneKey, tuple[TailLook, Batch]] = {}
        for key, look in every.items():
            outcome = self._judge_target_end(look, tails[key])
            if key in judged:
                # A lane whose source has lost records may have foreign writes too: these are shown to the operator.
                is_foreign = isinstance(outcome, Judged) and outcome.judgement.state is LaneState.FOREIGN_WRITE
                judged[key] = outcome if is_foreign and isinstance(outcome, Judged) else judged[key]
            elif isinstance(outcome, Judged):
                judged[key] = outcome
            else:
                doubted[key] = outcome
        wants: dict[SourceTopicPartition, Want] = {_source(look): _want_source(look) for look, _ in doubted.values()}
        sources = await _read_batches(self._source, wants, READ_COMMITTED)
        # Only a lane that is or was whole has copied records of open transactions.
        undecided = {
            key: wants[key]
            for key, look in ((_source(look), look) for look, _ in doubted.values())
            if sources[key] is UNTOLD and (look.lane.is_whole or look.sight.position > look.sight.source.stable_end)
        }
        sources |= await _read_batches(self._source, undecided)
        befores: dict[LaneKey, TailLook] = {}
        for key, (look, batch) in doubted.items():
            is_decided = _source(look) not in undecided
            judged[key] = self._judge_by_source(look, batch, sources[_source(look)], is_decided=is_decided)
            if judged[key].judgement.state is None and may_be_let_go(batch) and look.sight.position > 1:
                sight = replace(look.sight, position=look.sight.position - 1)
                befores[key] = TailLook(look.lane, sight, TailCheck.CONTENT)
        return judged, befores

    async def _find_foreign_before(
        self, looks: Mapping[LaneKey, TailLook], judged: Mapping[LaneKey, Judged]
    ) -> dict[LaneKey, Judged]:
        """Among the lanes whose target ends beyond the source with their own records, find those where other producers
        wrote first: our requests in flight were appended behind them.
        """
        own = {
            key: each.sight
            for key, each in judged.items()
            if each.sight.is_beyond
            and each.judgement.state in (None, LaneState.DIVERGED)
            and each.judgement.beyond is None
        }
        # Records up to `believed_end` are the source's, whichever producer wrote them.
        begins = {key: max(sight.source.stable_end, sight.believed_end) for key, sight in own.items()}
        wants: dict[TargetTopicPartition, Want] = {
            (key.topic, key.partition): Want(looks[key].lane.target_topic_id, begin, -1, -1)
            for key, begin in begins.items()
            if begin < own[key].position
        }
        found: dict[LaneKey, Judged] = {}
        for (topic, partition), first in (await _read_batches(self._target, wants)).items():
            key = LaneKey(topic, partition)
            if isinstance(first, ClusterError):
                found[key] = Judged(own[key], unanswered(first, LaneState.TARGET_UNAVAILABLE))
            elif not isinstance(first.batch, NoBatch):
                weight, written = weigh_beyond(own[key], self._ours, first.batch), written_beyond(own[key], first.batch)
                if weight is Weight.FOREIGN:
                    found[key] = Judged(own[key], foreign(written))
                elif weight is Weight.UNCLEAR and own[key].believed_end < 0 and not first.batch.is_transactional:
                    found[key] = Judged(own[key], Judgement(beyond=written))
        return found

    async def _find_lost(self, looks: Iterable[TailLook]) -> dict[LaneKey, Judged]:
        """Find the lanes whose source has lost records copied before their milestones, or does not answer."""
        asked: dict[SourceTopicPartition, tuple[TailLook, Milestone]] = {}
        for look in looks:
            if look.milestone is not None and look.milestone.position < look.sight.position:
                asked[look.lane.source_topic, look.lane.partition] = look, look.milestone
        epochs = {key: milestone.source_epoch for key, (_, milestone) in asked.items()}
        ends = await self._source.ask(asked, lambda connection, led: epoch_ends(connection, led, epochs))
        judged: dict[LaneKey, Judged] = {}
        for key, (look, milestone) in asked.items():
            judgement = _judge_epoch_end(look, milestone, ends.get(key, UNTOLD))
            if judgement is not None:
                judged[look.lane.key] = Judged(look.sight, judgement)
        return judged

    def _judge_target_end(self, look: TailLook, found: Found) -> Judged | tuple[TailLook, Batch]:
        """Judge by the end of the target's log alone, or return the batch that has to be compared."""
        sight = look.sight
        if isinstance(found, ClusterError):
            return Judged(sight, unanswered(found, LaneState.TARGET_UNAVAILABLE))
        sight = replace(sight, target_start=max(found.log_start, 0))
        try:
            weight = weigh(sight, look.check, self._ours, found.batch)
        except ValueError as error:
            return Judged(sight, undecodable(error))
        if not isinstance(found.batch, NoBatch):
            if weight is Weight.DOUBTED:
                return look._replace(sight=sight), found.batch
            if weight is Weight.FOREIGN:
                return Judged(sight, foreign(written_beyond(sight, found.batch)))
            if weight is Weight.MIXED:
                return Judged(sight, foreign(among_fillers(sight)))
            if weight is Weight.UNCLEAR:
                return Judged(sight, Judgement(beyond=written_beyond(sight, found.batch)))
        return Judged(sight, Judgement(has_fillers=weight is Weight.FILLERS))

    def _judge_by_source(self, look: TailLook, batch: Batch, found: Found, *, is_decided: bool) -> Judged:
        """Judge by comparing the end of the target's log with the source."""
        if isinstance(found, ClusterError):
            return Judged(look.sight, unanswered(found, LaneState.SOURCE_UNAVAILABLE))
        if batch.is_control and not is_decided and isinstance(found.batch, Batch) and not found.batch.is_control:
            # A control record may stand for aborted data, and the source does not show yet whether this is aborted.
            return Judged(look.sight, unanswered(UNTOLD, LaneState.SOURCE_UNAVAILABLE))
        return Judged(look.sight, compare(look.sight, self._ours, batch, found.batch, is_aborted=found.is_aborted))


def sight_of(run: LaneRun, target: Cluster) -> Sight:
    """Build the sight of an engine's lane."""
    return Sight(
        key=run.lane.key,
        target=target,
        position=run.writer.position,
        source=run.source_log.bounds,
        target_start=run.belief.target_start,
        begin=run.lane.begin_offset,
        is_compacted=run.lane.is_compacted,
        is_known=run.belief.is_known,
        believed_end=run.belief.believed_end,
        is_filling=run.missing.prefix is not None,
    )


def _judge_epoch_end(look: TailLook, milestone: Milestone, end: Offset | ClusterError) -> Judgement | None:
    if isinstance(end, UnsupportedByBroker):
        return None
    if isinstance(end, ClusterError):
        return unanswered(end, LaneState.SOURCE_UNAVAILABLE)
    if end.error_code != codes.NONE:
        topic, partition = look.lane.source_topic, look.lane.partition
        what = f"asking where leader epoch {milestone.source_epoch} of {topic}-{partition} ends"
        error = codes.error_for(end.error_code, what, on_topic("DESCRIBE", topic))
        return unanswered(error, LaneState.SOURCE_UNAVAILABLE)
    return lost(look.sight, milestone, end.offset)


def _source(look: TailLook) -> SourceTopicPartition:
    return look.lane.source_topic, look.lane.partition


def _want_target(look: TailLook) -> Want:
    return Want(look.lane.target_topic_id, look.sight.position - 1, -1, -1)


def _want_source(look: TailLook) -> Want:
    return Want(look.lane.source_topic_id, look.sight.position - 1, -1, -1)


async def _read_batches(
    routes: Routes[TopicT], wants: Mapping[tuple[TopicT, int], Want], isolation: int = READ_UNCOMMITTED
) -> dict[tuple[TopicT, int], Found]:
    answers = await routes.ask(
        wants,
        lambda connection, epochs: batches_at(
            connection, {key: wants[key]._replace(leader_epoch=epoch) for key, epoch in epochs.items()}, isolation
        ),
    )
    return {key: answers.get(key, UNTOLD) for key in wants}
