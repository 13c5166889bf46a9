"""What a target's ledger says of where the records of mapped lanes went: the documents `map/LINK/TOPIC-PARTITION/...`.

Read here without any code of the product. One document is a segment: `ranges` of three numbers, an offset at the
source, one at the target, and how many records follow there on both sides; and a `cursor`, before which everything is
said to be at the target. All segments together are the map.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from soak.naming import Names

LEDGER: Final = "__isthmus.ledger"
_KIND: Final = "map"
_NO_ID: Final = uuid.UUID(int=0)

Entry = tuple[bytes | None, bytes | None]
"""A record of the ledger: key and value."""


class Place(NamedTuple):
    """`length` records from one offset of the source on, and where the first of them is at the target."""

    source: int
    target: int
    length: int


class TopicIds(NamedTuple):
    """The ids of a topic at both sides."""

    source: uuid.UUID
    target: uuid.UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One document. Records of the source before `source_next` are said to be at the target before `target_next`.

    `number` is that of the next record, `taken_at` how late its writer took the lane over, `rewound` how often the lane
    has gone back.
    """

    topic: str
    partition: int
    name: str
    places: tuple[Place, ...]
    source_next: int
    target_next: int
    number: int
    taken_at: int
    rewound: int
    ids: TopicIds

    @property
    def source_begin(self) -> int:
        """From which record of the source on it says anything."""
        return self.places[0].source if self.places else self.source_next

    @property
    def age(self) -> tuple[int, int]:
        """What tells later writers from earlier ones, and what one wrote since the lane went back."""
        return self.taken_at, self.rewound

    @property
    def reach(self) -> tuple[int, ...]:
        """What grows with every claim that is made."""
        return *self.age, self.number, self.source_next

    def before(self, source_end: int) -> Segment:
        """What it says of records of the source before an offset."""
        clipped = (each._replace(length=min(each.length, source_end - each.source)) for each in self.places)
        return replace(self, places=tuple(each for each in clipped if each.length > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMap:
    """The map of one lane. `segments` are those that count, `claims` all that was ever written and is still to be read,
    in that order, of the same topics.
    """

    segments: tuple[Segment, ...]
    claims: tuple[Segment, ...] = ()

    @property
    def newest(self) -> Segment:
        """What reaches furthest."""
        return max(self.segments, key=lambda segment: segment.reach)

    def places(self) -> list[Place]:
        """Where records went, by the source's order. Where a lane has gone back, what it wrote since then counts, and
        where several took it over what the last one wrote.
        """
        found: list[Place] = []
        end = max(segment.source_next for segment in self.segments) + 1
        for age in sorted({segment.age for segment in self.segments}, reverse=True):
            same = [segment.before(end) for segment in self.segments if segment.age == age]
            found += [place for segment in same for place in segment.places]
            end = min(end, *(segment.source_begin for segment in same))
        return sorted(set(found))


def segment_of(key: bytes, value: bytes, link: str, names: Names) -> Segment | None:
    """The segment of a link's map that a record of the ledger is; `None` where it is something else, or makes no sense.
    Its topic goes by the name at the source.
    """
    try:
        kind, of, lane, _ = key.decode().split("/", 3)
        told = json.loads(value)
        if kind != _KIND or of != link or lane != f"{told['topic']}-{told['partition']}":
            return None
        return _segment(key.decode(), told, names)
    except (ValueError, KeyError, TypeError):
        return None


def _segment(key: str, told: Mapping[str, Any], names: Names) -> Segment:
    cursor = told["cursor"]
    return Segment(
        topic=names.at_source(told["topic"]),
        partition=int(told["partition"]),
        name=key,
        places=tuple(Place(*map(int, each)) for each in told["ranges"]),
        source_next=int(cursor["source_offset"]),
        target_next=int(cursor["target_offset"]),
        number=int(cursor["ordinal"]),
        taken_at=int(told.get("taken_at", -1)),
        rewound=int(cursor.get("rewound", 0)),
        ids=TopicIds(*(uuid.UUID(told.get(f"{side}_topic_id", str(_NO_ID))) for side in ("source", "target"))),
    )


def stored_maps(
    entries: Iterable[Entry], link: str, names: Names, ids: Mapping[str, TopicIds]
) -> dict[tuple[str, int], StoredMap]:
    """The maps of a link's lanes, of topics with these ids: what is said of others that had their names is over."""
    newest: dict[str, Segment] = {}
    claims: dict[tuple[str, int], list[Segment]] = defaultdict(list)
    for key, value in entries:
        if key is None:
            continue
        segment = None if value is None else segment_of(key, value, link, names)
        newest.pop(key.decode(errors="replace"), None)
        if segment is not None and _is_of(segment, ids.get(segment.topic)):
            newest[segment.name] = segment
            claims[segment.topic, segment.partition].append(segment)
    found: dict[tuple[str, int], list[Segment]] = defaultdict(list)
    for segment in newest.values():
        found[segment.topic, segment.partition].append(segment)
    return {key: StoredMap(segments=tuple(each), claims=tuple(claims[key])) for key, each in found.items()}


def _is_of(segment: Segment, ids: TopicIds | None) -> bool:
    return ids is not None and all(
        _NO_ID in (told, there) or told == there for told, there in zip(segment.ids, ids, strict=True)
    )
