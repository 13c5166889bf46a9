"""A ledger as it is now, followed from look to look."""

from __future__ import annotations

from isthmus.errors import ClusterError, Unreachable
from isthmus.ledger.log import LedgerTail, News, ToShow
from isthmus.ledger.topic import is_missing
from isthmus.wire.client import Client
from isthmus.wire.metadata import NO_TOPIC_ID


class Bookmark:
    """A place in a cluster's ledger from where on all is still to be read that leases of a link have to know."""

    def __init__(self, _: Client | None = None) -> None:
        self.position = 0
        self.topic_id = NO_TOPIC_ID

    def close(self) -> None:
        """There is nothing to close: it may be kept beside a client."""


class LedgerView:
    """Follows the ledger of one cluster: each look reads what was written since the one before, over one connection."""

    def __init__(self, client: Client) -> None:
        self._tail, self._shown = LedgerTail(client), client.companion(ToShow)
        self._is_followed = False

    def mark(self, bookmark: Bookmark) -> None:
        """Have a bookmark be where the last look ended."""
        bookmark.position, bookmark.topic_id = self._tail.position, self._tail.topic_id

    async def look(self, *, is_patient: bool = False) -> News:
        """What is new; a ledger that is not there is an empty one. Who looks but once, and would begin from the start
        again, `is_patient`: it takes as long as quotas have it take.

        :raises ClusterError: It cannot be read; what was read the next look tells.
        """
        was_followed, self._is_followed = self._is_followed, False
        try:
            news = await self._look(is_patient=is_patient)
        except Unreachable:
            if not was_followed:
                raise
            # Whoever led it when it was last looked at may lead it no more, or it may be gone.
            news = await self._look(is_patient=is_patient)
        self._is_followed = True
        return news

    async def _look(self, *, is_patient: bool) -> News:
        try:
            return await self._tail.read_on(is_patient=is_patient)
        except ClusterError as error:
            if not is_missing(error) or self._shown.offset >= 0:
                raise
            self._tail.position = 0
            return News([], is_other_log=True)

    def close(self) -> None:
        """Let go of the connection."""
        self._tail.close()
