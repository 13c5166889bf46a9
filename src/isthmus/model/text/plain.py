"""Values as JSON has them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from isthmus.model.problem import Problem, problem_dict

OwnFields = Annotated[dict[str, Any], "the fields of the value"]
"""The return type of an `as_dict` that has all fields under their own names: the descriptions of answers use it."""


def plain(value: object) -> Any:
    """Return a value as JSON has it: its own `as_dict`, if it has one; lists for tuples and sets, strings for enums,
    the fields by name for other values, and null for `None`.
    """
    if value is None or isinstance(value, (str, int, float)):
        return str(value) if isinstance(value, enum.Enum) else value
    if isinstance(value, Problem):
        return problem_dict(value)
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if hasattr(value, "_fields") or dataclasses.is_dataclass(value):
        return plain_fields(value)
    if isinstance(value, Collection):
        return [plain(each) for each in value]
    return str(value)


def plain_fields(value: Any) -> OwnFields:
    """Return all fields of a dataclass or a named tuple under their own names, in their order: for an `as_dict` without
    other fields.
    """
    names = value._fields if hasattr(value, "_fields") else [field.name for field in dataclasses.fields(value)]
    return {name: plain(getattr(value, name)) for name in names}
