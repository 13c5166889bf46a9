"""Which names of a cluster are reserved for links, as far as its ledger was heard. Pure."""

from __future__ import annotations

from typing import Final

from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.reservation import CLOSED
from isthmus.model.synchrony import FENCE_S


class ReservedNames:
    """The namespaces of a cluster that are reserved and not closed by access rules: the gateway refuses what those
    would deny (`CLOSED`). Where rules are in force brokers know better, as they know who may.

    `heard_at` (monotonic s) is when the ledger was read last. What was reserved then counts until it is heard
    otherwise.
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
        """Nothing that was heard before is in the ledger any more: it is another one."""
        self._named.clear()
        self._offsets.clear()
        self._sort()

    def take(self, key: str, offset: int, namespace: Namespace | None) -> None:
        """What the record of a ledger says of the namespace that its key names; `None` where it is to be let in.

        Several readers may tell it, in any order: the newest record counts.
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
        """Whether the ledger was heard a moment ago (`now`, monotonic s): else what is reserved may have been released
        meanwhile.
        """
        return now - self.heard_at <= FENCE_S

    def _sort(self) -> None:
        kinds = {each.kind for each in self._named.values()} & CLOSED.keys()
        self.of_kind = {
            kind: tuple(each for each in self._named.values() if each.kind == kind) for kind in sorted(kinds)
        }


NOTHING_RESERVED: Final = ReservedNames()
