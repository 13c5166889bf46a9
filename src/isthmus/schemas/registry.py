"""A schema registry, whichever it is: what all of them can be asked and told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from isthmus.model.cluster import SchemaRegistry
from isthmus.model.schemas import RegistryContents, SchemaVersion
from isthmus.schemas.apicurio import ApicurioRegistry, SeenSchemas, is_apicurio
from isthmus.schemas.client import RegistryClient
from isthmus.schemas.confluent import ConfluentRegistry


class SchemaStore(Protocol):
    """One registry. How ids and versions are kept is its own matter.

    Every method raises RegistryUnreachable where it does not answer, RegistryRefused where it answers with an error.
    """

    alias: str

    async def contents(self) -> RegistryContents:
        """All that it holds now."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Have it take what people write (READWRITE) or what comes with ids (IMPORT), where it knows modes."""
        ...

    async def register(self, version: SchemaVersion) -> None:
        """Put a version there, under its id. One that is there already stays.

        :raises SchemaConflict: The id has another schema there, or the schema another id.
        """
        ...

    async def restore(self, version: SchemaVersion) -> None:
        """Take a soft deletion back."""
        ...

    async def delete(self, version: SchemaVersion, *, for_good: bool) -> None:
        """Delete a version softly, or for good. One that is gone already is no error."""
        ...

    async def set_compatibility(self, subject: str | None, level: str | None) -> None:
        """Set the level of a subject, or the default for those that have none; `None` takes that of a subject back."""
        ...


@asynccontextmanager
async def opened(registry: SchemaRegistry, seen: SeenSchemas | None = None) -> AsyncIterator[SchemaStore]:
    """The registry, found out by its address and its answers. `seen` saves asking again for texts.

    :raises HostError: The extra is not installed.
    :raises ClusterError: A PEM file cannot be used.
    :raises RegistryUnreachable: It does not answer.
    :raises RegistryRefused: It is of a kind that cannot keep ids.
    """
    async with RegistryClient(registry) as client:
        if is_apicurio(registry.url):
            yield await ApicurioRegistry.found(client, {} if seen is None else seen)
        else:
            yield ConfluentRegistry(client)
