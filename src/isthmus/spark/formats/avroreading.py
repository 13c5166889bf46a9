"""Avro values within bytes: where each ends, and what it is. Pure.

What reads or passes a value is composed once for a schema. It raises ValueError for bytes that are no such value:
each length, count, branch and symbol is checked, and so is how far records of one type are nested; IndexError means
that the bytes end too soon. It takes the bytes, where the value begins, and how many more levels of records within
records of the same type it may go down; the end that it returns may lie behind the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from isthmus.spark.formats.avronodes import AvroNode
from isthmus.spark.formats.types import FieldType
from isthmus.spark.formats.values import date_of, decimal_of, time_of

SkipAvro = Callable[[bytes, int, int], int]
"""Returns where a value ends."""
ReadAvro = Callable[[bytes, int, int], tuple[Any, int]]
"""Returns a value, and where it ends."""

LEVELS_MAX: Final = 200
"""How many records of one type are decoded within one another: Python's own stack has to be enough for all of them."""
_NESTED: Final = f"it is nested too deeply: more than {LEVELS_MAX} records of one type stand within one another"
_BITS: Final = {"int": 32, "long": 64}
_VARINT_BYTES_MAX: Final = 10
_MILLI: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


# Numbers


def read_number(data: bytes, at: int, bits: int = 64) -> tuple[int, int]:
    """Return an int or a long, and where it ends.

    :raises ValueError: It has more bits.
    """
    found = shift = 0
    begin = at
    while (byte := data[at]) > 0x7F:
        found |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if at - begin >= _VARINT_BYTES_MAX:
            raise ValueError(f"a number at byte {begin} does not end")
    found |= byte << shift
    if found >> bits:
        raise ValueError(f"a number at byte {begin} has more than {bits} bits")
    return (found >> 1) ^ -(found & 1), at + 1


def _read_long(data: bytes, at: int, _: int) -> tuple[int, int]:
    byte = data[at]
    return ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else read_number(data, at)


def _read_int(data: bytes, at: int, _: int) -> tuple[int, int]:
    byte = data[at]
    return ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else read_number(data, at, 32)


def _skip_long(data: bytes, at: int, _: int) -> int:
    begin = at
    while data[at] > 0x7F:
        at += 1
    # Shorter ones cannot be too large.
    return at + 1 if at - begin < 9 else read_number(data, begin)[1]


def _skip_int(data: bytes, at: int, _: int) -> int:
    begin = at
    while data[at] > 0x7F:
        at += 1
    return at + 1 if at - begin < 4 else read_number(data, begin, 32)[1]


def _read_size(data: bytes, at: int) -> tuple[int, int]:
    """Return how many bytes follow, and where they begin."""
    byte = data[at]
    if byte < 0x80 and not byte & 1:
        return byte >> 1, at + 1
    found, end = read_number(data, at)
    if found < 0:
        raise ValueError(f"a length at byte {at} is {found}")
    return found, end


def read_choice(data: bytes, at: int, count: int) -> tuple[int, int]:
    """Return which one of so many a branch or a symbol is."""
    found, end = read_number(data, at)
    if not 0 <= found < count:
        raise ValueError(f"a choice at byte {at} is {found}, and there are {count}")
    return found, end


# Passed


