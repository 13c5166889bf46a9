"""The answers and requests of schema registries, as values and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from isthmus.errors import RegistryRefused
from isthmus.model.schemas.content import AVRO, Schema, SchemaReference, SchemaVersion


def subject_path(subject: str, version: int | None = None) -> str:
    """Return the path of a subject, or of one of its versions; names may contain anything."""
    path = f"/subjects/{quote(subject, safe='')}"
    return path if version is None else f"{path}/versions/{version}"


def config_path(subject: str | None) -> str:
    """Return the path of the compatibility of a subject, or of the default."""
    return "/config" if subject is None else f"/config/{quote(subject, safe='')}"


def schema_of(given: Mapping[str, Any], alias: str) -> Schema:
    """Return the schema in an answer.

    :raises RegistryRefused: It has another form.
    """
    try:
        references = given.get("references") or ()
        return Schema(
            text=given["schema"],
            type=given.get("schemaType") or AVRO,
            references=tuple(SchemaReference(one["name"], one["subject"], int(one["version"])) for one in references),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise strange(alias) from error


def version_of(given: Mapping[str, Any], alias: str) -> SchemaVersion:
    """Return the version in an answer.

    :raises RegistryRefused: It has another form.
    """
    schema = schema_of(given, alias)
    try:
        return SchemaVersion(
            subject=given["subject"], version=int(given["version"]), id=int(given["id"]), schema=schema
        )
    except (KeyError, TypeError, ValueError) as error:
        raise strange(alias) from error


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
