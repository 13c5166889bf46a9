"""What the ledger at the source lets a lease of a distributor do: how far its lanes may go, and whether at all.

The target's ledger says who writes there, and may be gone with the target. Whoever has a distributor leave a target
that is gone says so at the source: a lease that knows the whole of that ledger knows it, and one that does not writes
nothing. That there is nothing more in it proves nothing: a leader that is cut off from its peers, and replaced, says so
for ever. What a lease writes into it itself only a leader takes that its replicas follow. Once that has come back to
the lease, everything that was written before is known to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from isthmus.errors import ClusterError
from isthmus.ledger.documents import AllowanceDocument, Document, SwitchDocument, decoded, link_of
from isthmus.ledger.log import GATHER_S, RETRY_S, LedgerTail, LedgerWriter, Poll
from isthmus.ledger.records import Deletion, mark_key
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.model.problem import Problem
from isthmus.model.switching import Allowance
from isthmus.spark.tenure import SILENCE_S
from isthmus.wire.clock import lasting_s

_KINDS: Final = (AllowanceDocument.KIND, SwitchDocument.KIND)
_MARK_S: Final = 3.0
_AWAITED: Final = 8


class SourceWord:
    """What the source's ledger says of one distributor, which copies to `target`. No I/O; `allow` gets how far its
    lanes may go.

    `mark` is what a lease of this slot has the ledger take.
    """

    def __init__(self, link: str, slot: int, target: str, allow: Callable[[Iterable[Allowance]], None]) -> None:
        self.mark = Deletion(mark_key(link, slot))
        self._link, self._target, self._allow = link, target, allow
        self._newest: AllowanceDocument | None = None
        self._is_barred = False
        self._known_at: float | None = None
        self._refused: ClusterError | None = None
        self._taken: dict[int, float] = {}
        self._read: deque[int] = deque(maxlen=_AWAITED)

    @property
    def write_until(self) -> float:
        """The time from which on nothing may be sent, as far as is known now."""
        return -1.0 if self._is_barred or self._known_at is None else self._known_at + SILENCE_S

    def withheld(self, now: float) -> Problem | None:
        """Why nothing may be written now; `None` where it may be, or another leaf is chosen."""
        if self._is_barred or now < self.write_until:
            return None
        why = "" if self._refused is None else f": {self._refused}"
        return Problem(
            "the ledger of the source takes nothing from this lease, or does not show what it took, so "
            f"the lease may not write to {self._target}{why}",
            (self._refused and self._refused.hint)
            or f"Check the brokers of the source that hold topic {LEDGER_TOPIC}, their replicas, and client quotas.",
        )

    def refused(self, error: ClusterError) -> None:
        """The ledger has not taken the mark."""
        self._refused = error

    def taken(self, asked_at: float, offset: int) -> None:
        """The ledger has taken the mark at `offset`; it was not sent before `asked_at` (`lasting_s`)."""
        self._taken[offset] = asked_at
        self._refused = None
        while len(self._taken) > _AWAITED:
            del self._taken[min(self._taken)]
        self._prove()

    def take(self, poll: Poll) -> None:
        """What a look at the ledger showed."""
        if poll.is_other_log:
            self._taken.clear()
            self._read.clear()
        for entry in poll.entries:
            if entry.key == self.mark.key:
                self._read.append(entry.offset)
            elif entry.value is not None and entry.key.startswith(_KINDS) and link_of(entry.key) == self._link:
                self._hear(decoded(entry.key, entry.value))
        if poll.at_end:
            # Only the newest counts: one that came before may be of an earlier time at this target.
            if self._newest is not None and self._newest.target == self._target:
                self._allow(self._newest.lanes)
            self._newest = None
        self._prove()

    def is_elsewhere(self, poll: Poll, position: int) -> bool:
        """Whether who leads the ledger by its own word does not show marks that another one took before that was asked;
        it was read up to `position`.
        """
        awaited = [asked_at for offset, asked_at in self._taken.items() if offset >= position]
        # When the last one was sent the one before had been taken.
        return poll.at_end and len(awaited) > 1 and poll.asked_at >= max(awaited)

    def _prove(self) -> None:
        """What was taken and is read: all that the ledger took before it is known."""
        for offset in self._read:
            asked_at = self._taken.pop(offset, None)
            if asked_at is not None:
                self._known_at = asked_at if self._known_at is None else max(self._known_at, asked_at)

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
        if word.is_elsewhere(poll, tail.position):
            tail.renew()
        if poll.entries and poll.at_end:
            # Almost all that passes by is about other links.
            await asyncio.sleep(GATHER_S)


async def prove(writer: LedgerWriter, word: SourceWord, heard: Callable[[], None]) -> None:
    """Have the source's ledger take the mark of a lease every `_MARK_S`, until cancelled; `heard` is called then."""
    while True:
        # What waits behind a quota for longer would be of no use when it is taken.
        writer.renew(muted_s=_MARK_S)
        asked_at = lasting_s()
        try:
            offset = await writer.append([word.mark], term_s=_MARK_S)
        except ClusterError as error:
            word.refused(error)
            await asyncio.sleep(RETRY_S)
            continue
        word.taken(asked_at, offset)
        heard()
        await asyncio.sleep(_MARK_S)
