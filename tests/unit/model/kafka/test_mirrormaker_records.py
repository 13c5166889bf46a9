"""The records of MirrorMaker 2, against bytes that Kafka's own classes made and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.kafka.mirrormaker_records import (
    TEXT_BYTES_MAX,
    Checkpoint,
    CheckpointKey,
    Heartbeat,
    KeyedRecord,
    OffsetSync,
    SyncKey,
    checkpoint_of,
    heartbeat_of,
    offset_sync_of,
)
from isthmus.model.naming import SourceTopic, TargetTopic

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
OFFSETS = st.integers(0, 2**63 - 1)
PARTITIONS = st.integers(0, 2**31 - 1)
KEYS = st.builds(CheckpointKey, TEXTS, TEXTS, PARTITIONS)


def test_a_pair_of_offsets_has_the_bytes_of_kafka() -> None:
    """OffsetSync(t1-2, 100 to 200) is what OffsetSync.java writes."""
    record = OffsetSync(SyncKey(SourceTopic("t1"), 2), 100, 200).record

    assert record.key.hex() == "0002743100000002"
    assert record.value.hex() == "000000000000006400000000000000c8"


def test_a_checkpoint_has_the_bytes_of_kafka() -> None:
    """Checkpoint(g1, A.t1-2, 100 to 200) is what Checkpoint.java writes."""
    record = Checkpoint(CheckpointKey("g1", TargetTopic("A.t1"), 2), 100, 200).record

    assert record.key.hex() == "000267310004412e743100000002"
    assert record.value.hex() == "0000000000000000006400000000000000c80000"


def test_a_heartbeat_has_the_bytes_of_kafka() -> None:
    """Heartbeat(A to B, 1700000000000) is what Heartbeat.java writes."""
    record = Heartbeat("A", "B", 1_700_000_000_000).record

    assert record.key.hex() == "000141000142"
    assert record.value.hex() == "00000000018bcfe56800"


@given(st.builds(Heartbeat, TEXTS, TEXTS, OFFSETS))
def test_heartbeats_are_read_as_they_were(heartbeat: Heartbeat) -> None:
    """What is written is read again."""
    assert heartbeat_of(heartbeat.record) == heartbeat


@given(st.builds(Checkpoint, KEYS, OFFSETS, OFFSETS, TEXTS))
def test_checkpoints_are_read_as_they_were(checkpoint: Checkpoint) -> None:
    """What is written is read again, metadata included."""
    assert checkpoint_of(checkpoint.record) == checkpoint


@given(st.builds(OffsetSync, st.builds(SyncKey, TEXTS, PARTITIONS), OFFSETS, OFFSETS))
def test_pairs_are_read_as_they_were(pair: OffsetSync) -> None:
    """What is written is read again."""
    assert offset_sync_of(pair.record) == pair


def test_metadata_that_is_too_long_is_left_out() -> None:
    """A text of more than 32,767 bytes cannot be written: the position is all the same."""
    key = CheckpointKey("g", TargetTopic("t"), 0)
    kept, lost = ("x" * size for size in (TEXT_BYTES_MAX, TEXT_BYTES_MAX + 1))

    assert checkpoint_of(Checkpoint(key, 1, 2, kept).record).metadata == kept
    assert checkpoint_of(Checkpoint(key, 1, 2, lost).record) == Checkpoint(key, 1, 2)


@pytest.mark.parametrize("cut", [1, 3, 9, 11])
def test_what_ends_too_soon_is_none(cut: int) -> None:
    """Bytes that are no checkpoint are refused, wherever they end."""
    key, value = Checkpoint(CheckpointKey("g1", TargetTopic("t1"), 2), 100, 200, "of mine").record

    with pytest.raises(ValueError, match="no checkpoint"):
        checkpoint_of(KeyedRecord(key[:cut], value))
    with pytest.raises(ValueError, match="no checkpoint"):
        checkpoint_of(KeyedRecord(key, value[:-cut]))


def test_other_versions_are_none() -> None:
    """A version that is not known is refused, as Kafka's own readers do."""
    key, value = Heartbeat("A", "B", 1).record
    with pytest.raises(ValueError, match="version 1"):
        heartbeat_of(KeyedRecord(key, b"\0\1" + value[2:]))
    key, value = Checkpoint(CheckpointKey("g1", TargetTopic("t1"), 2), 100, 200).record
    with pytest.raises(ValueError, match="version 1"):
        checkpoint_of(KeyedRecord(key, b"\0\1" + value[2:]))
