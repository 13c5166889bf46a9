"""Avro values made of results of expressions, and of the defaults of a schema. Pure.

Where a result is what was there, its bytes stay: other encoders cut arrays into blocks, and NaN has many forms.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from isthmus.spark.formats.avronodes import NO_DEFAULT, AvroField, AvroNode
from isthmus.spark.formats.avroreading import LEVELS_MAX, AvroSkips, factor_of, is_time, read_choice, read_number
from isthmus.spark.formats.types import NotDecoded
from isthmus.spark.formats.values import DROPPED, days_of, decimal_of, micros_of, result_of, unscaled_of

_BITS: Final = {"int": 32, "long": 64}
_FRACTIONS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NO_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""As Spark writes them."""
_DEFAULTS_MAX: Final = 10_000
_SHOWN: Final = 60


class AvroWriter:
    """Writes the values of one schema."""

    def __init__(self, root: AvroNode, skips: AvroSkips) -> None:
        self._root = root
        self._skips = skips

    def edit(self, data: bytes, at: int, edits: Mapping[str, Any] | None, result: Any, out: list[bytes]) -> int:
        """Append to `out` what the value at a place becomes: one with edited fields, or a result as a whole if there
        are no `edits`; return where it ends in `data`.

        :raises ValueError: A result cannot be a value of its field, or the bytes are no such value.
        """
        if edits is None:
            return self._replace(self._root, result, data, at, out)
        return self._rewrite(self._root, edits, data, at, out)

    def _skip(self, node: AvroNode, data: bytes, at: int) -> int:
        end = self._skips.find(node)(data, at, LEVELS_MAX)
        if end > len(data):
            raise IndexError(f"a value ends at byte {end}, and there are {len(data)}")
        return end

    def _rewrite(self, node: AvroNode, edits: Mapping[str, Any], data: bytes, at: int, out: list[bytes]) -> int:
        if node.kind == "union":
            place, end = read_choice(data, at, len(node.below))
            out.append(data[at:end])
            return self._rewrite(node.below[place], edits, data, end, out)
        if node.kind != "record":
            # What is null has no fields; nor have other branches of a union.
            end = self._skip(node, data, at)
            out.append(data[at:end])
            return end
        kept = at
        for each in node.fields:
            wanted = edits.get(each.name)
            if wanted is None:
                at = self._skip(each.node, data, at)
                continue
            out.append(data[kept:at])
            if isinstance(wanted, Mapping):
                at = self._rewrite(each.node, wanted, data, at, out)
            elif wanted is DROPPED:
                at = self._skip(each.node, data, at)
                out.append(encode_dropped(each))
            else:
                at = self._replace_field(each, wanted, data, at, out)
            kept = at
        out.append(data[kept:at])
        return at

    def _replace_field(self, each: AvroField, text: str, data: bytes, at: int, out: list[bytes]) -> int:
        try:
            return self._replace(each.node, result_of(text), data, at, out)
        except (ValueError, NotDecoded) as error:
            raise ValueError(f"the result for field {each.name} does not fit its schema: {error}") from error

    def _replace(self, node: AvroNode, result: Any, data: bytes, at: int, out: list[bytes]) -> int:
        """Append a result in place of a value, with the bytes of the parts of it that it has as well."""
        if node.kind == "union":
            place, end = read_choice(data, at, len(node.below))
            if result is not None and place == node.only_branch:
                out.append(data[at:end])
                return self._replace(node.below[place], result, data, end, out)
        if node.kind == "record" and isinstance(result, Mapping):
            for each in node.fields:
                at = self._replace(each.node, result.get(each.name), data, at, out)
            return at
        end = self._skip(node, data, at)
        new = encode_result(node, result)
        held: list[bytes] = []
        _normalize(node, data, at, held)
        out.append(data[at:end] if b"".join(held) == new else new)
        return end


