"""Avro of random schemas is decoded and edited as fastavro reads and writes it, and no bytes whatever do harm."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from isthmus.spark.formats.avro import AvroSchema
from isthmus.spark.formats.types import NotDecoded, ReadFields, to_arrow
from isthmus.spark.formats.values import DROPPED
from testing.records.avro import PREFIX, avro, decoded, encoded, result, seen


class Drawn(NamedTuple):
    """A type, and a value of it: as fastavro takes it, as Spark writes it, and its bytes."""

    schema: Any
    value: Any
    written: Any
    data: bytes


def plain_bytes(schema: object, value: object) -> bytes:
    return encoded(schema, value)[len(PREFIX) :]


def number(value: int) -> bytes:
    return plain_bytes("long", value)


PLAIN: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "boolean": (st.booleans(), bool),
    "int": (st.integers(-(2**31), 2**31 - 1), int),
    "long": (st.integers(-(2**63), 2**63 - 1), int),
    "float": (st.floats(width=32, allow_nan=False), lambda value: value if math.isfinite(value) else infinite(value)),
    "double": (st.floats(allow_nan=False), lambda value: value if math.isfinite(value) else infinite(value)),
    "string": (st.text(max_size=90), str),
    "bytes": (st.binary(max_size=90), lambda value: base64.b64encode(value).decode()),
}


def infinite(value: float) -> str:
    return "Infinity" if value > 0 else "-Infinity"


@st.composite
def types(draw: st.DrawFn, name: str = "T", depth: int = 2) -> Drawn:
    kinds = [*PLAIN, "enum", "fixed", "optional", *(["array", "map", "record"] if depth else [])]
    kind = draw(st.sampled_from(kinds))
    if kind in PLAIN:
        values, write = PLAIN[kind]
        value = draw(values)
        return Drawn(kind, value, write(value), plain_bytes(kind, value))
    if kind == "enum":
        symbols = [f"S{place}" for place in range(draw(st.integers(1, 70)))]
        schema: Any = {"type": "enum", "name": name, "symbols": symbols}
        value = draw(st.sampled_from(symbols))
        return Drawn(schema, value, value, plain_bytes(schema, value))
    if kind == "fixed":
        value = draw(st.binary(max_size=9))
        schema = {"type": "fixed", "name": name, "size": len(value)}
        return Drawn(schema, value, base64.b64encode(value).decode(), value)
    inner = draw(
        types(name=f"{name}I", depth=max(depth - 1, 0)).filter(lambda each: kind != "optional" or is_one(each))
    )
    if kind == "optional":
        place = draw(st.integers(0, 1))
        schema = [inner.schema, "null"] if place else ["null", inner.schema]
        if draw(st.booleans()):
            return Drawn(schema, None, None, number(place))
        return Drawn(schema, inner.value, inner.written, number(1 - place) + inner.data)
    if kind == "record":
        return draw(records(name=name, depth=depth - 1))
    count = draw(st.integers(0, 4))
    if kind == "array":
        # The same item again and again: what counts is how blocks are cut.
        schema = {"type": "array", "items": inner.schema}
        return Drawn(schema, [inner.value] * count, [inner.written] * count, draw(blocks(items=[inner.data] * count)))
    keys = [f"key {place}" for place in range(count)]
    items = [plain_bytes("string", key) + inner.data for key in keys]
    schema = {"type": "map", "values": inner.schema}
    return Drawn(
        schema, dict.fromkeys(keys, inner.value), dict.fromkeys(keys, inner.written), draw(blocks(items=items))
    )


def is_one(drawn: Drawn) -> bool:
    return not isinstance(drawn.schema, list)


@st.composite
def blocks(draw: st.DrawFn, items: list[bytes]) -> bytes:
    """An array's or a map's items in blocks, of which some say how many bytes they have."""
    out, rest = [], list(items)
    while rest:
        size = draw(st.integers(1, len(rest)))
        block, rest = b"".join(rest[:size]), rest[size:]
        out.append(number(size) + block if draw(st.booleans()) else number(-size) + number(len(block)) + block)
    return b"".join([*out, b"\0"])


@st.composite
def records(draw: st.DrawFn, name: str = "R", depth: int = 2) -> Drawn:
    return record_of(name, draw(members(name=name, depth=depth)))


@st.composite
def members(draw: st.DrawFn, name: str = "R", depth: int = 1, at_least: int = 1) -> list[Drawn]:
    """The fields of a record, whose types have names of their own."""
    count = draw(st.integers(at_least, 4))
    return [draw(types(name=f"{name}F{place}", depth=depth)) for place in range(count)]


def record_of(name: str, fields: list[Drawn]) -> Drawn:
    schema = {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{place}", "type": each.schema} for place, each in enumerate(fields)],
    }
    return Drawn(
        schema,
        {f"f{place}": each.value for place, each in enumerate(fields)},
        {f"f{place}": each.written for place, each in enumerate(fields)},
        b"".join(each.data for each in fields),
    )


def comparable(value: Any) -> Any:
    """Maps and records alike as sorted pairs."""
    if isinstance(value, dict):
        return sorted((name, comparable(each)) for name, each in value.items())
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return (value[0], comparable(value[1])) if isinstance(value, tuple) else value


@given(records())
def test_random_values_are_seen_as_fastavro_reads_them(drawn: Drawn) -> None:
    """However deep, and however their arrays are cut into blocks."""
    data = PREFIX + drawn.data
    try:
        found = seen(drawn.schema, data)
    except NotDecoded:
        # An array whose items have no bytes.
        return
    assert comparable(found) == comparable(unnamed(decoded(drawn.schema, data)))


def unnamed(value: Any) -> Any:
    """Without the names of types, by which fastavro says which branch a record was."""
    if isinstance(value, tuple):
        return unnamed(value[1])
    if isinstance(value, dict):
        return {name: unnamed(each) for name, each in value.items()}
    return [unnamed(each) for each in value] if isinstance(value, list) else value


@given(members(), st.data())
def test_one_field_changes_and_no_other_byte(fields: list[Drawn], data: st.DataObject) -> None:
    """What is set is what fastavro writes; all else is as it was, also if it was written in another way."""
    whole = record_of("R", fields)
    place = data.draw(st.integers(0, len(fields) - 1))
    chosen = fields[place]
    before = PREFIX + b"".join(each.data for each in fields[:place])
    after = b"".join(each.data for each in fields[place + 1 :])
    schema = avro(whole.schema)
    assert schema.edit(PREFIX + whole.data, {}) == PREFIX + whole.data
    try:
        schema.type_at([f"f{place}"])
    except NotDecoded:
        return
    # The same again keeps its bytes, and in place of another one it is as fastavro writes it.
    assert schema.edit(PREFIX + whole.data, {f"f{place}": result(chosen.written)}) == PREFIX + whole.data
    empty: dict[str, Any] = {"string": ("x" * 100, "x" * 100), "long": (-5, -5), "boolean": (True, True)}
    if isinstance(chosen.schema, str) and chosen.schema in empty and chosen.value != empty[chosen.schema][0]:
        value, written = empty[chosen.schema]
        got = schema.edit(PREFIX + whole.data, {f"f{place}": result(written)})
        assert got == before + plain_bytes(chosen.schema, value) + after


@given(members(name="B", at_least=0), members(name="A", at_least=0), types(name="S", depth=1), st.data())
def test_bytes_that_were_damaged_never_reveal_what_is_dropped(
    before: list[Drawn], after: list[Drawn], secret: Drawn, data: st.DataObject
) -> None:
    """They fail, or they are what fastavro reads of them, without the value that is dropped."""
    if is_one(secret):
        secret = Drawn([secret.schema, "null"], secret.value, secret.written, number(0) + secret.data)
    fields = [*before, secret, *after]
    whole, name = record_of("R", fields), f"f{len(before)}"
    damaged = PREFIX + damage(whole.data, data)
    schema = avro(whole.schema)
    for attempt in (read_all, AvroSchema.show):
        with contextlib.suppress(ValueError, NotDecoded):
            attempt(schema, damaged)
    try:
        got = schema.edit(damaged, {name: DROPPED})
    except ValueError:
        return
    wanted, found = lenient(whole.schema, damaged), lenient(whole.schema, got)
    assert found.pop(name) is None
    del wanted[name]
    assert repr(found) == repr(wanted)


def read_all(schema: AvroSchema, data: bytes) -> None:
    shape = schema.type_of(ReadFields())
    pa.array([schema.build_reader(shape)(data)], to_arrow(shape))


def lenient(schema: object, data: bytes | None) -> Any:
    """As fastavro reads it; texts that nobody looks at may be none."""
    assert data is not None
    return fastavro.schemaless_reader(
        io.BytesIO(data[5:]),
        fastavro.parse_schema(json.loads(json.dumps(schema))),
        None,
        handle_unicode_errors="replace",
        return_named_type=True,
    )


EXTREMES = [number(each) for each in (-1, -2, -3, 2**31, 2**40, -(2**40), 2**63 - 1, -(2**63))] + [b"\xff" * 11, b""]


def damage(data: bytes, source: st.DataObject) -> bytes:
    """Some places of bytes replaced by others."""
    for _ in range(source.draw(st.integers(1, 3))):
        at = source.draw(st.integers(0, len(data)))
        size = source.draw(st.integers(0, 3))
        put = source.draw(st.one_of(st.sampled_from(EXTREMES), st.binary(max_size=3)))
        data = data[:at] + put + data[at + size :]
    return data


def test_floats_keep_their_bytes() -> None:
    """NaN has many forms, and minus zero is another number."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "float"}, {"name": "b", "type": "double"}],
    }
    data = PREFIX + bytes.fromhex("010080ff") + struct.pack("<d", 0.0)
    assert avro(schema).edit(data, result({"a": "NaN", "b": 0.0})) == data
    assert avro(schema).edit(data, {"b": '{"v":-0.0}'}) == data[:-8] + struct.pack("<d", -0.0)
