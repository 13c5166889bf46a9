"""What the ledger at the source lets a lease of a distributor do: how far its lanes may go, and whether at all.

The target's ledger says who writes there, and may be gone with the target. Whoever has a distributor leave a target
that is gone says so at the source: a lease that knows the whole of that ledger knows it, and one that does not writes
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from isthmus.errors import ClusterError
from isthmus.ledger.documents import AllowanceDocument, Document, SwitchDocument, decoded, link_of
from isthmus.ledger.log import GATHER_S, RETRY_S, LedgerTail, Poll
from isthmus.model.switching import Allowance
from isthmus.spark.tenure import SILENCE_S

_KINDS: Final = (AllowanceDocument.KIND, SwitchDocument.KIND)


class SourceWord:
    """What the source's ledger says of one distributor, which copies to `target`. No I/O; `allow` gets how far its
    lanes may go.
    """

    def __init__(self, link: str, target: str, allow: Callable[[Iterable[Allowance]], None]) -> None:
        self._link, self._target, self._allow = link, target, allow
        self._newest: AllowanceDocument | None = None
        self._is_barred = False
        self._known_at: float | None = None

    @property
    def write_until(self) -> float:
        """The time from which on nothing may be sent, as far as is known now."""
        return -1.0 if self._is_barred or self._known_at is None else self._known_at + SILENCE_S

    def take(self, poll: Poll) -> None:
        """What a look at the ledger showed."""
        for entry in poll.entries:
            if entry.value is not None and entry.key.startswith(_KINDS) and link_of(entry.key) == self._link:
                self._hear(decoded(entry.key, entry.value))
        if poll.at_end:
            # Only the newest counts: one that came before may be of an earlier time at this target.
            if self._newest is not None and self._newest.target == self._target:
                self._allow(self._newest.lanes)
            self._newest, self._known_at = None, poll.asked_at

    def _hear(self, document: Document | None) -> None:
        if isinstance(document, SwitchDocument):
            self._is_barred = document.choice.bars(self._target)
        elif isinstance(document, AllowanceDocument):
            self._newest = document


async def follow(tail: LedgerTail, word: SourceWord, heard: Callable[[], None]) -> None:
    """Have a word of the source be as new as it can be, until cancelled; `heard` is called after each look."""
    while True:
        try:
            poll = await tail.poll()
        except ClusterError:
            await asyncio.sleep(RETRY_S)
            continue
        word.take(poll)
        heard()
        if poll.entries and poll.at_end:
            # Almost all that passes by is about other links.
            await asyncio.sleep(GATHER_S)
