"""Documents of moves of gateways' clients to another cluster, in the ledgers of both clusters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from isthmus.ledger.documents.document import Document
from isthmus.model.gateways.carriedtransactions import CarriedTransaction
from isthmus.model.gateways.moves import MoveStep
from isthmus.model.process.whereabouts import UNKNOWN, Whereabouts


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDocument(Document):
    """A move of clients of the cluster with the id `source` to the one with the id `target`, with a link's topics.

    `move` is the id of this command, which repeats the document with another `beat` while it fences gateways. Clients
    have moved `stay` times once it is done; `first_node` is the id of the broker of the first port then. The aliases
    are those of the command's configuration. `is_lost` means that the source was not asked.
    """

    KIND: ClassVar[str] = "move"

    source: str
    source_alias: str
    target: str
    target_alias: str
    link: str
    move: str
    step: MoveStep
    stay: int
    first_node: int
    by: str
    since_ms: int
    beat: int = 0
    is_lost: bool = False

    def _path(self) -> tuple[str, ...]:
        return (f"@{self.source}",)


@dataclass(slots=True)
class MovesAway:
    """The moves away from a cluster, decided by its ledger alone, read in order. The first document that ends a move
    counts: clients are served from the other cluster, or stay where they were. Later documents of a move that has
    ended, or was replaced by another one, do not count.
    """

    latest: MoveDocument | None = None
    """The last document that counts."""
    _ended: set[str] = field(default_factory=set)

    def take(self, document: MoveDocument) -> bool:
        """Take the next document. Return whether it counts."""
        known = self.latest
        if document.move in self._ended or (
            known is not None and known.step is MoveStep.SERVE and document.stay <= known.stay
        ):
            return False
        if known is not None and known.move != document.move:
            self._ended.add(known.move)
        if document.step is MoveStep.OFF:
            self._ended.add(document.move)
        self.latest = document
        return True

    def has_ended(self, move: str) -> bool:
        """Whether clients stay where they were, or another move has replaced this one."""
        return move in self._ended

    def is_decided(self, move: str) -> bool:
        """Whether clients are served from the other cluster by this move."""
        return self.latest is not None and (self.latest.move, self.latest.step) == (move, MoveStep.SERVE)


def arrived_by(cluster_id: str, served: Iterable[MoveDocument]) -> MoveDocument | None:
    """Find the move that brought the clients of a gateway of this cluster to where they are now, among all `served`
    ones; `None` if they have never moved. A return of clients cancels the moves away before it.
    """
    moves = sorted(served, key=lambda each: each.stay)
    found = next((each for each in reversed(moves) if each.target == cluster_id), None)
    here = cluster_id
    for each in moves:
        if each.source == here and (found is None or each.stay > found.stay):
            found, here = each, each.target
    return found


class CommonPart(NamedTuple):
    """The offset up to which a partition is the same at both clusters, and its leader epoch at the clients' new
    cluster, -1 if unknown.
    """

    partition: int
    end: int
    epoch: int


class CarriedRow(NamedTuple):
    """The state of a producer that the leader of a partition kept at the clients' former cluster."""

    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedDocument(Document):
    """The state of a topic at the cluster `source` that clients came from, at their `stay`. Many producers take several
    documents, numbered by `part`.
    """

    KIND: ClassVar[str] = "carried"

    source: str
    stay: int
    topic: str
    part: int = 0
    common: tuple[CommonPart, ...] = ()
    producers: tuple[CarriedRow, ...] = ()

    def _path(self) -> tuple[str, ...]:
        return (f"@{self.source}", self.topic, str(self.part))


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedTransactionsDocument(Document):
    """The last transactions at the cluster `source` that clients came from, at their `stay`; and those `here`, of the
    same transactional ids, as clients came. Many take several documents, numbered by `part`.
    """

    KIND: ClassVar[str] = "carried-transactions"

    source: str
    stay: int
    part: int = 0
    transactions: tuple[CarriedTransaction, ...] = ()
    here: tuple[CarriedTransaction, ...] = ()

    def _path(self) -> tuple[str, ...]:
        return (f"@{self.source}", str(self.part))


@dataclass(frozen=True, slots=True, kw_only=True)
class MovableGatewayDocument(Document):
    """A gateway that follows moves in the ledger, written every few seconds with another `beat`, and deleted when it
    ends in good order. It serves the cluster with the id `serves`, at `ports` ports; its clients have moved `stay`
    times to get there.

    For the newest `move` it reports whether it accepts no more requests and has all answers (`is_drained`), whose
    answers it waits for, and whether it serves clients from the other cluster (`is_serving`). With `keeps_reserved` it
    refuses clients operations that only links may do; with `hides` clients cannot read topics of synchronous links that
    are SYNCING. `host_id`, `pid` and `process_start` are as in `Whereabouts`. It `lacks` a login, at the cluster of
    this ledger, for clients with certificates by these patterns.
    """

    KIND: ClassVar[str] = "movable-gateway"

    gateway: str
    described: str
    serves: str
    ports: int
    beat: int = 0
    move: str = ""
    is_drained: bool = False
    is_serving: bool = False
    waits_for: tuple[str, ...] = ()
    keeps_reserved: bool = False
    hides: bool = False
    stay: int = 0
    lacks: tuple[str, ...] = ()
    host_id: str = ""
    pid: int = 0
    process_start: int = UNKNOWN

    @property
    def whereabouts(self) -> Whereabouts:
        """The process of the gateway."""
        return Whereabouts(host_id=self.host_id, pid=self.pid, process_start=self.process_start)

    def _path(self) -> tuple[str, ...]:
        return (self.gateway,)
