"""What a link leaves behind: how far each partition came, whether a task still writes, and where it all came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isthmus.cluster.offsets import log_ranges
from isthmus.cluster.topics import selected_topics
from isthmus.control.links.host import operator
from isthmus.control.links.memory import LinkMemory, now_ms, recollect
from isthmus.errors import ConfigError
from isthmus.ledger.documents import Document, LeaseDocument, LinkDocument, ProvenanceDocument, TopicDocument
from isthmus.ledger.handover import has_ended
from isthmus.ledger.maps import lane_maps
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.promotion import LeftPartition, Promotion
from isthmus.model.topic import LeftInTier
from isthmus.wire.client import Client
from isthmus.wire.metadata import NO_TOPIC_ID
from isthmus.wire.offsets import PartitionKey


async def source_logs(link: Link, source: Client) -> dict[PartitionKey, LogRange]:
    """The logs of all partitions at the source that the link selects and has a name for.

    :raises ClusterError: One of them cannot be told.
    """
    metadata = await selected_topics(source, link.topics)
    keys = [
        (name, each.partition)
        for name in sorted(link.topics.named(metadata.topics).sources.values())
        for each in metadata.topics[name].partitions
    ]
    found = await log_ranges(source, keys)
    for error in found.errors.values():
        raise error
    return dict(found.values)


async def left_partitions(
    link: Link, target: Client, here: Mapping[PartitionKey, LogRange] | None
) -> tuple[LeftPartition, ...]:
    """All partitions at the target as they are now, beside the source's logs, or beside what was last heard of them."""
    known = await recollect(link.name, target)
    metadata = await target.metadata(None)
    lanes: dict[LaneKey, SourceTopic] = {}
    for name in metadata.topics:
        topic = TargetTopic(name)
        source_topic = link.topics.source_of(topic)
        if source_topic is not None and topic in known.topics:
            for each in metadata.topics[name].partitions:
                lanes[LaneKey(topic, each.partition)] = source_topic
    if here is not None:
        for source_name, partition in here:
            topic_there = link.topics.target_of(SourceTopic(source_name))
            if topic_there is not None:
                lanes.setdefault(LaneKey(topic_there, partition), SourceTopic(source_name))
    ranges = (await log_ranges(target, [key for key in lanes if key.topic in metadata.topics])).values
    return tuple(_left_partition(known, key, lanes[key], ranges.get(key), here) for key in sorted(lanes))


def _left_partition(
    known: LinkMemory,
    key: LaneKey,
    source_topic: SourceTopic,
    there: LogRange | None,
    here: Mapping[PartitionKey, LogRange] | None,
) -> LeftPartition:
    document = known.topics.get(key.topic)
    is_mapped = document is not None and document.is_mapped
    report = known.last_known.get(key)
    source_end, age_s = -1, None
    log = None if here is None else here.get((source_topic, key.partition))
    if log is not None:
        source_end, age_s = log.end, 0.0
    elif report is not None:
        source_end, age_s = report.source_end, known.source_age_s(key, now_ms())
    target_end = -1 if there is None else there.end
    copied = (-1 if report is None else report.position) if is_mapped else target_end
    start = 0 if log is None else log.start
    missing = -1 if source_end < 0 else max(source_end - max(copied, start), 0)
    return LeftPartition(
        topic=key.topic,
        partition=key.partition,
        source_topic=source_topic,
        is_mapped=is_mapped,
        target_begin=-1 if there is None else there.start,
        target_end=target_end,
        source_end=source_end,
        source_age_s=age_s,
        missing_records=missing,
    )


def is_writing(known: LinkMemory, is_meant: Callable[[TargetTopic], bool]) -> bool:
    """Whether a task of the link may still write to one of these topics."""
    return bool(writing_lanes(known, is_meant))


def writing_lanes(known: LinkMemory, is_meant: Callable[[TargetTopic], bool]) -> frozenset[LaneKey]:
    """The lanes into these topics that a task of the link may still write."""
    leases = (each for each in known.documents.values() if isinstance(each, LeaseDocument))
    return frozenset(
        lane.key
        for lease in leases
        if not has_ended(lease, known.documents)
        for lane in lease.lanes
        if is_meant(lane.key.topic)
    )


def provenance(found: Promotion, known: LinkMemory) -> list[ProvenanceDocument]:
    """Where the records of all partitions came from."""
    sources = (each.source_cluster_id for each in known.documents.values() if isinstance(each, LinkDocument))
    source_cluster = next(sources, "")
    return [_provenance(found, each, source_cluster, known) for each in found.partitions]


def left_in_tier(topic: TopicDocument, documents: Mapping[str, Document]) -> tuple[LeftInTier, ...]:
    """What of a topic was left in its source's remote tier. Where mapped partitions began their maps tell."""
    if not topic.is_mapped or not topic.left:
        return topic.left
    try:
        maps = lane_maps(topic.link, documents)
    except ConfigError:
        # Which says of itself in `isthmus verify` that it cannot be true.
        return ()
    begins = {key.partition: found.begin for key, found in maps.items() if key.topic == topic.target_topic}
    return tuple(each._replace(offset_end=begins.get(each.partition, -1)) for each in topic.left)


def _provenance(found: Promotion, each: LeftPartition, source_cluster: str, known: LinkMemory) -> ProvenanceDocument:
    document = known.topics.get(each.topic)
    stretches = () if document is None else left_in_tier(document, known.documents)
    left = [one for one in stretches if one.partition == each.partition]
    return ProvenanceDocument(
        link=found.link,
        topic=each.topic,
        partition=each.partition,
        topic_id=NO_TOPIC_ID if document is None else document.target_topic_id,
        source_cluster=source_cluster,
        source_topic=each.source_topic,
        is_mapped=each.is_mapped,
        offset_begin=max(each.target_begin, 0),
        offset_end=max(each.target_end, 0),
        missing_records=each.missing_records,
        left_begin=left[0].offset_begin if left else 0,
        left_end=left[0].offset_end if left else 0,
        verb=found.verb,
        by=operator(),
        at_ms=now_ms(),
    )
