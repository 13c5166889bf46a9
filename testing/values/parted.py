"""Documents of a topic that a link copies, and that has parted from its source."""

from __future__ import annotations

import uuid

from isthmus.ledger.documents.kinds import Document, PartedDocument, TopicDocument
from isthmus.model.links.recovery import DivergedPartition
from isthmus.model.naming import SourceTopic, TargetTopic

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
