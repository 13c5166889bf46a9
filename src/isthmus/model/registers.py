"""What operators may say on two clusters that cannot hear each other, and what it comes to once they can.

A declared thing is a set of registers, each with one value and who said it last. Two versions are merged register by
register, by one total order: so it does not matter who merges, in which order or how often, and no side loses what the
other one said of something else (a state-based CRDT: a map of last-writer-wins registers).

A version counts what its author had seen: who changes version 3 writes version 4, whatever the clocks say. Two of the
same version were said apart from each other. Then the value that keeps more consistency holds (KIP-986: no automatic
step gives any up), else the later one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

from isthmus.model.instant import written_instant

RESERVED: Final = "reserved"
DELETED: Final = "deleted"
MODE: Final = "mode"
SETTINGS: Final = "settings/"
ATTACHED: Final = "attached/"
"""What the registers begin with that say whether two namespaces are attached."""
_SHOWN_MAX: Final = 80
_FAITHFUL: Final[Mapping[str, str]] = {RESERVED: "true", DELETED: "false", MODE: '"sync"', ATTACHED: "true"}
"""By register the value that keeps more consistency than any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """One thing that is said. `value` is JSON; `by` is whoever said it, `at_ms` when by their clock, and `where` the id
    of the cluster whose ledger it was written to first.
    """

    name: str
    value: str
    version: int
    at_ms: int
    by: str
    where: str

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
    def rank(self) -> tuple[int, bool, int, str, str, str]:
        """Of two registers of one name the one of the higher rank holds."""
        faithful = _FAITHFUL.get(ATTACHED if self.name.startswith(ATTACHED) else self.name)
        return self.version, self.value == faithful, self.at_ms, self.where, self.by, self.value

    def as_dict(self) -> dict[str, Any]:
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
class Author:
    """Who says something, when, and to which cluster's ledger first (its id)."""

    by: str
    at_ms: int
    where: str


Registers = tuple[Register, ...]
"""At most one of each name, sorted by name."""


def merged(*versions: Iterable[Register]) -> Registers:
    """What all versions come to. Commutative, associative and idempotent."""
    held: dict[str, Register] = {}
    for version in versions:
        for register in version:
            known = held.get(register.name)
            if known is None or register.rank > known.rank:
                held[register.name] = register
    return tuple(held[name] for name in sorted(held))


def difference(before: Registers, after: Registers) -> dict[str, list[Any]]:
    """What is said otherwise in `after`: of each name the value before and that after, `None` where there is none."""
    was, now = ({each.name: each.said for each in registers} for registers in (before, after))
    names = sorted(was.keys() | now.keys())
    return {name: [was.get(name), now.get(name)] for name in names if was.get(name) != now.get(name)}


def register_text(value: Any) -> str:
    """A value as a register holds it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def changed(known: Registers, values: Mapping[str, Any], author: Author) -> Registers:
    """The registers that have to be written so that these values hold, after what is known; none for what holds."""
    held = {register.name: register for register in known}
    new = []
    for name, value in sorted(values.items()):
        text = register_text(value)
        before = held.get(name)
        if before is None or before.value != text:
            version = 1 if before is None else before.version + 1
            register = Register(
                name=name, value=text, version=version, at_ms=author.at_ms, by=author.by, where=author.where
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
        is_new = before is None or register.rank > before.rank
        if is_new and wanted.get(register.name, register.value) != register.value:
            return register
    return None


def overruled(known: Registers, holding: Registers) -> tuple[tuple[Register, Register], ...]:
    """Where something that was said apart from each other differed: what was said here, and what holds instead."""
    by_name = {register.name: register for register in holding}
    pairs = ((register, by_name[register.name]) for register in known if register.name in by_name)
    return tuple((own, other) for own, other in pairs if own.version == other.version and own.value != other.value)


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
