"""The maps of mapped lanes, put together of what leases wrote into the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isthmus.ledger.documents import Document, MapDocument, TopicDocument
from isthmus.model.lane import LaneKey
from isthmus.model.offsets import Cursor
from isthmus.model.translation import OffsetMap


@dataclass(frozen=True, slots=True)
class LaneMap:
    """Where the records of a mapped lane went, and how far it is. `segments` are what both follow from, by ordinal."""

    offsets: OffsetMap
    cursor: Cursor
    segments: tuple[MapDocument, ...] = ()


def lane_maps(link: str, documents: Mapping[str, Document]) -> dict[LaneKey, LaneMap]:
    """The maps of a link's mapped lanes; lanes that have not begun are missing.

    :raises ConfigError: What was written contradicts itself.
    """
    found: dict[LaneKey, list[MapDocument]] = {}
    for document in documents.values():
        if isinstance(document, MapDocument) and document.link == link:
            topic = documents.get("/".join([TopicDocument.KIND, link, document.topic]))
            if isinstance(topic, TopicDocument) and not document.is_of(topic.source_topic_id, topic.target_topic_id):
                continue
            found.setdefault(LaneKey(document.topic, document.partition), []).append(document)
    return {key: lane_map(segments) for key, segments in found.items()}


def lane_map(segments: list[MapDocument]) -> LaneMap:
    """The map of one lane; there has to be at least one segment.

    :raises ConfigError: They contradict each other.
    """
    ordered = sorted(segments, key=lambda segment: (segment.cursor.ordinal, segment.cursor.source_offset))
    offsets = OffsetMap.of(one for segment in ordered for one in segment.ranges)
    return LaneMap(offsets, ordered[-1].cursor, tuple(ordered))
