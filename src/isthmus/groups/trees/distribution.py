"""Positions of groups distributed in a tree, as Axual's offset distributors do it (docs/trees.md).

Two parts, for one distributor of the tree each. The sending: the last commits of its cluster, and the times that came
there from above (`model/trees/positions.py`), into the map of its target. And the committing there: by that map, by
time, under the rules of every link (`groups/positions/carrying.py`). The time stands for the position at the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from isthmus.groups.authors import CommitAuthors
from isthmus.groups.memory import GroupMemory
from isthmus.groups.observation import GroupView, observe_groups
from isthmus.groups.plan import GroupPlan, PositionPlan, plan_groups, with_positions
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.positions.clocks import read_until
from isthmus.groups.positions.mirrored import ended_partitions, mirrored_topics
from isthmus.groups.positions.translation import TargetPosition, Translation, offsets_or_ends, rounds
from isthmus.groups.review import Review, is_denied, note_unstable, unreadable_groups, with_listings
from isthmus.groups.trees.positions import PositionMap
from isthmus.groups.trees.times import RecordTime, RecordTimes, SourcePosition
from isthmus.kafka.client import Client
from isthmus.kafka.commits.source import KnownCommits
from isthmus.kafka.groups.groups import Positions
from isthmus.ledger.documents.kinds import Document
from isthmus.memory.links import now_ms
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.kafka.group import NO_OFFSET, Committed
from isthmus.model.link import DistributorRole, Link
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic
from isthmus.model.trees.positions import (
    PositionEntry,
    PositionKey,
    SeenCommit,
    add_flags,
    is_news,
    is_to_commit,
    is_to_send,
    sent_entry,
    split_flags,
)

_MS_PER_S: Final = 1000
_NOWHERE: Final = -1
_ELSEWHERE: Final = Committed(NO_OFFSET)


@dataclass(frozen=True, slots=True)
class _ByTime:
    """The topics of a tree, for which times are looked up at the target."""

    mirrored: Mapping[SourceTopic, TargetTopic]
    home: frozenset[TargetTopic] = frozenset()

    @property
    def mapped(self) -> frozenset[TargetTopic]:
        return frozenset(self.mirrored.values())

    async def translation(
        self, settings: GroupSettings, wanted: Collection[TargetPosition], source: Client, target: Client
    ) -> Translation:
        """Translate times into offsets: the first record that is not older, else the end of the log.

        :raises ClusterError: A partition's leader did not answer.
        """
        found = Translation()
        for times in rounds(wanted):
            for key, offset, end in await offsets_or_ends(target, times):
                at = (key, times[key])
                found.offsets[at] = end if offset == _NOWHERE else offset
                if offset == _NOWHERE:
                    found.unreached.add(at)
        return found


@dataclass(slots=True)
class _Due:
    """The result for the positions of one group: entries by partition, which of them are news, and why others have
    none. The times of records are unreliable for those that are `doubtful`.
    """

    entries: dict[SourceTopicPartition, PositionEntry] = field(default_factory=dict)
    news: set[SourceTopicPartition] = field(default_factory=set)
    others: dict[SourceTopicPartition, Standing] = field(default_factory=dict)
    doubtful: set[SourceTopicPartition] = field(default_factory=set)


class DistributedReview(Review):
    """Plans for one distributor of a tree, whose `role` it is."""

    def __init__(
        self,
        link: Link,
        role: DistributorRole,
        source: Client,
        target: Client,
        memory: GroupMemory,
        documents: Mapping[str, Document],
    ) -> None:
        super().__init__(link, source, target, memory, documents)
        self._role = role
        self._here, self._there = PositionMap(source), PositionMap(target)
        self._authors = CommitAuthors(source, target, dict(role.inbound))
        self._times = RecordTimes(source)
        self._margin_ms = int(link.groups.margin_s * _MS_PER_S)
        self._topics: Mapping[SourceTopic, TargetTopic] = {}

    @property
    def groups(self) -> frozenset[str]:
        """The groups in the maps of both clusters."""
        return self._select(key.group for key in (*self._here.entries, *self._there.entries))

    async def find_news(self) -> frozenset[str]:
        """Return the groups with news in the maps.

        :raises ClusterError: A map cannot be read.
        """
        here, there = await asyncio.gather(self._here.look(), self._there.look())
        return self._select(here | there)

    async def refresh(self) -> None:
        """Look which topics are distributed, and at both maps.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        self._topics = await mirrored_topics(self._link.name, self._documents, self._source, self._target)
        await asyncio.gather(self._here.look(is_due=True), self._there.look(is_due=True))

    async def plan(self, commits: KnownCommits, due: Collection[str]) -> list[GroupPlan]:
        """Plan what to send and to commit of the groups that are due.

        :raises ClusterError: A cluster as a whole did not answer.
        """
        positions = commits.positions
        mapped_groups = self.groups
        groups = [name for name in due if (name in positions or name in mapped_groups) and not is_denied(commits, name)]
        known: dict[str, Positions[SourceTopic]] = {name: positions.get(name, {}) for name in groups}
        writers = {name: commits.writers(name) for name in groups}
        if any(topic not in self._topics for found in known.values() for topic, _ in found):
            await self.refresh()
        flags, unsure = await self._authors.flags(known, writers)
        known = {name: found for name, found in known.items() if name not in unsure}
        dues = await self._dues(known, flags)
        view = await observe_groups(
            self._link,
            {name: _as_times(one) for name, one in dues.items()},
            {},
            _ByTime(self._topics),
            self._source,
            self._target,
        )
        raw = {group.group: group.committed or {} for group in view.groups}
        note_unstable(self.unstable, view)
        for group in view.groups:
            if group.committed is not None:
                self._memory.settle(group.group, group.committed)
        self.maps.look()
        view = replace(view, groups=tuple(map(_without_flags, view.groups)))
        plans = [
            self._complete(plan, dues[plan.group], known[plan.group], raw[plan.group])
            for plan in plan_groups(view, self._memory.written)
        ]
        if not commits.unheard:
            for name in set(due) - set(groups) - commits.listings.keys() - commits.errors.keys():
                self._memory.forget(name)
        plans += [*unsure.values(), *unreadable_groups(commits, self._link.groups, known)]
        return with_listings(plans, commits.listings)

    async def send(self, plans: Sequence[GroupPlan]) -> list[GroupPlan]:
        """Write the news into the map of the target; return the plans without them.

        :raises ClusterError: The map cannot be written; nothing may be committed then.
        """
        entries = {
            PositionKey(plan.group, p.topic, p.partition): p.sent
            for plan in plans
            for p in plan.positions
            if p.is_news and p.sent is not None
        }
        if entries:
            await self._there.send(entries)
        return [replace(plan, positions=tuple(replace(p, is_news=False) for p in plan.positions)) for plan in plans]

    def close(self) -> None:
        """Close the map of the target."""
        self._there.close()

    def _select(self, groups: Iterable[str]) -> frozenset[str]:
        return frozenset(name for name in set(groups) if self._link.groups.matches(name))

    async def _dues(
        self, known: Mapping[str, Positions[SourceTopic]], flags: Mapping[PositionKey, int]
    ) -> dict[str, _Due]:
        """Return the entries for the positions of groups.

        :raises ClusterError: The source as a whole did not answer.
        """
        ended = ended_partitions(self._link.name, self._documents)
        elsewhere = {key for key in (*self._here.entries, *self._there.entries) if key.group in known}
        keys = {PositionKey(name, *at) for name, found in known.items() for at in found} | elsewhere
        dues = {name: _Due() for name in known}
        carried: list[PositionKey] = []
        for key in keys:
            at = (key.topic, key.partition)
            if key.topic not in self._topics:
                if at in known[key.group]:
                    dues[key.group].others[at] = Standing.NOT_MIRRORED
            elif at in ended:
                dues[key.group].others[at] = Standing.MIRROR_ENDED
            else:
                carried.append(key)
        own = {
            ((key.topic, key.partition), known[key.group][key.topic, key.partition].offset)
            for key in carried
            if (key.topic, key.partition) in known[key.group] and self._is_own(key, flags.get(key, 0))
        }
        stamps = await self._times.of(own)
        for key in carried:
            self._judge(key, dues[key.group], known[key.group].get((key.topic, key.partition)), flags, stamps)
        return dues

    def _is_own(self, key: PositionKey, flags: int) -> bool:
        """Whether a commit has to be sent by the time of its record."""
        return is_to_send(flags, self._role.level, self._here.entries.get(key))

    def _judge(
        self,
        key: PositionKey,
        due: _Due,
        committed: Committed | None,
        flags: Mapping[PositionKey, int],
        stamps: Mapping[SourcePosition, RecordTime],
    ) -> None:
        at = (key.topic, key.partition)
        seen: SeenCommit | None = None
        if committed is not None and self._is_own(key, flags.get(key, 0)):
            if (at, committed.offset) not in stamps:
                due.others[at] = Standing.UNAVAILABLE
                return
            stamp = stamps[at, committed.offset]
            read_ms = read_until(
                stamp.ms, now_ms=now_ms(), margin_ms=self._margin_ms, late_ms=stamp.late_ms, is_end=stamp.is_end
            )
            if read_ms is None or stamp.late_ms > self._margin_ms:
                due.doubtful.add(at)
            if read_ms is not None:
                seen = SeenCommit(
                    timestamp_ms=read_ms,
                    offset=committed.offset,
                    flags=flags.get(key, 0),
                    metadata=split_flags(committed.metadata)[0],
                )
        name, level = self._link.name, self._role.level
        there = self._there.entries.get(key)
        entry = sent_entry(name, level, seen, self._here.entries.get(key), there)
        if entry is not None and is_news(entry, there):
            due.entries[at] = entry
            due.news.add(at)
        elif there is not None and is_to_commit(there, name, level):
            due.entries[at] = there
        else:
            due.others[at] = Standing.CLOCKS_DIFFER if at in due.doubtful else Standing.BY_OTHERS

    def _complete(
        self, plan: GroupPlan, due: _Due, known: Positions[SourceTopic], raw: Positions[TargetTopic]
    ) -> GroupPlan:
        """Complete a plan with the source's positions in place of times, and with positions that are left alone."""
        if not plan.positions and not due.others:
            return plan
        found = [self._position(position, due, known, raw) for position in plan.positions]
        if len(found) == len(due.entries):
            found += _left_alone(due.others, known, raw)
        return with_positions(plan, sorted(found, key=lambda one: (one.topic, one.partition)))

    def _position(
        self, position: PositionPlan, due: _Due, known: Positions[SourceTopic], raw: Positions[TargetTopic]
    ) -> PositionPlan:
        at = (position.topic, position.partition)
        entry = due.entries[at]
        has_flags = self._role.offset_flags == "metadata"
        is_doubtful = at in due.doubtful and position.standing is Standing.IN_STEP
        return replace(
            position,
            standing=Standing.CLOCKS_DIFFER if is_doubtful else position.standing,
            source=known.get(at, _ELSEWHERE),
            committed=raw.get(position.target_key),
            sent=entry,
            is_news=at in due.news,
            written_metadata=add_flags(entry.metadata, entry.flags) if has_flags else None,
        )


def _left_alone(
    others: Mapping[SourceTopicPartition, Standing], known: Positions[SourceTopic], raw: Positions[TargetTopic]
) -> Iterator[PositionPlan]:
    for at, standing in others.items():
        # Names are the same on all clusters of a tree.
        there = TargetTopic(at[0])
        yield PositionPlan(
            topic=at[0],
            partition=at[1],
            target_topic=None if standing is Standing.NOT_MIRRORED else there,
            source=known.get(at, _ELSEWHERE),
            translated=None,
            committed=raw.get((there, at[1])),
            log_start=None,
            high_watermark=None,
            standing=standing,
            is_mapped=standing is not Standing.NOT_MIRRORED,
        )


def _as_times(due: _Due) -> dict[SourceTopicPartition, Committed]:
    return {at: Committed(entry.timestamp_ms, metadata=entry.metadata) for at, entry in due.entries.items()}


def _without_flags(group: GroupView) -> GroupView:
    if group.committed is None:
        return group
    own = {at: found._replace(metadata=split_flags(found.metadata)[0]) for at, found in group.committed.items()}
    return replace(group, committed=own)
