"""Converts values to JSON and back by their type hints, like pydantic, but without its weight in every executor.

Supports the types that documents use: text, numbers, UUIDs, enums, literals, tuples, named tuples, dataclasses and
`X | None`.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
import uuid
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

_Reviver = Callable[[Any], Any]
"""Builds a value from what `json` read."""


def plain(value: Any) -> Any:
    """Convert a value for `json`. Dataclasses become objects, tuples (named ones too) arrays."""
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


def build_value(hint: Any, value: Any) -> Any:
    """Build the value of type `hint` that `plain` converted to `value`. Unknown fields are ignored.

    :raises ValueError: It is of another type, or null where the hint does not allow it.
    """
    return _reviver(hint)(value)


@cache
def _reviver(hint: Any) -> _Reviver:
    """Return the function that builds values of type `hint`. Cached, as a ledger has thousands of reports."""
    # Only type checkers distinguish a NewType.
    hint = getattr(hint, "__supertype__", hint)
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        revive = _reviver(next(argument for argument in arguments if argument is not types.NoneType))
        return (lambda value: None if value is None else revive(value)) if types.NoneType in arguments else revive
    if typing.get_origin(hint) is typing.Literal:
        return partial(_revived_literal, arguments)
    if typing.get_origin(hint) is tuple:
        if arguments[-1] is Ellipsis:
            revive = _reviver(arguments[0])
            return lambda value: tuple([revive(item) for item in _require_array(value)])
        return _sequence_reviver(tuple, arguments)
    if dataclasses.is_dataclass(hint):
        return partial(_revived_dataclass, hint)
    if issubclass(hint, tuple):
        return _sequence_reviver(partial(_build_named_tuple, hint), tuple(typing.get_type_hints(hint).values()))
    return _leaf_reviver(hint)


def _sequence_reviver(kind: Callable[[Iterable[Any]], Any], members: tuple[Any, ...]) -> _Reviver:
    revivers = [_reviver(member) for member in members]
    return lambda value: kind([revive(item) for revive, item in zip(revivers, _require_array(value), strict=True)])


def _build_named_tuple(kind: Any, items: Iterable[Any]) -> Any:
    return kind(*items)


def _revived_literal(allowed: tuple[Any, ...], value: Any) -> Any:
    # `allowed` is a tuple, not a set: a value that is no text may not be hashable.
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{value!r} is none of {', '.join(allowed)}")
    return value


def _leaf_reviver(hint: Any) -> _Reviver:
    if issubclass(hint, enum.Enum):
        return lambda value: hint(value)
    # In Python a bool is a number, in JSON it is not.
    kinds: tuple[type, ...] = {uuid.UUID: (str,), float: (int, float)}.get(hint, (hint,))
    is_as_written = hint in kinds

    def revive(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
            raise ValueError(f"{type(value).__name__} is written for {hint.__name__}")
        try:
            return value if is_as_written else hint(value)
        except OverflowError as error:
            raise ValueError(f"no {hint.__name__}: {error}") from error

    return revive


def _require_array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"an array is written as {type(value).__name__}")
    return value


def _revived_dataclass(hint: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{hint.__name__} is written as an object, not as {type(value).__name__}")
    try:
        return hint(**{name: revive(value[name]) for name, revive in _fields_of(hint) if name in value})
    except TypeError as error:
        raise ValueError(f"not a {hint.__name__}: {error}") from error


@cache
def _fields_of(kind: type) -> tuple[tuple[str, _Reviver], ...]:
    return tuple([(name, _reviver(hint)) for name, hint in hints(kind).items()])


@cache
def hints(kind: type) -> dict[str, Any]:
    """The init fields of a dataclass with their types."""
    resolved = typing.get_type_hints(kind)
    return {field.name: resolved[field.name] for field in dataclasses.fields(kind) if field.init}
