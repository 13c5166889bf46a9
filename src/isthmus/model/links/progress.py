"""The progress of links: partitions, topics and links at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite

from isthmus.model.gateways.synchrony import Synchrony
from isthmus.model.kafka.topic import Parted
from isthmus.model.kafka.transactions import AbortedPolicy, OpenTransaction, waited_for
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.link import Link
from isthmus.model.links.pair import PairState, pair_state
from isthmus.model.links.pauses import Pause
from isthmus.model.links.progressforms import (
    ControllerStatusJson,
    GroupStatusJson,
    LinkStatusJson,
    MapPlaceJson,
    PartitionStatusJson,
    TopicStatusJson,
)
from isthmus.model.links.semantics import SEMANTICS_LOOP
from isthmus.model.links.writability import KeptBy
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.process.receipt import LeaseTotals
from isthmus.model.state import AGED_S, ControllerState, LinkState
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import plain
from isthmus.model.text.wording import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """One partition. Offsets are -1 while unknown; `lag_s` is the age of the oldest record to copy.

    With mapped offsets `copied_end` is the source offset up to which everything was copied, otherwise it is `None`:
    then the target's end is that offset. If the target holds other records than the source, it is right up to
    `proven_end`, -1 if unknown; otherwise that is `None`. Later records are still to be copied; if the source has none
    behind, their number is unknown. `waiting_records` are offsets at the end of the source's log that wait for open
    transactions (-1 while unknown) and count as no lag; the oldest of them was written `waiting_s` ago, and if it
    `is_waiting_anew` another one was the oldest a look before.

    `records` and `size_bytes` are what the present run has copied, `copied_records` the records copied since the lane
    began, by its map (`None` if offsets are the same, or its ledger does not answer), and `flags_replaced` the records
    whose header of copy flags was ever replaced because it was not valid. `gaps` are offsets the source deleted before
    they were copied. The ages (s) are how long ago the state and the ends were seen, at most: infinite for an end of
    unknown age.
    """

    topic: TargetTopic
    partition: int
    state: LaneState
    target_end: int = -1
    source_end: int = -1
    source_start: int = 0
    copied_end: int | None = None
    proven_end: int | None = None
    records: int = 0
    size_bytes: int = 0
    copied_records: int | None = None
    flags_replaced: int = 0
    lag_s: float | None = None
    waiting_records: int = -1
    waiting_s: float | None = None
    is_waiting_anew: bool = False
    records_per_s: float | None = None
    problem: Problem | None = None
    gaps: tuple[Gap, ...] = ()
    state_age_s: float = 0.0
    source_age_s: float = 0.0
    target_age_s: float = 0.0

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

    @property
    def lag_records(self) -> int:
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

    def as_dict(self) -> PartitionStatusJson:
        """Plain values under stable names; what is unknown is null."""
        place: MapPlaceJson = {}
        if self.copied_end is not None:
            place = {
                "copied_end": _none_if_negative(self.copied_end),
                "copied_records": self.copied_records,
                "copy_flags_replaced": self.flags_replaced,
            }
        return {
            "topic": self.topic,
            "partition": self.partition,
            "state": str(self.state),
            "state_age_seconds": round(self.state_age_s, 1),
            "source_end": _none_if_negative(self.source_end),
            "source_end_age_seconds": _age(self.source_end, self.source_age_s),
            "target_end": _none_if_negative(self.target_end),
            "target_end_age_seconds": _age(self.target_end, self.target_age_s),
            **place,
            "lag_records": _none_if_negative(self.lag_records),
            "lag_seconds": None if self.lag_s is None else round(self.lag_s, 3),
            "waiting_records": _none_if_negative(self.waiting_records),
            "waiting_seconds": _round(self.waiting_s),
            "records_per_second": _round(self.records_per_s),
            "gaps": [{"offset_begin": gap.offset_begin, "offset_end": gap.offset_end} for gap in self.gaps],
            "problem": plain(self.problem),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """One topic: `topic` at the target, made of `source_topic`; `name` is the users' name of it, "" for the same.
    `upstream` are the clusters by which it came, the nearest first, if names show that. `parted` is the operator who
    made it continue with mapped offsets since both sides had diverged.

    Its state and problem are those of the partition that needs most attention.
    """

    topic: TargetTopic
    source_topic: SourceTopic
    state: LaneState
    partitions: tuple[PartitionProgress, ...] = ()
    problem: Problem | None = None
    state_age_s: float = 0.0
    name: str = ""
    upstream: tuple[str, ...] = ()
    parted: Parted | None = None

    @property
    def lag_records(self) -> int:
        """Offsets still to copy in all partitions, -1 while any is unknown."""
        lags = [partition.lag_records for partition in self.partitions]
        return -1 if not lags or min(lags) < 0 else sum(lags)

    @property
    def lag_records_min(self) -> int:
        """Offsets still to copy as far as they are known."""
        return sum(max(partition.lag_records, 0) for partition in self.partitions)

    @property
    def lag_s(self) -> float | None:
        """The age (s) of the oldest record to copy, `None` while that of any partition is unknown."""
        return _oldest(partition.lag_s for partition in self.partitions)

    @property
    def waiting_records(self) -> int:
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

    @property
    def is_unfinished(self) -> bool:
        """Whether something prevents copying some of it; a pause, or that no run works on it, does not count."""
        return not self.state.is_calm or self.problem is not None or any(p.is_unfinished for p in self.partitions)

    @property
    def age_s(self) -> float:
        """How long ago (s) the oldest known fact about it was seen."""
        return max(self.state_age_s, *(partition.age_s for partition in self.partitions), 0.0)

    def as_dict(self) -> TopicStatusJson:
        """Plain values under stable names; what is unknown is null."""
        rates = [p.records_per_s for p in self.partitions if p.records_per_s is not None]
        return {
            "topic": self.topic,
            "source_topic": self.source_topic,
            "name": self.name or self.source_topic,
            "hops": len(self.upstream) or None,
            "upstream_clusters": list(self.upstream),
            "offsets": "mapped" if self.is_mapped else "same",
            "parted": None if self.parted is None else self.parted.as_dict(),
            "state": str(self.state),
            "source_end": _total(p.source_end for p in self.partitions),
            "target_end": _total(p.target_end for p in self.partitions),
            "lag_records": _none_if_negative(self.lag_records),
            "lag_records_min": self.lag_records_min,
            "lag_seconds": None if self.lag_s is None else round(self.lag_s, 3),
            "waiting_records": _none_if_negative(self.waiting_records),
            "records_per_second": _round(sum(rates)) if rates else None,
            "age_seconds": round(self.age_s, 1),
            "problem": plain(self.problem),
            "partitions": plain(self.partitions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """One consumer group that the link carries, and its state at the target `age_s` seconds ago.

    `behind_records` is how far its positions there are behind those at the source, `None` if that is not examined.
    """

    group: str
    standing: str
    age_s: float = 0.0
    behind_records: int | None = None
    problem: Problem | None = None

    def as_dict(self) -> GroupStatusJson:
        """Plain values under stable names."""
        return {
            "group": self.group,
            "standing": self.standing,
            "age_seconds": round(self.age_s, 1),
            "problem": plain(self.problem),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerProgress:
    """The controller of a link: `age_s` is how long ago (s) it was heard last, `None` for never or unknown.

    `described` names the process in words, "" if it is unknown.
    """

    state: ControllerState = ControllerState.ALIVE
    age_s: float | None = 0.0
    host: str = ""
    pid: int = 0
    started_ms: int = -1
    version: str = ""
    described: str = ""

    def as_dict(self) -> ControllerStatusJson:
        """Plain values under stable names; what is unknown is null."""
        return {
            "state": str(self.state),
            "heard_seconds_ago": _round(self.age_s),
            "host": self.host or None,
            "pid": self.pid or None,
            "started": written_instant(self.started_ms) if self.started_ms >= 0 else None,
            "version": self.version or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProgress:
    """One link. `records` and `size_bytes` are what the present run has copied, `latency` (a histogram as in
    `model.latency`) how long that took, and `leases` the totals of its leases.

    `aborted` is the treatment of records of aborted transactions, `None` while unknown. `transactions` are those that
    are open at the source and that block records, as far as its brokers report them. `namespaces` are the pairs of
    namespaces of a declared link, `reserved` those of the target that are reserved, by what keeps others out, and
    `pauses` those of operators. `sync` is the state of a synchronous link. Expired rules still keep readers out of
    `unread` namespaces of the target, and no run removes these rules.
    """

    link: str
    source: str
    target: str
    state: LinkState
    controller: ControllerProgress = ControllerProgress()
    topics: tuple[TopicProgress, ...] = ()
    groups: tuple[GroupProgress, ...] = ()
    loops: tuple[LoopProgress, ...] = ()
    records: int = 0
    size_bytes: int = 0
    latency: tuple[int, ...] = ()
    leases: LeaseTotals = field(default_factory=LeaseTotals)
    aborted: AbortedPolicy | None = None
    transactions: tuple[OpenTransaction, ...] = ()
    problem: Problem | None = None
    namespaces: tuple[NamespaceMap, ...] = ()
    reserved: Mapping[Namespace, KeptBy] = field(default_factory=dict)
    pauses: tuple[Pause, ...] = ()
    sync: Synchrony | None = None
    unread: tuple[Namespace, ...] = ()

    @property
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

    @property
    def lag_records(self) -> int:
        """Offsets still to copy, -1 while that of any topic is unknown, or the list of topics."""
        return self._sum(topic.lag_records for topic in self.topics)

    def _sum(self, numbers: Iterable[int]) -> int:
        found = list(numbers)
        if min(found, default=0) < 0 or (not found and self.state in (LinkState.UNAVAILABLE, LinkState.FAILED)):
            return -1
        return sum(found)

    @property
    def lag_records_min(self) -> int:
        """Offsets still to copy as far as they are known."""
        return sum(topic.lag_records_min for topic in self.topics)

    @property
    def waiting_records(self) -> int:
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

    def as_dict(self) -> LinkStatusJson:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "source": self.source,
            "target": self.target,
            "state": str(self.state),
            "pair_state": str(self.pair_state),
            "pairs": [
                {
                    "source": str(pair.source),
                    "target": str(pair.target),
                    "state": str(self.state_of(pair)),
                    "kept_by": None if pair.target not in self.reserved else str(self.reserved[pair.target]),
                    "bypass": None if pair.target not in self.reserved else self.reserved[pair.target].bypass,
                }
                for pair in self.namespaces
            ],
            "sync": None if self.sync is None else self.sync.as_dict(),
            "unread": [str(each) for each in self.unread],
            "controller": self.controller.as_dict(),
            "lag_records": _none_if_negative(self.lag_records),
            "lag_records_min": self.lag_records_min,
            "topics_in_trouble": sum(self.trouble.values()),
            "waiting_records": _none_if_negative(self.waiting_records),
            "transactions": plain(self.transactions),
            "aborted": None if self.aborted is None else str(self.aborted),
            "problem": plain(self.problem),
            "pauses": plain(self.pauses),
            "topics": plain(self.topics),
            "groups": plain(self.groups),
            "loops": plain(self.loops),
        }


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


def _none_if_negative(number: int) -> int | None:
    return None if number < 0 else number


def _total(numbers: Iterable[int]) -> int | None:
    found = list(numbers)
    return None if not found or min(found) < 0 else sum(found)


def _oldest(ages_s: Iterable[float | None]) -> float | None:
    found = list(ages_s)
    known = [age_s for age_s in found if age_s is not None]
    return max(known) if known and len(known) == len(found) else None


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
