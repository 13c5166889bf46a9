"""How far a stream has read, how far its next micro-batch reads, and which ranges that are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Final, Self

from isthmus.errors import ClusterError, ConfigError
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.reading import OffsetRange

_OR_GO_ON: Final = "Set failOnDataLoss to false to go on without them, or begin with a new checkpoint."


@dataclass(frozen=True, slots=True)
class Frontier:
    """The next offset to read in each partition, with the ids of topics ("" where brokers have none), and how many
    offsets were lost in each because their records were deleted unread.

    Where a query begins is nowhere in a checkpoint of Spark: so the end of its first micro-batch has it (`begins`).
    `is_of_spark` is the form of Spark's own Kafka source.
    """

    ids: Mapping[str, str]
    offsets: Mapping[PartitionKey, int]
    lost: Mapping[PartitionKey, int] = field(default_factory=dict)
    begins: Mapping[PartitionKey, int] = field(default_factory=dict, compare=False)
    is_of_spark: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """Read a frontier from a checkpoint. That of Spark's own Kafka source does as well: it has no ids.

        :raises ConfigError: It is the checkpoint of another source.
        """
        ids: dict[str, str] = {}
        offsets: dict[PartitionKey, int] = {}
        counted: dict[str, dict[PartitionKey, int]] = {"lost": {}, "begins": {}}
        try:
            for topic, written in document.items():
                ids[topic] = str(written.get("id", ""))
                for partition, offset in written.get("offsets", written).items():
                    offsets[topic, int(partition)] = int(offset)
                for name, known in counted.items():
                    known.update({(topic, int(key)): int(value) for key, value in written.get(name, {}).items()})
            is_of_spark = any("offsets" not in written for written in document.values())
        except (AttributeError, TypeError, ValueError):
            raise ConfigError(
                f"the checkpoint of this query holds no offsets of topics, but {str(document)[:200]}",
                hint="Give the query a checkpoint location of its own.",
            ) from None
        return cls(ids, offsets, counted["lost"], counted["begins"], is_of_spark)

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is written into a checkpoint; equal ones are written alike."""
        written: dict[str, Any] = {topic: {"id": self.ids[topic], "offsets": {}} for topic in sorted(self.ids)}
        for topic, partition in sorted(self.offsets):
            written[topic]["offsets"][str(partition)] = self.offsets[topic, partition]
        for name, known in (("lost", self.lost), ("begins", self.begins)):
            for topic, partition in sorted(known):
                written[topic].setdefault(name, {})[str(partition)] = known[topic, partition]
        return written

    def first_from(self, start: Frontier) -> Frontier:
        """Return it as the end of a query's first micro-batch, which begins at `start`."""
        kept = {key: offset for key, offset in start.offsets.items() if not self.is_different(start, key)}
        return replace(self, begins=kept)

    def is_different(self, start: Frontier, key: PartitionKey) -> bool:
        """Return whether the topic of a partition is another one there."""
        return are_different(start.ids.get(key[0], ""), self.ids.get(key[0], ""))


@dataclass(frozen=True, slots=True)
class LogSight:
    """What a cluster shows of the selected topics: their ids, and where the logs of partitions begin and end. What it
    did not answer is left out.
    """

    ids: Mapping[str, str]
    partitions: frozenset[PartitionKey]
    starts: Mapping[PartitionKey, int]
    ends: Mapping[PartitionKey, int]


