"""The positions of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from isthmus.model.kafka.group import GroupDescription
from isthmus.model.text.plain import FormMark, PlainValue, computed_field, plain


class Position(NamedTuple):
    """A committed position of a group; unknown values are null.

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

    @computed_field
    def lag_records(self) -> int | None:
        """The offsets from the position to the high watermark; those already deleted do not count."""
        if self.high_watermark is None:
            return None
        return max(self.high_watermark - max(self.committed, self.log_start or 0), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport(PlainValue):
    """A group of a cluster; null for values that its coordinator did not report.

    `description` is `None` where its coordinator did not describe it, and `problem` says why.
    """

    group: str
    description: Annotated[GroupDescription | None, FormMark.EMBEDDED] = None
    problem: str | None = None
    positions: tuple[Position, ...] = ()

    @computed_field(before="problem")
    def lag_records(self) -> int:
        """The sum over all positions."""
        return sum(position.lag_records or 0 for position in self.positions)

    @computed_field(before="problem")
    def lag_seconds(self) -> float | None:
        """The age of the oldest record that is to be read next; `None` if no age is known."""
        return max((p.lag_seconds for p in self.positions if p.lag_seconds is not None), default=None)

    def summary(self) -> dict[str, object]:
        """One line under stable names: members are counted, positions left out."""
        members = None if self.description is None else len(self.description.members)
        return {**{key: value for key, value in plain(self).items() if key != "positions"}, "members": members}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReport(PlainValue):
    """Groups of one cluster, and the unknown parts."""

    cluster: str
    groups: tuple[GroupReport, ...]
    not_told: Mapping[str, str] = field(default_factory=dict)
