"""A running lane: the values that it consists of, and who assigns what is in them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from house.source import Module

RUN: Final = "LaneRun"
_PACKAGE: Final = "isthmus.engine"
_LANES: Final = frozenset({"run", "each", "former"})
_CHANGING: Final = (
    *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert"),
    *("pop", "popitem", "popleft", "remove", "setdefault", "update"),
)


@dataclass(frozen=True)
class Value:
    """A class of which a lane consists.

    Attributes:
        name: Its own.
        module: Its home, which alone may assign its fields.
        fields: All attributes that it assigns.
        is_frozen: Whether none is assigned later, as of a tuple.
    """

    name: str
    module: Module
    fields: frozenset[str]
    is_frozen: bool


def find_values(modules: Iterable[Module]) -> dict[str, Value]:
    """`LaneRun` and the classes of its package that its fields name, and theirs, by name."""
    classes = {
        node.name: (module, node)
        for module in modules
        if module.name.startswith(f"{_PACKAGE}.")
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }
    found: dict[str, Value] = {}
    names = [RUN]
    while names:
        name = names.pop()
        if name in classes and name not in found:
            module, node = classes[name]
            found[name] = Value(name, module, frozenset(_list_fields(node)), _is_frozen(node))
            names += _list_named(node)
    return found


def _list_fields(node: ast.ClassDef) -> Iterator[str]:
    """The fields of a dataclass, and what methods assign of `self`."""
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id
    for target in _find_assigned(node):
        if isinstance(target, ast.Attribute) and _is_self(target.value):
            yield target.attr


def _is_frozen(node: ast.ClassDef) -> bool:
    marks = [ast.unparse(each) for each in (*node.bases, *node.decorator_list)]
    return any(mark == "NamedTuple" or "frozen=True" in mark for mark in marks)


def _list_named(node: ast.ClassDef) -> list[str]:
    """The names in the annotations of its fields."""
    annotations = [each.annotation for each in ast.walk(node) if isinstance(each, ast.AnnAssign)]
    return [name.id for annotation in annotations for name in ast.walk(annotation) if isinstance(name, ast.Name)]


def find_assignments(modules: Iterable[Module], values: Mapping[str, Value]) -> dict[str, list[str]]:
    """Where a field of a value is assigned or changed in another module than its own: places by module.

    Both are known by their names: a field by that of one in any value, and the object by that of a lane, of a variable
    for lanes in a loop, or of a value in a lane or in another value.
    """
    homes: dict[str, set[str]] = {}
    for value in values.values():
        for name in () if value.is_frozen else value.fields:
            homes.setdefault(name, set()).add(value.module.name)
    owners = _LANES.union(*(value.fields for value in values.values()))
    found: dict[str, list[str]] = {}
    for module in modules:
        if not module.name.startswith(_PACKAGE):
            continue
        for target in find_changed(module.tree):
            if _name(target.value) in owners and module.name not in homes.get(target.attr, {module.name}):
                found.setdefault(module.name, []).append(f"{module.path}:{target.lineno} {ast.unparse(target)}")
    return found


def find_changed(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that are assigned, or whose contents are."""
    for target in _find_assigned(tree):
        inner = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(inner, ast.Attribute):
            yield inner
    for node in ast.walk(tree):
        function = node.func if isinstance(node, ast.Call) else None
        if not isinstance(function, ast.Attribute) or function.attr not in _CHANGING:
            continue
        if isinstance(function.value, ast.Attribute):
            yield function.value


def _find_assigned(tree: ast.AST) -> Iterator[ast.expr]:
    """What is assigned or deleted, in tuples too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


def _name(node: ast.expr) -> str:
    """The last name of an object: `writer` of `run.writer`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
