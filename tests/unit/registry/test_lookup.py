"""Schemas are found by ids and subjects, with what they refer to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from isthmus.errors import RegistryRefused
from isthmus.model.cluster import SchemaRegistry
from isthmus.registry.lookup import SchemaBook
from testing.brokers.registry import RegistryServer, registry_server

AnswerT = TypeVar("AnswerT")


def asked(server: RegistryServer, question: Callable[[SchemaBook], Awaitable[AnswerT]]) -> AnswerT:
    async def ask() -> AnswerT:
        async with SchemaBook(SchemaRegistry(alias="east", url=server.url)) as book:
            return await question(book)

    return asyncio.run(ask())


def test_an_id_is_asked_for_once() -> None:
    """It never means another schema; one that is not there may come."""
    with registry_server() as server:
        one = server.register("a", '"string"')

        async def find(book: SchemaBook) -> list[set[int]]:
            return [set(await book.find([one, 99])), set(await book.find([one, 99]))]

        assert asked(server, find) == [{one}, {one}]
        assert asked(server, find) == [{one}, {one}]
        assert server.asked.count(f"GET /schemas/ids/{one}") == 1
        assert server.asked.count("GET /schemas/ids/99") == 4


def test_schemas_that_a_schema_refers_to_come_with_it() -> None:
    """Those first that others need, and each once."""
    with registry_server() as server:
        server.register("x", {"type": "record", "name": "X", "fields": []})
        to_x = [{"name": "X", "subject": "x", "version": 1}]
        server.register("y", {"type": "record", "name": "Y", "fields": [{"name": "x", "type": "X"}]}, references=to_x)
        to_both = [{"name": "Y", "subject": "y", "version": 1}, *to_x]
        top = server.register("z", {"type": "array", "items": "Y"}, references=to_both)

        found = asked(server, lambda book: book.find([top]))[top]
        assert [name for name, _ in found.referenced] == ["X", "Y"]
        assert json.loads(found.schema.text) == {"type": "array", "items": "Y"}


def test_versions_of_subjects() -> None:
    """In their order, without deleted ones; none for a subject that is not there."""
    with registry_server() as server:
        server.store.levels[""] = "NONE"
        ids = [server.register("a", kind) for kind in ('"string"', '"int"', '"long"')]
        server.store.delete("a", "2", permanent=False)

        found = asked(server, lambda book: book.find_subjects(["a", "b"]))
        assert {name: [each.id for each in versions] for name, versions in found.items()} == {
            "a": [ids[0], ids[2]],
            "b": [],
        }


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusal_is_no_answer(status: int) -> None:
    """Nothing follows from it for a schema: neither that it is there nor that it is not."""
    with registry_server() as server:
        server.faults.append(status)
        with pytest.raises(RegistryRefused):
            asked(server, lambda book: book.find([1]))
