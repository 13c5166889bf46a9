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
import pytest

from isthmus.model.schemas.content import Schema
from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.avro import AvroSchema
from isthmus.spark.formats.types import FieldType, NotDecoded, ReadFields, names_alike
from isthmus.spark.formats.values import DROPPED, Edits
from testing.records.avro import PREFIX, avro, decoded, encoded, number_of, result, seen

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


def edited(schema: object, value: object, edits: Edits) -> Any:
    return decoded(schema, avro(schema).edit(encoded(schema, value), edits))


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


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def named(kind: object) -> dict[str, Any]:
    return {"name": "x", "type": kind}


@pytest.mark.parametrize(
    "schema",
    [
        record(named("Nowhere")),
        record(named("int"), named("int")),
        record(named(["null", ["int"]])),
        record(named({"type": "enum", "name": "E", "symbols": "AB"})),
        record(named({"type": "enum", "name": "E", "symbols": [1]})),
        record(named({"type": "fixed", "name": "F", "size": -1})),
        record(named({"type": "fixed", "name": "F", "size": "4"})),
        record(named({"type": "array"})),
        record(named({"type": "map", "values": 5})),
        record({"name": "x"}),
        record({"name": ["x"], "type": "int"}),
        record(named({"type": "record", "name": "R", "fields": []})),
        {"type": "record", "name": "R", "fields": "none"},
        {"type": "record", "fields": []},
        {"type": {}},
        5,
        None,
        "R",
        json.loads("[" * 100 + "]" * 100),
    ],
)
def test_what_is_no_schema_is_refused(schema: object) -> None:
    """With its id, whatever it is."""
    with pytest.raises(NotDecoded, match="schema 7 is no Avro that can be read"):
        avro(schema)


def test_a_text_that_is_no_json_is_refused() -> None:
    """Also one that is nested more deeply than Python reads."""
    for text in ("", "{", "[" * 100_000):
        with pytest.raises(NotDecoded, match="schema 7 is no Avro that can be read"):
            AvroSchema(WriterSchema(id=7, schema=Schema(text=text)))


def test_logical_types_that_make_no_sense_count_for_nothing() -> None:
    """Avro has it so: the type below is what is read."""
    given: list[dict[str, Any]] = [{"logicalType": {}}, {"logicalType": "decimal", "precision": "9"}]
    for odd in [*given, {"logicalType": "decimal"}]:
        assert avro({"type": "bytes", **odd}).type_of(ReadFields()).ddl == "BINARY"


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "5"),
        ("int", 2**31),
        ("long", 0.5),
        ("boolean", 0),
        ("string", 5),
        ("bytes", 5),
        ("bytes", "\u20ac"),
        ("double", "NaN?"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, "a"),
        ({"type": "array", "items": "int"}, {}),
        ({"type": "map", "values": "int"}, ["a"]),
        (record(named("int"), name="I"), {}),
        (record(named("int"), name="I"), []),
        (["string", "null"], 5),
        ({"type": "int", "logicalType": "date"}, "yesterday"),
    ],
)
def test_a_default_that_is_no_value_of_its_type_cannot_be_dropped_to(kind: object, default: object) -> None:
    """It is said before the first byte. All else of such a schema can be used."""
    schema = avro(record({"name": "x", "type": kind, "default": default}, {"name": "y", "type": "int"}))
    with pytest.raises(NotDecoded, match="its default in the schema"):
        schema.check_drop(["x"])
    assert schema.type_of(ReadFields.of([["y"]])).ddl == "STRUCT<`y`: INT>"


def test_defaults_and_types_without_an_end_are_refused() -> None:
    """A few types that name one another twice would have more values than any memory."""
    levels = 40
    inner: Any = "int"
    for level in range(levels):
        name = f"R{level}"
        known = inner if level == 0 else f"R{level - 1}"
        fields = [{"name": "a", "type": inner, "default": {}}, {"name": "b", "type": known, "default": {}}]
        if level == 0:
            fields = [{"name": each, "type": "int", "default": 1} for each in "ab"]
        inner = {"type": "record", "name": name, "fields": fields}
    schema = avro(record({"name": "x", "type": inner, "default": {}}))
    with pytest.raises(NotDecoded, match="more than 10000 values"):
        schema.check_drop(["x"])
    with pytest.raises(NotDecoded, match="more than 5000 fields"):
        schema.type_of(ReadFields())
    itself = record({"name": "n", "type": "R", "default": {}})
    with pytest.raises(NotDecoded, match="its default"):
        avro(itself).check_drop(["n"])


