"""The base classes of all documents of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The base of all documents: a kind, and a `key` that names it within the ledger."""

    KIND: ClassVar[str] = ""

    @property
    def key(self) -> str:
        return self.key_of(*self._path())

    def _path(self) -> tuple[str, ...]:
        return ()

    @classmethod
    def key_of(cls, *path: str) -> str:
        """The key of the document of this kind with this path; that of a document of a link begins with its name."""
        return "/".join([cls.KIND, *path])

    @classmethod
    def find(cls, documents: Mapping[str, Document], *path: str) -> Self | None:
        """Find the document of this kind with this path, as in `key_of`, among documents by key."""
        found = documents.get(cls.key_of(*path))
        return found if isinstance(found, cls) else None

    @classmethod
    def find_all(cls, documents: Iterable[Document]) -> list[Self]:
        """Find all documents of this kind, in the order of `documents`."""
        return [each for each in documents if isinstance(each, cls)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOfLink(Document):
    """The base of documents of a link: its name follows the kind in the key."""

    link: str

    @property
    def key(self) -> str:
        return self.key_of(self.link, *self._path())

    @classmethod
    def find_all(cls, documents: Iterable[Document], link: str | None = None) -> list[Self]:
        """Find all documents of this kind, of one link or all, in the order of `documents`."""
        return [each for each in documents if isinstance(each, cls) and link in (None, each.link)]
