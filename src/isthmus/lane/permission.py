"""Whether an engine may write: asked when a request is made, and again when its bytes leave."""

from __future__ import annotations

from isthmus.wire.clock import lasting_s


class Granted:
    """What a lease was granted, and until when. `is_given` says that it is its turn, `is_over` that it is ending.

    `until` is a time of `lasting_s`, `None` for ever.
    """

    def __init__(self, *, is_given: bool) -> None:
        self.is_given = is_given
        self.is_over = False
        self.until: float | None = None

    @property
    def has_lapsed(self) -> bool:
        """Whether the time is over: it may be renewed."""
        return self.until is not None and lasting_s() >= self.until

    def may_send(self) -> bool:
        """Whether bytes may leave now, those of earlier requests too: a paused process may wake up much later."""
        return self.is_given and not self.has_lapsed

    def may_write(self) -> bool:
        """Whether a request may be made now."""
        return not self.is_over and self.may_send()

    def renew(self, until: float | None) -> bool:
        """Nothing leaves from `until` on. Whether the time was over before and is not any more: somebody else may have
        written meanwhile, and whoever was refused in between waits.
        """
        has_lapsed = self.has_lapsed
        self.until = until
        return has_lapsed and not self.has_lapsed
