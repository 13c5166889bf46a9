"""Clients of gateways that move to another cluster, as the ledgers of both clusters have it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from isthmus.ledger.document import Document
from isthmus.model.carriedtransactions import CarriedTransaction
from isthmus.model.moves import MoveStep
from isthmus.model.whereabouts import UNKNOWN, Whereabouts


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDocument(Document):
    """That clients of the cluster with the id `source` move to the one with the id `target`, with the topics of a link.

    `move` is an id of this command, which writes the document again and again with another `beat` as long as it fences
    gateways. Clients have moved `stay` times once it is done; `first_node` is the id of the broker that the first port
    stands for then. Aliases are those of whoever gives the command. `is_lost` says that nobody asked the source.
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
    """What the ledger of a cluster says, read in order, of clients that leave it: it alone decides what becomes of a
    move. The first word that ends one counts: clients are served from the other cluster, or go on where they were. What
    is said later of a move that has ended, or whose place another one has taken, does not.
    """

    latest: MoveDocument | None = None
    """The last word that counts."""
    _ended: set[str] = field(default_factory=set)

    def take(self, document: MoveDocument) -> bool:
        """Whether the next document counts."""
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
        """Whether clients go on where they were, or another move has taken the place of this one."""
        return move in self._ended

    def is_decided(self, move: str) -> bool:
        """Whether clients are served from the other cluster by this move."""
        return self.latest is not None and (self.latest.move, self.latest.step) == (move, MoveStep.SERVE)


def arrived_by(cluster_id: str, served: Iterable[MoveDocument]) -> MoveDocument | None:
    """The move by which the clients of a gateway of this cluster are where they are now, of all that were `served`;
    `None` if they have never moved. A cluster that clients have come back to is not left any more.
    """
    moves = sorted(served, key=lambda each: each.stay)
    found = next((each for each in reversed(moves) if each.target == cluster_id), None)
    here = cluster_id
    for each in moves:
        if each.source == here and (found is None or each.stay > found.stay):
            found, here = each, each.target
    return found


class CommonPart(NamedTuple):
    """Up to which offset a partition is the same at both clusters, and the leader epoch that it has where clients go
    to, -1 if unknown.
    """

    partition: int
    end: int
    epoch: int


class CarriedRow(NamedTuple):
    """What the leader of a partition knew of a producer where clients came from."""

    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedDocument(Document):
    """What is known of a topic at the cluster `source` that clients came from, at their `stay`. Many producers take
    several documents, numbered by `part`.
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
    """A gateway that does what the ledger says of clients that move, written every few seconds with another `beat`, and
    deleted when it ends in good order. It serves the cluster with the id `serves`, at `ports` ports; its clients have
    moved `stay` times until they came there.

    Of the newest `move` it says whether it takes no more requests and has all answers (`is_drained`), for whose it
    waits, and whether it serves clients from the other cluster (`is_serving`). One that `keeps_reserved` names refuses
    clients what only links may do there; one that `hides` has nobody read topics of synchronous links that are SYNCING.
    What tells its process from all others is as in `Whereabouts`.
    Clients with certificates by these patterns it `lacks` a login for at the cluster in whose ledger this stands.
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
        """Which process it is."""
        return Whereabouts(host_id=self.host_id, pid=self.pid, process_start=self.process_start)

    def _path(self) -> tuple[str, ...]:
        return (self.gateway,)
