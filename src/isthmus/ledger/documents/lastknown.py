"""Documents about another cluster, as it was last seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.documents.document import Document, DocumentOfLink
from isthmus.model.links.lastknown import KnownCluster, KnownNames


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownClusterDocument(Document):
    """Another cluster as it was last seen. It belongs to no link: the link that saw it last overwrites it."""

    KIND: ClassVar[str] = "known"

    cluster: KnownCluster

    def _path(self) -> tuple[str, ...]:
        return (f"@{self.cluster.cluster_id}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNamesDocument(DocumentOfLink):
    """The names that another cluster had in the namespaces of a link when it was last seen."""

    KIND: ClassVar[str] = "known-names"

    names: KnownNames

    def _path(self) -> tuple[str, ...]:
        return (f"@{self.names.cluster_id}",)
