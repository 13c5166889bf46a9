"""Links that change records by the schemas that those were written with."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Portion
from isthmus.errors import ConfigError
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.local import LocalCluster
from isthmus.local.apicurio import ApicurioServer
from isthmus.local.ports import free_ports
from isthmus.model.lane import Lane, LaneState
from isthmus.model.links.transform import Transform
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.schemas.content import Schema as Content
from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.decoding import PartDecoder
from isthmus.spark.transforms.resolving import resolve
from isthmus.spark.transforms.schemawatch import SchemaWatch
from isthmus.spark.transforms.trial import try_expressions
from testing.brokers.proxy import Proxy
from testing.brokers.registry import registry_server
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.running import ends, running

pytestmark = pytest.mark.integration

TRANSFORM = {
    "decode": {"value": "avro"},
    "where": "value IS NULL OR value.country IN ('DE', 'FR')",
    "set": {
        "value.email": "sha2(value.email, 256)",
        "value.price": "value.price * 2",
        "headers.made": "date_format(value.made, 'yyyy-MM-dd HH:mm:ss.SSS')",
        "headers.city": "value.address.city",
    },
    "drop": ["value.note"],
    "on_error": "skip",
}


def schema(name: str, *more: dict[str, Any]) -> str:
    """Orders, as they were at first, and with more fields."""
    address = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
    fields = [
        {"name": "id", "type": "long"},
        {"name": "country", "type": "string"},
        {"name": "email", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "made", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "address", "type": ["null", address], "default": None},
        {"name": "any", "type": ["null", "long", "double", "string"], "default": None},
    ]
    return json.dumps({"type": "record", "name": name, "namespace": "com.acme", "fields": [*fields, *more]})


def order(number: int, **more: object) -> dict[str, Any]:
    return {
        "id": number,
        "country": ("DE", "US", "FR")[number % 3],
        "email": f"{number}@example.org" if number % 4 else None,
        "price": Decimal(number) / 4,
        "made": datetime(2026, 1, 1, 12, 0, 0, number * 1000, tzinfo=UTC),
        "address": {"city": f"city {number}"} if number % 2 else None,
        "any": (None, 5, 0.5, "text")[number % 4],
        **more,
    }


LANE = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=NO_TOPIC_ID,
    target_topic=TargetTopic("orders"),
    target_topic_id=NO_TOPIC_ID,
    partition=0,
    is_mapped=True,
)
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
COUNT = {"name": "count", "type": "int", "default": 0}


class Producer:
    """Registers versions of a topic's schema at the source, and writes records with each."""

    def __init__(self, cluster: LocalCluster, registry: SchemaRegistryClient, topic: str) -> None:
        self._cluster, self._registry, self._topic = cluster, registry, topic
        self.sent: list[tuple[int, dict[str, Any]]] = []
        self.written = 0

    def write(self, text: str, *orders: dict[str, Any]) -> None:
        schema_id = self._registry.register_schema(f"{self._topic}-value", Schema(text, "AVRO"))
        writer = AvroSerializer(
            self._registry, text, conf={"auto.register.schemas": False, "use.latest.version": False}
        )
        context = SerializationContext(self._topic, MessageField.VALUE)
        self.write_bytes(*(writer(each, context) for each in orders))
        self.sent += [(schema_id, each) for each in orders]

    def write_bytes(self, *values: bytes | None) -> None:
        given = [Given(b"k", each, [("h", b"1")], topics.SEPTEMBER) for each in values]
        topics.produce(self._cluster, self._topic, given)
        self.written += len(values)


def test_avro_records_are_changed_by_their_own_schemas(
    east: LocalCluster,
    west: LocalCluster,
    east_registry: ApicurioServer,
    topic: Callable[[str], str],
    spark: SparkSession,
) -> None:
    """Each record by the schema that it was written with, whose id it keeps; those that cannot be decoded are left out.

    A registry that is away keeps a record with a new schema waiting: it is not left out.
    """
    name = topic("orders")
    topics.create(east, name)
    (port,) = free_ports(1)
    upstream = urlsplit(east_registry.url).port or 0
    address = east_registry.url.replace(f":{upstream}", f":{port}")
    file = {
        "clusters": {
            "east": {"bootstrap_servers": east.bootstrap_servers, "schema_registry": {"url": address}},
            "west": {"bootstrap_servers": west.bootstrap_servers},
        },
        "links": [
            {
                "name": name,
                "source": "east",
                "target": "west",
                "topics": {"include": [name]},
                "transform": TRANSFORM,
            }
        ],
    }
    record = f"R{name[-8:]}"

    async def scenario(producer: Producer) -> None:
        async def has(count: int) -> bool:
            return (await ends(west, name))[0] >= count

        def is_held() -> bool:
            found = run.topic(name)
            return (
                found is not None
                and found.state is LaneState.BLOCKED
                and found.problem is not None
                and "does not answer" in found.problem.message
            )

        async with running(config.parse(json.dumps(file)), spark) as run:
            await run.until(is_held)
            with Proxy(port, upstream):
                await run.until(lambda: has(kept(producer)))
            producer.write(schema(record, NOTE, COUNT), *(order(n, note="n", count=n) for n in range(60, 66)))
            await run.until(is_held)
            with Proxy(port, upstream):
                await run.until(lambda: has(kept(producer)))
                await run.until(lambda: run.state_of(name) is LaneState.ACTIVE)
            assert (await run.end_well()).exit_code == 0

    with SchemaRegistryClient({"url": east_registry.url}) as registry:
        producer = Producer(east, registry, name)
        producer.write(schema(record), *(order(number) for number in range(30)))
        producer.write_bytes(None, b"no schema", b"\0\x7f\0\0\0unknown id")
        producer.write(schema(record, NOTE), *(order(number, note="secret") for number in range(30, 60)))
        asyncio.run(scenario(producer))

        check(producer, oracle.records(west.bootstrap_servers, name)[0], registry)


