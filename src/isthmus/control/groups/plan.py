"""What would be done with groups, and how they stand, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isthmus.cluster.groups import OFFSETS_TOPIC
from isthmus.model.carrying import Standing
from isthmus.model.group import NO_OFFSET, Committed, GroupState, GroupType
from isthmus.model.link import Link
from isthmus.model.problem import Problem, problem_dict
from isthmus.model.rights import grant, on_topic, on_transactional_id
from isthmus.model.translation import Way
from isthmus.wire.offsets import PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionPlan:
    """One position of a group. Offsets are `None` where there is none, or none can be told.

    `translated` is the source's position at the target, `committed` the target's own, `commit` what is to be written.
    `source` was seen `source_age_s` seconds ago; while the source is away its offset may be unknown (`NO_OFFSET`).
    """

    topic: str
    partition: int
    target_topic: str | None
    source: Committed
    translated: int | None
    committed: Committed | None
    log_start: int | None
    high_watermark: int | None
    standing: Standing
    commit: int | None = None
    source_age_s: float = 0.0

    @property
    def target_key(self) -> PartitionKey:
        return self.target_topic or "", self.partition

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "target_topic": self.target_topic,
            "source_position": None if self.source.offset == NO_OFFSET else self.source.offset,
            "source_position_age_seconds": round(self.source_age_s, 1),
            "translated": self.translated,
            "target_position": None if self.committed is None else self.committed.offset,
            "target_log_start": self.log_start,
            "target_high_watermark": self.high_watermark,
            "standing": str(self.standing),
            "commit": self.commit,
            "metadata": self.source.metadata,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """One group. `standing` is that of the position that needs most attention; `delete` that it goes at the target."""

    group: str
    target_group: str
    standing: Standing
    source_type: GroupType = GroupType.UNKNOWN
    source_state: GroupState = GroupState.UNKNOWN
    target_state: GroupState = GroupState.UNKNOWN
    positions: tuple[PositionPlan, ...] = ()
    problem: Problem | None = None
    delete: bool = False

    @property
    def has_changes(self) -> bool:
        """Whether anything would be written at the target."""
        return self.delete or any(position.commit is not None for position in self.positions)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "group": self.group,
            "target_group": self.target_group,
            "type": str(self.source_type),
            "source_state": str(self.source_state),
            "target_state": str(self.target_state),
            "standing": str(self.standing),
            "delete": self.delete,
            "problem": problem_dict(self.problem) if self.problem else None,
            "positions": [position.as_dict() for position in self.positions],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsPlan:
    """The groups of one link. `problem` is why nothing can be told of any, `notes` what works less well than it may."""

    link: str
    source: str
    target: str
    way: Way
    groups: tuple[GroupPlan, ...] = ()
    problem: Problem | None = None
    notes: tuple[Problem, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether anything would be written at the target."""
        return any(group.has_changes for group in self.groups)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "source": self.source,
            "target": self.target,
            "way": self.way,
            "problem": problem_dict(self.problem) if self.problem else None,
            "notes": [problem_dict(note) for note in self.notes],
            "groups": [group.as_dict() for group in self.groups],
        }


def notes_of(link: Link, polls_because: str, unguarded_because: str) -> tuple[Problem, ...]:
    """What works less well for a link than it may, and what would help; an empty reason is none."""
    notes = []
    if polls_because:
        right = on_topic("READ", OFFSETS_TOPIC)
        hint = grant(right, link.source.alias, "commits are then followed within milliseconds")
        notes.append(Problem(f"commits are asked for once a second: {polls_because}", hint))
    if unguarded_because:
        message = f"a commit that a consumer makes in the very moment of ours could be lost: {unguarded_because}"
        right = on_transactional_id("WRITE", f"isthmus.{link.name}.groups")
        notes.append(Problem(message, grant(right, link.target.alias)))
    return tuple(notes)
