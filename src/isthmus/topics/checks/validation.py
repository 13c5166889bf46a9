"""Validate topics that are to be created: the target's brokers check the very requests that a run will send.

Settings that brokers or their policies refuse, and the topic's records do not need, are left out with a note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from isthmus.errors import ClusterError, NotAuthorized
from isthmus.kafka.admin.changes import NewTopic, create_topics, is_about_settings, is_there_already
from isthmus.kafka.client import Client
from isthmus.model.lane import LaneState
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem, problem_of
from isthmus.topics.creation import FILLING, NEEDED
from isthmus.topics.plan import Action, LinkPlan, TopicPlan

NamedValue = tuple[str, str]
"""A setting of a topic, and its value."""


@dataclass(slots=True)
class _Validated:
    """The answers of brokers. `left_out` has the settings that they refused, with the reasons, by topic; `known` all of
    them, as a setting refused for one topic is refused for the next one too.
    """

    taken: dict[str, NewTopic] = field(default_factory=dict)
    refused: dict[str, ClusterError] = field(default_factory=dict)
    left_out: dict[str, dict[NamedValue, ClusterError]] = field(default_factory=dict)
    known: dict[NamedValue, ClusterError] = field(default_factory=dict)


async def validate_plan(plan: LinkPlan, target: Client) -> LinkPlan:
    """Return the plan with what the target's brokers accept of the topics that it creates. Nothing is created.

    A topic that they do not accept at all is refused. What they cannot answer now (a quota, a controller that moves) is
    no reason: the creation will show it.
    """
    wanted = {topic.topic: topic.creation for topic in plan.topics if topic.creation is not None and not topic.reasons}
    if not wanted:
        return plan
    found = _Validated()
    await _validate(target, wanted.values(), found)
    for name, error in list(found.refused.items()):
        if is_about_settings(error):
            await _reduce(target, wanted[TargetTopic(name)], error, found)
    return replace(plan, topics=tuple(_with_result(topic, found) for topic in plan.topics))


async def _validate(target: Client, topics: Collection[NewTopic], found: _Validated) -> None:
    outcome = await create_topics(target, topics, validate_only=True, asks_configs=False)
    for topic in topics:
        error = outcome.errors.get(topic.name)
        if error is None or is_there_already(error) or error.retryable:
            found.refused.pop(topic.name, None)
            found.taken[topic.name] = topic
        else:
            found.refused[topic.name] = error


async def _reduce(target: Client, topic: NewTopic, refusal: ClusterError, found: _Validated) -> None:
    """Find out which of a topic's settings are refused: first without those that were refused for others, then with
    those it needs alone, and one by one with the rest.
    """
    is_filling = all(topic.configs.get(name) == FILLING[name] for name in ("retention.ms", "retention.bytes"))
    needed = NEEDED | (FILLING.keys() if is_filling else set())
    # A setting that another topic can do without may be needed here: a retention would delete what it is filled with.
    known = {each for each in found.known.keys() & topic.configs.items() if each[0] not in needed}
    if known:
        await _validate(target, [_with(topic, topic.configs.items() - known)], found)
        found.left_out[topic.name] = {each: found.known[each] for each in known}
        if topic.name not in found.refused:
            return
    kept = {(name, value) for name, value in topic.configs.items() if name in needed}
    await _validate(target, [_with(topic, kept)], found)
    if topic.name in found.refused:
        # The refusal of all settings is reported: with fewer, brokers may only miss those that were left out.
        found.refused[topic.name] = refusal
        return
    left_out: dict[NamedValue, ClusterError] = {}
    for each in sorted(topic.configs.items() - kept):
        await _validate(target, [_with(topic, kept | {each})], found)
        if topic.name in found.refused:
            left_out[each] = found.refused.pop(topic.name)
        else:
            kept |= {each}
    found.taken[topic.name] = _with(topic, kept)
    found.left_out[topic.name] = left_out
    found.known |= left_out


def _with(topic: NewTopic, settings: Collection[NamedValue]) -> NewTopic:
    return replace(topic, configs=dict(sorted(settings)))


def _with_result(topic: TopicPlan, found: _Validated) -> TopicPlan:
    name = topic.topic
    if name in found.refused:
        error = found.refused[name]
        state = LaneState.NOT_AUTHORIZED if isinstance(error, NotAuthorized) else LaneState.TARGET_UNAVAILABLE
        return replace(
            topic,
            action=Action.REFUSE,
            reasons=(problem_of(error),),
            state=state,
            creation=None,
            final={},
            settles={},
            lanes=(),
        )
    if name not in found.taken:
        return topic
    notes = tuple(_notes(found.left_out.get(name, {})))
    return replace(topic, creation=found.taken[name], notes=(*topic.notes, *notes))


def _notes(left_out: Mapping[NamedValue, ClusterError]) -> Iterator[Problem]:
    for (name, value), error in sorted(left_out.items(), key=lambda each: each[0]):
        yield Problem(
            f"{name}={value} is left out, as the target does not take it: {error}",
            "The target's brokers have their own value then. Have their policy allow it, or name it in configs.exclude "
            "of the link.",
        )
