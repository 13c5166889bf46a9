"""What is left where a follower follows no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from isthmus.model.lane import LaneState
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.plain import plain
from isthmus.model.transactions import OpenTransaction
from isthmus.model.wording import counted, first_few

Verb = Literal["promote", "failover", "detach", "reverse"]


class TornTransaction(NamedTuple):
    """A committed transaction of the source of which the end is missing; its id is "" where nobody could tell it."""

    producer_id: int
    transactional_id: str = ""

    def __str__(self) -> str:
        return self.transactional_id or f"producer {self.producer_id}"


class LeftPartitionJson(TypedDict):
    """A partition that follows no more; what is unknown is null."""

    topic: str
    partition: int | None
    source_topic: str
    state: Annotated[str, LaneState] | None
    target_end: int | None
    source_end: int | None
    source_end_age_seconds: float | None
    missing_records: int | None
    ends_within: list[Annotated[dict[str, Any], TornTransaction]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftPartition:
    """A partition as it is left. `source_end` is the end of the source's log, seen `source_age_s` seconds ago.

    `state` is that of a lane that waits for an operator. What is before `copied_end` at the target, and not there from
    before the link began, came by it; with mapped offsets records of others may lie between. Offsets and
    `missing_records` are -1 where they are not known, and so is `partition` where nothing is known of a whole topic.
    `ends_within` are committed transactions that have begun there, and of which the end is missing: `None` if unknown.
    """

    topic: TargetTopic
    partition: int
    source_topic: SourceTopic
    state: LaneState | None = None
    is_mapped: bool = False
    target_begin: int = -1
    target_end: int = -1
    copied_end: int = -1
    source_end: int = -1
    source_age_s: float | None = None
    missing_records: int = -1
    ends_within: tuple[TornTransaction, ...] | None = None

    def as_dict(self) -> LeftPartitionJson:
        """Plain values under stable names; what is unknown is null."""
        return {
            "topic": self.topic,
            "partition": _known(self.partition),
            "source_topic": self.source_topic,
            "state": None if self.state is None else str(self.state),
            "target_end": _known(self.target_end),
            "source_end": _known(self.source_end),
            "source_end_age_seconds": None if self.source_age_s is None else round(self.source_age_s, 1),
            "missing_records": _known(self.missing_records),
            "ends_within": plain(self.ends_within),
        }


class PromotionJson(TypedDict):
    """What became of namespaces that are to be written to, or are to follow no more."""

    link: str
    verb: Verb
    namespaces: list[str]
    done: bool
    missing_records: int | None
    missing_records_min: int
    missing_seconds: float | None
    topics_seen_seconds_ago: float | None
    source_answers: bool
    groups: dict[str, str]
    aborted: list[Annotated[dict[str, Any], OpenTransaction]]
    partitions: list[LeftPartitionJson]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What became of namespaces that follow no more; `is_done` says that the verb has come to its end:
    after promote and failover they can be written to, and transactions that were open there are `aborted`.

    `topics_age_s` is how long ago (s) it was seen which topics the source has, `None` for never: then there may be any
    number beside the `partitions`. `answering` is the source's alias where it answered just now, "" where it did not.
    """

    link: str
    verb: Verb
    namespaces: tuple[NamespaceMap, ...]
    partitions: tuple[LeftPartition, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    aborted: tuple[OpenTransaction, ...] = ()
    is_done: bool = False
    topics_age_s: float | None = 0.0
    answering: str = ""

    @property
    def missing_records(self) -> int | None:
        """How many records of the source may be missing here, of those it had when it was last heard (`missing_s`
        ago): no more than that. `None` where nobody can tell.
        """
        return None if self.unknown else self.missing_records_min

    @property
    def missing_records_min(self) -> int:
        """How many records may be missing of the partitions of which that is known."""
        return sum(max(each.missing_records, 0) for each in self.partitions)

    @property
    def unknown(self) -> str:
        """Of what it is not known how much is missing, in words; "" where that is known of everything."""
        if self.topics_age_s is None:
            return "its topics"
        found = [each.partition < 0 for each in self.partitions if each.missing_records < 0]
        topics, partitions = sum(found), len(found) - sum(found)
        counts = [(topics, "whole topic"), (partitions, "partition")]
        return " and ".join(counted(count, what) for count, what in counts if count)

    @property
    def ended(self) -> str:
        """How many partitions wait for an operator, in words; "" for none."""
        counts = Counter(each.state for each in self.partitions if each.state is not None)
        return ", ".join(f"{counted(count, 'partition')} {state}" for state, count in sorted(counts.items()))

    @property
    def missing_s(self) -> float | None:
        """For how long (s) the source may have been written to since it was last heard; `None` where it never was."""
        ages = [each.source_age_s for each in self.partitions if each.source_age_s is not None]
        return max(ages, default=None)

    @property
    def missing_in_words(self) -> str:
        """What may be missing here, and what is not known of it, in one sentence."""
        known = counted(self.missing_records_min, "record")
        told = f"{known} of the source may be missing"
        if self.unknown:
            told = f"it is not known how many records of the source are missing: nothing is known of {self.unknown}"
            told += f", beside {known}" if self.partitions else ""
        if self.missing_s:
            told += f"; what was written there in the last {self.missing_s:,.0f} s is not counted"
        if (self.topics_age_s or 0.0) > (self.missing_s or 0.0):
            told += f"; topics made there in the last {self.topics_age_s:,.0f} s are not counted"
        if self.ended:
            told += f"; {self.ended}, which may hold what the source does not have"
        told += self._torn_in_words
        if self.answering:
            told += f"; {self.answering} answers: promote or reverse in place of this loses nothing"
        return told

    @property
    def _torn_in_words(self) -> str:
        """Which partitions end within a committed transaction of the source, as far as that is known."""
        torn = [each for each in self.partitions if each.ends_within]
        unknown = sum(each.ends_within is None for each in self.partitions)
        told = ""
        if torn:
            named = first_few(f"{each.topic}-{each.partition} ({torn_in_words(each.ends_within)})" for each in torn)
            told = f"; the end of a committed transaction is missing in {named}"
        if unknown:
            told += f"; whether a committed transaction is cut is not known of {counted(unknown, 'partition')}"
        return told

    def as_dict(self) -> PromotionJson:
        """Plain values under stable names."""
        return {
            "link": self.link,
            "verb": self.verb,
            "namespaces": [str(each) for each in self.namespaces],
            "done": self.is_done,
            "missing_records": self.missing_records,
            "missing_records_min": self.missing_records_min,
            "missing_seconds": None if self.missing_s is None else round(self.missing_s, 1),
            "topics_seen_seconds_ago": None if self.topics_age_s is None else round(self.topics_age_s, 1),
            "source_answers": bool(self.answering),
            "groups": dict(self.groups),
            "aborted": plain(self.aborted),
            "partitions": plain(self.partitions),
        }


def torn_in_words(found: tuple[TornTransaction, ...] | None) -> str:
    """The transactions that a partition ends within, for people; "" for none."""
    return "unknown" if found is None else ", ".join(map(str, found))


def _known(number: int) -> int | None:
    return None if number < 0 else number
