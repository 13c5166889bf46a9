"""The pulse of a link's controller: what it writes about itself, and how late its next beat may come. Pure."""

from __future__ import annotations

from typing import Final

from isthmus import __version__
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.model.process.whereabouts import Whereabouts

BEAT_S: Final = 2.0
SILENCE_S: Final = 5 * BEAT_S
"""A controller that was not heard for so long counts as ended, for display and for successors."""
_HELD_S_MAX: Final = 120.0
"""A controller that a quota delays for longer is not waited for."""


class Pulse:
    """The beats of one controller. All times are monotonic seconds.

    `beat` is the number of the last one, `held_s` for how long a quota may delay the next (s). `muted_until` is up to
    when the leader reads nothing over the present connection.
    """

    def __init__(self, link: str, whereabouts: Whereabouts, started_ms: int) -> None:
        self.beat = 0
        self.held_s = 0.0
        self._link, self._whereabouts, self._started_ms = link, whereabouts, started_ms
        self._announced_until = 0.0
        self._attached_said = ""
        self._is_alone = False

    def make(self, generation: int) -> ControllerDocument:
        """Make the next beat."""
        self.beat += 1
        process = self._whereabouts
        return ControllerDocument(
            link=self._link,
            generation=generation,
            beat=self.beat,
            started_ms=self._started_ms,
            host=process.host,
            host_id=process.host_id,
            pid=process.pid,
            process_start=process.process_start,
            version=__version__,
            held_s=round(self.held_s, 1),
            attached_said=self._attached_said,
        )

    def be_alone(self) -> None:
        """Leases of former controllers have ended, and left no request on its way."""
        self._is_alone = True

    def vouch(self, attached_said: str) -> None:
        """From the next beat on announce what is attached (`ControllerDocument`), if nothing of former ones is left."""
        self._attached_said = attached_said if self._is_alone else ""

    def is_muted_longer(self, muted_until: float, now: float) -> bool:
        """Whether the leader has muted the connection for so long that it has to be announced."""
        return muted_until > max(now, self._announced_until) + SILENCE_S / 2

    def announce_mute(self, muted_until: float, now: float) -> bool:
        """Have the next beat announce for how long the connection is muted; return whether one is due for that."""
        if not self.is_muted_longer(muted_until, now):
            return False
        self._announced_until = muted_until
        self.held_s = min(muted_until - now, _HELD_S_MAX)
        return True

    def note_written(self, begun: float, now: float, *, was_held: bool) -> None:
        """Note that the beat whose write began at `begun` is in the ledger. `was_held`: brokers have delayed requests
        since then because of a quota.
        """
        # The next beat may be as late as this one, and later.
        is_slow = was_held and now - begun > BEAT_S
        self.held_s = min(max(self._announced_until - now, 2 * (now - begun) if is_slow else 0.0, 0.0), _HELD_S_MAX)
