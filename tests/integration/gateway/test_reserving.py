"""A gateway in front of a follower: what is refused of names that are reserved, and that everything beside passes."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from isthmus.fabric.fabric import Namespaces
from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import Conversation, RequestStream
from isthmus.gateway.frames.acknowledging import read_acknowledgements
from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.frames.messages import PASSING
from isthmus.gateway.frames.refusing import GROUPED, LISTINGS
from isthmus.gateway.frames.reserved import ReservedNames
from isthmus.gateway.frames.reserving import CONCERNED
from isthmus.gateway.frames.serving import Serving
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.links.writability import KeptBy
from isthmus.model.namespace import Namespace
from isthmus.model.text.plain import plain
from testing.gateways.gateways import gateway
from testing.patience import TERM_S
from tests.conftest import HEAP_MB
from tests.integration.gateway.definitions import MadeUp, Value, defaults, definitions, encoded, moved
from tests.integration.gateway.frames import answer, elsewhere, passed, request, versions_of

pytestmark = pytest.mark.integration
KEPT: Final = "kept.orders"
EXAMPLES: Final = 6
TOLD: Final = "It is reserved: only the link that it follows by writes there."
LISTED: Final = {
    0: ("TopicData", "Responses"),
    19: ("Topics", "Topics"),
    20: ("TopicNames", "Responses"),
    21: ("Topics", "Topics"),
    33: ("Resources", "Responses"),
    37: ("Topics", "Results"),
    42: ("GroupsNames", "Results"),
    44: ("Resources", "Responses"),
}
"""Where requests list what they are about, and answers what becomes of it."""


def reserved(heard_at: float = float("inf")) -> ReservedNames:
    """The topics and groups whose names begin so are reserved."""
    found = ReservedNames()
    found.take("topics", 0, Namespace(prefix="kept."))
    found.take("groups", 1, Namespace(prefix="kept.", kind="group"))
    found.heard_at = heard_at
    return found


def begun(names: ReservedNames) -> tuple[Conversation, RequestStream, Callable[[bytes], bytes]]:
    """A conversation, the way of its requests, and what becomes of what the broker answers."""
    conversation, requests, answers = Conversation.create(DEFAULTS, elsewhere, Serving(reserved=names))
    conversation.now = 100.0
    return conversation, requests, lambda sent: b"".join(map(bytes, answers.take(memoryview(sent))))


def named(item: Any, name: str) -> Any:
    """An item of a request, about this name, and about a topic if it may be about something else."""
    if isinstance(item, str):
        return name
    field = "ResourceName" if "ResourceName" in item else "Name"
    return {**item, field: name, **({"ResourceType": 2} if field == "ResourceName" else {})}


def refusal(key: int, item: Any, code: int, told: str) -> Value:
    """What an answer says of an item that is refused."""
    name = item if isinstance(item, str) else item.get("Name")
    if key == 0:
        nothing = {"BaseOffset": -1, "LogAppendTimeMs": -1, "LogStartOffset": -1, "RecordErrors": []}
        parts = [
            {"Index": one["Index"], "ErrorCode": code, **nothing, "ErrorMessage": None} for one in item["PartitionData"]
        ]
        return {"Name": name, "PartitionResponses": parts}
    if key == 21:
        parts = [{"PartitionIndex": one["PartitionIndex"], "ErrorCode": code} for one in item["Partitions"]]
        return {"Name": name, "Partitions": [{**one, "LowWatermark": -1} for one in parts]}
    said = {"ErrorCode": code, "ErrorMessage": told, "Name": name, "GroupId": name, "TopicId": bytes(16)}
    if key == 19:
        said |= {"NumPartitions": -1, "ReplicationFactor": -1, "Configs": None}
    return said | {"ResourceType": 2, "ResourceName": item.get("ResourceName") if isinstance(item, dict) else None}


@pytest.mark.parametrize("key", LISTED)
def test_what_is_reserved_is_cut_out(key: int) -> None:
    """In every version, however bytes arrive: the broker gets the request without what is reserved, the client its
    answer with that refused in front; where all of it is reserved nothing is forwarded, where nothing is it passes as
    it is. While the ledger is not heard, the code has the client ask again.
    """
    asked, told = LISTED[key]
    asking, telling, chance = definitions("Request")[key], definitions("Response")[key], random.Random(key)
    for version in versions_of(key):
        for example in range(EXAMPLES * 4):
            is_sure = example % 5 != 4
            code = {"topic": 29, "group": 30}[LISTINGS[key].kind] if is_sure else LISTINGS[key].unsure
            words = (
                TOLD if is_sure else "It is reserved, and the gateway has not heard for a while whether it still is."
            )
            conversation, requests, answered = begun(reserved() if is_sure else reserved(94.0))
            value = {**MadeUp(asking, version, chance).value(), "Acks": 1}
            made = [item for _ in range(4) for item in MadeUp(asking, version, chance).value()[asked]][:4]
            names = [chance.choice((KEPT, "mine")) for _ in made]
            items = [named(item, f"{name}{index}") for index, (name, item) in enumerate(zip(names, made, strict=True))]
            kept = [item for name, item in zip(names, items, strict=True) if name == KEPT]
            rest = [item for name, item in zip(names, items, strict=True) if name != KEPT]
            tags = bool(example % 2)
            sent, wanted = (
                request(asking, version, encoded(asking, version, {**value, asked: some}, unknown_tags=tags), 7, b"me")
                for some in (items, rest)
            )

            found = passed(requests, sent, chance)

            assert found == (b"" if items and not rest else wanted), (version, names)
            refused = [refusal(key, item, code, words) for item in kept]
            said = {**MadeUp(telling, version, chance).value(), told: []}
            if items and not rest:
                (ours,) = conversation.expected
                whole = {**defaults(telling, version), told: refused}
                assert ours.answer == answer(telling, version, encoded(telling, version, whole), 7, tags=b"\0")
                continue
            said[told] = MadeUp(telling, version, chance).value()[told]
            arriving = answer(telling, version, encoded(telling, version, said), 7, tags=b"\0")
            whole = moved(said, elsewhere)
            whole[told] = refused + whole[told]
            assert answered(arriving) == answer(telling, version, encoded(telling, version, whole), 7, tags=b"\0")
            assert not conversation.expected


@pytest.mark.parametrize("key", [*LISTED, 3])
def test_nothing_is_forwarded_before_all_of_it_is_there(key: int) -> None:
    """Wherever a request is cut in two, behind all names too: the broker gets whole requests, and the same ones."""
    asking, chance = definitions("Request")[key], random.Random(key)
    asked = LISTED[key][0] if key in LISTED else "Topics"
    for version in versions_of(key) if key in LISTED else range(4, PASSING[3].version_max + 1):
        value, made = {}, list[Any]()
        while len(made) < 2:
            value = {**MadeUp(asking, version, chance).value(), "Acks": 1, "AllowAutoTopicCreation": True}
            made += value[asked] or []
        items = [named(item, name) for item, name in zip(made, ("mine", KEPT), strict=False)]
        body = encoded(asking, version, {**value, asked: items}, unknown_tags=True)
        sent, found = request(asking, version, body, 7, b"me"), set[bytes]()
        for cut in range(1, len(sent) + 1):
            _, requests, _ = begun(reserved())
            parts = [requests.take(memoryview(bytearray(part))) for part in (sent[:cut], sent[cut:])]
            found.add(b"".join(bytes(each) for part in parts for each in part))
        (forwarded,) = found
        assert b"mine" in forwarded


@pytest.mark.parametrize("key", GROUPED)
def test_a_reserved_group_is_refused(key: int) -> None:
    """In every version, however bytes arrive: the answer is ours, and as brokers say it. Other groups pass."""
    asking, telling, chance = definitions("Request")[key], definitions("Response")[key], random.Random(key)
    for version in versions_of(key):
        for _ in range(EXAMPLES):
            value = MadeUp(asking, version, chance).value()
            for group in (KEPT, "mine", ""):
                conversation, requests, _ = begun(reserved())
                sent = request(asking, version, encoded(asking, version, {**value, "GroupId": group}), 7, b"me")
                found = passed(requests, sent, chance)

                (expected,) = conversation.expected
                if group != KEPT:
                    assert (found, expected.answer) == (sent, b"")
                    continue
                said = {**defaults(telling, version), "ErrorCode": 30, "ErrorMessage": TOLD}
                if key in (8, 28):
                    topics: dict[str, list[int]] = {}
                    for topic in value["Topics"]:
                        topics.setdefault(topic["Name"], []).extend(
                            one["PartitionIndex"] for one in topic["Partitions"]
                        )
                    said["Topics"] = _positions(topics, is_set=key == 8)
                if key == 11:
                    said["ProtocolName"] = None if version >= 7 else ""
                assert found == b""
                assert expected.answer == answer(telling, version, encoded(telling, version, said), 7, tags=b"\0")


def _positions(topics: Mapping[str, Sequence[int]], *, is_set: bool) -> list[Value]:
    return [
        {
            "Name": name,
            "Partitions": [
                {"PartitionIndex": each, "ErrorCode": 30} for each in sorted(set(found) if is_set else found)
            ],
        }
        for name, found in sorted(topics.items())
        if found
    ]


def test_all_or_nothing_is_added_to_a_transaction() -> None:
    """With a reserved topic among others none is added: it is refused, the others are said not to have been tried."""
    asking, telling, chance = definitions("Request")[24], definitions("Response")[24], random.Random(24)
    for version in versions_of(24):
        value = MadeUp(asking, version, chance).value()
        for names in (("mine", "others"), ("mine", KEPT), (KEPT,)):
            conversation, requests, _ = begun(reserved())
            topics = [{"Name": name, "Partitions": [0, 3]} for name in names]
            body = encoded(asking, version, {**value, "V3AndBelowTopics": topics}, unknown_tags=True)
            sent = request(asking, version, body, 7, b"me")
            found = passed(requests, sent, chance)

            (expected,) = conversation.expected
            if KEPT not in names:
                assert (found, expected.answer) == (sent, b"")
                continue
            results = [
                {
                    "Name": name,
                    "ResultsByPartition": [
                        {"PartitionIndex": each, "PartitionErrorCode": 29 if name == KEPT else 55} for each in (0, 3)
                    ],
                }
                for name in names
            ]
            said = {**defaults(telling, version), "ResultsByTopicV3AndBelow": results}
            assert found == b""
            assert expected.answer == answer(telling, version, encoded(telling, version, said), 7, tags=b"\0")


def test_metadata_creates_nothing_that_is_reserved() -> None:
    """In every version: a request that would create what is reserved does not, the others it names are asked for before
    and so created, and the client gets the answer about all of them.
    """
    asking, telling, chance = definitions("Request")[3], definitions("Response")[3], random.Random(3)
    for version in range(4, PASSING[3].version_max + 1):
        value = {**MadeUp(asking, version, chance).value(), "AllowAutoTopicCreation": True}
        said = MadeUp(telling, version, chance).value()
        arriving = answer(telling, version, encoded(telling, version, said), 7, tags=b"\0")
        meant = answer(telling, version, encoded(telling, version, moved(said, elsewhere)), 7, tags=b"\0")
        for names in (None, [], ["mine"], ["mine", KEPT], [KEPT]):
            topics = None if names is None else [{"Name": name, "TopicId": bytes(16)} for name in names]
            others = [each for each in topics or () if each["Name"] != KEPT]
            whole, rest, mild = (
                request(asking, version, encoded(asking, version, {**value, **changed}, unknown_tags=True), 7, b"me")
                for changed in (
                    {"Topics": topics},
                    {"Topics": others},
                    {"Topics": topics, "AllowAutoTopicCreation": False},
                )
            )
            conversation, requests, answered = begun(reserved())
            found = passed(requests, whole, chance)

            is_kept = KEPT in (names or ())
            assert found == ((rest if others else b"") + mild if is_kept else whole)
            replies = [answered(arriving) for _ in range(len(conversation.expected))]
            assert replies == ([b"", meant] if is_kept and others else [meant])
            conversation, requests, answered = begun(reserved())
            assert passed(requests, mild, chance) == mild


def test_what_has_no_answer_ends_the_connection() -> None:
    """acks=0: what is not reserved is forwarded, and the connection is to end, as brokers end it."""
    asking, chance = definitions("Request")[0], random.Random(0)
    for version in versions_of(0):
        value = MadeUp(asking, version, chance).value()
        for names in (("mine",), ("mine", KEPT), (KEPT,)):
            conversation, requests, _ = begun(reserved())
            records = [{"Index": 1, "Records": b"records"}]
            items = [{"Name": name, "PartitionData": records} for name in names]
            sent, rest = (
                request(asking, version, encoded(asking, version, {**value, "Acks": 0, "TopicData": some}), 7, b"me")
                for some in (items, [each for each in items if each["Name"] != KEPT])
            )
            found = passed(requests, sent + sent, chance)

            is_kept = KEPT in names
            assert found == (rest * (len(names) > 1) if is_kept else sent + sent)
            assert bool(conversation.ends_for) == is_kept
            assert not conversation.expected


def test_what_a_synchronous_link_refuses_as_well() -> None:
    """A topic that is reserved, and one whose link takes no writes now: nothing is forwarded, each has its own code."""
    asking, chance = definitions("Request")[0], random.Random(5)
    link = SimpleNamespace(duty=lambda *, is_transactional: Duty.REFUSE, settings=SyncSettings())
    duties = SimpleNamespace(links=[link], of=lambda name: link if name == "mine" else None)
    for version in versions_of(0):
        conversation, requests, _ = Conversation.create(DEFAULTS, elsewhere, Serving(reserved=reserved()), duties)
        value = {**MadeUp(asking, version, chance).value(), "Acks": -1}
        records = [{"Index": 1, "Records": bytes(61)}]
        topics = [{"Name": name, "PartitionData": records} for name in ("mine", KEPT)]
        sent = request(asking, version, encoded(asking, version, {**value, "TopicData": topics}), 7, b"me")

        assert passed(requests, sent, chance) == b""
        (expected,) = conversation.expected
        told = {each.key: each.code for each in read_acknowledgements(memoryview(expected.answer), version)}
        assert told == {("mine", 1): 19, (KEPT, 1): 29}


def test_all_that_access_rules_deny_is_known() -> None:
    """What is refused is what rules of reservations deny: every message that a broker asks such a right for."""
    assert {*GROUPED, *LISTED, 24, 3} == CONCERNED


@pytest.fixture(scope="module")
def follower() -> Iterator[LocalCluster]:
    """A cluster whose brokers create topics that clients ask for, without an authorizer."""
    properties = {"auto.create.topics.enable": "true"}
    with LocalCluster.start("follower", brokers=1, heap_mb=HEAP_MB, properties=properties) as cluster:
        yield cluster


def codes_of(futures: Mapping[Any, Any]) -> dict[str, int]:
    """What became of each part of a request of an administrator, 0 where it was done."""

    def code(future: Any) -> int:
        try:
            future.result(TERM_S)
        except KafkaException as error:
            return int(error.args[0].code())
        return 0

    return {str(getattr(key, "name", getattr(key, "topic", key))): code(future) for key, future in futures.items()}


def code_of(work: Callable[[], object]) -> int:
    """Why librdkafka refuses something, 0 if it does not."""
    try:
        work()
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def is_refused(consumer: Consumer) -> bool:
    """Whether a consumer is told that its group is not for it."""
    message = consumer.poll(1.0)
    error = None if message is None else message.error()
    return error is not None and "Group authorization failed" in error.str()


def until(found: Callable[[], object], wanted: object) -> None:
    """Wait until this is so."""
    deadline = time.monotonic() + TERM_S
    while (now := found()) != wanted:
        assert time.monotonic() < deadline, now
        time.sleep(0.1)


def written(servers: str, topic: str, **settings: Any) -> tuple[int, int]:
    """The error code that a record met, and its offset."""
    told: list[tuple[int, int]] = []

    def tell(error: KafkaError | None, message: Message) -> None:
        told.append((0 if error is None else error.code(), message.offset() or 0))

    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 10_000, **settings})
    producer.produce(topic, b"value", partition=0, on_delivery=tell)
    producer.flush(TERM_S)
    return told[0]


def administrators(servers: str, kept: str, mine: str) -> None:
    """Creations, deletions and changes, each together with one of a topic that is nobody's."""
    client = AdminClient({"bootstrap.servers": servers})
    assert codes_of(client.create_topics([NewTopic(f"{kept}-new", 1, 1), NewTopic(f"{mine}-new", 1, 1)])) == {
        f"{kept}-new": 29,
        f"{mine}-new": 0,
    }
    assert codes_of(client.create_partitions([NewPartitions(kept, 3), NewPartitions(mine, 3)])) == {kept: 29, mine: 0}
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resources = [
        ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry]) for name in (kept, f"{mine}-new")
    ]
    assert list(codes_of(client.incremental_alter_configs(resources)).values()) == [29, 0]
    emptied = client.delete_records([TopicPartition(kept, 0, 1), TopicPartition(mine, 0, 1)])
    assert codes_of(emptied) == {kept: 29, mine: 0}
    assert codes_of(client.delete_topics([kept, f"{mine}-new"])) == {kept: 29, f"{mine}-new": 0}
    assert codes_of(client.delete_consumer_groups([kept])) == {kept: 30}


