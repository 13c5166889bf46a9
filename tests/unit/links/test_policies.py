"""Topics that were still being filled when their link let go of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Metadata, TopicMetadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.ledger.documents.kinds import TopicDocument
from isthmus.links import policies
from isthmus.links.policies import settle_policies
from isthmus.memory.links import LinkMemory
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, TopicDescription
from isthmus.model.link import Link
from isthmus.model.links.promotion import LeftPartition, Promotion
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.selection import TopicSettings
from isthmus.topics.creation import FILLING

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
LINK = Link(name="l", source=EAST, target=WEST, topics=TopicSettings())
ID, ANOTHER = uuid.UUID(int=1), uuid.UUID(int=2)
SETTLES = (("cleanup.policy", "compact"), ("retention.ms", None), ("retention.bytes", "-1"))
REFUSED = BrokerRefused("no", code=29, name="TOPIC_AUTHORIZATION_FAILED")


class Target(Client):
    """Shows topic `t` with these settings of its own, and notes what is set."""

    def __init__(self, own: Mapping[str, str]) -> None:
        super().__init__(WEST)
        self.own = own
        self.given: dict[str, Any] = {}

    async def metadata(self, *_: Any, **__: Any) -> Metadata:
        """The answer to any question."""
        return Metadata("W", 1, {}, {"t": TopicMetadata("t", ID, (), 0, is_internal=False)})


def settled(
    monkeypatch: pytest.MonkeyPatch,
    *,
    own: Mapping[str, str] = FILLING,
    known_id: uuid.UUID = ID,
    is_final: bool = True,
    unseen: ClusterError | None = None,
    refusal: ClusterError | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """What is set on topic `t`, which the link remembers as that of `known_id`, and what is noted."""
    document = TopicDocument(
        link="l",
        source_topic=SourceTopic("t"),
        source_topic_id=ID,
        target_topic=TargetTopic("t"),
        target_topic_id=known_id,
        state="ACTIVE",
        settles=SETTLES,
    )
    configs = {name: ConfigEntry(value, ConfigSource.DYNAMIC_TOPIC) for name, value in own.items()}
    there = TopicDescription(name="t", topic_id=ID, partition_count=1, replication_factor=1, configs=configs)

    async def recollected(*_: Any) -> LinkMemory:
        return LinkMemory("l", documents={document.key: document})

    async def described(*_: Any) -> Outcomes[str, TopicDescription]:
        return Outcomes({}, {"t": unseen}) if unseen else Outcomes({"t": there})

    async def altered(target: Target, wanted: Mapping[str, Any]) -> Outcomes[str, None]:
        target.given |= wanted
        return Outcomes({}, dict.fromkeys(wanted, refusal)) if refusal else Outcomes(dict.fromkeys(wanted))

    for name, function in (
        ("recollect", recollected),
        ("describe_topics", described),
        ("alter_topic_configs", altered),
    ):
        monkeypatch.setattr(policies, name, function)
    left = LeftPartition(topic=TargetTopic("t"), partition=0, source_topic=SourceTopic("t"))
    found = Promotion(link="l", verb="failover", namespaces=(), partitions=(left,))

    async def scenario() -> tuple[dict[str, Any], list[str]]:
        async with Target(own) as target:
            done = await settle_policies(found, LINK, target, is_final=is_final)
            assert replace(done, notes=()) == found
            return {name: values for name, values in target.given.items() if values}, _messages(done)

    return asyncio.run(scenario())


def _messages(found: Promotion) -> list[str]:
    return [each.message for each in found.notes]


def test_what_the_link_remembers_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is another value by then; a setting without a value goes back to the broker's own."""
    wanted = {"cleanup.policy": "compact", "retention.ms": None}
    assert settled(monkeypatch) == ({"t": wanted}, [])


@pytest.mark.parametrize(
    "left", [{"own": {"cleanup.policy": "compact"}}, {"own": {}}, {"known_id": ANOTHER}, {"is_final": False}], ids=str
)
def test_a_topic_that_is_not_that_one_or_not_being_filled_is_left_alone(
    left: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has configured it since, or it was made anew, or the link may come back; only the last is to be told."""
    given, notes = settled(monkeypatch, **left)
    assert given == {}
    assert [note.startswith("still being filled") for note in notes] == ([True] if "is_final" in left else [])


@pytest.mark.parametrize("failure", [{"unseen": REFUSED}, {"refusal": REFUSED}], ids=str)
def test_what_could_not_be_set_is_told(failure: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was not allowed, or the topic could not be looked at: nobody sets it later."""
    _, notes = settled(monkeypatch, **failure)
    assert ["t was still being filled, and keeps cleanup.policy=delete" in note for note in notes] == [True]