def with_secret(*before: object) -> dict[str, Any]:
    """A record with some fields, and the field `secret` behind them."""
    fields = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(before)]
    return record(*fields, {"name": "secret", "type": "string", "default": ""})


ARRAY = {"type": "array", "items": "int"}
MAP = {"type": "map", "values": "string"}
KIND = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (ARRAY, b"\1\0\2\0"),  # one item in 0 bytes, and one in 1 byte
        (ARRAY, b"\1\4\2\0"),  # one item in 2 bytes
        (ARRAY, b"\1\3\2\0"),  # one item in -2 bytes
        (ARRAY, b"\1\x7f\2\0"),
        (ARRAY, number_of(-(2**63)) + b"\2\2\0"),
        (ARRAY, number_of(2**40) + b"\2"),
        ({"type": "array", "items": "double"}, number_of(2**60) + b"\2"),
        ({"type": "array", "items": "string"}, b"\2\x03abc\0"),
        (MAP, b"\1\2\2k\2v\0"),
        (MAP, b"\2\x03k\2v\0"),
        (KIND, b"\1"),
        (KIND, b"\4"),
        (["null", "int"], b"\1\2"),
        (["null", "int"], b"\4\2"),
        ("bytes", b"\x03abc"),
        ("string", number_of(2**62) + b"abc"),
        ("int", number_of(2**31)),
        ("long", b"\xff" * 9 + b"\2"),
        ("long", b"\x80" * 10 + b"\0"),
    ],
)
def test_sizes_and_choices_have_to_be_right(kind: object, data: bytes) -> None:
    """Else a block that says another size than it has would shift what is dropped into what is kept."""
    schema = with_secret(kind)
    whole = PREFIX + data + b"\x0cSECRET"
    read = avro(schema).build_reader(avro(schema).type_of(ReadFields.of([["secret"]])))
    for attempt in (read, avro(schema).show):
        with pytest.raises(ValueError, match="is no Avro of schema 7"):
            attempt(whole)
    with pytest.raises(ValueError, match=r"byte|ends too soon"):
        avro(schema).edit(whole, {"secret": DROPPED})


def test_an_array_whose_items_have_no_bytes_takes_no_time() -> None:
    """Its count may be anything. It is passed, and dropped; expressions cannot see it."""
    empty = record(name="Empty")
    for items in ("null", {"type": "fixed", "name": "F", "size": 0}, empty):
        kind = {"type": "array", "items": items}
        schema = record({"name": "x", "type": kind, "default": []}, {"name": "y", "type": "int"})
        data = PREFIX + number_of(2**40) + b"\0\2"
        assert avro(schema).edit(data, {"y": result(2)}) == data[:-1] + b"\4"
        assert avro(schema).check_drop(["x"])
        assert avro(schema).edit(data, {"x": DROPPED}) == PREFIX + b"\0\2"
        assert seen(schema, data, "y") == {"y": 1}
        with pytest.raises(NotDecoded, match="nothing but how many"):
            avro(schema).type_of(ReadFields())
        with pytest.raises(NotDecoded, match="nothing but how many"):
            avro(schema).type_at(["x"])


