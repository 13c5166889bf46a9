"""The base classes of all documents of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The base of all documents: a kind, and a `key` that names it within the ledger."""

    KIND: ClassVar[str] = ""

    @property
    def key(self) -> str:
        return "/".join([self.KIND, *self._path()])

    def _path(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOfLink(Document):
    """The base of documents of a link: its name follows the kind in the key."""

    link: str

    @property
    def key(self) -> str:
        return "/".join([self.KIND, self.link, *self._path()])
