"""Keys and values of `__consumer_offsets`, of all versions, written here as Kafka's definitions say."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.commits.records import (
    CommitKey,
    commit_key,
    commit_key_bytes,
    commit_value,
    commit_value_bytes,
)
from isthmus.model.kafka.group import Committed
from isthmus.model.naming import SourceTopic
from testing.values.commits import key, value

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(max_size=200)


@given(st.integers(0, 1), TEXTS, TEXTS.map(SourceTopic), INTS)
def test_keys_of_commits(version: int, group: str, topic: SourceTopic, partition: int) -> None:
    """Both versions of the key name group, topic and partition."""
    assert commit_key(key(version, group, topic, partition)) == CommitKey(group, topic, partition)


@given(st.integers(2, 32767), st.binary())
def test_other_keys_are_passed_over(version: int, rest: bytes) -> None:
    """Group metadata, and whatever coordinators keep beside, are no commits and no errors."""
    assert commit_key(struct.pack(">h", version) + rest) is None


@given(st.integers(0, 4), st.builds(Committed, LONGS, INTS, TEXTS), LONGS)
def test_values_of_every_version(version: int, committed: Committed, at_ms: int) -> None:
    """The leader epoch came with version 3; offset and metadata are in all."""
    expected = committed if version >= 3 else committed._replace(leader_epoch=-1)
    assert commit_value(value(version, committed, at_ms % 2**62)) == expected


@given(st.integers(0, 4), st.builds(Committed, LONGS, INTS, st.text(min_size=1, max_size=20)), st.data())
def test_cut_off_values_are_refused(version: int, committed: Committed, data: st.DataObject) -> None:
    """A value that ends before its metadata does is an error, never a wrong position."""
    whole = value(version, committed, 0)
    tail = {1: 16, 4: 8 + 19}.get(version, 8)
    with pytest.raises(ValueError, match=r"version|end"):
        commit_value(whole[: data.draw(st.integers(0, len(whole) - tail - 1))])


def test_unknown_versions_are_refused() -> None:
    """A value of a version to come is not guessed at."""
    with pytest.raises(ValueError, match="version 5"):
        commit_value(struct.pack(">hq", 5, 1))


@given(TEXTS, TEXTS.map(SourceTopic), INTS, LONGS, INTS, TEXTS)
def test_what_is_written_is_as_coordinators_write_it(
    group: str, topic: SourceTopic, partition: int, offset: int, epoch: int, metadata: str
) -> None:
    """Keys of version 1, values of version 3."""
    committed = Committed(offset, epoch, metadata)
    assert commit_key_bytes(CommitKey(group, topic, partition)) == key(1, group, topic, partition)
    assert commit_value_bytes(committed, now_ms=5) == value(3, committed, 5)


def test_metadata_that_has_no_place_is_left_out() -> None:
    """A value holds no text of more than 32,767 bytes; the position counts."""
    assert commit_value(commit_value_bytes(Committed(7, 1, "x" * 40_000), now_ms=5)) == Committed(7, 1, "")
