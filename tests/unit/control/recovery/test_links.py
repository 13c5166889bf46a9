"""Which target topics a link may have deleted: those that are its own."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from isthmus.control.recovery.links import not_its_own
from isthmus.ledger.documents import TopicDocument
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.selection import TopicPattern, TopicSettings

ORDERS = TargetTopic("orders")
LINK = Link(
    name="east-west",
    source=Cluster(alias="east", bootstrap_servers=("e:9092",)),
    target=Cluster(alias="west", bootstrap_servers=("w:9092",)),
    topics=TopicSettings(include=(TopicPattern.parse("orders"),)),
)


def begun(link: str = LINK.name, *, is_mapped: bool = False) -> TopicDocument:
    """What the ledger says of the topic once a link has begun it."""
    return TopicDocument(
        link=link,
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=ORDERS,
        target_topic_id=uuid.UUID(int=2),
        state="ACTIVE",
        is_mapped=is_mapped,
    )


def with_offsets(policy: OffsetPolicy) -> Link:
    return replace(LINK, topics=replace(LINK.topics, offsets=policy))


def test_a_topic_with_the_sources_offsets_is_its_own() -> None:
    """Whether it has begun or not, if the offsets cannot be others; with `auto` once it has begun with these."""
    assert not_its_own(ORDERS, LINK, []) is None
    assert not_its_own(ORDERS, LINK, [begun()]) is None
    assert not_its_own(ORDERS, with_offsets(OffsetPolicy.AUTO), [begun()]) is None


@pytest.mark.parametrize(
    ("link", "documents", "told"),
    [
        (LINK, [begun("north-west")], "link north-west has written topic orders too"),
        (LINK, [begun(is_mapped=True)], "offsets of topic orders are mapped"),
        (with_offsets(OffsetPolicy.MAPPED), [], "offsets of topic orders are mapped"),
        (with_offsets(OffsetPolicy.AUTO), [], "the link has not begun topic orders"),
    ],
)
def test_what_others_may_have_written_is_not_deleted(link: Link, documents: list[TopicDocument], told: str) -> None:
    """A topic of another link too, or one with offsets of its own, where others may write."""
    problem = not_its_own(ORDERS, link, documents)
    assert problem is not None
    assert told in problem.message
