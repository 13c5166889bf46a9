"""Which target topics a link may have deleted: those that are its own."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from isthmus.ledger.documents.kinds import Document, PartedDocument, RecoveryDocument, TopicDocument
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.links.recovery import RecoveryStage, RecoveryWay
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.recovery.links import not_its_own

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


def parted(target_id: int = 2) -> PartedDocument:
    """What the ledger says of the topic once it goes on with mapped offsets."""
    return PartedDocument(
        link=LINK.name,
        topic=ORDERS,
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic_id=uuid.UUID(int=target_id),
        partitions=(),
        by="kate",
        at_ms=5,
    )


def recovery(stage: RecoveryStage, way: RecoveryWay) -> RecoveryDocument:
    return RecoveryDocument(
        link=LINK.name,
        topic=ORDERS,
        source_topic=SourceTopic("orders"),
        stage=stage,
        way=way,
        topic_id=uuid.UUID(int=2),
        by="kate",
        at_ms=5,
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


def test_what_goes_on_mapped_is_rebuilt_where_that_is_said() -> None:
    """It is the link's own, but nobody takes back by accident what an operator had it do: the way has to be named, or
    to be that in which a recovery was begun. Another topic of that name is another matter.
    """
    documents: list[Document] = [begun(is_mapped=True), parted()]
    problem = not_its_own(ORDERS, LINK, documents)
    assert problem is not None
    assert "--way rebuild" in problem.hint
    assert not_its_own(ORDERS, LINK, [*documents, recovery(RecoveryStage.DONE, RecoveryWay.MAPPED)]) == problem
    assert not_its_own(ORDERS, LINK, [*documents, recovery(RecoveryStage.REBUILDING, RecoveryWay.REBUILD)]) is None
    for way in RecoveryWay:
        assert not_its_own(ORDERS, LINK, documents, way) is None
        assert not_its_own(ORDERS, LINK, [begun(is_mapped=True), parted(3)], way) is not None
