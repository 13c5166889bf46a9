"""Values of Avro as fastavro writes and reads them, and what Isthmus sees of them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from isthmus.model.schemas.content import Schema
from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.avro import AvroSchema
from isthmus.spark.formats.types import ReadFields, to_arrow

PREFIX = b"\0\0\0\0\7"
"""A zero, and the id of all schemas here."""


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


def number_of(value: int) -> bytes:
    """A number as Avro has it."""
    return encoded("long", value)[len(PREFIX) :]


def result(value: object) -> str:
    """A result as Spark writes it."""
    return json.dumps({"v": value})


def seen(schema: object, data: bytes, *paths: str) -> Any:
    """What expressions see of a value, by way of Arrow."""
    found = avro(schema)
    wanted = ReadFields.of(each.split(".") for each in paths) if paths else ReadFields()
    shape = found.type_of(wanted)
    (row,) = pa.array([found.build_reader(shape)(data)], to_arrow(shape)).to_pylist()
    return row