def groups(servers: str, kept: str, mine: str) -> None:
    """Who reads with a group of his own reads and commits, who has a reserved one does neither; transactions too."""
    settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = Consumer({**settings, "group.id": mine})
    reader.subscribe([kept])
    until(lambda: (message := reader.poll(1.0)) is not None and message.error() is None, wanted=True)
    reader.commit(asynchronous=False)
    metadata = reader.consumer_group_metadata()
    for protocol in ("classic", "consumer"):
        other = Consumer({**settings, "group.id": kept, "group.protocol": protocol})
        other.subscribe([mine])
        # Of the newer protocol librdkafka says that it is fatal, and why in words only.
        until(partial(is_refused, other), wanted=True)
        other.close()
    alone = Consumer({**settings, "group.id": kept})
    alone.assign([TopicPartition(kept, 0, 0)])
    until(lambda: alone.poll(1.0) is not None, wanted=True)
    assert code_of(lambda: alone.commit(offsets=[TopicPartition(kept, 0, 1)], asynchronous=False)) == 30
    producer = Producer({"bootstrap.servers": servers, "transactional.id": mine})
    producer.init_transactions(TERM_S)
    for group, code in ((metadata, 0), (alone.consumer_group_metadata(), 30)):
        producer.begin_transaction()
        producer.produce(mine, b"value", partition=0)
        # A transaction of which the coordinator knows nothing yet is not one that can be aborted.
        producer.flush(TERM_S)
        positions = [TopicPartition(mine, 0, 1)]
        assert code_of(partial(producer.send_offsets_to_transaction, positions, group)) == code
        (producer.abort_transaction if code else producer.commit_transaction)(TERM_S)
    producer.begin_transaction()
    for topic in (mine, kept):
        producer.produce(topic, b"value", partition=0)
        producer.flush(TERM_S)
    assert code_of(lambda: producer.commit_transaction(TERM_S)) == 29
    producer.abort_transaction(TERM_S)
    alone.close()
    reader.close()


