"""The other gateways of the ledger: prove for those that are gone that followers have all that they acknowledged.

A silent gateway takes no requests any more for the links that it knows (`FENCE_S`). Once followers have all that it
acknowledged for these, its words are set in sync. It stays in the ledger: it does not hear of links that become
synchronous, and would answer as before. Only a gateway that has ended for certain is deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from isthmus.errors import ClusterError
from isthmus.kafka.clock import lasting_s
from isthmus.ledger.documents.gateways import pair_words, settled_word
from isthmus.ledger.documents.kinds import GatewayDocument, GatewayPairDocument, PreparedDocument
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.memory.hearing import has_ended
from isthmus.memory.links import LedgerMemory, now_ms
from isthmus.model.gateways.registered import SAME_PLACES
from isthmus.model.gateways.synchrony import HEARD_S, SyncState
from isthmus.synchronous.synchronous import gateways_of

_log = logging.getLogger(__name__)
_StatedKey = tuple[str, str, str]
_Key = tuple[str, _StatedKey | None]


class _Held(Protocol):
    """A held link: the statements that made it synchronous and attached its namespaces, the gateways with prepared
    commits at its target, the word of another gateway in sync, and the wait for the follower.
    """

    @property
    def name(self) -> str: ...
    @property
    def mode_statement(self) -> str: ...
    @property
    def attached_said(self) -> str: ...
    @property
    def noted_by(self) -> Collection[str]: ...
    def word_of(self, other: GatewayDocument) -> GatewayPairDocument: ...
    async def wait_until_covered(self) -> None: ...
    async def write_there(self, changes: Iterable[LedgerChange]) -> None: ...


class _Owner(Protocol):
    """This gateway."""

    @property
    def document(self) -> GatewayDocument: ...
    @property
    def is_heard(self) -> bool: ...
    @property
    def held(self) -> Collection[_Held]: ...
    @property
    def holds_all(self) -> bool: ...
    async def write(self, changes: Iterable[LedgerChange]) -> None: ...
    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...


class OtherGateways:
    """The other gateways, as this one hears them from look to look."""

    def __init__(self, owner: _Owner) -> None:
        self._owner = owner
        self._seen: dict[str, tuple[int, float]] = {}
        self._clashing = set[str]()
        self._settling: dict[_Key, asyncio.Task[None]] = {}
        self._proven: dict[str, set[_StatedKey]] = {}
        self._held: list[_StatedKey] = []

    def watch(self, memory: LedgerMemory) -> None:
        """Find gateways that are gone, and begin to prove what they acknowledged."""
        registered = {one.gateway: one for one in gateways_of(memory.find_unlinked().values())}
        named = registered.keys() | {
            one.gateway
            for link in self._owner.held
            for one in GatewayPairDocument.find_all(memory.of(link.name).documents.values())
        }
        # A gateway that took its leave may not have known that its last commits have ended there.
        named |= {gateway for link in self._owner.held for gateway in link.noted_by}
        self._warn_of_clashes(registered)
        self._cancel_outdated([_stated_key(each) for each in self._owner.held])
        for gateway in named - {self._owner.document.gateway}:
            one = registered.get(gateway)
            self._hear(gateway, -1 if one is None else one.beat)
            is_over = one is not None and has_ended(one)
            if is_over or lasting_s() - self._seen[gateway][1] > HEARD_S:
                # A gateway that was deleted has only its words left.
                is_out = (is_over or one is None) and self._owner.holds_all
                self._prove(gateway, memory, one if is_over else None, is_out=is_out)
        self._seen = {gateway: seen for gateway, seen in self._seen.items() if gateway in named}
        self._proven = {gateway: proven for gateway, proven in self._proven.items() if gateway in named}

    def _hear(self, gateway: str, beat: int) -> None:
        """Note a heartbeat; proofs of a gateway that is heard again do not cover what it acknowledges now."""
        if gateway not in self._seen or self._seen[gateway][0] != beat:
            self._seen[gateway] = beat, lasting_s()
            self._proven[gateway] = set()
            self._cancel(key for key in self._settling if key[0] == gateway)

    def _cancel_outdated(self, held: list[_StatedKey]) -> None:
        """Cancel proofs of links that are not among these: followers may never get what is no longer held."""
        if held != self._held:
            self._held = held
            self._cancel(key for key in self._settling if key[1] not in held)

    def _cancel(self, keys: Iterable[_Key]) -> None:
        for key in list(keys):
            self._settling.pop(key).cancel()

    def _prove(self, gateway: str, memory: LedgerMemory, ended: GatewayDocument | None, *, is_out: bool) -> None:
        """Begin to prove, link by link, what a gateway acknowledged; delete one that `is_out` once all is proven."""
        rest, proven = _build_deletions(gateway, memory) if is_out else [], self._proven[gateway]
        if rest and proven.issuperset(self._held):
            self._begin((gateway, None), partial(self._take_out, gateway, rest))
            return
        for link in self._owner.held:
            is_proven = is_out and _stated_key(link) in proven
            word = None if is_proven else _build_settled_word(link, gateway, memory, ended)
            is_left = is_out and (gateway in link.noted_by or (bool(rest) and not is_proven))
            if word is not None or is_left:
                self._begin((gateway, _stated_key(link)), partial(self._settle, link, gateway, word))

    def _begin(self, key: _Key, work: Callable[[], Awaitable[None]]) -> None:
        if key not in self._settling:
            self._settling[key] = self._owner.start(self._run_logged(key, work))

    def _warn_of_clashes(self, registered: Mapping[str, GatewayDocument]) -> None:
        """Warn once of each live gateway that advertises our address for other brokers."""
        ours = self._owner.document.places
        for gateway, one in registered.items():
            is_alive = gateway in self._seen and self._seen[gateway][0] != one.beat
            if is_alive and gateway not in self._clashing and ours.clashes_with(one.places):
                self._clashing.add(gateway)
                _log.warning(
                    "%s has our address and %s, and we have %s: clients reach other brokers than they mean. %s",
                    one.described, one.places.in_words, ours.in_words, SAME_PLACES,
                )  # fmt: skip

    async def _run_logged(self, key: _Key, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except ClusterError as error:
            _log.warning("what gateway %s answered cannot be proven yet: %s", key[0], error)
        finally:
            if self._settling.get(key) is asyncio.current_task():
                del self._settling[key]

    async def _settle(self, link: _Held, gateway: str, word: GatewayPairDocument | None) -> None:
        await link.wait_until_covered()
        changes = [] if word is None else [word]
        if await self._write(changes):
            _log.info("gateway %s is gone, and the follower of %s has all that it answered", gateway, link.name)
            self._proven.setdefault(gateway, set()).add(_stated_key(link))
            await self._write_there(link, [*changes, Deletion(PreparedDocument.key_of(link.name, gateway))])

    async def _take_out(self, gateway: str, rest: list[Deletion]) -> None:
        if await self._write(rest):
            _log.info("gateway %s is gone for good, and taken out", gateway)
            for link in self._owner.held:
                await self._write_there(link, rest)

    async def _write(self, changes: Collection[LedgerChange]) -> bool:
        """Write documents of another gateway, unless that may be back by now; whether it is still gone."""
        if self._owner.is_heard and changes:
            await self._owner.write(changes)
        return self._owner.is_heard

    async def _write_there(self, link: _Held, changes: Collection[LedgerChange]) -> None:
        # Prepared commits that a gateway wrote after its return must stay.
        if self._owner.is_heard:
            try:
                await link.write_there(changes)
            except ClusterError as error:
                _log.debug("the target of link %s still has the document of a gateway: %s", link.name, error)


def _stated_key(link: _Held) -> _StatedKey:
    """Return the key of a link with the statements by which it is held."""
    return link.name, link.mode_statement, link.attached_said


def _build_settled_word(
    link: _Held, gateway: str, memory: LedgerMemory, ended: GatewayDocument | None
) -> GatewayPairDocument | None:
    """Build the word of a gateway for a link once all that it acknowledged is proven; `None` if it is written already.
    A gateway that has `ended` gets a word also for a link that it did not know: it answers no more.
    """
    word = pair_words(link.name, link.mode_statement, memory.of(link.name).documents.values()).get(gateway)
    if word is None:
        return None if ended is None else settled_word(link.word_of(ended), now_ms())
    is_written = word.state is SyncState.IN_SYNC and not word.lets_go
    return None if is_written else settled_word(word, now_ms())


def _build_deletions(gateway: str, memory: LedgerMemory) -> list[Deletion]:
    """Build the deletions of all documents of a gateway."""
    words = [
        word
        for name in memory.links
        for word in GatewayPairDocument.find_all(memory.of(name).documents.values())
        if word.gateway == gateway
    ]
    own = GatewayDocument.find(memory.find_unlinked(), gateway)
    return [Deletion(each.key) for each in (*words, own) if each is not None]
