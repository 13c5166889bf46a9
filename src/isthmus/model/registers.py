"""What operators may say on two clusters that cannot hear each other, and what it comes to once they can.

A declared thing is a set of registers, each with one value and who said it last. Each word carries what its author had
seen of the same: per cluster, the last word that was written there first (a version vector). A word takes the place of
those that its author had seen, whatever the clocks say, and of no others. So of each register those words are left of
which nobody who spoke later knew; which these are does not depend on who merges, in which order or how often (a
state-based CRDT: a map of multi-value registers). If there are several, they were said apart from each other: the one
holds that keeps more consistency (KIP-986: no automatic step gives any up), else the later one; the others are kept
`beside` it until somebody who knows of them says something.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, Self, TypedDict

from isthmus.model.instant import written_instant

RESERVED: Final = "reserved"
DELETED: Final = "deleted"
MODE: Final = "mode"
SETTINGS: Final = "settings/"
ATTACHED: Final = "attached/"
"""What the registers begin with that say whether two namespaces are attached."""
_SHOWN_MAX: Final = 80
_OF_OLDER_RELEASES: Final = ""
"""Where all words of releases count as written that did not write down what their authors had seen."""
_FAITHFUL: Final[Mapping[str, str]] = {RESERVED: "true", DELETED: "false", MODE: '"sync"', ATTACHED: "true"}
"""By register the value that keeps more consistency than any other."""


class LastSeen(NamedTuple):
    """That an author knew the words about a register that were written to a cluster first, up to this version."""

    cluster: str
    version: int


class StatementJson(TypedDict):
    """What somebody said of something declared, when and at which cluster."""

    name: str
    value: Any
    version: int
    by: str
    at: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that is said. `value` is JSON; `by` is whoever said it, `at_ms` when by their clock, and `where` the id
    of the cluster whose ledger it was written to first.

    `version` is one more than the highest that its author had `seen` of the same; what that was is not known of words
    of older releases, which took the place of all of a lower version.
    """

    name: str
    value: str
    version: int
    at_ms: int
    by: str
    where: str
    seen: tuple[LastSeen, ...] | None = None

    @property
    def said(self) -> Any:
        """The value."""
        return json.loads(self.value)

    @property
    def as_news(self) -> str:
        """That it was said, by whom and when, for whoever did not know."""
        value = f" to {self.value}" if len(self.value) <= _SHOWN_MAX else ""
        return f"{self.by} set {self.name}{value} at {written_instant(self.at_ms)}"

    @property
    def rank(self) -> tuple[bool, int, str, str, str, int]:
        """Of two that were said apart from each other the one of the higher rank holds."""
        faithful = _FAITHFUL.get(ATTACHED if self.name.startswith(ATTACHED) else self.name)
        return self.value == faithful, self.at_ms, self.where, self.by, self.value, self.version

    @property
    def place(self) -> LastSeen:
        """What whoever has seen it has seen."""
        return LastSeen(_OF_OLDER_RELEASES if self.seen is None else self.where, self.version)

    @property
    def known(self) -> Mapping[str, int]:
        """The versions that its author had seen, by cluster."""
        return {_OF_OLDER_RELEASES: self.version - 1} if self.seen is None else dict(self.seen)

    def as_dict(self) -> StatementJson:
        """Plain values under stable names."""
        return {
            "name": self.name,
            "value": self.said,
            "version": self.version,
            "by": self.by,
            "at": written_instant(self.at_ms),
            "where": self.where,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Statement):
    """What holds of one thing, and `beside` it what was said apart from it and does not; by rank."""

    beside: tuple[Statement, ...] = ()

    @property
    def words(self) -> tuple[Statement, ...]:
        """All that is left of what was said."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(Statement)}
        return (*self.beside, Statement(**fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who says something, when, and to which cluster's ledger first (its id)."""

    by: str
    at_ms: int
    where: str


Registers = tuple[Register, ...]
"""At most one of each name, sorted by name."""


