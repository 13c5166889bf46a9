"""Types of Spark's SQL that decoded fields have, merged over the schemas that records were written with. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

STRUCT: Final = "STRUCT"
ARRAY: Final = "ARRAY"
MAP: Final = "MAP"
VOID: Final = "VOID"
"""The type of NULL alone."""
ELEMENT: Final = "element"
_WIDER: Final = frozenset({("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("INT", "DOUBLE")})
"""Types of which the second holds each value of the first."""
NOTHING: Final = "_nothing"
"""The field of a struct of which no other is read: it is always NULL."""


class NotDecoded(Exception):
    """A field has a type that expressions cannot see, or that it cannot have; the text says which and why."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A type. `name` is that of Spark's DDL, with `precision` and `scale` for a DECIMAL; `members` are the fields of a
    STRUCT, or the `element` of an ARRAY, or of a MAP, whose keys are texts.
    """

    name: str
    members: tuple[tuple[str, FieldType], ...] = ()
    precision: int = 0
    scale: int = 0

    @property
    def element(self) -> FieldType:
        return self.members[0][1]

    @property
    def ddl(self) -> str:
        """It as Spark writes it."""
        match self.name:
            case "STRUCT":
                fields = (f"`{name.replace('`', '``')}`: {each.ddl}" for name, each in self.members)
                return f"STRUCT<{', '.join(fields)}>"
            case "ARRAY":
                return f"ARRAY<{self.element.ddl}>"
            case "MAP":
                return f"MAP<STRING, {self.element.ddl}>"
            case "DECIMAL":
                return f"DECIMAL({self.precision}, {self.scale})"
        return self.name

    def __str__(self) -> str:
        return self.ddl

    def find(self, names: Sequence[str]) -> FieldType | None:
        """Return the type of a field, by names as they are written, `None` if there is none."""
        found: FieldType | None = self
        for name in names:
            found = None if found is None or found.name != STRUCT else dict(found.members).get(name)
        return found


def struct_of(members: Iterable[tuple[str, FieldType]]) -> FieldType:
    """Return the struct of these fields."""
    return FieldType(STRUCT, tuple(members))


def merge(one: FieldType, other: FieldType) -> FieldType:
    """Return the type that holds the values of both.

    :raises NotDecoded: There is none.
    """
    if one == other:
        return one
    if one.name == other.name == STRUCT:
        # They differ, so one of both has a field.
        known, more = ({name: each for name, each in given.members if name != NOTHING} for given in (one, other))
        both = {name: _merge_field(name, each, more[name]) if name in more else each for name, each in known.items()}
        return struct_of({**both, **{name: each for name, each in more.items() if name not in known}}.items())
    if one.name == other.name and one.name in (ARRAY, MAP):
        return replace(one, members=((ELEMENT, merge(one.element, other.element)),))
    for wide, narrow in ((one, other), (other, one)):
        if (narrow.name, wide.name) in _WIDER:
            return wide
    raise NotDecoded(f"{one} and {other}")


def _merge_field(name: str, one: FieldType, other: FieldType) -> FieldType:
    try:
        return merge(one, other)
    except NotDecoded as error:
        raise NotDecoded(f"{name}: {error}") from error


class ReadFields(NamedTuple):
    """The fields of a part that are read: all, or the named ones, each with what is read of it."""

    is_all: bool = True
    names: tuple[tuple[str, ReadFields], ...] = ()

    @classmethod
    def of(cls, paths: Iterable[Sequence[str]]) -> ReadFields:
        """What these paths lead to."""
        below: dict[str, list[Sequence[str]]] = {}
        for path in paths:
            if not path:
                return cls()
            below.setdefault(path[0].lower(), []).append(path[1:])
        return cls(is_all=False, names=tuple((name, cls.of(rest)) for name, rest in sorted(below.items())))

    def get(self, name: str) -> ReadFields | None:
        """What is read of a field, `None` for nothing. Spark does not tell capital letters from small ones."""
        return ReadFields() if self.is_all else dict(self.names).get(name.lower())

    def paths(self) -> Iterator[tuple[str, ...]]:
        """Yield the paths, in small letters."""
        if self.is_all:
            yield ()
        for name, below in self.names:
            yield from ((name, *rest) for rest in below.paths())


class NamedFields(Protocol):
    """A schema whose fields may have several names."""

    def fields_like(self, ways: Sequence[frozenset[str]]) -> Sequence[tuple[tuple[str, ...], frozenset[str]]]:
        """Return the fields that one of these names leads to on each level, by their paths, each with its own names."""


def names_alike(schemas: Collection[NamedFields], names: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Return all names that a field has over schemas, level by level: an alias in one of them is the name in another.
    Capital letters are not told from small ones.
    """
    ways: list[frozenset[str]] = []
    for name in names:
        found = frozenset({name.lower()})
        while True:
            labels = (own for each in schemas for _, own in each.fields_like([*ways, found]))
            more = found.union(*labels)
            if more == found:
                break
            found = more
        ways.append(found)
    return tuple(ways)


class SchemaOrigin(NamedTuple):
    """A schema by its id, and the subject under which it is registered."""

    subject: str
    schema_id: int

    def __str__(self) -> str:
        return f"{self.subject} (id {self.schema_id})"


def merge_all(part: str, found: Sequence[tuple[SchemaOrigin, FieldType]]) -> FieldType:
    """Return the type of a part over all schemas of it.

    :raises NotDecoded: Two of them cannot go together; the text names both.
    """
    merged = found[0][1]
    for place, (origin, each) in enumerate(found):
        try:
            merged = merge(merged, each)
        except NotDecoded as error:
            other = next((at for at, before in found[:place] if not _go_together(before, each)), found[0][0])
            field = f"{part}.{error}" if ":" in str(error) else f"{part}: {error}"
            raise NotDecoded(f"two schemas give a field other types, {field}: {other} and {origin}") from error
    return merged


def _go_together(one: FieldType, other: FieldType) -> bool:
    try:
        merge(one, other)
    except NotDecoded:
        return False
    return True


def to_arrow(given: FieldType) -> pa.DataType:
    """Return the type of Arrow that Spark has for it."""
    import pyarrow as pa

    match given.name:
        case "STRUCT":
            return pa.struct([pa.field(name, to_arrow(each)) for name, each in given.members])
        case "ARRAY":
            return pa.list_(pa.field(ELEMENT, to_arrow(given.element)))
        case "MAP":
            return pa.map_(pa.string(), to_arrow(given.element))
        case "DECIMAL":
            return pa.decimal128(given.precision, given.scale)
    makers: Mapping[str, Callable[[], pa.DataType]] = {
        "BOOLEAN": pa.bool_,
        "INT": pa.int32,
        "BIGINT": pa.int64,
        "FLOAT": pa.float32,
        "DOUBLE": pa.float64,
        "STRING": pa.string,
        "BINARY": pa.binary,
        "DATE": pa.date32,
        "TIMESTAMP": lambda: pa.timestamp("us", tz="UTC"),
        "TIMESTAMP_NTZ": lambda: pa.timestamp("us"),
    }
    return makers[given.name]()
