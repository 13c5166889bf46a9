"""Kafka's own definitions of its messages, from the newest broker's jar, and a codec that is made of them.

It shares nothing with the product: what a gateway reads and rewrites is held against it.
"""

from __future__ import annotations

import json
import os
import random
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from isthmus.local.jvm import jvm_for

Value = dict[str, Any]
_NUMBERS: Final = {"bool": ">?", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q"}
_UNKNOWN_TAG: Final = 4000


@dataclass(frozen=True, slots=True)
class Definition:
    """A message: its key, its name without Request or Response, its versions, and its fields."""

    key: int
    name: str
    versions: range
    flexible: range
    fields: list[Mapping[str, Any]]
    structs: Mapping[str, list[Mapping[str, Any]]]


@cache
def definitions(kind: str) -> dict[int, Definition]:
    """All messages of a kind, "Request" or "Response", by key."""
    (jar,) = (
        path for path in jvm_for("broker-4.4.0").class_path.split(os.pathsep) if "kafka-clients" in Path(path).name
    )
    with zipfile.ZipFile(jar) as opened:
        names = [name for name in opened.namelist() if re.match(rf"common/message/.*{kind}\.json", name)]
        texts = [opened.read(name).decode() for name in names]
    found = [_definition(json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)), kind) for text in texts]
    return {each.key: each for each in found if each.key >= 0}


def _definition(read: Mapping[str, Any], kind: str) -> Definition:
    return Definition(
        read.get("apiKey", -1),
        read["name"].removesuffix(kind),
        _range(read["validVersions"]),
        _range(read.get("flexibleVersions", "none")),
        read.get("fields", []),
        {each["name"]: each["fields"] for each in read.get("commonStructs", ())},
    )


def _range(written: str) -> range:
    if written == "none":
        return range(0)
    first, dash, last = written.removesuffix("+").partition("-")
    return range(int(first), 1000 if written.endswith("+") else int(last if dash else first) + 1)


