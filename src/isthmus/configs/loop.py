"""The configurations of target topics follow those of the source (docs/configs.md)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from isthmus.configs.properties import CONFIGS_LOOP, PropertyChange, property_changes
from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.configs import alter_topic_configs
from isthmus.kafka.admin.topics import describe_topics
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.outcomes import Outcomes
from isthmus.loops.loop import LinkView
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem, problem_of
from isthmus.topics.creation import FILLING
from isthmus.topics.plan import TopicPlan
from isthmus.topics.preflight import is_compacted

_TOPICS_AT_ONCE: Final = 200
_MAY_BE_ONE_VALUE: Final = frozenset({codes.INVALID_REQUEST, codes.INVALID_CONFIG, codes.POLICY_VIOLATION})
"""Refusals of a whole topic for which one of its values may be the reason."""
_POLICY: Final = "cleanup.policy"
_RETENTION: Final = frozenset({"retention.ms", "retention.bytes"})
_LATER: Final = Problem(
    "the target is compacted as the source is when the records from before are copied: a compacted topic takes none "
    "without a key",
    "Nothing needs to be done: it is set as soon as they are there.",
)
_ONLY_HERE: Final = Problem(
    "only the target deletes old records: the source, which is compacted, has a retention without a meaning",
    "Nothing needs to be done. To silence this, add it to configs.exclude of the link.",
)
Values = Mapping[str, str | None]


class ConfigsLoop:
    """Sets the source's values at the target, except for excluded and kept ones, and those that lanes depend on."""

    name = CONFIGS_LOOP

    def __init__(self) -> None:
        # The log ends of the source when it was first found compacted and the target was not.
        self._held: dict[tuple[TargetTopic, uuid.UUID], dict[LaneKey, int]] = {}

    def is_awaited(self, view: LinkView) -> bool:
        """Whether a policy that waited for records can be set now."""
        return any(_has_reached(view, ends) for ends in self._held.values())

    def interval_s(self, link: Link) -> float | None:
        return None if link.configs.sync is False else link.configs.interval_s

    async def look(self, view: LinkView) -> Sequence[Change]:
        topics = [topic for topic in view.plan.topics if _is_synced(topic, view.link)]
        source, target = await _describe_both(view, topics)
        changes: list[PropertyChange] = []
        for topic in topics:
            error = source.errors.get(topic.source_topic) or target.errors.get(topic.topic)
            theirs, ours = source.values.get(topic.source_topic), target.values.get(topic.topic)
            if error is not None:
                changes.append(_build_failure(topic, error))
            elif theirs is not None and ours is not None:
                found = property_changes(theirs, ours, view.link.configs)
                timely = [await self._delay_policy(view, topic, theirs, change) for change in found]
                changes.extend(_keep_retention(timely, theirs, ours, view.link.configs))
        # Drop log ends that no policy waits for any more.
        later = {change.topic for change in changes if change.problem is _LATER}
        self._held = {key: ends for key, ends in self._held.items() if key[0] in later}
        return changes

    async def _delay_policy(
        self, view: LinkView, topic: TopicPlan, source: TopicDescription, change: PropertyChange
    ) -> PropertyChange:
        """Return the change, or delay it while records from before are still to be copied and would be rejected then: a
        compacted topic takes no record without a key.
        """
        key = topic.topic, source.topic_id
        begins = change.setting == _POLICY and is_compacted(source) and "compact" not in (change.before or "")
        if not begins or change.problem is not None:
            return change
        ends = self._held.pop(key, {})
        lanes = {(each.source_topic, each.partition): each.key for each in topic.lanes}
        found = await log_ranges(view.source, lanes) if lanes else Outcomes()
        # Records that the source has lost since do not come.
        ends.update(
            (lanes[place], min(ends.get(lanes[place], log.end), log.end)) for place, log in found.values.items()
        )
        if len(ends) >= len(lanes):
            if _has_reached(view, ends):
                return change
            self._held[key] = ends
        return replace(change, problem=_LATER, is_by_design=True)

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        ours = [change for change in changes if isinstance(change, PropertyChange)]
        left = [change for change in changes if change.has_failed]
        wanted: dict[TargetTopic, dict[str, PropertyChange]] = {}
        for change in ours:
            if change.problem is None:
                wanted.setdefault(change.topic, {})[change.setting] = change
        errors = await _set(
            view.target,
            {topic: {name: change.after for name, change in own.items()} for topic, own in wanted.items()},
        )
        left += [replace(wanted[topic][name], problem=problem_of(error)) for (topic, name), error in errors.items()]
        return left


