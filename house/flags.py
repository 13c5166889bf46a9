"""State that is spread over a room: events that tasks wait for, and attributes that are true or false."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

_NAMES: Final = ("is", "has", "had", "was", "may", "can", "must")
"""The first words of names of attributes that are true or false."""


def find_events(tree: ast.AST) -> Iterator[ast.Call]:
    """Where an `asyncio.Event` is made."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return (call for call in calls if ast.unparse(call.func) == "asyncio.Event")


def find_flags(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that are assigned and true or false, by their name or by what is assigned."""
    for target, value in _find_assigned(tree):
        if isinstance(target, ast.Attribute) and (_names_flag(target.attr) or _is_flag(value)):
            yield target


def _find_assigned(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of an assignment with its value, one by one where both are tuples."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
            yield node.target, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pair(target, node.value)


def _pair(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if not isinstance(target, ast.Tuple):
        yield target, value
    elif isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield from ((each, value) for each in target.elts)


def _names_flag(name: str) -> bool:
    return name.lstrip("_").split("_")[0] in _NAMES


def _is_flag(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool)
