"""The gate before records that carry ids of schemas: no record becomes visible where its schema is still unknown. Pure.

Serializers of schema registries write five bytes before a key or a value: a zero, and the id of its schema, big-endian.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from isthmus.model.selection import TopicPattern

_PREFIX_BYTES: Final = 5
_MAGIC: Final = 0


class Keyed(Protocol):
    """A record, as far as the gate reads it."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class IdRange(NamedTuple):
    """The ids from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SchemaIds:
    """The ids that a registry holds. Ranges ascend, and do not touch."""

    ranges: tuple[IdRange, ...] = ()

    @classmethod
    def of(cls, ids: Iterable[int]) -> SchemaIds:
        """These ids, in any order."""
        found: list[IdRange] = []
        for one in sorted(set(ids)):
            if found and found[-1].last + 1 == one:
                found[-1] = IdRange(found[-1].first, one)
            else:
                found.append(IdRange(one, one))
        return cls(tuple(found))

    def __contains__(self, one: int) -> bool:
        index = bisect_right(self.ranges, one, key=lambda each: each.first) - 1
        return index >= 0 and one <= self.ranges[index].last


NO_SCHEMAS: Final = SchemaIds()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaGate:
    """The topics, by their names at the target, whose values or keys need schemas that are known there."""

    values: tuple[TopicPattern, ...] = ()
    keys: tuple[TopicPattern, ...] = ()

    def of(self, topic: str) -> GatedFields:
        """Return the parts of a topic's records to examine."""
        return GatedFields(
            value=any(each.matches(topic) for each in self.values), key=any(each.matches(topic) for each in self.keys)
        )

    @property
    def is_there(self) -> bool:
        """Whether any topic is behind it."""
        return bool(self.values or self.keys)


NO_GATE: Final = SchemaGate()


class GatedFields(NamedTuple):
    """The parts of a record with the id of a schema that has to be known at the target before the record is copied."""

    value: bool = False
    key: bool = False

    @property
    def is_any(self) -> bool:
        return self.value or self.key


UNGATED: Final = GatedFields()


def schema_id(stored: bytes | None) -> int | None:
    """Return the id in front of a key or a value, `None` if there is none."""
    if stored is None or len(stored) < _PREFIX_BYTES or stored[0] != _MAGIC:
        return None
    return int.from_bytes(stored[1:_PREFIX_BYTES])


def unknown_id(fields: GatedFields, known: SchemaIds, records: Sequence[Keyed]) -> int | None:
    """Return the first unknown id of records; `None` if all are known."""
    for record in records:
        for is_gated, stored in ((fields.key, record.key), (fields.value, record.value)):
            found = schema_id(stored) if is_gated else None
            if found is not None and found not in known:
                return found
    return None
