"""What would be created and copied: values, printable, the same for the same observations."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isthmus.cluster.changes import NewTopic
from isthmus.lane.preflight import Mode, PartitionDecision
from isthmus.model.lane import Lane, LaneState, Problem


class Action(enum.StrEnum):
    """What applying a plan does about a topic."""

    CREATE = "create"
    ADD_PARTITIONS = "add partitions"
    COPY = "copy"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic of one link.

    `partition_count` is the source's. `state` is what the topic's lanes report while it is refused,
    which it is where there are `reasons`. `lanes` are those that can run as things are; after a
    creation plan again. A target that `is_filling` still has the configuration it was created with
    for filling a prefix; `settles` are the values it gets now that this is over, `None` standing
    for the broker's default.
    """

    topic: str
    action: Action
    partition_count: int = 0
    partitions: tuple[PartitionDecision, ...] = ()
    reasons: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    state: LaneState = LaneState.STARTING
    creation: NewTopic | None = None
    settles: Mapping[str, str | None] = field(default_factory=dict)
    is_filling: bool = False
    lanes: tuple[Lane, ...] = ()

    @property
    def mode(self) -> Mode:
        return Mode.REFUSED if self.reasons else Mode.IDENTITY

    @property
    def lag_records(self) -> int:
        """Offsets to copy, as far as they are known."""
        return sum(max(p.lag_records, 0) for p in self.partitions if p.refusal is None)

    @property
    def prefix_offsets(self) -> int:
        """Offsets to fill and delete before the first records."""
        return sum(p.prefix for p in self.partitions if p.refusal is None)

    @property
    def has_changes(self) -> bool:
        """Whether applying and running it would do anything."""
        if self.reasons:
            return False
        return self.action is not Action.COPY or bool(self.settles) or self.lag_records > 0

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "topic": self.topic,
            "action": str(self.action),
            "mode": str(self.mode),
            "partitions": self.partition_count,
            "records_to_copy": self.lag_records,
            "offsets_to_fill": self.prefix_offsets,
            "configs": dict(self.creation.configs) if self.creation else {},
            "reasons": [problem_dict(problem) for problem in self.reasons],
            "notes": [problem_dict(problem) for problem in self.notes],
            "refused_partitions": [
                {"partition": p.partition, "state": str(p.state), **problem_dict(p.refusal)}
                for p in self.partitions
                if p.refusal is not None
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """One link. With a `problem` nothing of it can be done, for the reason given.

    `no_longer_mirrored` are topics that the ledger remembers and the link does not select any more.
    """

    link: str
    source: str
    target: str
    source_id: str = ""
    target_id: str = ""
    topics: tuple[TopicPlan, ...] = ()
    recommendations: tuple[Problem, ...] = ()
    no_longer_mirrored: tuple[str, ...] = ()
    problem: Problem | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "source": self.source,
            "target": self.target,
            "source_cluster_id": self.source_id,
            "target_cluster_id": self.target_id,
            "problem": problem_dict(self.problem) if self.problem else None,
            "topics": [topic.as_dict() for topic in self.topics],
            "recommendations": [problem_dict(problem) for problem in self.recommendations],
            "no_longer_mirrored": list(self.no_longer_mirrored),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `isthmus run` would do, link by link."""

    links: tuple[LinkPlan, ...]

    @property
    def has_changes(self) -> bool:
        """Whether anything would be created or copied."""
        return any(topic.has_changes for link in self.links for topic in link.topics)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {"links": [link.as_dict() for link in self.links], "has_changes": self.has_changes}


def problem_dict(problem: Problem) -> dict[str, str]:
    """A problem as plain values."""
    return {"message": problem.message, "hint": problem.hint}
