"""Avro behind the id of its schema: decoded for expressions, and edited in place.

Values are decoded by fastavro, as the numbers and bytes that logical types stand on, so that nothing is rounded. An
edited record keeps all bytes but those of the fields that are set or dropped: which branch of a union a value was in,
or how an array was cut into blocks, is never guessed.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple

from isthmus.errors import HostError
from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.types import (
    ARRAY,
    ELEMENT,
    MAP,
    NOTHING,
    FieldType,
    NotDecoded,
    ReadFields,
    struct_of,
)
from isthmus.spark.formats.values import (
    DROPPED,
    PREFIX_BYTES,
    Edits,
    date_of,
    days_of,
    decimal_of,
    micros_of,
    result_of,
    time_of,
    unscaled_of,
)

_PLAIN: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_FIXED_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
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
_MILLI: Final = 1000
_BITS: Final = {"int": 32, "long": 64}


class _NoDefault:
    """A field has no default; null is one."""


_NO_DEFAULT: Final = _NoDefault()


class _Field(NamedTuple):
    name: str
    node: _Node
    default: Any


@dataclass(slots=True, eq=False)
class _Node:
    """A type of a schema: `below` are the branches of a union, the items of an array or the values of a map."""

    kind: str
    name: str = ""
    logical: str = ""
    fields: list[_Field] = field(default_factory=list)
    below: list[_Node] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    size: int = 0
    precision: int = 0
    scale: int = 0

    @property
    def is_decimal(self) -> bool:
        return self.logical == "decimal" and self.kind in ("bytes", "fixed") and 0 <= self.scale <= self.precision > 0

    @property
    def null_branch(self) -> int | None:
        """The place of null in a union."""
        return next((place for place, each in enumerate(self.below) if each.kind == "null"), None)

    @property
    def only_branch(self) -> int:
        """The place of the branch beside null.

        :raises NotDecoded: There are several.
        """
        others = [place for place, each in enumerate(self.below) if each.kind != "null"]
        if len(others) != 1:
            raise NotDecoded(f"it is a union of {', '.join(each.name or each.kind for each in self.below)}")
        return others[0]


class AvroSchema:
    """One schema, by which records were written."""

    def __init__(self, written: WriterSchema) -> None:
        """:raises NotDecoded: It cannot be read.
        :raises HostError: fastavro is not installed.
        """
        try:
            import fastavro
        except ImportError as error:
            raise HostError(
                "decoding Avro needs fastavro, which is not installed here",
                hint="Install the extra wherever tasks run: pip install 'isthmus[avro]'.",
            ) from error
        self.id = written.id
        self._fastavro = fastavro
        try:
            names: dict[str, _Node] = {}
            for _, each in written.referenced:
                _build(json.loads(each.text), "", names)
            self._root = _build(json.loads(written.schema.text), "", names)
            self._parsed = fastavro.parse_schema(_plain(self._root, set()))
        except Exception as error:
            raise NotDecoded(f"schema {written.id} is no Avro that can be read: {error}") from error

    # Types

    def type_of(self, wanted: ReadFields) -> FieldType:
        """Return the type of what is read.

        :raises NotDecoded: Expressions cannot see a field of it.
        """
        return _type_of(self._root, wanted, ())

    def type_at(self, names: Sequence[str]) -> FieldType | None:
        """Return the type of a field that is set, `None` if this schema does not have it.

        :raises NotDecoded: It has no type that can be set.
        """
        found = self._find(names)
        return None if found is None else _type_of(found.node, ReadFields(), ())

    def check_drop(self, names: Sequence[str]) -> bool:
        """Return whether this schema has a field that is dropped.

        :raises NotDecoded: It cannot be left out: it has no default, and may not be null.
        """
        found = self._find(names)
        if found is not None:
            _encode_dropped(found)
        return found is not None

    def _find(self, names: Sequence[str]) -> _Field | None:
        found: _Field | None = _Field("", self._root, _NO_DEFAULT)
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

    # Values

    def build_reader(self, shape: FieldType) -> Callable[[bytes], Any]:
        """Return what decodes a value into one of Arrow's for a type, that of this schema or a wider one. It raises
        ValueError for bytes that are no such value.
        """
        convert = _converter(self._root, shape)

        def read(data: bytes) -> Any:
            stream = io.BytesIO(data)
            stream.seek(PREFIX_BYTES)
            try:
                value = self._fastavro.schemaless_reader(stream, self._parsed, None)
            except Exception as error:
                raise ValueError(f"it is no Avro of schema {self.id}: {type(error).__name__}: {error}") from error
            if stream.tell() != len(data):
                raise ValueError(f"it is no Avro of schema {self.id}: {len(data) - stream.tell()} bytes follow")
            return convert(value)

        return read

    def show(self, data: bytes) -> str:
        """Return a value for people to read.

        :raises Exception: It is no such value, or none that Python can have.
        """
        schema = self._fastavro.parse_schema(_plain(self._root, set(), with_logical=True))
        value = self._fastavro.schemaless_reader(io.BytesIO(data[PREFIX_BYTES:]), schema, None)
        return json.dumps(value, ensure_ascii=False, default=str)

    def edit(self, data: bytes, edits: Edits) -> bytes | None:
        """Return a value with these fields set and dropped, as far as it has them; `None` if all of it is to be NULL.

        :raises ValueError: A result cannot be a value of its field.
        """
        if isinstance(edits, str):
            result = result_of(edits)
            return None if result is None else data[:PREFIX_BYTES] + _encode(self._root, result)
        out = [data[:PREFIX_BYTES]]
        end = _rewrite(self._root, data, PREFIX_BYTES, edits, out)
        return b"".join([*out, data[end:]])


# Schemas


def _build(given: Any, namespace: str, names: dict[str, _Node]) -> _Node:
    """Build the nodes of a schema; `names` are the types that have names so far."""
    if isinstance(given, list):
        return _Node("union", below=[_build(each, namespace, names) for each in given])
    if isinstance(given, str):
        return _Node(given) if given in _PLAIN else names[_full_name(given, namespace, names)]
    kind = given["type"]
    if not isinstance(kind, str) or kind not in {*_PLAIN, "array", "map", "record", "error", "enum", "fixed"}:
        return _build(kind, namespace, names)
    node = _Node(
        "record" if kind == "error" else kind,
        logical=given.get("logicalType", ""),
        precision=given.get("precision", 0),
        scale=given.get("scale", 0),
    )
    if kind in ("array", "map"):
        node.below.append(_build(given["items" if kind == "array" else "values"], namespace, names))
    elif kind not in _PLAIN:
        _build_named(given, node, namespace, names)
    return node


def _build_named(given: Any, node: _Node, namespace: str, names: dict[str, _Node]) -> None:
    name, inner = given["name"], given.get("namespace", namespace)
    node.name = name if "." in name or not inner else f"{inner}.{name}"
    # Before its fields: they may name it.
    names[node.name] = node
    node.symbols, node.size = given.get("symbols", []), given.get("size", 0)
    within = node.name.rpartition(".")[0]
    for each in given.get("fields", ()):
        node.fields.append(_Field(each["name"], _build(each["type"], within, names), each.get("default", _NO_DEFAULT)))


def _full_name(name: str, namespace: str, names: Mapping[str, _Node]) -> str:
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    return full if full in names else name


def _plain(node: _Node, seen: set[str], *, with_logical: bool = False) -> Any:
    """Return a schema for fastavro, without logical types: it would make other values of them, and round some."""
    if node.name in seen:
        return node.name
    if node.name:
        seen.add(node.name)
    below = [_plain(each, seen, with_logical=with_logical) for each in node.below]
    match node.kind:
        case "union":
            return below
        case "array":
            return {"type": "array", "items": below[0]}
        case "map":
            return {"type": "map", "values": below[0]}
        case "enum":
            return {"type": "enum", "name": node.name, "symbols": node.symbols}
        case "fixed":
            return {"type": "fixed", "name": node.name, "size": node.size}
        case "record":
            types = [_plain(each.node, seen, with_logical=with_logical) for each in node.fields]
            fields = [{"name": each.name, "type": kind} for each, kind in zip(node.fields, types, strict=True)]
            return {"type": "record", "name": node.name, "fields": fields}
    if with_logical and node.logical:
        digits = {"precision": node.precision, "scale": node.scale}
        return {"type": node.kind, "logicalType": node.logical, **digits}
    return node.kind


def _type_of(node: _Node, wanted: ReadFields, way: tuple[_Node, ...]) -> FieldType:
    if node.kind == "union":
        return _type_of(node.below[node.only_branch], wanted, way)
    if node.kind in (ARRAY.lower(), MAP.lower()):
        # What is read of a map is one of its values, by a key.
        inner = _type_of(node.below[0], wanted if node.kind == "array" else ReadFields(), way)
        return FieldType(node.kind.upper(), ((ELEMENT, inner),))
    if node.kind == "record":
        if wanted.is_all and node in way:
            raise NotDecoded(f"{node.name} contains itself: name the fields that are read")
        return _struct_of(node, wanted, (*way, node))
    if node.is_decimal:
        if node.precision > _DIGITS_MAX:
            raise NotDecoded(f"a decimal of {node.precision} digits, and Spark's have {_DIGITS_MAX}")
        return FieldType("DECIMAL", precision=node.precision, scale=node.scale)
    if node.kind == "null":
        raise NotDecoded("it is always null")
    return FieldType(_LOGICAL.get((node.kind, node.logical), _TYPES[node.kind]))


def _struct_of(node: _Node, wanted: ReadFields, way: tuple[_Node, ...]) -> FieldType:
    members: list[tuple[str, FieldType]] = []
    for each in node.fields:
        below = wanted.get(each.name)
        if below is not None:
            try:
                members.append((each.name, _type_of(each.node, below, way)))
            except NotDecoded as error:
                raise NotDecoded(f"{each.name}: {error}") from error
    return struct_of(members or [(NOTHING, FieldType("BOOLEAN"))])


# Decoded values


def _same(value: Any) -> Any:
    return value


def _converter(node: _Node, shape: FieldType) -> Callable[[Any], Any]:
    """Return what makes a value of Arrow from one of fastavro's."""
    if node.kind == "union":
        inner = _converter(node.below[node.only_branch], shape)
        return lambda value: None if value is None else inner(value)
    if node.kind == "record":
        known = {each.name: each.node for each in node.fields}
        members = [(name, _converter(known[name], each)) for name, each in shape.members if name in known]
        return lambda value: {name: convert(value[name]) for name, convert in members}
    if node.kind == "array":
        inner = _converter(node.below[0], shape.element)
        return lambda value: [inner(each) for each in value]
    if node.kind == "map":
        inner = _converter(node.below[0], shape.element)
        return lambda value: [(name, inner(each)) for name, each in value.items()]
    if node.is_decimal:
        return lambda value: decimal_of(int.from_bytes(value, signed=True), node.precision, node.scale)
    if shape.name == "DATE":
        return date_of
    if shape.name.startswith("TIMESTAMP"):
        factor = _MILLI if node.logical.endswith("-millis") else 1
        return lambda value: time_of(value * factor)
    return _same