def encode_dropped(dropped: AvroField) -> bytes:
    """Return the default of a field, or null.

    :raises NotDecoded: It has neither.
    """
    if dropped.default is not NO_DEFAULT:
        try:
            return _encode(dropped.node, dropped.default, _Budget())
        except (ValueError, NotDecoded) as error:
            raise NotDecoded(f"its default in the schema is no value of its type: {error}") from error
        except RecursionError as error:
            raise NotDecoded("its default in the schema has no end") from error
    if dropped.node.null_branch is not None:
        return _write_long(dropped.node.null_branch)
    raise NotDecoded("it has no default, and may not be null: the schema stays, so it needs a value (set it instead)")


def encode_result(node: AvroNode, result: Any) -> bytes:
    """Encode a result as Spark writes it as JSON.

    :raises ValueError: It is no value of this type.
    """
    return _encode(node, result)


class _Budget:
    """Counts the values of a default: records within it may have defaults again, without an end."""

    def __init__(self) -> None:
        self._left = _DEFAULTS_MAX

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise NotDecoded(f"it has more than {_DEFAULTS_MAX} values")


def _encode(node: AvroNode, value: Any, budget: _Budget | None = None) -> bytes:
    """Encode a result, or a default if there is a `budget`."""
    if budget is not None:
        budget.take()
    if node.kind == "union":
        return _encode_branch(node, value, budget)
    if node.kind == "null" and value is None:
        return b""
    if value is None:
        raise ValueError("it is NULL, and may not be null")
    match node.kind:
        case "record":
            return _encode_record(node, value, budget)
        case "array" | "map":
            return _encode_block(node, value, budget)
    return _encode_scalar(node, value, budget)


def _encode_branch(node: AvroNode, value: Any, budget: _Budget | None) -> bytes:
    if value is None and node.null_branch is not None:
        return _write_long(node.null_branch)
    if budget is None:
        return _write_long(node.only_branch) + _encode(node.below[node.only_branch], value)
    # Which branch a default is one of is written nowhere.
    for place, each in enumerate(node.below):
        try:
            return _write_long(place) + _encode(each, value, budget)
        except ValueError:
            continue
    raise ValueError(f"{_shorten(value)} is of none of its types")


def _encode_record(node: AvroNode, value: Any, budget: _Budget | None) -> bytes:
    held = _require(value, Mapping, node)
    out = []
    for each in node.fields:
        given = held.get(each.name, None if budget is None else each.default)
        if given is NO_DEFAULT:
            raise ValueError(f"{each.name} has no value")
        out.append(_encode(each.node, given, budget))
    return b"".join(out)


def _encode_block(node: AvroNode, value: Any, budget: _Budget | None) -> bytes:
    (inner,) = node.below
    if node.kind == "array":
        items = [_encode(inner, each, budget) for each in _require(value, list, node)]
    else:
        pairs = _require(value, Mapping, node).items()
        items = [_encode_text(name) + _encode(inner, each, budget) for name, each in pairs]
    return _write_block(items)


def _write_block(items: list[bytes]) -> bytes:
    return b"".join([_write_long(len(items)), *items, b"\0"]) if items else b"\0"


def _encode_text(text: str) -> bytes:
    data = text.encode()
    return _write_long(len(data)) + data


def _encode_scalar(node: AvroNode, value: Any, budget: _Budget | None) -> bytes:
    match node.kind:
        case "boolean":
            return b"\1" if _require(value, bool, node) else b"\0"
        case "int" | "long":
            return _encode_number(node, value)
        case "float" | "double":
            return _encode_fraction(node, value)
        case "string":
            return _encode_text(_require(value, str, node))
        case "enum":
            if value not in node.symbols:
                raise ValueError(f"{_shorten(value)} is none of {', '.join(node.symbols)}")
            return _write_long(node.symbols.index(value))
        case "bytes" | "fixed":
            if budget is not None:
                return _encode_bytes(node, _require(value, str, node).encode("latin-1"))
            return _encode_bytes(node, _bytes_of(node, value))
    raise ValueError(f"{_shorten(value)} is not null")


