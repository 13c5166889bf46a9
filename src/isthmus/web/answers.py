"""The schemas of answers, for openapi.json: made of the types that routes return, and of those that values have as
JSON.

An `as_dict` declares its keys by its type, which the type checker compares with the value that it returns: by a
TypedDict, `SomethingJson`, or by `OwnFields`, the fields of the value itself. None of this runs when a route answers.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
from collections.abc import Callable, Collection, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from fastapi import Depends, FastAPI, Response
from fastapi.routing import APIRoute

from isthmus.errors import InvariantError
from isthmus.model.problem import Problem, ProblemJson
from isthmus.model.text.plain import OwnFields
from isthmus.web.conditions import CHANGING, repeatable

JsonSchema = dict[str, Any]
_SUFFIX: Final = "Json"
_RETURNED: Final = "x-returned"
_JSON: Final = "application/json"
_PLAIN: Final[Mapping[object, JsonSchema]] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
}
_hints: dict[str, Any] = {}
"""The return types of routes, by module and name of each: the same in every app."""


class AnswerRoute(APIRoute):
    """A route that is described by its return type, and answers with that value unchanged; a route that changes
    something accepts a key for repeated requests.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        hint = get_type_hints(endpoint, include_extras=True)["return"]
        if get_origin(hint) is Annotated and _is_response(get_args(hint)[0]):
            # Annotated[Response, SomethingJson]: it makes the response itself, and names the type of the content.
            hint, more["response_model"] = get_args(hint)[1], None
        elif not _is_response(hint):
            more["response_model"] = list[dict[str, Any]] if get_origin(hint) is list else dict[str, Any]
        if not _is_response(hint):
            name = f"{endpoint.__module__}.{endpoint.__qualname__}"
            _hints[name] = hint
            more["openapi_extra"] = {_RETURNED: name}
        if CHANGING & {*(more.get("methods") or ())}:
            # An app that includes a router makes its routes again.
            others = [each for each in more.get("dependencies") or () if each.dependency is not repeatable]
            more["dependencies"] = [Depends(repeatable), *others]
        super().__init__(path, endpoint, **more)


def _is_response(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, Response)


class DescribedApp(FastAPI):
    """An app whose description contains the schemas of its answers. `others` are types that it answers with in another
    way, as data of events, and problems.
    """

    def __init__(self, *, others: Collection[type], **more: Any) -> None:
        self._others = others
        super().__init__(**more)

    def openapi(self) -> dict[str, Any]:
        """Return the description, made at the first request."""
        if self.openapi_schema is None:
            described = super().openapi()
            components = described["components"]["schemas"]
            for each in self._others:
                schema_of(each, components)
            for path in described["paths"].values():
                for operation in path.values():
                    if _RETURNED in operation:
                        _describe(operation, schema_of(_hints[operation.pop(_RETURNED)], components))
        return dict(self.openapi_schema or {})


def _describe(operation: dict[str, Any], schema: JsonSchema) -> None:
    for status, response in operation["responses"].items():
        if status.startswith("2") or _JSON in response.get("content", {}):
            response["content"] = {_JSON: {"schema": schema}}


def schema_of(hint: Any, components: dict[str, JsonSchema]) -> JsonSchema:
    """Return the JSON schema of this type in plain form (`model/text/plain.py`); a named type is added to `components`.

    :raises InvariantError: It is of no kind that answers have.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        # Plain values of another type: ... means that there are other keys as well.
        return _add_schema(arguments[1], components, is_open=Ellipsis in arguments)
    if origin is NotRequired:
        return schema_of(arguments[0], components)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(each, components) for each in arguments]}
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], components)}
    if origin is tuple and Ellipsis not in arguments:
        return {"type": "array", "prefixItems": [schema_of(each, components) for each in arguments]}
    if inspect.isclass(origin) and issubclass(origin, Collection):
        return {"type": "array", "items": schema_of(arguments[0], components)}
    if isinstance(hint, NewType):
        return schema_of(hint.__supertype__, components)
    return dict(_PLAIN[hint]) if hint in _PLAIN else _add_schema(hint, components)


def _add_schema(kind: Any, components: dict[str, JsonSchema], *, is_open: bool = False) -> JsonSchema:
    if kind is Problem:
        kind = ProblemJson
    elif not is_typeddict(kind) and hasattr(kind, "as_dict"):
        hint = get_type_hints(kind.as_dict, include_extras=True)["return"]
        if hint != OwnFields:
            return schema_of(hint, components)
    if not inspect.isclass(kind):
        raise InvariantError(f"there is no schema of {kind}")
    name = kind.__name__.removesuffix(_SUFFIX)
    if name not in components:
        components[name] = {}
        components[name].update(_enum(kind) if issubclass(kind, enum.Enum) else _object(kind, components))
        if is_open:
            components[name]["additionalProperties"] = True
        if kind.__doc__:
            components[name]["description"] = " ".join(inspect.cleandoc(kind.__doc__).partition("\n\n")[0].split())
    return {"$ref": f"#/components/schemas/{name}"}


def _enum(kind: type[enum.Enum]) -> JsonSchema:
    return {"type": "string", "enum": [str(each) for each in kind]}


def _object(kind: type, components: dict[str, JsonSchema]) -> JsonSchema:
    hints = get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        hints = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    elif not (is_typeddict(kind) or hasattr(kind, "_fields")):
        raise InvariantError(f"there is no schema of {kind.__name__}")
    return {
        "type": "object",
        "properties": {name: schema_of(hint, components) for name, hint in hints.items()},
        "required": [name for name, hint in hints.items() if get_origin(hint) is not NotRequired],
    }
