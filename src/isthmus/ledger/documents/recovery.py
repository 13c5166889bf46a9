"""Documents of recoveries: the claim of the process, the progress of each topic, and where a replay began."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.model.kafka.topic import Settings
from isthmus.model.links.recovery import DivergedPartition, HeldPosition, RecoveryWay
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.whereabouts import UNKNOWN, Whereabouts

RECOVERS: Final = "recovers"
_NO_ID: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryClaimDocument(DocumentOfLink):
    """The claim of a process that recovers the link, or lets go of it (`does`); repeated with another `beat`."""

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
        """The process with the claim."""
        return Whereabouts(host=self.host, host_id=self.host_id, pid=self.pid, process_start=self.process_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryDocument(DocumentOfLink):
    """The progress of the recovery of a topic, and all that is needed to go on once the diverged topic is gone.

    `topic_id` is that of the topic that diverged, `rebuilt_id` that of its replacement, nil until there is one.
    `source_topic_id` is that of the source's topic whose logs were compared. The topic is created again with `configs`,
    and gets the settings in `settles` once it is filled.
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
    """A topic that goes on with mapped offsets, whatever the link's setting: an operator chose this after the two sides
    had parted (`partitions`). It is valid for the topics with these ids only.
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
    """The deletion of a target topic because its source topic was deleted, with the ids of both; written before it is
    done. The topic held `offsets` offsets. With `is_asked_for` an operator named the topic, else the link's policy
    deletes it. With `is_withheld` it is not done: the source deleted too many topics at once.
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
    """A topic that the link had to forget after its source topic was deleted, with the ids of both: a new source topic
    of that name is another one, and the forgotten target topic stands in its way.
    """

    KIND: ClassVar[str] = "forgotten"

    topic: TargetTopic
    source_topic: SourceTopic
    topic_id: uuid.UUID
    source_topic_id: uuid.UUID

    def _path(self) -> tuple[str, ...]:
        return (self.topic,)


class ReplayBegin(NamedTuple):
    """The log end of a partition when the first replay into it began."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDocument(DocumentOfLink):
    """A replay from quarantine: its records lie behind these offsets of another topic."""

    KIND: ClassVar[str] = "replay"

    topic: TargetTopic
    cluster_id: str
    into: str
    begins: tuple[ReplayBegin, ...]
    by: str
    at_ms: int

    def _path(self) -> tuple[str, ...]:
        return (self.topic, self.cluster_id, self.into)
