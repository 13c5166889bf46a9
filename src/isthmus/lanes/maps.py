"""The maps of a link's mapped lanes as its ledger has them, and what a position at the source is by them."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from isthmus.errors import ConfigError
from isthmus.ledger.documents.kinds import Document, MapDocument, PartedDocument
from isthmus.ledger.generations import written_of_lanes
from isthmus.ledger.maps import LaneMap, lane_map, map_segments, mapped_topics, newest_segment, trimmed_ordinal
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic, TargetTopicPartition
from isthmus.model.offsets import Cursor
from isthmus.model.translation import OffsetMap

_log = logging.getLogger(__name__)
_OFFSETS_BEGIN = 0


class MappedPosition(NamedTuple):
    """A position at the target; `is_reached` says that all that lies before it at the source is at the target, too."""

    offset: int
    is_reached: bool


def mapped_position(lane: LaneMap, position: int) -> MappedPosition | None:
    """A position at the source by the map of its lane; `None` where that does not tell.

    It is never above where the first record at or behind the position lies at the target, or will lie.
    """
    cursor = lane.cursor
    if is_before(lane, position):
        return None
    offset = lane.offsets.lookup(position)
    if cursor.continues_another and not cursor.has_appended and position >= cursor.source_offset:
        # What the other program repeated lies between its last record and the first of the lane.
        offset = cursor.target_offset
    elif offset is None:
        # What comes first will lie at or behind the place where the lane is, if nothing of it is left there.
        is_empty = not cursor.has_appended or trimmed_ordinal(lane.segments) == cursor.ordinal
        offset = cursor.target_offset if is_empty else None
    elif position < gapless_from(lane.segments) and not _is_inside(lane.offsets, position):
        # What was copied of it may be in a segment that is lost.
        offset = None
    return None if offset is None else MappedPosition(offset, position <= cursor.source_offset)


def is_before(lane: LaneMap, position: int) -> bool:
    """Whether another program copied what lies at a position, and where to is not known."""
    return lane.cursor.continues_another and position < lane.begin


def lane_cursors(link: str, documents: Mapping[str, Document]) -> dict[LaneKey, Cursor]:
    """How far a link's mapped lanes are, of those that have begun.

    No map has to be put together for it: one that cannot be true keeps nobody from knowing.
    """
    return {key: newest_segment(segments).cursor for key, segments in map_segments(link, documents).items()}


def gapless_from(segments: Sequence[MapDocument]) -> int:
    """The source offset from which on segments tell of every record of a lane that the target holds; 0 if none is
    missing.
    """
    begin, ordinal = _OFFSETS_BEGIN, min((segment.cursor.first_ordinal for segment in segments), default=0)
    ordinal = max(ordinal, trimmed_ordinal(segments))
    for segment in sorted(segments, key=lambda one: one.ordinal_begin):
        if segment.ordinal_begin > ordinal:
            begin = min((one.source_begin for one in segment.ranges), default=segment.cursor.source_offset)
        ordinal = max(ordinal, segment.cursor.ordinal)
    return begin


def _is_inside(offsets: OffsetMap, position: int) -> bool:
    index = bisect_right(offsets.ranges, position, key=lambda one: one.source_begin) - 1
    return index >= 0 and position < offsets.ranges[index].source_end


class LinkMaps:
    """The maps of one link. `documents` are its ledger's, as they are at any moment; `look` takes what they say."""

    def __init__(self, link: str, documents: Mapping[str, Document]) -> None:
        self._link = link
        self._documents = documents
        self._segments: dict[LaneKey, list[MapDocument]] = {}
        self._topics: frozenset[TargetTopic] = frozenset()
        self._parted: frozenset[TargetTopic] = frozenset()
        self._changed: frozenset[LaneKey] = frozenset()
        self._made: dict[LaneKey, tuple[list[MapDocument], LaneMap | None]] = {}

    def look(self) -> None:
        """Take what the ledger says now."""
        self._segments = map_segments(self._link, self._documents)
        self._topics = mapped_topics(self._link, self._documents)
        self._parted = frozenset(each.topic for each in PartedDocument.find_all(self._documents.values(), self._link))
        self._changed = frozenset(written_of_lanes(self._link, self._documents))
        self._made = {key: made for key, made in self._made.items() if key in self._segments}

    def is_changed(self, key: TargetTopicPartition) -> bool:
        """Whether records of a target partition were ever changed, or left out, on their way (transform)."""
        return LaneKey(*key) in self._changed

    def is_mapped(self, topic: TargetTopic) -> bool:
        """Whether the records of a target topic have other offsets than at the source."""
        return topic in self._topics

    def is_parted(self, topic: TargetTopic) -> bool:
        """Whether a topic that was to have the same offsets has others from where both sides parted."""
        return topic in self._parted and topic in self._topics

    def is_before(self, key: TargetTopicPartition, position: int) -> bool:
        """Whether a position of a target partition is one that another program copied, and its map does not know."""
        lane = self.of(key)
        return lane is not None and is_before(lane, position)

    def of(self, key: TargetTopicPartition) -> LaneMap | None:
        """The map of a target partition; `None` while there is none, or none that can be true."""
        lane = LaneKey(*key)
        segments = self._segments.get(lane)
        if segments is None:
            return None
        made = self._made.get(lane)
        if made is None or not _are_same(made[0], segments):
            # Only what is asked for is put together, and only when it has changed.
            made = self._made[lane] = (segments, self._lane_map(lane, segments))
        return made[1]

    def _lane_map(self, lane: LaneKey, segments: list[MapDocument]) -> LaneMap | None:
        try:
            return lane_map(segments)
        except ConfigError as error:
            _log.warning("link %s: the map of %s cannot be true: %s", self._link, lane, error)
            return None


def _are_same(some: Sequence[MapDocument], others: Sequence[MapDocument]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
