"""Whether an engine may write: checked when a request is made, and again when its bytes leave."""

from __future__ import annotations

from isthmus.kafka.clock import lasting_s


class Granted:
    """The permission of a lease to write: `is_given` when it is granted, `is_over` when the lease is ending.

    It lapses at `until`, a time of `lasting_s`; `None` for never.
    """

    def __init__(self, *, is_given: bool) -> None:
        self.is_given = is_given
        self.is_over = False
        self.until: float | None = None

    @property
    def has_lapsed(self) -> bool:
        """Whether the permission has lapsed. It may be renewed."""
        return self.until is not None and lasting_s() >= self.until

    def may_send(self) -> bool:
        """Whether bytes may leave now, also those of earlier requests: a paused process may wake up much later."""
        return self.is_given and not self.has_lapsed

    def may_write(self) -> bool:
        """Whether a request may be made now."""
        return not self.is_over and self.may_send()

    def renew(self, until: float | None) -> bool:
        """Set the time from which nothing may leave. Return whether this ends a lapse: others may have written
        meanwhile, and lanes whose requests were refused during it wait to go on.
        """
        has_lapsed = self.has_lapsed
        self.until = until
        return has_lapsed and not self.has_lapsed
