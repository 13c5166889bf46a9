"""A real Apicurio keeps the ids and versions that it is given, and all that follows from them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from isthmus.errors import SchemaConflict
from isthmus.local.apicurio import ApicurioServer
from isthmus.model.cluster import SchemaRegistry
from isthmus.model.schemas.content import RegistryContents, Schema, SchemaReference, SchemaVersion
from isthmus.schemas.registry import SchemaStore, open_registry

pytestmark = pytest.mark.integration
AnswerT = TypeVar("AnswerT")
ID = 1_000_000
"""Far above what the registry itself gives to others."""


def asked(server: ApicurioServer, question: Callable[[SchemaStore], Awaitable[AnswerT]]) -> AnswerT:
    """What a registry answers."""

    async def ask() -> AnswerT:
        async with open_registry(SchemaRegistry(alias="west", url=server.url)) as registry:
            return await question(registry)

    return asyncio.run(ask())


def of_subjects(contents: RegistryContents, *subjects: str) -> set[tuple[str, int, int, bool]]:
    """What it holds of these: subjects, versions and ids, and whether they are deleted."""
    found = contents.versions.values()
    return {(each.subject, each.version, each.id, each.is_deleted) for each in found if each.subject in subjects}


def avro(name: str, *fields: str) -> Schema:
    """A record, written as people write it."""
    listed = ", ".join(f'{{"name": "{each}", "type": "string", "default": ""}}' for each in fields)
    return Schema(text=f'{{"type": "record", "name": "{name}", "namespace": "com.acme", "fields": [{listed}]}}')


def test_versions_under_given_ids(west_registry: ApicurioServer, topic: Callable[[str], str]) -> None:
    """Ids and versions are those given, with gaps between them, and the newest version is the latest."""
    name = topic("orders")
    first = SchemaVersion(subject=f"{name}-value", version=1, id=ID + 10, schema=avro(f"A{name[-8:]}", "id"))
    later = replace(first, version=4, id=ID + 17, schema=avro(f"A{name[-8:]}", "id", "note"))
    nested = Schema(
        text=f'{{"type": "array", "items": "com.acme.A{name[-8:]}"}}',
        references=(SchemaReference(f"com.acme.A{name[-8:]}", f"{name}-value", 4),),
    )
    lists = SchemaVersion(subject=f"{name}-list", version=3, id=ID + 18, schema=nested)
    proto = Schema(text=f'syntax = "proto3"; message M{name[-8:]} {{ string x = 1; }}', type="PROTOBUF")
    others = [
        replace(first, subject=f"{name}-copy"),
        SchemaVersion(subject=f"{name}-p", version=1, id=ID + 19, schema=proto),
        SchemaVersion(
            subject=f"{name}-j", version=1, id=ID + 20, schema=Schema(text=f'{{"title": "{name}"}}', type="JSON")
        ),
    ]

    async def registered(registry: SchemaStore) -> RegistryContents:
        for version in (first, later, lists, *others, first, later):
            await registry.register(version)
        await registry.set_compatibility(f"{name}-value", "FULL")
        return await registry.contents()

    found = asked(west_registry, registered)
    wanted = {each.key: each for each in (first, later, lists, *others)}
    assert {key: each for key, each in found.versions.items() if key[0].startswith(name)} == wanted
    assert found.compatibility[f"{name}-value"] == "FULL"
    with SchemaRegistryClient({"url": west_registry.url}) as client:
        latest = client.get_latest_version(f"{name}-value")
        references = client.get_schema(ID + 18).references or []
    assert (latest.version, latest.schema_id) == (4, ID + 17)
    assert [each.subject for each in references] == [f"{name}-value"]


@pytest.mark.parametrize("mark", ["ä", "100%", "日本"], ids=["letter", "percent", "far"])
def test_a_subject_that_its_own_api_does_not_begin(
    west_registry: ApicurioServer, topic: Callable[[str], str], mark: str
) -> None:
    """It has versions under given ids, gaps and deletions as any other."""
    name = topic("named")
    at, subject = ID + 400 + 10 * len(mark), f"{name}-{mark}-value"
    first = SchemaVersion(subject=subject, version=1, id=at, schema=avro(f"N{name[-8:]}", "id"))
    later = replace(first, version=4, id=at + 1, schema=avro(f"N{name[-8:]}", "id", "note"))
    late = replace(first, subject=f"{subject}-late", version=3)
    proto = Schema(text=f'syntax = "proto3"; message N{name[-8:]} {{ string x = 1; }}', type="PROTOBUF")
    other = SchemaVersion(subject=f"{subject}-p", version=1, id=at + 2, schema=proto)

    async def registered(registry: SchemaStore) -> tuple[RegistryContents, RegistryContents]:
        for version in (first, later, late, other, first):
            await registry.register(version)
        await registry.set_compatibility(subject, "FULL")
        before = await registry.contents()
        await registry.delete(first, for_good=False)
        await registry.restore(first)
        await registry.delete(first, for_good=True)
        return before, await registry.contents()

    before, after = asked(west_registry, registered)
    wanted = {each.key: each for each in (first, later, late, other)}
    assert {key: each for key, each in before.versions.items() if key[0].startswith(name)} == wanted
    assert before.compatibility[subject] == "FULL"
    assert of_subjects(after, subject) == {(subject, 4, at + 1, False)}


def test_deletions(west_registry: ApicurioServer, topic: Callable[[str], str]) -> None:
    """A version is deleted softly, comes back, and is deleted for good; a second time is no error."""
    name = topic("gone")
    one, two = (
        SchemaVersion(subject=name, version=number, id=ID + 100 + number, schema=avro(f"G{name[-8:]}", f"f{number}"))
        for number in (1, 2)
    )

    async def deleted(registry: SchemaStore) -> list[set[tuple[str, int, int, bool]]]:
        seen = []
        for version in (one, two):
            await registry.register(version)
        await registry.delete(one, for_good=False)
        seen.append(of_subjects(await registry.contents(), name))
        await registry.restore(one)
        seen.append(of_subjects(await registry.contents(), name))
        for _ in range(2):
            await registry.delete(one, for_good=True)
        seen.append(of_subjects(await registry.contents(), name))
        await registry.delete(two, for_good=True)
        await registry.register(one)
        seen.append(of_subjects(await registry.contents(), name))
        return seen

    first, second = (name, 1, one.id), (name, 2, two.id)
    assert asked(west_registry, deleted) == [
        {(*first, True), (*second, False)},
        {(*first, False), (*second, False)},
        {(*second, False)},
        {(*first, False)},
    ]


def test_what_the_rules_would_refuse_today(west_registry: ApicurioServer, topic: Callable[[str], str]) -> None:
    """A version that the primary took by other rules is taken all the same, and the rules are as before."""
    name = topic("strict")
    one = SchemaVersion(subject=name, version=1, id=ID + 200, schema=avro(f"S{name[-8:]}"))
    other = Schema(text=one.schema.text.replace("[]", '[{"name": "x", "type": "long"}]'))

    async def registered(registry: SchemaStore) -> RegistryContents:
        await registry.register(one)
        await registry.set_compatibility(name, "BACKWARD")
        await registry.register(replace(one, version=2, id=ID + 201, schema=other))
        return await registry.contents()

    found = asked(west_registry, registered)
    assert of_subjects(found, name) == {(name, 1, ID + 200, False), (name, 2, ID + 201, False)}
    assert found.compatibility[name] == "BACKWARD"


def test_ids_that_cannot_be_kept(west_registry: ApicurioServer, topic: Callable[[str], str]) -> None:
    """An id that another schema has, and a schema that has another id, are refused by name."""
    name = topic("taken")
    one = SchemaVersion(subject=name, version=1, id=ID + 300, schema=avro(f"T{name[-8:]}"))
    asked(west_registry, lambda registry: registry.register(one))
    with pytest.raises(SchemaConflict, match=f"id {ID + 300}"):
        asked(
            west_registry, lambda registry: registry.register(replace(one, version=2, schema=avro("Other", name[:4])))
        )
    with pytest.raises(SchemaConflict, match="under another id"):
        asked(west_registry, lambda registry: registry.register(replace(one, subject=f"{name}-b", id=ID + 301)))
