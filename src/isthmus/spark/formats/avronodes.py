"""The types of an Avro schema, each checked: registries keep whatever they were given. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from isthmus.spark.formats.types import NotDecoded

PLAIN: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_KINDS: Final = PLAIN | {"array", "map", "record", "error", "enum", "fixed"}
_FIXED_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LEVELS_MAX: Final = 64
"""How many types may stand within one another as they are written."""
_SHOWN: Final = 60


class _NoDefault:
    """A field has no default; null is one."""


NO_DEFAULT: Final = _NoDefault()


class AvroField(NamedTuple):
    """A field of a record; `labels` are its name and its aliases in small letters."""

    name: str
    node: AvroNode
    default: Any
    labels: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class AvroNode:
    """A type of a schema: `below` are the branches of a union, the items of an array or the values of a map.

    `bytes_always` is how many bytes each value of it has, `None` if they differ.
    """

    kind: str
    name: str = ""
    logical: str = ""
    fields: list[AvroField] = field(default_factory=list)
    below: list[AvroNode] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    size: int = 0
    precision: int = 0
    scale: int = 0
    bytes_always: int | None = None

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

    def fields_below(self) -> Iterator[AvroField]:
        """Yield the fields of the records that a value of this type is or holds, but not theirs."""
        yield from self.fields
        for each in self.below:
            yield from each.fields_below()


def parse_avro(text: str, referenced: Iterable[str]) -> AvroNode:
    """Parse a schema, with those that it refers to.

    :raises NotDecoded: It is no schema of Avro.
    """
    builder = _Builder()
    try:
        for each in referenced:
            builder.build(json.loads(each), "")
        return builder.build(json.loads(text), "")
    except ValueError as error:
        raise NotDecoded(f"it is no JSON: {error}") from error
    except RecursionError as error:
        raise NotDecoded("it is nested too deeply") from error


class _Builder:
    """Builds the nodes of a schema, and knows those that have names."""

    def __init__(self) -> None:
        self._names: dict[str, AvroNode] = {}
        self._level = 0

    def build(self, given: Any, namespace: str) -> AvroNode:
        if self._level >= _LEVELS_MAX:
            raise NotDecoded(f"more than {_LEVELS_MAX} types stand within one another")
        self._level += 1
        try:
            return self._build(given, namespace)
        finally:
            self._level -= 1

    def _build(self, given: Any, namespace: str) -> AvroNode:
        if isinstance(given, list):
            branches = [self.build(each, namespace) for each in given]
            if any(each.kind == "union" for each in branches):
                raise NotDecoded("a union is a branch of another one")
            return AvroNode("union", below=branches)
        if isinstance(given, str):
            return _make_plain(given) if given in PLAIN else self._find(given, namespace)
        kind = _get(given, "type")
        if not isinstance(kind, str) or kind not in _KINDS:
            return self.build(kind, namespace)
        if kind in PLAIN:
            return _with_logical(_make_plain(kind), given)
        if kind in ("array", "map"):
            return AvroNode(kind, below=[self.build(_get(given, "items" if kind == "array" else "values"), namespace)])
        return self._build_named("record" if kind == "error" else kind, given, namespace)

    def _find(self, name: str, namespace: str) -> AvroNode:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._names.get(full) or self._names.get(name)
        if found is None:
            raise NotDecoded(f"the type {_shorten(name)} is not known")
        return found

    def _build_named(self, kind: str, given: Any, namespace: str) -> AvroNode:
        name, inner = _text(given, "name"), given.get("namespace", namespace)
        full = name if "." in name or not inner or not isinstance(inner, str) else f"{inner}.{name}"
        if full in self._names:
            raise NotDecoded(f"two types have the name {_shorten(full)}")
        # Before its fields: they may name it.
        self._names[full] = node = AvroNode(kind, full)
        if kind == "enum":
            node.symbols = _symbols(given)
        elif kind == "fixed":
            node.size = node.bytes_always = _size(given)
            _with_logical(node, given)
        else:
            self._build_fields(node, _get(given, "fields"))
        return node

    def _build_fields(self, node: AvroNode, given: Any) -> None:
        if not isinstance(given, list):
            raise NotDecoded(f"the fields of {node.name} are no list")
        within = node.name.rpartition(".")[0]
        for each in given:
            name = _text(each, "name")
            if any(name == other.name for other in node.fields):
                raise NotDecoded(f"{node.name} has two fields of the name {_shorten(name)}")
            aliases = each.get("aliases")
            labels = [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []
            node.fields.append(
                AvroField(
                    name,
                    self.build(_get(each, "type"), within),
                    each.get("default", NO_DEFAULT),
                    frozenset(label.lower() for label in (name, *labels)),
                )
            )
        sizes = [each.node.bytes_always for each in node.fields]
        # One that holds itself has no size yet where it does, and so none at all.
        node.bytes_always = None if None in sizes else sum(size for size in sizes if size is not None)


def _make_plain(kind: str) -> AvroNode:
    return AvroNode(kind, bytes_always=_FIXED_SIZES.get(kind))


def _with_logical(node: AvroNode, given: Any) -> AvroNode:
    """Note the logical type; one that makes no sense counts for nothing, as Avro has it."""
    logical, precision, scale = given.get("logicalType"), given.get("precision", 0), given.get("scale", 0)
    if isinstance(logical, str) and type(precision) is int and type(scale) is int:
        node.logical, node.precision, node.scale = logical, precision, scale
    return node


def _get(given: Any, key: str) -> Any:
    if not isinstance(given, dict):
        raise NotDecoded(f"{_shorten(given)} stands where a type or a field has to stand")
    if key not in given:
        raise NotDecoded(f"{_shorten(given)} has no {key}")
    return given[key]


def _text(given: Any, key: str) -> str:
    found = _get(given, key)
    if not isinstance(found, str) or not found:
        raise NotDecoded(f"the {key} {_shorten(found)} is no name")
    return found


def _symbols(given: Any) -> list[str]:
    found = _get(given, "symbols")
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise NotDecoded(f"the symbols {_shorten(found)} are no list of texts")
    return found


def _size(given: Any) -> int:
    found = _get(given, "size")
    if type(found) is not int or found < 0:
        raise NotDecoded(f"the size {_shorten(found)} is no number of bytes")
    return found


def _shorten(given: Any) -> str:
    text = given if isinstance(given, str) else json.dumps(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