def check(producer: Producer, got: Sequence[oracle.Seen], registry: SchemaRegistryClient) -> None:
    """The target has what the transform makes of all that was sent, under the ids of its schemas."""
    reader, context = AvroDeserializer(registry), SerializationContext("", MessageField.VALUE)
    found = [(int.from_bytes(each.value[1:5]), reader(each.value, context)) for each in got if each.value]
    wanted = [(schema_id, each) for schema_id, each in producer.sent if each["country"] != "US"]
    assert [schema_id for schema_id, _ in found] == [schema_id for schema_id, _ in wanted]
    for (_, before), (_, after) in zip(wanted, found, strict=True):
        expected = {**before, "price": before["price"] * 2, **({"note": None} if "note" in before else {})}
        assert after.pop("email") == (None if before["email"] is None else sha(before["email"]))
        del expected["email"]
        assert after == expected
    assert [each.value for each in got if not each.value] == [None]
    kept_headers = [dict(each.headers) for each in got if each.value]
    assert [(each["made"] or b"").decode() for each in kept_headers] == [
        before["made"].strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] for _, before in wanted
    ]
    assert [each.get("city") for each in kept_headers] == [
        None if before["address"] is None else before["address"]["city"].encode() for _, before in wanted
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"drop": ["value.country"]}, "no default, and may not be null.* in orders-value .id 1."),
        ({"set": {"value.nowhere": "1"}}, "set value.nowhere: it is in no schema of orders-value"),
        ({"set": {"value.any": "1"}}, "set value.any: it is a union of null, long, double, string"),
        ({"where": "value.countri = 'DE'"}, "value.countri is in no schema of orders-value"),
        ({"set": {"key": "to_json(value)"}}, "value: any: it is a union"),
        ({"set": {"value.address": "named_struct('town', '')"}}, "is of type struct<town:string>"),
        ({"set": {"value.made": "true"}}, "set.value.made"),
    ],
)
def test_what_does_not_go_with_the_schemas_is_refused(spark: SparkSession, changes: dict[str, Any], says: str) -> None:
    """With the field and where it was looked for, before anything is copied."""
    with registry_server() as server:
        server.register("orders-value", schema("Order"))
        transform = {"decode": {"value": "avro"}, **changes}
        file = {
            "clusters": {
                "east": {"bootstrap_servers": "127.0.0.1:1", "schema_registry": {"url": server.url}},
                "west": {"bootstrap_servers": "127.0.0.1:2"},
            },
            "links": [{"name": "l", "source": "east", "target": "west", "transform": transform}],
        }
        link = config.parse(json.dumps(file)).link("l")
        watch = SchemaWatch(link.source, link.transforms)
        lane = replace(LANE, transform=link.transforms[0].digest)

        async def look() -> None:
            try:
                await watch.look(spark.sparkContext, link.transforms, [lane])
            finally:
                await watch.aclose()

        with pytest.raises(ConfigError, match=says):
            asyncio.run(look())


def mapping_of(changes: dict[str, Any]) -> Transform:
    """The transform of a file."""
    file = {
        "clusters": {
            "east": {"bootstrap_servers": "127.0.0.1:1", "schema_registry": {"url": "http://127.0.0.1:3"}},
            "west": {"bootstrap_servers": "127.0.0.1:2"},
        },
        "links": [
            {"name": "l", "source": "east", "target": "west", "transform": {"decode": {"value": "avro"}, **changes}}
        ],
    }
    return config.parse(json.dumps(file)).link("l").transforms[0]


def tried(spark: SparkSession, schemas: Sequence[object], changes: dict[str, Any], *values: bytes) -> list[Changed]:
    """What becomes of records by versions of a schema, whose ids are 1, 2 and so on."""
    written = [WriterSchema(id=place + 1, schema=Content(text=json.dumps(each))) for place, each in enumerate(schemas)]
    prepared = resolve(spark, mapping_of(changes), ["orders"], {"orders-value": written}, "the registry")
    decoders = {part: PartDecoder(part, columns) for part, columns in prepared.decoded}
    for each in decoders.values():
        each.learn({one.id: one for one in written})
    records = [Record(place, 0, None, value, []) for place, value in enumerate(values)]
    trial = try_expressions(spark, prepared, [Portion(LANE, records, [False] * len(records))], decoders)
    return list(trial.outcomes[0])


