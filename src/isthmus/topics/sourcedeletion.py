"""The limit of topics of a link that may disappear at once at its source before the deletion of their copies needs a
confirmation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_SHARE: Final = 4
"""At most every fourth topic of a link may go at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """The state at the source of the topics that a link has mirrored: `there` are the very topics, by their ids, `gone`
    are no longer in its cluster. `recent` are those whose copies were deleted within the last hour.
    """

    there: int
    gone: int
    recent: int

    @property
    def is_usual(self) -> bool:
        """Whether it looks like the deletion of single topics: a source that has lost most, or all, of its topics was
        perhaps emptied, restored or set up again.
        """
        going = self.gone + self.recent
        return self.there > 0 and going <= max(1, (self.there + going) // _SHARE)
