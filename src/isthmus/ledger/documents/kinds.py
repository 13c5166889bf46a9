"""The documents of the ledger: one JSON document per key, of which the newest counts.

    link/east-west                the two clusters and the producer ids of the link
    topic/east-west/orders        which topics, by id, a target topic is made of, and how it stands
    gap/east-west/orders-3/120    records the source deleted before they were copied
    group/east-west/billing       what was written for a consumer group at the target, and how it stands
    loop/east-west/configs        how what the link keeps alike beside its data stands
    schemas/east-west             which ids of schemas the registry of the target holds
    verification/east-west        what the last comparison of both sides found
    access/east-west/9f86d081     an access rule that the link made at the target
    declaration/east-west/@ID     what operators declared of the link, as the cluster with this id knows it
    namespace/topic/local-*/@ID   what operators declared of a namespace of the cluster with this id
    known/@ID                     another cluster, as it was seen last
    known-names/east-west/@ID     what it had of the link's namespaces then
    filters/east-west             what an operator has the link select, in place of the file
    switch/flights.ams.2          to which leaf a distributor copies where that was chosen; at its source
    allowance/flights.ams.2       how far it may go before more is stated; at its source
    tree-declaration/flights/@ID  what operators declared of a tree, as the cluster with this id knows it
    tree/flights                  the clusters of a tree that became another one than was written or declared
    first-look/east-west          what it has looked for, if topics begin at their end: what comes later does not
    beginning/east-west/orders    where its partitions ended when the link began to write to them
    provenance/east-west/orders-3/120  where the records before an offset came from, by a link that let go of them
    recovering/east-west          who brings topics of the link back that have diverged
    recovery/east-west/orders     how far that came
    deletion/east-west/orders     a topic that is or was deleted because the source has deleted its own
    forgotten/east-west/orders    a topic that the link was to forget as its source had deleted its own
    parted/east-west/orders       a topic that goes on with mapped offsets since both sides had parted
    replay/east-west/orders/ID/x  from where on a topic holds what was replayed from quarantine
    pause/east-west[/orders]      an operator paused the link, or one topic of it
    task-pause/east-west/configs  an operator paused a task of the link
    controller/east-west          who controls the link, and that it is alive
    lease/east-west/0             what the controller lets the tasks of a slot do
    task/east-west/0              what the newest task of a slot says of itself
    milestones/east-west/0        how far its lanes have been, for the next owner after a crash
    receipt/east-west/0           what became of the newest task of a slot that shared its worker with others
    gateway/ID                    a gateway before this cluster, and that it is alive
    gateway-pair/east-west/ID     what it says of a synchronous link; the target has a copy
    synchronized/east-west        that a gateway was in sync since the link is synchronous
    promised/east-west/9f86d081   what gateways had acknowledged of a part of it, until a failover of that is over
    move/@ID                      that clients of the cluster with this id move to another one, or have moved
    carried/@ID/orders/0          what leaders there knew of producers of a topic, and up to where it is the same here
    carried-transactions/@ID/0    what coordinators there knew of transactional ids, and what is known of these here
    movable-gateway/ID            a gateway that does so, and how far it has come
    map/east-west/orders-3/7.1.0  which offsets of a mapped lane went where, as one lease wrote it down
    departure/east-west/orders-3/7.1.0  where changed records come from that may be on their way
    transform/east-west/orders-3/120.0.7  from which record on which transform changed the records of a lane
    progress/east-west/0          how far its lanes are, for people to look at

None of it is trusted over the logs of the target. Losing it costs no record.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from isthmus.errors import PlanRefused
from isthmus.ledger.documents.access import AccessDocument
from isthmus.ledger.documents.controller import ControllerDocument as ControllerDocument
from isthmus.ledger.documents.declared import AllowanceDocument as AllowanceDocument
from isthmus.ledger.documents.declared import DeclarationDocument as DeclarationDocument
from isthmus.ledger.documents.declared import FiltersDocument as FiltersDocument
from isthmus.ledger.documents.declared import NamespaceDocument as NamespaceDocument
from isthmus.ledger.documents.declared import PauseDocument as PauseDocument
from isthmus.ledger.documents.declared import SettingsDocument as SettingsDocument
from isthmus.ledger.documents.declared import SwitchDocument as SwitchDocument
from isthmus.ledger.documents.declared import TaskPauseDocument as TaskPauseDocument
from isthmus.ledger.documents.declared import TreeDeclarationDocument as TreeDeclarationDocument
from isthmus.ledger.documents.declared import TreeDocument as TreeDocument
from isthmus.ledger.documents.document import Document as Document
from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.ledger.documents.gateways import GatewayDocument as GatewayDocument
from isthmus.ledger.documents.gateways import GatewayPairDocument as GatewayPairDocument
from isthmus.ledger.documents.gateways import PreparedDocument as PreparedDocument
from isthmus.ledger.documents.gateways import PromisedDocument as PromisedDocument
from isthmus.ledger.documents.gateways import ReadableDocument as ReadableDocument
from isthmus.ledger.documents.gateways import SynchronizedDocument as SynchronizedDocument
from isthmus.ledger.documents.groups import GroupDocument as GroupDocument
from isthmus.ledger.documents.groups import GroupPosition as GroupPosition
from isthmus.ledger.documents.lastknown import KnownClusterDocument, KnownNamesDocument
from isthmus.ledger.documents.loops import LoopDocument as LoopDocument
from isthmus.ledger.documents.loops import VerificationDocument as VerificationDocument
from isthmus.ledger.documents.milestones import MilestonesDocument as MilestonesDocument
from isthmus.ledger.documents.moves import CarriedDocument as CarriedDocument
from isthmus.ledger.documents.moves import CarriedTransactionsDocument as CarriedTransactionsDocument
from isthmus.ledger.documents.moves import MovableGatewayDocument as MovableGatewayDocument
from isthmus.ledger.documents.moves import MoveDocument as MoveDocument
from isthmus.ledger.documents.provenance import BeginningDocument as BeginningDocument
from isthmus.ledger.documents.provenance import FirstLookDocument as FirstLookDocument
from isthmus.ledger.documents.provenance import ProvenanceDocument as ProvenanceDocument
from isthmus.ledger.documents.quotas import QuotaDocument
from isthmus.ledger.documents.recovery import DeletionDocument as DeletionDocument
from isthmus.ledger.documents.recovery import ForgottenDocument as ForgottenDocument
from isthmus.ledger.documents.recovery import PartedDocument as PartedDocument
from isthmus.ledger.documents.recovery import RecoveryClaimDocument as RecoveryClaimDocument
from isthmus.ledger.documents.recovery import RecoveryDocument as RecoveryDocument
from isthmus.ledger.documents.recovery import ReplayDocument as ReplayDocument
from isthmus.ledger.documents.schemas import DistributedSchemaDocument as DistributedSchemaDocument
from isthmus.ledger.documents.schemas import SchemaIdsDocument as SchemaIdsDocument
from isthmus.ledger.documents.transforms import DepartureDocument as DepartureDocument
from isthmus.ledger.documents.transforms import TransformDocument as TransformDocument
from isthmus.ledger.encoding import build_value, plain
from isthmus.ledger.poison import pass_over
from isthmus.model.kafka.topic import LeftInTier, Settings
from isthmus.model.lane import Lane, LaneKey, LaneMark, LaneReport, LaneState
from isthmus.model.link import Limits
from isthmus.model.links.promotion import TornTransaction
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.problem import Problem
from isthmus.model.process.receipt import Receipt
from isthmus.model.process.whereabouts import NOT_TOLD, Whereabouts
from isthmus.model.translation import MappedRange

SCHEMA_VERSION: Final = 1
_NO_ID: Final = uuid.UUID(int=0)
_VERSION_FIELD: Final = "schema_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDocument(DocumentOfLink):
    """The identity of a link, of a distributor with its `tree`. Producer ids belong to this target cluster alone."""

    KIND: ClassVar[str] = "link"

    source_cluster_id: str
    target_cluster_id: str
    producer_id: int
    marker_producer_id: int
    tree: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionNamesDocument(DocumentOfLink):
    """The transactional ids of the source's producers whose transactions lanes had copied in part, the newest last."""

    KIND: ClassVar[str] = "transactions"

    names: tuple[TornTransaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPartition:
    """A partition whose lane waits for an operator, with its state and the reason."""

    partition: int
    state: str
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDocument(DocumentOfLink):
    """One target topic and the source topic it was begun from. Topic ids are nil where a broker has none.

    `state` and `problem` are those of the topic as a whole, `ended` holds single partitions that have ended.
    `is_mapped` means that records got other offsets at the target, see `MapDocument`. `left` are the offsets that stay
    in the source's remote tier: identity partitions begin behind them, mapped ones where their maps begin. For mapped
    topics `first_partitions` and `settles` are as in `TopicIds`.

    A topic that `is_wanted` is not copied yet: its link checks once more whether another link writes it.
    """

    KIND: ClassVar[str] = "topic"

    source_topic: SourceTopic
    source_topic_id: uuid.UUID
    target_topic: TargetTopic
    target_topic_id: uuid.UUID
    state: str
    problem: Problem | None = None
    ended: tuple[EndedPartition, ...] = ()
    is_mapped: bool = False
    left: tuple[LeftInTier, ...] = ()
    first_partitions: int = -1
    settles: Settings = ()

    @property
    def is_wanted(self) -> bool:
        return self.state == LaneState.STARTING

    def _path(self) -> tuple[str, ...]:
        return (self.target_topic,)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapDocument(DocumentOfLink):
    """Source offsets `[offset_begin, offset_end)` that were gone before they were copied."""

    KIND: ClassVar[str] = "gap"

    topic: TargetTopic
    partition: int
    offset_begin: int
    offset_end: int

    def _path(self) -> tuple[str, ...]:
        return (str(LaneKey(self.topic, self.partition)), str(self.offset_begin))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDocument(DocumentOfLink):
    """The controller's orders for a slot, whose tasks follow one another as `generation` 1, 2, 3 ...

    `generation` is that of the newest task that was started, and `revision` grows with every change. `lanes` are those
    to run from now on; `parting` are those that were taken away and that a task may still be writing. Tasks up to
    `revoked_through` have to end. Tasks up to `ended_through` have ended; `is_clean` means that they left no request on
    its way to the target.
    """

    KIND: ClassVar[str] = "lease"

    slot: int
    controller: int
    generation: int
    revision: int
    lanes: tuple[Lane, ...]
    parting: tuple[LaneKey, ...] = ()
    revoked_through: int = 0
    ended_through: int = 0
    is_clean: bool = True
    limits: Limits | None = None
    """The limits of the task, with its share of `bytes_per_s`; `None` where an older release did not write them."""

    def _path(self) -> tuple[str, ...]:
        return (str(self.slot),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDocument(DocumentOfLink):
    """A task's report on itself. First it reports that it waits. With its own generation as `ended_through` it reports
    that it, and so every task of the slot before it, will never write again; `marks` show how it left the lanes.
    `revision` means that it does not write the lanes any more that the slot had lost by that revision of the lease.
    `process` runs the task: on the same host, a controller can see that it has ended. `executor` is Spark's name of the
    executor that it belongs to, "" where that is unknown.
    """

    KIND: ClassVar[str] = "task"

    slot: int
    controller: int
    generation: int
    ended_through: int
    is_clean: bool
    marks: tuple[LaneMark, ...] = ()
    revision: int = -1
    process: Whereabouts = NOT_TOLD
    executor: str = ""

    def _path(self) -> tuple[str, ...]:
        return (str(self.slot),)

    @property
    def has_ended(self) -> bool:
        return self.ended_through >= self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptDocument(DocumentOfLink):
    """The result of a task whose worker still runs tasks of other links: Spark reports it only when all have ended."""

    KIND: ClassVar[str] = "receipt"

    controller: int
    receipt: Receipt

    def _path(self) -> tuple[str, ...]:
        return (str(self.receipt.slot),)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapDocument(DocumentOfLink):
    """A segment of the map of one mapped lane: its records from `ordinal_begin` on, up to `cursor`. The lane began at
    the source offset `begin`, -1 where that is not known. Records before `trimmed_ordinal` were deleted at the target
    and need no segments. Each lease writes segments of its own; `taken_at` is the offset up to which it had read the
    ledger when it took the lane over (-1 from older releases). Segments stay true, so late or repeated ones do no harm:
    the map is the union of all segments with the same topic ids, and for the same records the last lease counts. One
    that `is_final` means that no record of the lane came behind its cursor until another lease took it over.
    """

    KIND: ClassVar[str] = "map"

    topic: TargetTopic
    partition: int
    segment: str
    ordinal_begin: int
    ranges: tuple[MappedRange, ...]
    cursor: Cursor
    begin: int = -1
    trimmed_ordinal: int = -1
    taken_at: int = -1
    is_final: bool = False
    source_topic_id: uuid.UUID = _NO_ID
    target_topic_id: uuid.UUID = _NO_ID

    def _path(self) -> tuple[str, ...]:
        return (str(LaneKey(self.topic, self.partition)), self.segment)

    def is_of(self, source_topic_id: uuid.UUID, target_topic_id: uuid.UUID) -> bool:
        """Whether it is about the topics with these ids, not about earlier ones of the same names."""
        pairs = ((self.source_topic_id, source_topic_id), (self.target_topic_id, target_topic_id))
        return all(_NO_ID in pair or pair[0] == pair[1] for pair in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressDocument(DocumentOfLink):
    """The progress of the lanes of a lease: of those that moved since its last document, sometimes all (`is_full`).

    `latency` holds the pairs (bucket, count) of the lease's histogram so far, without the empty buckets. `beat` is the
    newest beat of the controller that the task had read when it made the document. `busy` is the share of its time for
    which the task's worker has worked lately, and `records_per_s` what the lease copies; -1 while unknown.
    """

    KIND: ClassVar[str] = "progress"

    slot: int
    controller: int
    generation: int
    is_full: bool
    reports: tuple[LaneReport, ...]
    latency: tuple[tuple[int, int], ...] = ()
    cpu_s: float = 0.0
    memory_bytes: int = 0
    beat: int = -1
    busy: float = -1.0
    records_per_s: float = -1.0

    def _path(self) -> tuple[str, ...]:
        return (str(self.slot),)


_OTHERS = (
    DeclarationDocument,
    KnownClusterDocument,
    KnownNamesDocument,
    BeginningDocument,
    ProvenanceDocument,
    RecoveryClaimDocument,
    RecoveryDocument,
    DeletionDocument,
    ForgottenDocument,
    PartedDocument,
    ReplayDocument,
    FiltersDocument,
    SettingsDocument,
    PauseDocument,
    TaskPauseDocument,
    VerificationDocument,
    SwitchDocument,
    AllowanceDocument,
    DistributedSchemaDocument,
    TreeDocument,
    TreeDeclarationDocument,
    TaskDocument,
    MilestonesDocument,
    ReceiptDocument,
    MapDocument,
    DepartureDocument,
    TransformDocument,
    ProgressDocument,
    GatewayDocument,
    GatewayPairDocument,
    PreparedDocument,
    PromisedDocument,
    SynchronizedDocument,
    ReadableDocument,
    MoveDocument,
    CarriedDocument,
    CarriedTransactionsDocument,
    MovableGatewayDocument,
)
OTHERS: Final = frozenset(kind.KIND for kind in _OTHERS)
"""The kinds that tasks, operators and gateways write; all others belong to the controller."""

WANTED: Final = frozenset(
    kind.KIND
    for kind in (
        DeclarationDocument,
        FiltersDocument,
        NamespaceDocument,
        PauseDocument,
        RecoveryDocument,
        SettingsDocument,
        TreeDeclarationDocument,
    )
)
"""The kinds that only hold what operators want, and the progress of their commands: no task acts on them."""

_KINDS: Final[dict[str, type[Document]]] = {
    kind.KIND: kind
    for kind in (
        LinkDocument,
        TopicDocument,
        FirstLookDocument,
        TransactionNamesDocument,
        GapDocument,
        GroupDocument,
        LoopDocument,
        SchemaIdsDocument,
        AccessDocument,
        QuotaDocument,
        NamespaceDocument,
        ControllerDocument,
        LeaseDocument,
        *_OTHERS,
    )
}


def encode_document(document: Document) -> bytes:
    """Encode a document as it is stored."""
    return json.dumps({_VERSION_FIELD: SCHEMA_VERSION, **plain(document)}, separators=(",", ":")).encode()


def decode_document(key: str, value: bytes) -> Document | None:
    """Decode the document stored under `key`; `None` for an unknown kind and for a value that is no document.

    :raises PlanRefused: A newer Isthmus wrote it with a schema version that is unknown here.
    """
    kind = _KINDS.get(kind_of(key))
    if kind is None:
        return None
    try:
        document: Document = build_value(kind, _fields(key, value))
        if document.key != key:
            raise ValueError(f"it is {document.key}")
    except (ValueError, KeyError, RecursionError) as error:
        # Another program wrote to the ledger: ignore what is no document.
        pass_over(f"the record {key}", error)
        return None
    return document


def _fields(key: str, value: bytes) -> Any:
    fields: Any = json.loads(value)
    if not isinstance(fields, dict):
        raise ValueError("it is no object")
    version = fields[_VERSION_FIELD]
    if type(version) is not int:
        raise ValueError(f"its {_VERSION_FIELD} is no whole number")
    if version > SCHEMA_VERSION:
        raise PlanRefused(
            f"the ledger's document {key} has schema version {version}; this Isthmus knows {SCHEMA_VERSION}",
            hint="A newer Isthmus wrote it: upgrade this one to the same release.",
        )
    return fields


def kind_of(key: str) -> str:
    """The kind of the document with this key."""
    return key.split("/", 1)[0]


_UNLINKED: Final = frozenset(name for name, kind in _KINDS.items() if not issubclass(kind, DocumentOfLink))


def link_of(key: str) -> str:
    """The link of the document with this key, "" for a kind without a link."""
    kind, _, rest = key.partition("/")
    return "" if kind in _UNLINKED else rest.partition("/")[0]
