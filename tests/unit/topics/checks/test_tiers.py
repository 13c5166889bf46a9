"""What is told of topics of which a remote tier holds the older part."""

from __future__ import annotations

import pytest

from isthmus.model.kafka.log import LogRange
from isthmus.model.problem import Problem
from isthmus.topics.checks.tiers import tier_notes
from isthmus.topics.preflight import PartitionDecision


def decision(partition: int, *, target_end: int, refusal: Problem | None = None) -> PartitionDecision:
    """A partition of the source with the offsets [10, 100)."""
    log = LogRange(10, 100, 100)
    return PartitionDecision(partition=partition, source=log, target_end=target_end, refusal=refusal)


@pytest.mark.parametrize(
    ("target_end", "told"), [(-1, "50 offsets"), (0, "50 offsets"), (10, "50 offsets"), (59, "1 offset "), (60, None)]
)
def test_what_is_read_from_the_tier_is_told(target_end: int, told: str | None) -> None:
    """As many offsets as lie between what was copied and where the log begins on the source's own disks."""
    notes = list(tier_notes((decision(0, target_end=target_end),), {0: 60}))
    assert [each.message.startswith(told or "") for each in notes] == ([] if told is None else [True])
    assert all(each.hint for each in notes)


def test_nothing_is_told_of_what_is_not_read() -> None:
    """Of partitions that are refused, and of those of which no local start is known."""
    refused = decision(0, target_end=0, refusal=Problem("no", "do"))
    assert list(tier_notes((refused, decision(1, target_end=0)), {0: 60})) == []
