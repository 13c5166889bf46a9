"""Follows the commits of a cluster's groups in the best possible way: by the log of commits, else by polling."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.commits.follower import CommitFollower
from isthmus.kafka.commits.poller import CommitPoller
from isthmus.kafka.commits.table import Transacted
from isthmus.kafka.groups.groups import OFFSETS_TOPIC, Positions
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.kafka.group import GroupListing

CommitWay = Literal["log", "polling"]
_AGAIN_S: Final = 60.0


class CommitSource:
    """Positions of all wanted groups, from the log or by polling; the values are the same.

    `way` shows which is used, and `reason` why it is not the log. The log is tried again every minute.
    """

    def __init__(self, client: Client, wanted: Callable[[str], bool], literals: Collection[str] = ()) -> None:
        self._client = client
        self._wanted, self._literals = wanted, literals
        self._follower: CommitFollower | None = CommitFollower(client, wanted, literals)
        self._poller: CommitPoller | None = None
        self._again_at = 0.0
        self.reason = ""

    @property
    def way(self) -> CommitWay:
        return "log" if self._follower is not None else "polling"

    @property
    def listings(self) -> dict[str, GroupListing]:
        """The existing groups, at most some seconds old."""
        return self._at_work.listings

    @property
    def positions(self) -> Mapping[str, Positions]:
        """All positions by group; groups without any are left out."""
        return self._at_work.positions

    def find_transacted(self, group: str) -> Mapping[PartitionKey, tuple[Transacted, ...]]:
        """The newest transactional commits of each position, as far as known from the log; none when polling."""
        return self._at_work.find_transacted(group)

    def writers(self, group: str) -> Mapping[PartitionKey, int]:
        """The producers that committed the present positions, as far as known from the log; none when polling."""
        return self._at_work.writers(group)

    @property
    def errors(self) -> dict[str, ClusterError]:
        """Groups whose positions cannot be read, and why."""
        return self._at_work.errors

    @property
    def unheard(self) -> Mapping[int, ClusterError]:
        """Brokers that did not list their groups at the last look, and why: their groups may not be known."""
        return self._at_work.unheard

    @property
    def problem(self) -> ClusterError | None:
        """Why the log cannot be read at the moment."""
        return None if self._follower is None else self._follower.problem

    async def wait_for_changes(self, timeout_s: float) -> frozenset[str]:
        """Wait for commits, at most `timeout_s`. Return groups whose positions may have changed since the last call.

        :raises ClusterError: The cluster cannot be read now; call again.
        """
        if self._follower is None and time.monotonic() > self._again_at:
            self._follower, self._poller = CommitFollower(self._client, self._wanted, self._literals), None
        if self._follower is not None:
            try:
                found = await self._follower.wait_for_changes(timeout_s)
                self.reason = ""
                return found
            except (NotAuthorized, ValueError) as error:
                self.reason = str(error)
            except BrokerRefused as error:
                # A cluster that never had a group has no such topic yet.
                if error.code != codes.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                self.reason = f"{self._client.cluster.alias} has no {OFFSETS_TOPIC} yet"
            await self._follower.aclose()
            self._follower = None
            self._poller = CommitPoller(self._client, self._wanted, self._literals)
            self._again_at = time.monotonic() + _AGAIN_S
        return await self._at_work.wait_for_changes(timeout_s)

    async def aclose(self) -> None:
        """Stop reading."""
        await self._at_work.aclose()

    @property
    def _at_work(self) -> CommitFollower | CommitPoller:
        at_work = self._follower or self._poller
        assert at_work is not None  # noqa: S101 - one of them always is
        return at_work
