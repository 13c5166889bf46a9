"""Apicurio 3, whose compatible API numbers schemas itself: their texts are imported with their ids first.

A registration finds the existing text, and uses its id. So ids stay, and everything else is done in the ordinary way,
including the newest version of a subject, which an import of versions does not set. A subject that its own API cannot
create is created by the compatible one. Missing numbers among the versions of a subject are used once and deleted for
good.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from isthmus.errors import RegistryRefused, SchemaConflict
from isthmus.model.schemas.content import RegistryContents, Schema, SchemaReference, SchemaVersion, VersionKey
from isthmus.registry.answers import config_path, content_of, strange, subject_path
from isthmus.registry.client import RegistryClient

_COMPATIBLE: Final = "/apis/ccompat/"
_OWN: Final = "/apis/registry/v3"
_PAGE: Final = 500
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_RULES_BROKEN: Final = frozenset({409, 422})
_TYPES: Final = frozenset({"AVRO", "JSON", "PROTOBUF"})
_DISABLED: Final = "DISABLED"
_DRAFT: Final = "DRAFT"
_KEPT: Final = {
    "Content-Type": "application/zip",
    "X-Registry-Preserve-GlobalId": "true",
    "X-Registry-Preserve-ContentId": "true",
}
_NONE: Final = "NONE"
SeenSchemas = MutableMapping[tuple[int, int, str], Schema]
"""By content id, by the version that was found with it, and by its creation time: no other schema has all of these."""


def is_apicurio(url: str) -> bool:
    """Return whether an address is that of Apicurio's compatible API."""
    return _COMPATIBLE in f"{urlsplit(url).path}/"


