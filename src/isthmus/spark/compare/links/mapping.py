"""The topics of a link that have other offsets at the target, and their maps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from isthmus.errors import ConfigError, NotAuthorized
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import Document, TopicDocument, TransformDocument
from isthmus.ledger.generations import in_force, written_of_lanes
from isthmus.ledger.link import read_documents
from isthmus.ledger.maps import LaneMap, lane_map, map_segments, mapped_topics, trimmed_ordinal
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition
from isthmus.model.offsets import Cursor
from isthmus.model.translation import OffsetMap

NOT_BEGUN: Final = LaneMap(OffsetMap(), Cursor(source_offset=0, ordinal=0, target_offset=0))


@dataclass(frozen=True, slots=True)
class LinkMapping:
    """The maps of a link by target partition, the target topics that are mapped, and the errors of broken maps.
    `begins` are the source offsets at which target partitions begin that left records in its remote tier: where they
    keep its offsets, earlier ones may still be filled. `transforms` are those that changed records of lanes, and
    `known` all target topics that the ledger has. Without the right to read it, it is `is_unread`.
    """

    lanes: Mapping[TargetTopicPartition, LaneMap] = field(default_factory=dict)
    topics: Collection[str] = frozenset()
    broken: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[TargetTopicPartition, int] = field(default_factory=dict)
    transforms: Mapping[TargetTopicPartition, Sequence[TransformDocument]] = field(default_factory=dict)
    known: Collection[str] = frozenset()
    is_unread: bool = False

    def lanes_of(
        self,
        topics: Mapping[SourceTopic, TargetTopic],
        partitions: Collection[SourceTopicPartition],
        changed: Collection[SourceTopic] = (),
    ) -> dict[SourceTopicPartition, LaneMap]:
        """Return the maps of these partitions of the source, if their topics are mapped: those that are to be `changed`
        will be, if they have not begun.
        """
        mapped = {s for s, name in topics.items() if name in self.topics or (s in changed and name not in self.known)}
        return {
            (topic, partition): self.lanes.get((topics[topic], partition), NOT_BEGUN)
            for topic, partition in partitions
            if topic in mapped
        }


async def read_maps(target: Client, link: str | None) -> LinkMapping:
    """Read the maps of a link from the ledger; none without the right to read it, or without a link.

    :raises ClusterError: The ledger cannot be read now.
    :raises PlanRefused: A newer Isthmus wrote it.
    """
    if link is None:
        return LinkMapping()
    try:
        return mapping_of(link, await read_documents(target))
    except NotAuthorized:
        return LinkMapping(is_unread=True)


def mapping_of(link: str, documents: Mapping[str, Document]) -> LinkMapping:
    """Build the mapping of a link from the documents of a ledger."""
    lanes: dict[TargetTopicPartition, LaneMap] = {}
    broken: dict[str, str] = {}
    for (topic, partition), found in sorted(map_segments(link, documents).items()):
        try:
            lanes[topic, partition] = lane_map(found)
        except ConfigError as error:
            broken[topic] = f"the map of partition {partition} cannot be true: {error}"
        told_from = trimmed_ordinal(found)
        if all(segment.ordinal_begin > max(segment.cursor.first_ordinal, told_from) for segment in found):
            broken[topic] = f"the ledger has lost the beginning of the map of partition {partition}"
    topics = TopicDocument.find_all(documents.values(), link)
    begins: dict[TargetTopicPartition, int] = {
        (topic.target_topic, left.partition): left.offset_end for topic in topics for left in topic.left
    }
    transforms: dict[TargetTopicPartition, Sequence[TransformDocument]] = {
        (key.topic, key.partition): in_force(written, lanes[key.topic, key.partition].cursor)
        for key, written in written_of_lanes(link, documents).items()
        if (key.topic, key.partition) in lanes
    }
    known = frozenset(topic.target_topic for topic in topics)
    return LinkMapping(lanes, mapped_topics(link, documents), broken, begins, transforms, known)
