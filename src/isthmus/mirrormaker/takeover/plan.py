"""The result of a take-over: by link, topic and partition, before and after it is done."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from isthmus.mirrormaker.alignment import Aligned
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import Gap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.plain import plain


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
class PartitionTakeover:
    """One partition. `committed` is the next source offset by MirrorMaker 2's own positions, -1 for none; `begin` where
    its lane begins, -1 where nothing was copied. `gap` is what the source had deleted before it was copied.

    `target_end` is where the target's log ended, behind which the lane writes.
    """

    partition: int
    outcome: Outcome
    committed: int = -1
    begin: int = -1
    target_end: int = -1
    found: Aligned | None = None
    gap: Gap | None = None
    problem: Problem | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        found = self.found
        return {
            "partition": self.partition,
            "outcome": str(self.outcome),
            "committed": self.committed if self.committed >= 0 else None,
            "begin": self.begin if self.begin >= 0 else None,
            "compared_from": None if found is None or not found.ranges else found.ranges[0].source_begin,
            "beyond": 0 if found is None else found.beyond,
            "doubled": 0 if found is None else found.repeated,
            "aborted": 0 if found is None else found.aborted,
            "foreign": 0 if found is None else found.foreign,
            "missing": 0 if found is None else found.missing,
            "repeated_to": None if found is None or found.repeated_to < 0 else found.repeated_to,
            "gap": None if self.gap is None else [self.gap.offset_begin, self.gap.offset_end],
            "problem": None if self.problem is None else self.problem.message,
            "todo": None if self.problem is None else self.problem.hint,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTakeover:
    """One topic: all its partitions or none. `problem` is why it cannot be taken over as a whole."""

    topic: TargetTopic
    source_topic: SourceTopic
    ids: TopicIds
    partitions: tuple[PartitionTakeover, ...] = ()
    before: Outcome | None = None
    problem: Problem | None = None

    @property
    def outcome(self) -> Outcome:
        """The outcome of the topic."""
        found = {each.outcome for each in self.partitions}
        if self.before is not None:
            return self.before
        if self.problem is not None or Outcome.REFUSED in found:
            return Outcome.REFUSED
        return Outcome.TAKEN_OVER if Outcome.TAKEN_OVER in found else Outcome.NEW

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "topic": self.topic,
            "source_topic": self.source_topic,
            "outcome": str(self.outcome),
            "problem": None if self.problem is None else self.problem.message,
            "todo": None if self.problem is None else self.problem.hint,
            "partitions": plain(self.partitions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTakeover:
    """One link. `unselected` are source topics of which MirrorMaker 2 has positions and which the link does not select,
    `gone` those that it would select and of which every broker of the source says that there are none.

    `is_written` says that the ledger has it.
    """

    link: str
    offsets_topic: str
    topics: tuple[TopicTakeover, ...] = ()
    unselected: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    is_written: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every topic goes on where it shall."""
        return not {topic.outcome for topic in self.topics} & {Outcome.REFUSED, Outcome.BEGUN}

    def count(self, name: str) -> int:
        """Sum a value of `PartitionTakeover.as_dict` over all partitions."""
        return sum(int(each.as_dict()[name]) for topic in self.topics for each in topic.partitions)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "offsets_topic": self.offsets_topic,
            "is_written": self.is_written,
            "unselected": list(self.unselected),
            "gone": list(self.gone),
            "beyond": self.count("beyond"),
            "doubled": self.count("doubled"),
            "topics": plain(self.topics),
        }
