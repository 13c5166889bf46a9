"""Which topics and partitions are mirrored with the same offsets, and which are refused."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest

from isthmus.engine.outlook import Outlook
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import ConfigEntry, ConfigSource, TopicDescription
from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem
from isthmus.topics.creation import prefix_notes
from isthmus.topics.preflight import (
    LONG_MAX,
    PREFIX_OFFSETS_MAX,
    TopicDecision,
    TopicMode,
    TopicPair,
    batch_bytes_max,
    find_uncounted,
    preflight,
)
from testing.values.names import ORDERS

DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.after.max.ms": "3600000",
}
WEST = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))
NOTHING: Mapping[str, str] = {}


def described(own: Mapping[str, str] = NOTHING, *, partitions: int = 1) -> TopicDescription:
    """A topic with the usual defaults and configurations of its own."""
    configs = {key: ConfigEntry(value) for key, value in DEFAULTS.items()}
    configs |= {key.replace("_", "."): ConfigEntry(value, ConfigSource.DYNAMIC_TOPIC) for key, value in own.items()}
    return TopicDescription(
        name="orders",
        topic_id=uuid.uuid4(),
        partition_count=partitions,
        replication_factor=1,
        configs=configs,
    )


def decide(pair: TopicPair, holes_max: int = 1000) -> TopicDecision:
    """The decision with a small limit of holes."""
    return preflight(pair, holes_max=holes_max, cluster=WEST)


def test_new_topic_is_mirrored_with_same_offsets() -> None:
    """A topic the target lacks is mirrored; everything the source holds is to be copied."""
    pair = TopicPair(
        name=ORDERS,
        source=described(partitions=2),
        target=None,
        source_ranges={0: LogRange(0, 90, 100), 1: LogRange(0, 0, 0)},
    )
    decision = decide(pair)
    assert decision.mode is TopicMode.IDENTITY
    assert [p.lag_records for p in decision.partitions] == [90, 0]
    assert decision.notes == ()


def test_deleted_prefix_is_counted() -> None:
    """Offsets the source has deleted are to be filled, and are no lag."""
    pair = TopicPair(name=ORDERS, source=described(), target=None, source_ranges={0: LogRange(500, 700, 700)})
    partition = decide(pair).partitions[0]
    assert (partition.prefix, partition.lag_records) == (500, 200)


def test_partition_without_a_leader_is_unknown() -> None:
    """Where a leader did not answer nothing is claimed and nothing is refused."""
    pair = TopicPair(name=ORDERS, source=described(), target=described())
    partition = decide(pair).partitions[0]
    assert (partition.lag_records, partition.prefix, partition.refusal) == (-1, 0, None)


def test_target_ahead_of_source_refuses_that_partition_only() -> None:
    """Of a target log that ends behind the source's a look at its end tells what it is; its neighbours go on."""
    pair = TopicPair(
        name=ORDERS,
        source=described(partitions=2),
        target=described(partitions=2),
        source_ranges={0: LogRange(0, 10, 10), 1: LogRange(0, 10, 10)},
        target_ranges={0: LogRange(0, 11, 11), 1: LogRange(0, 10, 10)},
    )
    assert [p.state for p in decide(pair).partitions] == [LaneState.ACTIVE, LaneState.ACTIVE]
    found = Outlook(state=LaneState.DIVERGED, problem=Problem("it ends beyond"))
    decision = decide(replace(pair, outlooks={0: found}))
    assert decision.mode is TopicMode.IDENTITY
    assert [p.state for p in decision.partitions] == [LaneState.DIVERGED, LaneState.ACTIVE]
    assert decision.partitions[0].refusal is not None
    assert decision.partitions[1].refusal is None


@pytest.mark.parametrize(
    ("own", "word"),
    [
        ({"compression.type": "lz4"}, "compression.type"),
        ({"message.timestamp.type": "LogAppendTime"}, "LogAppendTime"),
        ({"cleanup.policy": "compact"}, "compacted"),
    ],
)
def test_existing_target_that_would_change_records_is_refused(own: dict[str, str], word: str) -> None:
    """A target that compresses anew, stamps its own time or drops records is refused with advice."""
    decision = decide(TopicPair(name=ORDERS, source=described(), target=described(own)))
    assert decision.mode is TopicMode.REFUSED
    assert word in decision.refusals[0].message
    assert decision.refusals[0].hint


def test_more_partitions_at_the_target_are_refused() -> None:
    """Kafka cannot take partitions away, so such a target is refused."""
    decision = decide(TopicPair(name=ORDERS, source=described(partitions=2), target=described(partitions=3)))
    assert decision.mode is TopicMode.REFUSED
    assert "3 partitions" in decision.refusals[0].message


