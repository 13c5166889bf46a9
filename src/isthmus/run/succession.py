"""Decide whether a link may be taken from its controller: one that runs is left alone, unless an operator says so.

Fencing keeps two controllers from harming the data. This keeps them from fencing one another by mistake.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from isthmus.errors import ClusterError, ConfigError, Occupied
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.link import BEAT_S, SILENCE_S
from isthmus.ledger.log import RETRY_S, LedgerTail
from isthmus.ledger.records import Entry
from isthmus.ledger.topic import is_missing
from isthmus.local.host import liveness_of
from isthmus.memory.links import now_ms
from isthmus.model.problem import Problem
from isthmus.model.process.whereabouts import Liveness

_QUIET_S: Final = 2 * BEAT_S
_HELD: Final = "It reported that a client quota holds back what it writes."
_DEAF_S: Final = 10.0
"""How long a ledger that was read before may be unreadable, until that is the link's problem."""


class WhenOccupied(enum.Enum):
    """What to do about a link that another controller runs."""

    LEAVE = enum.auto()
    """Leave it to that one."""
    STAND_BY = enum.auto()
    """Wait for as long as that one is heard."""
    TAKE_OVER = enum.auto()
    """Do not wait, and fence that one."""

    @classmethod
    def of(cls, *, take_over: bool, standby: bool) -> WhenOccupied:
        """Return what an operator has asked for.

        :raises ConfigError: Both were asked for.
        """
        if take_over and standby:
            raise ConfigError(
                "a run takes over at once or stands by, not both", hint="Leave out --take-over or --standby."
            )
        if take_over:
            return cls.TAKE_OVER
        return cls.STAND_BY if standby else cls.LEAVE


class Turn(enum.Enum):
    """The decision whether this process may run the link."""

    WAIT = enum.auto()
    FREE = enum.auto()
    TAKEN = enum.auto()


class Vigil:
    """A successor's view of the controller it found in the ledger; `controller` is the newest it heard of.

    All times are of the monotonic clock, in seconds. With `stands_by` the end of a controller that is heard is awaited.
    """

    def __init__(self, found: ControllerDocument, *, stands_by: bool = False, silence_s: float = SILENCE_S) -> None:
        self._silence_s = silence_s
        self.controller = found
        self._stands_by = stands_by
        self._turn = Turn.WAIT
        self._quiet_since: float | None = None
        self._deaf_since: float | None = None

    def hear(self, document: ControllerDocument | None) -> None:
        """Take in the controller's document in the ledger now; `None` after its farewell."""
        if self._turn is Turn.TAKEN:
            return
        if document is None:
            self._turn = Turn.FREE
        elif (document.generation, document.beat) != (self.controller.generation, self.controller.beat):
            self.controller = document
            self._turn = Turn.WAIT if self._stands_by else Turn.TAKEN
            self._quiet_since = None

    def note_look(self, asked_at: float, *, at_end: bool) -> None:
        """Note a look without news; `at_end` if it read all there was at `asked_at`. After a look that did not, as of
        brokers over a quota, silence does not count until the next one that does: the heartbeat may be held back as
        well.
        """
        if not at_end:
            self._deaf_since = asked_at if self._deaf_since is None else self._deaf_since
            return
        if self._quiet_since is None:
            self._quiet_since = asked_at
        elif self._deaf_since is not None:
            self._quiet_since += max(asked_at - max(self._deaf_since, self._quiet_since), 0.0)
        self._deaf_since = None
        if self._turn is Turn.WAIT and asked_at - self._quiet_since >= self._silence_s + self.controller.held_s:
            self._turn = Turn.FREE

    def unreadable(self) -> None:
        """Note that the ledger cannot be read: the controller is not silent because of that."""
        self._quiet_since = None

    def is_quiet(self, now: float) -> bool:
        """Whether it was not heard for longer than a living controller would be silent."""
        return self._quiet_since is not None and now - self._quiet_since > _QUIET_S + self.controller.held_s

    def turn(self, liveness: Liveness) -> Turn:
        """Return the decision; `liveness` is what is known of the controller's process."""
        if self._turn is Turn.WAIT and liveness is Liveness.DEAD:
            return Turn.FREE
        return self._turn


