"""The recovery of a follower that has diverged from its source: the findings, and the result."""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from isthmus.model.naming import NAME_CHARACTERS_MAX, SourceTopic, TargetTopic, with_digest
from isthmus.model.text.plain import Hidden, PlainValue, TextOrNull, computed_field

QUARANTINE_PREFIX: Final = "__isthmus.quarantine."


class RecoveryWay(enum.StrEnum):
    """How a topic is brought back."""

    REBUILD = "rebuild"
    """It is deleted, created again and filled by the link: the same offsets, and nothing that only the target had."""
    MAPPED = "mapped"
    """It stays as it is, and the source's records go behind its end: other offsets from the last shared one on."""


class RecoveryStage(enum.StrEnum):
    """How far the recovery of a topic came; who continues it begins here."""

    SETTING_ASIDE = "SETTING_ASIDE"
    """Nothing was lost yet: the target topic is the one that diverged."""
    REBUILDING = "REBUILDING"
    """All records that only the target had are set aside, and the topic may be deleted at any moment."""
    REFILLING = "REFILLING"
    """The new topic is there, and lanes fill it."""
    DONE = "DONE"


class SetAside(enum.StrEnum):
    """Why a record stands in quarantine."""

    DIVERGED = "diverged"
    """The source has another record there, or none: it was written at the target, or lost at the source."""
    MISPLACED = "misplaced"
    """The link copied it to a wrong offset, behind records of another producer: the source has it at its own offset."""
    EXPIRED = "expired"
    """A copy of a record that the source has deleted since."""
    DEAD_LETTER = "dead-letter"
    """The transform of the link failed for it: it was not copied."""


class LogSpan(NamedTuple):
    """The offsets `[begin, end)` of a log."""

    begin: int
    end: int


class HeldPosition(NamedTuple):
    """The position of a consumer group before its topic was deleted. `at_source` is the corresponding position at the
    source, if a map has it; -1 if both are the same, as far as both logs reach.
    """

    group: str
    partition: int
    offset: int
    metadata: str = ""
    at_source: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergedPartition(PlainValue):
    """Both logs of a partition: up to `last_shared` they hold the same.

    That is as far as both still hold any. `source_epoch` is the leader epoch the source's partition had before its log
    was read, -1 if an older release did not ask.
    """

    partition: int
    source_begin: int
    source_end: int
    target_begin: int
    target_end: int
    shared: Annotated[int, "last_shared"]
    source_epoch: Hidden[int] = -1

    @property
    def tail(self) -> LogSpan:
        """The records of the target from the first difference on."""
        return LogSpan(max(self.shared, self.target_begin), self.target_end)

    @property
    def head(self) -> LogSpan:
        """The records that the target still has and the source has deleted."""
        return LogSpan(self.target_begin, max(min(self.source_begin, self.tail.begin, self.target_end), 0))

    @property
    def goes_on_at(self) -> int:
        """The first offset of the source behind the target's end, if it continues with mapped offsets."""
        return max(self.shared, self.source_begin)

    @computed_field
    def has_diverged(self) -> Annotated[bool, "diverged"]:
        """Whether the target cannot continue as a copy."""
        return self.tail.begin < self.tail.end or 0 < self.target_end < self.source_begin

    @computed_field(before="has_diverged")
    def only_at_target(self) -> int:
        """The records that only the target has."""
        return max(self.tail.end - self.tail.begin, 0) + max(self.head.end - self.head.begin, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPosition(PlainValue):
    """A position of a group after its topic was recovered.

    `reason` explains the difference.
    """

    group: str
    partition: int
    before: int
    after: int
    reason: TextOrNull = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecovery(PlainValue):
    """The result of a recovery for a topic.

    It is done or planned. `stage` is `None` if the target has no record that the source lacks.

    `quarantined` counts the records that were set aside in `quarantine`, "" if there are none.
    """

    topic: TargetTopic
    source_topic: SourceTopic
    stage: RecoveryStage | None
    way: RecoveryWay = RecoveryWay.REBUILD
    quarantine: TextOrNull = ""
    quarantined: Annotated[int, "quarantined_records"] = 0
    partitions: tuple[DivergedPartition, ...] = ()
    positions: Annotated[tuple[RestoredPosition, ...], "groups"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery(PlainValue):
    """The result of a recovery for the topics of a link.

    With `is_dry_run` nothing was changed.
    """

    link: str
    is_dry_run: Annotated[bool, "dry_run"] = False
    topics: tuple[TopicRecovery, ...] = ()


def quarantine_of(topic: str) -> str:
    """Return the topic beside `topic` for the records that are set aside."""
    name = f"{QUARANTINE_PREFIX}{topic}"
    return name if len(name) <= NAME_CHARACTERS_MAX else with_digest(name, of=topic)


class OffsetRuns:
    """Many offsets, kept as runs of consecutive ones: those that were set aside already."""

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for offset in offsets:
            self.add(offset)

    @property
    def count(self) -> int:
        """The number of offsets."""
        return sum(self._ends) - sum(self._begins)

    def add(self, offset: int) -> None:
        """Add an offset, unless it is there."""
        place = bisect_right(self._begins, offset)
        if place and offset < self._ends[place - 1]:
            return
        if place and offset == self._ends[place - 1]:
            self._ends[place - 1] = offset + 1
        else:
            self._begins.insert(place, offset)
            self._ends.insert(place, offset + 1)

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._begins, offset)
        return place > 0 and offset < self._ends[place - 1]

    def __iter__(self) -> Iterator[int]:
        for begin, end in zip(self._begins, self._ends, strict=True):
            yield from range(begin, end)