def advance(start: Frontier, sight: LogSight, *, offsets_max: int | None, fails_on_loss: bool) -> Frontier:
    """Return how far the next micro-batch reads: `start` where nothing is new.

    New partitions are only placed, at the beginning of their logs: so the batch that reads them has its begin in the
    checkpoint too. What is not known stays where it is.

    :param offsets_max: The most offsets of a micro-batch; each partition with records gets one at least.
    :raises ClusterError: Records were deleted before they were read, with `fails_on_loss`.
    """
    recreated = {topic for topic, topic_id in sight.ids.items() if are_different(start.ids.get(topic, ""), topic_id)}
    if recreated and fails_on_loss:
        raise _report_recreated(min(recreated), start)
    ids, offsets, lost = dict(start.ids), dict(start.offsets), dict(start.lost)
    for topic in recreated:
        keys = {key for key in sight.partitions if key[0] == topic}
        if keys <= sight.starts.keys():
            offsets = {key: offset for key, offset in offsets.items() if key[0] != topic}
            offsets.update({key: sight.starts[key] for key in keys})
            ids[topic] = sight.ids[topic]
    available: dict[PartitionKey, int] = {}
    for key in sight.partitions & sight.starts.keys():
        if key[0] in recreated:
            continue
        ids[key[0]] = sight.ids.get(key[0], "")
        missing = sight.starts[key] - offsets.setdefault(key, sight.starts[key])
        if missing > 0 and fails_on_loss:
            raise lost_records(OffsetRange(*key, offsets[key], sight.starts[key]))
        if missing > 0:
            lost[key] = lost.get(key, 0) + missing
            offsets[key] = sight.starts[key]
        if key in sight.ends and key in start.offsets:
            available[key] = max(0, sight.ends[key] - offsets[key])
    for key, count in shares(available, offsets_max).items():
        offsets[key] += count
    return Frontier(ids, offsets, lost)


def shares(available: Mapping[PartitionKey, int], offsets_max: int | None) -> Mapping[PartitionKey, int]:
    """Return how many of the available offsets each partition may read: one each, so that none starves, and of the rest
    a share in proportion. Only more partitions with records than `offsets_max` exceed it.
    """
    waiting = {key: count for key, count in available.items() if count}
    total = sum(waiting.values())
    if offsets_max is None or total <= offsets_max:
        return available
    spare, rest = max(0, offsets_max - len(waiting)), max(1, total - len(waiting))
    # What is rounded off goes to the next one.
    sums = list(accumulate((waiting[key] - 1 for key in sorted(waiting)), initial=0))
    return {
        key: 1 + spare * after // rest - spare * before // rest
        for key, (before, after) in zip(sorted(waiting), pairwise(sums), strict=True)
    }


def spans_between(start: Frontier, end: Frontier) -> list[OffsetRange]:
    """Return the ranges between two frontiers, by topic and partition. The same ends give the same ranges, also where
    the first micro-batch is repeated and `start` is where a query would begin now.

    A partition that only the end has was placed there; Spark's own source has it read from its very beginning.
    """
    begins = {key: offset for key, offset in start.offsets.items() if not end.is_different(start, key)}
    if end.begins:
        begins = dict(end.begins)
    elif end.is_of_spark:
        begins = {**dict.fromkeys(end.offsets.keys() - start.offsets.keys(), 0), **begins}
    return [
        OffsetRange(*key, begins[key], end.offsets[key])
        for key in sorted(end.offsets.keys() & begins.keys())
        if begins[key] < end.offsets[key]
    ]


def lost_records(span: OffsetRange) -> ClusterError:
    """Build the error for records that were deleted before they were read."""
    return ClusterError(
        f"the records of {span} were deleted before they were read, up to {span.offset_end - span.offset_begin} of "
        "them: by the topic's retention, or by an administrator",
        hint=_OR_GO_ON,
    )


def _report_recreated(topic: str, start: Frontier) -> ClusterError:
    places = ", ".join(
        f"{topic}-{key[1]} from {start.offsets[key]} on" for key in sorted(start.offsets) if key[0] == topic
    )
    return ClusterError(
        f"topic {topic} was deleted and created again: what was not read of the former one is lost ({places})",
        hint=_OR_GO_ON,
    )


def are_different(before: str, topic_id: str) -> bool:
    """Return whether these ids belong to different topics; "" is unknown."""
    return bool(before and topic_id) and before != topic_id
