"""Plans for the groups of a link, from what is known of their commits."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized
from isthmus.groups.counterparts import Counterparts
from isthmus.groups.memory import GroupMemory
from isthmus.groups.observation import GroupsView, observe_groups
from isthmus.groups.plan import GroupPlan, plan_groups, plan_troubled
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.positions.mirrored import ended_partitions, mirrored_topics
from isthmus.groups.returning import ReturningTopics, TopicPaths
from isthmus.groups.uncarried import plan_gone, plan_name_clash, plan_unlisted, plan_unsupported
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.commits.poller import CARRIED_TYPES
from isthmus.kafka.commits.source import KnownCommits
from isthmus.kafka.groups.groups import describe_groups
from isthmus.lanes.maps import LinkMaps
from isthmus.ledger.documents.kinds import Document
from isthmus.memory.closed import read_closed
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.kafka.group import GroupListing, GroupState
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem

_MOVED: Final = (Standing.AHEAD_AT_TARGET, Standing.MOVED_AT_TARGET)


class Review(ABC):
    """Plans for the groups of one link. `documents` are the ledger's, always up to date; `maps` are those of its lanes.

    `unstable` are the groups at the target for which commits in a transaction were pending at the last look, and since
    when (on the monotonic clock). A mirror knows its groups by their commits at the source, and sends nothing.
    """

    def __init__(
        self, link: Link, source: Client, target: Client, memory: GroupMemory, documents: Mapping[str, Document]
    ) -> None:
        self._link = link
        self._source, self._target = source, target
        self._memory = memory
        self._documents = documents
        self.maps = LinkMaps(link.name, documents)
        self.unstable: dict[str, float] = {}

    @abstractmethod
    async def refresh(self) -> None:
        """Look at what seldom changes.

        :raises ClusterError: A cluster as a whole did not answer.
        """

    @property
    def groups(self) -> frozenset[str]:
        """The groups known by other means than commits at the source."""
        return frozenset()

    async def find_news(self) -> frozenset[str]:
        """Return the groups with news from other means than commits at the source.

        :raises ClusterError: The news cannot be read.
        """
        return frozenset()

    @abstractmethod
    async def plan(self, commits: KnownCommits, due: Collection[str]) -> list[GroupPlan]:
        """Plan what to do with the groups that are due, and with all that cannot be carried.

        :raises ClusterError: A cluster as a whole did not answer.
        """

    async def send(self, plans: Sequence[GroupPlan]) -> list[GroupPlan]:
        """Do what has to be done before anything is committed; return the plans as they are then.

        :raises ClusterError: It cannot be done.
        """
        return list(plans)

    def close(self) -> None:  # noqa: B027 - most have no resources
        """Close the resources."""


class GroupReview(Review):
    """Plans for one link that mirrors."""

    def __init__(
        self, link: Link, source: Client, target: Client, memory: GroupMemory, documents: Mapping[str, Document]
    ) -> None:
        super().__init__(link, source, target, memory, documents)
        self._counterparts = Counterparts(source, target)
        self._returning = ReturningTopics(source, target)
        self._mirrored: Mapping[SourceTopic, TargetTopic] = {}
        self._home: Mapping[SourceTopic, TargetTopic] = {}
        self._named: Collection[str] = frozenset()
        self._meeting: Mapping[str, Problem] = {}

    async def refresh(self) -> None:
        """Find out which topics are mirrored, and which are copies of the target's own.

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
        """Plan what to do with the groups that are due, and with all that cannot be carried.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        positions = commits.positions
        # A group that is not committed needs no name at the target: its checkpoints use the name at the source.
        meeting = self._meeting_of(positions) if self._link.groups.commit else {}
        known = {
            group: positions[group]
            for group in due
            if group in positions and group not in meeting and not is_denied(commits, group)
        }
        # At the same moment: else a commit newer than the position would be taken for an earlier one.
        transacted = {group: commits.find_transacted(group) for group in known}
        if any(topic not in self._mirrored for found in known.values() for topic, _ in found):
            await self.refresh()
        to_target = self._link.groups.naming.to_target
        unsure = await unsure_groups(
            self._counterparts,
            {g: {one.producer_id for found in by_key.values() for one in found} for g, by_key in transacted.items()},
            lambda name: to_target(name) or name,
        )
        sure = {group: known[group] for group in known if group not in unsure}
        producers = self._counterparts.producers
        echoes = {group: self._memory.echoes(group, transacted[group], producers) for group in sure}
        ended = ended_partitions(self._link.name, self._documents) | self._returning.ended
        self.maps.look()
        await self._returning.look()
        paths = TopicPaths(self._mirrored, self.maps, self._returning, frozenset(self._home.values()))
        view = await observe_groups(self._link, sure, echoes, paths, self._source, self._target, ended=ended)
        note_unstable(self.unstable, view)
        for group in view.groups:
            if group.committed is not None:
                self._memory.settle(group.group, group.committed)
            self._memory.note_echo(view, group)
        plans = [*await self._plan_view(view), *unsure.values()]
        plans += [
            plan_name_clash(group, to_target(group) or group, meeting[group]) for group in meeting if group in due
        ]
        plans += await self._plan_others(commits, due, {*known, *meeting})
        return with_listings(plans, commits.listings)

    async def _plan_view(self, view: GroupsView) -> tuple[GroupPlan, ...]:
        """Plan what to do with groups. A commit at the source of a synchronous link is acknowledged as held by the
        target, so a group that others cannot commit for there follows, even where its position was moved before.

        :raises ClusterError: The target's ledger cannot be read.
        """
        plans = plan_groups(view, self._memory.written)
        if not self._link.is_synchronous or not any(p.standing in _MOVED for plan in plans for p in plan.positions):
            return plans
        # After the positions were read: later commits of clients that are let in are not among these.
        shut = tuple(
            each.namespace for each in await read_closed(self._link, self._target) if each.namespace.kind == "group"
        )
        return plan_groups(replace(view, closed=shut), self._memory.written)

    def _meeting_of(self, groups: Collection[str]) -> Mapping[str, Problem]:
        """Return the groups whose names collide: checked at every commit, although new groups seldom come."""
        if self._named != (named := frozenset(groups)):
            self._named, self._meeting = named, self._link.groups.meeting(named)
        return self._meeting

    async def _plan_others(
        self, commits: KnownCommits, due: Collection[str], known: Collection[str]
    ) -> list[GroupPlan]:
        """Plan groups without a position: they cannot be read, keep it elsewhere, or are gone."""
        settings = self._link.groups
        found = unreadable_groups(commits, settings, known)
        unreadable = {plan.group for plan in found}
        remembered = self._memory.groups - commits.positions.keys() - unreadable
        missing = [group for group in remembered.intersection(due) if settings.matches(group)]
        return found + await self._plan_missing(missing, commits)

    async def _plan_missing(self, missing: Collection[str], commits: KnownCommits) -> list[GroupPlan]:
        """Plan the groups that their coordinators report not to exist; those gone on both sides are forgotten. A group
        that exists although no broker listed it has unknown positions.
        """
        if not missing:
            return []
        settings = self._link.groups
        names = {group: settings.naming.to_target(group) or group for group in missing}
        here = await describe_groups(self._source, missing)
        there = (await describe_groups(self._target, names.values())).values
        found = []
        for group, name in names.items():
            if group in here.errors:
                found.append(plan_troubled(group, name, here.errors[group]))
            elif here.values[group].state is not GroupState.DEAD:
                if group not in commits.listings:
                    found.append(plan_unlisted(group, name))
            elif name in there and there[name].state is GroupState.DEAD:
                self._memory.forget(group)
            else:
                delete = settings.commit and settings.delete_at_target
                found.append(plan_gone(group, name, delete=delete, certain=commits.way == "log"))
        return found


async def unsure_groups(
    links: Counterparts, producers: Mapping[str, Collection[int]], to_target: Callable[[str], str]
) -> dict[str, GroupPlan]:
    """Plan the groups for which it is unknown now whether other links committed for them; `producers` are by group."""
    try:
        await links.learn(set().union(*producers.values()))
    except ClusterError as error:
        return {
            group: plan_troubled(group, to_target(group), error)
            for group, found in producers.items()
            if set(found) - links.producers.keys()
        }
    return {}


def unreadable_groups(commits: KnownCommits, settings: GroupSettings, known: Collection[str]) -> list[GroupPlan]:
    """Plan groups without a known position: they cannot be read, or keep it elsewhere."""
    found = []
    for group in {*commits.errors, *commits.listings} - set(known):
        name = settings.naming.to_target(group) or group
        if group in commits.errors:
            found.append(plan_troubled(group, name, commits.errors[group]))
        elif commits.listings[group].type not in CARRIED_TYPES:
            found.append(plan_unsupported(group, name, commits.listings[group].type))
    return found


def note_unstable(unstable: dict[str, float], view: GroupsView) -> None:
    """Keep since when the target has commits in an open transaction."""
    for group in view.groups:
        if isinstance(group.error, BrokerRefused) and group.error.code == codes.UNSTABLE_OFFSET_COMMIT:
            unstable.setdefault(group.target_group, time.monotonic())
        else:
            unstable.pop(group.target_group, None)


def is_denied(commits: KnownCommits, group: str) -> bool:
    """Whether the group may not be read: commits of it seen in the log are not to be used then."""
    return isinstance(commits.errors.get(group), NotAuthorized)


def with_listings(plans: Iterable[GroupPlan], listings: Mapping[str, GroupListing]) -> list[GroupPlan]:
    """Return plans with the type and state of the groups at the source."""
    return [
        plan
        if plan.group not in listings
        else replace(plan, source_type=listings[plan.group].type, source_state=listings[plan.group].state)
        for plan in plans
    ]
