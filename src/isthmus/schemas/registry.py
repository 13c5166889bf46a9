"""The interface of every schema registry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from isthmus.model.cluster import SchemaRegistry
from isthmus.model.schemas.content import RegistryContents, SchemaVersion
from isthmus.registry.client import RegistryClient
from isthmus.schemas.apicurio import ApicurioRegistry, SeenSchemas, is_apicurio
from isthmus.schemas.confluent import ConfluentRegistry


class SchemaStore(Protocol):
    """One registry. Each kind stores ids and versions in its own way.

    Every method raises RegistryUnreachable if it does not answer, RegistryRefused if it answers with an error.
    """

    alias: str

    async def contents(self) -> RegistryContents:
        """Return its whole present content."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Make it accept writes of people (READWRITE) or versions with ids (IMPORT), if it has modes."""
        ...

    async def register(self, version: SchemaVersion) -> None:
        """Register a version, under its id. An existing one stays.

        :raises SchemaConflict: The id has another schema there, or the schema another id.
        """
        ...

    async def restore(self, version: SchemaVersion) -> None:
        """Undo a soft deletion."""
        ...

    async def delete(self, version: SchemaVersion, *, for_good: bool) -> None:
        """Delete a version softly, or for good. A missing one is no error."""
        ...

    async def set_compatibility(self, subject: str | None, level: str | None) -> None:
        """Set the level of a subject, or the default for those that have none; `None` removes that of a subject."""
        ...


@asynccontextmanager
async def open_registry(registry: SchemaRegistry, seen: SeenSchemas | None = None) -> AsyncIterator[SchemaStore]:
    """Open the registry, whose kind its address and its answers show. `seen` avoids fetching known texts again.

    :raises HostError: The extra is not installed.
    :raises ClusterError: A PEM file cannot be used.
    :raises RegistryUnreachable: It does not answer.
    :raises RegistryRefused: It is of a kind that cannot keep ids.
    """
    async with RegistryClient(registry) as client:
        if is_apicurio(registry.url):
            yield await ApicurioRegistry.detect(client, {} if seen is None else seen)
        else:
            yield ConfluentRegistry(client)