class AvroSkips:
    """What passes the values of a schema, composed once for each of its types."""

    def __init__(self) -> None:
        self._known: dict[AvroNode, SkipAvro] = {}
        self._open: set[AvroNode] = set()

    def find(self, node: AvroNode) -> SkipAvro:
        """Return what passes values of a type."""
        if node in self._open:
            return self._build_again(node)
        if node not in self._known:
            self._open.add(node)
            self._known[node] = self._build(node)
            self._open.remove(node)
        return self._known[node]

    def _build_again(self, node: AvroNode) -> SkipAvro:
        """Return what passes a record within one of the same type."""
        known = self._known

        def skip_again(data: bytes, at: int, levels: int) -> int:
            if not levels:
                raise ValueError(_NESTED)
            return known[node](data, at, levels - 1)

        return skip_again

    def _build(self, node: AvroNode) -> SkipAvro:
        if node.bytes_always is not None:
            return _build_gap(node.bytes_always)
        match node.kind:
            case "record":
                return self.build_run([each.node for each in node.fields])
            case "union":
                return _build_union_skip([self.find(each) for each in node.below])
            case "array" if node.below[0].kind in _BITS:
                return _build_numbers_skip(_BITS[node.below[0].kind])
            case "array" | "map":
                return _build_blocks_skip(node, self.find(node.below[0]))
            case "enum":
                count = len(node.symbols)
                return lambda data, at, levels: read_choice(data, at, count)[1]
            case "int":
                return _skip_int
            case "long":
                return _skip_long
        return _skip_bytes

    def build_run(self, nodes: Sequence[AvroNode]) -> SkipAvro:
        """Return what passes values that stand behind one another."""
        steps: list[tuple[int, SkipAvro]] = []
        gap = 0
        for each in nodes:
            if each.bytes_always is not None:
                gap += each.bytes_always
            else:
                steps.append((gap, self.find(each)))
                gap = 0
        if len(steps) == 1 and not steps[0][0] and not gap:
            return steps[0][1]

        def skip_run(data: bytes, at: int, levels: int) -> int:
            for before, skip in steps:
                at = skip(data, at + before, levels)
            return at + gap

        return skip_run


def _build_gap(size: int) -> SkipAvro:
    return lambda data, at, levels: at + size


def _skip_bytes(data: bytes, at: int, _: int) -> int:
    byte = data[at]
    if byte < 0x80 and not byte & 1:
        return at + 1 + (byte >> 1)
    size, begin = _read_size(data, at)
    return begin + size


def _build_union_skip(branches: Sequence[SkipAvro]) -> SkipAvro:
    count = len(branches)
    limit = min(2 * count, 0x80)

    def skip_union(data: bytes, at: int, levels: int) -> int:
        byte = data[at]
        if byte & 1 or byte >= limit:
            place, at = read_choice(data, at, count)
            return branches[place](data, at, levels)
        return branches[byte >> 1](data, at + 1, levels)

    return skip_union


def _build_blocks_skip(node: AvroNode, skip: SkipAvro) -> SkipAvro:
    size, is_map = node.below[0].bytes_always, node.kind == "map"

    def skip_blocks(data: bytes, at: int, levels: int) -> int:
        while True:
            count, end, at = _read_block(data, at)
            if not count:
                return at
            if is_map:
                for _ in range(count):
                    at = skip(data, _skip_bytes(data, at, 0), levels)
            elif size is None:
                for _ in range(count):
                    at = skip(data, at, levels)
            else:
                at += size * count
            _require_end(at, end)

    return skip_blocks


def _build_numbers_skip(bits: int) -> SkipAvro:
    """Return what passes an array of numbers: one call for all of them."""
    short = bits // 7

    def skip_numbers(data: bytes, at: int, _: int) -> int:
        while True:
            count, end, at = _read_block(data, at)
            if not count:
                return at
            for _ in range(count):
                begin = at
                while data[at] > 0x7F:
                    at += 1
                at = at + 1 if at - begin < short else read_number(data, begin, bits)[1]
            _require_end(at, end)

    return skip_numbers


def _read_block(data: bytes, at: int) -> tuple[int, int | None, int]:
    """Return how many items a block has, where it ends if it says so, and where the items begin."""
    byte = data[at]
    if byte < 0x80 and not byte & 1:
        return byte >> 1, None, at + 1
    count, begin = read_number(data, at)
    if count >= 0:
        return count, None, begin
    size, begin = _read_size(data, begin)
    return -count, begin + size, begin


def _require_end(at: int, end: int | None) -> None:
    if end is not None and at != end:
        raise ValueError(f"a block says that it ends at byte {end}, and ends at byte {at}")


# Values read


