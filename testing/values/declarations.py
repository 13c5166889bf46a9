"""A tree as a file declares it."""

from __future__ import annotations

from isthmus.model.registers import SETTINGS, Author, change_registers
from isthmus.model.text.plain import plain
from isthmus.model.trees.tree import node_of
from isthmus.model.trees.treedeclaration import CLUSTERS, MEMBERS, TreeDeclaration

ROOT = node_of([["a", "b"], "c"])

SAID = {
    CLUSTERS: plain(ROOT),
    MEMBERS: {"a": "A", "b": "B", "c": "C"},
    f"{SETTINGS}topics": ["x.*"],
    f"{SETTINGS}flags": "header",
    f"{SETTINGS}header.name": "f",
    f"{SETTINGS}margin_s": None,
}

DECLARATION = TreeDeclaration(name="t", registers=change_registers((), SAID, Author(by="anna", at_ms=5, where="A")))
