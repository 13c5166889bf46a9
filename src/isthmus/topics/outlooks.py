"""Add what was found out about single partitions to what was observed of a link: rules alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from isthmus.engine.outlook import Outlook
from isthmus.kafka.admin.brokers import AllowedOperations, Operation
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.links.pauses import Pauses
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.problem import Problem
from isthmus.topics.observation import ObservedLink
from isthmus.topics.plan import LinkPlan
from isthmus.topics.preflight import PartitionDecision

ValueT = TypeVar("ValueT")
_ALL: Final = frozenset({Operation.READ, Operation.WRITE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The look at one partition: its outlook, and both logs, `None` where they could not be read."""

    outlook: Outlook
    source: LogRange | None = None
    target: LogRange | None = None


def with_seen(observed: ObservedLink, seen: Mapping[LaneKey, Seen]) -> ObservedLink:
    """Return the observation with outlooks, and with the ranges that these belong to."""
    pairs = dict(observed.pairs)
    for key, one in seen.items():
        pair = pairs[key.topic]
        if one.source is not None and one.target is not None:
            pair = replace(
                pair,
                source_ranges={**pair.source_ranges, key.partition: one.source},
                target_ranges={**pair.target_ranges, key.partition: one.target},
            )
        pairs[key.topic] = replace(pair, outlooks={**pair.outlooks, key.partition: one.outlook})
    return replace(observed, pairs=pairs)


def with_places(
    observed: ObservedLink, cursors: Mapping[LaneKey, Cursor], begins: Mapping[LaneKey, int]
) -> ObservedLink:
    """Return the observation with how far mapped partitions are, and the source offsets where others will begin."""
    at, new = _by_topic(cursors), _by_topic(begins)
    pairs = {
        name: replace(pair, cursors=at.get(name, {}), begins=new.get(name, {})) for name, pair in observed.pairs.items()
    }
    return replace(observed, pairs=pairs)


def _by_topic(values: Mapping[LaneKey, ValueT]) -> dict[TargetTopic, dict[int, ValueT]]:
    found: dict[TargetTopic, dict[int, ValueT]] = {}
    for key, value in values.items():
        found.setdefault(key.topic, {})[key.partition] = value
    return found


def with_rights(
    observed: ObservedLink,
    plan: LinkPlan,
    at_source: Mapping[str, AllowedOperations],
    at_target: Mapping[str, AllowedOperations],
) -> ObservedLink:
    """Return the observation with what a run will not be permitted: to read, or to write where there is something to
    write. A mapped partition with records of the link is read at the target, too: that is how its position is found.

    Permissions are by the name at the source, and by that at the target; topics without an answer count as permitted.
    """
    source, target = observed.link.source.alias, observed.link.target.alias
    sources = observed.names.sources
    unreadable = {name for name in observed.pairs if Operation.READ not in at_source.get(sources[name], _ALL)}
    unseen = {name for name in observed.pairs if Operation.READ not in at_target.get(name, _ALL)}
    unwritable = {name for name in observed.pairs if Operation.WRITE not in at_target.get(name, _ALL)}

    def outlook(topic: TargetTopic, decision: PartitionDecision) -> Outlook | None:
        if decision.refusal is not None:
            return None
        if topic in unreadable:
            return _denied_outlook(source, "reading", "READ", sources[topic])
        cursor = observed.pairs[topic].cursors.get(decision.partition)
        if topic in unseen and decision.copied_end is not None and cursor is not None and cursor.has_appended:
            return _denied_outlook(target, "reading", "READ", topic)
        if topic in unwritable and decision.lag_records + decision.prefix > 0:
            return _denied_outlook(target, "writing", "WRITE", topic)
        return None

    return _with_outlooks(observed, plan, unreadable | unseen | unwritable, outlook)


def _denied_outlook(alias: str, what: str, right: str, topic: str) -> Outlook:
    hint = f"Grant {right} on topic {topic} to the principal of {alias}; the lane goes on by itself then."
    return Outlook(
        state=LaneState.NOT_AUTHORIZED, problem=Problem(f"{alias} does not allow {what} topic {topic}", hint)
    )


def with_pauses(observed: ObservedLink, plan: LinkPlan, paused: Pauses) -> ObservedLink:
    """Return the observation with what an operator has paused."""
    topics = {name for name in observed.pairs if paused.covers(name)}
    return _with_outlooks(observed, plan, topics, lambda _, __: Outlook(state=LaneState.PAUSED))


def _with_outlooks(
    observed: ObservedLink,
    plan: LinkPlan,
    topics: Collection[TargetTopic],
    outlook: Callable[[TargetTopic, PartitionDecision], Outlook | None],
) -> ObservedLink:
    pairs = dict(observed.pairs)
    for topic in plan.topics:
        if topic.topic in topics and topic.topic in pairs:
            outlooks = {p.partition: outlook(topic.topic, p) for p in topic.partitions}
            pair = pairs[topic.topic]
            found = {partition: one for partition, one in outlooks.items() if one is not None}
            pairs[topic.topic] = replace(pair, outlooks={**pair.outlooks, **found})
    return replace(observed, pairs=pairs)
