"""The result of a take-over: by link, topic and partition, before and after it is done."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from isthmus.mirrormaker.alignment import Aligned
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import Gap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.plain import Flat, Hidden, NumberOrNull, PlainValue, computed_field


class Outcome(enum.StrEnum):
    """What becomes of a topic or one of its partitions."""

    TAKEN_OVER = "taken over"
    """It goes on where MirrorMaker 2 stopped."""
    NEW = "new"
    """MirrorMaker 2 has copied nothing of it: it begins as any other."""
    DONE_BEFORE = "done before"
    """It was taken over by an earlier call."""
    BEGUN = "begun"
    """Isthmus copies it already, from wherever it began: it stays as it is."""
    REFUSED = "refused"
    """It cannot be taken over, for the reason in `problem`; the topic stays paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What was found of a partition at the target, from the source offset `compared_from` on."""

    compared_from: int | None = None
    beyond: int = 0
    doubled: int = 0
    aborted: int = 0
    foreign: int = 0
    missing: int = 0
    repeated_to: NumberOrNull = -1


def _bounds(gap: Gap) -> list[int]:
    return [gap.offset_begin, gap.offset_end]


def _message(problem: Problem) -> str:
    return problem.message


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTakeover(PlainValue):
    """One partition. `committed` is the next source offset by MirrorMaker 2's own positions, -1 for none; `begin` where
    its lane begins, -1 where nothing was copied. `gap` is what the source had deleted before it was copied.

    `target_end` is where the target's log ended, behind which the lane writes.
    """

    partition: int
    outcome: Outcome
    committed: NumberOrNull = -1
    begin: NumberOrNull = -1
    target_end: Hidden[int] = -1
    found: Hidden[Aligned | None] = None
    gap: Annotated[Gap | None, _bounds] = None
    problem: Annotated[Problem | None, _message] = None

    @computed_field(before="gap")
    def compared(self) -> Flat[Compared]:
        """What was found at the target."""
        found = self.found
        if found is None:
            return Compared()
        return Compared(
            compared_from=found.ranges[0].source_begin if found.ranges else None,
            beyond=found.beyond,
            doubled=found.repeated,
            aborted=found.aborted,
            foreign=found.foreign,
            missing=found.missing,
            repeated_to=found.repeated_to,
        )

    @computed_field
    def todo(self) -> str | None:
        return None if self.problem is None else self.problem.hint


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTakeover(PlainValue):
    """One topic: all its partitions or none. `problem` is why it cannot be taken over as a whole."""

    topic: TargetTopic
    source_topic: SourceTopic
    ids: Hidden[TopicIds]
    problem: Annotated[Problem | None, _message] = None
    partitions: tuple[PartitionTakeover, ...] = ()
    before: Hidden[Outcome | None] = None

    @computed_field(before="problem")
    def outcome(self) -> Outcome:
        """The outcome of the topic."""
        found = {each.outcome for each in self.partitions}
        if self.before is not None:
            return self.before
        if self.problem is not None or Outcome.REFUSED in found:
            return Outcome.REFUSED
        return Outcome.TAKEN_OVER if Outcome.TAKEN_OVER in found else Outcome.NEW

    @computed_field(before="partitions")
    def todo(self) -> str | None:
        return None if self.problem is None else self.problem.hint


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTakeover(PlainValue):
    """One link. `unselected` are source topics of which MirrorMaker 2 has positions and which the link does not select,
    `gone` those that it would select and of which every broker of the source says that there are none.

    `is_written` says that the ledger has it.
    """

    link: str
    offsets_topic: str
    is_written: bool = False
    unselected: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    topics: tuple[TopicTakeover, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every topic goes on where it shall."""
        return not {topic.outcome for topic in self.topics} & {Outcome.REFUSED, Outcome.BEGUN}

    @computed_field(before="topics")
    def beyond(self) -> int:
        """Copies at or behind what was claimed."""
        return sum(each.compared.beyond for topic in self.topics for each in topic.partitions)

    @computed_field(before="topics")
    def doubled(self) -> int:
        """Records that are there once more."""
        return sum(each.compared.doubled for topic in self.topics for each in topic.partitions)
