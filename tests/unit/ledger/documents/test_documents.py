"""The documents of the ledger as text and back."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import PlanRefused
from isthmus.kafka.batches import records
from isthmus.ledger import poison
from isthmus.ledger.documents.access import AccessDocument
from isthmus.ledger.documents.gateways import HeldForLink, RefusedCount
from isthmus.ledger.documents.kinds import (
    SCHEMA_VERSION,
    BeginningDocument,
    ControllerDocument,
    DeclarationDocument,
    DeletionDocument,
    Document,
    FirstLookDocument,
    ForgottenDocument,
    GapDocument,
    GatewayDocument,
    GatewayPairDocument,
    LeaseDocument,
    LinkDocument,
    MapDocument,
    MilestonesDocument,
    NamespaceDocument,
    PartedDocument,
    PauseDocument,
    ProgressDocument,
    PromisedDocument,
    ReadableDocument,
    RecoveryDocument,
    SynchronizedDocument,
    TaskDocument,
    TaskPauseDocument,
    TopicDocument,
    TransactionNamesDocument,
    VerificationDocument,
    decode_document,
    encode_document,
    kind_of,
    link_of,
)
from isthmus.ledger.documents.lastknown import KnownClusterDocument, KnownNamesDocument
from isthmus.ledger.records import Deletion, LedgerChange, pack_changes, unpack_batches
from isthmus.model.gateways.synchrony import FirstUnheld, OutOfSync, SyncState
from isthmus.model.kafka.access import PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.lane import Gap, Lane, LaneKey, LaneMark, LaneReport, LaneState, Milestone
from isthmus.model.links.promotion import Promised, TornTransaction
from isthmus.model.links.recovery import DivergedPartition, HeldPosition, RecoveryStage, RecoveryWay
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.problem import Problem
from isthmus.model.process.whereabouts import Whereabouts
from isthmus.model.registers import Register
from isthmus.model.translation import MappedRange
from testing.values.remembered import EAST, NAMES

ORDERS = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.UUID(int=1),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.UUID(int=2),
    partition=3,
    is_compacted=True,
)
REPORT = LaneReport(
    key=LaneKey(TargetTopic("orders"), 3),
    state=LaneState.DATA_GAP,
    position=120,
    source_end=200,
    records=7,
    size_bytes=700,
    problem=Problem("records are gone", "Keep them longer."),
    gaps=(Gap(120, 130),),
    within=(4711,),
)
RULE = Rule(
    resource=Resource.GROUP,
    name="east.orders",
    pattern=RulePattern.PREFIXED,
    principal="User:alice",
    host="*",
    operation="READ",
    permission=PermissionType.DENY,
)
DIVERGED = DivergedPartition(partition=3, source_begin=0, source_end=20, target_begin=0, target_end=14, shared=10)
DOCUMENTS: dict[str, Document] = {
    "link/l": LinkDocument(
        link="l", source_cluster_id="S", target_cluster_id="T", producer_id=1 << 40, marker_producer_id=2
    ),
    "topic/l/orders": TopicDocument(
        link="l",
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.UUID(int=2),
        state="mirrored",
        problem=Problem("a", "b"),
        settles=(("cleanup.policy", "compact"), ("retention.ms", None)),
    ),
    "transactions/l": TransactionNamesDocument(link="l", names=(TornTransaction(4711, "pay-1"),)),
    "gap/l/orders-3/120": GapDocument(
        link="l", topic=TargetTopic("orders"), partition=3, offset_begin=120, offset_end=130
    ),
    "beginning/l/orders": BeginningDocument(
        link="l", topic=TargetTopic("orders"), topic_id=uuid.UUID(int=2), begins=((0, 120), (1, -1))
    ),
    "first-look/l": FirstLookDocument(
        link="l", include=("orders*",), exclude=("/x/",), within=("orders-*",), waiting=(SourceTopic("orders"),)
    ),
    f"access/l/{RULE.digest}": AccessDocument(link="l", rule=RULE, origin="orders", is_certain=False),
    "gateway/4711": GatewayDocument(
        gateway="4711",
        host="proxy",
        pid=17,
        advertised="kafka.example:19092",
        ports=(19092, 19099),
        version="1",
        since_ms=5,
        beat=3,
        command=16,
        processes=2,
        connections=9,
        held=(HeldForLink("l", 3, 120),),
        refused=(RefusedCount("silent", 1),),
    ),
    "gateway-pair/l/4711": GatewayPairDocument(
        link="l",
        gateway="4711",
        said="2@T",
        by="kafka.example:19092",
        state=SyncState.OUT_OF_SYNC,
        since_ms=5,
        out_of_sync=OutOfSync.AVAILABLE,
        reason="it stood still",
        lets_go=(FirstUnheld(SourceTopic("orders"), 3, 120),),
    ),
    "synchronized/l": SynchronizedDocument(link="l", said="2@T", since_ms=5, reveals=True),
    "readable/l": ReadableDocument(link="l", said="2@T", since_ms=5),
    "promised/l": PromisedDocument(
        link="l",
        said="2@T",
        maps=('attached/["topic","local-","remote-",false]',),
        promised=Promised(
            out_of_sync=OutOfSync.AVAILABLE,
            was_in_sync=True,
            is_open=False,
            is_heard=True,
            lets_go=(FirstUnheld(SourceTopic("orders"), 3, 120),),
            unaware=("kafka.example:19092",),
        ),
        is_whole=True,
        committed=(OpenTransaction("orders", 3, TransactionState.MIRRORED, 7, 0, -1, 120, 2, transactional_id="one"),),
    ),
    "promised/l/9f86d081": PromisedDocument(
        link="l",
        said="2@T",
        maps=('attached/["topic","local-","remote-",false]',),
        promised=Promised(out_of_sync=OutOfSync.CONSISTENT, was_in_sync=True, is_open=False, is_heard=True),
        part="9f86d081",
    ),
    "promised/l/detach": PromisedDocument(
        link="l",
        said="2@T",
        maps=(),
        promised=Promised(out_of_sync=OutOfSync.CONSISTENT, was_in_sync=True, is_open=False, is_heard=True, until_ms=5),
        verb="detach",
    ),
    "declaration/l/@T": DeclarationDocument(
        link="l",
        cluster="T",
        registers=(Register(name="mode", value='"async"', version=2, at_ms=5, by="anna@host", where="S"),),
    ),
    "recovery/l/orders": RecoveryDocument(
        link="l",
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        stage=RecoveryStage.REBUILDING,
        way=RecoveryWay.REBUILD,
        topic_id=uuid.UUID(int=2),
        configs=(("cleanup.policy", "compact"),),
        partitions=(DIVERGED,),
        positions=(HeldPosition("billing", 3, 7, "note", 5),),
        by="anna@host",
        at_ms=5,
    ),
    "deletion/l/orders": DeletionDocument(
        link="l",
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        topic_id=uuid.UUID(int=2),
        source_topic_id=uuid.UUID(int=1),
        offsets=20,
        is_asked_for=True,
        is_done=True,
        by="anna@host",
        at_ms=5,
    ),
    "forgotten/l/orders": ForgottenDocument(
        link="l",
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        topic_id=uuid.UUID(int=2),
        source_topic_id=uuid.UUID(int=1),
    ),
    "parted/l/orders": PartedDocument(
        link="l",
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.UUID(int=1),
        target_topic_id=uuid.UUID(int=2),
        partitions=(DIVERGED,),
        by="anna@host",
        at_ms=5,
    ),
    "pause/l": PauseDocument(link="l", since_ms=5, by="anna@host"),
    "pause/l/orders": PauseDocument(link="l", topic=TargetTopic("orders"), since_ms=5),
    "task-pause/l/configs": TaskPauseDocument(link="l", task="configs", since_ms=5, by="anna@host"),
    "verification/l": VerificationDocument(link="l", records=7, problem=Problem("a", "b")),
    "controller/l": ControllerDocument(
        link="l", generation=65536, beat=4, started_ms=1, host="h", host_id="b n h", pid=7, process_start=9, version="1"
    ),
    "lease/l/2": LeaseDocument(link="l", slot=2, controller=65536, generation=41, revision=90, lanes=(ORDERS,)),
    "task/l/2": TaskDocument(
        link="l",
        slot=2,
        controller=65536,
        generation=41,
        ended_through=41,
        is_clean=False,
        marks=(LaneMark(TargetTopic("orders"), 3, 120, 7),),
        executor="4",
    ),
    "milestones/l/2": MilestonesDocument(
        link="l",
        slot=2,
        milestones=(
            Milestone(
                topic=TargetTopic("orders"),
                partition=3,
                source_topic_id=uuid.UUID(int=1),
                target_topic_id=uuid.UUID(int=2),
                position=120,
                source_epoch=7,
            ),
        ),
    ),
    "map/l/orders-3/7.1.0": MapDocument(
        link="l",
        topic=TargetTopic("orders"),
        partition=3,
        segment="7.1.0",
        ordinal_begin=4,
        ranges=(MappedRange(10, 90, 5), MappedRange(16, 97, 1)),
        cursor=Cursor(18, 10, 98, 2),
        trimmed_ordinal=2,
        source_topic_id=uuid.UUID(int=1),
        target_topic_id=uuid.UUID(int=2),
    ),
    "progress/l/2": ProgressDocument(
        link="l",
        slot=2,
        controller=65536,
        generation=41,
        is_full=True,
        reports=(REPORT,),
        latency=((3, 10), (9, 1)),
        cpu_s=1.5,
        busy=0.25,
        records_per_s=40.5,
        memory_bytes=1 << 27,
    ),
}


@pytest.mark.parametrize("key", DOCUMENTS)
def test_a_document_survives_the_ledger(key: str) -> None:
    """What is written is read again, under a key that names kind and link; a gateway is no link's."""
    document = DOCUMENTS[key]

    assert document.key == key
    assert decode_document(key, encode_document(document)) == document
    assert (kind_of(key), link_of(key)) == (document.KIND, "" if key.startswith("gateway/") else "l")


