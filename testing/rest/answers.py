"""Answers held against docs/openapi.json by a validator that knows nothing of us."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

OPENAPI: Final = Path(__file__).parents[2] / "docs" / "openapi.json"


@cache
def described() -> dict[str, Any]:
    """The description, where no object may have keys that it does not name; clients have to expect more."""
    found: dict[str, Any] = json.loads(OPENAPI.read_text())
    for schema in found["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return found


def check_value(component: str, value: object) -> None:
    """See that something is as a component says, once it is JSON."""
    _check({"$ref": f"#/components/schemas/{component}"}, json.loads(json.dumps(value)))


def check_answer(method: str, path: str, status: int, media_type: str, text: str) -> None:
    """See that an answer is as the description of its path says; what has no path there is not looked at."""
    found = (verbs.get(method.lower()) for pattern, verbs in _paths() if pattern.fullmatch(path))
    operation = next(found, None)
    media_type = media_type.partition(";")[0]
    if operation is None or not media_type.endswith("json"):
        return
    responses = operation["responses"]
    told = responses.get(str(status)) or responses[f"{status // 100}XX"]
    assert media_type in told["content"], f"{method} {path} answered {status} with {media_type}"
    _check(told["content"][media_type]["schema"], json.loads(text))


@cache
def _paths() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """From those that name most to those that name least."""
    paths = sorted(described()["paths"].items(), key=lambda each: (each[0].count("{"), -len(each[0])))
    return [(re.compile(_pattern(path)), verbs) for path, verbs in paths]


def _pattern(path: str) -> str:
    parts = re.split(r"(\{\w+\})", path)
    written = {"{namespace}": ".+"}
    return "".join(written.get(part, "[^/]+") if part.startswith("{") else re.escape(part) for part in parts)


def _check(schema: dict[str, Any], value: object) -> None:
    found = next(_validator(json.dumps(schema)).iter_errors(value), None)
    assert found is None, f"{found.json_path}: {found.message}" if found else ""


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(schema), "components": described()["components"]})
