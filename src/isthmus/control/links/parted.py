"""Topics that go on with mapped offsets since both sides had parted, as the ledger has it."""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.ledger.documents import Document, PartedDocument, TopicDocument
from isthmus.model.naming import TargetTopic
from isthmus.model.topic import Parted, TopicIds


def parted_topics(link: str, documents: Mapping[str, Document]) -> dict[TargetTopic, TopicIds]:
    """The topics of a link that an operator had go on mapped, with the ids for which that holds."""
    return {
        document.topic: TopicIds(
            source_topic=document.source_topic,
            source=document.source_topic_id,
            target=document.target_topic_id,
            is_mapped=True,
            parted=Parted(document.by, document.at_ms),
        )
        for document in documents.values()
        if isinstance(document, PartedDocument) and document.link == link
    }


def going_on(link: str, documents: Mapping[str, Document]) -> dict[TargetTopic, Parted]:
    """Those of them that the link copies into now: who had it so, and when."""
    begun = (documents.get(f"{TopicDocument.KIND}/{link}/{topic}") for topic in parted_topics(link, documents))
    targets = {each.target_topic: each.target_topic_id for each in begun if isinstance(each, TopicDocument)}
    return {
        topic: ids.parted
        for topic, ids in parted_topics(link, documents).items()
        if ids.parted is not None and targets.get(topic) == ids.target
    }
