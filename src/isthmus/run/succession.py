"""Decide whether a link may be taken from its controller: one that runs is left alone, unless an operator says so.

Fencing keeps two controllers from harming the data. This keeps them from fencing one another by mistake.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.log import RETRY_S, LedgerTail
from isthmus.ledger.records import Entry
from isthmus.ledger.topic import is_missing
from isthmus.local.host import liveness_of
from isthmus.memory.links import now_ms
from isthmus.model.problem import Problem
from isthmus.run.state.candidacy import Candidacy, WhenOccupied
from isthmus.run.state.vigil import Turn, Vigil

_HELD: Final = "It reported that a client quota delays its writes."
_DEAF_S: Final = 10.0
"""How long a ledger that was read before may be unreadable, until that is the link's problem."""


class Succession:
    """The steps to become the next controller of a link; `candidacy` is where they have led."""

    def __init__(self, link: str, when_occupied: WhenOccupied, silence_s: float) -> None:
        self.candidacy = Candidacy(when_occupied, silence_s)
        self._silence_s = silence_s
        self._key = ControllerDocument.key_of(link)
        self._entry: Entry | None = None
        self._position = 0
        self._topic_id = NO_TOPIC_ID

    async def wait(self, target: Client, tell: Callable[[Problem], None]) -> None:
        """Return when no other process runs the link any more; `tell` reports what is waited for. Nothing is written.

        Call it again right before the link is taken: a controller that was found to be gone is not waited for twice.

        :raises Occupied: Another controller runs it, and its end is not to be waited for.
        :raises PlanRefused: A newer Isthmus wrote the ledger.
        :raises ClusterError: The ledger cannot be read.
        """
        candidacy = self.candidacy
        if not candidacy.looks:
            candidacy.find(None)
            return
        # The second time only new records have to be read.
        tail = LedgerTail(target, position=self._position, topic_id=self._topic_id)
        try:
            self._take(await _read(tail))
            entry = self._entry
            vigil = candidacy.find(None if entry is None else _controller(entry))
            if entry is not None and vigil is not None:
                turn = await self._watch(tail, vigil, partial(tell, self._problem(vigil.controller, entry)))
                candidacy.conclude(vigil, turn)
        finally:
            candidacy.leave()
            self._position, self._topic_id = tail.position, tail.topic_id
            tail.close()

    def _problem(self, found: ControllerDocument, entry: Entry) -> Problem:
        if self.candidacy.stands_by:
            return _standing_by_problem(found, self._silence_s)
        return _waiting_problem(found, entry, self._silence_s)

    def _take(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries of the link's controller, and keep the newest."""
        found = [entry for entry in entries if entry.key == self._key]
        self._entry = found[-1] if found else self._entry
        return found

    async def _watch(self, tail: LedgerTail, vigil: Vigil, tell: Callable[[], None]) -> Turn:
        """Follow the ledger until it is clear whether the controller is gone."""
        readable_at, has_told = time.monotonic(), False
        while (turn := vigil.turn(liveness_of(vigil.controller.whereabouts))) is Turn.WAIT:
            if not has_told:
                has_told = True
                tell()
            try:
                # A machine that slept has not heard a controller that slept with it: that is no silence.
                asked_at = time.monotonic()
                poll = await tail.poll()
            except ClusterError as error:
                vigil.note_unreadable()
                is_passing = error.retryable or is_missing(error)
                if not is_passing or time.monotonic() - readable_at > _DEAF_S:
                    raise
                await asyncio.sleep(RETRY_S)
                continue
            readable_at = time.monotonic()
            for entry in self._take(poll.entries):
                if entry.value is None or _controller(entry) is not None:
                    vigil.hear(_controller(entry))
            vigil.note_look(asked_at, at_end=poll.at_end)
        return turn


async def _read(tail: LedgerTail) -> list[Entry]:
    """Read all new records of the ledger; nothing where there is none."""
    try:
        return await tail.read_to_end()
    except ClusterError as error:
        if is_missing(error):
            return []
        raise


def _controller(entry: Entry) -> ControllerDocument | None:
    document = entry.decode()
    return document if isinstance(document, ControllerDocument) else None


def _waiting_problem(found: ControllerDocument, entry: Entry, silence_s: float) -> Problem:
    # For the reader only: the decision goes by what is heard from now on, by the local clock.
    heard_s = max(now_ms() - entry.timestamp, 0) / 1000
    why = _HELD if found.held_s else "It may be gone, frozen or cut off."
    return Problem(
        f"waiting for {found.described}, last heard {heard_s:.0f} s ago: "
        f"after {silence_s + found.held_s:.0f} s of silence the link is taken over",
        f"{why} isthmus run --take-over does not wait for it.",
    )


def _standing_by_problem(found: ControllerDocument, silence_s: float) -> Problem:
    return Problem(
        f"standing by for {found.described}",
        f"When that one ends or is silent for {silence_s + found.held_s:.0f} s, this process runs the link."
        f"{' ' + _HELD if found.held_s else ''}",
    )
