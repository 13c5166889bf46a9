"""The agenda of the groups of a link: which are to be looked at, and when all of them are. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from isthmus.groups.positions.carrying import Standing

_AGAIN_S: Final = {
    Standing.CATCHING_UP: 0.5,
    Standing.WAITING_FOR_MAP: 0.5,
    Standing.UNAVAILABLE: 2.0,
    Standing.ACTIVE_AT_TARGET: 2.0,
    Standing.NOT_MIRRORED: 2.0,
    Standing.OFFSETS_DIFFER: 2.0,
    Standing.MIRROR_ENDED: 2.0,
    Standing.NAMES_MEET: 2.0,
    Standing.CLOCKS_DIFFER: 2.0,
}
"""How often groups are looked at whose standing changes without a commit at the source."""


class GroupAgenda:
    """The groups that are due, and the passes over all groups, one every `interval_s`. All times are monotonic seconds.

    A group stays due until a look at it has succeeded.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._due: set[str] = set()
        self._again_at: dict[Standing, float] = {}
        self._all_at = 0.0
        self._wanted = self._begun = self._ended = 0

    def add(self, groups: Iterable[str]) -> None:
        """These groups are due from now on."""
        self._due.update(groups)

    def want_pass(self) -> int:
        """Request a pass that begins after this; return its number."""
        self._wanted = self._begun + 1
        return self._wanted

    def has_ended(self, number: int) -> bool:
        """Whether the pass with this number is over, or a later one."""
        return self._ended >= number

    def begin_pass(self, now: float) -> bool:
        """Begin a pass if one is due or requested; return whether it is: then `add_all` groups."""
        if now < self._all_at and self._begun >= self._wanted:
            return False
        self._begun += 1
        # One that does not get as far as to know all groups is begun once more.
        self._all_at = -math.inf
        return True

    def add_all(self, groups: Iterable[str], now: float) -> None:
        """These are all groups that there are: the pass that has begun is over once they were looked at."""
        self.add(groups)
        self._all_at = now + self._interval_s

    def list_due(self, now: float, standings: Mapping[str, Standing]) -> frozenset[str]:
        """Return the groups that are due, with those whose standing may have changed by itself."""
        for standing, interval_s in _AGAIN_S.items():
            if now >= self._again_at.get(standing, 0.0):
                self.add(group for group, found in standings.items() if found is standing)
                self._again_at[standing] = now + interval_s
        return frozenset(self._due)

    def end_look(self, due: frozenset[str]) -> None:
        """The look at these groups has succeeded, and with it the pass that has begun, if any."""
        self._due -= due
        self._ended = self._begun
