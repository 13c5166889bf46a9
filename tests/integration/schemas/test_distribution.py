"""Schemas go from one registry to others, by command and by a run: between real ones, which Confluent's own serializers
use as well, and for modes, deletions and another primary between imitations of Confluent's (testing.brokers.registry).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as ConfluentSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.errors import PlanRefused, RegistryUnreachable
from isthmus.fabric.fabric import Schemas
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.local.apicurio import ApicurioServer
from isthmus.loops.loop import LinkView
from isthmus.model.loop import Change
from isthmus.schemas.loop import SchemasLoop
from isthmus.topics.plan import LinkPlan
from testing.brokers.registry import registry_server
from testing.records import topics
from testing.records.schemas import configuration_of, held, record
from testing.runs.command import run
from testing.runs.running import running

pytestmark = pytest.mark.integration
TEMPLATES = ", subjects: {east: '{tenant}-{instance}-{environment}-{topic}', west: '{tenant}-{environment}-{topic}'}"


def command(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`isthmus schemas` with this file."""
    file = folder / "isthmus.yaml"
    file.write_text(text)
    return run("schemas", *arguments, "-c", file)


@pytest.fixture
def clients(east_registry: ApicurioServer, west_registry: ApicurioServer) -> Iterator[list[SchemaRegistryClient]]:
    """Confluent's client of each registry."""
    with ExitStack() as stack:
        servers = (east_registry, west_registry)
        yield [stack.enter_context(SchemaRegistryClient({"url": server.url})) for server in servers]


