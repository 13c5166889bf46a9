"""From a history and two clusters to a verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from soak.content import record_id
from soak.history import Event
from soak.judge.evidence import NO_LOG, Case, Lane, PartitionKey, Violation
from soak.judge.reading import Ruler, read_logs
from soak.judge.records import RECORD_INVARIANTS


def collect(
    source_servers: str,
    target_servers: str,
    prefixes: tuple[str, ...],
    events: Sequence[Event],
    *,
    keeps_offsets: bool,
) -> tuple[Lane, ...]:
    """Read both sides, whole.

    :raises KafkaException: A cluster does not answer.
    """
    keys = {"source": Ruler(source_servers).partitions(prefixes), "target": Ruler(target_servers).partitions(prefixes)}
    source, target = read_logs(source_servers, keys["source"]), read_logs(target_servers, keys["target"])
    acked = _acked(events)
    return tuple(
        Lane(
            topic=key[0],
            partition=key[1],
            source=source.get(key, NO_LOG),
            target=target.get(key, NO_LOG),
            keeps_offsets=keeps_offsets,
            acked=acked[key],
        )
        for key in sorted(source.keys() | target.keys())
    )


def judged(events: Iterable[Event], lanes: Sequence[Lane]) -> tuple[Violation, ...]:
    """Everything that does not hold."""
    case = Case(events=tuple(events), lanes=tuple(lanes))
    return tuple(_violations(case))


def _violations(case: Case) -> Iterator[Violation]:
    for lane in case.lanes:
        for invariant in RECORD_INVARIANTS:
            yield from invariant(lane)
        yield from _complete(lane)


def _complete(lane: Lane) -> Iterator[Violation]:
    """When nobody writes any more the target ends where the source does."""
    if lane.keeps_offsets and lane.target.high < lane.source.stable:
        ends = f"the target ends at {lane.target.high}, the source at {lane.source.stable}, when all was quiet"
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