NODE = record({"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}, name="Node")


def test_records_within_one_another_have_a_bound() -> None:
    """Whoever writes a record decides how deep it is; a stack has an end."""
    schema = record({"name": "node", "type": NODE}, {"name": "y", "type": "int"})
    for levels in (1, 200):
        data = PREFIX + b"\2\2" * levels + b"\2\0" + b"\6"
        assert seen(schema, data, "y") == {"y": 3}
        assert avro(schema).edit(data, {"y": result(4)}) == data[:-1] + b"\x08"
        assert '"y": 3' in avro(schema).show(data)
    for levels in (201, 1_000_000):
        data = PREFIX + b"\2\2" * levels + b"\2\0" + b"\6"
        read = avro(schema).build_reader(avro(schema).type_of(ReadFields.of([["y"]])))
        for attempt in (read, lambda data: avro(schema).edit(data, {"y": result(4)}), avro(schema).show):
            with pytest.raises(ValueError, match="nested too deeply"):
                attempt(data)


def test_a_record_that_never_ends_fails() -> None:
    """Its schema has no value at all."""
    schema = record({"name": "n", "type": "R"})
    with pytest.raises(ValueError, match="nested too deeply"):
        avro(schema).edit(PREFIX, {})


def test_a_result_as_a_whole_keeps_the_bytes_of_what_is_the_same() -> None:
    """As in `if(..., NULL, value)`: a field that is wider in a later version comes as a fraction."""
    schema = record(
        {"name": "n", "type": "int"},
        {"name": "f", "type": "float"},
        {"name": "a", "type": ARRAY},
        {"name": "m", "type": ["null", MAP]},
        {"name": "s", "type": "string"},
    )
    # The array in two blocks, the first one with its size; the key and the length of it written longer than needed.
    data = PREFIX + b"\x0a" + struct.pack("<f", 0.1) + b"\3\4\2\4\2\6\0" + b"\2\2\x82\0k\2v\0" + b"\2s"
    wide = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    same = {"n": 5.0, "f": wide, "a": [1, 2, 3], "m": {"k": "v"}, "s": "s", "new": None}
    assert avro(schema).edit(data, result(same)) == data
    changed = avro(schema).edit(data, result({**same, "n": 6.0, "s": "t"}))
    assert changed == PREFIX + b"\x0c" + data[6:-1] + b"t"
    assert decoded(schema, avro(schema).edit(data, result({**same, "a": [1.0, 2, 4]})))["a"] == [1, 2, 4]
    with pytest.raises(ValueError, match=r"0\.5 is no int"):
        avro(schema).edit(data, result({**same, "n": 0.5}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("id", "1e400"),
        ("id", "9223372036854775808"),
        ("id", "0.5"),
        ("id", '"5"'),
        ("id", "true"),
        ("count", "-2147483649"),
        ("share", "1e39"),
        ("share", '"wide"'),
        ("is_new", "1"),
        ("name", "5"),
        ("name", '"\\ud800"'),
        ("data", '"no base64!"'),
        ("data", "[]"),
        ("kind", "[]"),
        ("price", '"five"'),
        ("price", "0.001"),
        ("price", "1" * 30),
        ("tags", "{}"),
        ("tags", "5"),
        ("sizes", "[]"),
        ("address", "5"),
        ("address", "[]"),
        ("at", '"yesterday"'),
        ("day", "[]"),
    ],
)
def test_a_result_of_another_type_is_a_failure_of_its_record(name: str, text: str) -> None:
    """Whatever it is: nothing else is raised than what the record's policy is for."""
    value = {**order(random.Random(1)), "address": ("com.acme.Address", {"city": "a", "zip": None})}
    with pytest.raises(ValueError, match="does not fit"):
        edited(EVERYTHING, value, {name: f'{{"v":{text}}}'})


def test_all_names_of_a_field_lead_to_it() -> None:
    """Its name and its aliases in any schema, on each level, and whatever the capitals are."""
    older = avro(record({"name": "addr", "type": record({"name": "City", "type": "string"}, name="A")}))
    town = {"name": "town", "aliases": ["city"], "type": "int"}
    later = avro(record({"name": "address", "aliases": ["Addr"], "type": ["null", record(town, name="A")]}))
    ways = names_alike([older, later], ["ADDRESS", "Town"])
    assert list(map(sorted, ways)) == [["addr", "address"], ["city", "town"]]
    assert [names for names, _ in older.fields_like(ways)] == [("addr", "City")]
    assert [names for names, _ in later.fields_like(ways)] == [("address", "town")]
    assert names_alike([older], ["nowhere", "x"]) == (frozenset({"nowhere"}), frozenset({"x"}))