# Bytes


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
        shift += 7


def _write_long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _skip(node: _Node, data: bytes, at: int) -> int:
    """Return where a value ends that begins at `at`."""
    kind = node.kind
    if kind in _FIXED_SIZES:
        return at + _FIXED_SIZES[kind]
    if kind == "fixed":
        return at + node.size
    if kind == "record":
        for each in node.fields:
            at = _skip(each.node, data, at)
        return at
    if kind in ("array", "map"):
        return _skip_blocks(node, data, at)
    number, at = _read_long(data, at)
    if kind == "union":
        return _skip(node.below[number], data, at)
    return at + number if kind in ("bytes", "string") else at


def _skip_blocks(node: _Node, data: bytes, at: int) -> int:
    while True:
        count, at = _read_long(data, at)
        if count == 0:
            return at
        if count < 0:
            # The size of the block in bytes follows.
            size, at = _read_long(data, at)
            at += size
            continue
        for _ in range(count):
            if node.kind == "map":
                size, at = _read_long(data, at)
                at += size
            at = _skip(node.below[0], data, at)


def _rewrite(node: _Node, data: bytes, at: int, edits: Mapping[str, Any], out: list[bytes]) -> int:
    """Append a value to `out` with edited fields; return where it ends in `data`."""
    if node.kind == "union":
        number, end = _read_long(data, at)
        out.append(data[at:end])
        return _rewrite(node.below[number], data, end, edits, out)
    if node.kind != "record":
        # What is null has no fields; nor have other branches of a union.
        end = _skip(node, data, at)
        out.append(data[at:end])
        return end
    for each in node.fields:
        wanted = edits.get(each.name)
        if isinstance(wanted, Mapping):
            at = _rewrite(each.node, data, at, wanted, out)
            continue
        end = _skip(each.node, data, at)
        if wanted is None:
            out.append(data[at:end])
        else:
            out.append(_encode_dropped(each) if wanted is DROPPED else _encode_field(each, wanted))
        at = end
    return at