def test_serializers_read_everywhere_what_was_written_anywhere(
    east_registry: ApicurioServer,
    west_registry: ApicurioServer,
    clients: list[SchemaRegistryClient],
    topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Ids, versions, references and all kinds of schemas are the same there, under the names that subjects have."""
    name = topic("orders").replace("-", "_")
    subject, theirs = f"acme-i1-prod-{name}-value", f"acme-prod-{name}-value"
    text = configuration_of(east_registry.url, west_registry.url, TEMPLATES)
    east, west = clients
    first = east.register_schema(subject, ConfluentSchema(record(name, "id"), "AVRO"))
    second = east.register_schema(subject, ConfluentSchema(record(name, "id", "note"), "AVRO"))
    reference = SchemaReference(f"com.acme.{name}", subject, 2)
    nested = json.dumps({"type": "array", "items": f"com.acme.{name}"})
    third = east.register_schema(f"acme-i1-prod-{name}-key", ConfluentSchema(nested, "AVRO", [reference]))
    proto = east.register_schema(
        f"{name}.P", ConfluentSchema(f'syntax = "proto3"; message {name} {{ string x = 1; }}', "PROTOBUF")
    )
    shape = east.register_schema(
        f"{name}.J",
        ConfluentSchema(
            json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": name, "type": "object"}), "JSON"
        ),
    )
    east.set_compatibility(subject, "FULL")
    assert first < second, "ids grow"

    assert command(tmp_path, text, "diff").returncode == 4
    dry = command(tmp_path, text, "sync", "--dry-run", "-o", "json")
    assert theirs in dry.stdout
    assert theirs not in west.get_subjects()
    done = command(tmp_path, text, "sync", "-o", "json")

    assert done.returncode == 0, done.stdout + done.stderr
    assert [west.get_version(theirs, number).schema_id for number in (1, 2)] == [first, second]
    assert [one.subject for one in west.get_schema(third).references or []] == [theirs]
    assert west.get_compatibility(theirs) == "FULL"
    assert {west.get_latest_version(f"{name}.{kind}").schema_id for kind in "PJ"} == {proto, shape}
    assert command(tmp_path, text, "diff").returncode == 0
    listed = json.loads(command(tmp_path, text, "list", "west", "-o", "json").stdout)
    assert {row["name"] for row in listed if row["subject"] == theirs} == {name}

    written = AvroSerializer(
        east, record(name, "id", "note"), conf={"auto.register.schemas": False, "use.latest.version": True}
    )
    context = SerializationContext(f"acme-i1-prod-{name}", MessageField.VALUE)
    there = SerializationContext(f"acme-prod-{name}", MessageField.VALUE)
    value = written({"id": "7", "note": "fine"}, context)
    assert value is not None
    assert AvroDeserializer(west)(value, there) == {"id": "7", "note": "fine"}


def test_json_and_protobuf_are_read_where_they_were_not_written(
    east_registry: ApicurioServer,
    west_registry: ApicurioServer,
    clients: list[SchemaRegistryClient],
    topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Confluent's serializers register both kinds at one registry, and read with what the other one has then."""
    name = topic("kinds").replace("-", "_")
    east, west = clients
    file = FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3")
    file.message_type.add(name="Flight").field.add(name="to", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    pool = DescriptorPool()
    pool.Add(file)
    flight = GetMessageClass(pool.FindMessageTypeByName(f"{name}.Flight"))
    shape = {"$schema": "http://json-schema.org/draft-07/schema#", "title": name, "type": "object"}
    text = json.dumps({**shape, "properties": {"to": {"type": "string"}}})
    contexts = [SerializationContext(f"{name}_{kind}", MessageField.VALUE) for kind in ("protobuf", "json")]
    written = ProtobufSerializer(flight, east)(flight(to="lga"), contexts[0])
    said = JSONSerializer(text, east)({"to": "lga"}, contexts[1])

    done = command(tmp_path, configuration_of(east_registry.url, west_registry.url, TEMPLATES), "sync")

    assert done.returncode == 0, done.stdout + done.stderr
    assert ProtobufDeserializer(flight, {}, west)(written, contexts[0]) == flight(to="lga")
    assert JSONDeserializer(text, schema_registry_client=west)(said, contexts[1]) == {"to": "lga"}


def test_a_registry_with_modes(tmp_path: Path) -> None:
    """It takes only what comes with ids from then on. Soft deletions follow the primary's; nothing is deleted for good
    while no ledger says what was distributed.
    """
    with registry_server() as east, registry_server() as west:
        text = configuration_of(east.url, west.url)
        for number in (1, 2):
            east.register("orders-value", record("Order", *(f"f{n}" for n in range(number))))
        assert command(tmp_path, text, "sync").returncode == 0
        assert west.store.mode("orders-value") == "IMPORT"
        assert held(west) == held(east)
        told = json.loads(command(tmp_path, text, "primary", "-o", "json").stdout)
        assert [(row["registry"], row["role"], row["mode"]) for row in told] == [
            ("east", "primary", "READWRITE"),
            ("west", "other", "IMPORT"),
        ]
        east.store.delete("orders-value", "1", permanent=False)
        assert command(tmp_path, text, "sync").returncode == 0
        assert held(west) == held(east)
        both = held(east)
        east.store.delete("orders-value", "1", permanent=True)
        assert command(tmp_path, text, "sync").returncode == 0
        assert held(west) == both
        # An id that somebody took there is refused, by name.
        west.store.modes.clear()
        west.register("other-value", record("Other", "x"))
        east.register("late-value", record("Late", "x"))
        refused = command(tmp_path, text, "sync", "-o", "json")
        assert refused.returncode == 1
        assert "is that of other-value version 1 at west" in refused.stdout


def test_another_registry_becomes_the_primary_one(tmp_path: Path) -> None:
    """It holds all of the former one first; then people write to it alone, and the former one follows it. A run whose
    file does not say so yet changes nothing; one that is gone is not asked by force only.
    """
    with registry_server() as east, registry_server() as west:
        text = configuration_of(east.url, west.url)
        east.register("orders-value", record("Order", "id"))
        behind = command(tmp_path, text, "primary", "west")
        assert (behind.returncode, "isthmus schemas sync west does it" in behind.stderr) == (6, True), behind.stderr
        assert command(tmp_path, text, "sync").returncode == 0
        assert command(tmp_path, text, "primary", "west", "--dry-run").returncode == 0
        assert (east.store.mode(""), west.store.mode("")) == ("READWRITE", "IMPORT")
        for _ in range(2):
            moved = command(tmp_path, text, "primary", "west")
            assert (moved.returncode, "Write schemas.primary: west" in moved.stderr) == (0, True), moved.stderr
            assert (east.store.mode(""), west.store.mode("")) == ("IMPORT", "READWRITE")
        west.register("orders-value", record("Order", "id", "note"))
        stale = command(tmp_path, text, "sync")
        assert (stale.returncode, "the primary was moved" in stale.stdout + stale.stderr) == (1, True), stale.stdout
        assert west.store.mode("") == "READWRITE"
        text = text.replace("primary: east", "primary: west")
        assert command(tmp_path, text, "sync").returncode == 0
        assert held(west) == held(east)
        away = text.replace(west.url, "http://127.0.0.1:9")
        assert command(tmp_path, away, "primary", "east").returncode == 17
        assert command(tmp_path, away, "primary", "east", "--force", "--yes").returncode == 0
        assert east.store.mode("") == "READWRITE"


def three(east: str, west: str, north: str) -> str:
    """The file of three clusters and their registries."""
    cluster = f"clusters: {{north: {{bootstrap_servers: '127.0.0.1:3', schema_registry: {{url: '{north}'}}}}, "
    return configuration_of(east, west).replace("clusters: {", cluster, 1)


def test_people_write_to_one_registry_only() -> None:
    """One that was not synchronized yet is closed with the former primary. Whoever then moves it elsewhere by the old
    file is refused.
    """
    with registry_server() as east, registry_server() as west, registry_server() as north:
        schemas = Schemas(config.parse(three(east.url, west.url, north.url)))
        east.register("orders-value", record("Order", "id"))
        schemas.sync(["west"])
        told = schemas.move_primary("west", dry_run=True)
        assert [(each.registry, each.changes[0].after) for each in told] == [
            ("north", "IMPORT"),
            ("east", "IMPORT"),
            ("west", "READWRITE"),
        ]
        assert schemas.move_primary("west") == told
        for _ in range(2):
            assert [each.store.mode("") for each in (east, west, north)] == ["IMPORT", "READWRITE", "IMPORT"]
            with pytest.raises(PlanRefused, match="people write to west") as refused:
                schemas.move_primary("north")
            assert refused.value.hint.startswith("Write schemas.primary: west")


def test_of_two_moves_at_the_same_time_one_is_refused() -> None:
    """Or both are; given again it comes to an end."""
    with registry_server() as east, registry_server() as west, registry_server() as north:
        east.register("orders-value", record("Order", "id"))
        schemas = Schemas(config.parse(three(east.url, west.url, north.url)))
        schemas.sync()

        def refused(alias: str) -> bool:
            with suppress(PlanRefused):
                schemas.move_primary(alias)
                return False
            return True

        with ThreadPoolExecutor() as pool:
            both = dict(zip(("west", "north"), pool.map(refused, ("west", "north")), strict=True))
        open_now = [each.store.mode("") for each in (west, north)].count("READWRITE")
        assert open_now == 2 - sum(both.values()) < 2
        # The one that was moved to, or if there is none, any.
        assert not refused("north" if both["west"] else "west")


def test_a_move_that_was_interrupted_is_gone_on_with(tmp_path: Path) -> None:
    """Though something came to the former primary just before it was closed; while the new one does not answer it says
    how people can go on.
    """
    with registry_server() as east, registry_server() as west:
        text = configuration_of(east.url, west.url)
        east.register("orders-value", record("Order", "id"))
        assert command(tmp_path, text, "sync").returncode == 0
        east.register("late-value", record("Late", "id"))
        east.store.modes[""] = "IMPORT"
        away = command(tmp_path, text.replace(west.url, "http://127.0.0.1:9"), "primary", "west")
        assert (away.returncode, "isthmus schemas primary east has them" in away.stderr) == (6, True), away.stderr
        again = command(tmp_path, text, "primary", "west")
        assert again.returncode == 0, again.stderr
        assert (east.store.mode(""), west.store.mode("")) == ("IMPORT", "READWRITE")
        assert held(west) == held(east)


def test_only_what_was_distributed_is_deleted_for_good(
    west: LocalCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """By what the ledger of the registry's cluster says of it: a version that somebody registered there himself, and
    deleted softly, can be taken back by him; so can one of the same subject.
    """
    ours, theirs = topic("orders"), topic("own")
    with registry_server() as here, registry_server() as there:
        text = configuration_of(here.url, there.url, servers=west.bootstrap_servers)
        for number in (1, 2):
            here.register(ours, record("Order", *(f"f{n}" for n in range(number))))
        assert command(tmp_path, text, "sync").returncode == 0
        there.store.modes.clear()
        there.register(theirs, record("Own", "x", "y"))
        there.store.delete(theirs, "1", permanent=False)
        before = [one for one in held(there) if one[0] == theirs]
        for is_for_good in (False, True):
            here.store.delete(ours, "1", permanent=is_for_good)
            assert command(tmp_path, text, "sync").returncode == 0
        assert [one for one in held(there) if one[0] == ours] == held(here)
        gone = command(tmp_path, text, "sync", "--delete-gone", "--yes", "-o", "json")
        assert f"{theirs} version 1 was ever distributed" in gone.stdout
        assert [one for one in held(there) if one[0] == theirs] == before


def test_a_run_keeps_registries_alike(west: LocalCluster) -> None:
    """A link's loop registers what comes; one that is away is the loop's own error."""
    with registry_server() as east, registry_server() as other:
        link = config.parse(configuration_of(east.url, other.url)).link("east-west")
        nobody: Any = None

        async def passed() -> tuple[list[Change], list[Change]]:
            loop = SchemasLoop()
            assert loop.interval_s(link) == 30.0
            async with Client(west.cluster()) as target, contextlib.aclosing(loop):
                plan = LinkPlan(link="east-west", source="east", target="west")
                view = LinkView(link=link, source=nobody, target=target, plan=plan)
                found = await loop.look(view)
                return list(found), list(await loop.apply(view, found))

        east.register("orders-value", record("Order", "id"))
        changes, left = asyncio.run(passed())
        assert [change.setting for change in changes] == ["mode", "register"]
        assert left == []
        assert held(other) == held(east)
        assert asyncio.run(passed()) == ([], [])
    with pytest.raises(RegistryUnreachable, match=r"east .* does not answer"):
        asyncio.run(passed())


def test_a_run_distributes_what_the_primary_registers(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """A link that runs carries what people register at the primary, under its ids, also while links go both ways."""
    name = topic("registered")
    topics.create(east, name)
    with registry_server() as primary, registry_server() as other:
        clusters = {
            cluster.name: {"bootstrap_servers": cluster.bootstrap_servers, "schema_registry": {"url": server.url}}
            for cluster, server in ((east, primary), (west, other))
        }
        links = [
            {"name": f"{name}-{here.name}", "source": here.name, "target": there.name, "topics": {"include": [one]}}
            for here, there, one in ((east, west, name), (west, east, f"{name}-back"))
        ]
        file = {"clusters": clusters, "links": links, "schemas": {"primary": "east", "interval_s": 1.0}}
        primary.register(f"{name}-value", record("Order", "id"))

        async def scenario() -> None:
            async with running(config.parse(json.dumps(file)), spark) as run:
                await run.until(lambda: held(other) == held(primary))
                primary.register(f"{name}-key", record("Key", "id"))
                await run.until(lambda: len(held(other)) == 2)

        asyncio.run(scenario())
        assert held(other) == held(primary)


def test_who_has_no_registries_is_told(tmp_path: Path) -> None:
    """What to write is said; a registry that does not answer ends the command with 1, and the others go on."""
    bare = "clusters: {east: {bootstrap_servers: 'h:1'}}\n"
    refused = command(tmp_path, bare, "sync")
    assert refused.returncode == 2
    assert "schemas.primary" in refused.stderr
    with registry_server() as east, registry_server() as north:
        text = configuration_of(east.url, "http://127.0.0.1:9").replace(
            "west: {", f"north: {{bootstrap_servers: 'h:3', schema_registry: {{url: '{north.url}'}}}}, west: {{", 1
        )
        east.register("orders-value", record("Order", "id"))
        done = command(tmp_path, text, "sync", "-o", "json")
        assert done.returncode == 1
        assert "does not answer" in done.stdout
        assert held(north) == held(east)
        assert {route.target.alias for route in Schemas(config.parse(text)).routes()} == {"north", "west"}
