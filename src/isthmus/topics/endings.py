"""Partitions that have ended for good, as the ledger remembers over runs: groups are carried onto none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isthmus.ledger.documents.kinds import EndedPartition
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.topics.plan import TopicPlan


def ended_partitions(
    topic: TopicPlan, before: Iterable[EndedPartition], reports: Mapping[LaneKey, LaneReport]
) -> tuple[EndedPartition, ...]:
    """Return the ended partitions of a topic, given those of `before`: a partition stays ended until it is active
    again. Of a lane that was not heard since, or is still looking for its position, nothing new is known.
    """
    known = {each.partition: each for each in before}
    for decision in topic.partitions:
        number, report = decision.partition, reports.get(LaneKey(topic.topic, decision.partition))
        if decision.refusal is not None and decision.state.is_terminal:
            known[number] = EndedPartition(partition=number, state=str(decision.state), problem=decision.refusal)
        elif report is not None and report.state.is_terminal:
            known[number] = EndedPartition(partition=number, state=str(report.state), problem=report.problem)
        elif report is not None and report.state is LaneState.ACTIVE:
            known.pop(number, None)
    return tuple(known[number] for number in sorted(known))
