"""Topics that continue with mapped offsets since both sides diverged, as the ledger has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isthmus.ledger.documents.kinds import Document, PartedDocument, TopicDocument
from isthmus.model.kafka.topic import Parted, TopicIds
from isthmus.model.links.recovery import DivergedPartition
from isthmus.model.naming import TargetTopic
from isthmus.model.text.plain import Flat, PlainValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedTopic(PlainValue):
    """A topic that goes on with mapped offsets.

    It has who decided that and when, and where both sides had diverged by then.
    """

    topic: TargetTopic
    parted: Flat[Parted]
    partitions: tuple[DivergedPartition, ...]


def parted_topics(link: str, documents: Mapping[str, Document]) -> dict[TargetTopic, TopicIds]:
    """Return the topics of a link that an operator let continue mapped, with the ids for which that holds."""
    return {
        document.topic: TopicIds(
            source_topic=document.source_topic,
            source=document.source_topic_id,
            target=document.target_topic_id,
            is_mapped=True,
            parted=Parted(document.by, document.at_ms),
        )
        for document in PartedDocument.find_all(documents.values(), link)
    }


def going_on(link: str, documents: Mapping[str, Document]) -> dict[TargetTopic, Parted]:
    """Return those that the link copies into now: who decided that, and when."""
    targets = {each.target_topic: each.target_topic_id for each in TopicDocument.find_all(documents.values(), link)}
    return {
        topic: ids.parted
        for topic, ids in parted_topics(link, documents).items()
        if ids.parted is not None and targets.get(topic) == ids.target
    }


def parted_now(link: str, documents: Mapping[str, Document]) -> tuple[PartedTopic, ...]:
    """Return the same with where both sides had diverged, by topic."""
    now = going_on(link, documents)
    found = PartedDocument.find_all(documents.values(), link)
    return tuple(
        PartedTopic(topic=each.topic, parted=now[each.topic], partitions=each.partitions)
        for each in sorted(found, key=lambda one: one.topic)
        if each.topic in now
    )