def fields(*given: tuple[str, object]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in given]}


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + data


def test_all_fields_of_a_value_may_be_read_at_once(spark: SparkSession) -> None:
    """By a star; each of them is decoded for that."""
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}
    changes = {"set": {"headers.all": "to_json(struct(value.*))", "headers.inner": "to_json(struct(value.i.*))"}}
    (found,) = tried(spark, [fields(("a", "int"), ("b", "string"), ("i", inner))], changes, framed(1, b"\2\2b\4"))
    assert isinstance(found, Record)
    assert found.headers == [("all", b'{"a":1,"b":"b","i":{"x":2}}'), ("inner", b'{"x":2}')]


def test_a_value_may_be_a_map_of_bytes(spark: SparkSession) -> None:
    """As the headers are one."""
    found = tried(
        spark,
        [{"type": "map", "values": "bytes"}],
        {"where": "value['k'] IS NOT NULL", "set": {"headers.k": "value['k']"}},
        framed(1, b"\2\2k\2v\0"),
        framed(1, b"\0"),
    )
    assert isinstance(found[0], Record)
    assert (found[0].headers, found[1]) == ([("k", b"v")], None)


def test_an_array_without_values_is_dropped(spark: SparkSession) -> None:
    """To its default."""
    schema = fields(("a", "int"), ("n", {"type": "array", "items": "null"}))
    schema["fields"][1]["default"] = []
    changes = {"drop": ["value.n"], "where": "value.a = 1"}
    (found,) = tried(spark, [schema], changes, framed(1, b"\2\x7e\0"))
    assert isinstance(found, Record)
    assert found.value == framed(1, b"\2\0")


def test_a_record_of_an_older_schema_keeps_its_bytes(spark: SparkSession) -> None:
    """A number that is wider in a later version stays as narrow as it was."""
    older, later = fields(("id", "long"), ("n", "int")), fields(("id", "long"), ("n", "double"), ("new", "string"))
    values = [framed(1, b"\2\x0a"), framed(1, b"\2\x0c"), framed(2, b"\2" + b"\0" * 8 + b"\2s")]
    changes = {"set": {"value": "if(value.n = 6, NULL, value)"}}
    found = tried(spark, [older, later], changes, *values)
    assert [each.value for each in found if isinstance(each, Record)] == [values[0], None, values[2]]


RENAMED = {"name": "email", "type": "string", "default": "", "aliases": ["mail"]}


@pytest.mark.parametrize(
    ("versions", "changes", "says"),
    [
        ([fields(("mail", "string")), {"fields": [RENAMED]}], {"drop": ["value.email"]}, "value.mail of orders-value"),
        (
            [{"fields": [{"name": "mail", "type": "string", "default": ""}]}, {"fields": [RENAMED]}],
            {"drop": ["value.mail"]},
            r"value.email of orders-value \(id 2\)",
        ),
        (
            [fields(("mail", "string")), {"fields": [RENAMED]}],
            {"set": {"value.email": "sha2(value.email, 256)"}},
            r"value.mail of orders-value \(id 1\)",
        ),
        (
            [fields(("Email", "string")), {"fields": [{"name": "email", "type": "string", "default": ""}]}],
            {"drop": ["value.email"]},
            "value.Email of orders-value",
        ),
    ],
)
def test_a_field_that_has_another_name_in_some_schema_has_to_be_named(
    spark: SparkSession, versions: list[dict[str, Any]], changes: dict[str, Any], says: str
) -> None:
    """Else records of that schema would keep what is dropped or masked."""
    with pytest.raises(ConfigError, match=says):
        tried(spark, [{**fields(), **each} for each in versions], changes)


def test_a_field_goes_under_all_of_its_names(spark: SparkSession) -> None:
    """Each schema has one of them."""
    older = fields(("mail", "string"), ("id", "int"))
    later = {**fields(), "fields": [RENAMED, {"name": "id", "type": "int"}]}
    changes = {"set": {"value.mail": "sha2(value.mail, 256)", "value.email": "'x'"}}
    found = tried(spark, [older, later], changes, framed(1, b"\2m\2"), framed(2, b"\2m\2"))
    values = [each.value for each in found if isinstance(each, Record)]
    assert values == [framed(1, b"\x80\1" + sha("m").encode() + b"\2"), framed(2, b"\2x\2")]


@pytest.mark.parametrize(
    "name", ["a`b", "a b", "a.b", "select", "a'b", "ä\n", 'a"b', "_nothing", "value", "_corrupt_record"]
)
def test_fields_may_have_any_name(spark: SparkSession, name: str) -> None:
    """Not all registries look at them, and what stands beside them is of use."""
    schema = fields((name, "string"), ("id", "int"))
    changes = {"set": {"headers.all": "to_json(value)"}}
    (found,) = tried(spark, [schema], changes, framed(1, b"\2m\2"))
    assert isinstance(found, Record)
    assert json.loads(found.headers[0][1] or b"") == {name: "m", "id": 1}


def kept(producer: Producer) -> int:
    """How many records come to the target, the tombstone included."""
    return 1 + len([each for _, each in producer.sent if each["country"] != "US"])


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