def _keep_retention(
    changes: Sequence[PropertyChange], source: TopicDescription, target: TopicDescription, settings: ConfigSettings
) -> Sequence[PropertyChange]:
    """Return the changes of a topic such that the target deletes nothing that its source keeps: while the policy waits
    the retention waits too, and is unlimited until then; and where only the target deletes, the retention of the
    source has no meaning.
    """
    waits = any(change.problem is _LATER for change in changes)
    policy = next((change.after for change in changes if change.setting == _POLICY and change.problem is None), None)
    deletes = "delete" in (target.cleanup_policy if policy is None else policy).split(",")
    if not waits and (not deletes or "delete" in source.cleanup_policy.split(",")):
        return changes
    why = _LATER if waits else _ONLY_HERE
    kept = [
        replace(change, problem=why, is_by_design=True) if change.problem is None and _keeps_less(change) else change
        for change in changes
    ]
    return [*_lift_retention(kept, source, target, settings)] if waits else kept


def _lift_retention(
    changes: Sequence[PropertyChange], source: TopicDescription, target: TopicDescription, settings: ConfigSettings
) -> Iterator[PropertyChange]:
    """Yield the changes, and those that make the retention of the target unlimited until its policy is set."""
    topic = SourceTopic(source.name)
    free = {name for name in _RETENTION if not settings.is_excluded(name) and not settings.keeps(topic, name)}
    due = {name for name in free if target.own_configs.get(name) != FILLING[name]}
    yield from (change for change in changes if change.setting not in due)
    for name in sorted(due):
        yield PropertyChange(
            loop=CONFIGS_LOOP,
            subject=f"topic {target.name}",
            setting=name,
            before=target.value(name),
            after=FILLING[name],
            topic=TargetTopic(target.name),
        )


def _keeps_less(change: PropertyChange) -> bool:
    """Whether a target with the delete policy would keep less, or may, as the default of its brokers is unknown."""
    if change.setting not in _RETENTION:
        return False
    before, after = int(change.before or -1), 0 if change.after is None else int(change.after)
    return after >= 0 and (before < 0 or after < before)


def _has_reached(view: LinkView, ends: Mapping[LaneKey, int]) -> bool:
    """Whether all lanes have copied up to these ends; a lane without a report has not."""
    return all(key in view.reports and view.reports[key].position >= end for key, end in ends.items())


def _is_synced(topic: TopicPlan, link: Link) -> bool:
    """Whether a topic is copied, and not configured for filling, which ends by itself. That is unknown for a topic that
    was to be created: it may have come late, or belong to others.
    """
    is_filling = topic.is_filling or bool(topic.settles) or topic.creation is not None
    return bool(topic.lanes) and not is_filling and link.configs.covers(is_mapped=topic.is_mapped)


async def _describe_both(
    view: LinkView, topics: Sequence[TopicPlan]
) -> tuple[Outcomes[str, TopicDescription], Outcomes[str, TopicDescription]]:
    """Describe the topics at the source and at the target."""
    if view.pairs is None:
        return await asyncio.gather(
            _describe_topics(view.source, [topic.source_topic for topic in topics]),
            _describe_topics(view.target, [topic.topic for topic in topics]),
        )
    pairs = [view.pairs[topic.topic] for topic in topics if topic.topic in view.pairs]
    there = [pair.target for pair in pairs if pair.target is not None]
    return Outcomes({pair.source.name: pair.source for pair in pairs}), Outcomes({each.name: each for each in there})


def _build_failure(topic: TopicPlan, error: ClusterError) -> PropertyChange:
    return PropertyChange(
        loop=CONFIGS_LOOP,
        subject=f"topic {topic.topic}",
        setting="configuration",
        before=None,
        after=None,
        problem=problem_of(error),
        topic=topic.topic,
    )


async def _describe_topics(client: Client, names: Collection[str]) -> Outcomes[str, TopicDescription]:
    if not names:
        return Outcomes()
    metadata = await client.metadata(sorted(names))
    return await describe_topics(client, metadata.topics.values())


async def _set(target: Client, wanted: Mapping[TargetTopic, Values]) -> dict[tuple[TargetTopic, str], ClusterError]:
    """Set values; return the errors, by topic and name."""
    errors: dict[TargetTopic, ClusterError] = {}
    names = sorted(wanted)
    for begin in range(0, len(names), _TOPICS_AT_ONCE):
        outcome = await alter_topic_configs(
            target, {name: wanted[name] for name in names[begin : begin + _TOPICS_AT_ONCE]}
        )
        errors.update((TargetTopic(name), error) for name, error in outcome.errors.items())
    refused: dict[tuple[TargetTopic, str], ClusterError] = {}
    for topic, error in errors.items():
        values = wanted[topic]
        if len(values) > 1 and isinstance(error, BrokerRefused) and error.code in _MAY_BE_ONE_VALUE:
            refused.update(await _set_one_by_one(target, topic, values))
        else:
            refused.update({(topic, name): error for name in values})
    return refused


async def _set_one_by_one(
    target: Client, topic: TargetTopic, values: Values
) -> dict[tuple[TargetTopic, str], ClusterError]:
    """Set values one by one: brokers take all values of a topic or none, and one must not stop the others."""
    refused = {}
    for name, value in values.items():
        outcome = await alter_topic_configs(target, {topic: {name: value}})
        for error in outcome.errors.values():
            refused[topic, name] = error
    return refused
