"""Survey both clusters before a comparison, and again during it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from isthmus.kafka import codes
from isthmus.kafka.admin.configs import find_compacted
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import list_offsets
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.log.slices import slices
from isthmus.kafka.metadata import Metadata
from isthmus.ledger.maps import LaneMap
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_topic
from isthmus.model.naming import LEDGER_TOPIC, SourceTopic, SourceTopicPartition, TargetTopic, TopicT
from isthmus.model.text.wording import format_count
from isthmus.spark.compare.links.extent import (
    ComparedRange,
    ComparedSlice,
    compared_slices,
    extent_of,
)
from isthmus.spark.compare.links.generations import (
    AS_THEY_ARE,
    LinkTransforms,
    cut_by_transform,
    transform_spans,
)
from isthmus.spark.compare.links.mapping import LinkMapping, read_maps

_NO_OFFSET: Final = -1
_NO_LOG: Final = LogRange(0, 0, 0)
_NOTHING: Final = OffsetRange("", 0, 0, 0)


class ComparisonBounds(NamedTuple):
    """The bounds of a comparison: times in ms since the epoch, and whether the target may lag behind."""

    since_ms: int | None = None
    until_ms: int | None = None
    allow_lag: bool = False


@dataclass(frozen=True, slots=True)
class ComparisonSurvey:
    """The slices and extents to compare. `problems` are sentences about whole topics, by the source topic's name, and
    `unknown` why topics cannot be compared at all.
    """

    slices: tuple[ComparedSlice, ...]
    extents: tuple[ComparedRange, ...]
    problems: Mapping[str, str]
    unknown: Mapping[SourceTopic, str] = field(default_factory=dict)


async def survey(
    source: Client,
    target: Client,
    topics: Mapping[SourceTopic, TargetTopic],
    bounds: ComparisonBounds,
    link: str | None,
    transforms: LinkTransforms,
) -> ComparisonSurvey:
    """Decide what to compare. `topics` maps source topics to target topics, `link` has the maps of those mapped, and
    `transforms` those of records that are changed.

    The source's last stable offsets are read before the maps, and these before the target's, so that records written
    meanwhile are no difference.

    :raises ClusterError: A source topic does not exist, or a log or the ledger cannot be read.
    """
    at_source = await source.metadata(sorted(topics))
    at_target = await target.metadata(sorted(topics.values()))
    _check(at_source, source.cluster.alias)
    _check(at_target, target.cluster.alias, may_be_missing=True)
    source_logs = await _logs(source, _partitions(at_source, topics))
    since = await _offsets_at(source, at_source, source_logs, bounds.since_ms)
    until = await _offsets_at(source, at_source, source_logs, bounds.until_ms)
    maps = await read_maps(target, link)
    lanes = maps.lanes_of(topics, source_logs, transforms.current)
    target_logs, foreign = await _target_logs(target, at_target, topics, lanes)
    ahead = {key for key, log in source_logs.items() if target_logs.get(key, _NO_LOG).stable_end > log.stable_end}
    # The source may have the newer records of the target by now: compare them as far as both have them.
    newer = await _logs(source, ahead)
    reader = LogReader(source)
    extents: list[ComparedRange] = []
    for s, p in sorted(source_logs.keys() | target_logs.keys()):
        log = newer.get((s, p), source_logs.get((s, p)))
        found = extent_of(
            (s, topics[s], p),
            log.up_to(target_logs[s, p].stable_end) if log is not None and (s, p) in newer else log,
            target_logs.get((s, p)),
            since=max(since.get((s, p), 0), maps.begins.get((topics[s], p), 0)),
            until=until.get((s, p)),
            allow_lag=bounds.allow_lag,
            lane=lanes.get((s, p)),
        )
        written, current = maps.transforms.get((topics[s], p), ()), transforms.current.get(s, AS_THEY_ARE)
        if found.lane is not None and (written or current):
            spans = transform_spans(written, found.lane.cursor.source_offset, current)
            found = replace(found, transforms=spans)
        found = replace(found, foreign=foreign.get((s, p), 0))
        extents.append(await _align(reader, found, 0 if log is None else log.stable_end))
    cut = await slices(reader, [extent.source for extent in extents])
    parts = [part for extent, found in zip(extents, cut, strict=True) for part in compared_slices(extent, found)]
    parts = [each for part in parts for each in cut_by_transform(part)]
    problems = _problems(at_source, at_target, topics, target.cluster.alias, maps)
    reason = (
        f"which records belong together is in {LEDGER_TOPIC} of {target.cluster.alias}, without the right to READ it"
    )
    unknown = {topic: reason for topic in transforms.current if maps.is_unread}
    return ComparisonSurvey(tuple(parts), tuple(extents), problems, unknown)


async def _target_logs(
    target: Client,
    at_target: Metadata,
    topics: Mapping[SourceTopic, TargetTopic],
    lanes: Mapping[SourceTopicPartition, LaneMap],
) -> tuple[dict[SourceTopicPartition, LogRange], dict[SourceTopicPartition, int]]:
    """Return the logs of the target by the partitions of the source, mapped ones in source offsets, and the number of
    foreign offsets in mapped ones.
    """
    names = {target_topic: source_topic for source_topic, target_topic in topics.items()}
    mapped = {topic for topic, _ in lanes}
    found: dict[SourceTopicPartition, LogRange] = {}
    foreign: dict[SourceTopicPartition, int] = {}
    for (target_topic, partition), log in (await _logs(target, _partitions(at_target, names))).items():
        key = names[target_topic], partition
        if key in lanes:
            found[key], foreign[key] = lanes[key].seen_by_source(log), lanes[key].foreign(log)
        elif key[0] not in mapped:
            found[key] = log
    return found, foreign


async def log_starts(source: Client, target: Client, extents: Collection[ComparedRange]) -> dict[ComparedRange, int]:
    """Return from which offset on both logs currently hold these partitions, as retention may have gone on.

    :raises ClusterError: A cluster does not answer.
    """
    at_source = await _logs(source, {extent.source.key for extent in extents})
    # A target of which nothing is mapped may not be there yet.
    copied = [each for each in extents if each.lane is None or each.lane.offsets.ranges]
    at_target = await _logs(target, {(each.target_topic, each.partition) for each in copied})

    def start(extent: ComparedRange) -> int:
        log = at_target.get((extent.target_topic, extent.partition), _NO_LOG)
        there = log if extent.lane is None else extent.lane.seen_by_source(log)
        return max(at_source.get(extent.source.key, _NO_LOG).start, there.start)

    return {extent: start(extent) for extent in extents}


async def compacted_topics(source: Client, target: Client, extents: Collection[ComparedRange]) -> set[str]:
    """Find the source topics that a log cleaner works on, on either side. Without DESCRIBE_CONFIGS none is known."""
    at_source = await find_compacted(source, {extent.source_topic for extent in extents})
    at_target = await find_compacted(target, {extent.target_topic for extent in extents})
    return {e.source_topic for e in extents if e.source_topic in at_source or e.target_topic in at_target}


async def source_compacted(source: Client, _target: Client, extents: Collection[ComparedRange]) -> set[str]:
    """Find the source topics that a log cleaner works on at the source. Without DESCRIBE_CONFIGS none is known."""
    return {*await find_compacted(source, {extent.source_topic for extent in extents})}


async def whole_logs(source: Client, target: Client, extents: Sequence[ComparedRange]) -> list[ComparedSlice]:
    """Return all that both logs currently hold of these partitions, in slices that are read on one side each.

    :raises ClusterError: A log cannot be read.
    """
    found: list[ComparedSlice] = []
    for client, keys in ((source, [e.source.key for e in extents]), (target, [e.target.key for e in extents])):
        logs = await _logs(client, set(keys))
        whole = [OffsetRange(*key, logs[key].start, logs[key].stable_end) for key in keys]
        cut = await slices(LogReader(client), whole)
        for extent, parts in zip(extents, cut, strict=True):
            for part in parts:
                spans = (part.span, _NOTHING) if client is source else (_NOTHING, part.span)
                found.append(ComparedSlice(extent, *spans, part.size_bytes))
    return found


async def _logs(client: Client, keys: Collection[tuple[TopicT, int]]) -> dict[tuple[TopicT, int], LogRange]:
    outcomes = await log_ranges(client, keys)
    for error in outcomes.errors.values():
        raise error
    return dict(outcomes.values)


async def _offsets_at(
    client: Client, metadata: Metadata, logs: Mapping[tuple[TopicT, int], LogRange], timestamp_ms: int | None
) -> dict[tuple[TopicT, int], int]:
    """Look up the first offsets with this timestamp or a later one; without one, the ends of the logs."""
    if timestamp_ms is None:
        return {}
    epochs: dict[int, dict[tuple[TopicT, int], int]] = defaultdict(dict)
    for name in dict.fromkeys(topic for topic, _ in logs):
        for p in metadata.topics[name].partitions:
            epochs[p.leader][(name, p.partition)] = p.leader_epoch
    offsets: dict[tuple[TopicT, int], int] = {}
    for leader, partitions in epochs.items():
        for key, found in (await list_offsets(await client.connection(leader), partitions, timestamp_ms)).items():
            what = f"looking up {timestamp_ms} ms in {key[0]}-{key[1]}"
            codes.raise_for_code(found.error_code, what, on_topic("DESCRIBE", key[0]), cluster=client.cluster.alias)
            offsets[key] = logs[key].end if found.offset == _NO_OFFSET else found.offset
    return offsets


async def _align(reader: LogReader, extent: ComparedRange, stable_end: int) -> ComparedRange:
    """Align the end of an extent with the end of a batch of the source, so that whole batches can be counted."""
    if extent.offset_end >= stable_end or extent.offset_begin == extent.offset_end:
        return extent
    batch = await reader.first_batch(extent.source._replace(offset_begin=extent.offset_end, offset_end=stable_end))
    if batch is None or batch.base_offset >= extent.offset_end:
        return extent
    end = max(batch.base_offset, extent.offset_begin)
    return replace(
        extent,
        offset_end=end,
        target_end=min(extent.target_end, end),
        lag=extent.lag + extent.offset_end - end if extent.lag else 0,
    )


def _partitions(metadata: Metadata, names: Iterable[TopicT]) -> set[tuple[TopicT, int]]:
    return {(name, p.partition) for name in names if name in metadata.topics for p in metadata.topics[name].partitions}


def _check(metadata: Metadata, alias: str, *, may_be_missing: bool = False) -> None:
    for name, topic in metadata.topics.items():
        if not (may_be_missing and topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION):
            codes.raise_for_code(topic.error_code, f"reading topic {name}", on_topic("DESCRIBE", name), cluster=alias)


def _problems(
    at_source: Metadata, at_target: Metadata, topics: Mapping[SourceTopic, TargetTopic], alias: str, maps: LinkMapping
) -> dict[str, str]:
    problems: dict[str, str] = {}
    for source_topic, target_topic in topics.items():
        expected, count = _partition_count(at_source, source_topic), _partition_count(at_target, target_topic)
        if not count:
            problems[source_topic] = f"{alias} has no topic {target_topic}"
        elif target_topic in maps.broken:
            problems[source_topic] = maps.broken[target_topic]
        elif count < expected or (count != expected and target_topic not in maps.topics):
            problems[source_topic] = (
                f"{alias} has {format_count(count, 'partition')} of {target_topic} where there should be {expected:,}"
            )
    return problems


def _partition_count(metadata: Metadata, topic: str) -> int:
    return len(metadata.topics[topic].partitions) if topic in metadata.topics else 0
