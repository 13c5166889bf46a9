"""Documents of the schemas that the target's registry holds, for waiting lanes, and of those distributed to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.documents.document import Document, DocumentOfLink
from isthmus.model.schemas.content import DistributedVersion
from isthmus.model.schemas.gate import NO_SCHEMAS, IdRange, SchemaIds


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIdsDocument(DocumentOfLink):
    """The schema ids that the target's registry holds: lanes of gated topics wait for other ids."""

    KIND: ClassVar[str] = "schemas"

    ranges: tuple[IdRange, ...] = ()

    @property
    def ids(self) -> SchemaIds:
        return SchemaIds(self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedSchemaDocument(Document):
    """The versions of a subject that this cluster's registry and the primary one have both had: only these are ever
    deleted for good.
    """

    KIND: ClassVar[str] = "distributed-schema"

    subject: str
    versions: tuple[DistributedVersion, ...]

    def _path(self) -> tuple[str, ...]:
        return (self.subject,)


def known_schemas(link: str, documents: Mapping[str, Document]) -> SchemaIds:
    """The ids that the registry of a link's target holds, as its controller last stored them."""
    found = SchemaIdsDocument.find(documents, link)
    return NO_SCHEMAS if found is None else found.ids