def merged(*versions: Iterable[Register]) -> Registers:
    """What all versions come to. Commutative, associative and idempotent."""
    said: dict[str, set[Statement]] = {}
    for version in versions:
        for register in version:
            said.setdefault(register.name, set()).update(register.words)
    return tuple(_held(said[name]) for name in sorted(said))


def _held(said: Collection[Statement]) -> Register:
    """What holds of all that was said of one thing."""
    seen = _versions(each.known for each in said)
    left = (each for each in said if each.version > seen.get(each.place.cluster, 0))
    *beside, holding = sorted(left, key=lambda each: each.rank)
    fields = {each.name: getattr(holding, each.name) for each in dataclasses.fields(Statement)}
    return Register(**fields, beside=tuple(beside))


def _versions(known: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The highest version of each cluster."""
    found: dict[str, int] = {}
    for each in known:
        for cluster, version in each.items():
            found[cluster] = max(found.get(cluster, 0), version)
    return found


def difference(before: Registers, after: Registers) -> dict[str, list[Any]]:
    """What is said otherwise in `after`: of each name the value before and that after, `None` where there is none."""
    was, now = ({each.name: each.said for each in registers} for registers in (before, after))
    names = sorted(was.keys() | now.keys())
    return {name: [was.get(name), now.get(name)] for name in names if was.get(name) != now.get(name)}


def register_text(value: Any) -> str:
    """A value as a register holds it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def changed(known: Registers, values: Mapping[str, Any], author: Author) -> Registers:
    """The registers that have to be written so that these values hold, after what is known; none for what holds and was
    not contradicted.
    """
    held = {register.name: register for register in known}
    new = []
    for name, value in sorted(values.items()):
        text = register_text(value)
        before = held.get(name)
        if before is None or any(word.value != text for word in before.words):
            words = () if before is None else before.words
            seen = _versions({**word.known, word.place.cluster: word.version} for word in words)
            register = Register(
                name=name,
                value=text,
                version=max((word.version for word in words), default=0) + 1,
                at_ms=author.at_ms,
                by=author.by,
                where=author.where,
                seen=tuple(LastSeen(cluster, seen[cluster]) for cluster in sorted(seen)),
            )
            new.append(register)
    return tuple(new)


def as_registers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is said where settings change, by the names of their registers."""
    return {f"{SETTINGS}{key}": value for key, value in settings.items()}


def contested(seen: Registers, held: Registers, wanted: Mapping[str, str]) -> Register | None:
    """What somebody else said since these were `seen`, of something that is now `wanted` to have another value, as JSON
    has it.
    """
    known = {register.name: register for register in seen}
    for register in held:
        before = known.get(register.name)
        is_new = before is None or merged((before,), (register,)) != (before,)
        if is_new and wanted.get(register.name, register.value) != register.value:
            return register
    return None


def overruled(registers: Registers) -> tuple[tuple[Statement, Register], ...]:
    """What was said and does not hold, as something else was said apart from it: with what holds instead."""
    return tuple((word, each) for each in registers for word in each.beside if word.value != each.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarable:
    """All that was said of a thing that operators declare, and what it comes to. `KIND` is what people call it."""

    KIND: ClassVar[str]

    name: str
    registers: Registers

    def value(self, name: str, default: Any = None) -> Any:
        """What holds of one register."""
        return next((register.said for register in self.registers if register.name == name), default)

    @property
    def is_deleted(self) -> bool:
        return bool(self.value(DELETED, False))

    @property
    def settings(self) -> Mapping[str, Any]:
        """What differs from the defaults, by dotted key of its section of the file."""
        found = {register.name: register.said for register in self.registers if register.name.startswith(SETTINGS)}
        return {name.removeprefix(SETTINGS): value for name, value in found.items() if value is not None}

    def joined(self, registers: Registers) -> Self:
        """With what was said elsewhere."""
        return replace(self, registers=merged(self.registers, registers))
