"""Plans of what is created and copied: values, printable, the same for the same observations."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from isthmus.kafka.admin.changes import NewTopic
from isthmus.memory.filtering import Filters
from isthmus.memory.livesettings import LiveSettings
from isthmus.model.kafka.topic import LeftInTier, Parted
from isthmus.model.lane import Gap, Lane, LaneState
from isthmus.model.links.pauses import Pause
from isthmus.model.links.transform import Transform
from isthmus.model.loop import DATA_TASK, TOPICS_TASK, Change
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem, exit_code_of
from isthmus.model.text.plain import Flat, FormMark, Hidden, PlainValue, computed_field
from isthmus.topics.aborted import Treatment
from isthmus.topics.preflight import PartitionDecision, TopicMode
from isthmus.topics.visibility import VisibilityInForce


class Action(enum.StrEnum):
    """The action of a plan for a topic."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProblem:
    """Why a partition is not copied, or could not be examined."""

    partition: int
    state: LaneState
    problem: Flat[Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGap:
    """Offsets that will be missing at the target."""

    partition: int
    gap: Annotated[Gap, FormMark.EMBEDDED]


def _by_partition(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan(PlainValue):
    """The action of a run for a topic.

    It is `topic` at the target, made of `source_topic`.

    `partition_count` is the source's. With `reasons` the topic is refused as a whole, and `state` is what its lanes
    report; partitions may be refused each for itself. The action is REFUSE where nothing of the topic can be copied,
    for either reason. `lanes` are those that can run as things are; after a creation plan again. A target that
    `is_filling` still has the configuration it was created with for filling: `final` are the values that it gets when
    this is over, as a created one will too, and `settles` the same once it is over, `None` standing for the broker's
    default. `local_starts` are where partitions of a tiered topic begin on the disks of the source's own brokers, and
    `left` is what a copy with the same offsets leaves in the tier. `parted` names who let it continue with mapped
    offsets since both sides diverged; `first_partitions` is as in `TopicIds`. `kept` is why a target is not deleted
    that should be, as the source has deleted its own. `transform` is how records are changed on the way, `None` for as
    they are.
    """

    topic: TargetTopic
    source_topic: SourceTopic
    action: Action
    parted: Parted | None = None
    transform: Transform | None = None
    partition_count: Annotated[int, "partitions"] = 0
    local_starts: Annotated[Mapping[int, int], "local_log_starts", _by_partition] = field(default_factory=dict)
    reasons: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    partitions: Hidden[tuple[PartitionDecision, ...]] = ()
    state: Hidden[LaneState] = LaneState.STARTING
    creation: Hidden[NewTopic | None] = None
    settles: Hidden[Mapping[str, str | None]] = field(default_factory=dict)
    final: Hidden[Mapping[str, str | None]] = field(default_factory=dict)
    left: Hidden[tuple[LeftInTier, ...]] = ()
    is_mapped: Hidden[bool] = False
    first_partitions: Hidden[int] = -1
    kept: Hidden[Problem | None] = None
    lanes: Hidden[tuple[Lane, ...]] = ()

    @computed_field(before="parted")
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

    @computed_field(before="local_starts")
    def states(self) -> tuple[LaneState, ...]:
        """The states that a run will report of each partition, as far as they were looked at."""
        if self.reasons:
            return (self.state,) * self.partition_count
        return tuple(p.state for p in self.partitions)

    @computed_field(before="local_starts")
    def lag_records(self) -> Annotated[int, "records_to_copy"]:
        """Offsets to copy, as far as they are known: only of partitions that can be copied."""
        return sum(max(p.lag_records, 0) for p in self._copied)

    @computed_field(before="local_starts")
    def waiting_records(self) -> Annotated[int, "records_waiting"]:
        """Offsets that wait for open transactions, as far as they are known: only of partitions that can be copied."""
        return sum(p.waiting_records for p in self._copied)

    @computed_field(before="local_starts")
    def prefix_offsets(self) -> Annotated[int, "offsets_to_fill"]:
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

    @computed_field(before="reasons")
    def configs(self) -> Mapping[str, str | None]:
        """The configuration that it is created with."""
        return self.creation.configs if self.creation else {}

    @computed_field
    def refused_partitions(self) -> tuple[PartitionProblem, ...]:
        return tuple(
            PartitionProblem(partition=p.partition, state=p.state, problem=p.refusal)
            for p in self.partitions
            if p.refusal is not None
        )

    @computed_field
    def unexamined_partitions(self) -> tuple[PartitionProblem, ...]:
        return tuple(
            PartitionProblem(partition=p.partition, state=p.state, problem=p.unexamined)
            for p in self.partitions
            if p.unexamined is not None
        )

    @computed_field
    def gaps(self) -> tuple[PartitionGap, ...]:
        return tuple(PartitionGap(partition=p.partition, gap=p.gap) for p in self.partitions if p.gap is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan(PlainValue):
    """The actions of a run for a link.

    With a `problem` the link cannot run, for the reason given.

    `aborted` is how records of aborted transactions are treated, and `visibility` how transactions become visible,
    `None` where that was not found out. `recommendations` are about the link as it is; `advice` is what would make it
    safer or faster, which is for doctor. `unmatched` are the patterns of the configuration that match nothing at the
    source: a warning, no failure. `changes` are what would be changed at the target beside the data: of topics first,
    then by its loops; `topics` has more about each topic. `filters` and `settings` are what an operator set in place of
    the file, `pauses` what operators have paused. `no_longer_mirrored` are topics that the ledger remembers and the
    link does not select any more.
    """

    link: str
    source: str
    target: str
    source_id: Annotated[str, "source_cluster_id"] = ""
    target_id: Annotated[str, "target_cluster_id"] = ""
    problem: Problem | None = None
    filters: Annotated[Filters, Filters.summarize] = field(default_factory=Filters)
    settings: Annotated[LiveSettings, LiveSettings.summarize] = field(default_factory=LiveSettings)
    pauses: tuple[Pause, ...] = ()
    aborted: Annotated[Treatment | None, FormMark.EMBEDDED] = None
    visibility: Annotated[VisibilityInForce | None, FormMark.EMBEDDED] = None
    topics: tuple[TopicPlan, ...] = ()
    unmatched: tuple[Problem, ...] = ()
    changes: tuple[Change, ...] = ()
    no_longer_mirrored: tuple[TargetTopic, ...] = ()
    recommendations: Hidden[tuple[Problem, ...]] = ()
    advice: Hidden[tuple[Problem, ...]] = ()

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

    @computed_field(before="changes")
    def all_recommendations(self) -> Annotated[tuple[Problem, ...], "recommendations"]:
        return (*self.recommendations, *self.advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(PlainValue):
    """The topics that a run would create and copy."""

    links: tuple[LinkPlan, ...]

    @computed_field
    def has_changes(self) -> bool:
        """Whether anything would be created or copied."""
        return any(link.has_changes or any(topic.has_changes for topic in link.topics) for link in self.links)

    @property
    def exit_code(self) -> int:
        """The exit code as of a run: see `exit_code_of`; 1 where a part is refused or does not answer, else 0."""
        are_whole = all(link.is_examined and not link.has_refusals for link in self.links)
        return exit_code_of(link.problem for link in self.links) or int(not are_whole)
