"""A registry with Confluent's semantics, over HTTP: what it holds, and what it takes with ids and versions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import pytest

from isthmus.errors import RegistryRefused, RegistryUnreachable, SchemaConflict
from isthmus.model.cluster import SchemaRegistry, Secret
from isthmus.model.schemas.content import IMPORT, Schema, SchemaReference, SchemaVersion
from isthmus.schemas.registry import SchemaStore, open_registry
from testing.brokers.registry import RegistryServer, registry_server

AnswerT = TypeVar("AnswerT")
ADDRESS = {"type": "record", "name": "Address", "namespace": "com.acme", "fields": []}
PERSON = {"type": "record", "name": "Person", "fields": [{"name": "home", "type": "com.acme.Address"}]}
LONG = Schema(text='"long"')


@pytest.fixture(scope="module")
def running() -> Iterator[RegistryServer]:
    """A registry for all tests here."""
    with registry_server() as server:
        yield server


@pytest.fixture
def server(running: RegistryServer) -> RegistryServer:
    """That registry, empty."""
    for held in (running.store.versions, running.store.ids, running.store.modes, running.store.levels):
        held.clear()
    running.faults.clear()
    running.asked.clear()
    return running


def asked(server: RegistryServer, question: Callable[[SchemaStore], Awaitable[AnswerT]], **login: Any) -> AnswerT:
    """What the registry answers."""

    async def ask() -> AnswerT:
        registry = SchemaRegistry(alias="west", url=server.url, **login)
        async with open_registry(registry) as there:
            return await question(there)

    return asyncio.run(ask())


def version(subject: str, number: int, schema_id: int, schema: Schema = LONG) -> SchemaVersion:
    """A version to register."""
    return SchemaVersion(subject=subject, version=number, id=schema_id, schema=schema)


def test_all_that_it_holds(server: RegistryServer) -> None:
    """Versions over several pages, deleted ones too, references, kinds, levels and the mode are read."""
    server.register("address", ADDRESS)
    reference = {"name": "com.acme.Address", "subject": "address", "version": 1}
    server.register("person-value", PERSON, references=[reference])
    server.register("p b/value", 'syntax = "proto3"; message M {}', schemaType="PROTOBUF")
    server.register("numbers", '"int"')
    server.register("numbers", '"long"')
    server.store.delete("numbers", "1", permanent=False)
    server.store.levels.update({"": "FULL", "numbers": "NONE"})
    found = asked(server, lambda registry: registry.contents())
    assert [str(each) for each in found.versions.values() if each.is_deleted] == ["numbers version 1"]
    assert found.subjects == ("address", "numbers", "p b/value", "person-value")
    assert found.versions["p b/value", 1].schema.type == "PROTOBUF"
    assert found.versions["person-value", 1].schema.references == (SchemaReference("com.acme.Address", "address", 1),)
    assert (found.default_compatibility, found.compatibility) == ("FULL", {"numbers": "NONE"})
    assert found.mode == "READWRITE"


def test_ids_and_versions_are_kept_in_mode_import(server: RegistryServer) -> None:
    """A version comes under its id and number, without a check of compatibility, and a second time changes nothing."""
    server.register("old", '"int"')

    async def imported(registry: SchemaStore) -> None:
        await registry.set_mode(IMPORT)
        for _ in range(2):
            await registry.register(version("orders-value", 5, 77))
        await registry.register(version("orders-value", 6, 78, Schema(text='"bytes"')))

    asked(server, imported)
    assert [(each.version, each.id) for each in server.store.of("orders-value")] == [(5, 77), (6, 78)]


def test_without_that_mode_it_is_refused(server: RegistryServer) -> None:
    """42205 is told with what to do about a mode that the subject has of its own."""
    server.store.modes.update({"": IMPORT, "orders": "READWRITE"})
    with pytest.raises(RegistryRefused, match="not in import mode") as refused:
        asked(server, lambda registry: registry.register(version("orders", 1, 9)))
    assert refused.value.code == 42205
    assert "DELETE /mode/orders" in refused.value.hint


def test_an_id_that_is_taken(server: RegistryServer) -> None:
    """Another schema under the id is a conflict, by the registry's own word."""
    server.register("other", '"int"')
    server.store.modes[""] = IMPORT
    with pytest.raises(SchemaConflict, match="orders version 1 cannot have id 1"):
        asked(server, lambda registry: registry.register(version("orders", 1, 1)))


