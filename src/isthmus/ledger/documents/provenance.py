"""Documents of the origin of a topic's records, in the ledger of the cluster that has the topic."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from isthmus.ledger.documents.document import Document, DocumentOfLink
from isthmus.model.lane import LaneKey
from isthmus.model.links.promotion import TornTransaction
from isthmus.model.naming import SourceTopic, TargetTopic

_NO_ID: Final = uuid.UUID(int=0)
Begins = dict[int, int]
"""Offsets by partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceDocument(DocumentOfLink):
    """A link copied the offsets `[offset_begin, offset_end)` of a partition from a cluster, and then let go of it.

    `offset_end` is -1 if not known. If it `is_mapped` records of others may lie in between. `verb` is the command that
    ended it: detach, promote or failover. `missing_records` is how many more records the source had when it was last
    heard, `heard_s` before, -1 if not known. Records before or behind were written here, or copied by another link, or
    by this one at another time. The source's offsets `[left_begin, left_end)` were left in its remote tier. The copy
    `ends_within` these committed transactions, `None` if not known.
    """

    KIND: ClassVar[str] = "provenance"

    topic: TargetTopic
    partition: int
    topic_id: uuid.UUID = _NO_ID
    source_cluster: str
    source_topic: SourceTopic
    is_mapped: bool = False
    offset_begin: int
    offset_end: int
    missing_records: int = -1
    heard_s: float = -1.0
    ends_within: tuple[TornTransaction, ...] | None = None
    left_begin: int = 0
    left_end: int = 0
    verb: str
    by: str
    at_ms: int

    def _path(self) -> tuple[str, ...]:
        # A range with an unknown end gets another key than any with a known end.
        end = str(self.offset_end) if self.offset_end >= 0 else f"from-{self.offset_begin}"
        return (str(LaneKey(self.topic, self.partition)), end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginningDocument(DocumentOfLink):
    """The log ends of the partitions of a target topic when the link began to write to them: later records were copied
    by it. Written before the first lane of each runs, and again if the link has let go of the topic in between.

    `begins` are pairs of partition and offset, -1 if not known. It `is_over` once the link let go of the topic.
    """

    KIND: ClassVar[str] = "beginning"

    topic: TargetTopic
    topic_id: uuid.UUID = _NO_ID
    begins: tuple[tuple[int, int], ...] = ()
    is_over: bool = False

    def _path(self) -> tuple[str, ...]:
        return (self.topic,)

    def is_about(self, topic_id: uuid.UUID) -> bool:
        """Whether it is about the topic with this id, and the link has not let go of it."""
        return not self.is_over and topic_id == self.topic_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLookDocument(DocumentOfLink):
    """The selection of a link with `topics.start: latest` at its first look: see `model.firstlook`."""

    KIND: ClassVar[str] = "first-look"

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    waiting: tuple[SourceTopic, ...] = ()


def beginning_of(link: str, topic: TargetTopic, topic_id: uuid.UUID, documents: Mapping[str, Document]) -> Begins:
    """The offsets at which a link began to write to the partitions of a topic, as far as its ledger has them."""
    found = BeginningDocument.find(documents, link, topic)
    return dict(found.begins) if found is not None and found.is_about(topic_id) else {}
