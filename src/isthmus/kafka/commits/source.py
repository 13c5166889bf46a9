"""Follows the commits of a cluster's groups in the best possible way: by the log of commits, else by polling."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, Protocol

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.commits.follower import CommitFollower
from isthmus.kafka.commits.poller import CommitPoller
from isthmus.kafka.commits.table import Transacted
from isthmus.kafka.groups.groups import OFFSETS_TOPIC, Positions
from isthmus.model.kafka.group import GroupListing
from isthmus.model.naming import SourceTopic, SourceTopicPartition

CommitWay = Literal["log", "polling"]
_AGAIN_S: Final = 60.0


class KnownCommits(Protocol):
    """The commits of all wanted groups, however they are known. The values are the same, by the log and by polling."""

    @property
    def way(self) -> CommitWay: ...
    @property
    def listings(self) -> Mapping[str, GroupListing]: ...
    @property
    def errors(self) -> Mapping[str, ClusterError]: ...
    @property
    def unheard(self) -> Mapping[int, ClusterError]: ...

    @property
    def positions(self) -> Mapping[str, Positions[SourceTopic]]:
        """All positions by group; groups without any are left out."""
        ...

    def find_transacted(self, group: str) -> Mapping[SourceTopicPartition, tuple[Transacted, ...]]:
        """The newest transactional commits of each position, as far as known from the log; none when polling."""
        ...

    def writers(self, group: str) -> Mapping[SourceTopicPartition, int]:
        """The producers that committed the present positions, as far as known from the log; none when polling."""
        ...

    async def wait_for_changes(self, timeout_s: float) -> frozenset[str]:
        """Wait for commits, at most `timeout_s`. Return groups whose positions may have changed since the last call.

        :raises NotAuthorized: READ on `__consumer_offsets` is missing.
        :raises ValueError: The log holds records that cannot be decoded.
        :raises ClusterError: The cluster cannot be read now; call again.
        """
        ...

    async def aclose(self) -> None:
        """Stop reading."""
        ...


class CommitSource:
    """Follows all wanted groups by the log, or polls them where that may not be read; the log is tried again every
    minute. `known` are their commits, and `reason` is why they are not known by the log.
    """

    def __init__(self, client: Client, wanted: Callable[[str], bool], literals: Collection[str] = ()) -> None:
        self._client = client
        self._wanted, self._literals = wanted, literals
        self.known: KnownCommits = CommitFollower(client, wanted, literals)
        self._again_at = 0.0
        self.reason = ""

    async def wait_for_changes(self, timeout_s: float) -> frozenset[str]:
        """Wait for commits, at most `timeout_s`. Return groups whose positions may have changed since the last call.

        :raises ClusterError: The cluster cannot be read now; call again.
        """
        if self.known.way == "polling" and time.monotonic() > self._again_at:
            self.known = CommitFollower(self._client, self._wanted, self._literals)
        if self.known.way == "log":
            try:
                found = await self.known.wait_for_changes(timeout_s)
                self.reason = ""
                return found
            except (NotAuthorized, ValueError) as error:
                self.reason = str(error)
            except BrokerRefused as error:
                # A cluster that never had a group has no such topic yet.
                if error.code != codes.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                self.reason = f"{self._client.cluster.alias} has no {OFFSETS_TOPIC} yet"
            await self.known.aclose()
            self.known = CommitPoller(self._client, self._wanted, self._literals)
            self._again_at = time.monotonic() + _AGAIN_S
        return await self.known.wait_for_changes(timeout_s)

    async def aclose(self) -> None:
        """Stop reading."""
        await self.known.aclose()
