"""Comparison of schema texts: some registries store a text as given, others rewrite it."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
# Strings come first: a text within one may look like a comment.
_TOKEN: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|//[^\n]*|/\*.*?\*/|[\w.]+|[^\w\s]", re.DOTALL)


@lru_cache(maxsize=8192)
def normal_form(kind: str, text: str) -> str:
    """Return a form that texts of the same schema share; for a text that cannot be read, the text itself.

    Names of Avro are full ones; white space, comments and the order of keys do not count.
    """
    if kind == "PROTOBUF":
        tokens = (token for token in _TOKEN.findall(text) if not token.startswith(("//", "/*")))
        return " ".join(f'"{token[1:-1]}"' if token[0] == "'" else token for token in tokens)
    try:
        value = json.loads(text)
        return json.dumps(_avro(value, "") if kind == "AVRO" else value, sort_keys=True)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return text


def _avro(value: Any, namespace: str) -> Any:
    if isinstance(value, str):
        return value if value in _PRIMITIVES else _full(value, namespace)
    if isinstance(value, list):
        return [_avro(each, namespace) for each in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if not isinstance(kind, str) or set(value) == {"type"}:
        # {"type": "string"} is "string", and a type may be wrapped more than once.
        return _avro(kind, namespace) if set(value) == {"type"} else _with(value, namespace, type=kind)
    return _complex(kind, value, namespace)


def _complex(kind: str, value: dict[str, Any], namespace: str) -> dict[str, Any]:
    if kind in _NAMED and isinstance(value.get("name"), str):
        full = _full(value["name"], value.get("namespace", namespace) or "")
        inner = full.rpartition(".")[0]
        found = {key: each for key, each in value.items() if key != "namespace"} | {"name": full}
        if "aliases" in value:
            found["aliases"] = [_full(each, inner) for each in value["aliases"]]
        if "fields" in value:
            found["fields"] = [_with(each, inner, type=each.get("type")) for each in value["fields"]]
        return found
    held = {key: value[key] for key in ("items", "values") if key in value}
    found = _with(value, namespace, **held)
    return found if kind in _PRIMITIVES or held else {**found, "type": _full(kind, namespace)}


def _with(value: dict[str, Any], namespace: str, **types: Any) -> dict[str, Any]:
    return {**value, **{key: _avro(each, namespace) for key, each in types.items()}}


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
