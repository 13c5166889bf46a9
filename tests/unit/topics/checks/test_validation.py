"""What is left out of a topic that is to be created, as the target's brokers refuse it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

import pytest

from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka import codes
from isthmus.kafka.admin.changes import NewTopic
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.topics.checks import validation
from isthmus.topics.checks.validation import validate_plan
from isthmus.topics.creation import FILLING
from isthmus.topics.plan import Action, LinkPlan, TopicPlan

FOREVER: Final = {"retention.ms": "-1"}
REFUSED: Final = BrokerRefused("not for ever", code=codes.POLICY_VIOLATION, name="POLICY_VIOLATION", cluster="west")


async def bounded(_: Any, topics: Collection[NewTopic], **__: Any) -> Outcomes[str, Any]:
    """Brokers whose policy lets nothing be kept for ever."""
    errors: dict[str, ClusterError] = {t.name: REFUSED for t in topics if t.configs.get("retention.ms") == "-1"}
    return Outcomes({topic.name: {} for topic in topics if topic.name not in errors}, errors)


def to_be_created(name: str, configs: dict[str, str]) -> TopicPlan:
    """A topic with one partition."""
    creation = NewTopic(name=name, partition_count=1, replication_factor=1, configs=configs)
    names = TargetTopic(name), SourceTopic(name)
    return TopicPlan(topic=names[0], source_topic=names[1], action=Action.CREATE, creation=creation)


def test_what_one_topic_can_do_without_another_one_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compacted topic is filled under the delete policy: with a retention it would lose what is older, and would not
    be taken for one that is filled.
    """
    monkeypatch.setattr(validation, "create_topics", bounded)
    topics = to_be_created("kept", dict(FOREVER)), to_be_created("filled", dict(FILLING))
    nobody: Any = None
    found = asyncio.run(validate_plan(LinkPlan(link="l", source="east", target="west", topics=topics), nobody))
    kept, filled = found.topics
    assert kept.action is Action.CREATE
    assert kept.creation is not None
    assert kept.creation.configs == {}
    assert filled.action is Action.REFUSE
    assert filled.creation is None
