"""Plans for the groups of a link, from what is known of their commits."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from isthmus.cluster.commits.poller import CARRIED_TYPES
from isthmus.cluster.commits.source import CommitWay
from isthmus.cluster.commits.table import Transacted
from isthmus.cluster.groups import Positions, describe_groups
from isthmus.control.groups.counterparts import Counterparts
from isthmus.control.groups.memory import GroupMemory
from isthmus.control.groups.mirrored import ended_partitions, mirrored_topics
from isthmus.control.groups.observation import observe_groups
from isthmus.control.groups.paths import TopicPaths
from isthmus.control.groups.plan import GroupPlan, gone, plan_groups, troubled, unsupported
from isthmus.control.groups.returning import ReturningTopics
from isthmus.control.lanes.maps import LinkMaps
from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized
from isthmus.ledger.documents import Document
from isthmus.model.group import GroupListing, GroupState
from isthmus.model.link import Link
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey


class KnownCommits(Protocol):
    """What is known of the groups at the source."""

    @property
    def way(self) -> CommitWay: ...
    @property
    def listings(self) -> Mapping[str, GroupListing]: ...
    @property
    def positions(self) -> Mapping[str, Positions]: ...
    @property
    def errors(self) -> Mapping[str, ClusterError]: ...
    def transacted(self, group: str) -> Mapping[PartitionKey, Collection[Transacted]]: ...


class GroupReview:
    """Plans for one link. `documents` are the ledger's, as they are at any moment.

    `unstable` are the groups at the target for which commits in a transaction were pending at the last look, and since
    when (on the monotonic clock).
    """

    def __init__(
        self, link: Link, source: Client, target: Client, memory: GroupMemory, documents: Mapping[str, Document]
    ) -> None:
        self._link = link
        self._source, self._target = source, target
        self._memory = memory
        self._documents = documents
        self._counterparts = Counterparts(source, target)
        self.maps = LinkMaps(link.name, documents)
        self._returning = ReturningTopics(source, target)
        self._mirrored: Mapping[str, str] = {}
        self._home: Mapping[str, str] = {}
        self.unstable: dict[str, float] = {}

    async def refresh(self) -> None:
        """Look which topics are mirrored, and which are copies of the target's own.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        name = self._link.name
        mirrored = await mirrored_topics(name, self._documents, self._source, self._target)
        await self._returning.refresh()
        # A topic that the link mirrors itself is its own, and so is what it makes at the target.
        own = set(mirrored.values())
        self._home = {
            copy: topic for copy, topic in self._returning.topics.items() if copy not in mirrored and topic not in own
        }
        self._mirrored = {**mirrored, **self._home}

    async def plan(self, commits: KnownCommits, due: Collection[str]) -> list[GroupPlan]:
        """What to do with the groups that are due, and with all that cannot be carried.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        positions = commits.positions
        known = {group: positions[group] for group in due if group in positions and not _is_denied(commits, group)}
        # At the same moment: a commit that is newer than the position would be taken for one it came after.
        transacted = {group: commits.transacted(group) for group in known}
        if any(topic not in self._mirrored for found in known.values() for topic, _ in found):
            await self.refresh()
        unsure = await self._unsure(transacted)
        sure = {group: known[group] for group in known if group not in unsure}
        producers = self._counterparts.producers
        echoes = {group: self._memory.echoes(group, transacted[group], producers) for group in sure}
        ended = ended_partitions(self._link.name, self._documents) | self._returning.ended
        self.maps.look()
        await self._returning.look()
        paths = TopicPaths(self._mirrored, self.maps, self._returning, frozenset(self._home.values()))
        view = await observe_groups(self._link, sure, echoes, paths, self._source, self._target, ended=ended)
        for group in view.groups:
            if isinstance(group.error, BrokerRefused) and group.error.code == codes.UNSTABLE_OFFSET_COMMIT:
                self.unstable.setdefault(group.target_group, time.monotonic())
            else:
                self.unstable.pop(group.target_group, None)
            if group.committed is not None:
                self._memory.settle(group.group, group.committed)
            self._memory.echoed(view, group)
        plans = [*plan_groups(view, self._memory.written), *unsure.values()]
        plans += await self._others(commits, due, known)
        return [_with_listing(plan, commits.listings.get(plan.group)) for plan in plans]

    async def _unsure(
        self, transacted: Mapping[str, Mapping[PartitionKey, Collection[Transacted]]]
    ) -> dict[str, GroupPlan]:
        """The groups of which it cannot be told now whether a link in the other direction committed for them."""
        producers = {
            group: {one.producer_id for commits in found.values() for one in commits}
            for group, found in transacted.items()
        }
        try:
            await self._counterparts.learn(set().union(*producers.values()))
        except ClusterError as error:
            to_target = self._link.groups.naming.to_target
            return {
                group: troubled(group, to_target(group) or group, error)
                for group in producers
                if producers[group] - self._counterparts.producers.keys()
            }
        return {}

    async def _others(self, commits: KnownCommits, due: Collection[str], known: Collection[str]) -> list[GroupPlan]:
        """Groups without a position: they cannot be read, keep it elsewhere, or are gone."""
        found = []
        settings = self._link.groups
        for group in {*commits.errors, *commits.listings} - set(known):
            name = settings.naming.to_target(group) or group
            if group in commits.errors:
                found.append(troubled(group, name, commits.errors[group]))
            elif commits.listings[group].type not in CARRIED_TYPES:
                found.append(unsupported(group, name, commits.listings[group].type))
        told = {plan.group for plan in found}
        remembered = self._memory.groups - commits.positions.keys() - told
        missing = [group for group in remembered.intersection(due) if settings.matches(group)]
        return found + await self._gone(missing, certain=commits.way == "log")

    async def _gone(self, missing: Collection[str], *, certain: bool) -> list[GroupPlan]:
        """Those of which their coordinators say that they do not exist; gone on both sides they are forgotten."""
        if not missing:
            return []
        settings = self._link.groups
        names = {group: settings.naming.to_target(group) or group for group in missing}
        here = (await describe_groups(self._source, missing)).values
        there = (await describe_groups(self._target, names.values())).values
        found = []
        for group, name in names.items():
            if group in here and here[group].state is GroupState.DEAD:
                if name in there and there[name].state is GroupState.DEAD:
                    self._memory.forget(group)
                else:
                    found.append(gone(group, name, delete=settings.delete_at_target, certain=certain))
        return found


def _is_denied(commits: KnownCommits, group: str) -> bool:
    """Whether we may not see the group: what the log tells of it is none of our business."""
    return isinstance(commits.errors.get(group), NotAuthorized)


def _with_listing(plan: GroupPlan, listing: GroupListing | None) -> GroupPlan:
    return plan if listing is None else replace(plan, source_type=listing.type, source_state=listing.state)
