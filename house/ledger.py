"""How documents of the ledger are found: by their kinds, which make their keys as well, or by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import pairwise, starmap
from typing import Final

from house.source import Module

_LEDGER: Final = "isthmus.ledger."
_KINDS: Final = "isthmus.ledger.documents."


def find_filters(modules: Iterable[Module]) -> list[str]:
    """Where `isinstance` asks for the kind of a document, outside the room of the ledger."""
    given = list(modules)
    kinds = {
        node.name
        for module in given
        if module.name.startswith(_KINDS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    return [
        f"{module.path}:{call.lineno}"
        for module in given
        if not module.name.startswith(_LEDGER)
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "isinstance"
        if kinds & {node.id for node in ast.walk(call.args[1]) if isinstance(node, ast.Name)}
    ]


def find_keys(modules: Iterable[Module]) -> list[str]:
    """Where a key is put together from a kind, but for the base class of all documents."""
    return [
        f"{module.path}:{line}"
        for module in modules
        if module.name != f"{_KINDS}document"
        for line in find_made_keys(module.tree)
    ]


def find_made_keys(tree: ast.AST) -> list[int]:
    """The lines where a slash follows a `KIND` in a text, or `join` is given one."""
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    joined = (call for call in calls if ast.unparse(call.func).endswith(".join") and _has_kind(call))
    written = (text for text in texts if any(starmap(_begins_path, pairwise(text.values))))
    return [node.lineno for node in (*written, *joined)]


def _begins_path(part: ast.expr, then: ast.expr) -> bool:
    return _has_kind(part) and isinstance(then, ast.Constant) and str(then.value).startswith("/")


def _has_kind(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "KIND" for node in ast.walk(tree))
