"""Avro behind the id of its schema: decoded for expressions, and edited in place.

Values are read as the numbers and bytes that logical types stand on, so that nothing is rounded. An edited record
keeps all bytes but those of the fields that are set or dropped: which branch of a union a value was in, or how an array
was cut into blocks, is never guessed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.avronodes import NO_DEFAULT, AvroField, AvroNode, parse_avro
from isthmus.spark.formats.avroreading import LEVELS_MAX, AvroReads, AvroSkips, ReadAvro
from isthmus.spark.formats.avrowriting import AvroWriter, encode_dropped
from isthmus.spark.formats.types import (
    ELEMENT,
    NOTHING,
    FieldType,
    NotDecoded,
    ReadFields,
    struct_of,
)
from isthmus.spark.formats.values import PREFIX_BYTES, Edits, result_of

_TYPES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    "enum": "STRING",
    "fixed": "BINARY",
}
_LOGICAL: Final = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}
_DIGITS_MAX: Final = 38
"""Those of a DECIMAL of Spark."""
_FIELDS_MAX: Final = 5_000
"""How many fields are read at most: types that are named twice in one another would never end."""


class AvroSchema:
    """One schema, by which records were written."""

    def __init__(self, written: WriterSchema) -> None:
        """:raises NotDecoded: It cannot be read."""
        self.id = written.id
        try:
            self._root = parse_avro(written.schema.text, (each.text for _, each in written.referenced))
        except NotDecoded as error:
            raise NotDecoded(f"schema {written.id} is no Avro that can be read: {error}") from error
        self._skips = AvroSkips()
        self._writer = AvroWriter(self._root, self._skips)

    # Types

    def type_of(self, wanted: ReadFields) -> FieldType:
        """Return the type of what is read.

        :raises NotDecoded: Expressions cannot see a field of it.
        """
        return _Typing().find(self._root, wanted)

    def type_at(self, names: Sequence[str]) -> FieldType | None:
        """Return the type of a field that is set, `None` if this schema does not have it.

        :raises NotDecoded: It has no type that can be set.
        """
        found = self._find(names)
        return None if found is None else _Typing().find(found.node, ReadFields())

    def check_drop(self, names: Sequence[str]) -> bool:
        """Return whether this schema has a field that is dropped.

        :raises NotDecoded: It cannot be left out: it has no default, and may not be null.
        """
        found = self._find(names)
        if found is not None:
            encode_dropped(found)
        return found is not None

    def _find(self, names: Sequence[str]) -> AvroField | None:
        found: AvroField | None = AvroField("", self._root, NO_DEFAULT)
        for name in names:
            if found is None:
                return None
            node = found.node
            if node.kind == "union":
                node = node.below[node.only_branch]
            if node.kind != "record":
                raise NotDecoded(f"fields of a record can be set and dropped, and it is {node.kind}")
            found = next((each for each in node.fields if each.name == name), None)
        return found

    def fields_like(self, ways: Sequence[frozenset[str]]) -> list[tuple[tuple[str, ...], frozenset[str]]]:
        """Return the fields that one of these names leads to on each level, by their paths, each with its own names."""
        found: list[tuple[tuple[str, ...], AvroNode, frozenset[str]]] = [((), self._root, frozenset())]
        for names in ways:
            found = [
                ((*path, each.name), each.node, each.labels)
                for path, node, _ in found
                for each in node.fields_below()
                if not names.isdisjoint(each.labels)
            ]
        return [(path, labels) for path, _, labels in found]

    # Values

    def build_reader(self, shape: FieldType) -> Callable[[bytes], Any]:
        """Return what decodes a value into one of Arrow's for a type, that of this schema or a wider one. It raises
        ValueError for bytes that are no such value.
        """
        return self._build_whole(AvroReads(self._skips).build(self._root, shape))

    def _build_whole(self, read: ReadAvro) -> Callable[[bytes], Any]:
        def read_whole(data: bytes) -> Any:
            try:
                value, end = read(data, PREFIX_BYTES, LEVELS_MAX)
            except (IndexError, struct.error) as error:
                raise ValueError(f"it is no Avro of schema {self.id}: it ends too soon") from error
            except RecursionError as error:
                raise ValueError(f"it is no Avro of schema {self.id}: it is nested too deeply") from error
            except ValueError as error:
                raise ValueError(f"it is no Avro of schema {self.id}: {error}") from error
            self._require_end(data, end)
            return value

        return read_whole

    def _require_end(self, data: bytes, end: int) -> None:
        if end > len(data):
            raise ValueError(f"it is no Avro of schema {self.id}: it ends too soon")
        if end < len(data):
            raise ValueError(f"it is no Avro of schema {self.id}: {len(data) - end} bytes follow")

    def show(self, data: bytes) -> str:
        """Return a value for people to read.

        :raises ValueError: It is no such value, or none that Python can have.
        """
        read = self._build_whole(AvroReads(self._skips, for_people=True).build(self._root, None))
        return json.dumps(read(data), ensure_ascii=False, default=str)

    def edit(self, data: bytes, edits: Edits) -> bytes | None:
        """Return a value with these fields set and dropped, as far as it has them; `None` if all of it is to be NULL.

        :raises ValueError: A result cannot be a value of its field, or the bytes are no value of this schema.
        """
        result = result_of(edits) if isinstance(edits, str) else None
        if isinstance(edits, str) and result is None:
            return None
        out = [data[:PREFIX_BYTES]]
        fields = None if isinstance(edits, str) else edits
        try:
            end = self._writer.edit(data, PREFIX_BYTES, fields, result, out)
        except (IndexError, struct.error) as error:
            raise ValueError(f"it is no Avro of schema {self.id}: it ends too soon") from error
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        self._require_end(data, end)
        return b"".join(out)


class _Typing:
    """Finds the type of what is read of a type of a schema."""

    def __init__(self) -> None:
        self._left = _FIELDS_MAX

    def find(self, node: AvroNode, wanted: ReadFields, way: tuple[AvroNode, ...] = ()) -> FieldType:
        """:raises NotDecoded: Expressions cannot see a field of it."""
        if node.kind == "union":
            return self.find(node.below[node.only_branch], wanted, way)
        if node.kind in ("array", "map"):
            return self._find_items(node, wanted, way)
        if node.kind == "record":
            if wanted.is_all and node in way:
                raise NotDecoded(f"{node.name} contains itself: name the fields that are read")
            return self._find_fields(node, wanted, (*way, node))
        if node.is_decimal:
            if node.precision > _DIGITS_MAX:
                raise NotDecoded(f"a decimal of {node.precision} digits, and Spark's have {_DIGITS_MAX}")
            return FieldType("DECIMAL", precision=node.precision, scale=node.scale)
        if node.kind == "null":
            raise NotDecoded("it is always null")
        return FieldType(_LOGICAL.get((node.kind, node.logical), _TYPES[node.kind]))

    def _find_items(self, node: AvroNode, wanted: ReadFields, way: tuple[AvroNode, ...]) -> FieldType:
        item = node.below[0]
        if node.kind == "array" and item.bytes_always == 0:
            raise NotDecoded(f"it is an array of {item.name or item.kind}, which says nothing but how many there are")
        # What is read of a map is one of its values, by a key.
        inner = self.find(item, wanted if node.kind == "array" else ReadFields(), way)
        return FieldType(node.kind.upper(), ((ELEMENT, inner),))

    def _find_fields(self, node: AvroNode, wanted: ReadFields, way: tuple[AvroNode, ...]) -> FieldType:
        members: list[tuple[str, FieldType]] = []
        for each in node.fields:
            below = wanted.get(each.name)
            if below is None:
                continue
            self._left -= 1
            if self._left < 0:
                raise NotDecoded(f"it has more than {_FIELDS_MAX} fields: name those that are read")
            try:
                members.append((each.name, self.find(each.node, below, way)))
            except NotDecoded as error:
                raise NotDecoded(f"{each.name}: {error}") from error
        return struct_of(members or [(NOTHING, FieldType("BOOLEAN"))])
