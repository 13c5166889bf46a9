"""Polls all positions of groups, where the log of commits may not be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.commits.table import Transacted
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets, list_groups, merge_listings
from isthmus.model.kafka.group import GroupListing, GroupType
from isthmus.model.naming import SourceTopic, SourceTopicPartition

INTERVAL_S: Final = 1.0
_PATIENCE_S: Final = 2.0
"""A missing coordinator must not delay all other groups: its groups are asked for again later anyway."""
CARRIED_TYPES: Final = frozenset({GroupType.CLASSIC, GroupType.CONSUMER, GroupType.STREAMS, GroupType.UNKNOWN})
"""The types whose progress is committed offsets; share groups keep it record by record, elsewhere."""


class GroupSurvey:
    """All wanted groups as coordinators describe them.

    `listings` are the existing groups, at most some seconds old, `answered` their positions at the last look, and
    `errors` groups that cannot be read, and why. `literals` are asked for even if not listed, so that a missing right
    shows. `unheard` are brokers that did not list their groups, and why: an unknown group may be one of theirs.
    """

    def __init__(self, client: Client, wanted: Callable[[str], bool], literals: Collection[str] = ()) -> None:
        self.listings: dict[str, GroupListing] = {}
        self.answered: dict[str, Positions[SourceTopic]] = {}
        self.errors: dict[str, ClusterError] = {}
        self.unheard: Mapping[int, ClusterError] = {}
        self._client = client
        self._wanted = wanted
        self._literals = frozenset(literals)

    async def survey(self, *, known: Collection[str] = (), unlisted: Collection[str] = ()) -> None:
        """Take a look. A group that cannot be read is among `errors`, and keeps its former positions.

        `known` groups are not asked for; `unlisted` ones are asked for in addition.

        :raises ClusterError: The cluster as a whole did not answer.
        """
        found = await list_groups(self._client)
        if found.errors and not found.values:
            raise next(iter(found.errors.values()))
        self.unheard = found.errors
        before = self.listings if found.errors else {}
        # The groups of a broker that does not answer are not gone.
        self.listings = {**before, **{name: one for name, one in merge_listings(found).items() if self._wanted(name)}}
        shares = {name for name, listing in self.listings.items() if listing.type not in CARRIED_TYPES}
        # No broker lists a group whose coordinator is just moving; the new one knows whether the group is gone.
        asked = ({*self.listings, *self.answered, *unlisted} | self._literals) - shares - set(known)
        outcome: CommittedOffsets[SourceTopic] = await committed_offsets(self._client, asked, patience_s=_PATIENCE_S)
        kept = {group: self.answered[group] for group in outcome.errors if group in self.answered}
        self.answered = {**{g: p for g, p in outcome.values.items() if p}, **kept}
        self.errors = dict(outcome.errors)


class CommitPoller(GroupSurvey):
    """The positions of all wanted groups, at most `INTERVAL_S` old; see `KnownCommits`."""

    way: Final = "polling"

    def __init__(self, client: Client, wanted: Callable[[str], bool], literals: Collection[str] = ()) -> None:
        super().__init__(client, wanted, literals)
        self._due = 0.0

    @property
    def positions(self) -> Mapping[str, Positions[SourceTopic]]:
        """All positions by group; groups without any are left out."""
        return self.answered

    def find_transacted(self, group: str) -> Mapping[SourceTopicPartition, tuple[Transacted, ...]]:
        """Return nothing: coordinators do not report whether a commit was transactional."""
        return {}

    def writers(self, group: str) -> Mapping[SourceTopicPartition, int]:
        """Return nothing, for the same reason."""
        return {}

    async def wait_for_changes(self, timeout_s: float) -> frozenset[str]:
        """Wait for commits, at most `timeout_s`. Return the groups whose positions changed since the last call.

        :raises ClusterError: The cluster as a whole did not answer.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            wait_s = min(self._due, deadline) - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            if time.monotonic() < self._due:
                return frozenset()
            before = self.answered
            self._due = time.monotonic() + INTERVAL_S
            await self.survey()
            now = self.answered
            found = frozenset(group for group in before.keys() | now.keys() if before.get(group) != now.get(group))
            if found or time.monotonic() >= deadline:
                return found

    async def aclose(self) -> None:
        """Do nothing: no connection is kept."""
