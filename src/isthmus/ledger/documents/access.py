"""Documents of the access rules that Isthmus created."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.model.kafka.access import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDocument(DocumentOfLink):
    """A rule at the target that the link created, for the resource named `origin` at the source.

    Without `is_certain` it was about to be created or deleted, with unknown result. A rule without a document is never
    deleted. It `is_unwanted` if the link's source does not have it any more, and it stays for another link.
    """

    KIND: ClassVar[str] = "access"

    rule: Rule
    origin: str
    is_certain: bool
    is_unwanted: bool = False

    def _path(self) -> tuple[str, ...]:
        return (self.rule.digest,)
