"""Avro values are decoded and edited as other implementations read and write them."""

from __future__ import annotations

import base64
import io
import json
import math
import random
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from isthmus.model.schemas.content import Schema
from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.avro import AvroSchema
from isthmus.spark.formats.types import FieldType, NotDecoded, ReadFields, to_arrow
from isthmus.spark.formats.values import DROPPED, Edits

PREFIX = b"\0\0\0\0\7"
EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "com.acme",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "is_new", "type": "boolean"},
        {"name": "share", "type": "float"},
        {"name": "ratio", "type": "double"},
        {"name": "name", "type": "string"},
        {"name": "data", "type": "bytes"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "at_us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {
            "name": "tax",
            "type": {
                "type": "fixed",
                "name": "Tax",
                "size": 8,
                "logicalType": "decimal",
                "precision": 9,
                "scale": 3,
            },
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
        {
            "name": "address",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Address",
                    "fields": [
                        {"name": "city", "type": "string", "default": "nowhere"},
                        {"name": "zip", "type": ["string", "null"], "default": ""},
                    ],
                },
            ],
        },
        {"name": "others", "type": {"type": "array", "items": "Address"}},
        {"name": "any", "type": ["null", "int", "long", "double", "string", "Kind", "Address"]},
    ],
}


def avro(schema: object, *referenced: object) -> AvroSchema:
    texts = tuple((f"r{place}", Schema(text=json.dumps(each))) for place, each in enumerate(referenced))
    return AvroSchema(WriterSchema(id=7, schema=Schema(text=json.dumps(schema)), referenced=texts))


def encoded(schema: object, value: object) -> bytes:
    """A value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return PREFIX + out.getvalue()


def decoded(schema: object, data: bytes | None) -> Any:
    """A value as fastavro reads it, to its last byte."""
    assert data is not None
    assert data[:5] == PREFIX
    stream = io.BytesIO(data[5:])
    found = fastavro.schemaless_reader(
        stream, fastavro.parse_schema(json.loads(json.dumps(schema))), None, return_named_type=True
    )
    assert stream.read() == b""
    return found


def address(chance: random.Random) -> dict[str, Any]:
    return {"city": chance.choice(["", "Köln", "x" * 100]), "zip": chance.choice([None, "50667"])}


def order(chance: random.Random) -> dict[str, Any]:
    """A value of `EVERYTHING`."""
    return {
        "id": chance.randrange(-(2**63), 2**63),
        "count": chance.choice([-(2**31), -1, 0, 63, 64, 2**31 - 1]),
        "is_new": chance.random() < 0.5,
        "share": struct.unpack("<f", struct.pack("<f", chance.random()))[0],
        "ratio": chance.choice([chance.random() * 10 ** chance.randrange(-300, 300), math.inf, -0.0]),
        "name": chance.choice(["", "ä€😀", "x" * 200]),
        "data": chance.randbytes(chance.randrange(70)),
        "note": chance.choice([None, "", "n"]),
        "kind": chance.choice("AB"),
        "hash": chance.randbytes(4),
        "day": date.fromordinal(chance.randrange(1, date.max.toordinal())),
        "at": datetime(1, 1, 1, tzinfo=UTC) + timedelta(milliseconds=chance.randrange(3 * 10**14)),
        "at_us": datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.randrange(3 * 10**17)),
        "local": datetime(1970, 1, 1) + timedelta(microseconds=chance.randrange(10**17)),  # noqa: DTZ001
        "price": Decimal(chance.randrange(-(10**20) + 1, 10**20)).scaleb(-2),
        "tax": Decimal(chance.randrange(-(10**9) + 1, 10**9)).scaleb(-3),
        "tags": [chance.choice("abc") for _ in range(chance.randrange(4))],
        "sizes": {chance.choice("abcdef"): chance.randrange(9) for _ in range(chance.randrange(4))},
        "address": chance.choice([None, ("com.acme.Address", address(chance))]),
        "others": [address(chance) for _ in range(chance.randrange(3))],
        "any": chance.choice([None, 3, 2**40, 0.1, "A", ("com.acme.Kind", "A"), ("com.acme.Address", address(chance))]),
    }


def result(value: object) -> str:
    """A result as Spark writes it."""
    return json.dumps({"v": value})


def edited(schema: object, value: object, edits: Edits) -> Any:
    return decoded(schema, avro(schema).edit(encoded(schema, value), edits))


def seen(schema: object, data: bytes, *paths: str) -> Any:
    """What expressions see of a value, by way of Arrow."""
    found = avro(schema)
    wanted = ReadFields.of(each.split(".") for each in paths) if paths else ReadFields()
    shape = found.type_of(wanted)
    (row,) = pa.array([found.build_reader(shape)(data)], to_arrow(shape)).to_pylist()
    return row


def test_values_are_seen_as_fastavro_reads_them(chance: random.Random) -> None:
    """Whatever they hold; what expressions cannot see is not asked for."""
    names = [each["name"] for each in EVERYTHING["fields"] if each["name"] != "any"]
    for _ in range(200):
        value = order(chance)
        data = encoded(EVERYTHING, value)
        found = seen(EVERYTHING, data, *names)
        wanted = decoded(EVERYTHING, data)
        if wanted["address"] is not None:
            wanted["address"] = wanted["address"][1]
        wanted["sizes"] = list(wanted["sizes"].items())
        del wanted["any"]
        assert {**found, "sizes": sorted(found["sizes"])} == {**wanted, "sizes": sorted(wanted["sizes"])}


def as_spark_writes(name: str, value: Any) -> Any:
    """A value of a field as Spark writes it as JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return value[1]
    return "Infinity" if value == math.inf and name == "ratio" else value


