"""From a history and two clusters to a verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from soak.content import record_id
from soak.history import Event
from soak.judge.causes import i16_gap_honesty, i17_incarnation
from soak.judge.claims import i9_stored_map, i12_ledger_soundness
from soak.judge.dump import Replica, i10_replicas_agree
from soak.judge.evidence import NO_LOG, Case, Lane, PartitionKey, Violation, paired
from soak.judge.health import i20_no_secret_leak, i21_no_bug
from soak.judge.links import i22_link_truth
from soak.judge.positions import i14_no_overshoot, i15_no_undershoot
from soak.judge.progress import (
    i7_no_early_read,
    i8_no_torn_view,
    i8_torn_views,
    i10_prefix_stability,
    i21_liveness,
    i25_independence,
)
from soak.judge.reading import Ruler, read_documents, read_logs, topic_ids
from soak.judge.records import RECORD_INVARIANTS
from soak.judge.settings import Shapes, i19_convergence
from soak.judge.states import i22_monitoring_truth
from soak.judge.stored import LEDGER, StoredMap, TopicIds, stored_maps
from soak.judge.timeline import Sufferings, Timeline
from soak.naming import Names

NOT_APPLIED: Final = {
    "I11": "what a mirror has read is not to be seen from outside; what it skips or reads twice breaks I1, I3 and I9",
    "I12": "with the same offsets the only claim is the end of the target's log, which I1 and I9 hold it to",
    "I13": "writers carry one producer id and one epoch; two of them at once break I3, I4 or I9",
}
"""Invariants that no function stands for, and why."""


def collect(
    source_servers: str,
    target_servers: str,
    target_names: Names,
    events: Sequence[Event],
    *,
    keeps_offsets: bool,
    is_mapped: bool,
    may_lack_aborted: bool,
    is_whole: bool,
    compacted: frozenset[str],
    link: str,
) -> tuple[Lane, ...]:
    """Read both sides, whole. `is_mapped`: every record is claimed to be at the target once, in order, and `link` keeps
    a map of that in the target's ledger. If it `is_whole`, transactions are copied as such, but into compacted topics.

    :raises KafkaException: A cluster does not answer.
    """
    source = read_logs(source_servers, Ruler(source_servers).partitions())
    target = read_logs(target_servers, Ruler(target_servers, target_names).partitions(), target_names)
    acked, gaps, sufferings = _acked(events), _gaps(events), Sufferings(events)
    issued, foreign = _issued(events, "sent", "stranger"), _issued(events, "stranger")
    stored = _stored(source_servers, target_servers, target_names, link) if is_mapped else {}
    return tuple(
        Lane(
            topic=key[0],
            partition=key[1],
            source=here,
            target=there,
            keeps_offsets=keeps_offsets,
            may_lack_aborted=may_lack_aborted,
            is_whole=is_whole and key[0] not in compacted,
            is_compacted=key[0] in compacted,
            gaps=gaps.get(key, ()),
            suffered=sufferings.of(key[0]),
            acked=acked[key],
            issued=frozenset(issued[key]),
            foreign=frozenset(foreign[key]),
            pairing=paired(here, there, acked[key], is_compacted=key[0] in compacted) if is_mapped else None,
            stored=stored.get(key),
        )
        for key in sorted(source.keys() | target.keys())
        for here, there in [(source.get(key, NO_LOG), target.get(key, NO_LOG))]
    )


def _stored(source: str, target: str, target_names: Names, link: str) -> dict[PartitionKey, StoredMap]:
    here, there = topic_ids(source), topic_ids(target, target_names)
    ids = {topic: TopicIds(here[topic], there[topic]) for topic in here.keys() & there.keys()}
    return stored_maps(read_documents(target, LEDGER), link, target_names, ids)


def judged(
    events: Iterable[Event],
    lanes: Sequence[Lane],
    replicas: Mapping[int, Replica],
    shapes: tuple[Shapes, Shapes] = ({}, {}),
) -> tuple[Violation, ...]:
    """Everything that does not hold. `shapes` are topics at the source and at the target, of whom keeps them alike."""
    case = Case(events=tuple(events), lanes=tuple(lanes))
    return (*_violations(case, replicas), *i19_convergence(*shapes, Sufferings(case.events)))


def noted(events: Iterable[Event], lanes: Sequence[Lane]) -> tuple[str, ...]:
    """What is no violation and is to be known."""
    case = Case(events=tuple(events), lanes=tuple(lanes))
    torn = i8_torn_views(case, Timeline(case.events, case.lanes)) if case.are_told else 0
    return (f"{torn} committed transactions were seen in part at the target (I8)",) if torn else ()


def _violations(case: Case, replicas: Mapping[int, Replica]) -> Iterator[Violation]:
    timeline, sufferings = Timeline(case.events, case.lanes), Sufferings(case.events)
    for lane in case.lanes:
        for invariant in RECORD_INVARIANTS:
            yield from invariant(lane)
        if not sufferings.may_stop(lane.topic):
            yield from _complete(lane)
    yield from i7_no_early_read(case, timeline, sufferings)
    yield from i8_no_torn_view(case, timeline)
    yield from i9_stored_map(case, sufferings)
    yield from i10_prefix_stability(case, timeline, sufferings)
    yield from i10_replicas_agree(replicas, case.lanes)
    yield from i12_ledger_soundness(case, sufferings)
    yield from i14_no_overshoot(case)
    yield from i15_no_undershoot(case)
    yield from i16_gap_honesty(case, sufferings)
    yield from i17_incarnation(case, sufferings)
    yield from i20_no_secret_leak(case)
    yield from i21_liveness(case, timeline, sufferings)
    yield from i21_no_bug(case)
    yield from i22_monitoring_truth(case, timeline, sufferings)
    yield from i22_link_truth(case)
    yield from i25_independence(case, timeline, sufferings)


def _complete(lane: Lane) -> Iterator[Violation]:
    """When nobody writes any more the target ends where the source does."""
    if lane.is_told and lane.end < lane.source.stable:
        ends = f"the target ends at {lane.end}, the source at {lane.source.stable}, when all was quiet"
        yield Violation(invariant="I21 liveness", where=lane.name, message=ends)


def _acked(events: Iterable[Event]) -> dict[PartitionKey, dict[int, str]]:
    """The id that producers were told stands at an offset."""
    found: dict[PartitionKey, dict[int, str]] = defaultdict(dict)
    for event in events:
        if event["kind"] != "sent":
            continue
        for partition, number, offset, count in event["acked"]:
            standing = found[event["topic"], partition]
            for step in range(count):
                standing[offset + step] = record_id(event["writer"], partition, number + step)
    return found


def _issued(events: Iterable[Event], *kinds: str) -> dict[PartitionKey, set[str]]:
    """The ids of all records that were sent, as events of these kinds tell, as far as anybody heard of them again."""
    found: dict[PartitionKey, set[str]] = defaultdict(set)
    for event in events:
        if event["kind"] in kinds:
            for partition, number, _, count in event["acked"]:
                ids = (record_id(event["writer"], partition, number + step) for step in range(count))
                found[event["topic"], partition].update(ids)
            for partition, number, _ in event["failed"]:
                found[event["topic"], partition].add(record_id(event["writer"], partition, number))
    return found


def _gaps(events: Iterable[Event]) -> dict[PartitionKey, tuple[tuple[int, int], ...]]:
    """The gaps that the mirror has told of."""
    found: dict[PartitionKey, set[tuple[int, int]]] = defaultdict(set)
    for event in events:
        if event["kind"] == "status":
            for row in event["partitions"]:
                found[row["topic"], row["partition"]] |= {(begin, end) for begin, end in row["gaps"]}
    return {key: tuple(sorted(each)) for key, each in found.items()}