class ApicurioRegistry:
    """Apicurio's registry, by its compatible API and its own."""

    def __init__(self, client: RegistryClient, seen: SeenSchemas) -> None:
        self.alias = client.alias
        self._client = client
        self._seen = seen
        self._own = client.url.partition(_COMPATIBLE)[0] + _OWN

    @classmethod
    async def detect(cls, client: RegistryClient, seen: SeenSchemas) -> ApicurioRegistry:
        """Return the registry, if it is one that keeps ids.

        :raises RegistryRefused: It is older.
        """
        registry = cls(client, seen)
        answer = await client.ask("GET", f"{registry._own}/system/info", missing=(_NOT_FOUND,))
        if not isinstance(answer, dict) or "version" not in answer:
            raise RegistryRefused(
                f"the schema registry of {client.alias} is an Apicurio without its API of version 3",
                status=_NOT_FOUND,
                cluster=client.alias,
                hint="Ids are kept by Apicurio 3 and newer: upgrade it.",
            )
        return registry

    async def contents(self) -> RegistryContents:
        """Return all its present content, of the default group and of the kinds that the compatible API has."""
        rows = [row for row in await self._rows() if _is_compatible(row)]
        ids = {int(row["contentId"]): row for row in reversed(rows)}
        texts = dict(zip(ids, await asyncio.gather(*map(self._text, ids.values())), strict=True))
        versions: dict[VersionKey, SchemaVersion] = {}
        for row in rows:
            found = SchemaVersion(
                subject=row["artifactId"],
                version=int(row["version"]),
                id=int(row["contentId"]),
                schema=texts[int(row["contentId"])],
                is_deleted=row["state"] == _DISABLED,
            )
            versions[found.key] = found
        subjects = sorted({subject for subject, _ in versions})
        levels = await asyncio.gather(*map(self._level, subjects))
        default = await self._client.ask("GET", config_path(None))
        return RegistryContents(
            versions=versions,
            compatibility={subject: level for subject, level in zip(subjects, levels, strict=True) if level},
            default_compatibility=default.get("compatibilityLevel"),
        )

    async def set_mode(self, mode: str) -> None:
        """Do nothing: it has no modes."""

    async def register(self, version: SchemaVersion) -> None:
        """Import the text under its id if it is not there, then register it under the version's number."""
        schema = await self._with_id(version)
        numbers = await self._numbers(version.subject)
        if numbers is not None and version.version in numbers:
            return
        missing = range(max(numbers or (0,)) + 1, version.version)
        for number in missing:
            numbers = await self._add(version, number, schema, is_first=numbers is None)
        await self._add(version, version.version, schema, is_first=numbers is None)
        for number in missing:
            await self._delete(version.subject, number, for_good=True)

    async def restore(self, version: SchemaVersion) -> None:
        """Restore a version that was deleted softly."""
        path = f"{self._artifact(version.subject)}/versions/{version.version}/state"
        await self._client.ask("PUT", path, body={"state": "ENABLED"})

    async def delete(self, version: SchemaVersion, *, for_good: bool) -> None:
        """Delete a version softly, and a second time if for good."""
        await self._delete(version.subject, version.version, for_good=for_good)

    async def set_compatibility(self, subject: str | None, level: str | None) -> None:
        """Set a level, or remove that of a subject."""
        if level is None:
            await self._client.ask("DELETE", config_path(subject), missing=(_NOT_FOUND,))
        else:
            await self._client.ask("PUT", config_path(subject), body={"compatibility": level})

    async def _rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = await self._client.ask(
                "GET", f"{self._own}/search/versions", limit=_PAGE, offset=len(found), orderby="globalId", order="asc"
            )
            if not isinstance(page, dict) or not isinstance(page.get("versions"), list):
                raise strange(self.alias)
            found.extend(page["versions"])
            if len(page["versions"]) < _PAGE:
                return found

    async def _text(self, row: Mapping[str, Any]) -> Schema:
        key = int(row["contentId"]), int(row["globalId"]), str(row["createdOn"])
        if key not in self._seen:
            found = await self._fetch_schema(key[0], row["artifactType"])
            if found is None:
                raise strange(self.alias)
            self._seen[key] = found
        return self._seen[key]

    async def _level(self, subject: str) -> str | None:
        answer = await self._client.ask("GET", f"{self._artifact(subject)}/rules/COMPATIBILITY", missing=(_NOT_FOUND,))
        return None if answer is None else answer.get("config")

    async def _with_id(self, version: SchemaVersion) -> Schema:
        """Return the schema as the registry has it under the id of the version, imported if it was not there.

        :raises SchemaConflict: Another one has the id, or this one has another.
        """
        there = await self._fetch_schema(version.id, version.schema.type)
        if there is None:
            await self._client.ask(
                "POST",
                f"{self._own}/admin/import",
                content=_archive(version),
                headers=_KEPT,
                requireEmptyRegistry="false",
            )
            there = await self._fetch_schema(version.id, version.schema.type)
        if there is None:
            raise SchemaConflict(
                f"{version} is id {version.id}, and {self.alias} knows its schema under another id",
                hint="Another client registered it there: begin with an empty registry.",
            )
        if not there.is_like(version.schema):
            raise SchemaConflict(
                f"id {version.id}, which {version} is to have, is that of another schema at {self.alias}, which no "
                "subject has any more",
                hint="Begin with an empty registry: this one has used ids that the primary gives to others.",
            )
        return there

    async def _fetch_schema(self, content_id: int, kind: str) -> Schema | None:
        """Fetch the schema of an id. The compatible API would look for the kind in the text, and may fail."""
        path = f"{self._own}/ids/contentIds/{content_id}"
        text = await self._client.ask("GET", path, missing=(_NOT_FOUND,), is_text=True)
        if text is None:
            return None
        answer = await self._client.ask("GET", f"{path}/references")
        references = (SchemaReference(one["name"], one["artifactId"], int(one["version"])) for one in answer or ())
        return Schema(text=text, type=kind, references=tuple(references))

    async def _numbers(self, subject: str) -> set[int] | None:
        """Return the numbers of a subject's versions, `None` if there is no such subject."""
        path = f"{self._artifact(subject)}/versions"
        found: list[dict[str, Any]] = []
        while True:
            page = await self._client.ask("GET", path, limit=_PAGE, offset=len(found), missing=(_NOT_FOUND,))
            if page is None:
                return None
            found.extend(page["versions"])
            if len(page["versions"]) < _PAGE:
                return {int(row["version"]) for row in found if str(row["version"]).isdecimal()}

    async def _add(self, version: SchemaVersion, number: int, schema: Schema, *, is_first: bool) -> set[int]:
        """Create one version of a subject; return the numbers that certainly exist now."""
        try:
            answer = await self._post_version(version.subject, number, schema, is_first=is_first)
        except RegistryRefused as refused:
            if refused.status not in _RULES_BROKEN or is_first:
                raise
            # The primary accepted it by the rules that it had then.
            before = await self._level(version.subject)
            await self.set_compatibility(version.subject, _NONE)
            try:
                answer = await self._post_version(version.subject, number, schema, is_first=False)
            finally:
                await self.set_compatibility(version.subject, before)
        made = answer.get("version", answer) if isinstance(answer.get("version"), dict) else answer
        if int(made["contentId"]) != version.id:
            await self._delete(version.subject, number, for_good=True)
            raise SchemaConflict(
                f"{version} is id {version.id}, and {self.alias} made it {made['contentId']}",
                hint="Begin with an empty registry.",
            )
        return {number}

    async def _post_version(self, subject: str, number: int, schema: Schema, *, is_first: bool) -> dict[str, Any]:
        media = "application/x-protobuf" if schema.type == "PROTOBUF" else "application/json"
        new = {
            "version": str(number),
            "content": {"content": schema.text, "contentType": media, "references": _references(schema)},
        }
        if is_first:
            body = {"artifactId": subject, "artifactType": schema.type, "firstVersion": new}
            try:
                answer = await self._client.ask("POST", f"{self._own}/groups/default/artifacts", body=body)
            except RegistryRefused as refused:
                if refused.status != _BAD_REQUEST or number != 1:
                    raise
                return await self._begin_subject(subject, schema)
        else:
            answer = await self._client.ask("POST", f"{self._artifact(subject)}/versions", body=new)
        if not isinstance(answer, dict):
            raise strange(self.alias)
        return answer

    async def _begin_subject(self, subject: str, schema: Schema) -> dict[str, Any]:
        """Create a subject that its own API cannot, as one with % or a letter that is not of ASCII: version 1 by the
        compatible API. All later versions use its own.
        """
        path = f"{subject_path(subject)}/versions"
        answer = await self._client.ask("POST", path, body=content_of(schema))
        if not isinstance(answer, dict) or "id" not in answer:
            raise strange(self.alias)
        return {"contentId": answer["id"]}

    async def _delete(self, subject: str, number: int, *, for_good: bool) -> None:
        path = subject_path(subject, number)
        await self._client.ask("DELETE", path, missing=(_NOT_FOUND,))
        if for_good:
            await self._client.ask("DELETE", path, missing=(_NOT_FOUND,), permanent="true")

    def _artifact(self, subject: str) -> str:
        return f"{self._own}/groups/default/artifacts/{quote(subject, safe='')}"


