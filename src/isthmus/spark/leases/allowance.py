"""The allowance of a lease of a distributor, in the ledger of the source: how far its lanes may go, and whether at all.

The target's ledger has who writes there, but may be lost with the target. A forced switch away from a lost target is
written to the ledger of the source: a lease that knows all of that ledger knows it, and one that does not must not
write. The end of the log proves nothing: a leader that was cut off from its peers, and replaced, shows an old end for
ever. Only a leader with in-sync replicas accepts what the lease writes there itself. Once that write has been read back
the lease knows everything that was written before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka.clock import lasting_s
from isthmus.ledger.documents.kinds import AllowanceDocument, Document, SwitchDocument
from isthmus.ledger.log import GATHER_S, RETRY_S, LedgerTail, LedgerWriter, Poll
from isthmus.ledger.records import Deletion, mark_key
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.model.problem import Problem
from isthmus.model.trees.switching import Allowance
from isthmus.spark.leases.tenure import SILENCE_S

_KINDS: Final = (AllowanceDocument.KIND, SwitchDocument.KIND)
_MARK_S: Final = 3.0
_AWAITED: Final = 8


class SourceWord:
    """The state of one distributor, which copies to `target`, by the ledger of the source. No I/O; `allow` gets the
    allowances of its lanes.

    `mark` is the record that a lease of this slot writes to prove that it knows the ledger.
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
        """The time from which on nothing may be sent, by what is known now."""
        return -1.0 if self._is_barred or self._known_at is None else self._known_at + SILENCE_S

    def withheld(self, now: float) -> Problem | None:
        """Return why nothing may be written now; `None` if it may be, or another leaf is chosen."""
        if self._is_barred or now < self.write_until:
            return None
        why = "" if self._refused is None else f": {self._refused}"
        return Problem(
            "the ledger of the source takes no writes of this lease, or does not show them, so "
            f"the lease may not write to {self._target}{why}",
            (self._refused and self._refused.hint)
            or f"Check the brokers of the source that hold topic {LEDGER_TOPIC}, their replicas, and client quotas.",
        )

    def note_refusal(self, error: ClusterError) -> None:
        """Note that the mark was not written."""
        self._refused = error

    def note_mark(self, asked_at: float, offset: int) -> None:
        """Note that the mark was written at `offset`; it was not sent before `asked_at` (`lasting_s`)."""
        self._taken[offset] = asked_at
        self._refused = None
        while len(self._taken) > _AWAITED:
            del self._taken[min(self._taken)]
        self._prove()

    def take(self, poll: Poll) -> None:
        """Take in a look at the ledger."""
        if poll.is_other_log:
            self._taken.clear()
            self._read.clear()
        for entry in poll.entries:
            if entry.key == self.mark.key:
                self._read.append(entry.offset)
            elif entry.key.startswith(_KINDS) and entry.link == self._link:
                self._hear(entry.decode())
        if poll.at_end:
            # Only the newest allowance counts: an earlier one may be of an earlier time at this target.
            if self._newest is not None and self._newest.target == self._target:
                self._allow(self._newest.lanes)
            self._newest = None
        self._prove()

    def is_elsewhere(self, poll: Poll, position: int) -> bool:
        """Whether the broker that claims to lead the ledger lacks marks that another leader accepted before the look,
        which read up to `position`.
        """
        awaited = [asked_at for offset, asked_at in self._taken.items() if offset >= position]
        # When the last mark was sent the one before it had been written.
        return poll.at_end and len(awaited) > 1 and poll.asked_at >= max(awaited)

    def _prove(self) -> None:
        """Match marks that were written and read: everything written before such a mark is known."""
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
    """Keep the word of the source up to date, until cancelled; `heard` is called after each look."""
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
            # Almost all entries are about other links.
            await asyncio.sleep(GATHER_S)


async def prove(writer: LedgerWriter, word: SourceWord, heard: Callable[[], None]) -> None:
    """Write the mark of a lease to the source's ledger every `_MARK_S`, until cancelled; `heard` is called then."""
    while True:
        # A mark that waits longer behind a quota would be too old when it is written.
        writer.renew(muted_s=_MARK_S)
        asked_at = lasting_s()
        try:
            offset = await writer.append([word.mark], term_s=_MARK_S)
        except ClusterError as error:
            word.note_refusal(error)
            await asyncio.sleep(RETRY_S)
            continue
        word.note_mark(asked_at, offset)
        heard()
        await asyncio.sleep(_MARK_S)