def _encode_dropped(dropped: _Field) -> bytes:
    """Return the default of a field, or null.

    :raises NotDecoded: It has neither.
    """
    if dropped.default is not _NO_DEFAULT:
        return _encode(dropped.node, dropped.default, is_default=True)
    if dropped.node.null_branch is not None:
        return _write_long(dropped.node.null_branch)
    raise NotDecoded("it has no default, and may not be null: the schema stays, so it needs a value (set it instead)")


def _encode_field(each: _Field, result: str) -> bytes:
    try:
        return _encode(each.node, result_of(result))
    except (ValueError, OverflowError, struct.error, NotDecoded) as error:
        raise ValueError(f"the result for field {each.name} does not fit its schema: {error}") from error


def _encode(node: _Node, value: Any, *, is_default: bool = False) -> bytes:
    """Encode a value as Spark writes it as JSON, or as a schema has it as a default.

    :raises ValueError: It is no value of this type.
    """
    if node.kind == "union":
        return _encode_branch(node, value, is_default=is_default)
    if value is None:
        if node.kind == "null":
            return b""
        raise ValueError("it is NULL, and may not be null")
    match node.kind:
        case "record":
            given = [value.get(each.name, each.default if is_default else None) for each in node.fields]
            return b"".join(
                _encode(each.node, held, is_default=is_default) for each, held in zip(node.fields, given, strict=True)
            )
        case "array" | "map":
            return _encode_blocks(node, value, is_default=is_default)
    return _encode_scalar(node, value, is_default=is_default)


