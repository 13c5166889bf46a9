"""Schemas are found by ids and subjects, with what they refer to."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from isthmus.errors import RegistryRefused, RegistryUnreachable
from isthmus.model.cluster import SchemaRegistry, Secret
from isthmus.registry.lookup import Patience, SchemaBook
from testing.brokers.registry import RegistryServer, registry_server

AnswerT = TypeVar("AnswerT")


def asked(
    server: RegistryServer,
    question: Callable[[SchemaBook], Awaitable[AnswerT]],
    patience: Patience | None = None,
    **login: Any,
) -> AnswerT:
    async def ask() -> AnswerT:
        registry = SchemaRegistry(alias="east", url=server.url, **login)
        async with SchemaBook(registry, patience) as book:
            return await question(book)

    return asyncio.run(ask())


def test_an_id_is_asked_for_once() -> None:
    """It never means another schema; one that is not there may come."""
    with registry_server() as server:
        one = server.register("a", '"string"')

        async def find(book: SchemaBook) -> list[set[int]]:
            return [set((await book.find([one, 99])).schemas), set((await book.find([one, 99])).schemas)]

        assert asked(server, find) == [{one}, {one}]
        assert asked(server, find) == [{one}, {one}]
        assert server.asked.count(f"GET /schemas/ids/{one}") == 1
        assert server.asked.count("GET /schemas/ids/99") == 4


def test_a_denied_id_is_doubted_for_some_time() -> None:
    """A replica that lags denies what is new. Several denials over a while count, if the registry has its subjects."""
    with registry_server() as server:
        one = server.register("a", '"string"')
        server.store.lagging.add(one)
        patience = Patience(denied_s=0.5)

        async def find(book: SchemaBook) -> list[tuple[set[int], set[int], set[int]]]:
            seen = []
            for _ in range(4):
                found = await book.find([one, 99], ["a"])
                seen.append((set(found.schemas), set(found.denied), set(found.doubted)))
                await asyncio.sleep(0.2)
                if len(seen) == 2:
                    server.store.lagging.clear()
            return seen

        both: set[int] = {one, 99}
        nothing: set[int] = set()
        assert asked(server, find, patience) == [
            (nothing, nothing, both),
            (nothing, nothing, both),
            ({one}, nothing, {99}),
            ({one}, {99}, nothing),
        ]


@pytest.mark.parametrize("subjects", [["a", "b"], []])
def test_a_registry_without_its_subjects_decides_nothing(subjects: list[str]) -> None:
    """It may be an empty one in the place of the other."""
    with registry_server() as server:

        async def find(book: SchemaBook) -> str:
            for _ in range(6):
                found = await book.find([9], subjects)
                await asyncio.sleep(0.02)
            assert not found.denied
            return found.doubted[9]

        assert "may be another one" in asked(server, find, Patience(denied_s=0.05))


def test_rubbish_far_from_all_ids_is_denied_at_once_among_other_rubbish() -> None:
    """Each such record would else wait for a minute. An id that a new schema may have is doubted as before."""
    with registry_server() as server:
        one = server.register("a", '"string"')
        patience = Patience(denied_s=0.5)
        text = int.from_bytes(b"abcd")

        async def find(book: SchemaBook) -> list[frozenset[int]]:
            seen = [(await book.find([text, each], ["a"])).denied for each in (text + 1, text + 5)]
            await asyncio.sleep(0.6)
            seen.append((await book.find([text], ["a"])).denied)
            seen.append((await book.find([text + 2, one + 1, text + 3], ["a"])).denied)
            server.store.versions.clear()
            seen.append((await book.find([text + 4], ["a"])).denied)
            return seen

        assert asked(server, find, patience) == [
            frozenset(),
            frozenset(),
            frozenset({text}),
            frozenset({text + 2, text + 3}),
            frozenset(),
        ]


def test_a_round_of_questions_has_an_end() -> None:
    """The first ids are asked for, and the others wait: however many come, the first are decided about in time."""
    with registry_server() as server:
        one = server.register("a", '"string"')
        many = [9, one, *range(100, 200)]
        for patience, count in ((Patience(ids_max=5), 5), (Patience(round_s=0.0), 1)):
            server.asked.clear()
            found = asked(server, lambda book: book.find(many, ["a"]), patience)
            assert server.asked[0] == "GET /schemas/ids/9"
            assert len(server.asked) <= count
            assert set(found.doubted) | set(found.schemas) == set(many)
            assert f"after {count} others" in found.doubted[199]


def test_schemas_that_a_schema_refers_to_come_with_it() -> None:
    """Those first that others need, and each once."""
    with registry_server() as server:
        server.register("x", {"type": "record", "name": "X", "fields": []})
        to_x = [{"name": "X", "subject": "x", "version": 1}]
        server.register("y", {"type": "record", "name": "Y", "fields": [{"name": "x", "type": "X"}]}, references=to_x)
        to_both = [{"name": "Y", "subject": "y", "version": 1}, *to_x]
        top = server.register("z", {"type": "array", "items": "Y"}, references=to_both)

        found = asked(server, lambda book: book.find([top])).schemas[top]
        assert [name for name, _ in found.referenced] == ["X", "Y"]
        assert json.loads(found.schema.text) == {"type": "array", "items": "Y"}


def test_a_reference_to_nothing_is_told() -> None:
    """So is one that leads back to itself; neither ends what asks."""
    with registry_server() as server:
        itself = {"schema": '"X"', "references": [{"name": "X", "subject": "x", "version": 1}]}
        server.strange |= {"/schemas/ids/1": itself, "/subjects/x/versions/1": itself}
        with pytest.raises(RegistryRefused, match="not what it refers to: version 1 of x"):
            asked(server, lambda book: book.find([1]))
        del server.strange["/subjects/x/versions/1"]
        with pytest.raises(RegistryRefused, match="not what it refers to: version 1 of x"):
            asked(server, lambda book: book.find([1]))


def test_ids_and_references_are_those_of_a_context() -> None:
    """The same id means another schema in the default context."""
    with registry_server() as server:
        server.register("a", '"string"')
        server.register(":.c:x", {"type": "record", "name": "X", "fields": []})
        to_x = [{"name": "X", "subject": ":.c:x", "version": 1}]
        one = server.register(":.c:y", {"type": "array", "items": "X"}, references=to_x)
        server.strange["/schemas/ids/7"] = {
            "schema": '"X"',
            "references": [{"name": "X", "subject": "x", "version": 1}],
        }

        found = asked(server, lambda book: book.find([1, one, 7], [":.c:y"])).schemas
        assert [json.loads(found[each].schema.text) for each in (1, one)] == [
            {"type": "record", "name": "X", "fields": []},
            {"type": "array", "items": "X"},
        ]
        assert [name for name, _ in found[7].referenced] == ["X"]
        assert asked(server, lambda book: book.find([1], ["a"])).schemas[1].schema.text == '"string"'
        assert set(asked(server, lambda book: book.find_subjects([":.c:y"]))) == {":.c:y"}


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


def text_of(server: RegistryServer, patience: Patience | None = None, **login: Any) -> str:
    return asked(server, lambda book: book.find([1]), patience, **login).schemas[1].schema.text


def test_another_registry_behind_the_address_is_noticed() -> None:
    """With another login at once, as it may be that of another tenant; else after a while. If the registry is silent
    then, what is known holds.
    """
    with registry_server() as server:
        server.register("a", '"string"')
        first = Secret("one")
        assert text_of(server, username="u", password=first) == '"string"'
        server.store.ids.clear()
        server.store.versions.clear()
        server.register("a", '"int"')
        assert text_of(server, username="u", password=first) == '"string"'
        assert text_of(server, username="u", password=Secret("two")) == '"int"'
        assert text_of(server, token=Secret("three")) == '"int"'

        server.store.ids[1] = ("AVRO", '"long"', "[]")
        at_once = Patience(fresh_s=0.0, silent_s=0.0)
        server.faults += [503, 503, 503]
        assert text_of(server, token=Secret("three")) == '"int"'
        assert text_of(server, at_once, token=Secret("three")) == '"int"'
        time.sleep(0.01)
        assert text_of(server, at_once, token=Secret("three")) == '"long"'


@pytest.mark.parametrize(
    "answer",
    [
        [{"version": 1}],
        {"versions": [1]},
        ["1"],
        [True],
        "1",
        1,
        [[]],
        [None],
    ],
)
def test_versions_in_another_form_are_told(answer: object) -> None:
    """It passes, as a registry that does not answer does."""
    with registry_server() as server:
        server.strange["/subjects/a/versions"] = answer
        with pytest.raises(RegistryRefused, match="in a form that is not known"):
            asked(server, lambda book: book.find_subjects(["a"]))


@pytest.mark.parametrize(
    "answer",
    [
        [],
        "text",
        {},
        {"schema": None},
        {"schema": {"type": "string"}},
        {"schema": '"int"', "schemaType": 3},
        {"schema": '"int"', "references": {"name": "x"}},
        {"schema": '"int"', "references": ["x"]},
        {"schema": '"int"', "references": [{"name": "x", "subject": None, "version": 1}]},
        {"schema": '"int"', "references": [{"name": "x", "subject": "x", "version": []}]},
        {"schema": '"int"', "id": {}},
    ],
)
def test_schemas_in_another_form_are_told(answer: object) -> None:
    """Whatever JSON stands there."""
    with registry_server() as server:
        server.register("a", '"string"')
        server.strange["/subjects/a/versions/1"] = answer
        with pytest.raises(RegistryRefused, match="in a form that is not known"):
            asked(server, lambda book: book.find_subjects(["a"]))


def test_an_answer_in_drops_has_an_end() -> None:
    """It is never silent, and still takes too long."""
    with registry_server() as server:
        server.register("a", '"string"')
        server.pause_s = 0.1
        begun = time.monotonic()
        with pytest.raises(RegistryUnreachable, match=r"no complete answer within 0\.5 s"):
            asked(server, lambda book: book.find([1]), Patience(answer_s=0.5))
        assert time.monotonic() - begun < 2


def test_a_schema_has_to_come_in_time_with_all_that_it_refers_to() -> None:
    """Each answer is quick enough, and all together are not."""
    with registry_server() as server:
        server.register("x", '"string"')
        to_x = [{"name": f"X{place}", "subject": "x", "version": 1} for place in range(20)]
        top = server.register("z", '"int"', references=to_x)
        server.pause_s = 0.001
        begun = time.monotonic()
        with pytest.raises(RegistryUnreachable, match=r"with all that it refers to within 0\.3 s"):
            asked(server, lambda book: book.find([top]), Patience(schema_s=0.3))
        assert time.monotonic() - begun < 2


def test_a_silent_registry_is_left_alone_from_its_failure_on() -> None:
    """However long the failure took to come: what is known holds meanwhile."""
    with registry_server() as server:
        one = server.register("a", '"string"')

        async def find(book: SchemaBook) -> list[int]:
            await book.find([one])
            server.pause_s, counts = 0.2, []
            for _ in range(2):
                assert set((await book.find([one])).schemas) == {one}
                counts.append(len(server.asked))
            return counts

        assert asked(server, find, Patience(answer_s=0.4, fresh_s=0.0, silent_s=0.3)) == [2, 2]
