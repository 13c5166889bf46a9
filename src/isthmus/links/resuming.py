"""The namespaces of a verb; repeated, it continues with those that it let go of itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from isthmus.access.enforcement import made_rules
from isthmus.errors import PlanRefused
from isthmus.memory.declared import Declared
from isthmus.model.links.declaration import Declaration, attachment
from isthmus.model.links.promotion import Verb
from isthmus.model.namespace import NamespaceMap
from isthmus.model.registers import ATTACHED, RESERVED, merge_registers

_OPTION: Final = {"topic": "--map", "group": "--group-map", "principal": "--principal-map"}


def is_reversed(declared: Declared, known: Declaration, link: str) -> bool:
    """Whether this link was reversed completely, by a new one of the name `link`, whatever happened to that one."""
    own, back = known.let_go_by("reverse"), declared.links.get(link)
    if not known.is_deleted or not own or back is None:
        return False
    return all(each.reversed in (*back.maps, *back.detached) for each in own)


def not_let_go(verb: Verb, known: Declaration, others: Iterable[NamespaceMap]) -> PlanRefused:
    """Return the error that a verb without namespaces has none: it did not detach those that are reserved."""
    if verb == "reverse":
        return PlanRefused(
            f"link {known.name} attaches nothing that could be reversed, and no reversal of it was begun",
            hint="isthmus link create makes the way back, for the namespaces that it is to have.",
        )
    return PlanRefused(
        f"link {known.name} attaches nothing, and it was no {verb} that detached the namespaces that are still "
        "reserved",
        hint=f"Name the namespaces that are meant. Reserved are: {options_of(others)}",
    )


def options_of(maps: Iterable[NamespaceMap]) -> str:
    """Return these namespaces as options of a command."""
    return " ".join(f"{'--map-exact' if each.source.is_exact else _OPTION[each.kind]} {each}" for each in maps)


def reserved_still(
    declared: Declared, known: Declaration, detached: Iterable[NamespaceMap]
) -> tuple[NamespaceMap, ...]:
    """Return those of the namespaces that were not completely released."""
    alias = declared.alias_of(known.target)
    reserved = {
        document.namespace
        for document in declared.namespaces.get(alias or "", {}).values()
        if any(register.name == RESERVED and register.decoded for register in document.registers)
        or made_rules(document.registers)
    }
    return tuple(each for each in detached if each.target in reserved)


def attaching(known: Declaration, chosen: Collection[NamespaceMap]) -> Declaration:
    """Return the link as if it attached just these."""
    others = tuple(register for register in known.registers if not register.name.startswith(ATTACHED))
    wanted = {attachment(each) for each in chosen}
    ever = (register for register in known.registers if register.name in wanted)
    attached = tuple(replace(register, value="true", beside=()) for register in ever)
    return Declaration(name=known.name, registers=merge_registers(others, attached))
