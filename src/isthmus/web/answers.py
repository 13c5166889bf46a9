"""The schemas of answers, for openapi.json: made of the types that routes return (`isthmus.model.text.plain`)."""

from __future__ import annotations

import enum
import functools
import inspect
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from fastapi import Depends, FastAPI, Response
from fastapi.routing import APIRoute

from isthmus.errors import InvariantError
from isthmus.model.text.plain import FormMark, has_form, is_list, keys_of, plain, without_none
from isthmus.web.conditions import CHANGING, repeatable

JsonSchema = dict[str, Any]
_RETURNED: Final = "x-returned"
_JSON: Final = "application/json"
_OTHERS: Final = ""
"""Stands for keys that differ from value to value."""
_PLAINLY: Final = "answers_plainly"
"""Set on endpoints that answer with a JSON form: an app that includes a router makes its routes again."""
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
    """A route that is described by its return type, and answers with the JSON form of that value; a route that changes
    something accepts a key for repeated requests.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        hint = get_type_hints(endpoint, include_extras=True)["return"]
        if get_origin(hint) is Annotated and _is_response(get_args(hint)[0]):
            # Annotated[Response, Something]: it makes the response itself, and names the type of the content.
            hint, more["response_model"] = get_args(hint)[1], None
        elif not _is_response(hint):
            endpoint = _answer_plainly(endpoint)
            more["response_model"] = list[dict[str, Any]] if get_origin(hint) in (list, tuple) else dict[str, Any]
        if not _is_response(hint):
            name = f"{endpoint.__module__}.{endpoint.__qualname__}"
            _hints[name] = hint
            more["openapi_extra"] = {_RETURNED: name}
        if CHANGING & {*(more.get("methods") or ())}:
            # An app that includes a router makes its routes again.
            others = [each for each in more.get("dependencies") or () if each.dependency is not repeatable]
            more["dependencies"] = [Depends(repeatable), *others]
        super().__init__(path, endpoint, **more)


def _answer_plainly(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return an endpoint that answers with the JSON form of what this one returns."""
    if _PLAINLY in vars(endpoint):
        return endpoint
    if inspect.iscoroutinefunction(endpoint):

        @functools.wraps(endpoint)
        async def answer(*given: Any, **named: Any) -> Any:
            return plain(await endpoint(*given, **named))
    else:

        @functools.wraps(endpoint)
        def answer(*given: Any, **named: Any) -> Any:
            return plain(endpoint(*given, **named))

    vars(answer)[_PLAINLY] = True
    return answer


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


def _add_schema(kind: Any, components: dict[str, JsonSchema]) -> JsonSchema:
    if not inspect.isclass(kind):
        raise InvariantError(f"there is no schema of {kind}")
    name = vars(kind).get("SCHEMA", kind.__name__)
    if name not in components:
        components[name] = {}
        components[name].update(_enum(kind) if issubclass(kind, enum.Enum) else _object(kind, components))
        if kind.__doc__:
            components[name]["description"] = " ".join(inspect.cleandoc(kind.__doc__).partition("\n\n")[0].split())
    return {"$ref": f"#/components/schemas/{name}"}


def _enum(kind: type[enum.Enum]) -> JsonSchema:
    return {"type": "string", "enum": [str(each) for each in kind]}


def _object(kind: type, components: dict[str, JsonSchema]) -> JsonSchema:
    if not has_form(kind):
        raise InvariantError(f"there is no schema of {kind.__name__}")
    described = {key: (hint, is_required) for key, hint, is_required in _members(kind)}
    is_open = described.pop(_OTHERS, None) is not None
    return {
        "type": "object",
        "properties": {key: schema_of(hint, components) for key, (hint, _) in described.items()},
        "required": [key for key, (_, is_required) in described.items() if is_required],
        **({"additionalProperties": True} if is_open else {}),
    }


def _members(kind: Any, *, is_required: bool = True) -> Iterator[tuple[str, Any, bool]]:
    """Yield the keys of a JSON form with their types, and whether they are always there: those of flat values first."""
    keys = keys_of(kind)
    for each in keys:
        if each.mark is FormMark.FLAT and issubclass(get_origin(each.hint) or type, Mapping):
            yield _OTHERS, None, False
        elif each.mark is FormMark.FLAT:
            yield from _members(
                without_none(each.hint), is_required=is_required and without_none(each.hint) == each.hint
            )
    for each in keys:
        if each.mark is FormMark.EMBEDDED:
            members = _members(without_none(each.hint))
            may_be_null = without_none(each.hint) != each.hint
            for key, hint, is_always in members:
                yield key, hint | None if may_be_null and not is_list(hint) else hint, is_always
        elif each.mark is FormMark.OPTIONAL:
            yield each.key, without_none(each.hint), False
        elif each.mark is None:
            yield each.key, each.hint, is_required
