"""How many topics of a link may go at once at its source before their copies are not deleted without being asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_SHARE: Final = 4
"""At most every fourth topic of a link goes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """What the source says now of the topics that a link has mirrored: `there` are the very topics, by their ids,
    `gone` are in its cluster no more. `recent` are those whose copies were deleted within the last hour.
    """

    there: int
    gone: int
    recent: int

    @property
    def is_usual(self) -> bool:
        """Whether it looks like somebody who deleted single topics: a source that has lost most, or all, of what it
        had was perhaps emptied, restored or set up anew.
        """
        going = self.gone + self.recent
        return self.there > 0 and going <= max(1, (self.there + going) // _SHARE)
