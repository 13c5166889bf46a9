"""The progress of links: partitions, topics and links at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, ClassVar, Literal

from isthmus.model.gateways.synchrony import Synchrony
from isthmus.model.kafka.topic import Parted
from isthmus.model.kafka.transactions import AbortedPolicy, OpenTransaction, waited_for
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.link import Link
from isthmus.model.links.pair import PairState, pair_state
from isthmus.model.links.pauses import Pause
from isthmus.model.links.semantics import SEMANTICS_LOOP
from isthmus.model.links.transform import Transform, summarize_transform
from isthmus.model.links.writability import KeptBy
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.process.leases import LeaseProgress
from isthmus.model.process.receipt import LeaseTotals
from isthmus.model.process.whereabouts import Liveness
from isthmus.model.state import AGED_S, ControllerState, LinkState
from isthmus.model.text.plain import (
    Flat,
    Hidden,
    NumberOrNull,
    PlainValue,
    TextOrNull,
    computed_field,
    instant_or_null,
    null_if_zero,
    tenths,
    texts,
    thousandths,
)
from isthmus.model.text.shown import ShortTable, ShownAsTable
from isthmus.model.text.wording import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlace:
    """What else there is of a partition whose offsets are mapped. A transform has left out `filtered` records, and
    `skipped` more on which it failed, since the partition began.
    """

    copied_end: NumberOrNull
    copied_records: int | None
    copy_flags_replaced: int
    filtered_records: int
    skipped_records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress(PlainValue):
    """The state of a link's partition; unknown values are null.

    Offsets are -1 while unknown; `lag_s` is the age of the oldest record to copy.

    With mapped offsets `copied_end` is the source offset up to which everything was copied, otherwise it is `None`:
    then the target's end is that offset. If the target holds other records than the source, it is right up to
    `proven_end`, -1 if unknown; otherwise that is `None`. Later records are still to be copied; if the source has none
    behind, their number is unknown. `waiting_records` are offsets at the end of the source's log that wait for open
    transactions (-1 while unknown) and count as no lag; the oldest of them was written `waiting_s` ago, and if it
    `is_waiting_anew` another one was the oldest a look before.

    `records` and `size_bytes` are what the present run has copied, `copied_records` the records copied since the lane
    began, by its map (`None` if offsets are the same, or its ledger does not answer), and `flags_replaced` the records
    whose header of copy flags was ever replaced because it was not valid. `filtered` counts the records that a
    transform left out since the lane began, `skipped` those that it could not change and that were left out for it,
    dead letters included. `gaps` are offsets the source deleted before they were copied. The ages (s) are how long ago
    the state and the ends were seen, at most: infinite for an end of unknown age.
    """

    SCHEMA: ClassVar = "PartitionStatus"

    topic: TargetTopic
    partition: int
    state: LaneState
    state_age_s: Annotated[float, "state_age_seconds", tenths] = 0.0
    source_end: NumberOrNull = -1
    target_end: NumberOrNull = -1
    lag_s: Annotated[float | None, "lag_seconds", thousandths] = None
    waiting_records: NumberOrNull = -1
    waiting_s: Annotated[float | None, "waiting_seconds", tenths] = None
    records_per_s: Annotated[float | None, "records_per_second", tenths] = None
    gaps: tuple[Gap, ...] = ()
    problem: Problem | None = None
    source_start: Hidden[int] = 0
    copied_end: Hidden[int | None] = None
    proven_end: Hidden[int | None] = None
    records: Hidden[int] = 0
    size_bytes: Hidden[int] = 0
    copied_records: Hidden[int | None] = None
    flags_replaced: Hidden[int] = 0
    filtered: Hidden[int] = 0
    skipped: Hidden[int] = 0
    is_waiting_anew: Hidden[bool] = False
    source_age_s: Hidden[float] = 0.0
    target_age_s: Hidden[float] = 0.0

    @property
    def key(self) -> LaneKey:
        return LaneKey(self.topic, self.partition)

    @property
    def position(self) -> int:
        """The source offset up to which everything was copied, -1 while unknown."""
        copied_end = self.target_end if self.copied_end is None else self.copied_end
        return copied_end if self.proven_end is None else min(copied_end, self.proven_end)

    @property
    def source_log_end(self) -> int:
        """The end of the source's log, including records that wait for open transactions; -1 while unknown."""
        return -1 if min(self.source_end, self.waiting_records) < 0 else self.source_end + self.waiting_records

    @computed_field(before="lag_s")
    def lag_records(self) -> NumberOrNull:
        """Offsets still to copy, -1 while unknown."""
        if self.position < 0 or self.source_end < 0:
            return -1
        lag = max(self.source_end - max(self.position, self.source_start), 0)
        return lag if lag or self.proven_end is None else -1

    @property
    def is_unfinished(self) -> bool:
        """Whether something prevents copying it; a pause, or that no run works on it, does not count."""
        return not self.state.is_calm or self.problem is not None

    @property
    def age_s(self) -> float:
        """How long ago (s) the oldest known fact about it was seen, as far as that is known."""
        ends = ((self.source_end, self.source_age_s), (self.target_end, self.target_age_s))
        return max(self.state_age_s, *(age_s for end, age_s in ends if end >= 0 and isfinite(age_s)), 0.0)

    @computed_field(before="lag_records")
    def target_end_age_s(self) -> Annotated[float | None, "target_end_age_seconds"]:
        return _age(self.target_end, self.target_age_s)

    @computed_field(before="target_end")
    def source_end_age_s(self) -> Annotated[float | None, "source_end_age_seconds"]:
        return _age(self.source_end, self.source_age_s)

    @computed_field(before="lag_records")
    def mapped(self) -> Flat[MapPlace | None]:
        """Its place in its map."""
        if self.copied_end is None:
            return None
        return MapPlace(
            copied_end=self.copied_end,
            copied_records=self.copied_records,
            copy_flags_replaced=self.flags_replaced,
            filtered_records=self.filtered,
            skipped_records=self.skipped,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress(PlainValue):
    """The state of a link's topic; unknown values are null.

    It is `topic` at the target, made of `source_topic`; `name` is the users' name of it, "" for the same. `upstream`
    are the clusters by which it came, the nearest first, if names show that. `parted` is the operator who made it
    continue with mapped offsets since both sides had diverged. `transform` is how its records are changed on the way,
    null for as they are; if `awaits_reload`, the link's run still has another one, until it reads its file again.

    Its state and problem are those of the partition that needs most attention.
    """

    SCHEMA: ClassVar = "TopicStatus"

    topic: TargetTopic
    source_topic: SourceTopic
    upstream: Annotated[tuple[str, ...], "upstream_clusters"] = ()
    parted: Parted | None = None
    transform: Annotated[Transform | None, summarize_transform] = None
    awaits_reload: Annotated[bool, "transform_awaits_reload"] = False
    state: LaneState
    problem: Problem | None = None
    partitions: tuple[PartitionProgress, ...] = ()
    state_age_s: Hidden[float] = 0.0
    name: Hidden[str] = ""

    @computed_field(before="problem")
    def lag_records(self) -> NumberOrNull:
        """Offsets still to copy in all partitions, -1 while any is unknown."""
        lags = [partition.lag_records for partition in self.partitions]
        return -1 if not lags or min(lags) < 0 else sum(lags)

    @computed_field(before="problem")
    def lag_records_min(self) -> int:
        """Offsets still to copy as far as they are known."""
        return sum(max(partition.lag_records, 0) for partition in self.partitions)

    @computed_field(before="problem")
    def lag_s(self) -> Annotated[float | None, "lag_seconds", thousandths]:
        """The age (s) of the oldest record to copy, `None` while that of any partition is unknown."""
        return _oldest(partition.lag_s for partition in self.partitions)

    @computed_field(before="problem")
    def waiting_records(self) -> NumberOrNull:
        """Offsets of the source that wait for open transactions, -1 while those of any partition are unknown."""
        found = [partition.waiting_records for partition in self.partitions]
        return -1 if not found or min(found) < 0 else sum(found)

    @property
    def waiting_s(self) -> float | None:
        """The age (s) of the oldest of these records, 0 if there is none, `None` while any is unknown."""
        if not self.waiting_records:
            return 0.0
        return _oldest(each.waiting_s if each.waiting_records else 0.0 for each in self.partitions)

    @property
    def is_mapped(self) -> bool:
        """Whether records have other offsets at the target."""
        return any(partition.copied_end is not None for partition in self.partitions)

    @property
    def records(self) -> int:
        """Records copied by the present run."""
        return sum(partition.records for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        """Bytes of record batches copied by the present run."""
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def flags_replaced(self) -> int:
        """The records whose header of copy flags was ever replaced because its format was not valid."""
        return sum(partition.flags_replaced for partition in self.partitions)

    @computed_field(before="problem")
    def filtered(self) -> Annotated[int, "filtered_records"]:
        """The records that a transform has left out since the topic began, as far as crashes let them be counted."""
        return sum(partition.filtered for partition in self.partitions)

    @computed_field(before="problem")
    def skipped(self) -> Annotated[int, "skipped_records"]:
        """The records that transforms could not change and that were left out, dead letters included."""
        return sum(partition.skipped for partition in self.partitions)

    @property
    def is_unfinished(self) -> bool:
        """Whether something prevents copying some of it; a pause, or that no run works on it, does not count."""
        return not self.state.is_calm or self.problem is not None or any(p.is_unfinished for p in self.partitions)

    @computed_field(before="problem")
    def age_s(self) -> Annotated[float, "age_seconds", tenths]:
        """How long ago (s) the oldest known fact about it was seen."""
        return max(self.state_age_s, *(partition.age_s for partition in self.partitions), 0.0)

    @computed_field(before="upstream")
    def shown_name(self) -> Annotated[str, "name"]:
        return self.name or self.source_topic

    @computed_field(before="upstream")
    def hops(self) -> int | None:
        return len(self.upstream) or None

    @computed_field(before="parted")
    def offsets(self) -> Literal["same", "mapped"]:
        return "mapped" if self.is_mapped else "same"

    @computed_field(before="lag_records")
    def source_end(self) -> int | None:
        return _total(each.source_end for each in self.partitions)

    @computed_field(before="lag_records")
    def target_end(self) -> int | None:
        return _total(each.target_end for each in self.partitions)

    @computed_field(before="age_s")
    def records_per_s(self) -> Annotated[float | None, "records_per_second", tenths]:
        rates = [each.records_per_s for each in self.partitions if each.records_per_s is not None]
        return sum(rates) if rates else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress(PlainValue):
    """How a consumer group stands that a link carries.

    `standing` is its state at the target `age_s` seconds ago.

    `behind_records` is how far its positions there are behind those at the source, `None` if that is not examined.
    """

    SCHEMA: ClassVar = "GroupStatus"

    group: str
    standing: str
    age_s: Annotated[float, "age_seconds", tenths] = 0.0
    behind_records: Hidden[int | None] = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerProgress(PlainValue):
    """The process that runs a link; unknown values are null.

    `age_s` is how long ago (s) it was heard last, `None` for never or unknown.

    `described` names the process in words, "" if it is unknown; `liveness` is whether it is seen to run on this host.
    """

    SCHEMA: ClassVar = "ControllerStatus"

    state: ControllerState = ControllerState.ALIVE
    age_s: Annotated[float | None, "heard_seconds_ago", tenths] = 0.0
    host: TextOrNull = ""
    pid: Annotated[int, null_if_zero] = 0
    started_ms: Annotated[int, "started", instant_or_null] = -1
    version: TextOrNull = ""
    described: Hidden[str] = ""
    liveness: Hidden[Liveness] = Liveness.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePair:
    """Two namespaces of which one follows the other; `kept_by` is the means that keeps other producers out, null while
    it is not
    known to be reserved, and `bypass` is "possible" where clients of brokers get past that.
    """

    source: Annotated[Namespace, str]
    target: Annotated[Namespace, str]
    state: PairState
    kept_by: KeptBy | None

    @computed_field
    def bypass(self) -> Literal["possible"] | None:
        return None if self.kept_by is None else self.kept_by.bypass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProgress(PlainValue, ShownAsTable):
    """How a link stands.

    `records` and `size_bytes` are what the present run has copied, `latency` (a histogram as in `model.latency`) how
    long that took, and `lease_totals` the totals of its leases. `leases` are those that run.

    `aborted` is the treatment of records of aborted transactions, `None` while unknown. `transactions` are those that
    are open at the source and that block records, as far as its brokers report them. `namespaces` are the pairs of
    namespaces of a declared link, `reserved` those of the target that are reserved, by what keeps others out, and
    `pauses` those of operators. `sync` is the state of a synchronous link. Expired rules still keep readers out of
    `unread` namespaces of the target, and no run removes these rules.
    """

    SCHEMA: ClassVar = "LinkStatus"

    link: str
    source: str
    target: str
    state: LinkState
    sync: Synchrony | None = None
    unread: Annotated[tuple[Namespace, ...], texts] = ()
    controller: ControllerProgress = ControllerProgress()
    transactions: tuple[OpenTransaction, ...] = ()
    aborted: AbortedPolicy | None = None
    problem: Problem | None = None
    pauses: tuple[Pause, ...] = ()
    topics: tuple[TopicProgress, ...] = ()
    groups: tuple[GroupProgress, ...] = ()
    loops: tuple[LoopProgress, ...] = ()
    leases: tuple[LeaseProgress, ...] = ()
    records: Hidden[int] = 0
    size_bytes: Hidden[int] = 0
    latency: Hidden[tuple[int, ...]] = ()
    lease_totals: Hidden[LeaseTotals] = field(default_factory=LeaseTotals)
    namespaces: Hidden[tuple[NamespaceMap, ...]] = ()
    reserved: Hidden[Mapping[Namespace, KeptBy]] = field(default_factory=dict)

    @computed_field(before="sync")
    def pair_state(self) -> PairState:
        """The state of the link as a whole, in the words of KIP-986."""
        return self._pair_state(self.topics)

    def state_of(self, pair: NamespaceMap) -> PairState:
        """Return the state of one of its pairs of namespaces."""
        return self._pair_state(topic for topic in self.topics if pair.target.holds(topic.topic))

    def _pair_state(self, topics: Iterable[TopicProgress]) -> PairState:
        is_downgraded = any(each.loop == SEMANTICS_LOOP and each.state is LoopState.IN_ERROR for each in self.loops)
        partitions = (each for topic in topics for each in topic.partitions)
        sync = None if self.sync is None else self.sync.state
        return pair_state(self.state, partitions, is_downgraded=is_downgraded, sync=sync)

    @computed_field(before="transactions")
    def lag_records(self) -> NumberOrNull:
        """Offsets still to copy, -1 while that of any topic is unknown, or the list of topics."""
        return self._sum(topic.lag_records for topic in self.topics)

    def _sum(self, numbers: Iterable[int]) -> int:
        found = list(numbers)
        if min(found, default=0) < 0 or (not found and self.state in (LinkState.UNAVAILABLE, LinkState.FAILED)):
            return -1
        return sum(found)

    @computed_field(before="transactions")
    def lag_records_min(self) -> int:
        """Offsets still to copy as far as they are known."""
        return sum(topic.lag_records_min for topic in self.topics)

    @computed_field(before="transactions")
    def waiting_records(self) -> NumberOrNull:
        """Offsets of the source that wait for open transactions, -1 while those of any topic are unknown, or the list
        of topics.
        """
        return self._sum(topic.waiting_records for topic in self.topics)

    @property
    def waits(self) -> Iterator[tuple[str, str]]:
        """Yield partitions whose end has waited for an open transaction for more than ten seconds, each with a
        sentence.
        """
        found = {(each.topic, each.partition): each for each in reversed(self.transactions)}
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.is_waiting_anew or partition.waiting_records <= 0 or partition.waiting_s is None:
                    continue
                if partition.waiting_s >= AGED_S:
                    transaction = found.get((topic.source_topic, partition.partition))
                    count = format_count(partition.waiting_records, "offset waits", "offsets wait")
                    where = f"{self.link}/{topic.topic}-{partition.partition}"
                    yield where, f"{count} for {waited_for(transaction, partition.waiting_s)}"

    @property
    def copied_records(self) -> int | None:
        """Records copied since its lanes began, `None` while that of any partition is unknown."""
        found = [partition.copied_records for topic in self.topics for partition in topic.partitions]
        known = [count for count in found if count is not None]
        return sum(known) if known and len(known) == len(found) else None

    @property
    def age_s(self) -> float:
        """How long ago (s) the oldest known fact about its topics was seen."""
        return max((topic.age_s for topic in self.topics), default=0.0)

    @property
    def is_unfinished(self) -> bool:
        """Whether something prevents copying some of it; a pause, or that no run works on it, does not count."""
        is_in_trouble = self.state in (LinkState.FAILED, LinkState.UNAVAILABLE)
        return is_in_trouble or any(topic.is_unfinished for topic in self.topics)

    @property
    def trouble(self) -> Mapping[str, int]:
        """The number of topics that something prevents from being copied, by state."""
        return Counter(str(topic.state) for topic in self.topics if topic.is_unfinished)

    @property
    def trouble_in_words(self) -> str:
        """The number of topics that something prevents from being copied, in words; "" for none."""
        return ", ".join(f"{format_count(count, 'topic')} {state}" for state, count in sorted(self.trouble.items()))

    @computed_field(before="sync")
    def pairs(self) -> tuple[NamespacePair, ...]:
        """Its namespaces, each with its state."""
        return tuple(
            NamespacePair(
                source=pair.source,
                target=pair.target,
                state=self.state_of(pair),
                kept_by=self.reserved.get(pair.target),
            )
            for pair in self.namespaces
        )

    @computed_field(before="waiting_records")
    def topics_in_trouble(self) -> int:
        return sum(self.trouble.values())

    def short_table(self) -> ShortTable:
        from isthmus.model.links.rows import progress_table

        return progress_table((self,))


def topic_of(
    name: TargetTopic,
    source_topic: SourceTopic,
    partitions: Iterable[PartitionProgress],
    link: Link | None = None,
) -> TopicProgress:
    """Combine partitions into a topic, with the names that its link gives, if the link is given."""
    found = tuple(partitions)
    worst = max(found, key=lambda p: (attention(p.state), p.problem is not None), default=None)
    return TopicProgress(
        topic=name,
        source_topic=source_topic,
        name="" if link is None else link.names.topic(source_topic),
        upstream=() if link is None else link.upstream(source_topic),
        transform=None if link is None else link.transform_of(source_topic),
        state=LaneState.STARTING if worst is None else worst.state,
        partitions=found,
        problem=None if worst is None else worst.problem,
        state_age_s=0.0 if worst is None else worst.state_age_s,
    )


def attention(state: LaneState) -> int:
    """Return how much a state needs an operator: 3 for one that lasts until he acts, 0 for none at all."""
    if state.is_terminal:
        return 3
    if not state.is_calm:
        return 2
    return 0 if state is LaneState.ACTIVE else 1


def _age(end: int, age_s: float) -> float | None:
    return round(age_s, 1) if end >= 0 and isfinite(age_s) else None


def _total(numbers: Iterable[int]) -> int | None:
    found = list(numbers)
    return None if not found or min(found) < 0 else sum(found)


def _oldest(ages_s: Iterable[float | None]) -> float | None:
    found = list(ages_s)
    known = [age_s for age_s in found if age_s is not None]
    return max(known) if known and len(known) == len(found) else None
