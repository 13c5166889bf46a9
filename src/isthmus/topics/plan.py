"""Plans of what is created and copied: values, printable, the same for the same observations."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypedDict

from isthmus.kafka.admin.changes import NewTopic
from isthmus.memory.filtering import Filters, SaidFiltersJson
from isthmus.memory.livesettings import LiveSettings, SaidSettingsJson
from isthmus.model.kafka.topic import LeftInTier, Parted, PartedJson
from isthmus.model.kafka.transactions import AbortedPolicy, Visibility
from isthmus.model.lane import Lane, LaneState
from isthmus.model.links.pauses import Pause, PauseJson
from isthmus.model.loop import DATA_TASK, TOPICS_TASK, Change
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem, ProblemJson, exit_code_of, problem_dict
from isthmus.model.text.plain import plain
from isthmus.topics.aborted import Treatment
from isthmus.topics.preflight import PartitionDecision, TopicMode
from isthmus.topics.visibility import VisibilityInForce


class Action(enum.StrEnum):
    """What applying a plan does about a topic."""

    CREATE = "create"
    ADD_PARTITIONS = "add partitions"
    COPY = "copy"
    REFUSE = "refuse"
    KEEP = "keep"
    """The source has the topic no more: the target's stays as it is."""
    DELETE = "delete"
    """The source has the topic no more: the target's is deleted once that is proven."""


STAYING: Final = (Action.KEEP, Action.DELETE)
"""The actions on topics that the source has deleted: nothing is copied."""


class PartitionProblemJson(ProblemJson):
    """Why a partition is not copied, or could not be examined."""

    partition: int
    state: Annotated[str, LaneState]


class PartitionGapJson(TypedDict):
    """Offsets that will be missing at the target."""

    partition: int
    offset_begin: int
    offset_end: int