@pytest.mark.parametrize("key", DOCUMENTS)
def test_a_document_is_found_by_its_kind(key: str) -> None:
    """The kind and the path lead to it, and among all documents those of its kind are found in their order."""
    document, kind = DOCUMENTS[key], type(DOCUMENTS[key])
    path = key.split("/")[1:]

    assert kind.key_of(*path) == key
    assert kind.find(DOCUMENTS, *path) is document
    assert kind.find({key: replace(document)}, *path[:-1], "another") is None
    assert kind.find_all(DOCUMENTS.values()) == [each for each in DOCUMENTS.values() if type(each) is kind]


def test_documents_of_one_link_are_found() -> None:
    """Those of other links are left out, and all are found where no link is named."""
    documents: list[Document] = [PauseDocument(link=link, since_ms=0) for link in ("a", "b", "a")]

    assert PauseDocument.find_all(documents) == documents
    assert PauseDocument.find_all(documents, "a") == [documents[0], documents[2]]


@pytest.mark.parametrize(("is_exact", "name"), [(False, "local-*"), (True, "local-")])
def test_a_namespace_is_of_no_link(is_exact: bool, name: str) -> None:
    """It belongs to its cluster: no link takes it for a document of its own, whatever the link is called."""
    document = NamespaceDocument(kind="topic", prefix="local-", is_exact=is_exact, cluster="T", registers=())
    key = f"namespace/topic/{name}/@T"
    assert document.key == key
    assert decode_document(key, encode_document(document)) == document
    assert (kind_of(key), link_of(key)) == ("namespace", "")
    assert decode_document(key, encode_document(document).replace(b'"topic"', b'"colour"')) is None


