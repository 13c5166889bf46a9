"""The plans for groups, how the groups stand, and the pure rules that derive plans from what was observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from isthmus.errors import IsthmusError, NotAuthorized
from isthmus.groups.committing import GroupCommit
from isthmus.groups.observation import GroupsView, GroupView
from isthmus.groups.positions.carrying import Situation, Standing, Written, decide
from isthmus.model.kafka.group import NO_OFFSET, Committed, GroupState, GroupType
from isthmus.model.loop import GROUPS_TASK, Change
from isthmus.model.namespace import Namespace
from isthmus.model.naming import (
    NO_NAMES,
    NOWHERE,
    LogicalNames,
    SourceTopic,
    SourceTopicPartition,
    TargetTopic,
    TargetTopicPartition,
)
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import Problem, problem_of
from isthmus.model.text.plain import Flat, Hidden, PlainValue, computed_field, tenths, texts
from isthmus.model.translation import Way
from isthmus.model.trees.positions import PositionEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTime:
    """The reports of a tree's distributors about a position."""

    timestamp_ms: int
    flags: int
    to_send: bool


def _offset(position: Committed) -> int | None:
    return None if position.offset == NO_OFFSET else position.offset


def _committed_offset(position: Committed) -> int:
    return position.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionPlan(PlainValue):
    """One position of a group; null where there is none, or it is unknown.

    `translated` is the source's position at the target, `committed` the target's own, `commit` the one to write.
    `source` was seen `source_age_s` seconds ago; while the source is away its offset may be unknown (`NO_OFFSET`). A
    topic that `is_mapped` has other offsets at the target, and one that `is_returning` is a copy of the target's. In a
    tree `sent` is what the distributor sends of the position, and what is committed; `is_news` means that it has not
    been sent yet. `written_metadata` is the metadata to write with a position, where it is not only the consumer's. The
    target's position `is_bare` where the target does not accept the consumer's metadata.
    """

    topic: SourceTopic
    partition: int
    target_topic: TargetTopic | None
    is_returning: Annotated[bool, "returning"] = False
    source: Annotated[Committed, "source_position", _offset]
    source_age_s: Annotated[float, "source_position_age_seconds", tenths] = 0.0
    translated: int | None
    committed: Annotated[Committed | None, "target_position", _committed_offset]
    log_start: Annotated[int | None, "target_log_start"]
    high_watermark: Annotated[int | None, "target_high_watermark"]
    standing: Standing
    commit: int | None = None
    is_mapped: Hidden[bool] = False
    sent: Hidden[PositionEntry | None] = None
    is_news: Hidden[bool] = False
    written_metadata: Hidden[str | None] = None
    is_bare: Hidden[bool] = False

    @property
    def basis(self) -> Committed:
        """The position that was decided on: the source's, in a tree the time derived from it."""
        return self.source if self.sent is None else Committed(self.sent.timestamp_ms, metadata=self.sent.metadata)

    @property
    def to_commit(self) -> Committed:
        """The position to write at the target, if any."""
        written = self.written_metadata
        return Committed(self.commit or 0, metadata=self.basis.metadata if written is None else written)

    @property
    def target_key(self) -> TargetTopicPartition:
        return self.target_topic or NOWHERE, self.partition

    def changes(self, subject: str) -> Iterator[Change]:
        """Yield the changes: where the group continues at the target, and in a tree the time that is sent on."""
        place = f"{self.target_topic or self.topic}-{self.partition}"
        if self.commit is not None:
            before, after = None if self.committed is None else str(self.committed.offset), str(self.commit)
            yield Change(loop=GROUPS_TASK, subject=subject, setting=f"position in {place}", before=before, after=after)
        if self.is_news and self.sent is not None:
            sent = str(self.sent.timestamp_ms)
            yield Change(loop=GROUPS_TASK, subject=subject, setting=f"time in {place}", before=None, after=sent)

    @computed_field(before="is_returning")
    def offsets(self) -> OffsetPolicy:
        """Whether records have the same offsets at the target."""
        return OffsetPolicy.MAPPED if self.is_mapped else OffsetPolicy.SAME

    @computed_field
    def metadata(self) -> str:
        """The consumer's metadata."""
        return self.source.metadata

    @computed_field
    def distributed(self) -> SentTime | None:
        """What is sent of the position in a tree."""
        if self.sent is None:
            return None
        return SentTime(timestamp_ms=self.sent.timestamp_ms, flags=self.sent.flags, to_send=self.is_news)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan(PlainValue):
    """One group that a link carries.

    `standing` is that of the position that needs most attention; with `delete` it is deleted there.
    """

    group: str
    target_group: str
    source_type: Annotated[GroupType, "type"] = GroupType.UNKNOWN
    source_state: GroupState = GroupState.UNKNOWN
    target_state: GroupState = GroupState.UNKNOWN
    standing: Standing
    delete: bool = False
    problem: Problem | None = None
    positions: tuple[PositionPlan, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether anything would be written at the target."""
        return any(change.problem is None for change in self.changes)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes at the target, in the form of all loops of a link, and why there are no more."""
        subject, there = f"group {self.target_group}", self.target_group if self.delete else None
        found = [change for position in self.positions for change in position.changes(subject)]
        if self.problem is not None or self.delete:
            problem = None if self.delete else self.problem
            whole = Change(
                loop=GROUPS_TASK, subject=subject, setting="group", before=there, after=None, problem=problem
            )
            found.insert(0, whole)
        return tuple(found)

    @property
    def behind_records(self) -> int:
        """By how much its positions at the target are short of those at the source, as far as both are known."""
        return sum(
            max(p.translated - ((p.log_start or 0) if p.committed is None else p.committed.offset), 0)
            for p in self.positions
            if p.translated is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGroupPlan:
    """One group that a link carries, and its names."""

    plan: Flat[GroupPlan]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionTranslation:
    """The position of a group at the target."""

    SCHEMA: ClassVar = "Translation"

    link: str
    way: Way
    topic: SourceTopic
    partition: int
    offsets: OffsetPolicy
    source: Annotated[Committed, "source_position", _offset]
    target_topic: TargetTopic | None
    translated: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsPlan(PlainValue):
    """The groups that a link carries.

    `problem` is why nothing is known of any, `notes` what works less well than it could, `names` what users call topics
    and groups. `closed` are the target's namespaces of groups in which access rules keep consumers from committing
    (KIP-986, footnote 9); elsewhere a consumer's commit there wins over the source's.
    """

    link: str
    source: str
    target: str
    way: Way
    problem: Problem | None = None
    notes: tuple[Problem, ...] = ()
    closed: Annotated[tuple[Namespace, ...], "closed_namespaces", texts] = ()
    groups: Hidden[tuple[GroupPlan, ...]] = ()
    names: Hidden[LogicalNames] = NO_NAMES

    @property
    def has_changes(self) -> bool:
        """Whether anything would be written at the target."""
        return any(group.has_changes for group in self.groups)

    @computed_field
    def changes(self) -> tuple[Change, ...]:
        """The changes of all groups."""
        return tuple(change for group in self.groups for change in group.changes)

    @property
    def translations(self) -> tuple[PositionTranslation, ...]:
        """Each position's translation at the target, whether it is written there or not."""
        return tuple(
            PositionTranslation(
                link=self.link,
                way=self.way,
                topic=each.topic,
                partition=each.partition,
                offsets=each.offsets,
                source=each.source,
                target_topic=each.target_topic,
                translated=each.translated,
            )
            for group in self.groups
            for each in group.positions
        )

    @computed_field
    def named_groups(self) -> Annotated[tuple[NamedGroupPlan, ...], "groups"]:
        """The groups, with what people call them."""
        return tuple(NamedGroupPlan(plan=each, name=self.names.group(each.group)) for each in self.groups)


Memory = Mapping[TargetTopicPartition, Written]
"""The positions of a group on both sides when they were last in step, by target partition."""


_ATTENTION: Final = (
    Standing.NOT_MIRRORED,
    Standing.BY_OTHERS,
    Standing.IN_STEP,
    Standing.TRANSLATED,
    Standing.DUE,
    Standing.CATCHING_UP,
    Standing.WAITING_FOR_MAP,
    Standing.CLOCKS_DIFFER,
    Standing.MOVED_AT_TARGET,
    Standing.AHEAD_AT_TARGET,
    Standing.ACTIVE_AT_TARGET,
    Standing.OFFSETS_DIFFER,
    Standing.MIRROR_ENDED,
    Standing.UNAVAILABLE,
)
"""From the standing that needs least attention to the one that needs most."""


_PROBLEMS: Final = {
    Standing.NOT_MIRRORED: Problem(
        "the link mirrors none of the topics the group reads",
        "Include them in the link's topics, or leave the group out.",
    ),
    Standing.MIRROR_ENDED: Problem(
        "a partition the group reads is no copy of the source's any more: its position at the target is left alone",
        "isthmus status names it and its remedy; the group's other positions are carried on.",
    ),
    Standing.OFFSETS_DIFFER: Problem(
        "records of a topic the group reads have other offsets at the target: a position means something else there",
        "Set way: mapped in the link's groups; topics of same offsets are carried as before.",
    ),
    Standing.WAITING_FOR_MAP: Problem(
        "the ledger does not have yet the target offsets of the records at the group's position",
        "It is carried as soon as they are copied and that is recorded; isthmus status shows how far the link is.",
    ),
    Standing.CLOCKS_DIFFER: Problem(
        "records of a topic the group reads are older than ones before them by more than margin_s, or lie in the "
        "future: its position at the target is held back",
        "Have the hosts of producers keep their time by NTP. Where messages come late and not with wrong times, "
        "margin_s of the tree is to be longer than that.",
    ),
    Standing.ACTIVE_AT_TARGET: Problem(
        "the group has members at the target: it goes on from its own position",
        "Stop its consumers there; Isthmus goes on by itself.",
    ),
    Standing.MOVED_AT_TARGET: Problem(
        "another program set the group's position back at the target, and the source's has not changed since",
        "Nothing is to be done if that was meant: it is carried on with the next commit at the source.",
    ),
    Standing.AHEAD_AT_TARGET: Problem(
        "the group's position at the target is ahead of the source's and is not moved back",
        "Nothing is to be done if consumers went on at the target. To read again from the source's position, reset the "
        "group at the target with kafka-consumer-groups --reset-offsets.",
    ),
}


_BARE: Final = Problem(
    "the target does not accept the metadata of the group's position (OFFSET_METADATA_TOO_LARGE): the "
    "position is carried without it",
    "Raise offset.metadata.max.bytes of the target's brokers to that of the source's, if that metadata matters there.",
)


def plan_groups(view: GroupsView, memory: Mapping[str, Memory]) -> tuple[GroupPlan, ...]:
    """Plan what to do with each group; `memory` is by the group's name at the source."""
    return tuple(_plan(view, group, memory.get(group.group, {})) for group in view.groups)


def commit_of(plan: GroupPlan) -> GroupCommit | None:
    """Return the commit for a group, `None` for nothing."""
    due = {p.target_key: p for p in plan.positions if p.commit is not None}
    if not due:
        return None
    return GroupCommit(
        positions={key: p.to_commit for key, p in due.items()},
        based_on={k: p.committed for k, p in due.items() if p.committed is not None},
    )


def plan_troubled(group: str, target_group: str, error: IsthmusError) -> GroupPlan:
    """Return the plan of a group that cannot be read, or not written."""
    standing = Standing.NOT_AUTHORIZED if isinstance(error, NotAuthorized) else Standing.UNAVAILABLE
    problem = problem_of(error)
    return GroupPlan(group=group, target_group=target_group, standing=standing, problem=problem)


def _plan(view: GroupsView, group: GroupView, memory: Memory) -> GroupPlan:
    if group.error is not None or group.target is None or group.committed is None:
        error = group.error or IsthmusError(f"the target did not report the state of group {group.target_group}")
        return plan_troubled(group.group, group.target_group, error)
    positions = tuple(_position(view, group, key, memory) for key in sorted(group.positions))
    standing = worst(position.standing for position in positions)
    return GroupPlan(
        group=group.group,
        target_group=group.target_group,
        standing=standing,
        target_state=group.target.state,
        positions=positions,
        problem=None if _is_beside(view, group, standing) else _problem(standing, positions),
    )


def _problem(standing: Standing, positions: Iterable[PositionPlan]) -> Problem | None:
    """Return the problem of a group, or of the metadata of its positions."""
    return _PROBLEMS.get(standing) or (_BARE if any(position.is_bare for position in positions) else None)


def _is_beside(view: GroupsView, group: GroupView, standing: Standing) -> bool:
    """Whether a group reads other topics than those of the link, and was selected only by a pattern."""
    return standing is Standing.NOT_MIRRORED and group.group not in view.settings.literals


def with_positions(plan: GroupPlan, positions: Iterable[PositionPlan]) -> GroupPlan:
    """Return the plan of a group that could be looked at, with other positions."""
    found = tuple(positions)
    standing = worst(position.standing for position in found)
    return replace(plan, positions=found, standing=standing, problem=_problem(standing, found))


def worst(standings: Iterable[Standing]) -> Standing:
    """Return the standing that needs most attention."""
    return max(standings, key=_ATTENTION.index, default=Standing.IN_STEP)


def _position(view: GroupsView, group: GroupView, key: SourceTopicPartition, memory: Memory) -> PositionPlan:
    topic, partition = key
    source = group.positions[key]
    target_topic = view.mirrored.get(topic)
    target_key = (target_topic or NOWHERE, partition)
    committed = (group.committed or {}).get(target_key)
    log = view.ranges.get(target_key)
    translated = view.translated.offsets.get((target_key, source.offset))
    has_ended = key in view.ended
    is_mapped, is_returning = target_topic in view.mapped, target_topic in view.home
    if target_topic is None or has_ended or log is None or translated is None:
        standing = view.translated.untold.get((target_key, source.offset), Standing.UNAVAILABLE)
        standing = Standing.MIRROR_ENDED if has_ended else standing
        standing = Standing.NOT_MIRRORED if target_topic is None else standing
        return PositionPlan(
            topic=topic,
            partition=partition,
            target_topic=target_topic,
            source=source,
            translated=None,
            committed=committed,
            log_start=None,
            high_watermark=None,
            standing=standing,
            is_mapped=is_mapped,
            is_returning=is_returning,
        )
    decision = decide(
        Situation(
            source=source,
            translated=translated,
            committed=committed,
            log_start=log.start,
            high_watermark=log.end,
            is_vacant=group.target is not None and _is_vacant(group.target.state, group.target.type),
            written=memory.get(target_key),
            is_reached=(target_key, source.offset) not in view.translated.unreached,
            commits=view.settings.commit,
            only_follows=any(each.holds(group.target_group) for each in view.closed),
        )
    )
    return PositionPlan(
        topic=topic,
        partition=partition,
        target_topic=target_topic,
        source=source,
        translated=translated,
        committed=committed,
        log_start=log.start,
        high_watermark=log.end,
        standing=decision.standing,
        commit=decision.offset,
        is_mapped=is_mapped,
        is_returning=is_returning,
        is_bare=decision.offset is None and _is_bare(source, committed, memory.get(target_key)),
    )


def _is_bare(source: Committed, committed: Committed | None, written: Written | None) -> bool:
    """Whether the target has a position without the consumer's metadata that was written with it."""
    if committed is None or written is None or committed.offset != written.target:
        return False
    return written.metadata == source.metadata != committed.metadata == ""


def _is_vacant(state: GroupState, kind: GroupType) -> bool:
    return state.is_vacant and kind is not GroupType.SHARE
