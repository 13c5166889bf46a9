"""Decide whether and how a topic is mirrored, from what was observed, before the first byte is written.

A topic is mirrored with the same offsets (`identity`) or refused with reasons; so is each of its
partitions. Nothing here asks a cluster: the same observations give the same decision.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from isthmus.engine.outlook import UNAVAILABLE, Outlook
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import Settings, TopicDescription
from isthmus.model.lane import Gap, LaneState
from isthmus.model.links.remedies import HeldOffsets, keep_or_delete
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import EARLIEST, LATEST, Cursor
from isthmus.model.problem import Problem
from isthmus.model.text.wording import format_count

LONG_MAX: Final = 2**63 - 1
PREFIX_OFFSETS_MAX: Final = 100_000_000_000
"""Offsets to fill before the first record: 0.6 bytes each, ten million a second."""
_BATCH_BYTES_DEFAULT: Final = 1_048_588


class TopicMode(enum.StrEnum):
    """How a topic is mirrored."""

    IDENTITY = "identity"
    """Every record at its own offset."""
    MAPPED = "mapped"
    """Every committed record behind what the target holds, with a map of which went where."""
    REFUSED = "refused"
    """Not at all, for the reasons given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPair:
    """The observation of one topic on both sides; `name` is the target's, `target` is `None` where there is none.
    Ranges are by partition and lack those whose leader did not answer; the target's were read before the source's.
    `cursors` are how far mapped partitions are that were begun, `begins` where others will begin, if that was looked
    up; for partitions that keep their offsets where they began or will, if not where the source begins, and `undecided`
    are those for which that is unknown yet. `holes` are counts of `uncounted` stretches. `outlooks` are what a run will
    find of partitions, where that was looked at. From `filled_ends` on the source's records were written under the
    policy that it has now; `positions` are how far lanes report to be. `settles` are the settings that a target
    which was begun, and has not run yet, gets once it is filled.
    """

    name: TargetTopic
    source: TopicDescription
    target: TopicDescription | None
    source_ranges: Mapping[int, LogRange] = field(default_factory=dict)
    cursors: Mapping[int, Cursor] = field(default_factory=dict)
    begins: Mapping[int, int] = field(default_factory=dict)
    undecided: frozenset[int] = frozenset()
    target_ranges: Mapping[int, LogRange] = field(default_factory=dict)
    holes: Mapping[int, int] = field(default_factory=dict)
    outlooks: Mapping[int, Outlook] = field(default_factory=dict)
    filled_ends: Mapping[int, int] = field(default_factory=dict)
    positions: Mapping[int, int] = field(default_factory=dict)
    settles: Settings = ()

    @property
    def source_name(self) -> SourceTopic:
        """The name at the source."""
        return SourceTopic(self.source.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDecision:
    """One partition: what is there, how many offsets precede the first record, and any refusal.

    Offsets are -1 while unknown. `state` is what a run reports of the partition, as far as that was looked at;
    `unexamined` is why it could not be. `gap` is what will be missing at the target, if the link continues after gaps.
    A mapped partition was copied up to `copied_end`, an offset of the source, without those that were `filtered` and
    `skipped`; others up to the target's end. These begin at `begin`, if not where the source does.
    """

    partition: int
    source: LogRange | None
    target_end: int
    refusal: Problem | None = None
    state: LaneState = LaneState.ACTIVE
    unexamined: Problem | None = None
    gap: Gap | None = None
    copied_end: int | None = None
    begin: int = -1
    filtered: int = 0
    skipped: int = 0

    @property
    def first(self) -> int:
        """The first offset of the source that is copied, -1 while that is unknown."""
        return -1 if self.source is None else max(self.source.start, self.begin)

    @property
    def lag_records(self) -> int:
        """Offsets that hold records still to be copied, -1 while unknown."""
        copied_end = self.target_end if self.copied_end is None else self.copied_end
        if self.source is None or copied_end < 0:
            return -1
        return max(self.source.stable_end - max(copied_end, self.first), 0)

    @property
    def waiting_records(self) -> int:
        """Offsets at the source's end that wait for open transactions, 0 while that is unknown."""
        return 0 if self.source is None else self.source.end - self.source.stable_end

    @property
    def prefix(self) -> int:
        """Offsets without records before the first one to copy: they are filled, and deleted again except in a gap."""
        if self.source is None or self.target_end < 0 or self.copied_end is not None:
            return 0
        return max(self.first - self.target_end, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecision:
    """The decision about one topic: refused where there are `refusals`; `notes` are good to know.

    `partitions_missing` is how many the target lacks, 0 where it does not exist.
    """

    refusals: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    partitions: tuple[PartitionDecision, ...]
    partitions_missing: int
    is_compacted: bool
    is_mapped: bool = False

    @property
    def mode(self) -> TopicMode:
        if self.refusals:
            return TopicMode.REFUSED
        return TopicMode.MAPPED if self.is_mapped else TopicMode.IDENTITY

    @property
    def copies_something(self) -> bool:
        """Whether at least one partition is not refused."""
        return not self.refusals and any(p.refusal is None for p in self.partitions)


def preflight(pair: TopicPair, *, holes_max: int, cluster: Cluster) -> TopicDecision:
    """Decide about a topic; `holes_max` is the most missing offsets of a partition to be filled.

    `cluster` is the target's, for hints on what to do there.
    """
    source, target = pair.source, pair.target
    partitions = tuple(_partition(pair, partition, holes_max) for partition in range(source.partition_count))
    refusals = [] if target is None else list(_refusals(pair, target, partitions, cluster))
    notes = [*_source_notes(source), *([] if target is None else _target_notes(source, target))]
    target_count = source.partition_count if target is None else target.partition_count
    return TopicDecision(
        refusals=tuple(refusals),
        notes=tuple(notes),
        partitions=partitions,
        partitions_missing=max(source.partition_count - target_count, 0),
        is_compacted=is_compacted(source),
    )


def preflight_mapped(pair: TopicPair, *, starts: Sequence[int]) -> TopicDecision:
    """Decide about a topic whose offsets are mapped. Partitions that have not begun do so at these `starts`."""
    source, target = pair.source, pair.target
    partitions = tuple(
        PartitionDecision(
            partition=partition,
            source=pair.source_ranges.get(partition),
            target_end=target_end_of(pair, partition),
            copied_end=_copied_end(pair, partition, starts[partition]),
            **_left_out(pair.cursors.get(partition)),
            **_outlook_fields(pair.outlooks.get(partition, Outlook())),
        )
        for partition in range(source.partition_count)
    )
    notes = [*_source_notes(source), *([] if target is None else _target_notes(source, target))]
    if target is not None and target.value("compression.type") not in (None, "producer"):
        notes.append(
            Problem(
                f"the target topic has compression.type={target.value('compression.type')}, so its brokers compress "
                "every batch again",
                "Set compression.type=producer on the target topic.",
            )
        )
    target_count = source.partition_count if target is None else target.partition_count
    return TopicDecision(
        refusals=() if target is None else tuple(_lossy(source, target)),
        notes=tuple(notes),
        partitions=partitions,
        partitions_missing=max(source.partition_count - target_count, 0),
        is_compacted=is_compacted(source),
        is_mapped=True,
    )


def _outlook_fields(outlook: Outlook) -> dict[str, Any]:
    """Return fields for the outlook: a side that does not answer now is no refusal, as it may be found sound."""
    key = "unexamined" if outlook.state in UNAVAILABLE else "refusal"
    return {"state": outlook.state, key: outlook.problem, "gap": outlook.gap}


def _left_out(cursor: Cursor | None) -> dict[str, Any]:
    return {} if cursor is None else {"filtered": cursor.filtered, "skipped": cursor.skipped}


def _copied_end(pair: TopicPair, partition: int, start: int) -> int:
    """Return where a mapped partition is at the source, or will begin; -1 where that has to be looked up."""
    log = pair.source_ranges.get(partition)
    if partition in pair.cursors:
        return pair.cursors[partition].source_offset
    if start == EARLIEST:
        return 0
    return log.stable_end if start == LATEST and log is not None else pair.begins.get(partition, -1)


def find_uncounted(pair: TopicPair, *, holes_max: int) -> dict[int, tuple[int, int]]:
    """Stretches `[begin, end)` by partition in which the source's holes have to be counted.

    A log cleaned of more than `holes_max` offsets cannot be shorter than that.
    """
    if not is_compacted(pair.source):
        return {}
    stretches = {}
    for partition, log in pair.source_ranges.items():
        begin = max(log.start, target_end_of(pair, partition))
        if log.stable_end - begin > holes_max:
            stretches[partition] = (begin, log.stable_end)
    return stretches


def is_compacted(topic: TopicDescription) -> bool:
    """Whether the log cleaner works on the topic, so that offsets may be missing."""
    return "compact" in topic.cleanup_policy.split(",")


def stamps_append_time(topic: TopicDescription) -> bool:
    """Whether the broker stamps records with its own clock (LogAppendTime)."""
    return topic.value("message.timestamp.type") == "LogAppendTime"


def number(topic: TopicDescription, config: str, default: int) -> int:
    """A numeric configuration, or `default` where the broker does not know it."""
    value = topic.value(config)
    return default if value is None else int(value)


def batch_bytes_max(topic: TopicDescription) -> int:
    """Return the largest record batch that a topic accepts (`max.message.bytes`)."""
    return number(topic, "max.message.bytes", _BATCH_BYTES_DEFAULT)


def target_end_of(pair: TopicPair, partition: int) -> int:
    """Return where the target's log ends: at 0 where it is yet to be created, -1 while that is unknown."""
    log = pair.target_ranges.get(partition)
    if log is not None:
        return log.end
    is_new = pair.target is None or partition >= pair.target.partition_count
    return 0 if is_new else -1


def _partition(pair: TopicPair, partition: int, holes_max: int) -> PartitionDecision:
    log, target_end = pair.source_ranges.get(partition), target_end_of(pair, partition)
    begin = pair.begins.get(partition, -1)
    outlook = pair.outlooks.get(partition, Outlook())
    state, refusal, unexamined = outlook.state, outlook.problem, None
    if state in UNAVAILABLE:
        # The partition may be found sound: that is no refusal.
        refusal, unexamined = None, outlook.problem
    if pair.holes.get(partition, 0) > holes_max:
        state = LaneState.REFUSED
        refusal = Problem(
            f"compaction left more than {format_count(holes_max, 'offset')} without a record",
            "Raise compaction_holes_max of the link: each such offset costs a control record of 78 bytes.",
        )
    elif partition in pair.undecided:
        state = LaneState.SOURCE_UNAVAILABLE if target_end >= 0 else LaneState.TARGET_UNAVAILABLE
        refusal = Problem(
            "where it begins is not known yet (topics.remote: leave): a broker that leads it does not answer",
            "It begins when that is known.",
        )
    elif log is not None and max(log.start, begin) - target_end > PREFIX_OFFSETS_MAX:
        state = LaneState.REFUSED
        refusal = Problem(
            f"copying starts at offset {max(log.start, begin)}; filling that many would take hours",
            "Same offsets are not practical for this partition.",
        )
    return PartitionDecision(
        partition=partition,
        source=log,
        target_end=target_end,
        refusal=refusal,
        state=state,
        unexamined=unexamined,
        gap=outlook.gap if refusal is None else None,
        begin=begin,
    )


def _refusals(
    pair: TopicPair, target: TopicDescription, partitions: tuple[PartitionDecision, ...], cluster: Cluster
) -> Iterator[Problem]:
    source = pair.source
    if target.partition_count > source.partition_count:
        only_there = [*only_at_target(pair, from_partition=source.partition_count), *deleted_at_source(pair)]
        yield Problem(
            f"the target topic has {format_count(target.partition_count, 'partition')}, the source "
            f"{source.partition_count:,}",
            f"Kafka cannot take partitions away. {keep_or_delete(target.name, cluster, only_there)}",
        )
    if target.value("compression.type") not in (None, "producer"):
        yield Problem(
            f"the target topic has compression.type={target.value('compression.type')}, so its "
            "brokers would compress every batch again",
            "Set compression.type=producer on the target topic.",
        )
    yield from _lossy(source, target)
    if any(p.prefix for p in partitions) and "delete" not in target.cleanup_policy.split(","):
        yield Problem(
            "the source's log starts above offset 0, and in the target topic the offsets before "
            "cannot be filled and deleted: its cleanup.policy has no delete",
            "Set cleanup.policy=compact,delete with retention.ms=-1 and retention.bytes=-1 on the "
            f"target topic, or begin again. {keep_or_delete(target.name, cluster, deleted_at_source(pair))}",
        )


def _lossy(source: TopicDescription, target: TopicDescription) -> Iterator[Problem]:
    """Yield reasons why the target would not keep the records written to it."""
    if stamps_append_time(target):
        yield Problem(
            "the target topic has message.timestamp.type=LogAppendTime, so records would lose their timestamps",
            "Set message.timestamp.type=CreateTime on the target topic: Isthmus writes the "
            "source's timestamps, whichever kind they are.",
        )
    if is_compacted(target) and not is_compacted(source):
        yield Problem(
            "the target topic is compacted and the source is not, so the target would lose records",
            f"Set cleanup.policy={source.cleanup_policy} on the target topic, as at the source.",
        )


def only_at_target(pair: TopicPair, *, from_partition: int = 0) -> list[HeldOffsets]:
    """Return all that the target holds, from a partition on, where there is nothing to compare it with."""
    return [
        HeldOffsets(partition, log.start, log.end)
        for partition, log in sorted(pair.target_ranges.items())
        if partition >= from_partition
    ]


def deleted_at_source(pair: TopicPair) -> list[HeldOffsets]:
    """Return what the target still holds of offsets that the source has deleted."""
    return [
        HeldOffsets(partition, log.start, min(log.end, pair.source_ranges[partition].start))
        for partition, log in sorted(pair.target_ranges.items())
        if partition in pair.source_ranges
    ]


def _source_notes(source: TopicDescription) -> Iterator[Problem]:
    if stamps_append_time(source):
        yield Problem(
            "the source stamps LogAppendTime: its timestamps are written into the records, so "
            "batches are taken apart and put together again",
            "The target topic keeps message.timestamp.type=CreateTime.",
        )


def _target_notes(source: TopicDescription, target: TopicDescription) -> Iterator[Problem]:
    ours, theirs = batch_bytes_max(target), batch_bytes_max(source)
    if ours < theirs:
        yield Problem(
            f"the target takes batches of {format_count(ours, 'byte')}, the source of {theirs:,}: larger ones "
            "are split, and a single record that is larger waits",
            f"Set max.message.bytes={theirs} on the target topic.",
        )
    for config in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
        if number(target, config, LONG_MAX) < number(source, config, LONG_MAX):
            yield Problem(
                f"the target has {config}={target.value(config)}, less than the source: records "
                "with timestamps beyond are refused by its brokers",
                f"Set {config}={LONG_MAX} on the target topic.",
            )
