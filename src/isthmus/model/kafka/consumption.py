"""The positions of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, TypedDict

from isthmus.model.kafka.group import GroupDescription, GroupMember, GroupState, GroupType
from isthmus.model.text.plain import OwnFields, plain, plain_fields


class PositionJson(TypedDict):
    """A committed position of a group; what is unknown is null."""

    topic: str
    partition: int
    committed: int
    log_start: int | None
    high_watermark: int | None
    lag_seconds: float | None
    member: str | None
    problem: str | None
    lag_records: int | None


class Position(NamedTuple):
    """A committed offset, and how far it is from the end of its log.

    `lag_records` is `None` if no leader reported the end, `lag_seconds` if there is nothing left to read, or the age of
    the next record was not requested. `member` is the client id of the member that reads the partition now.
    """

    topic: str
    partition: int
    committed: int
    log_start: int | None
    high_watermark: int | None
    lag_seconds: float | None = None
    member: str | None = None
    problem: str | None = None

    @property
    def lag_records(self) -> int | None:
        """The offsets from the position to the high watermark; those already deleted do not count."""
        if self.high_watermark is None:
            return None
        return max(self.high_watermark - max(self.committed, self.log_start or 0), 0)

    def as_dict(self) -> PositionJson:
        """Plain values under stable names."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "committed": self.committed,
            "log_start": self.log_start,
            "high_watermark": self.high_watermark,
            "lag_seconds": self.lag_seconds,
            "member": self.member,
            "problem": self.problem,
            "lag_records": self.lag_records,
        }


class AssignedJson(TypedDict):
    """A partition that a member reads."""

    topic: str
    partition: int


class GroupMemberJson(TypedDict):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rack: str | None
    assignment: list[AssignedJson]


class GroupReportJson(TypedDict):
    """A group of a cluster; null for what its coordinator did not tell."""

    group: str
    type: Annotated[str, GroupType] | None
    state: Annotated[str, GroupState] | None
    protocol_type: str | None
    protocol: str | None
    members: list[GroupMemberJson]
    coordinator: int | None
    offsets_partition: int | None
    lag_records: int
    lag_seconds: float | None
    problem: str | None
    positions: list[PositionJson]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """One group. `description` is `None` where its coordinator did not describe it, and `problem` says why."""

    group: str
    description: GroupDescription | None = None
    positions: tuple[Position, ...] = ()
    problem: str | None = None

    @property
    def lag_records(self) -> int:
        """The sum over all positions."""
        return sum(position.lag_records or 0 for position in self.positions)

    @property
    def lag_seconds(self) -> float | None:
        """The age of the oldest record that is to be read next; `None` if no age is known."""
        return max((p.lag_seconds for p in self.positions if p.lag_seconds is not None), default=None)

    def summary(self) -> dict[str, object]:
        """One line under stable names: members are counted, positions left out."""
        members = None if self.description is None else len(self.description.members)
        return {**{key: value for key, value in self.as_dict().items() if key != "positions"}, "members": members}

    def as_dict(self) -> GroupReportJson:
        """Plain values under stable names."""
        description = self.description
        return {
            "group": self.group,
            "type": None if description is None else str(description.type),
            "state": None if description is None else str(description.state),
            "protocol_type": None if description is None else description.protocol_type,
            "protocol": None if description is None else description.protocol,
            "members": [] if description is None else [_member(member) for member in description.members],
            "coordinator": None if description is None else description.coordinator,
            "offsets_partition": None if description is None else description.offsets_partition,
            "lag_records": self.lag_records,
            "lag_seconds": self.lag_seconds,
            "problem": self.problem,
            "positions": plain(self.positions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReport:
    """Groups of one cluster, and what is not known."""

    cluster: str
    groups: tuple[GroupReport, ...]
    not_told: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> OwnFields:
        """Plain values under stable names."""
        return plain_fields(self)


def _member(member: GroupMember) -> GroupMemberJson:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack": member.rack,
        "assignment": [{"topic": topic, "partition": partition} for topic, partition in member.assignment],
    }
