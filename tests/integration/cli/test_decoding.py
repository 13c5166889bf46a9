"""A link that decodes by schemas: planned, tried and refused, as people and scripts do it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from isthmus.local import LocalCluster
from testing.brokers.registry import RegistryServer, registry_server
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.command import Shell

pytestmark = pytest.mark.integration

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "country", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
TRANSFORM: dict[str, Any] = {
    "decode": {"value": "avro", "key": "avro"},
    "where": "value.country = 'DE'",
    "set": {"value.id": "100 / value.id", "headers.tag": "value.tags['a']", "key": "concat(key, '-', year(value.at))"},
    "drop": ["value.note"],
}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server(username="isthmus", password="never-shown") as server:
        yield server


@pytest.fixture
def shell(
    tmp_path: Path, east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], registry: RegistryServer
) -> Shell:
    """A shell whose link changes orders by their schemas."""
    made = Shell(tmp_path, east, west, topic("decoding"))
    made.links[0]["transform"] = [{"topics": [f"{made.stem}.orders"], **TRANSFORM}]
    login = {"url": registry.url, "username": "isthmus", "password": "never-shown"}
    made.clusters["east"]["schema_registry"] = login
    made.configure()
    topics.create(east, f"{made.stem}.orders")
    return made


def framed(schema_id: int, schema: object, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\0" + schema_id.to_bytes(4) + out.getvalue()


def order(number: int, country: str = "DE") -> dict[str, Any]:
    return {"id": number, "country": country, "at": 1_700_000_000_000_000, "tags": {"a": "b"}, "note": "n"}


def test_decoding_is_tried_and_mistakes_are_refused_before_anything_is_copied(
    shell: Shell, east: LocalCluster, west: LocalCluster, registry: RegistryServer
) -> None:
    """What people see is decoded; the password of the registry is shown nowhere."""
    orders = f"{shell.stem}.orders"
    shell.run("transform", "try", shell.stem, "--topic", orders, code=6)
    (planned,) = shell.run("plan")["links"][0]["topics"]
    assert f"has no schema for {orders}-key" in planned["notes"][-1]["message"]
    key_id = registry.register(f"{orders}-key", '"string"')
    schema_id = registry.register(f"{orders}-value", SCHEMA)
    records = [order(50), order(1, "US"), order(0)]
    given = [
        Given(framed(key_id, "string", "k"), framed(schema_id, SCHEMA, each), [], topics.SEPTEMBER) for each in records
    ]
    topics.produce(east, orders, [*given, Given(None, b"\0\0\0\0\x63?", [], topics.SEPTEMBER)])

    said = shell.run("plan")
    assert "never-shown" not in json.dumps(said)
    registry.faults += [503] * 3
    (planned,) = shell.run("plan", code=1)["links"][0]["topics"]
    assert "does not answer" in planned["reasons"][0]["message"]
    shell.links[0]["transform"] = [{"topics": [orders], **TRANSFORM, "where": "value.countri = 'DE'"}]
    shell.configure()
    (planned,) = shell.run("plan", code=1)["links"][0]["topics"]
    assert f"value.countri is in no schema of {orders}-value" in planned["reasons"][0]["message"]
    shell.links[0]["transform"] = [{"topics": [orders], **TRANSFORM}]
    shell.configure()
    found = shell.run("transform", "try", shell.stem, "--topic", orders, "--partition", "0", code=1)
    assert "never-shown" not in json.dumps(found)
    assert [each["result"] for each in found["records"]] == ["changed", "left out", "failed", "waits for the registry"]
    first, _, by_zero, unknown = found["records"]
    assert first["before"]["value"] == (
        f'schema {schema_id}: {{"id": 50, "country": "DE", "at": "2023-11-14 22:13:20+00:00", '
        '"tags": {"a": "b"}, "note": "n"}'
    )
    assert '"id": 2' in first["after"]["value"]
    assert '"note": null' in first["after"]["value"]
    assert first["after"]["key"] == f'schema {key_id}: "k-2023"'
    assert first["after"]["headers"] == [{"key": "tag", "value": "b"}]
    assert "DIVIDE_BY_ZERO" in by_zero["reason"]
    assert "no schema 99" in unknown["reason"]

    registry.store.levels[""] = "NONE"
    other = registry.register(f"{orders}-value", {**SCHEMA, "fields": [{"name": "country", "type": "int"}]})
    shell.links[0]["transform"] = [{"topics": [orders], **TRANSFORM, "set": {}, "drop": []}]
    shell.configure()
    (planned,) = shell.run("plan")["links"][0]["topics"]
    assert f"(id {other})" in planned["notes"][-1]["message"]
    with shell.start("run", "--until", "caught-up") as command:
        _, told = command.communicate(timeout=shell.term_s)
    assert command.returncode == 2
    assert f"(id {schema_id})" in told
    assert f"(id {other})" in told
    assert oracle.records(west.bootstrap_servers, orders) == [[]]


def test_what_was_decoded_is_verified_and_its_dead_letters_are_replayed(
    shell: Shell, east: LocalCluster, west: LocalCluster, registry: RegistryServer
) -> None:
    """Both ask the registry as the link does."""
    orders = f"{shell.stem}.orders"
    key_id, schema_id = registry.register(f"{orders}-key", '"string"'), registry.register(f"{orders}-value", SCHEMA)
    records = [order(50), order(1, "US"), order(0), order(25)]
    given = [
        Given(framed(key_id, "string", "k"), framed(schema_id, SCHEMA, each), [], topics.SEPTEMBER) for each in records
    ]
    topics.produce(east, orders, given)
    shell.links[0]["transform"] = [{"topics": [orders], **TRANSFORM, "on_error": "dead-letter"}]
    shell.configure()
    assert shell.run("run", "--until", "caught-up")["caught_up"]
    (verdict,) = shell.run("verify")
    (found,) = verdict["topics"][0]["partitions"]
    assert (verdict["equal"], found["filtered"], found["skipped"], found["not_compared"]) == (True, 1, 1, 0)

    mended = {**TRANSFORM["set"], "value.id": "if(value.id = 0, -1, 100 / value.id)"}
    shell.links[0]["transform"] = [{"topics": [orders], **TRANSFORM, "set": mended, "on_error": "dead-letter"}]
    shell.configure()
    replay = ("quarantine", "replay", shell.stem, orders, "--kind", "dead-letter", "--yes")
    registry.faults += [503] * 3
    shell.run(*replay, code=17)
    (replayed,) = shell.run(*replay)
    assert (replayed["written_records"], replayed["failed_records"]) == (1, 0)
    (copies,) = oracle.records(west.bootstrap_servers, orders)
    schema = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
    values: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO((each.value or b"")[5:]), schema, None) for each in copies
    ]
    assert [each["id"] for each in values] == [2, 4, -1]
