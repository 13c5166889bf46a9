"""The candidacy of a process for a link: whether it may run it, by the controllers in the ledger. Pure."""

from __future__ import annotations

import enum
from typing import NamedTuple

from isthmus.errors import ConfigError, Occupied
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.run.state.vigil import Turn, Vigil


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


class _Beat(NamedTuple):
    """The last sign of life of a controller."""

    generation: int
    beat: int


class Candidacy:
    """What a process knows of the controllers of a link. `vigil` is for one whose end is awaited now, and `turn` is the
    last decision: FREE once no other process was found to run the link.
    """

    def __init__(self, when_occupied: WhenOccupied, silence_s: float) -> None:
        self._when_occupied, self._silence_s = when_occupied, silence_s
        self._own: set[int] = set()
        self._gone: _Beat | None = None
        self.turn = Turn.WAIT
        self.vigil: Vigil | None = None

    def fence(self, generation: int) -> None:
        """This process has this generation: the ledger's documents of it are its own."""
        self._own.add(generation)

    def take(self) -> None:
        """This process has the link. If another one takes it later, this one does not take it over again."""
        if self._when_occupied is WhenOccupied.TAKE_OVER:
            self._when_occupied = WhenOccupied.LEAVE

    def find(self, found: ControllerDocument | None) -> Vigil | None:
        """Begin a vigil for the newest controller in the ledger, and return it; `None` where the link is free. No
        controller is waited for twice.

        :raises Occupied: One that was taken to be gone is heard, and its end is not to be waited for.
        """
        if found is None or not self.looks or found.generation in self._own or _beat_of(found) == self._gone:
            self.turn = Turn.FREE
            return None
        if self._gone is not None and self._gone.generation == found.generation and not self.stands_by:
            self.turn = Turn.TAKEN
            raise _occupied_error(found)
        self.turn = Turn.WAIT
        self.vigil = Vigil(found, stands_by=self.stands_by, silence_s=self._silence_s)
        return self.vigil

    def conclude(self, vigil: Vigil, turn: Turn) -> None:
        """The vigil has led to a decision.

        :raises Occupied: Another controller runs the link.
        """
        self.turn = turn
        if turn is Turn.TAKEN:
            raise _occupied_error(vigil.controller)
        self._gone = _beat_of(vigil.controller)

    def leave(self) -> None:
        """End the vigil, if there is one."""
        self.vigil = None

    @property
    def looks(self) -> bool:
        """Whether other controllers matter at all."""
        return self._when_occupied is not WhenOccupied.TAKE_OVER

    @property
    def stands_by(self) -> bool:
        """Whether it waits for the end of a controller that is heard."""
        return self._when_occupied is WhenOccupied.STAND_BY

    @property
    def is_standing_by(self) -> bool:
        """Whether it waits for such an end now."""
        return self.stands_by and self.vigil is not None

    def is_in_doubt(self, now: float) -> bool:
        """Whether there was a controller that is not heard now: soon it is known whether it is gone."""
        return self.vigil is not None and self.vigil.is_quiet(now)


def _beat_of(document: ControllerDocument) -> _Beat:
    return _Beat(document.generation, document.beat)


def _occupied_error(by: ControllerDocument) -> Occupied:
    """Return the error of a link that is left to another controller."""
    return Occupied(
        f"link {by.link} is run by {by.described}",
        hint="Only one controller runs a link, and this one has left it alone. End the other process, wait for its end "
        "with isthmus run --standby, or take the link over with --take-over.",
    )
