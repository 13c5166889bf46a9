"""Values to JSON and back, led by their type hints: what pydantic would do, without its weight in every executor.

Known are what documents are made of: text, numbers, UUIDs, enums, literals, tuples, named tuples, dataclasses and
`X | None`.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any


def plain(value: Any) -> Any:
    """A value as what `json` writes. Dataclasses become objects, tuples (named ones too) arrays."""
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, tuple | list | frozenset):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field: plain(getattr(value, field)) for field in hints(type(value))}
    raise TypeError(f"{type(value).__name__} has no place in the ledger")


def revived(hint: Any, value: Any) -> Any:
    """The value of type `hint` that `plain` made `value` of. Fields nobody knows any more are left out.

    :raises ValueError: It is none: of another type, or null where that says nothing.
    """
    # A NewType is told apart by type checkers alone.
    hint = getattr(hint, "__supertype__", hint)
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        if value is None and types.NoneType in arguments:
            return None
        return revived(next(argument for argument in arguments if argument is not types.NoneType), value)
    if typing.get_origin(hint) is typing.Literal:
        return _revived_literal(arguments, value)
    if typing.get_origin(hint) is tuple:
        items = _array(value)
        if arguments[-1] is Ellipsis:
            return tuple(revived(arguments[0], item) for item in items)
        return tuple(revived(argument, item) for argument, item in zip(arguments, items, strict=True))
    if dataclasses.is_dataclass(hint):
        return _revived_dataclass(hint, value)
    if issubclass(hint, tuple):
        named = typing.get_type_hints(hint).values()
        return hint(*(revived(argument, item) for argument, item in zip(named, _array(value), strict=True)))
    return _revived_leaf(hint, value)


def _revived_literal(allowed: tuple[Any, ...], value: Any) -> Any:
    # In a list, not a set: what is no text may not be hashable.
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{value!r} is none of {', '.join(allowed)}")
    return value


def _revived_leaf(hint: Any, value: Any) -> Any:
    if issubclass(hint, enum.Enum):
        return hint(value)
    # A truth value is a number to Python alone.
    kinds: tuple[type, ...] = {uuid.UUID: (str,), float: (int, float)}.get(hint, (hint,))
    if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{type(value).__name__} is written for {hint.__name__}")
    try:
        return value if hint in kinds else hint(value)
    except OverflowError as error:
        raise ValueError(f"no {hint.__name__}: {error}") from error


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"an array is written as {type(value).__name__}")
    return value


def _revived_dataclass(hint: Any, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{hint.__name__} is written as an object, not as {type(value).__name__}")
    try:
        return hint(**{name: revived(field, value[name]) for name, field in hints(hint).items() if name in value})
    except TypeError as error:
        raise ValueError(f"not a {hint.__name__}: {error}") from error


@cache
def hints(kind: type) -> dict[str, Any]:
    """The fields of a dataclass with their types."""
    resolved = typing.get_type_hints(kind)
    return {field.name: resolved[field.name] for field in dataclasses.fields(kind) if field.init}
