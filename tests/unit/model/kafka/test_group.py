"""Consumer groups as values: where their coordinator sits, and what their states mean."""

from __future__ import annotations

import pytest

from isthmus.model.kafka.group import GroupState, offsets_partition


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        # As Java 17 answers to Utils.abs("...".hashCode()) % 50.
        ("", 0),
        ("a", 47),
        ("billing", 9),
        ("группа", 8),
        ("polygenelubricants", 0),  # the hash code is Java's smallest int
        ("\U0001f600-group", 43),
    ],
)
def test_a_group_lies_in_the_partition_java_finds(group: str, partition: int) -> None:
    """The partition of `__consumer_offsets` follows from Java's hash code of the name, surrogates included."""
    assert offsets_partition(group, 50) == partition


def test_only_certain_vacancy_counts() -> None:
    """A state that is not known here may have members."""
    assert {state for state in GroupState if state.is_vacant} == {GroupState.EMPTY, GroupState.DEAD}
    assert GroupState.of("SomethingNew") is GroupState.UNKNOWN
