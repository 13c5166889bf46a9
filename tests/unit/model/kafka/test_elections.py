"""Which elections are needed, and which are possible."""

from __future__ import annotations

import pytest

from isthmus.model.kafka.elections import ElectionOutcome, plan_elections
from isthmus.model.kafka.partitions import PartitionState
from tests.unit.model.topics import partition


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (partition(), ElectionOutcome.NOT_NEEDED),
        (partition(leader=2), ElectionOutcome.PENDING),
        (partition(leader=2, isr=(2, 3)), ElectionOutcome.NOT_POSSIBLE),
        (partition(leader=-1, isr=(2,)), ElectionOutcome.NOT_POSSIBLE),
    ],
    ids=str,
)
def test_preferred_replica_is_elected_only_when_in_sync(state: PartitionState, outcome: ElectionOutcome) -> None:
    """Electing a replica that lacks records would lose them."""
    (election,) = plan_elections([state])

    assert election.outcome is outcome
    assert election.is_refused is (outcome is ElectionOutcome.NOT_POSSIBLE)
