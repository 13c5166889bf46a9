"""Follows a ledger from look to look."""

from __future__ import annotations

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.log import LedgerTail, News, ToShow
from isthmus.ledger.topic import is_missing


class Bookmark:
    """A position in a cluster's ledger from which leases of a link have to read on."""

    def __init__(self, _: Client | None = None) -> None:
        self.position = 0
        self.topic_id = NO_TOPIC_ID

    def close(self) -> None:
        """Do nothing: companions of a client need this method."""


class LedgerView:
    """Follows the ledger of one cluster: each look reads the records since the one before, over one connection."""

    def __init__(self, client: Client) -> None:
        self._tail, self._shown = LedgerTail(client), client.companion(ToShow)
        self._is_followed = False

    def mark(self, bookmark: Bookmark) -> None:
        """Set a bookmark to the end of the last look."""
        bookmark.position, bookmark.topic_id = self._tail.position, self._tail.topic_id

    async def look(self, *, is_patient: bool = False) -> News:
        """Read new records; a missing ledger is an empty one. Callers that look only once, and would have to start
        from the beginning again, set `is_patient`, to wait as long as quotas require.

        :raises ClusterError: The ledger cannot be read; the next look returns the records read so far.
        """
        was_followed, self._is_followed = self._is_followed, False
        try:
            news = await self._look(is_patient=is_patient)
        except Unreachable:
            if not was_followed:
                raise
            # The leader of the last look may not lead any more, or the ledger may be gone.
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
