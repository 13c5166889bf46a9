"""The changes to topics at the target, in the form of all loops of a link. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.loop import DATA_TASK, TOPICS_TASK, Change
from isthmus.model.naming import TargetTopic
from isthmus.model.problem import Problem
from isthmus.topics.plan import Action, TopicPlan
from isthmus.topics.preflight import TopicPair


def topic_changes(topics: Iterable[TopicPlan], pairs: Mapping[TargetTopic, TopicPair]) -> tuple[Change, ...]:
    """Return the topics that are created, enlarged, settled and deleted, and those that cannot be copied. Copied
    records are no change: their number is in the plan of their topic.
    """
    found = ((topic, pairs[topic.topic].target if topic.topic in pairs else None) for topic in topics)
    return tuple(change for topic, target in found for change in _changes(topic, target))


def _changes(topic: TopicPlan, target: TopicDescription | None) -> Iterator[Change]:
    for problem in topic.reasons:
        yield _change(topic, "topic", problem=problem)
    if not topic.reasons:
        for partition in topic.refused:
            yield _change(topic, f"partition {partition.partition}", problem=partition.refusal, loop=DATA_TASK)
    if topic.action is Action.DELETE:
        yield _change(topic, "topic", before=topic.topic)
    if topic.creation is not None:
        yield _change(topic, "partitions", after=str(topic.creation.partition_count))
        for name, value in topic.creation.configs.items():
            yield _change(topic, name, after=value)
    elif topic.action is Action.ADD_PARTITIONS and target is not None:
        yield _change(topic, "partitions", before=str(target.partition_count), after=str(topic.partition_count))
    for name, wanted in topic.settles.items():
        yield _change(topic, name, before=None if target is None else target.value(name), after=wanted)
    letters = topic.dead_letters
    if letters is not None and letters.has_changes:
        before = str(letters.partitions) if letters.partitions else None
        subject = f"topic {letters.topic}"
        yield Change(loop=TOPICS_TASK, subject=subject, setting="partitions", before=before, after=str(letters.wanted))


def _change(
    topic: TopicPlan,
    setting: str,
    *,
    before: str | None = None,
    after: str | None = None,
    problem: Problem | None = None,
    loop: str = TOPICS_TASK,
) -> Change:
    subject = f"topic {topic.topic}"
    return Change(loop=loop, subject=subject, setting=setting, before=before, after=after, problem=problem)
