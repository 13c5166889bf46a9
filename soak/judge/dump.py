"""The target's segments as Kafka's own tool reads them off the disks of all brokers: `kafka.tools.DumpLogSegments`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from soak.judge.evidence import Lane, PartitionKey, Violation

TOOL: Final = "org.apache.kafka.tools.DumpLogSegments"
_FILE: Final = re.compile(r"^Dumping .*/(?P<topic>[^/]+)-(?P<partition>\d+)/\d+\.log$")
_BATCH: Final = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*?isControl: (true|false).*?"
    r"(?:crc|crc32c?): (-?\d+) isvalid: (true|false)"
)


class Batch(NamedTuple):
    """A batch as it lies on a disk."""

    base: int
    last: int
    records: int
    is_control: bool
    crc: int
    is_valid: bool


Replica = dict[PartitionKey, list[Batch]]


def batches(text: str) -> Replica:
    """What the tool printed of the segments of one broker."""
    found: Replica = defaultdict(list)
    key: PartitionKey | None = None
    for line in text.splitlines():
        if file := _FILE.match(line):
            key = (file["topic"], int(file["partition"]))
        elif key is not None and (batch := _BATCH.match(line)):
            base, last, count, control, crc, valid = batch.groups()
            found[key].append(Batch(int(base), int(last), int(count), control == "true", int(crc), valid == "true"))
    return {key: sorted(each) for key, each in found.items()}


def i10_replicas_agree(replicas: Mapping[int, Replica], lanes: Iterable[Lane]) -> Iterator[Violation]:
    """All brokers of the target hold the same batches, whole and without holes, where they hold the same offsets."""
    for lane in lanes:
        held = {
            node: found[lane.topic, lane.partition]
            for node, found in replicas.items()
            if found.get((lane.topic, lane.partition))
        }
        for node, each in held.items():
            yield from _whole(lane, node, each)
        if lane.is_compacted:
            # Every broker cleans its log when it likes.
            continue
        for node, each in list(held.items())[1:]:
            first, there = next(iter(held.items()))
            begin = max(each[0].base, there[0].base)
            end = min(each[-1].last, there[-1].last)
            if _between(each, begin, end) != _between(there, begin, end):
                differing = sorted({b.base for b in set(_between(each, begin, end)) ^ set(_between(there, begin, end))})
                yield _violation(lane, f"brokers {first} and {node} hold other batches", differing)


def _whole(lane: Lane, node: int, held: list[Batch]) -> Iterator[Violation]:
    damaged = [batch.base for batch in held if not batch.is_valid]
    if damaged:
        yield _violation(lane, f"broker {node} holds damaged batches", damaged)
    holes = [later.base for earlier, later in pairwise(held) if later.base != earlier.last + 1]
    if holes and not lane.is_compacted:
        yield _violation(lane, f"broker {node} has holes before these offsets, or batches that overlap", holes)


def _between(held: list[Batch], begin: int, end: int) -> list[Batch]:
    return [batch for batch in held if begin <= batch.base and batch.last <= end]


def _violation(lane: Lane, message: str, offsets: list[int]) -> Violation:
    return Violation(invariant="I10 agreement", where=lane.name, message=message, witnesses=tuple(offsets[:5]))
