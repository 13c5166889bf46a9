"""Which records fail and which have to wait, if their schemas cannot be used."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from isthmus.model.cluster import SchemaRegistry
from isthmus.model.links.transform import RecordFormat, RecordPart, RecordPath
from isthmus.registry.lookup import Patience, SchemaBook
from isthmus.spark.formats.decoding import Asked, DecodedColumns, NotNow, PartDecoder
from isthmus.spark.formats.types import FieldType, ReadFields, struct_of
from testing.brokers.registry import RegistryServer, registry_server

ID = FieldType("BIGINT")


def columns(*, wanted: ReadFields | None = None, drops: tuple[str, ...] = (), **members: FieldType) -> DecodedColumns:
    return DecodedColumns(
        RecordFormat.AVRO,
        wanted or ReadFields.of([name] for name in members),
        struct_of(members.items()),
        drops=tuple(map(RecordPath.parse, drops)),
    )


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + data


class Lane:
    """A decoder, and what the registry said of these values."""

    def __init__(self, decoder: PartDecoder, asked: Asked) -> None:
        self._decoder, self._asked = decoder, asked

    def read(self, data: bytes | None) -> Any:
        return self._decoder.read(data, self._asked)


def prepared(
    server: RegistryServer,
    found: DecodedColumns,
    *values: bytes | None,
    decoder: PartDecoder | None = None,
    patience: Patience | None = None,
    times: int = 1,
) -> Lane:
    """A lane that has asked for the schemas of these values; others may share its decoder."""
    decoder = decoder or PartDecoder(RecordPart.VALUE, found)

    async def ask() -> Asked:
        async with SchemaBook(SchemaRegistry(alias="east", url=server.url), patience) as book:
            for _ in range(times):
                asked = await decoder.prepare(values, book)
                await asyncio.sleep(0.02)
            return asked

    return Lane(decoder, asyncio.run(ask()))


def test_each_record_is_read_by_its_own_schema() -> None:
    """A field that one does not have is not there; a narrower type is read into a wider one."""
    with registry_server() as server:
        one = server.register("o-value", record({"name": "id", "type": "int"}))
        server.store.levels[""] = "NONE"
        two = server.register("o-value", record({"name": "x", "type": "string"}, {"name": "id", "type": "long"}))
        values = (framed(one, b"\2"), framed(two, b"\2a\4"), None)
        decoder = prepared(server, columns(id=ID, x=FieldType("STRING")), *values)
        assert [decoder.read(each) for each in values] == [{"id": 1}, {"id": 2, "x": "a"}, None]


def test_a_record_whose_schema_is_not_there_fails() -> None:
    """So do one without an id and one of another format: which of them may be left out is the user's choice."""
    with registry_server() as server:
        other = server.register("j-value", json.dumps({"type": "object"}), schemaType="JSON")
        values = (framed(77, b"\2"), b"{}", b"", framed(other, b"{}"))
        decoder = prepared(server, columns(id=ID), *values, patience=Patience(denied_s=0.05), times=6)
        for value, says in zip(values, ("no schema 77", "id of a schema", "id of a schema", "is of JSON"), strict=True):
            with pytest.raises(ValueError, match=says):
                decoder.read(value)


def test_a_record_fails_whatever_the_registry_says_of_later_ones() -> None:
    """It alone is asked about; a later schema that cannot be completed makes its own records wait."""
    with registry_server() as server:
        server.register("o-value", record({"name": "id", "type": "int"}))
        missing = [{"name": "X", "subject": "x", "version": 1}]
        server.strange["/schemas/ids/5"] = {"schema": '"X"', "references": missing}
        values = (framed(77, b"\2"), framed(5, b"\2"))
        found = columns(id=ID)._replace(subjects=("o-value",))
        decoder = prepared(server, found, *values, patience=Patience(denied_s=0.05), times=6)
        with pytest.raises(ValueError, match="no schema 77"):
            decoder.read(values[0])
        with pytest.raises(NotNow, match="not what it refers to: version 1 of x"):
            decoder.read(values[1])


def test_a_schema_that_is_not_there_may_come() -> None:
    """A replica that lags denies it: its records wait until it was denied for a while."""
    with registry_server() as server:
        decoder = prepared(server, columns(id=ID), framed(77, b"\2"), times=4)
        with pytest.raises(NotNow, match="has no schema 77, which counts when it has said so for 60 s"):
            decoder.read(framed(77, b"\2"))


