"""What the ledger remembers of a recovery: who is at it, how far each topic came, where a replay began."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from isthmus.ledger.document import DocumentOfLink
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.recovery import DivergedPartition, HeldPosition, RecoveryWay
from isthmus.model.topic import Settings
from isthmus.model.whereabouts import UNKNOWN, Whereabouts

RECOVERS: Final = "recovers"
_NO_ID: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryClaimDocument(DocumentOfLink):
    """Somebody recovers the link now, or lets go of it, as `does` says; written again and again with another `beat`."""

    KIND: ClassVar[str] = "recovering"

    by: str
    beat: int
    host: str = ""
    host_id: str = ""
    pid: int = 0
    process_start: int = UNKNOWN
    does: str = RECOVERS

    @property
    def whereabouts(self) -> Whereabouts:
        """Which process it is."""
        return Whereabouts(host=self.host, host_id=self.host_id, pid=self.pid, process_start=self.process_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryDocument(DocumentOfLink):
    """How far the recovery of a topic came, and all that is needed to go on once the diverged topic is gone.

    `topic_id` is that of the topic that diverged, `rebuilt_id` that of the one in its place, nil until there is one.
    `source_topic_id` is that of the source's topic whose logs were compared. It is created again with `configs`, and
    gets what `settles` says when it is filled.
    """

    KIND: ClassVar[str] = "recovery"

    topic: TargetTopic
    source_topic: SourceTopic
    stage: str
    way: RecoveryWay = RecoveryWay.REBUILD
    topic_id: uuid.UUID
    rebuilt_id: uuid.UUID = _NO_ID
    source_topic_id: uuid.UUID = _NO_ID
    replication_factor: int = 1
    configs: tuple[tuple[str, str], ...] = ()
    settles: Settings = ()
    partitions: tuple[DivergedPartition, ...] = ()
    positions: tuple[HeldPosition, ...] = ()
    quarantined: int = 0
    by: str
    at_ms: int

    def _path(self) -> tuple[str, ...]:
        return (self.topic,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedDocument(DocumentOfLink):
    """A topic that goes on with mapped offsets, whatever the link says of offsets: an operator had it so when both
    sides had parted (`partitions`). It is about the topics with these ids, and over once one of them is another.
    """

    KIND: ClassVar[str] = "parted"

    topic: TargetTopic
    source_topic: SourceTopic
    source_topic_id: uuid.UUID
    target_topic_id: uuid.UUID
    partitions: tuple[DivergedPartition, ...]
    by: str
    at_ms: int

    def _path(self) -> tuple[str, ...]:
        return (self.topic,)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionDocument(DocumentOfLink):
    """A topic of the target that is deleted because the source has deleted the one it was made of, with the ids of
    both: announced before it is done. It held `offsets` offsets. `is_asked_for` says that an operator named the topic,
    where else the link's policy has it deleted. One that `is_withheld` is neither done nor announced: the topic went at
    the source with too many others.
    """

    KIND: ClassVar[str] = "deletion"

    topic: TargetTopic
    source_topic: SourceTopic
    topic_id: uuid.UUID
    source_topic_id: uuid.UUID
    offsets: int
    is_asked_for: bool
    is_done: bool = False
    is_withheld: bool = False
    by: str
    at_ms: int

    def _path(self) -> tuple[str, ...]:
        return (self.topic,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenDocument(DocumentOfLink):
    """A topic that the link was to forget when its source had deleted its own, with the ids of both: a topic that comes
    to the source under its name is another one, and this one stands in its way.
    """

    KIND: ClassVar[str] = "forgotten"

    topic: TargetTopic
    source_topic: SourceTopic
    topic_id: uuid.UUID
    source_topic_id: uuid.UUID

    def _path(self) -> tuple[str, ...]:
        return (self.topic,)


class ReplayBegin(NamedTuple):
    """Where the log of a partition ended when the first replay into it began."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDocument(DocumentOfLink):
    """A replay from quarantine: what it has written stands behind these offsets of another topic."""

    KIND: ClassVar[str] = "replay"

    topic: TargetTopic
    cluster_id: str
    into: str
    begins: tuple[ReplayBegin, ...]
    by: str
    at_ms: int

    def _path(self) -> tuple[str, ...]:
        return (self.topic, self.cluster_id, self.into)
