"""The vigil for a controller that may be gone: silence makes its link free, and a beat does not. Pure."""

from __future__ import annotations

import enum
from typing import Final

from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.pulse import BEAT_S, SILENCE_S
from isthmus.model.process.whereabouts import Liveness

_QUIET_S: Final = 2 * BEAT_S


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

    def note_unreadable(self) -> None:
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