def _require(value: Any, kind: type | tuple[type, ...], node: AvroNode) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{_shorten(value)} is no {node.name or node.kind}")
    return value


def _encode_number(node: AvroNode, value: Any) -> bytes:
    """Encode a number, or a day or a time as Spark writes it; defaults are numbers already."""
    if isinstance(value, str) and node.kind == "int" and node.logical == "date":
        value = days_of(value)
    elif isinstance(value, str) and is_time(node):
        value = micros_of(value) // factor_of(node)
    limit = 1 << _BITS[node.kind] - 1
    # A field that is wider in another version of the schema comes as a fraction.
    given = _require(value, (int, float, Decimal), node)
    if not -limit <= given < limit or given != int(given):
        raise ValueError(f"{_shorten(value)} is no {node.kind}")
    return _write_long(int(given))


def _encode_fraction(node: AvroNode, value: Any) -> bytes:
    number = _NO_NUMBERS.get(value) if isinstance(value, str) else _require(value, (int, float, Decimal), node)
    if number is None:
        raise ValueError(f"{_shorten(value)} is no {node.kind}")
    try:
        return _FRACTIONS[node.kind].pack(float(number))
    except OverflowError as error:
        raise ValueError(f"{_shorten(value)} is too large for a {node.kind}") from error


def _encode_bytes(node: AvroNode, data: bytes) -> bytes:
    if node.kind == "bytes":
        return _write_long(len(data)) + data
    if len(data) != node.size:
        raise ValueError(f"it has {len(data)} bytes, and {node.name} has {node.size}")
    return data


def _bytes_of(node: AvroNode, value: Any) -> bytes:
    if not node.is_decimal:
        return base64.b64decode(_require(value, str, node), validate=True)
    number = unscaled_of(Decimal(_require(value, (int, Decimal), node)), node.scale)
    decimal_of(number, node.precision, node.scale)
    size = node.size if node.kind == "fixed" else number.bit_length() // 8 + 1
    try:
        return number.to_bytes(size, signed=True)
    except OverflowError as error:
        raise ValueError(f"{value} needs more than the {size} bytes of {node.name}") from error


def _write_long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# Bytes as they are written here


def _normalize(node: AvroNode, data: bytes, at: int, out: list[bytes]) -> int:
    """Append the bytes that are written here for a value that was passed before; return where it ends."""
    match node.kind:
        case "record":
            for each in node.fields:
                at = _normalize(each.node, data, at, out)
            return at
        case "array" | "map":
            return _normalize_blocks(node, data, at, out)
        case "union":
            place, at = read_number(data, at)
            out.append(_write_long(place))
            return _normalize(node.below[place], data, at, out)
        case "int" | "long" | "enum":
            number, at = read_number(data, at)
            out.append(_write_long(number))
            return at
        case "float" | "double":
            form = _FRACTIONS[node.kind]
            (number,) = form.unpack_from(data, at)
            out.append(form.pack(math.nan if math.isnan(number) else number))
            return at + form.size
        case "bytes" | "string":
            size, at = read_number(data, at)
            out.append(_write_long(size) + data[at : at + size])
            return at + size
    size = node.bytes_always or 0
    out.append(data[at : at + size])
    return at + size


def _normalize_blocks(node: AvroNode, data: bytes, at: int, out: list[bytes]) -> int:
    items: list[bytes] = []
    while True:
        count, at = read_number(data, at)
        if not count:
            out.append(_write_block(items))
            return at
        if count < 0:
            count = -count
            _, at = read_number(data, at)
        if node.kind == "array" and node.below[0].bytes_always == 0:
            raise ValueError("items without bytes are never written")
        for _ in range(count):
            item: list[bytes] = []
            if node.kind == "map":
                size, at = read_number(data, at)
                item.append(_write_long(size) + data[at : at + size])
                at += size
            at = _normalize(node.below[0], data, at, item)
            items.append(b"".join(item))
