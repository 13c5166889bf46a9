"""The plans of groups in plain values: the keys of what `isthmus groups` prints with `-o json`."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from isthmus.groups.positions.carrying import Standing
from isthmus.model.kafka.group import GroupState, GroupType
from isthmus.model.loop import Change
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import ProblemJson
from isthmus.model.translation import Way


class SentTimeJson(TypedDict):
    """What the distributors of a tree say of a position."""

    timestamp_ms: int
    flags: int
    to_send: bool


class PositionPlanJson(TypedDict):
    """One position of a group; null where there is none, or it is unknown."""

    topic: str
    partition: int
    target_topic: str | None
    offsets: Annotated[str, OffsetPolicy]
    returning: bool
    source_position: int | None
    source_position_age_seconds: float
    translated: int | None
    target_position: int | None
    target_log_start: int | None
    target_high_watermark: int | None
    standing: Annotated[str, Standing]
    commit: int | None
    metadata: str
    distributed: SentTimeJson | None


class GroupPlanJson(TypedDict):
    """One group that a link carries."""

    group: str
    target_group: str
    type: Annotated[str, GroupType]
    source_state: Annotated[str, GroupState]
    target_state: Annotated[str, GroupState]
    standing: Annotated[str, Standing]
    delete: bool
    problem: ProblemJson | None
    positions: list[PositionPlanJson]


class NamedGroupPlanJson(GroupPlanJson):
    """One group that a link carries, and what people call it."""

    name: str


class GroupsPlanJson(TypedDict):
    """The groups that a link carries."""

    link: str
    source: str
    target: str
    way: Way
    problem: ProblemJson | None
    notes: list[ProblemJson]
    closed_namespaces: list[str]
    changes: list[Annotated[dict[str, Any], Change]]
    groups: list[NamedGroupPlanJson]


class TranslationJson(TypedDict):
    """What a position of a group is at the target."""

    link: str
    way: Way
    topic: str
    partition: int
    offsets: Annotated[str, OffsetPolicy]
    source_position: int | None
    target_topic: str | None
    translated: int | None
