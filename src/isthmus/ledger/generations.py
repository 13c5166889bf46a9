"""Which transform made the records of mapped lanes, by what leases wrote down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isthmus.ledger.documents.kinds import Document, TopicDocument, TransformDocument
from isthmus.model.lane import LaneKey
from isthmus.model.offsets import Cursor


def in_force(found: Iterable[TransformDocument], cursor: Cursor) -> tuple[TransformDocument, ...]:
    """Return what is true of a lane with this cursor, in the order of its records: each is about those up to the next.

    Each time a lane goes back, or gets another transform, `rewound` grows by one: of documents with the same number
    that of the last owner counts. One with a greater number than the cursor's was written late, by a lease that had
    lost the lane before it copied anything. A lane that went back made all records from there on anew.
    """
    newest: dict[tuple[int, int], TransformDocument] = {}
    for each in sorted(found, key=lambda one: one.taken_at):
        if each.rewound <= cursor.rewound:
            # Those of earlier releases have no numbers.
            newest[each.rewound, each.ordinal if each.taken_at < 0 else -1] = each
    kept: list[TransformDocument] = []
    for each in sorted(newest.values(), key=lambda one: (one.rewound, one.ordinal)):
        while kept and kept[-1].source_offset >= each.source_offset:
            kept.pop()
        kept.append(each)
    return tuple(kept)


def written_of_lanes(link: str, documents: Mapping[str, Document]) -> dict[LaneKey, list[TransformDocument]]:
    """Return what leases wrote of a link's lanes, without those of earlier topics of the same names."""
    found: dict[LaneKey, list[TransformDocument]] = {}
    for each in TransformDocument.find_all(documents.values(), link):
        topic = TopicDocument.find(documents, link, each.topic)
        if topic is None or each.is_of(topic.source_topic_id, topic.target_topic_id):
            found.setdefault(LaneKey(each.topic, each.partition), []).append(each)
    return found