class TopicPlanJson(TypedDict):
    """What a run would do about a topic."""

    topic: str
    source_topic: str
    action: Annotated[str, Action]
    mode: Annotated[str, TopicMode]
    parted: PartedJson | None
    partitions: int
    states: list[Annotated[str, LaneState]]
    records_to_copy: int
    records_waiting: int
    offsets_to_fill: int
    local_log_starts: dict[str, int]
    configs: dict[str, str | None]
    reasons: list[ProblemJson]
    notes: list[ProblemJson]
    refused_partitions: list[PartitionProblemJson]
    unexamined_partitions: list[PartitionProblemJson]
    gaps: list[PartitionGapJson]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic of one link: `topic` at the target, made of `source_topic`.

    `partition_count` is the source's. With `reasons` the topic is refused as a whole, and `state` is
    what its lanes report; partitions may be refused each for itself. The action is REFUSE where
    nothing of the topic can be copied, for either reason. `lanes` are those that can run as things are; after a
    creation plan again. A target that `is_filling` still has the configuration it was created with
    for filling: `final` are the values that it gets when this is over, as a created one will too, and `settles` the
    same once it is over, `None` standing for the broker's default. `local_starts` are where partitions of a tiered
    topic begin on the disks of the source's own brokers, and `left` is what a copy with the same offsets leaves in the
    tier. `parted` names who let it continue with mapped offsets since both sides diverged; `first_partitions` is as in
    `TopicIds`. `kept` is why a target is not deleted that should be, as the source has deleted its own.
    """

    topic: TargetTopic
    source_topic: SourceTopic
    action: Action
    partition_count: int = 0
    partitions: tuple[PartitionDecision, ...] = ()
    reasons: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    state: LaneState = LaneState.STARTING
    creation: NewTopic | None = None
    settles: Mapping[str, str | None] = field(default_factory=dict)
    final: Mapping[str, str | None] = field(default_factory=dict)
    local_starts: Mapping[int, int] = field(default_factory=dict)
    left: tuple[LeftInTier, ...] = ()
    is_mapped: bool = False
    parted: Parted | None = None
    first_partitions: int = -1
    kept: Problem | None = None
    lanes: tuple[Lane, ...] = ()

    @property
    def mode(self) -> TopicMode:
        if self.action is Action.REFUSE:
            return TopicMode.REFUSED
        return TopicMode.MAPPED if self.is_mapped else TopicMode.IDENTITY

    @property
    def is_filling(self) -> bool:
        return bool(self.final) and self.creation is None

    @property
    def is_copied(self) -> bool:
        """Whether a part of it can be copied, now or when it is created."""
        return self.action not in (Action.REFUSE, *STAYING)

    @property
    def refused(self) -> tuple[PartitionDecision, ...]:
        """The partitions that cannot be copied, each for a reason of its own."""
        return tuple(p for p in self.partitions if p.refusal is not None)

    @property
    def has_refusals(self) -> bool:
        """Whether a part of it cannot be copied."""
        return bool(self.reasons or self.refused)

    @property
    def states(self) -> tuple[LaneState, ...]:
        """The states that a run will report of each partition, as far as they were looked at."""
        if self.reasons:
            return (self.state,) * self.partition_count
        return tuple(p.state for p in self.partitions)

    @property
    def lag_records(self) -> int:
        """Offsets to copy, as far as they are known: only of partitions that can be copied."""
        return sum(max(p.lag_records, 0) for p in self._copied)

    @property
    def waiting_records(self) -> int:
        """Offsets that wait for open transactions, as far as they are known: only of partitions that can be copied."""
        return sum(p.waiting_records for p in self._copied)

    @property
    def prefix_offsets(self) -> int:
        """Offsets to fill before the first records to copy."""
        return sum(p.prefix for p in self._copied)

    @property
    def _copied(self) -> tuple[PartitionDecision, ...]:
        return () if self.reasons else tuple(p for p in self.partitions if p.refusal is None)

    @property
    def is_laid_out(self) -> bool:
        """Whether every partition has a lane, or a reason why it has none."""
        return len(self.lanes) + len(self.refused) >= self.partition_count

    @property
    def has_changes(self) -> bool:
        """Whether applying and running it would change or copy anything."""
        if not self.is_copied:
            return False
        return self.action is not Action.COPY or bool(self.settles) or self.lag_records + self.prefix_offsets > 0

    def as_dict(self) -> TopicPlanJson:
        """Plain values under stable names."""
        return {
            "topic": self.topic,
            "source_topic": self.source_topic,
            "action": str(self.action),
            "mode": str(self.mode),
            "parted": None if self.parted is None else self.parted.as_dict(),
            "partitions": self.partition_count,
            "states": [str(state) for state in self.states],
            "records_to_copy": self.lag_records,
            "records_waiting": self.waiting_records,
            "offsets_to_fill": self.prefix_offsets,
            "local_log_starts": {str(partition): start for partition, start in sorted(self.local_starts.items())},
            "configs": dict(self.creation.configs) if self.creation else {},
            "reasons": plain(self.reasons),
            "notes": plain(self.notes),
            "refused_partitions": [
                {"partition": p.partition, "state": str(p.state), **problem_dict(p.refusal)}
                for p in self.refused
                if p.refusal is not None
            ],
            "unexamined_partitions": [
                {"partition": p.partition, "state": str(p.state), **problem_dict(p.unexamined)}
                for p in self.partitions
                if p.unexamined is not None
            ],
            "gaps": [
                {"partition": p.partition, "offset_begin": p.gap.offset_begin, "offset_end": p.gap.offset_end}
                for p in self.partitions
                if p.gap is not None
            ],
        }


class LinkPlanJson(TypedDict):
    """What a run would do about a link."""

    link: str
    source: str
    target: str
    source_cluster_id: str
    target_cluster_id: str
    problem: ProblemJson | None
    filters: SaidFiltersJson | None
    settings: SaidSettingsJson | None
    pauses: list[PauseJson]
    aborted: Annotated[str, AbortedPolicy] | None
    aborted_reason: str | None
    visibility: Annotated[str, Visibility] | None
    visibility_reason: str | None
    topics: list[TopicPlanJson]
    unmatched: list[ProblemJson]
    recommendations: list[ProblemJson]
    changes: list[Annotated[dict[str, Any], Change]]
    no_longer_mirrored: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """One link. With a `problem` the link cannot run, for the reason given.

    `aborted` is how records of aborted transactions are treated, and `visibility` how transactions become visible,
    `None` where that was not found out.
    `recommendations` are about the link as it is; `advice` is what would make it safer or faster, which is for doctor.
    `unmatched` are the patterns of the configuration that match nothing at the source: a warning, no failure.
    `changes` are what would be changed at the target beside the data: of topics first, then by its loops; `topics` has
    more about each topic. `filters` and `settings` are what an operator set in place of the file, `pauses` what
    operators have paused.
    `no_longer_mirrored` are topics that the ledger remembers and the link does not select any more.
    """

    link: str
    source: str
    target: str
    source_id: str = ""
    target_id: str = ""
    topics: tuple[TopicPlan, ...] = ()
    recommendations: tuple[Problem, ...] = ()
    advice: tuple[Problem, ...] = ()
    no_longer_mirrored: tuple[TargetTopic, ...] = ()
    aborted: Treatment | None = None
    visibility: VisibilityInForce | None = None
    unmatched: tuple[Problem, ...] = ()
    changes: tuple[Change, ...] = ()
    filters: Filters = field(default_factory=Filters)
    settings: LiveSettings = field(default_factory=LiveSettings)
    pauses: tuple[Pause, ...] = ()
    problem: Problem | None = None

    @property
    def has_refusals(self) -> bool:
        """Whether a part of it cannot be copied."""
        return self.problem is not None or any(topic.has_refusals for topic in self.topics)

    @property
    def is_examined(self) -> bool:
        """Whether every partition could be looked at."""
        return all(partition.unexamined is None for topic in self.topics for partition in topic.partitions)

    @property
    def has_changes(self) -> bool:
        """Whether anything would be changed: what cannot be, or is to stay as it is, does not count."""
        return any(change.problem is None for change in self.changes)

    @property
    def loop_changes(self) -> tuple[Change, ...]:
        """The changes that are not shown with the topics already."""
        return tuple(change for change in self.changes if change.loop not in (DATA_TASK, TOPICS_TASK))

    @property
    def is_whole(self) -> bool:
        """Whether every partition of every topic has a lane."""
        return self.problem is None and all(
            not topic.reasons and len(topic.lanes) == topic.partition_count for topic in self.topics
        )

    def as_dict(self) -> LinkPlanJson:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "source": self.source,
            "target": self.target,
            "source_cluster_id": self.source_id,
            "target_cluster_id": self.target_id,
            "problem": plain(self.problem),
            "filters": self.filters.said_as_dict(),
            "settings": self.settings.said_as_dict(),
            "pauses": plain(self.pauses),
            "aborted": None if self.aborted is None else str(self.aborted.policy),
            "aborted_reason": None if self.aborted is None else self.aborted.reason,
            "visibility": None if self.visibility is None else str(self.visibility.visibility),
            "visibility_reason": None if self.visibility is None else self.visibility.reason,
            "topics": plain(self.topics),
            "unmatched": plain(self.unmatched),
            "recommendations": plain((*self.recommendations, *self.advice)),
            "changes": plain(self.changes),
            "no_longer_mirrored": list(self.no_longer_mirrored),
        }


class PlanJson(TypedDict):
    """What a run would create and copy."""

    links: list[LinkPlanJson]
    has_changes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of `isthmus run`, link by link."""

    links: tuple[LinkPlan, ...]

    @property
    def has_changes(self) -> bool:
        """Whether anything would be created or copied."""
        return any(link.has_changes or any(topic.has_changes for topic in link.topics) for link in self.links)

    @property
    def exit_code(self) -> int:
        """The exit code as of a run: see `exit_code_of`; 1 where a part is refused or does not answer, else 0."""
        are_whole = all(link.is_examined and not link.has_refusals for link in self.links)
        return exit_code_of(link.problem for link in self.links) or int(not are_whole)

    def as_dict(self) -> PlanJson:
        """Plain values under stable names."""
        return {"links": plain(self.links), "has_changes": self.has_changes}