def test_a_record_becomes_what_is_set_and_keeps_all_else(chance: random.Random) -> None:
    """Fields of one value are put into another, some of them and in any order: fastavro reads the mixture."""
    names = [each["name"] for each in EVERYTHING["fields"] if each["name"] != "any"]
    for _ in range(300):
        one, other = order(chance), order(chance)
        chosen = chance.sample(names, chance.randrange(len(names)))
        before, given = (decoded(EVERYTHING, encoded(EVERYTHING, each)) for each in (one, other))
        edits = {}
        for name in chosen:
            value = given[name]
            text = f'{{"v":{value}}}' if isinstance(value, Decimal) else result(as_spark_writes(name, value))
            edits[name] = text
        assert edited(EVERYTHING, one, edits) == {**before, **{name: given[name] for name in chosen}}


def test_nothing_set_is_nothing_changed(chance: random.Random) -> None:
    """Blocks of arrays with their sizes, as other encoders write them, stay as well."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": {"type": "array", "items": "int"}},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
            {"name": "b", "type": "int"},
        ],
    }
    # Two blocks: one of two items in two bytes, one of one item.
    data = PREFIX + b"\3\4\2\4" + b"\2\6" + b"\0" + b"\2\2k\2\2v\0\0" + b"\x0e"
    assert decoded(schema, data) == {"a": [1, 2, 3], "m": {"k": ["v"]}, "b": 7}
    assert avro(schema).edit(data, {}) == data
    assert avro(schema).edit(data, {"b": result(1)}) == data[:-1] + b"\2"
    for _ in range(50):
        data = encoded(EVERYTHING, order(chance))
        assert avro(EVERYTHING).edit(data, {}) == data
        assert avro(EVERYTHING).edit(data, {"nowhere": result(1), "address": {"nowhere": result(1)}}) == data


def test_fields_of_records_that_may_be_null() -> None:
    """One that is null has none, and stays null."""
    value = order(random.Random(1))
    value["address"] = None
    assert edited(EVERYTHING, value, {"address": {"city": result("Bonn")}})["address"] is None
    value["address"] = ("com.acme.Address", {"city": "Köln", "zip": "1"})
    found = edited(EVERYTHING, value, {"address": {"city": result("Bonn"), "zip": result(None)}})
    assert found["address"][1] == {"city": "Bonn", "zip": None}
    assert edited(EVERYTHING, value, {"address": result(None)})["address"] is None


def test_a_dropped_field_gets_its_default_or_null() -> None:
    """The schema stays, so there has to be a value; where there is none it cannot be dropped."""
    value = {**order(random.Random(1)), "note": "n", "address": ("com.acme.Address", {"city": "Köln", "zip": "1"})}
    found = edited(EVERYTHING, value, {"note": DROPPED, "address": {"city": DROPPED, "zip": DROPPED}})
    assert (found["note"], found["address"][1]) == (None, {"city": "nowhere", "zip": ""})
    assert edited(EVERYTHING, value, {"any": DROPPED})["any"] is None
    schema = avro(EVERYTHING)
    assert (schema.check_drop(["note"]), schema.check_drop(["nowhere"])) == (True, False)
    with pytest.raises(NotDecoded, match="no default, and may not be null"):
        schema.check_drop(["name"])
    with pytest.raises(NotDecoded, match="fields of a record"):
        schema.check_drop(["sizes", "a"])


def test_defaults_of_all_types_are_written_as_fastavro_reads_them() -> None:
    """Defaults have a form of their own in a schema: bytes as letters, days and times as numbers."""
    defaults: Mapping[str, tuple[object, object]] = {
        "bytes": ("bytes", "\u00ff\u0001"),
        "day": ({"type": "int", "logicalType": "date"}, 20000),
        "list": ({"type": "array", "items": "long"}, [1, 300]),
        "map": ({"type": "map", "values": "boolean"}, {"a": True}),
        "record": (
            {
                "type": "record",
                "name": "I",
                "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string", "default": "z"}],
            },
            {"x": 5},
        ),
        "union": (["string", "null"], "first"),
        "double": ("double", 1),
    }
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind, "default": default} for name, (kind, default) in defaults.items()],
    }
    stream = io.BytesIO(b"")
    empty = {"type": "record", "name": "R", "fields": []}
    wanted: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(empty), fastavro.parse_schema(schema))
    value = {
        "bytes": b"",
        "day": 1,
        "list": [],
        "map": {},
        "record": {"x": 0, "y": ""},
        "union": None,
        "double": 0.5,
    }
    found = edited(schema, value, dict.fromkeys(defaults, DROPPED))
    assert found == {**wanted, "bytes": b"\xff\x01", "day": date(2024, 10, 4), "record": {"x": 5, "y": "z"}}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("count", 2**31, "is no int"),
        ("name", None, "may not be null"),
        ("kind", "C", "none of A, B"),
        ("hash", "AAAA", "has 3 bytes"),
        ("day", "+10000-01-01", "does not fit"),
        ("at", "+10000-01-01T00:00:00.000000Z", "does not fit"),
    ],
)
def test_a_result_that_is_no_value_of_its_field_fails(name: str, value: object, reason: str) -> None:
    """It is never cut or rounded to fit."""
    with pytest.raises(ValueError, match=reason):
        edited(EVERYTHING, order(random.Random(1)), {name: result(value)})


def test_a_value_as_a_whole() -> None:
    """Keys are often plain numbers or texts; NULL makes a tombstone."""
    assert edited("string", "a", result("ä")) == "ä"
    assert avro("long").edit(encoded("long", 5), result(None)) is None
    assert seen("long", encoded("long", -5)) == -5
    with pytest.raises(ValueError, match="is no long"):
        avro("long").edit(encoded("long", 5), result(2**63))


def test_bytes_that_are_no_such_value_fail() -> None:
    """Cut ones, ones with something behind them, and texts that are none."""
    data = encoded(EVERYTHING, order(random.Random(1)))
    read = avro(EVERYTHING).build_reader(avro(EVERYTHING).type_of(ReadFields.of([["id"]])))
    for wrong in (data[:-1], data + b"\0", PREFIX, data[:5] + b"\xff" * 30):
        with pytest.raises(ValueError, match="no Avro of schema 7"):
            read(wrong)
    with pytest.raises(ValueError, match="no Avro of schema 7"):
        avro("string").build_reader(FieldType("STRING"))(PREFIX + b"\2\xff")


def test_times_that_spark_does_not_have_fail_for_their_record_alone() -> None:
    """Avro takes any number for one."""
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    for number in (2**62, -(2**62)):
        with pytest.raises(ValueError, match="year 9999"):
            seen(schema, encoded("long", number))


def test_what_expressions_cannot_see_is_named() -> None:
    """Other fields of such records can be read and set."""
    schema = avro(EVERYTHING)
    with pytest.raises(NotDecoded, match=r"any: it is a union of null, int, long, double, string, com.acme.Kind"):
        schema.type_of(ReadFields())
    assert schema.type_of(ReadFields.of([["ID"]])).ddl == "STRUCT<`id`: BIGINT>"
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    with pytest.raises(NotDecoded, match="contains itself"):
        avro(node).type_of(ReadFields())
    wanted = ReadFields.of([["value"], ["next", "value"]])
    assert avro(node).type_of(wanted).ddl == "STRUCT<`value`: INT, `next`: STRUCT<`value`: INT>>"
    deep = {"value": 1, "next": ("Node", {"value": 2, "next": None})}
    assert seen(node, encoded(node, deep), "value", "next.value") == {"value": 1, "next": {"value": 2}}
    with pytest.raises(NotDecoded, match="50 digits"):
        avro({"type": "bytes", "logicalType": "decimal", "precision": 50}).type_of(ReadFields())


def test_schemas_that_refer_to_others() -> None:
    """The registry gives them beside it."""
    inner = {"type": "record", "name": "com.acme.I", "fields": [{"name": "x", "type": "int"}]}
    outer = {"type": "record", "name": "O", "namespace": "com.acme", "fields": [{"name": "i", "type": "I"}]}
    found = avro(outer, inner)
    whole = {**outer, "fields": [{"name": "i", "type": inner}]}
    data = encoded(whole, {"i": {"x": 3}})
    assert found.type_of(ReadFields()).ddl == "STRUCT<`i`: STRUCT<`x`: INT>>"
    assert decoded(whole, found.edit(data, {"i": {"x": result(4)}})) == {"i": {"x": 4}}


def test_a_text_that_is_no_schema_is_refused() -> None:
    """With the id of it."""
    with pytest.raises(NotDecoded, match="schema 7 is no Avro that can be read"):
        avro({"type": "record", "name": "R", "fields": [{"name": "x", "type": "Nowhere"}]})
