"""Documents of lanes whose records are changed on their way."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import ClassVar, Final

from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Skips, Stretch

_NO_ID: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DocumentOfLane(DocumentOfLink):
    """The base of documents of one lane between two topics."""

    topic: TargetTopic
    partition: int
    source_topic_id: uuid.UUID = _NO_ID
    target_topic_id: uuid.UUID = _NO_ID

    def is_of(self, source_topic_id: uuid.UUID, target_topic_id: uuid.UUID) -> bool:
        """Whether it is about the topics with these ids, not about earlier ones of the same names."""
        pairs = ((self.source_topic_id, source_topic_id), (self.target_topic_id, target_topic_id))
        return all(_NO_ID in pair or pair[0] == pair[1] for pair in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartureDocument(_DocumentOfLane):
    """Where changed records of a lane come from, written before they are sent: `stretches` follow one another by
    ordinal, and `skips` lie among them. All documents of the same `taken_at` and `round` together hold those of all
    records behind the lane's cursor in the ledger that may have been sent. `taken_at` is that of the lease's segments
    of the map; documents of an earlier one, or of an earlier round of the same, are replaced. `part` is unique in the
    lane.
    """

    KIND: ClassVar[str] = "departure"

    part: str
    taken_at: int
    round: int
    stretches: tuple[Stretch, ...]
    skips: tuple[Skips, ...] = ()

    def _path(self) -> tuple[str, ...]:
        return (str(LaneKey(self.topic, self.partition)), self.part)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformDocument(_DocumentOfLane):
    """From the record `ordinal` of a lane on, records were changed by the `transform` of this id ("" for none): those
    of the source from `source_offset` on, at the target at or behind `target_offset`. It stays for good. `rewound` and
    `taken_at` are those of the map that the lease had then: `ledger/generations.py` has which documents are in force.
    """

    KIND: ClassVar[str] = "transform"

    ordinal: int
    transform: str
    source_offset: int
    target_offset: int
    rewound: int = 0
    taken_at: int = -1

    def _path(self) -> tuple[str, ...]:
        # A former owner of the lane may write late: it must not replace what a later one wrote.
        return (str(LaneKey(self.topic, self.partition)), f"{self.ordinal}.{self.rewound}.{self.taken_at}")
