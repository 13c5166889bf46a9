"""What all documents of the ledger have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What all documents share: a kind, and a `key` that names them within the ledger."""

    KIND: ClassVar[str] = ""

    @property
    def key(self) -> str:
        return "/".join([self.KIND, *self._path()])

    def _path(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOfLink(Document):
    """What documents of a link share: its name follows the kind in their keys."""

    link: str

    @property
    def key(self) -> str:
        return "/".join([self.KIND, self.link, *self._path()])
