"""The maps of mapped lanes, joined from the segments that leases wrote into the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

from isthmus.ledger.documents.kinds import Document, MapDocument, TopicDocument
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange, OffsetMap


@dataclass(frozen=True, slots=True)
class LaneMap:
    """The offset map and the cursor of a mapped lane. `begin` is the source offset at which it began, -1 while that is
    not known. `segments` are its documents, by ordinal.
    """

    offsets: OffsetMap
    cursor: Cursor
    begin: int = -1
    segments: tuple[MapDocument, ...] = ()

    @property
    def is_trimmed(self) -> bool:
        """Whether records that the target has deleted are not in the map any more."""
        return trimmed_ordinal(self.segments) >= 0

    def foreign(self, log: LogRange) -> int:
        """Count the offsets of the target's log up to the cursor that are in no range: records of others, and records
        that had made the two sides diverge.
        """
        end = max(min(self.cursor.target_offset, log.stable_end), log.start)
        clipped = (min(one.target_end, end) - max(one.target_begin, log.start) for one in self.offsets.ranges)
        return end - log.start - sum(max(length, 0) for length in clipped)

    def seen_by_source(self, log: LogRange) -> LogRange:
        """The target's log in source offsets, by the map.

        Records that the target deleted are left out, together with the source's records before them.
        """
        copied_to = self.cursor.source_offset
        start, end = self.offsets.first_source(log.start), self.offsets.first_source(log.stable_end)
        end = copied_to if end is None else end
        first = self.offsets.ranges[0].target_begin if self.offsets.ranges else self.cursor.target_offset
        if self.begin >= 0 and log.start <= first and not self.is_trimmed:
            # No record of the lane is deleted: all records of the source from its beginning on have to be there.
            return LogRange(min(self.begin, end), end, end)
        return LogRange(copied_to if start is None else min(start, end), end, end)


def lane_maps(link: str, documents: Mapping[str, Document]) -> dict[LaneKey, LaneMap]:
    """The maps of a link's mapped lanes; lanes that have not begun are missing.

    :raises ConfigError: Segments contradict each other.
    """
    return {key: lane_map(found) for key, found in map_segments(link, documents).items()}


def map_segments(link: str, documents: Mapping[str, Document]) -> dict[LaneKey, list[MapDocument]]:
    """The segments of a link's mapped lanes, without those of earlier topics of the same names."""
    found: dict[LaneKey, list[MapDocument]] = {}
    for document in MapDocument.find_all(documents.values(), link):
        topic = TopicDocument.find(documents, link, document.topic)
        if topic is None or document.is_of(topic.source_topic_id, topic.target_topic_id):
            found.setdefault(LaneKey(document.topic, document.partition), []).append(document)
    return {key: current(segments) for key, segments in found.items()}


def current(segments: Iterable[MapDocument]) -> list[MapDocument]:
    """Reduce segments to what is still true, when leases follow one another and lanes are rewound. From its first
    record on, the newest segment replaces earlier ones: those of leases that had the lane before, which may be written
    late, and those from before the target lost records. Segments without the time of takeover, of older releases, count
    beside the others, unless one side was rewound since.
    """
    dated: list[MapDocument] = []
    undated: list[MapDocument] = []
    for segment in segments:
        (dated if segment.taken_at >= 0 else undated).append(segment)
    rewound = max(dated, key=_age).cursor.rewound if dated else -1
    later = [segment for segment in undated if segment.cursor.rewound > rewound]
    earlier = [segment for segment in undated if segment.cursor.rewound < rewound]
    kept: list[MapDocument] = []
    for rounds in (later, dated):
        for _, same in groupby(sorted(rounds, key=_age, reverse=True), key=_age):
            kept += _cut_all_before(list(same), kept)
    kept += _cut_all_before(earlier, kept)
    return kept + [segment for segment in undated if segment.cursor.rewound == rewound]


def newest_segment(segments: Iterable[MapDocument]) -> MapDocument:
    """The segment with the lane's cursor, of those that are still true; there has to be at least one."""

    def reach(segment: MapDocument) -> tuple[int, ...]:
        cursor = segment.cursor
        return *cursor.reach, segment.taken_at, cursor.looked_epoch, cursor.looked_to

    given = list(segments)
    last = max(segment.taken_at for segment in given)
    return max((segment for segment in given if segment.taken_at in (last, -1)), key=reach)


def _age(segment: MapDocument) -> tuple[int, int]:
    return segment.taken_at, segment.cursor.rewound


def _cut_all_before(segments: Iterable[MapDocument], later: Sequence[MapDocument]) -> list[MapDocument]:
    """The parts of segments that lie before all later ones."""
    if not later:
        return list(segments)
    return [left for segment in segments if (left := _cut_before(segment, later)) is not None]


def _cut_before(segment: MapDocument, later: Sequence[MapDocument]) -> MapDocument | None:
    """The part of a segment that lies before all later ones; `None` if there is none."""
    ordinal = min(each.ordinal_begin for each in later)
    if segment.cursor.ordinal <= ordinal:
        return segment
    if segment.ordinal_begin >= ordinal:
        return None
    # Cut by the offsets of both sides, not by counts: some records are deleted, others were copied by another program.
    firsts = [(each.ranges or (_end_range(each),))[0] for each in later]
    source = min(first.source_begin for first in firsts)
    target = min(first.target_begin for first in firsts)
    ranges = tuple(
        one._replace(length=min(one.length, source - one.source_begin, target - one.target_begin))
        for one in segment.ranges
        if one.source_begin < source and one.target_begin < target
    )
    last = ranges[-1] if ranges else MappedRange(segment.cursor.source_offset, segment.cursor.target_offset, 0)
    cursor = replace(
        segment.cursor, ordinal=ordinal, source_offset=last.source_end, target_offset=last.target_end, left_out=0
    )
    return replace(segment, ranges=ranges, cursor=cursor)


def _end_range(segment: MapDocument) -> MappedRange:
    return MappedRange(segment.cursor.source_offset, segment.cursor.target_offset, 0)


def mapped_topics(link: str, documents: Mapping[str, Document]) -> frozenset[TargetTopic]:
    """The target topics of a link with mapped offsets, begun or not."""
    begun = {key.topic for key in map_segments(link, documents)}
    known = TopicDocument.find_all(documents.values(), link)
    return frozenset(begun | {topic.target_topic for topic in known if topic.is_mapped})


def lane_map(segments: list[MapDocument]) -> LaneMap:
    """Join the map of one lane; there has to be at least one segment.

    :raises ConfigError: The segments contradict each other.
    """
    ordered = sorted(current(segments), key=lambda segment: segment.cursor.reach[1:])
    offsets = OffsetMap.of(one for segment in ordered for one in segment.ranges)
    begin = max(segment.begin for segment in segments)
    return LaneMap(offsets, newest_segment(ordered).cursor, begin, tuple(ordered))


def trimmed_ordinal(segments: Iterable[MapDocument]) -> int:
    """The ordinal of the first record that segments have to cover, -1 for the very first."""
    return max((segment.trimmed_ordinal for segment in segments), default=-1)


def needless(segments: Sequence[MapDocument], log_start: int) -> list[MapDocument]:
    """The first segments, in order, whose records all lie before the start of the target's log.

    Deleted records need no translation: a position before them becomes that of the first record left.
    """
    found = list(takewhile(lambda each: all(one.target_end <= log_start for one in each.ranges), segments))
    return found if any(each.ranges for each in found) else []
