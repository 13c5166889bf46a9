"""What a partition's own numbers say about it."""

from __future__ import annotations

import pytest

from isthmus.model.kafka.partitions import Condition, PartitionState, broker_loads
from tests.unit.model.topics import partition


@pytest.mark.parametrize(
    ("state", "conditions"),
    [
        (partition(), ()),
        (partition(isr=(1, 2)), (Condition.UNDER_REPLICATED,)),
        (partition(isr=(1,)), (Condition.UNDER_MIN_ISR, Condition.UNDER_REPLICATED)),
        (partition(isr=(1,), min_isr=None), (Condition.UNDER_REPLICATED,)),
        (partition(leader=2), (Condition.NOT_PREFERRED,)),
        (partition(leader=-1, isr=(1,)), (Condition.OFFLINE,)),
        (partition(replicas=(1,), isr=(1,)), (Condition.TOO_FEW_REPLICAS,)),
        (partition(isr=(2, 3), leader=2), (Condition.UNDER_REPLICATED, Condition.NOT_PREFERRED)),
    ],
    ids=str,
)
def test_conditions_follow_from_leader_and_replicas(state: PartitionState, conditions: tuple[Condition, ...]) -> None:
    """Everything that is wrong is named, the worst first; an offline partition is nothing else."""
    assert state.conditions == conditions


def test_records_held_back_are_counted() -> None:
    """Between the last stable offset and the high watermark lies what consumers have to wait for."""
    assert partition()._replace(stable_end=4).unstable_records == 6
    assert partition()._replace(stable_end=None).unstable_records == 0


def test_loads_count_replicas_and_leaders_by_broker() -> None:
    """A broker that bears nothing is there too, and one that should lead and does not is told."""
    states = [partition(number=0), partition(leader=2, number=1), partition(leader=-1, number=2)]
    loads = {load.node_id: load for load in broker_loads(states, [1, 2, 3, 4])}

    assert (loads[1].replicas, loads[1].leaders, loads[1].preferred, loads[1].displaced) == (3, 1, 3, 2)
    assert (loads[2].leaders, loads[2].preferred) == (1, 0)
    assert loads[4].replicas == 0
    assert -1 not in loads
