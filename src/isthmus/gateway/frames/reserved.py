"""The names of a cluster that are reserved for links, as far as its ledger was read. Pure."""

from __future__ import annotations

from typing import Final

from isthmus.model.gateways.synchrony import FENCE_S
from isthmus.model.links.reservation import CLOSED
from isthmus.model.namespace import Namespace, NamespaceKind


class ReservedNames:
    """The namespaces of a cluster that are reserved and not closed by access rules: the gateway refuses the operations
    that rules would deny (`CLOSED`). Where rules are in force brokers refuse them, as they know the principals.

    `heard_at` (monotonic s) is when the ledger was read last. Names stay reserved until it is read otherwise.
    """

    __slots__ = ("_named", "_offsets", "heard_at", "of_kind")

    def __init__(self) -> None:
        self._named: dict[str, Namespace] = {}
        self._offsets: dict[str, int] = {}
        self.of_kind: dict[str, tuple[Namespace, ...]] = {}
        self.heard_at = float("inf")

    def __bool__(self) -> bool:
        return bool(self._named)

    def forget(self) -> None:
        """Forget all records, as the ledger was created again."""
        self._named.clear()
        self._offsets.clear()
        self._sort()

    def take(self, key: str, offset: int, namespace: Namespace | None) -> None:
        """Take in a record of the ledger: `namespace` is reserved, or, if it is `None`, the one of this key is not.

        Several readers may call this, in any order: the newest record counts.
        """
        if offset <= self._offsets.get(key, -1):
            return
        self._offsets[key] = offset
        if namespace is None:
            self._named.pop(key, None)
        else:
            self._named[key] = namespace
        self._sort()

    def holds(self, kind: NamespaceKind, name: str | None) -> bool:
        """Whether a name is reserved."""
        return name is not None and any(each.holds(name) for each in self.of_kind.get(kind, ()))

    def is_sure(self, now: float) -> bool:
        """Whether the ledger was read a moment ago (`now`, monotonic s); else names may have been released since."""
        return now - self.heard_at <= FENCE_S

    def _sort(self) -> None:
        kinds = {each.kind for each in self._named.values()} & CLOSED.keys()
        self.of_kind = {
            kind: tuple(each for each in self._named.values() if each.kind == kind) for kind in sorted(kinds)
        }


NOTHING_RESERVED: Final = ReservedNames()