def test_a_known_cluster_is_of_no_link() -> None:
    """It belongs to whoever saw it last, and holds nothing that helps to log in there."""
    document = KnownClusterDocument(cluster=EAST)
    assert document.key == "known/@id-of-east"
    assert decode_document(document.key, encode_document(document)) == document
    assert (kind_of(document.key), link_of(document.key)) == ("known", "")
    assert sorted(json.loads(encode_document(document))["cluster"]) == [
        "alias", "brokers", "cluster_id", "features", "host", "link", "nodes", "seen_ms", "topics", "versions",
    ]  # fmt: skip


def test_what_is_known_of_names_is_of_their_link() -> None:
    """It goes with the link, and comes back as it was."""
    document = KnownNamesDocument(link="l", names=NAMES)
    assert document.key == "known-names/l/@id-of-east"
    assert decode_document(document.key, encode_document(document)) == document
    assert (kind_of(document.key), link_of(document.key)) == ("known-names", "l")


def test_what_is_written_keeps_its_shape() -> None:
    """The stored form of every kind stays as it is: other versions of Isthmus read it."""
    stored = {key: sorted(json.loads(encode_document(document))) for key, document in DOCUMENTS.items()}

    assert stored["link/l"] == [
        "link", "marker_producer_id", "producer_id", "schema_version", "source_cluster_id", "target_cluster_id",
        "tree",
    ]  # fmt: skip
    assert stored["task/l/2"] == [
        "controller", "ended_through", "executor", "generation", "is_clean", "link", "marks", "process", "revision",
        "schema_version", "slot",
    ]  # fmt: skip
    assert stored["milestones/l/2"] == ["link", "milestones", "schema_version", "slot"]
    assert stored["lease/l/2"] == [
        "controller", "ended_through", "generation", "is_clean", "lanes", "limits", "link", "parting", "revision",
        "revoked_through", "schema_version", "slot",
    ]  # fmt: skip
    assert stored["controller/l"] == [
        "attached_said", "beat", "generation", "held_s", "host", "host_id", "link", "pid", "process_start",
        "schema_version", "started_ms", "version",
    ]  # fmt: skip
    assert stored["pause/l"] == ["by", "for_recovery", "link", "prefix", "schema_version", "since_ms", "topic"]
    assert stored["task-pause/l/configs"] == ["by", "link", "schema_version", "since_ms", "task"]


