"""Plans of what is created and copied: values, printable, the same for the same observations."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Final

from isthmus.kafka.admin.changes import NewTopic
from isthmus.memory.filtering import Filters
from isthmus.memory.livesettings import LiveSettings
from isthmus.model.kafka.topic import LeftInTier, Parted
from isthmus.model.lane import Gap, Lane, LaneState
from isthmus.model.links.pauses import Pause
from isthmus.model.links.transform import Transform
from isthmus.model.loop import DATA_TASK, TOPICS_TASK, Change
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem, exit_code_of, join_alike
from isthmus.model.text.plain import Flat, FormMark, Hidden, PlainValue, TextOrNull, computed_field
from isthmus.model.text.shown import ShortTable, ShownAsTable, Tone
from isthmus.model.text.wording import format_count, format_topic
from isthmus.topics.aborted import Treatment
from isthmus.topics.checks.letters import LetterTopic
from isthmus.topics.preflight import PartitionDecision, TopicMode
from isthmus.topics.visibility import VisibilityInForce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
_COLUMNS: Final = ("link", "topic", "action", "mode", "changed", "partitions", "records_to_copy", "problem")
_TONES: Final = {str(Action.REFUSE): Tone.BAD}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformBegin:
    """From which source offset on records of a partition are changed by another transform than before, `former` (null
    for none).
    """

    partition: int
    source_offset: int
    former: TextOrNull = ""


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
    they are, and `transform_begins` are the partitions that were copied otherwise before; if `awaits_reload`, the link
    is run with the former one until that run reads its file again. `dead_letters` is the topic for records that it
    cannot change, `None` where these are not kept.
    """

    topic: TargetTopic
    source_topic: SourceTopic
    action: Action
    parted: Parted | None = None
    transform: Transform | None = None
    transform_begins: tuple[TransformBegin, ...] = ()
    awaits_reload: Annotated[bool, "transform_awaits_reload"] = False
    dead_letters: LetterTopic | None = None
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
    def reason(self) -> str:
        """Why it is refused, or the first of its refused partitions, in words; "" if nothing of it is."""
        if self.reasons or not self.refused:
            return "; ".join(problem.message for problem in self.reasons)
        (where, problem), *others = join_alike((p.partition, p.refusal) for p in self.refused)
        more = f"; and {len(others)} more" if others else ""
        return f"{where}: {problem.message}{more}"

    @property
    def first_problem(self) -> Problem | None:
        """The first reason why a part of it is not copied, or could not be looked at."""
        found = (*self.reasons, *(p.refusal for p in self.partitions), *(p.unexamined for p in self.partitions))
        return next((problem for problem in found if problem is not None), None)

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
        if self.action is not Action.COPY or (self.dead_letters is not None and self.dead_letters.has_changes):
            return True
        return bool(self.settles) or self.lag_records + self.prefix_offsets > 0

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
class LinkPlan(PlainValue, ShownAsTable):
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

    @property
    def rows(self) -> Iterator[PlannedTopic]:
        """Yield a row for each topic; a link that cannot run, or has none, has one of its own."""
        names = self.link, self.source, self.target
        if self.problem is not None or not self.topics:
            yield _plan_row(names, None, self.problem)
        for topic in self.topics:
            yield _plan_row(names, topic, topic.first_problem)

    def short_table(self) -> ShortTable:
        return _table((self,))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic(PlainValue):
    """One topic of a plan, for queries; what a link without topics lacks is null.

    `problem` is the first reason why a part of it is not copied, `refused_partitions` how many cannot be.
    """

    link: str
    source: str
    target: str
    topic: TargetTopic | None = None
    source_topic: SourceTopic | None = None
    action: Action | None = None
    mode: TopicMode | None = None
    partition_count: Annotated[int | None, "partitions"] = None
    refused_count: Annotated[int | None, "refused_partitions"] = None
    lag_records: Annotated[int | None, "records_to_copy"] = None
    waiting_records: Annotated[int | None, "records_waiting"] = None
    prefix_offsets: Annotated[int | None, "offsets_to_fill"] = None
    problem_code: str | None = None
    problem: str | None = None
    hint: str | None = None


def _plan_row(names: tuple[str, str, str], topic: TopicPlan | None, problem: Problem | None) -> PlannedTopic:
    link, source, target = names
    row = PlannedTopic(link=link, source=source, target=target)
    if problem is not None:
        row = replace(row, problem_code=problem.code or None, problem=problem.message, hint=problem.hint or None)
    if topic is None:
        return row
    return replace(
        row,
        topic=topic.topic,
        source_topic=topic.source_topic,
        action=topic.action,
        mode=topic.mode,
        partition_count=topic.partition_count,
        refused_count=topic.partition_count if topic.reasons else len(topic.refused),
        lag_records=topic.lag_records,
        waiting_records=topic.waiting_records,
        prefix_offsets=topic.prefix_offsets,
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(PlainValue, ShownAsTable):
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

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """The plan as a DataFrame: the columns of `PlannedTopic`, a row for each topic."""
        from isthmus.spark.frames import frame_of

        return frame_of(spark, PlannedTopic, (row for link in self.links for row in link.rows))

    def short_table(self) -> ShortTable:
        return _table(self.links)


def _table(links: tuple[LinkPlan, ...]) -> ShortTable:
    topics = [topic for link in links for topic in link.topics]
    actions = ", ".join(f"{action} {count:,}" for action, count in Counter(topic.action for topic in topics).items())
    title = f"{format_count(len(links), 'link')}; {format_count(len(topics), 'topic')}: {actions or 'none'}"
    rows = [row for link in links for row in _short_rows(link)]
    return ShortTable(title=title, columns=_COLUMNS, rows=tuple(rows), tones=_TONES)


def _short_rows(link: LinkPlan) -> Iterator[dict[str, object]]:
    if link.problem is not None or not link.topics:
        yield {"link": link.link, "problem": "" if link.problem is None else link.problem.message}
    for topic in link.topics:
        unexamined = topic.first_problem
        yield {
            "link": link.link,
            "topic": format_topic(topic.source_topic, topic.topic),
            "action": str(topic.action),
            "mode": str(topic.mode),
            "changed": "" if topic.transform is None else str(topic.transform.way),
            "partitions": topic.partition_count,
            "records_to_copy": topic.lag_records,
            "problem": topic.reason or ("" if unexamined is None else unexamined.message),
        }