KAFKA_PYTHON = """
import sys
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError
servers, kept, mine = sys.argv[1:]
for acks, idempotent in (("all", False), (1, False), ("all", True)):
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=300, acks=acks, enable_idempotence=idempotent)
    for topic in (kept, mine):
        producer.partitions_for(topic)
    sent = [(topic, producer.send(topic, b"python", partition=0)) for topic in (kept, mine)]
    for topic, future in sent:
        try:
            print(topic, future.get(60).offset >= 0)
        except TopicAuthorizationFailedError:
            print(topic, "refused")
    producer.close()
"""


def console(servers: str, topic: str, *arguments: str) -> str:
    """What Kafka's console consumer says."""
    where = "--bootstrap-server", servers, "--topic", topic, "--from-beginning", "--timeout-ms", "60000"
    done = kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *arguments)
    return done.stdout + done.stderr


def test_a_follower_is_kept(follower: LocalCluster, topic: Callable[[str], str]) -> None:
    """Each message that would change what is reserved is refused with its own code, whoever sends it; whatever is in
    the same request, and all else, goes on. The namespace says so. What is released is let in, and who goes past the
    gateway never was kept out.
    """
    stem, mine = topic("kept"), topic("mine")
    kept, direct = f"{stem}.orders", follower.bootstrap_servers
    configuration = Configuration(clusters=(follower.cluster(),), links=())
    namespaces = Namespaces(follower.cluster(), LedgerSettings(replication_factor=1))
    spaces = [Namespace.of(f"{stem}.*"), Namespace.of(f"{stem}.*", "group")]
    with gateway(follower.cluster(), configuration=configuration) as running:
        servers = running.servers
        assert [written(servers, name)[0] for name in (kept, mine, mine)] == [0, 0, 0]
        for space in spaces:
            namespaces.create(space, reserved=True)
        until(lambda: running.gateway.serving.reserved.of_kind.keys(), {"topic", "group"})
        until(lambda: namespaces.describe(spaces[0]).kept_by, KeptBy.GATEWAY)
        assert plain(namespaces.describe(spaces[0]))["bypass"] == "possible"

        assert [written(servers, name, acks=acks)[0] for acks in (1, -1) for name in (kept, mine)] == [29, 0, 29, 0]
        written(servers, kept, acks=0)
        assert written(servers, f"{mine}-auto")[0] == 0
        assert written(servers, f"{stem}.auto")[0] != 0
        groups(servers, kept, mine)
        command = [sys.executable, "-c", KAFKA_PYTHON, servers, kept, mine]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TERM_S, check=False)
        assert done.stdout.split() == [kept, "refused", mine, "True"] * 3, done.stderr[-2000:]
        administrators(servers, kept, mine)
        assert "GroupAuthorizationException" in console(servers, kept, "--group", f"{kept}-java")
        assert "value" in console(servers, kept, "--max-messages", "1").split()

        assert f"{stem}.auto" not in AdminClient({"bootstrap.servers": direct}).list_topics(timeout=TERM_S).topics
        assert written(direct, kept)[1] == 1
        for space in spaces:
            namespaces.update(space, reserved=False)
        until(lambda: bool(running.gateway.serving.reserved), wanted=False)
        assert written(servers, kept) == (0, 2)
        namespaces.update(spaces[0], reserved=True)
    until(lambda: namespaces.describe(spaces[0]).kept_by, KeptBy.AGREED_ONLY)
