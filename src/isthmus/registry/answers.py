"""The answers and requests of schema registries, as values and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from isthmus.errors import RegistryRefused
from isthmus.model.schemas.content import AVRO, Schema, SchemaReference, SchemaVersion

_T = TypeVar("_T")


def subject_path(subject: str, version: int | None = None) -> str:
    """Return the path of a subject, or of one of its versions; names may contain anything."""
    path = f"/subjects/{quote(subject, safe='')}"
    return path if version is None else f"{path}/versions/{version}"


def config_path(subject: str | None) -> str:
    """Return the path of the compatibility of a subject, or of the default."""
    return "/config" if subject is None else f"/config/{quote(subject, safe='')}"


def schema_of(given: Any, alias: str) -> Schema:
    """Return the schema in an answer.

    :raises RegistryRefused: It has another form.
    """
    references = _have(given, alias).get("references") or []
    return Schema(
        text=_text(given, "schema", alias),
        type=_text(given, "schemaType", alias) if given.get("schemaType") else AVRO,
        references=tuple(
            SchemaReference(_text(one, "name", alias), _text(one, "subject", alias), number_of(one, "version", alias))
            for one in list_of(references, dict, alias)
        ),
    )


def version_of(given: Any, alias: str) -> SchemaVersion:
    """Return the version in an answer.

    :raises RegistryRefused: It has another form.
    """
    return SchemaVersion(
        subject=_text(given, "subject", alias),
        version=number_of(given, "version", alias),
        id=number_of(given, "id", alias),
        schema=schema_of(given, alias),
    )


def list_of(given: Any, kind: type[_T], alias: str) -> list[_T]:
    """Return an answer that is a list of things of one kind.

    :raises RegistryRefused: It is not.
    """
    if not isinstance(given, list) or not all(type(each) is kind for each in given):
        raise strange(alias)
    return given


def number_of(given: Any, name: str, alias: str) -> int:
    """Return a number in an answer; some registries write it as a text.

    :raises RegistryRefused: It is not there, or none.
    """
    found = _have(given, alias).get(name)
    if type(found) is int:
        return found
    if isinstance(found, str) and found.isascii() and found.isdecimal():
        return int(found)
    raise strange(alias)


def _text(given: Any, name: str, alias: str) -> str:
    found = _have(given, alias).get(name)
    if not isinstance(found, str):
        raise strange(alias)
    return found


def _have(given: Any, alias: str) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise strange(alias)
    return given


def registration(version: SchemaVersion) -> dict[str, Any]:
    """Return the body that registers a version, its id and number included."""
    return {**content_of(version.schema), "id": version.id, "version": version.version}


def content_of(schema: Schema) -> dict[str, Any]:
    """Return the body that registers a schema for which the registry chooses id and number."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != AVRO:
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ]
    return body


def strange(alias: str) -> RegistryRefused:
    """Return the error for an answer that is not one of a schema registry."""
    return RegistryRefused(
        f"the schema registry of {alias} answers in a form that is not known",
        status=200,
        cluster=alias,
        hint=f"See clusters.{alias}.schema_registry.url: it has to lead to the API of a schema registry.",
    )
