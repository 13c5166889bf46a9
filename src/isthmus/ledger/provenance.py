"""Where the records of a topic came from, as the ledger of the cluster that has it remembers."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import ClassVar, Final

from isthmus.ledger.document import DocumentOfLink
from isthmus.model.lane import LaneKey
from isthmus.model.naming import SourceTopic, TargetTopic

_NO_ID: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceDocument(DocumentOfLink):
    """Offsets `[offset_begin, offset_end)` of a partition came from a cluster by a link, which then let go of it.

    `verb` is what ended that: detach, promote or failover. `missing_records` is how many more the source was known to
    have, -1 where that is not known. What lies behind `offset_end` was written here, or came by another link. What the
    source's offsets `[left_begin, left_end)` held was left in its remote tier.
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
    left_begin: int = 0
    left_end: int = 0
    verb: str
    by: str
    at_ms: int

    def _path(self) -> tuple[str, ...]:
        return (str(LaneKey(self.topic, self.partition)), str(self.offset_end))
