"""Schemas of one registry, found by ids and by subjects. Ids never change their meaning: each is asked for once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from isthmus.errors import ConfigError, RegistryRefused
from isthmus.model.cluster import Cluster, SchemaRegistry
from isthmus.model.schemas.content import Schema, SchemaReference
from isthmus.registry.answers import schema_of, strange, subject_path
from isthmus.registry.client import RegistryClient

_NOT_FOUND: Final = 404
"""The first digits of the registry's own numbers for what it does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchema:
    """A schema that records were written with. `referenced` are the schemas that it refers to, each by the name that
    is used for it, those that others need first.
    """

    id: int
    schema: Schema
    referenced: tuple[tuple[str, Schema], ...] = ()


class SchemaBook:
    """The schemas of one registry that were found so far. Close it, or enter it; connections belong to one event loop.

    All methods raise HostError if the extra is not installed, RegistryUnreachable if the registry does not answer, and
    RegistryRefused if it answers with an error.
    """

    _known: Final[dict[tuple[str, str], dict[int, WriterSchema]]] = {}
    """By address and login, as Spark reuses its Python workers: leases follow one another."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._client: RegistryClient | None = None
        self._found = self._known.setdefault((registry.url, registry.username or ""), {})
        self._versions: dict[tuple[str, int], WriterSchema] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def find(self, ids: Iterable[int]) -> Mapping[int, WriterSchema]:
        """Return the schemas of these ids, without those that the registry does not have."""
        found: dict[int, WriterSchema] = {}
        for one in dict.fromkeys(ids):
            if one not in self._found and (schema := await self._ask_id(one)) is not None:
                self._found[one] = schema
            if one in self._found:
                found[one] = self._found[one]
        return found

    async def find_subjects(self, subjects: Collection[str]) -> dict[str, tuple[WriterSchema, ...]]:
        """Return the schemas of subjects in the order of their versions, without deleted ones; none for a subject that
        does not exist.
        """
        return {subject: tuple(await self._find_versions(subject)) for subject in sorted(subjects)}

    async def _find_versions(self, subject: str) -> list[WriterSchema]:
        listed = await self._ask(f"{subject_path(subject)}/versions")
        if listed is None:
            return []
        if not isinstance(listed, list):
            raise strange(self._registry.alias)
        found = [await self._find_version(subject, int(number)) for number in sorted(listed)]
        return [each for each in found if each is not None]

    async def _find_version(self, subject: str, number: int) -> WriterSchema | None:
        if (subject, number) not in self._versions:
            answer = await self._ask(subject_path(subject, number))
            if answer is None:
                # It was deleted in between.
                return None
            schema_id = answer.get("id") if isinstance(answer, dict) else None
            if not isinstance(schema_id, int):
                raise strange(self._registry.alias)
            self._versions[subject, number] = await self._complete(schema_id, answer)
        return self._versions[subject, number]

    async def _ask_id(self, schema_id: int) -> WriterSchema | None:
        answer = await self._ask(f"/schemas/ids/{schema_id}")
        return None if answer is None else await self._complete(schema_id, answer)

    async def _complete(self, schema_id: int, answer: Any) -> WriterSchema:
        """Add what a schema refers to.

        :raises RegistryRefused: What it refers to is not there.
        """
        if not isinstance(answer, dict):
            raise strange(self._registry.alias)
        schema = schema_of(answer, self._registry.alias)
        referenced: dict[str, Schema] = {}
        await self._refer(schema.references, referenced)
        return WriterSchema(id=schema_id, schema=schema, referenced=tuple(referenced.items()))

    async def _refer(self, references: Iterable[SchemaReference], found: dict[str, Schema]) -> None:
        for each in references:
            if each.name not in found:
                # Deleted versions are found as well: a schema that is in use may refer to one.
                answer = await self._ask(subject_path(each.subject, each.version), deleted="true")
                if not isinstance(answer, dict):
                    raise strange(self._registry.alias)
                schema = schema_of(answer, self._registry.alias)
                await self._refer(schema.references, found)
                found[each.name] = schema

    async def _ask(self, path: str, **query: Any) -> Any:
        """Ask the registry; `None` if it says itself that it does not have that. A 404 of anything else in its place (a
        proxy, another path) is no such answer.
        """
        if self._client is None:
            self._client = RegistryClient(self._registry)
        try:
            return await self._client.ask("GET", path, **query)
        except RegistryRefused as refused:
            if refused.code // 100 == _NOT_FOUND:
                return None
            raise


def registry_of(cluster: Cluster) -> SchemaRegistry:
    """Return the registry of a cluster.

    :raises ConfigError: It has none.
    """
    if cluster.schema_registry is None:
        raise ConfigError(
            f"a transform decodes by schemas, and {cluster.alias} has no schema registry",
            field=f"clusters.{cluster.alias}.schema_registry",
            hint=f"Give clusters.{cluster.alias}.schema_registry its url, as producers of {cluster.alias} have it.",
        )
    return cluster.schema_registry


def describe_registry(registry: SchemaRegistry) -> str:
    """Return what people call a registry."""
    return f"the schema registry of {registry.alias} ({registry.url})"
