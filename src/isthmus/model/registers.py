"""Statements of operators on two clusters that may be disconnected, and how to merge them once they are connected.

A declared thing is a set of registers, each with one value and its last author. Each statement carries what its author
had seen of the same register: per cluster, the last statement that was written there first (a version vector). A
statement replaces those that its author had seen, whatever the clocks say, and no others. So of each register those
statements remain that no later author knew; which these are does not depend on the place, order or number of merges (a
state-based CRDT: a map of multi-value registers). If several remain, they were made concurrently: the one that keeps
more consistency is in force (KIP-986: no automatic step gives any up), else the later one; the others are kept `beside`
it until an author who knows them makes a new statement.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self

from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import Hidden, PlainValue, computed_field

RESERVED: Final = "reserved"
DELETED: Final = "deleted"
MODE: Final = "mode"
SETTINGS: Final = "settings/"
ATTACHED: Final = "attached/"
"""The prefix of the registers that hold whether two namespaces are attached."""
_SHOWN_MAX: Final = 80
_OF_OLDER_RELEASES: Final = ""
"""The place of all statements of releases that did not record what their authors had seen."""
_FAITHFUL: Final[Mapping[str, str]] = {RESERVED: "true", DELETED: "false", MODE: '"sync"', ATTACHED: "true"}
"""By register the value that keeps more consistency than any other."""


class LastSeen(NamedTuple):
    """The statements about a register that an author knew: those written to a cluster first, up to this version."""

    cluster: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement(PlainValue):
    """One statement about something declared, when and at which cluster.

    `value` is JSON; `by` is its author, `at_ms` the time by the author's clock, and `where` the id of the cluster whose
    ledger it was written to first.

    `version` is one more than the highest version that its author had `seen` of the same register; statements of older
    releases do not have `seen`, and replaced all of a lower version.
    """

    name: str
    value: Hidden[str]
    version: int
    at_ms: Hidden[int]
    by: str
    where: str
    seen: Hidden[tuple[LastSeen, ...] | None] = None

    @computed_field(before="version")
    def decoded(self) -> Annotated[Any, "value"]:
        """The value, decoded."""
        return json.loads(self.value)

    @property
    def as_news(self) -> str:
        """Describe the statement, its author and its time, for people who do not know it yet."""
        value = f" to {self.value}" if len(self.value) <= _SHOWN_MAX else ""
        return f"{self.by} set {self.name}{value} at {written_instant(self.at_ms)}"

    @property
    def rank(self) -> tuple[bool, int, str, str, str, int]:
        """The rank of concurrent statements: the one of the higher rank is in force."""
        faithful = _FAITHFUL.get(ATTACHED if self.name.startswith(ATTACHED) else self.name)
        return self.value == faithful, self.at_ms, self.where, self.by, self.value, self.version

    @property
    def place(self) -> LastSeen:
        """The version that an author who has seen this statement has seen."""
        return LastSeen(_OF_OLDER_RELEASES if self.seen is None else self.where, self.version)

    @property
    def known(self) -> Mapping[str, int]:
        """The versions that its author had seen, by cluster."""
        return {_OF_OLDER_RELEASES: self.version - 1} if self.seen is None else dict(self.seen)

    @computed_field(before="where")
    def at(self) -> str:
        """When it was made."""
        return written_instant(self.at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Statement):
    """The statement in force about one thing, and `beside` it the concurrent ones that are not; by rank."""

    beside: Hidden[tuple[Statement, ...]] = ()

    @property
    def words(self) -> tuple[Statement, ...]:
        """All statements that remain."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(Statement)}
        return (*self.beside, Statement(**fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of a statement, its time, and the id of the cluster whose ledger it is written to first."""

    by: str
    at_ms: int
    where: str


Registers = tuple[Register, ...]
"""At most one of each name, sorted by name."""


def merge_registers(*versions: Iterable[Register]) -> Registers:
    """Merge all versions. Commutative, associative and idempotent."""
    statements: dict[str, set[Statement]] = {}
    for version in versions:
        for register in version:
            statements.setdefault(register.name, set()).update(register.words)
    return tuple(_merge_statements(statements[name]) for name in sorted(statements))


def _merge_statements(statements: Collection[Statement]) -> Register:
    """Merge all statements about one register."""
    seen = _versions(each.known for each in statements)
    left = (each for each in statements if each.version > seen.get(each.place.cluster, 0))
    *beside, holding = sorted(left, key=lambda each: each.rank)
    fields = {each.name: getattr(holding, each.name) for each in dataclasses.fields(Statement)}
    return Register(**fields, beside=tuple(beside))


def _versions(known: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the highest version of each cluster."""
    found: dict[str, int] = {}
    for each in known:
        for cluster, version in each.items():
            found[cluster] = max(found.get(cluster, 0), version)
    return found


def difference(before: Registers, after: Registers) -> dict[str, list[Any]]:
    """Return the differences of `after`: for each name the value before and the value after, `None`
    if there is none.
    """
    was, now = ({each.name: each.decoded for each in registers} for registers in (before, after))
    names = sorted(was.keys() | now.keys())
    return {name: [was.get(name), now.get(name)] for name in names if was.get(name) != now.get(name)}


def register_text(value: Any) -> str:
    """Return a value as a register holds it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def change_registers(known: Registers, values: Mapping[str, Any], author: Author) -> Registers:
    """Return the registers to write so that these values are in force, after the known ones; none for a value that is
    in force without contradiction.
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
    """Return changed settings as statements, by the names of their registers."""
    return {f"{SETTINGS}{key}": value for key, value in settings.items()}


def find_contested(seen: Registers, held: Registers, wanted: Mapping[str, str]) -> Register | None:
    """Return a register that another author changed since these were `seen`, and that is now `wanted` to have another
    value, as JSON has it.
    """
    known = {register.name: register for register in seen}
    for register in held:
        before = known.get(register.name)
        is_new = before is None or merge_registers((before,), (register,)) != (before,)
        if is_new and wanted.get(register.name, register.value) != register.value:
            return register
    return None


def find_overruled(registers: Registers) -> tuple[tuple[Statement, Register], ...]:
    """Return the statements with another value than the concurrent one in force, each with that one."""
    return tuple((word, each) for each in registers for word in each.beside if word.value != each.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarable:
    """All statements about a thing that operators declare, and their result. `KIND` is its name for people."""

    KIND: ClassVar[str]

    name: str
    registers: Hidden[Registers]

    def value(self, name: str, default: Any = None) -> Any:
        """Return the value in force of one register."""
        return next((register.decoded for register in self.registers if register.name == name), default)

    @computed_field
    def is_deleted(self) -> Annotated[bool, "deleted"]:
        return bool(self.value(DELETED, False))

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that differ from the defaults, by dotted key of their section of the file."""
        found = {register.name: register.decoded for register in self.registers if register.name.startswith(SETTINGS)}
        return {name.removeprefix(SETTINGS): value for name, value in found.items() if value is not None}

    def join(self, registers: Registers) -> Self:
        """Merge with statements from elsewhere."""
        return replace(self, registers=merge_registers(self.registers, registers))
