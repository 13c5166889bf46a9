"""What gateways say of themselves, in the ledger of the cluster that they stand before.

Nothing fences them: each has keys of its own, and says before it acts what it is about to do. What it says of a
synchronous link is copied to the link's target, for whoever cannot ask the source any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple

from isthmus.ledger.document import Document, DocumentOfLink
from isthmus.model.declaration import Declaration
from isthmus.model.gateways import GatewayPlaces
from isthmus.model.namespace import Namespace
from isthmus.model.prepared import PreparedCommit
from isthmus.model.promotion import Promised
from isthmus.model.synchrony import SYNC, FirstUnheld, OutOfSync, SyncState, SyncWord
from isthmus.model.transactions import OpenTransaction
from isthmus.model.whereabouts import UNKNOWN, Whereabouts

_PART_DIGITS: Final = 16


class HeldForLink(NamedTuple):
    """How many answers a gateway holds for a link, and for how long (ms) the first of them."""

    link: str
    answers: int
    oldest_ms: int


class RefusedCount(NamedTuple):
    """How many connections a gateway has ended for a reason (`Refusal`) since it began."""

    reason: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDocument(Document):
    """A process of a gateway, by the id of this start of it, and that it is alive: `beat` grows. `ports` are the first
    and the last one that it listens at, and `advertised` is where clients reach the first of them. What tells its
    process from all others is as in `Whereabouts`. With `has_ended` it does nothing any more: it has said so itself
    where something that it answered was not proven yet, or an operator did.

    The first port is that of the broker `first_node`, -1 where brokers have names or an older release wrote it.

    The command with the pid `command` (0 where an older release wrote it) has `processes` of them. The rest is what the
    process counted until this beat: connections that there are, what it holds, and what it refused.
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
        """Which one it is, for people."""
        return f"{self.advertised} (process {self.pid} on {self.host})"

    @property
    def places(self) -> GatewayPlaces:
        """Where clients reach brokers through it."""
        first, last = self.ports
        return GatewayPlaces(self.advertised, last - first + 1, self.first_node)

    @property
    def whereabouts(self) -> Whereabouts:
        """Which process it is."""
        return Whereabouts(host=self.host, host_id=self.host_id, pid=self.pid, process_start=self.process_start)

    def _path(self) -> tuple[str, ...]:
        return (self.gateway,)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPairDocument(DocumentOfLink):
    """What a gateway says of a synchronous link since `since_ms`: it counts for as long as the link is synchronous by
    the statement `said`. `by` describes the gateway, `out_of_sync` is the policy it goes by, and `lets_go` has the
    first offset of each of the source's partitions whose answer may have left while the follower lacked it. It reads at
    the target as `principal`, "" where its file does not tell. What of the link is attached it knows by `attached_said`
    (`Declaration.attached_said`), "" where an older release wrote it.
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
        """What it says."""
        return SyncWord(state=self.state, reason=self.reason, lets_go=self.lets_go)

    def _path(self) -> tuple[str, ...]:
        return (self.gateway,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizedDocument(DocumentOfLink):
    """Some gateway was in sync since the link is synchronous by the statement `said`: from then on whoever begins holds
    all its answers, or writes down which it does not. Who `reveals` it says by a `ReadableDocument` since when topics
    are read at the target; gateways of older releases say no such thing, and topics of their links were always read.
    """

    KIND: ClassVar[str] = "synchronized"

    said: str
    since_ms: int
    reveals: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableDocument(DocumentOfLink):
    """In the ledger of a link's target: the link, which is synchronous by the statement `said`, was SYNCING until
    `since_ms`. Before that nobody reads its topics there (KIP-986), and from then on all do, whatever becomes of it.
    """

    KIND: ClassVar[str] = "readable"

    said: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument(DocumentOfLink):
    """The transactions whose commits a gateway lets through, in the ledger of the link's target before any of them is
    forwarded: whoever goes on there without the source ends them alike in all partitions. One that has ended
    everywhere may be among them still.
    """

    KIND: ClassVar[str] = "prepared"

    gateway: str
    commits: tuple[PreparedCommit, ...] = ()

    def _path(self) -> tuple[str, ...]:
        return (self.gateway,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedDocument(DocumentOfLink):
    """What may be missing of what gateways acknowledged of a link that was synchronous by the statement `said`, as the
    `verb` found it that lets go of `maps` (by their registers), in the ledger of the target until their failover is
    over: gateways forget it before. Each of them has a document, with its name for a `part`; an older release wrote one
    for all, without. If it `is_whole` nobody is to be asked any more. A failover has `committed` these transactions
    that were open in what it let go of.
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
        """The same as the ledger holds it."""
        named = {each: hashlib.sha256(each.encode()).hexdigest()[:_PART_DIGITS] for each in self.maps}
        return [replace(self, maps=(each,), part=part) for each, part in named.items()]

    def _path(self) -> tuple[str, ...]:
        if self.part:
            return (self.part,)
        return () if self.verb == "failover" else (self.verb,)


def was_in_sync(link: str, said: str, documents: Iterable[Document]) -> bool:
    """Whether a gateway was in sync since a link is synchronous by this statement."""
    return any(isinstance(each, SynchronizedDocument) and (each.link, each.said) == (link, said) for each in documents)


def is_readable(link: str, said: str, documents: Iterable[Document]) -> bool:
    """Whether the topics of a link that is synchronous by this statement are read at its target, as the ledger there
    has it: it was SYNCING until some time, or a gateway of an older release was in sync.
    """
    return any(
        (each.link, each.said) == (link, said)
        for each in documents
        if isinstance(each, ReadableDocument) or (isinstance(each, SynchronizedDocument) and not each.reveals)
    )


def hidden_by(known: Declaration, documents: Iterable[Document]) -> tuple[Namespace, ...]:
    """The namespaces of a link's target whose topics nobody is to read yet, by what the ledger there says of it: the
    link is synchronous, and SYNCING still. Of an asynchronous one, and of one that was in sync once, all are read.
    """
    if known.mode != SYNC or known.is_deleted or is_readable(known.name, known.mode_said, documents):
        return ()
    return tuple(each.target for each in known.maps if each.kind == "topic")


def settled_word(word: GatewayPairDocument, at_ms: int) -> GatewayPairDocument:
    """What counts for a silent gateway once the follower has all that it answered: it knows of the link, and takes
    nothing for it before it was heard again.
    """
    return replace(word, state=SyncState.IN_SYNC, since_ms=at_ms, reason="", lets_go=())


def pair_words(link: str, said: str, documents: Iterable[Document]) -> dict[str, GatewayPairDocument]:
    """What gateways say of a link that is synchronous by this statement, by gateway."""
    return {
        each.gateway: each
        for each in documents
        if isinstance(each, GatewayPairDocument) and (each.link, each.said) == (link, said)
    }


def prepared_commits(link: str, documents: Iterable[Document]) -> list[PreparedCommit]:
    """The transactions of a link whose commits gateways have let through, as far as they may not have ended yet."""
    return [
        commit
        for each in documents
        if isinstance(each, PreparedDocument) and each.link == link
        for commit in each.commits
    ]