def test_a_document_of_a_newer_version_is_refused() -> None:
    """Guessing what a newer Isthmus meant could make two writers of one."""
    value = json.dumps({"schema_version": SCHEMA_VERSION + 1, "link": "l", "since_ms": 1}).encode()

    with pytest.raises(PlanRefused, match="schema version 2"):
        decode_document("pause/l", value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weather/l", b'{"schema_version":1}'),
        ("pause/l", b"not json"),
        ("pause/l", b"[]"),
        ("pause/l", b'{"link":"l"}'),
        ("pause/l", b'{"schema_version":1,"link":"l"}'),
        ("lease/l/0", b'{"schema_version":1,"link":"l","slot":0,"lanes":7}'),
        ("topic/l/x", b'{"schema_version":1,"link":"l","source_topic_id":"no uuid"}'),
        ("topic/l/x", b'{"schema_version":1,"link":"l","source_topic_id":5}'),
        ("pause/l", b'{"schema_version":1,"link":"other","since_ms":5}'),
        ("pause/l", b'{"schema_version":1,"link":"l","since_ms":null}'),
        ("pause/l", b'{"schema_version":1,"link":"l","since_ms":"5"}'),
        ("pause/l", b'{"schema_version":1,"link":"l","since_ms":true}'),
        ("pause/l", b'{"schema_version":true,"link":"l","since_ms":5}'),
        ("pause/l", b'{"schema_version":Infinity,"link":"l","since_ms":5}'),
        ("pause/l", b"[" * 100_000),
        ("pause/l", b"9" * 10_000),
        ("pause/l", b"\xff\xfe\x00"),
        ("controller/l", b'{"schema_version":1,"link":"l","generation":null,"beat":1,"started_ms":0}'),
        ("group/l/g", b'{"schema_version":1,"link":"l","group":"g","standing":"s","positions":[["t",0,1]]}'),
        ("group/l/g", b'{"schema_version":1,"link":"l","group":"g","standing":"s","positions":[["t","0",1,2]]}'),
        ("group/l/g", b'{"schema_version":1,"link":"l","group":"g","standing":"s","positions":"abc"}'),
        ("group/l/g", b'{"schema_version":1,"link":"l","group":"g","standing":"s","positions":{"a":1}}'),
    ],
)
def test_what_is_no_document_is_passed_over(key: str, value: bytes) -> None:
    """Kinds of a later release and other people's records say nothing and do no harm."""
    assert decode_document(key, value) is None


