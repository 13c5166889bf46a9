"""Registries with Confluent's own semantics: a version comes with its id if the mode is IMPORT, and only then."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from isthmus.errors import RegistryRefused, SchemaConflict
from isthmus.model.schemas.content import RegistryContents, SchemaVersion, VersionKey
from isthmus.registry.answers import config_path, registration, strange, subject_path, version_of
from isthmus.registry.client import RegistryClient

_PAGE: Final = 1000
_NOT_FOUND: Final = 404
_NO_METHOD: Final = 405
_NOT_PERMITTED: Final = 42205
_TAKEN: Final = 42207


class ConfluentRegistry:
    """Confluent's registry, and all compatible ones."""

    def __init__(self, client: RegistryClient) -> None:
        self.alias = client.alias
        self._client = client

    async def contents(self) -> RegistryContents:
        """Return all its present content, of its default context."""
        # A version registered in between is in the second list, one deleted in between was in the first.
        listed = await self._list_versions(deleted="true")
        active = await self._list_versions(deleted="false")
        versions = {key: replace(each, is_deleted=key not in active) for key, each in {**listed, **active}.items()}
        subjects = sorted({subject for subject, _ in versions})
        levels = await asyncio.gather(*(self._compatibility(subject) for subject in subjects))
        mode = await self._client.ask("GET", "/mode", missing=(_NOT_FOUND, _NO_METHOD))
        return RegistryContents(
            versions=versions,
            compatibility={subject: level for subject, level in zip(subjects, levels, strict=True) if level},
            default_compatibility=await self._compatibility(None),
            mode=mode["mode"] if isinstance(mode, dict) else None,
        )

    async def set_mode(self, mode: str) -> None:
        """Set the mode of the whole registry, even if it has subjects."""
        try:
            await self._client.ask("PUT", "/mode", body={"mode": mode})
        except RegistryRefused as refused:
            if refused.code != _NOT_PERMITTED:
                raise
            await self._client.ask("PUT", "/mode", body={"mode": mode}, force="true")

    async def register(self, version: SchemaVersion) -> None:
        """Import a version."""
        path = f"{subject_path(version.subject)}/versions"
        try:
            answer = await self._client.ask("POST", path, body=registration(version))
        except RegistryRefused as refused:
            raise self._explain_refusal(refused, version) from refused
        made = answer.get("id") if isinstance(answer, dict) else None
        if made != version.id:
            raise SchemaConflict(
                f"{version} is id {version.id}, and {self.alias} made it {made}",
                hint="The registry does not keep ids: see docs/schemas.md for those that do.",
            )

    def _explain_refusal(self, refused: RegistryRefused, version: SchemaVersion) -> Exception:
        if refused.code == _TAKEN:
            return SchemaConflict(f"{version} cannot have id {version.id} at {self.alias}: {refused.message}")
        if refused.code == _NOT_PERMITTED:
            mode = f"/mode/{version.subject}"
            refused.hint = f"If the subject has a mode of its own there, take it back: DELETE {mode}."
        return refused

    async def restore(self, version: SchemaVersion) -> None:
        """Import a version again: that undoes its soft deletion."""
        await self.register(version)

    async def delete(self, version: SchemaVersion, *, for_good: bool) -> None:
        """Delete a version softly, and a second time if for good."""
        path = subject_path(version.subject, version.version)
        await self._client.ask("DELETE", path, missing=(_NOT_FOUND,))
        if for_good:
            await self._client.ask("DELETE", path, missing=(_NOT_FOUND,), permanent="true")

    async def set_compatibility(self, subject: str | None, level: str | None) -> None:
        """Set a level, or remove that of a subject."""
        if level is None:
            await self._client.ask("DELETE", config_path(subject), missing=(_NOT_FOUND,))
        else:
            await self._client.ask("PUT", config_path(subject), body={"compatibility": level})

    async def _compatibility(self, subject: str | None) -> str | None:
        answer = await self._client.ask("GET", config_path(subject), missing=(_NOT_FOUND,))
        if answer is None:
            return None
        if not isinstance(answer, dict):
            raise strange(self.alias)
        return answer.get("compatibilityLevel")

    async def _list_versions(self, deleted: str) -> dict[VersionKey, SchemaVersion]:
        found: dict[VersionKey, SchemaVersion] = {}
        offset = 0
        while True:
            page: Any = await self._client.ask("GET", "/schemas", offset=offset, limit=_PAGE, deleted=deleted)
            if not isinstance(page, list):
                raise strange(self.alias)
            versions = [version_of(each, self.alias) for each in page]
            is_new = any(each.key not in found for each in versions)
            found.update({each.key: each for each in versions})
            offset += len(page)
            # A registry without pages returns the whole list again and again.
            if not is_new:
                return found
