"""Topics that go on with mapped offsets since both sides had parted."""

from __future__ import annotations

import uuid

from isthmus.control.links.parted import parted_now
from isthmus.ledger.documents import Document, PartedDocument, TopicDocument
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.recovery import DivergedPartition

WHERE = DivergedPartition(partition=0, source_begin=0, source_end=30, target_begin=0, target_end=25, shared=20)


def documents(topic: str, *, link: str = "l", now: int = 2, then: int = 2) -> list[Document]:
    """A topic that the link copies into `now`, and that parted as the one it was `then`; by their ids."""
    return [
        TopicDocument(
            link=link,
            source_topic=SourceTopic(topic),
            source_topic_id=uuid.UUID(int=1),
            target_topic=TargetTopic(topic),
            target_topic_id=uuid.UUID(int=now),
            state="ACTIVE",
        ),
        PartedDocument(
            link=link,
            topic=TargetTopic(topic),
            source_topic=SourceTopic(topic),
            source_topic_id=uuid.UUID(int=1),
            target_topic_id=uuid.UUID(int=then),
            partitions=(WHERE,),
            by="kate",
            at_ms=5,
        ),
    ]


def test_who_had_a_topic_go_on_mapped_is_told_with_where_both_sides_parted() -> None:
    """Of this link's topics alone, and of none that was created again since."""
    known = [*documents("orders"), *documents("bills", now=3), *documents("clicks", link="other")]
    (found,) = parted_now("l", {each.key: each for each in known})
    assert found.as_dict() == {
        "topic": "orders",
        "by": "kate",
        "since": "1970-01-01T00:00:00Z",
        "partitions": [WHERE.as_dict()],
    }