def _fields(definition: Definition, field: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    kind = field["type"].removeprefix("[]")
    return field.get("fields") or definition.structs.get(kind) or []


def addressed(definition: Definition, version: int) -> Iterator[str]:
    """The paths of what is an address in this version: a host and a port side by side."""

    def look(fields: list[Mapping[str, Any]], path: str) -> Iterator[str]:
        names = {each["name"] for each in fields if version in _range(each["versions"])}
        if any(re.search("Host", each) for each in names) and any(re.search("Port", each) for each in names):
            yield path
        for each in fields:
            if each["name"] in names and (inner := _fields(definition, each)):
                yield from look(inner, f"{path}.{each['name']}")

    return look(definition.fields, definition.name)


@dataclass(slots=True)
class MadeUp:
    """Some values of a message in a version."""

    definition: Definition
    version: int
    chance: random.Random

    def value(self) -> Value:
        """Some value."""
        return self._struct(self.definition.fields)

    def _struct(self, fields: list[Mapping[str, Any]]) -> Value:
        there = [each for each in fields if self.version in _range(each["versions"])]
        return {each["name"]: self._one(each["type"], each) for each in there}

    def _one(self, kind: str, field: Mapping[str, Any]) -> Any:
        chance = self.chance
        if kind.startswith("[]"):
            counts = (0, 1, 130) if field["name"] == "Brokers" else (0, 1, 1, 2, 3)
            return [self._one(kind[2:], field) for _ in range(chance.choice(counts))]
        if kind in ("string", "bytes", "records"):
            if self.version in _range(field.get("nullableVersions", "none")) and chance.random() < 0.3:
                return None
            size = chance.choice((0, 1, 7, 126, 127, 128, 300))
            return "".join(chance.choices("abc\u00e4-", k=size)) if kind == "string" else chance.randbytes(size)
        if kind == "uuid":
            return chance.randbytes(16)
        if kind == "bool":
            return chance.random() < 0.5
        if kind in _NUMBERS:
            return chance.randint(0 if kind.startswith("u") else -1, 127)
        return self._struct(_fields(self.definition, field))


def defaults(definition: Definition, version: int) -> Value:
    """A message in which nothing is said: every field as its definition has it, and no tags."""

    def default(field: Mapping[str, Any]) -> Any:
        written, kind = field.get("default", ""), field["type"]
        if written == "null":
            return None
        if kind.startswith("[]"):
            return []
        if kind in ("string", "bytes"):
            return "" if kind == "string" else b""
        return written == "true" if kind == "bool" else int(written or 0)

    there = [each for each in definition.fields if version in _range(each["versions"])]
    return {each["name"]: default(each) for each in there if version not in _range(each.get("taggedVersions", "none"))}


@dataclass(slots=True)
class _Encoder:
    definition: Definition
    version: int
    unknown_tags: bool
    out: bytearray

    def struct(self, fields: list[Mapping[str, Any]], item: Value) -> None:
        there = [each for each in fields if self.version in _range(each["versions"])]
        tagged = [each for each in there if self.version in _range(each.get("taggedVersions", "none"))]
        for each in there:
            if each not in tagged:
                self._one(each["type"], each, item[each["name"]])
        if self.version in self.definition.flexible:
            self._tags(tagged, item)

    def _tags(self, tagged: list[Mapping[str, Any]], item: Value) -> None:
        tags: list[tuple[int, bytes]] = []
        for each in tagged:
            if each["name"] not in item:
                continue
            inner = _Encoder(self.definition, self.version, self.unknown_tags, bytearray())
            inner._one(each["type"], each, item[each["name"]])
            tags.append((each["tag"], bytes(inner.out)))
        if self.unknown_tags:
            tags.append((_UNKNOWN_TAG, b"whatever"))
        self.out += uvarint(len(tags))
        for tag, data in tags:
            self.out += uvarint(tag) + uvarint(len(data)) + data

    def _size(self, size: int, width: str) -> None:
        self.out += uvarint(size + 1) if self.version in self.definition.flexible else struct.pack(width, size)

    def _one(self, kind: str, field: Mapping[str, Any], item: Any) -> None:
        if kind.startswith("[]"):
            self._size(-1 if item is None else len(item), ">i")
            for each in item or ():
                self._one(kind[2:], field, each)
        elif kind in ("string", "bytes", "records"):
            data = item.encode() if isinstance(item, str) else item
            self._size(-1 if data is None else len(data), ">h" if kind == "string" else ">i")
            self.out += data or b""
        elif kind == "uuid":
            self.out += item
        elif kind in _NUMBERS:
            self.out += struct.pack(_NUMBERS[kind], item)
        else:
            is_item = field["type"].startswith("[]")
            if not is_item and self.version in _range(field.get("nullableVersions", "none")):
                self.out += struct.pack(">b", -1 if item is None else 1)
            if item is not None:
                self.struct(_fields(self.definition, field), item)


def encoded(definition: Definition, version: int, value: Value, *, unknown_tags: bool = False) -> bytes:
    """The body of a message."""
    encoder = _Encoder(definition, version, unknown_tags, bytearray())
    encoder.struct(definition.fields, value)
    return bytes(encoder.out)


def uvarint(value: int) -> bytes:
    """An unsigned varint (KIP-482)."""
    found = b""
    while value > 127:
        found += bytes((value & 127 | 128,))
        value >>= 7
    return found + bytes((value,))


def moved(value: Any, move: Any) -> Any:
    """A message in which every broker is elsewhere."""
    if isinstance(value, list):
        return [moved(each, move) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: moved(each, move) for name, each in value.items()}
    node = value.get("NodeId", value.get("BrokerId"))
    if node is not None and node >= 0 and value.get("Host"):
        found["Host"], found["Port"] = move(node, value["Host"], value["Port"])
    return found
