"""The topics of a cluster that clients must not read yet, as far as its ledger was read. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.gateways import hidden_by
from isthmus.ledger.documents.kinds import DeclarationDocument, Document, ReadableDocument, SynchronizedDocument
from isthmus.model.namespace import Namespace

HIDING: Final = frozenset({DeclarationDocument.KIND, ReadableDocument.KIND, SynchronizedDocument.KIND})
"""The kinds of documents that decide it."""


class HiddenTopics:
    """The topics of a cluster that follow by synchronous links which are SYNCING (KIP-986, footnote 7). They stay
    hidden until the ledger is read otherwise.

    `version` grows with each change. `ids` are those of existing topics, `None` while they have not been asked for:
    share groups name topics by ids alone.
    """

    __slots__ = ("_documents", "_offsets", "ids", "links", "namespaces", "version")

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._offsets: dict[str, int] = {}
        self.links: tuple[str, ...] = ()
        self.namespaces: tuple[Namespace, ...] = ()
        self.version = 0
        self.ids: frozenset[bytes] | None = None

    def __bool__(self) -> bool:
        return bool(self.namespaces)

    def forget(self) -> None:
        """Forget all records, as the ledger was created again."""
        self._documents.clear()
        self._offsets.clear()

    def take(self, key: str, offset: int, document: Document | None) -> None:
        """Take in a record of the ledger, of a kind in `HIDING`; call `settle` after the last one.

        Several readers may call this, in any order: the newest record counts.
        """
        if offset <= self._offsets.get(key, -1):
            return
        self._offsets[key] = offset
        if document is None:
            self._documents.pop(key, None)
        else:
            self._documents[key] = document

    def settle(self, cluster_id: str) -> bool:
        """Apply the records, for the cluster with this id; whether topics are hidden that were not before."""
        before, found = set(self.namespaces), dict[str, tuple[Namespace, ...]]()
        for link in {each.link for each in DeclarationDocument.find_all(self._documents.values())}:
            known = declaration_of(link, self._documents.values())
            if known.is_whole and known.target.cluster_id == cluster_id:
                found[link] = hidden_by(known, self._documents.values())
        self.links = tuple(sorted(link for link, namespaces in found.items() if namespaces))
        self.namespaces = tuple(sorted({each for one in found.values() for each in one}, key=str))
        if before == set(self.namespaces):
            return False
        self.version, self.ids = self.version + 1, None
        return not before >= set(self.namespaces)

    def learn(self, ids: Iterable[bytes]) -> None:
        """Take in the ids of the hidden topics."""
        if (found := frozenset(ids)) != self.ids:
            self.ids, self.version = found, self.version + 1

    def holds(self, name: str | None) -> bool:
        """Whether a topic is hidden."""
        return name is not None and any(each.holds(name) for each in self.namespaces)


NOTHING_HIDDEN: Final = HiddenTopics()
