"""How far the lanes of a link are, by its plan and their reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.links.pauses import NO_PAUSES, Pauses
from isthmus.model.links.progress import PartitionProgress, TopicProgress, topic_of
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.state import UNHEARD, ControllerState, LaneEvidence, lane_state
from isthmus.spark.leases.progress import Count, LanePlace
from isthmus.topics.plan import LinkPlan, TopicPlan
from isthmus.topics.preflight import PartitionDecision

_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesView:
    """A controller's knowledge of its lanes at a moment.

    `reports` are their newest and `ages_s` how long ago those were made, `looked_s` how long ago topics were looked at,
    `counts` what the run copied, `places` their last known positions, `paused` what an operator has paused, `link`
    determines the names of topics, `waiting_s` for how long lanes have waited for open transactions. `at_ms` is the
    moment by the wall clock.
    """

    controller: ControllerState
    reports: Mapping[LaneKey, LaneReport]
    counts: Mapping[LaneKey, Count]
    ages_s: Mapping[LaneKey, float]
    paused: Pauses = NO_PAUSES
    places: Mapping[LaneKey, LanePlace] = field(default_factory=dict)
    looked_s: Mapping[TargetTopic, float] = field(default_factory=dict)
    link: Link | None = None
    waiting_s: Mapping[LaneKey, float] = field(default_factory=dict)
    at_ms: int = 0


def topics_of(plan: LinkPlan, view: LanesView) -> tuple[TopicProgress, ...]:
    """Return the topics of a link by its plan and the reports of its lanes."""
    return tuple(_topic(topic, view) for topic in plan.topics)


def _topic(topic: TopicPlan, view: LanesView) -> TopicProgress:
    partitions = (_partition(topic, decision, view) for decision in topic.partitions)
    found = replace(topic_of(topic.topic, topic.source_topic, partitions, view.link), parted=topic.parted)
    if topic.state is LaneState.SOURCE_DELETED:
        return replace(found, state=lane_state(_evidence(topic.topic, topic.state, view)), problem=topic.kept)
    if not topic.reasons:
        return found
    state = lane_state(_evidence(topic.topic, topic.state, view))
    return replace(found, state=state, problem=None if state is LaneState.PAUSED else topic.reasons[0])


def _partition(topic: TopicPlan, decision: PartitionDecision, view: LanesView) -> PartitionProgress:
    key = LaneKey(topic.topic, decision.partition)
    report = view.reports.get(key)
    age_s = view.ages_s.get(key, view.looked_s.get(topic.topic, 0.0) if report is None else 0.0)
    reported: LaneState | None = None
    problem: Problem | None = None
    if topic.reasons:
        reported, problem = topic.state, topic.reasons[0]
    elif decision.refusal is not None:
        reported, problem = decision.state, decision.refusal
    elif report is not None:
        reported, problem = report.state, report.problem
    known = _evidence(topic.topic, reported, view, 0.0 if report is None else age_s)
    state = lane_state(known)
    if known.is_unheard and state is LaneState.STARTING:
        problem = UNHEARD
    source = decision.source
    # A lane that looks for its position does not know both yet: then its last position counts, or else the plan's.
    position, source_end = (-1, -1) if report is None else (report.position, report.decided_end)
    if key in view.places and not state.is_terminal:
        position = view.places[key].position if position < 0 else position
        source_end = view.places[key].source_end if source_end < 0 else source_end
    if source_end < 0 and source is not None:
        source_end = source.stable_end
    count, place = view.counts.get(key, Count(0, 0)), view.places.get(key, LanePlace(-1, -1))
    # Before the lane has its place, the plan knows from the ledger what was left out.
    left_out = decision if place.position < 0 else place
    return PartitionProgress(
        topic=topic.topic,
        partition=decision.partition,
        state=state,
        target_end=_target_end(topic, decision, position),
        copied_end=_copied_end(decision, position) if topic.is_mapped else None,
        proven_end=position if state.is_wrong and not topic.is_mapped else None,
        source_end=source_end,
        source_start=max(decision.first, 0),
        waiting_records=_waiting(report, source),
        waiting_s=view.waiting_s.get(key),
        records=count.records,
        size_bytes=count.size_bytes,
        flags_replaced=place.flags_replaced,
        skipped=left_out.skipped,
        filtered=left_out.filtered,
        problem=None if state is LaneState.PAUSED else problem,
        gaps=() if report is None else report.gaps,
        state_age_s=age_s if state is reported else 0.0,
        source_age_s=max(age_s, _silence_s(report, view)),
        target_age_s=age_s,
    )


def _silence_s(report: LaneReport | None, view: LanesView) -> float:
    """Return for how long a lane that reports has heard nothing of its source."""
    return 0.0 if report is None or report.heard_ms < 0 else (view.at_ms - report.heard_ms) / _MS_PER_S


def _waiting(report: LaneReport | None, source: LogRange | None) -> int:
    """Return how many offsets at the source's end wait for open transactions, by the lane, or else by the plan."""
    if report is not None and 0 <= report.decided_end <= report.source_log_end:
        return report.source_log_end - report.decided_end
    return -1 if source is None else source.end - source.stable_end


def _target_end(topic: TopicPlan, decision: PartitionDecision, position: int) -> int:
    """Return where the target ends, -1 while unknown: the position of a mapped lane is one at the source, and once it
    has moved on the end that was planned with is too old.
    """
    if position < 0:
        return decision.target_end
    if not topic.is_mapped:
        return position
    return decision.target_end if position <= _copied_end(decision, -1) else -1


def _copied_end(decision: PartitionDecision, position: int) -> int:
    """Return up to where a mapped partition was copied, by its lane, or else by the plan."""
    if position >= 0:
        return position
    return -1 if decision.copied_end is None else decision.copied_end


def _evidence(topic: TargetTopic, reported: LaneState | None, view: LanesView, reported_s: float = 0.0) -> LaneEvidence:
    is_over = reported is not None and reported.is_terminal
    return LaneEvidence(
        controller=view.controller,
        ended=reported if is_over else None,
        is_paused=view.paused.covers(topic),
        reported=reported,
        reported_s=reported_s,
    )