class Succession:
    """The steps to become the next controller of a link. Taking over counts until the ledger was `opened`.

    `is_standing_by` while the end of another controller that is heard is awaited. `is_free` once no other process is
    found to run it.
    """

    def __init__(self, link: str, when_occupied: WhenOccupied, silence_s: float) -> None:
        self._silence_s = silence_s
        self._key = ControllerDocument.key_of(link)
        self._when_occupied = when_occupied
        self.is_standing_by = self.is_free = False
        self._vigil: Vigil | None = None
        self._entry: Entry | None = None
        self._position = 0
        self._topic_id = NO_TOPIC_ID
        self._own: set[int] = set()
        self._gone: ControllerDocument | None = None

    def note_fence(self, generation: int) -> None:
        """Note that this process has this generation: the ledger's documents of it are its own."""
        self._own.add(generation)

    def note_opening(self) -> None:
        """Note that this process has the link. If another one takes it later, this one does not take it over again."""
        if self._when_occupied is WhenOccupied.TAKE_OVER:
            self._when_occupied = WhenOccupied.LEAVE

    @property
    def is_in_doubt(self) -> bool:
        """Whether there was a controller that is not heard now: soon it is known whether it is gone."""
        return self._vigil is not None and self._vigil.is_quiet(time.monotonic())

    async def wait(self, target: Client, tell: Callable[[Problem], None]) -> None:
        """Return when no other process runs the link any more; `tell` reports what is waited for. Nothing is written.

        Call it again right before the link is taken: a controller that was found to be gone is not waited for twice.

        :raises Occupied: Another controller runs it, and its end is not to be waited for.
        :raises PlanRefused: A newer Isthmus wrote the ledger.
        :raises ClusterError: The ledger cannot be read.
        """
        await self._wait(target, tell)
        self.is_free = True

    async def _wait(self, target: Client, tell: Callable[[Problem], None]) -> None:
        if self._when_occupied is WhenOccupied.TAKE_OVER:
            return
        # The second time only new records have to be read.
        tail = LedgerTail(target, position=self._position, topic_id=self._topic_id)
        try:
            self._take(await _read(tail))
            found = None if self._entry is None else _controller(self._entry)
            if self._entry is None or found is None or found.generation in self._own:
                return
            if self._gone is not None and self._gone.generation == found.generation:
                if self._gone.beat == found.beat:
                    return
                if not self._stands_by:
                    self.is_free = False
                    raise _occupied_error(found)
            vigil = Vigil(found, stands_by=self._stands_by, silence_s=self._silence_s)
            self.is_standing_by, self.is_free, self._vigil = self._stands_by, False, vigil
            await self._watch(tail, vigil, partial(tell, self._problem(found, self._entry)))
            self._gone = vigil.controller
        finally:
            self.is_standing_by, self._vigil = False, None
            self._position, self._topic_id = tail.position, tail.topic_id
            tail.close()

    @property
    def _stands_by(self) -> bool:
        return self._when_occupied is WhenOccupied.STAND_BY

    def _problem(self, found: ControllerDocument, entry: Entry) -> Problem:
        if self._stands_by:
            return _standing_by_problem(found, self._silence_s)
        return _waiting_problem(found, entry, self._silence_s)

    def _take(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries of the link's controller, and keep the newest."""
        found = [entry for entry in entries if entry.key == self._key]
        self._entry = found[-1] if found else self._entry
        return found

    async def _watch(self, tail: LedgerTail, vigil: Vigil, tell: Callable[[], None]) -> None:
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
                vigil.unreadable()
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
        if turn is Turn.TAKEN:
            raise _occupied_error(vigil.controller)


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


def _occupied_error(by: ControllerDocument) -> Occupied:
    return Occupied(
        f"link {by.link} is run by {by.described}",
        hint="Only one controller runs a link, and this one has left it alone. End the other process, wait for its end "
        "with isthmus run --standby, or take the link over with --take-over.",
    )