class AvroReads:
    """What reads values of a schema as Arrow takes them, or `for_people`, who see all of them."""

    def __init__(self, skips: AvroSkips, *, for_people: bool = False) -> None:
        self._skips = skips
        self._for_people = for_people
        self._known: dict[AvroNode, list[ReadAvro]] = {}

    def build(self, node: AvroNode, shape: FieldType | None) -> ReadAvro:
        """Return what reads values of a type; of records the fields that a type of Spark's has, or all of them."""
        match node.kind:
            case "union":
                return self._build_union(node, shape)
            case "record":
                return self._build_record(node, shape)
            case "array" | "map":
                return self._build_blocks(node, None if shape is None else shape.element)
            case "null":
                return lambda data, at, levels: (None, at)
            case "enum":
                symbols = node.symbols

                def read_enum(data: bytes, at: int, _: int) -> tuple[str, int]:
                    place, end = read_choice(data, at, len(symbols))
                    return symbols[place], end

                return read_enum
            case "fixed":
                return self._convert(node, _build_fixed(node.size))
        return self._convert(node, _PLAIN[node.kind])

    def _build_union(self, node: AvroNode, shape: FieldType | None) -> ReadAvro:
        read = [self.build(each, shape) for each in node.below]
        count = len(read)
        limit = min(2 * count, 0x80)

        def read_union(data: bytes, at: int, levels: int) -> tuple[Any, int]:
            byte = data[at]
            if byte & 1 or byte >= limit:
                place, at = read_choice(data, at, count)
                return read[place](data, at, levels)
            return read[byte >> 1](data, at + 1, levels)

        return read_union

    def _build_record(self, node: AvroNode, shape: FieldType | None) -> ReadAvro:
        found: list[ReadAvro] = []
        members = None
        if shape is not None:
            members = dict(shape.members)
        elif node in self._known:
            return _build_again(self._known[node])
        else:
            self._known[node] = found
        steps: list[tuple[SkipAvro | None, str, ReadAvro]] = []
        passed: list[AvroNode] = []
        for each in node.fields:
            if members is not None and each.name not in members:
                passed.append(each.node)
                continue
            read = self.build(each.node, None if members is None else members[each.name])
            steps.append((self._skips.build_run(passed) if passed else None, each.name, read))
            passed = []
        last = self._skips.build_run(passed)

        def read_record(data: bytes, at: int, levels: int) -> tuple[dict[str, Any], int]:
            record: dict[str, Any] = {}
            for skip, name, read in steps:
                if skip is not None:
                    at = skip(data, at, levels)
                record[name], at = read(data, at, levels)
            return record, last(data, at, levels)

        found.append(read_record)
        return read_record

    def _build_blocks(self, node: AvroNode, shape: FieldType | None) -> ReadAvro:
        item = node.below[0]
        if node.kind == "map":
            return _build_map(self.build(item, shape), for_people=self._for_people)
        if item.kind in ("float", "double"):
            return _build_fractions("f" if item.kind == "float" else "d", item.bytes_always or 0)
        if item.kind in _BITS and _converter(item, for_people=self._for_people) is None:
            return _build_numbers(_BITS[item.kind])
        return _build_array(self.build(item, shape), item.bytes_always)

    def _convert(self, node: AvroNode, read: ReadAvro) -> ReadAvro:
        convert = _converter(node, for_people=self._for_people)
        if convert is None:
            return read

        def read_converted(data: bytes, at: int, levels: int) -> tuple[Any, int]:
            found, end = read(data, at, levels)
            return convert(found), end

        return read_converted


def _build_again(found: Sequence[ReadAvro]) -> ReadAvro:
    """Return what reads a record within one of the same type."""

    def read_again(data: bytes, at: int, levels: int) -> tuple[Any, int]:
        if not levels:
            raise ValueError(_NESTED)
        return found[0](data, at, levels - 1)

    return read_again


