"""The configurations of target topics follow those of the source (docs/configs.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from isthmus.cluster.configs import alter_topic_configs
from isthmus.cluster.outcomes import Outcomes
from isthmus.cluster.topics import describe_topics
from isthmus.control.loops.loop import LinkView
from isthmus.control.loops.properties import CONFIGS_LOOP, PropertyChange, property_changes
from isthmus.control.topics.plan import TopicPlan
from isthmus.errors import BrokerRefused, ClusterError
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import problem_of
from isthmus.model.topic import TopicDescription
from isthmus.wire import codes
from isthmus.wire.client import Client

_TOPICS_AT_ONCE: Final = 200
_MAY_BE_ONE_VALUE: Final = frozenset({codes.INVALID_REQUEST, codes.INVALID_CONFIG, codes.POLICY_VIOLATION})
"""Refusals of a whole topic for which one of its values may be the reason."""
Values = Mapping[str, str | None]


class ConfigsLoop:
    """Sets at the target what the source has, but for what is excluded, what is kept, and what lanes depend on."""

    name = CONFIGS_LOOP

    def interval_s(self, link: Link) -> float | None:
        return None if link.configs.sync is False else link.configs.interval_s

    async def look(self, view: LinkView) -> Sequence[Change]:
        topics = [topic for topic in view.plan.topics if _is_synced(topic, view.link)]
        source, target = await _both_described(view, topics)
        changes: list[Change] = []
        for topic in topics:
            error = source.errors.get(topic.source_topic) or target.errors.get(topic.topic)
            theirs, ours = source.values.get(topic.source_topic), target.values.get(topic.topic)
            if error is not None:
                changes.append(_unseen(topic, error))
            elif theirs is not None and ours is not None:
                changes.extend(property_changes(theirs, ours, view.link.configs))
        return changes

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        ours = [change for change in changes if isinstance(change, PropertyChange)]
        left: list[Change] = [
            change
            for change in changes
            if change.problem is not None and not (isinstance(change, PropertyChange) and change.is_by_design)
        ]
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


def _is_synced(topic: TopicPlan, link: Link) -> bool:
    """Whether a topic is copied, and its configuration is not just that of filling, which ends by itself."""
    is_filling = topic.is_filling or bool(topic.settles)
    return bool(topic.lanes) and not is_filling and link.configs.covers(is_mapped=topic.is_mapped)


async def _both_described(
    view: LinkView, topics: Sequence[TopicPlan]
) -> tuple[Outcomes[str, TopicDescription], Outcomes[str, TopicDescription]]:
    """The topics as they are at the source and at the target."""
    if view.pairs is None:
        return await asyncio.gather(
            _described(view.source, [topic.source_topic for topic in topics]),
            _described(view.target, [topic.topic for topic in topics]),
        )
    pairs = [view.pairs[topic.topic] for topic in topics if topic.topic in view.pairs]
    there = [pair.target for pair in pairs if pair.target is not None]
    return Outcomes({pair.source.name: pair.source for pair in pairs}), Outcomes({each.name: each for each in there})


def _unseen(topic: TopicPlan, error: ClusterError) -> PropertyChange:
    return PropertyChange(
        loop=CONFIGS_LOOP,
        subject=f"topic {topic.topic}",
        setting="configuration",
        before=None,
        after=None,
        problem=problem_of(error),
        topic=topic.topic,
    )


async def _described(client: Client, names: Collection[str]) -> Outcomes[str, TopicDescription]:
    if not names:
        return Outcomes()
    metadata = await client.metadata(sorted(names))
    return await describe_topics(client, metadata.topics.values())


async def _set(target: Client, wanted: Mapping[TargetTopic, Values]) -> dict[tuple[TargetTopic, str], ClusterError]:
    """Set values; what was refused, by topic and name."""
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
    """Brokers take all values of a topic or none: one that they do not like shall not keep the others from it."""
    refused = {}
    for name, value in values.items():
        outcome = await alter_topic_configs(target, {topic: {name: value}})
        for error in outcome.errors.values():
            refused[topic, name] = error
    return refused
