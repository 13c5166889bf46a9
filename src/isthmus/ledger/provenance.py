"""Where the records of a topic came from, as the ledger of the cluster that has it remembers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from isthmus.ledger.document import Document, DocumentOfLink
from isthmus.model.lane import LaneKey
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.promotion import TornTransaction

_NO_ID: Final = uuid.UUID(int=0)
Begins = dict[int, int]
"""Offsets by partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceDocument(DocumentOfLink):
    """Offsets `[offset_begin, offset_end)` of a partition came from a cluster by a link, which then let go of it.

    `offset_end` is -1 where nobody knows how far that goes. Where it `is_mapped` records of others may lie between.
    `verb` is what ended that: detach, promote or failover. `missing_records` is how many more the source was known to
    have when it was last heard, `heard_s` before, -1 where that is not known. What lies before or behind was written
    here, or came by another link, or by this one at another time. What the source's offsets `[left_begin, left_end)`
    held was left in its remote tier. It `ends_within` these committed transactions, `None` where that is not known.
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
        # A range of which the end is not known is none that another one with a known end could be.
        end = str(self.offset_end) if self.offset_end >= 0 else f"from-{self.offset_begin}"
        return (str(LaneKey(self.topic, self.partition)), end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginningDocument(DocumentOfLink):
    """Where the partitions of a target topic ended when the link began to write to them: what is from there on came by
    it. Written before the first lane of each runs, and anew when the link has let go of the topic in between.

    `begins` are pairs of partition and offset; -1 where that could not be told. It `is_over` once the link let go.
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
    """What a link with `topics.start: latest` has looked for: see `model.firstlook`."""

    KIND: ClassVar[str] = "first-look"

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    waiting: tuple[SourceTopic, ...] = ()


def beginning_of(link: str, topic: TargetTopic, topic_id: uuid.UUID, documents: Mapping[str, Document]) -> Begins:
    """Where a link began to write to the partitions of a topic, as far as its ledger tells."""
    found = documents.get(BeginningDocument(link=link, topic=topic).key)
    return dict(found.begins) if isinstance(found, BeginningDocument) and found.is_about(topic_id) else {}