def test_deletions_and_levels(server: RegistryServer) -> None:
    """Softly, back again, for good; levels set and taken back; what is gone already is no error."""
    server.register("a", '"long"')
    one = version("a", 1, 1)

    async def changed(registry: SchemaStore) -> list[bool]:
        seen = []
        await registry.delete(one, for_good=False)
        seen.append((await registry.contents()).versions["a", 1].is_deleted)
        await registry.set_mode(IMPORT)
        await registry.restore(one)
        seen.append((await registry.contents()).versions["a", 1].is_deleted)
        await registry.set_compatibility("a", "FULL")
        seen.append((await registry.contents()).compatibility == {"a": "FULL"})
        for _ in range(2):
            await registry.set_compatibility("a", None)
            await registry.delete(one, for_good=True)
        seen.append(bool((await registry.contents()).versions))
        return seen

    assert asked(server, changed) == [True, False, True, False]


def test_failures_that_pass_are_not_seen(server: RegistryServer) -> None:
    """A server error and a busy registry are asked again; a gateway that stays away is a registry that is away."""
    server.faults.extend([500, 429])
    assert asked(server, lambda registry: registry.contents()).versions == {}
    server.faults.extend([503] * 3)
    with pytest.raises(RegistryUnreachable, match="HTTP 503") as away:
        asked(server, lambda registry: registry.contents())
    assert away.value.retryable
    assert "clusters.west.schema_registry.url" in away.value.hint


def test_another_address_is_told(server: RegistryServer) -> None:
    """What is no schema registry is named, with the key to look at."""
    with pytest.raises(RegistryRefused, match="404") as wrong:
        asked(RegistryServer(server.store, f"{server.url}/nowhere"), lambda registry: registry.contents())
    assert wrong.value.error_code == "ISTH-REGISTRY-REFUSED"
    with pytest.raises(RegistryUnreachable, match="does not answer"):
        asked(RegistryServer(server.store, "http://127.0.0.1:9"), lambda registry: registry.contents())


@pytest.mark.parametrize(
    ("login", "given"),
    [
        ({"username": "alice", "password": "s3cret"}, {"username": "alice", "password": Secret("s3cret")}),
        ({"token": "t0ken"}, {"token": Secret("t0ken")}),
    ],
)
def test_logins(login: dict[str, str], given: dict[str, object]) -> None:
    """A login or a token is sent; without it the registry refuses, and nothing of it is told."""
    with registry_server(**login) as server:
        assert asked(server, lambda registry: registry.contents(), **given).versions == {}
        with pytest.raises(RegistryRefused, match="401") as refused:
            asked(server, lambda registry: registry.contents(), username="alice", password=Secret("wrong"))
        assert "wrong" not in f"{refused.value} {refused.value.hint}"


class Endless(BaseHTTPRequestHandler):
    """Answers more than any registry has to say."""

    def do_GET(self) -> None:
        """Send 65 MiB, as long as somebody reads."""
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(65):
                self.wfile.write(b" " * (1 << 20))

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_an_answer_without_an_end_is_refused() -> None:
    """It is not held in memory: the address leads to something else."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server, ThreadPoolExecutor(1) as threads:
        threads.submit(server.serve_forever)

        async def ask() -> None:
            async with open_registry(
                SchemaRegistry(alias="west", url=f"http://127.0.0.1:{server.server_port}")
            ) as there:
                await there.contents()

        try:
            with pytest.raises(RegistryRefused, match="more than 64 MiB") as told:
                asyncio.run(ask())
        finally:
            server.shutdown()
    assert "clusters.west.schema_registry.url" in told.value.hint
