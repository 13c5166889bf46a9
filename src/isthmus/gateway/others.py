"""The gateways beside this one, as the ledger tells: whoever is gone leaves nothing that nobody has proven.

One that is silent takes nothing any more for the links that it has said it knows (`FENCE_S`). Once followers have all
that it answered of these, its words say so. It stays in the ledger: of links that become synchronous it hears nothing,
and answers as before. Only one that has ended for certain is taken out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from isthmus.control.links.hearing import has_ended
from isthmus.control.links.memory import LedgerMemory, now_ms
from isthmus.control.links.synchronous import gateways_of
from isthmus.errors import ClusterError
from isthmus.ledger.documents import GatewayDocument, GatewayPairDocument, PreparedDocument
from isthmus.ledger.gateways import pair_words, settled_word
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.model.gateways import SAME_PLACES
from isthmus.model.synchrony import HEARD_S, SyncState
from isthmus.model.wording import first_few
from isthmus.wire.clock import lasting_s

_log = logging.getLogger(__name__)
_Change = GatewayPairDocument | Deletion


class _Held(Protocol):
    """A link that is held, by which statement, what of it is attached by which ones, which gateways have noted commits
    at its target, what another one would say of it that is in sync, and whether the follower has all that the source
    has now.
    """

    @property
    def name(self) -> str: ...
    @property
    def said(self) -> str: ...
    @property
    def attached_said(self) -> str: ...
    @property
    def noted_by(self) -> Collection[str]: ...
    def word_of(self, other: GatewayDocument) -> GatewayPairDocument: ...
    async def covered(self) -> None: ...
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
    """Those beside one, as it hears them from look to look."""

    def __init__(self, owner: _Owner) -> None:
        self._owner = owner
        self._seen: dict[str, tuple[int, float]] = {}
        self._clashing = set[str]()
        self._settling: dict[str, asyncio.Task[None]] = {}
        self._held: list[tuple[str, str, str]] = []

    def watch(self, memory: LedgerMemory) -> None:
        """See who is gone, and begin to prove what those have answered."""
        registered = {one.gateway: one for one in gateways_of(memory.unlinked().values())}
        named = registered.keys() | {
            one.gateway
            for link in self._owner.held
            for one in memory.of(link.name).documents.values()
            if isinstance(one, GatewayPairDocument)
        }
        # One that said farewell may not have known that its last commits have ended there.
        noted = {gateway for link in self._owner.held for gateway in link.noted_by}
        named |= noted
        self._compare(registered)
        now = lasting_s()
        self._begin_anew([(each.name, each.said, each.attached_said) for each in self._owner.held])
        for gateway in named - {self._owner.document.gateway}:
            one = registered.get(gateway)
            beat = -1 if one is None else one.beat
            if gateway not in self._seen or self._seen[gateway][0] != beat:
                self._seen[gateway] = beat, now
                if (settling := self._settling.pop(gateway, None)) is not None:
                    settling.cancel()
            is_over = one is not None and has_ended(one)
            if gateway in self._settling or not (is_over or now - self._seen[gateway][1] > HEARD_S):
                continue
            # Nothing but words is left of one that was taken out.
            is_out = (is_over or one is None) and self._owner.holds_all
            changes = _all_of(gateway, memory) if is_out else self._words(gateway, memory, one if is_over else None)
            if changes or (is_out and gateway in noted):
                self._settling[gateway] = self._owner.start(self._settle(gateway, changes, is_out=is_out))
        self._seen = {gateway: seen for gateway, seen in self._seen.items() if gateway in named}

    def _begin_anew(self, held: list[tuple[str, str, str]]) -> None:
        """Prove nothing any more that goes by other links than these: what is held no more may never be covered."""
        if held != self._held:
            self._held = held
            for settling in self._settling.values():
                settling.cancel()
            self._settling.clear()

    def _compare(self, registered: Mapping[str, GatewayDocument]) -> None:
        """Tell once of each that lives and has our address, and leads clients to other brokers by it."""
        ours = self._owner.document.places
        for gateway, one in registered.items():
            is_alive = gateway in self._seen and self._seen[gateway][0] != one.beat
            if is_alive and gateway not in self._clashing and ours.clashes_with(one.places):
                self._clashing.add(gateway)
                _log.warning(
                    "%s has our address and %s, and we have %s: clients reach other brokers than they mean. %s",
                    one.described, one.places.in_words, ours.in_words, SAME_PLACES,
                )  # fmt: skip

    def _words(self, gateway: str, memory: LedgerMemory, ended: GatewayDocument | None) -> list[_Change]:
        """What a gateway that stays in the ledger is to say of the links that we hold, once all that it answered is
        proven. One that has `ended` says so of links too that it did not know: it answers nothing any more.
        """
        found, at_ms = list[_Change](), now_ms()
        for link in self._owner.held:
            words = pair_words(link.name, link.said, memory.of(link.name).documents.values())
            word = words.get(gateway)
            if word is not None and (word.state is not SyncState.IN_SYNC or word.lets_go):
                found.append(settled_word(word, at_ms))
            elif word is None and ended is not None:
                found.append(settled_word(link.word_of(ended), at_ms))
        return found

    async def _settle(self, gateway: str, changes: list[_Change], *, is_out: bool) -> None:
        told = {each.link for each in changes if isinstance(each, GatewayPairDocument)}
        try:
            links = [each for each in self._owner.held if is_out or each.name in told]
            for link in links:
                await link.covered()
            if not self._owner.is_heard:
                # It may be back by now.
                return
            if changes:
                await self._owner.write(changes)
            named = "every link" if is_out else first_few(each.name for each in links)
            _log.info("gateway %s is gone, and the follower of %s has all that it answered", gateway, named)
            for link in links:
                await self._settle_there(link, gateway, changes)
        except ClusterError as error:
            _log.warning("what gateway %s answered cannot be proven yet: %s", gateway, error)
        finally:
            if self._settling.get(gateway) is asyncio.current_task():
                del self._settling[gateway]

    async def _settle_there(self, link: _Held, gateway: str, changes: list[_Change]) -> None:
        if not self._owner.is_heard:
            # What the other one has noted there by now is not to go.
            return
        its = [each for each in changes if isinstance(each, Deletion) or each.link == link.name]
        try:
            await link.write_there([*its, Deletion(PreparedDocument(link=link.name, gateway=gateway).key)])
        except ClusterError as error:
            _log.debug("the target of link %s still has what gateway %s wrote: %s", link.name, gateway, error)


def _all_of(gateway: str, memory: LedgerMemory) -> list[_Change]:
    """That a ledger has nothing of a gateway any more."""
    words = [
        word
        for name in memory.links
        for word in memory.of(name).documents.values()
        if isinstance(word, GatewayPairDocument) and word.gateway == gateway
    ]
    unlinked = memory.unlinked()
    keys = [key for key, one in unlinked.items() if isinstance(one, GatewayDocument) and one.gateway == gateway]
    return [Deletion(key) for key in (*(word.key for word in words), *keys)]