def _is_compatible(row: Mapping[str, Any]) -> bool:
    """Return whether the compatible API has it: it knows one group, three kinds of schemas, and whole numbers."""
    return (
        row.get("groupId") in (None, "default")
        and row.get("artifactType") in _TYPES
        and row.get("state") != _DRAFT
        and str(row.get("version")).isdecimal()
    )


def _references(schema: Schema) -> list[dict[str, Any]]:
    return [
        {"groupId": None, "artifactId": one.subject, "version": str(one.version), "name": one.name}
        for one in schema.references
    ]


def _archive(version: SchemaVersion) -> bytes:
    """Return a text under its id, in the form of Apicurio's own exports."""
    schema = version.schema
    text = schema.text.encode()
    references = json.dumps(_references(schema), separators=(",", ":")) if schema.references else None
    digest = hashlib.sha256(text + (references or "").encode()).hexdigest()
    manifest = {
        "systemVersion": "3.0.9",
        "systemName": "Isthmus",
        "systemDescription": "",
        "exportVersion": "3.0",
        "exportedOn": int(time.time() * 1000),
        "exportedBy": "",
        "dbVersion": "101",
    }
    content = {
        "contentId": version.id,
        "canonicalHash": None,
        "contentHash": digest,
        "artifactType": schema.type,
        "contentType": "application/x-protobuf" if schema.type == "PROTOBUF" else "application/json",
        "serializedReferences": references,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest-isthmus.Manifest.json", json.dumps(manifest))
        archive.writestr(f"content/{digest}.Content.json", json.dumps(content))
        archive.writestr(f"content/{digest}.Content.data", text)
    return packed.getvalue()