PLAUSIBLE = st.sampled_from(
    [*{field for document in DOCUMENTS.values() for field in json.loads(encode_document(document))}]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAUSIBLE | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


@given(key=st.sampled_from(sorted(DOCUMENTS)), field=PLAUSIBLE, value=ANYTHING)
def test_a_document_with_anything_in_a_field(key: str, field: str, value: object) -> None:
    """It is a whole document, which can be written again, or it is passed over; nothing else is raised."""
    fields = json.loads(encode_document(DOCUMENTS[key])) | {field: value}
    if field == "schema_version" and type(value) is int and value > SCHEMA_VERSION:
        return
    document = decode_document(key, json.dumps(fields).encode())

    if document is not None:
        assert document.key == key
        assert decode_document(key, encode_document(document)) == document or value != value  # NaN is like nothing


def test_what_is_passed_over_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The ledger is read many times; a warning names the record, and what to do."""
    monkeypatch.setattr(poison, "_told", set())
    for _ in range(3):
        assert decode_document("pause/l/told-once", b"not json") is None

    (record,) = caplog.records
    assert "pause/l/told-once" in record.getMessage()
    assert "Deny WRITE" in record.getMessage()


def test_a_batch_that_cannot_be_decoded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Those around it are read, and so are records whose header keys are no UTF-8."""
    monkeypatch.setattr(poison, "_told", set())
    broken = bytearray(records.encode_records([(1, b"pause/l", b"x", [])]))
    broken[-1] = 77
    odd = records.encode_records([(1, b"pause/l", b"y", [(b"\xff".decode(errors="surrogateescape"), None)])])

    found = list(unpack_batches(bytes(broken) + odd))

    assert [(batch.offset_end, [entry.value for entry in entries]) for batch, entries in found] == [
        (1, []),
        (1, [b"y"]),
    ]
    assert len(caplog.records) == 1


def test_fields_unknown_here_are_left_out() -> None:
    """A release may add fields without a new schema version."""
    value = b'{"schema_version":1,"link":"l","since_ms":5,"reason":"maintenance"}'

    assert decode_document("pause/l", value) == PauseDocument(link="l", since_ms=5)


def test_a_pause_of_an_older_release_is_of_nobody_known() -> None:
    """Who paused was not written then."""
    of_link, of_task = (
        decode_document(key, b'{"schema_version":1,"link":"l","since_ms":5,"task":"a"}')
        for key in ("pause/l", "task-pause/l/a")
    )
    assert of_link == PauseDocument(link="l", since_ms=5, by="")
    assert of_task == TaskPauseDocument(link="l", task="a", since_ms=5, by="")


def test_a_topic_of_an_older_release_has_the_same_offsets() -> None:
    """Its document does not say: there was nothing else then."""
    key = "topic/l/orders"
    fields = json.loads(encode_document(DOCUMENTS[key]))
    assert fields.pop("is_mapped") is False
    assert decode_document(key, json.dumps(fields).encode()) == DOCUMENTS[key]


def test_a_topic_of_an_older_release_settles_nothing() -> None:
    """Its document does not say what a topic gets that is filled: the target's configuration tells whether it is."""
    for key in ("topic/l/orders", "recovery/l/orders"):
        fields = json.loads(encode_document(DOCUMENTS[key]))
        del fields["settles"]
        found = decode_document(key, json.dumps(fields).encode())
        assert isinstance(found, TopicDocument | RecoveryDocument)
        assert found.settles == ()


def test_a_controller_of_the_first_release_does_not_say_where_it_runs() -> None:
    """Its document has fewer fields, so nothing is known of its process; what is known is told."""
    document = decode_document(
        "controller/l", b'{"schema_version":1,"link":"l","generation":5,"beat":1,"started_ms":0}'
    )

    assert isinstance(document, ControllerDocument)
    assert document.whereabouts == Whereabouts()
    assert document.described == "the controller of an older Isthmus, started 1970-01-01T00:00:00Z"
    later = replace(document, host="db1", pid=12)
    assert later.described == "the controller on db1, pid 12, started 1970-01-01T00:00:00Z"


@pytest.mark.parametrize("copies", [1, 200])
def test_changes_travel_in_one_batch(copies: int) -> None:
    """Documents and deletions are packed together, compressed where that is worth it, and come out in order."""
    changes: list[LedgerChange] = [*DOCUMENTS.values(), Deletion("pause/l")] * copies

    batch = pack_changes(changes)
    ((found, entries),) = list(unpack_batches(bytes(batch.view)))

    assert found.offset_end == len(changes)
    assert [entry.key for entry in entries] == [change.key for change in changes]
    decoded = [entry.decode() for entry in entries]
    assert decoded == [None if isinstance(change, Deletion) else change for change in changes]
