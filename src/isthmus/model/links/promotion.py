"""The result of a promotion, failover or detachment: a follower that follows no more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, NamedTuple

from isthmus.model.gateways.synchrony import (
    FirstUnheld,
    OutOfSync,
    first_unheld,
    given_up_in_words,
)
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.lane import LaneState
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import (
    Hidden,
    NumberOrNull,
    PlainValue,
    computed_field,
    instant_or_null,
    tenths,
    texts,
    thousandths,
)
from isthmus.model.text.wording import first_few, format_count

Verb = Literal["promote", "failover", "detach", "reverse"]


class TornTransaction(NamedTuple):
    """A committed transaction of the source of which the end is missing; its id is "" if it is unknown."""

    producer_id: int
    transactional_id: str = ""

    def __str__(self) -> str:
        return self.transactional_id or f"producer {self.producer_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised(PlainValue):
    """The acknowledged records that may be missing of a link that was synchronous: `partitions` is null if unknown.

    The possible losses of records that gateways acknowledged on a synchronous link, all of them at or behind the
    offsets of `lets_go`. `is_open`: a gateway may have answered records that are not proven to be here. If the source's
    ledger was not `is_heard`, this is the last state in the target's. Gateways that are `unaware` have not confirmed
    that they know of the failover, and may have answered more since it began. The losses are about answers before
    `until_ms` if that is known (not -1): then the link was detached, and later answers were not held.
    """

    out_of_sync: OutOfSync
    was_in_sync: bool
    is_open: Hidden[bool]
    is_heard: Annotated[bool, "source_asked"]
    lets_go: Hidden[tuple[FirstUnheld, ...]] = ()
    unaware: Hidden[tuple[str, ...]] = ()
    until_ms: Annotated[int, "detached", instant_or_null] = -1

    @property
    def is_known(self) -> bool:
        """Whether the known losses are all that there can be."""
        return self._is_told and self.until_ms < 0

    @property
    def _is_told(self) -> bool:
        """Whether the losses among held answers are known."""
        is_kept = self.is_heard or self.out_of_sync is OutOfSync.CONSISTENT
        return self.was_in_sync and not self.is_open and not self.unaware and is_kept

    def join(self, other: Promised) -> Promised:
        """Combine with the possible losses of other namespaces."""
        untils = [each.until_ms for each in (self, other) if each.until_ms >= 0]
        return replace(
            self,
            was_in_sync=self.was_in_sync and other.was_in_sync,
            is_open=self.is_open or other.is_open,
            is_heard=self.is_heard and other.is_heard,
            lets_go=first_unheld((*self.lets_go, *other.lets_go)),
            unaware=tuple(sorted({*self.unaware, *other.unaware})),
            until_ms=min(untils, default=-1),
        )

    @property
    def in_words(self) -> str:
        """The losses in one sentence."""
        text = f"the link was synchronous ({self.out_of_sync})"
        if self.until_ms >= 0:
            at = written_instant(self.until_ms)
            text += f" until namespaces of it were detached at {at}: answers since then were not held"
        if not self.was_in_sync:
            return f"{text}, and never in sync: nothing that was acknowledged is known to be here"
        if self.lets_go:
            text += f"; {given_up_in_words(self.lets_go)}"
        elif self._is_told:
            kept = ": 0 records that a gateway acknowledged with acks=all are missing"
            text += kept if self.until_ms < 0 else "; nothing that a gateway acknowledged before is missing"
        if self.is_open:
            return f"{text}; a gateway has not proven that all it answered before is here"
        if self.unaware:
            named = first_few(self.unaware)
            return f"{text}; what {named} answered since the failover began is not known, as it has not heard of it"
        if self.is_heard:
            return text
        if self._is_told:
            return (
                f"{text}, unless it was made asynchronous or `available` at the source since this cluster heard of it"
            )
        return (
            f"{text}; the source cannot be asked, and with `available` it may have answered without this cluster since"
        )

    @computed_field
    def partitions(self) -> tuple[FirstUnheld, ...] | None:
        return self.lets_go if self.is_known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftPartition(PlainValue):
    """A partition that follows no more; unknown values are null.

    `source_end` is the end of the source's log, seen `source_age_s` seconds ago: `None` for never, and for a time in
    the future, as the clocks differ then.

    `state` is that of a lane that waits for an operator. Records before `copied_end` at the target, except those from
    before the link began, came by it; with mapped offsets records of others may lie between. Offsets and
    `missing_records` are -1 if they are unknown, and so is `partition` if nothing is known of a whole topic.
    `ends_within` are committed transactions that have begun there, and of which the end is missing: `None` if unknown.
    """

    topic: TargetTopic
    partition: NumberOrNull
    source_topic: SourceTopic
    state: LaneState | None = None
    is_mapped: Hidden[bool] = False
    target_begin: Hidden[int] = -1
    target_end: NumberOrNull = -1
    copied_end: Hidden[int] = -1
    source_end: NumberOrNull = -1
    source_age_s: Annotated[float | None, "source_end_age_seconds", tenths] = None
    missing_records: NumberOrNull = -1
    ends_within: tuple[TornTransaction, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion(PlainValue):
    """The result for namespaces that become writable, or stop following.

    The result for namespaces that follow no more; `is_done` means that the verb is complete: after promote and failover
    they can be written to, and transactions that were open there are `aborted`, or would be by a failover that is not
    done. Those that the source has committed for sure are `committed` by a failover.

    `topics_age_s` is how long ago (s) the source's list of topics was seen, `None` for never: then there may be any
    number beside the `partitions`; it is infinite if the clocks differ. `answering` is the source's alias if it
    answered just now, "" if it did not. `notes` name topics that were still being filled, and transactions that stay
    open after a detachment.

    Clients of these `gateways` continue at the target. No request of theirs passed for `paused_s`, and transactions
    that were open at the source by then are `aborted_at_source`.
    """

    link: str
    verb: Verb
    namespaces: Annotated[tuple[NamespaceMap, ...], texts]
    is_done: Annotated[bool, "done"] = False
    acknowledged: Promised | None = None
    topics_age_s: Annotated[float | None, "topics_seen_seconds_ago", _seconds] = 0.0
    answering: Annotated[str, "source_answers", bool] = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    aborted: tuple[OpenTransaction, ...] = ()
    committed: tuple[OpenTransaction, ...] = ()
    notes: tuple[Problem, ...] = ()
    gateways: tuple[str, ...] = ()
    aborted_at_source: tuple[OpenTransaction, ...] = ()
    paused_s: Annotated[float | None, "paused_seconds", thousandths] = None
    partitions: tuple[LeftPartition, ...] = ()

    @computed_field(before="acknowledged")
    def missing_records(self) -> int | None:
        """The number of the source's records that may be missing here, of those it had when it was last heard
        (`missing_s` ago): an upper bound. `None` if unknown.
        """
        return None if self.unknown else self.missing_records_min

    @computed_field(before="acknowledged")
    def missing_records_min(self) -> int:
        """The number of records that may be missing in those partitions where it is known."""
        return sum(max(each.missing_records, 0) for each in self.partitions)

    @property
    def unknown(self) -> str:
        """The parts of which the loss is unknown, in words; "" if it is known for all."""
        if self.topics_age_s is None:
            return "its topics"
        found = [each.partition < 0 for each in self.partitions if each.missing_records < 0]
        topics, partitions = sum(found), len(found) - sum(found)
        counts = [(topics, "whole topic"), (partitions, "partition")]
        return " and ".join(format_count(count, what) for count, what in counts if count)

    @property
    def ended(self) -> str:
        """The number of partitions that wait for an operator, in words; "" for none."""
        counts = Counter(each.state for each in self.partitions if each.state is not None)
        return ", ".join(f"{format_count(count, 'partition')} {state}" for state, count in sorted(counts.items()))

    @computed_field(before="acknowledged")
    def missing_s(self) -> Annotated[float | None, "missing_seconds", tenths]:
        """The time (s) since the source was last heard, during which it may have been written to; `None` if it was
        never heard, or the time is unknown.
        """
        ages = [each.source_age_s for each in self.partitions if each.source_age_s is not None]
        return None if self._has_no_time else max(ages, default=None)

    @property
    def _has_no_time(self) -> bool:
        """Whether some state was seen at a time in the future."""
        is_of_topics = self.topics_age_s is not None and math.isinf(self.topics_age_s)
        return is_of_topics or any(each.source_age_s is None and each.source_end >= 0 for each in self.partitions)

    @property
    def missing_in_words(self) -> str:
        """Describe in one sentence the possible losses, and what is unknown about them."""
        known = format_count(self.missing_records_min, "record")
        text = f"{known} of the source may be missing"
        if self.unknown:
            text = f"it is not known how many records of the source are missing: nothing is known of {self.unknown}"
            text += f", beside {known}" if self.partitions else ""
        if self._has_no_time:
            text += "; records written there since it was last heard are not counted, and the time of that is unknown: "
            text += "the clock of this host is behind that of the link's controller"
        elif self.missing_s:
            text += f"; records written there in the last {self.missing_s:,.0f} s are not counted"
        if not self._has_no_time and (self.topics_age_s or 0.0) > (self.missing_s or 0.0):
            text += f"; topics made there in the last {self.topics_age_s:,.0f} s are not counted"
        if self.ended:
            text += f"; {self.ended}, which may hold records that the source does not have"
        text += self._torn_in_words
        if self.acknowledged is not None:
            text += f"; {self.acknowledged.in_words}"
        if self.answering:
            text += f"; {self.answering} answers"
            # Detached namespaces stay reserved, and may follow again.
            text += ": promote or reverse in place of this loses nothing" if self.verb == "failover" else ""
        return text

    @property
    def _torn_in_words(self) -> str:
        """Describe the partitions that end within a committed transaction of the source, as far as that is known."""
        torn = [each for each in self.partitions if each.ends_within]
        unknown = sum(each.ends_within is None for each in self.partitions)
        text = ""
        if torn:
            named = first_few(f"{each.topic}-{each.partition} ({torn_in_words(each.ends_within)})" for each in torn)
            text = f"; the end of a committed transaction is missing in {named}"
        if self.partitions and (self.missing_records_min or self.unknown):
            text += "; of a transaction over several partitions one may hold all, and another nothing"
        if unknown:
            text += f"; whether a committed transaction is cut is not known of {format_count(unknown, 'partition')}"
        return text


def torn_in_words(found: tuple[TornTransaction, ...] | None) -> str:
    """Describe the transactions that a partition ends within, for people; "" for none."""
    return "unknown" if found is None else ", ".join(map(str, found))


def _seconds(age_s: float | None) -> float | None:
    return None if age_s is None or math.isinf(age_s) else round(age_s, 1)


def _none_if_negative(number: int) -> int | None:
    return None if number < 0 else number