def _encode_branch(node: _Node, value: Any, *, is_default: bool) -> bytes:
    if value is None and node.null_branch is not None:
        return _write_long(node.null_branch)
    # Which branch a default is one of is written nowhere: of old it is the first.
    place = next(iter(_non_null(node))) if is_default else node.only_branch
    return _write_long(place) + _encode(node.below[place], value, is_default=is_default)


def _non_null(node: _Node) -> list[int]:
    return [place for place, each in enumerate(node.below) if each.kind != "null"]


def _encode_blocks(node: _Node, value: Any, *, is_default: bool) -> bytes:
    if not value:
        return b"\0"
    (inner,) = node.below
    if node.kind == "array":
        items = [_encode(inner, each, is_default=is_default) for each in value]
    else:
        items = [_encode_text(name) + _encode(inner, each, is_default=is_default) for name, each in value.items()]
    return b"".join([_write_long(len(items)), *items, b"\0"])


def _encode_text(text: str) -> bytes:
    data = text.encode()
    return _write_long(len(data)) + data


def _encode_scalar(node: _Node, value: Any, *, is_default: bool) -> bytes:
    match node.kind:
        case "boolean":
            return b"\1" if value else b"\0"
        case "int" | "long":
            return _encode_number(node, _number_of(node, value))
        case "float" | "double":
            return struct.pack("<f" if node.kind == "float" else "<d", float(value))
        case "string":
            return _encode_text(value)
        case "enum":
            if value not in node.symbols:
                raise ValueError(f"{value} is none of {', '.join(node.symbols)}")
            return _write_long(node.symbols.index(value))
    return _encode_bytes(node, value.encode("latin-1") if is_default else _bytes_of(node, value))


def _encode_number(node: _Node, number: int) -> bytes:
    limit = 1 << _BITS[node.kind] - 1
    if not -limit <= number < limit:
        raise ValueError(f"{number} is no {node.kind}")
    return _write_long(number)


def _encode_bytes(node: _Node, data: bytes) -> bytes:
    if node.kind == "bytes":
        return _write_long(len(data)) + data
    if len(data) != node.size:
        raise ValueError(f"it has {len(data)} bytes, and {node.name} has {node.size}")
    return data


def _number_of(node: _Node, value: Any) -> int:
    """Return the number of a day or of a time that Spark has written; defaults are numbers already."""
    if isinstance(value, int):
        return value
    if node.logical == "date":
        return days_of(value)
    return micros_of(value) // (_MILLI if node.logical.endswith("-millis") else 1)


def _bytes_of(node: _Node, value: Any) -> bytes:
    if node.is_decimal:
        number = unscaled_of(Decimal(value), node.scale)
        size = node.size if node.kind == "fixed" else number.bit_length() // 8 + 1
        return number.to_bytes(size, signed=True)
    return base64.b64decode(value)
