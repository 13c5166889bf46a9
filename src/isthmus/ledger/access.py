"""Which access rules Isthmus made, as the ledger remembers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.document import DocumentOfLink
from isthmus.model.access import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDocument(DocumentOfLink):
    """A rule at the target that the link created, for what was called `origin` at the source.

    Without `is_certain` it was about to be created or deleted, and what came of it is not known. Without a document
    no rule is ever deleted. It `is_unwanted` if the link's source has it no more, and it stays for another link.
    """

    KIND: ClassVar[str] = "access"

    rule: Rule
    origin: str
    is_certain: bool
    is_unwanted: bool = False

    def _path(self) -> tuple[str, ...]:
        return (self.rule.digest,)
