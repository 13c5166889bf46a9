"""What all documents of the ledger have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What all documents share: they belong to a link, and `key` names them within the ledger."""

    KIND: ClassVar[str] = ""

    link: str

    @property
    def key(self) -> str:
        return "/".join([self.KIND, self.link, *self._path()])

    def _path(self) -> tuple[str, ...]:
        return ()