def test_a_registry_that_does_not_answer_makes_records_wait() -> None:
    """It says nothing of them; those whose schemas are known go on."""
    shared = PartDecoder(RecordPart.VALUE, columns(id=ID))
    with registry_server() as server:
        known = server.register("o-value", record({"name": "id", "type": "int"}))
        prepared(server, columns(id=ID), framed(known, b"\2"), decoder=shared)
    lane = prepared(server, columns(id=ID), framed(known, b"\2"), framed(9, b"\2"), decoder=shared)
    assert lane.read(framed(known, b"\2")) == {"id": 1}
    with pytest.raises(NotNow, match=r"schema registry of east .* does not answer"):
        lane.read(framed(9, b"\2"))


def test_what_a_lane_was_told_counts_for_its_records_alone() -> None:
    """Lanes share a decoder: the answers that another one gets decide nothing here."""
    shared = PartDecoder(RecordPart.VALUE, columns(id=ID))
    with registry_server() as server:
        known = server.register("o-value", record({"name": "id", "type": "int"}))
        prepared(server, columns(id=ID), framed(known, b"\2"), decoder=shared)
    waiting = prepared(server, columns(id=ID), framed(9, b"\2"), decoder=shared)
    other = prepared(server, columns(id=ID), framed(known, b"\2"), decoder=shared)
    assert other.read(framed(known, b"\2")) == {"id": 1}
    with pytest.raises(NotNow, match="does not answer"):
        waiting.read(framed(9, b"\2"))
    with pytest.raises(NotNow, match="was not asked"):
        other.read(framed(9, b"\2"))


def test_what_stands_in_place_of_a_registry_says_nothing() -> None:
    """A proxy that knows no such page is no registry without the schema."""
    with registry_server() as server:
        server.faults += [404, 503, 503, 503]
        for schema_id in (1, 2):
            decoder = prepared(server, columns(id=ID), framed(schema_id, b"\2"))
            with pytest.raises(NotNow):
                decoder.read(framed(schema_id, b"\2"))


def test_a_schema_that_does_not_fit_makes_its_records_wait() -> None:
    """It may have come later than the columns: the next lease has others."""
    with registry_server() as server:
        text = server.register("a-value", record({"name": "id", "type": "string"}))
        more = server.register("b-value", record({"name": "id", "type": "long"}, {"name": "new", "type": "int"}))
        for schema_id, found, says in (
            (text, columns(id=ID), "STRING"),
            (more, columns(wanted=ReadFields(), id=ID), "new"),
            (more, columns(id=ID, drops=("value.new",)), "no default"),
        ):
            decoder = prepared(server, found, framed(schema_id, b"\2"))
            with pytest.raises(NotNow, match=says):
                decoder.read(framed(schema_id, b"\2"))


def test_a_null_is_not_written_by_a_schema() -> None:
    """It has none; a tombstone stays one."""
    decoder = PartDecoder(RecordPart.VALUE, columns(id=ID))
    assert decoder.edit(None, {"id": '{"v":1}'}) is None
    assert decoder.edit(None, '{"v":null}') is None
    with pytest.raises(ValueError, match="has no schema"):
        decoder.edit(None, '{"v":1}')


def test_a_schema_that_has_another_name_for_what_is_dropped_makes_its_records_wait() -> None:
    """It came later than the columns: its records would keep the field."""
    with registry_server() as server:
        renamed = server.register(
            "o-value",
            record(
                {"name": "id", "type": "long"}, {"name": "e", "type": "string", "aliases": ["email"], "default": ""}
            ),
        )
        other = server.register("p-value", record({"name": "id", "type": "long"}, {"name": "e", "type": "string"}))
        found = columns(id=ID, drops=("value.email",))._replace(alike=((frozenset({"email"}),),))
        decoder = prepared(server, found, framed(renamed, b"\2\2e"), framed(other, b"\2\2e"))
        with pytest.raises(NotNow, match="field e is one that is set or dropped, by another name"):
            decoder.read(framed(renamed, b"\2\2e"))
        assert decoder.read(framed(other, b"\2\2e")) == {"id": 1}