def _build_array(read: ReadAvro, size: int | None) -> ReadAvro:
    def read_array(data: bytes, at: int, levels: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, end, at = _read_block(data, at)
            if not count:
                return items, at
            # Each item of another size needs a byte at least, and so ends with the bytes.
            if size is not None and (not size or at + size * count > len(data)):
                raise ValueError(f"an array has {count} items, more than there are bytes")
            for _ in range(count):
                item, at = read(data, at, levels)
                items.append(item)
            _require_end(at, end)

    return read_array


def _build_fractions(letter: str, size: int) -> ReadAvro:
    def read_fractions(data: bytes, at: int, _: int) -> tuple[list[float], int]:
        items: list[float] = []
        while True:
            count, end, at = _read_block(data, at)
            if not count:
                return items, at
            if at + size * count > len(data):
                raise ValueError(f"an array has {count} items, more than there are bytes")
            items += struct.unpack_from(f"<{count}{letter}", data, at)
            at += size * count
            _require_end(at, end)

    return read_fractions


def _build_numbers(bits: int) -> ReadAvro:
    """Return what reads an array of numbers: one call for all of them."""

    def read_numbers(data: bytes, at: int, _: int) -> tuple[list[int], int]:
        items: list[int] = []
        while True:
            count, end, at = _read_block(data, at)
            if not count:
                return items, at
            for _ in range(count):
                found = data[at]
                at += 1
                if found < 0x80:
                    items.append((found >> 1) ^ -(found & 1))
                elif (byte := data[at]) < 0x80:
                    found = found & 0x7F | byte << 7
                    items.append((found >> 1) ^ -(found & 1))
                    at += 1
                else:
                    found, at = read_number(data, at - 1, bits)
                    items.append(found)
            _require_end(at, end)

    return read_numbers


def _build_map(read: ReadAvro, *, for_people: bool) -> ReadAvro:
    def read_map(data: bytes, at: int, levels: int) -> tuple[Any, int]:
        # Of equal names the last one counts.
        items: dict[str, Any] = {}
        while True:
            count, end, at = _read_block(data, at)
            if not count:
                return items if for_people else list(items.items()), at
            for _ in range(count):
                name, at = _read_text(data, at, 0)
                items[name], at = read(data, at, levels)
            _require_end(at, end)

    return read_map


def _build_fixed(size: int) -> ReadAvro:
    return lambda data, at, levels: (data[at : at + size], at + size)


def _read_text(data: bytes, at: int, _: int) -> tuple[str, int]:
    byte = data[at]
    size, at = (byte >> 1, at + 1) if byte < 0x80 and not byte & 1 else _read_size(data, at)
    end = at + size
    return data[at:end].decode(), end


def _read_bytes(data: bytes, at: int, _: int) -> tuple[bytes, int]:
    size, begin = _read_size(data, at)
    return data[begin : begin + size], begin + size


def _read_boolean(data: bytes, at: int, _: int) -> tuple[bool, int]:
    if data[at] > 1:
        raise ValueError(f"the byte {at} is neither true nor false")
    return data[at] == 1, at + 1


def _read_float(data: bytes, at: int, _: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _read_double(data: bytes, at: int, _: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


_PLAIN: Final[Mapping[str, ReadAvro]] = {
    "boolean": _read_boolean,
    "int": _read_int,
    "long": _read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_text,
}


def factor_of(node: AvroNode) -> int:
    """Return how many microseconds a unit of a time has."""
    return _MILLI if node.logical.endswith("-millis") else 1


def is_time(node: AvroNode) -> bool:
    """Return whether a type is a time that Spark has."""
    return node.kind == "long" and node.logical in (
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    )


def _converter(node: AvroNode, *, for_people: bool) -> Callable[[Any], Any] | None:
    """Return what makes a value of Arrow's, or one for people, from a plain one."""
    if node.is_decimal:
        return lambda value: decimal_of(int.from_bytes(value, signed=True), node.precision, node.scale)
    if node.kind == "int" and node.logical == "date":
        return (lambda days: date.fromordinal(date_of(days) + _EPOCH.toordinal())) if for_people else date_of
    if not is_time(node):
        return None
    factor = factor_of(node)
    if for_people:
        return lambda value: _EPOCH + timedelta(microseconds=time_of(value * factor))
    return lambda value: time_of(value * factor)
