"""The topics that a link has mirrored, by its ledger, as long as both sides are still the same topics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID, TopicMetadata
from isthmus.ledger.documents.kinds import Document, TopicDocument
from isthmus.model.lane import LaneState
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic

_STILL_MIRRORED: Final = frozenset({LaneState.DATA_GAP})
"""States in which copying has ended, while the copied records are still those of the source."""


async def mirrored_topics(
    link: str, documents: Mapping[str, Document], source: Client, target: Client
) -> dict[SourceTopic, TargetTopic]:
    """Return the target topic of every source topic that the link of this name has mirrored.

    That holds as long as both are still the same topics.

    :raises ClusterError: A cluster as a whole did not answer.
    """
    known = TopicDocument.find_all(documents.values(), link)
    known = [d for d in known if d.target_topic_id != NO_TOPIC_ID and _holds_copies(LaneState(d.state))]
    if not known:
        return {}
    here, there = await asyncio.gather(
        source.metadata(sorted({d.source_topic for d in known})),
        target.metadata(sorted({d.target_topic for d in known})),
    )
    return {
        d.source_topic: d.target_topic
        for d in known
        if _is(here.topics.get(d.source_topic), d.source_topic_id)
        and _is(there.topics.get(d.target_topic), d.target_topic_id)
    }


def ended_partitions(link: str, documents: Mapping[str, Document]) -> frozenset[SourceTopicPartition]:
    """Return the partitions of the source whose topics at the target are no copies any more."""
    return frozenset(
        (document.source_topic, each.partition)
        for document in TopicDocument.find_all(documents.values(), link)
        for each in document.ended
        if not _holds_copies(LaneState(each.state))
    )


def _holds_copies(state: LaneState) -> bool:
    return not state.is_terminal or state in _STILL_MIRRORED


def _is(topic: TopicMetadata | None, topic_id: object) -> bool:
    return topic is not None and topic.error_code == codes.NONE and topic.topic_id == topic_id