def test_fewer_partitions_at_the_target_are_added() -> None:
    """Missing partitions are counted and begin at offset 0."""
    pair = TopicPair(
        name=ORDERS,
        source=described(partitions=3),
        target=described(partitions=1),
        source_ranges={p: LogRange(0, 5, 5) for p in range(3)},
        target_ranges={0: LogRange(0, 5, 5)},
    )
    decision = decide(pair)
    assert decision.partitions_missing == 2
    assert [p.target_end for p in decision.partitions] == [5, 0, 0]
    assert [p.lag_records for p in decision.partitions] == [0, 5, 5]


def test_prefix_needs_the_delete_policy() -> None:
    """Fillers can only be deleted where the policy has delete; then the topic is mirrored."""
    source = described({"cleanup.policy": "compact"})
    ranges = {0: LogRange(10, 20, 20)}
    target = described({"cleanup.policy": "compact"})
    pair = TopicPair(
        name=ORDERS, source=source, target=target, source_ranges=ranges, target_ranges={0: LogRange(0, 0, 0)}
    )
    assert "cleanup.policy" in decide(pair).refusals[0].message
    both = described({"cleanup.policy": "compact,delete"})
    assert decide(replace(pair, target=both)).mode is TopicMode.IDENTITY
    past = replace(pair, target_ranges={0: LogRange(10, 15, 15)})
    assert decide(past).mode is TopicMode.IDENTITY


def test_prefix_of_trillions_is_refused() -> None:
    """A prefix that would take hours to fill refuses its partition."""
    log = LogRange(PREFIX_OFFSETS_MAX + 1, PREFIX_OFFSETS_MAX + 2, PREFIX_OFFSETS_MAX + 2)
    decision = decide(TopicPair(name=ORDERS, source=described(), target=None, source_ranges={0: log}))
    assert decision.partitions[0].state is LaneState.REFUSED


def test_long_prefix_is_noted_with_its_cost() -> None:
    """A prefix that takes a while says how long and how much disk."""
    log = LogRange(1_000_000_000, 1_000_000_001, 1_000_000_001)
    decision = decide(TopicPair(name=ORDERS, source=described(), target=None, source_ranges={0: log}))
    (note,) = prefix_notes(decision.partitions)
    assert "1,000,000,000 offsets" in note.message
    assert "600 MB" in note.hint


def test_only_long_compacted_stretches_are_counted() -> None:
    """Holes are counted where there may be too many: what is copied already does not matter."""
    source = described({"cleanup.policy": "compact"}, partitions=3)
    pair = TopicPair(
        name=ORDERS,
        source=source,
        target=described({"cleanup.policy": "compact"}, partitions=2),
        source_ranges={
            0: LogRange(0, 1000, 1000),
            1: LogRange(0, 5000, 5000),
            2: LogRange(7, 5000, 6000),
        },
        target_ranges={0: LogRange(0, 0, 0), 1: LogRange(0, 4500, 4500)},
    )
    assert find_uncounted(pair, holes_max=1000) == {2: (7, 5000)}
    assert find_uncounted(replace(pair, source=described(partitions=3)), holes_max=1000) == {}


def test_too_many_holes_refuse_the_partition() -> None:
    """Above the limit the partition is refused and names the setting; at the limit it is not."""
    pair = TopicPair(
        name=ORDERS,
        source=described({"cleanup.policy": "compact"}),
        target=None,
        source_ranges={0: LogRange(0, 5000, 5000)},
        holes={0: 1001},
    )
    decision = decide(pair)
    assert decision.partitions[0].state is LaneState.REFUSED
    refusal = decision.partitions[0].refusal
    assert refusal is not None
    assert "compaction_holes_max" in refusal.hint
    assert decide(replace(pair, holes={0: 1000})).partitions[0].refusal is None


def test_smaller_limits_at_the_target_are_noted() -> None:
    """Batch sizes and timestamps the target would not take are told before the first byte."""
    source = described({"max.message.bytes": "5000000", "message.timestamp.after.max.ms": str(LONG_MAX)})
    decision = decide(TopicPair(name=ORDERS, source=source, target=described()))
    assert decision.mode is TopicMode.IDENTITY
    noted = " ".join(note.hint for note in decision.notes)
    assert "max.message.bytes=5000000" in noted
    assert "message.timestamp.after.max.ms" in noted
    assert batch_bytes_max(source) == 5_000_000


def test_append_times_are_kept_in_the_records() -> None:
    """A LogAppendTime source is mirrored into a CreateTime target, and the plan says so."""
    decision = decide(
        TopicPair(name=ORDERS, source=described({"message.timestamp.type": "LogAppendTime"}), target=described())
    )
    assert "LogAppendTime" in decision.notes[0].message
