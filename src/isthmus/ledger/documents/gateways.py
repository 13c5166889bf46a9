"""Documents of gateways, in the ledger of the cluster that they serve.

Gateways are not fenced: each has keys of its own, and writes what it is about to do before it acts. Its state of a
synchronous link is copied to the link's target, for commands that cannot reach the source any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple

from isthmus.ledger.documents.document import Document, DocumentOfLink
from isthmus.model.gateways.prepared import PreparedCommit
from isthmus.model.gateways.registered import GatewayPlaces
from isthmus.model.gateways.synchrony import SYNC, FirstUnheld, OutOfSync, SyncState, SyncWord
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.promotion import Promised
from isthmus.model.namespace import Namespace
from isthmus.model.process.whereabouts import UNKNOWN, Whereabouts

_PART_DIGITS: Final = 16


class HeldForLink(NamedTuple):
    """The number of answers that a gateway holds for a link, and the age (ms) of the oldest."""

    link: str
    answers: int
    oldest_ms: int


class RefusedCount(NamedTuple):
    """The number of connections that a gateway has closed for a reason (`Refusal`) since it started."""

    reason: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDocument(Document):
    """A process of a gateway, by the id of this start; it is alive while `beat` grows. `ports` are its first and last
    port, and `advertised` is the address of the first for clients. `host`, `host_id`, `pid` and `process_start` are as
    in `Whereabouts`. With `has_ended` it has stopped: it wrote that itself because some of its answers were not proven
    yet, or an operator did.

    The first port is that of the broker `first_node`, -1 where brokers have names or an older release wrote it.

    The command with the pid `command` (0 where an older release wrote it) has `processes` processes. The other fields
    are counts of the process at this beat: its connections, held answers and refused connections.
    """

    KIND: ClassVar[str] = "gateway"

    gateway: str
    host: str
    pid: int
    advertised: str
    ports: tuple[int, int]
    version: str
    since_ms: int
    host_id: str = ""
    process_start: int = UNKNOWN
    has_ended: bool = False
    first_node: int = -1
    beat: int = 0
    command: int = 0
    processes: int = 1
    connections: int = 0
    held: tuple[HeldForLink, ...] = ()
    refused: tuple[RefusedCount, ...] = ()

    @property
    def described(self) -> str:
        """A phrase that names the gateway in messages."""
        return f"{self.advertised} (process {self.pid} on {self.host})"

    @property
    def places(self) -> GatewayPlaces:
        """The addresses at which clients reach brokers through it."""
        first, last = self.ports
        return GatewayPlaces(self.advertised, last - first + 1, self.first_node)

    @property
    def whereabouts(self) -> Whereabouts:
        """The process of the gateway."""
        return Whereabouts(host=self.host, host_id=self.host_id, pid=self.pid, process_start=self.process_start)

    def _path(self) -> tuple[str, ...]:
        return (self.gateway,)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPairDocument(DocumentOfLink):
    """The state of a synchronous link at a gateway since `since_ms`. It counts as long as the link is synchronous by
    the declaration with the id `said`. `by` describes the gateway, `out_of_sync` is its policy, and `lets_go` holds for
    each source partition the first offset that may have been acknowledged while the follower lacked it. The gateway
    reads at the target as `principal`, "" where its file does not name it. It knows the attached parts of the link by
    `attached_said` (`Declaration.attached_said`), "" where an older release wrote it.
    """

    KIND: ClassVar[str] = "gateway-pair"

    gateway: str
    said: str
    by: str
    state: SyncState
    since_ms: int
    out_of_sync: OutOfSync
    reason: str = ""
    lets_go: tuple[FirstUnheld, ...] = ()
    principal: str = ""
    attached_said: str = ""

    @property
    def word(self) -> SyncWord:
        """The state without the gateway's details."""
        return SyncWord(state=self.state, reason=self.reason, lets_go=self.lets_go)

    def _path(self) -> tuple[str, ...]:
        return (self.gateway,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizedDocument(DocumentOfLink):
    """A gateway was in sync since the link is synchronous by the declaration with the id `said`. From then on each
    gateway that starts holds all its answers, or writes which it does not. With `reveals` a `ReadableDocument` shows
    since when topics are read at the target; gateways of older releases do not write that, and topics of their links
    were always read.
    """

    KIND: ClassVar[str] = "synchronized"

    said: str
    since_ms: int
    reveals: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableDocument(DocumentOfLink):
    """In the ledger of a link's target: the link, synchronous by the declaration with the id `said`, was SYNCING until
    `since_ms`. Before that clients do not read its topics there (KIP-986); afterwards they always may.
    """

    KIND: ClassVar[str] = "readable"

    said: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument(DocumentOfLink):
    """The transactions whose commits a gateway forwards, written to the ledger of the link's target before: a failover
    ends them alike in all partitions. Some of them may have ended everywhere already.
    """

    KIND: ClassVar[str] = "prepared"

    gateway: str
    commits: tuple[PreparedCommit, ...] = ()

    def _path(self) -> tuple[str, ...]:
        return (self.gateway,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedDocument(DocumentOfLink):
    """The acknowledged records that may be missing at the target of a link that was synchronous by the declaration with
    the id `said`. The `verb` that lets go of `maps` (by their registers) writes it to the target's ledger and keeps it
    until that failover is over, as gateways forget it before. Each map has a document, with its hash as `part`; an
    older release wrote one for all, without a part. If it `is_whole` no gateway has to be asked any more. The failover
    has `committed` these open transactions of the maps.
    """

    KIND: ClassVar[str] = "promised"

    said: str
    maps: tuple[str, ...]
    promised: Promised
    is_whole: bool = False
    verb: str = "failover"
    committed: tuple[OpenTransaction, ...] = ()
    part: str = ""

    @property
    def parts(self) -> list[PromisedDocument]:
        """One document for each map, as the ledger holds them."""
        named = {each: hashlib.sha256(each.encode()).hexdigest()[:_PART_DIGITS] for each in self.maps}
        return [replace(self, maps=(each,), part=part) for each, part in named.items()]

    def _path(self) -> tuple[str, ...]:
        if self.part:
            return (self.part,)
        return () if self.verb == "failover" else (self.verb,)


def was_in_sync(link: str, statement: str, documents: Iterable[Document]) -> bool:
    """Whether a gateway was in sync since a link is synchronous by the declaration `statement`."""
    return any(each.said == statement for each in SynchronizedDocument.find_all(documents, link))


def is_readable(link: str, statement: str, documents: Iterable[Document]) -> bool:
    """Whether the topics of a link that is synchronous by the declaration `statement` are read at its target, by the
    ledger there: it is not SYNCING any more, or a gateway of an older release was in sync.
    """
    return any(
        (each.link, each.said) == (link, statement)
        for each in documents
        if isinstance(each, ReadableDocument) or (isinstance(each, SynchronizedDocument) and not each.reveals)
    )


def hidden_by(known: Declaration, documents: Iterable[Document]) -> tuple[Namespace, ...]:
    """The namespaces of a link's target whose topics clients may not read yet, by the ledger there: the link is
    synchronous, and still SYNCING. Topics of an asynchronous link, and of one that was in sync once, may be read.
    """
    if known.mode != SYNC or known.is_deleted or is_readable(known.name, known.mode_said, documents):
        return ()
    return tuple(each.target for each in known.maps if each.kind == "topic")


def settled_word(word: GatewayPairDocument, at_ms: int) -> GatewayPairDocument:
    """The state that counts for a silent gateway once the follower has all records that it acknowledged: the gateway
    knows the link, and acknowledges nothing before it is heard again.
    """
    return replace(word, state=SyncState.IN_SYNC, since_ms=at_ms, reason="", lets_go=())


def pair_words(link: str, statement: str, documents: Iterable[Document]) -> dict[str, GatewayPairDocument]:
    """The state of a link that is synchronous by the declaration `statement`, by gateway."""
    return {each.gateway: each for each in GatewayPairDocument.find_all(documents, link) if each.said == statement}


def prepared_commits(link: str, documents: Iterable[Document]) -> list[PreparedCommit]:
    """The transactions of a link whose commits gateways have forwarded, and that may not have ended yet."""
    return [commit for each in PreparedDocument.find_all(documents, link) for commit in each.commits]
