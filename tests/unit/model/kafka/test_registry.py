"""What two looks at a registry, or two sides of it, have to say about each other."""

from __future__ import annotations

from dataclasses import replace

from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.registry import PartitionRegistration, Registry, changes, disagreements

KEPT = Registry(
    cluster_id="abc",
    controller=0,
    brokers={0: frozenset({"a:1", "a:2"}), 1: frozenset({"b:1"})},
    partitions={("orders", 0): PartitionRegistration(0, 4, (0, 1)), ("orders", 1): PartitionRegistration(1, 2, (1,))},
)
TOLD = replace(KEPT, brokers={0: frozenset({"a:1"}), 1: frozenset({"b:1"})})


def messages(told: Registry) -> list[str]:
    """What disagrees with `KEPT`."""
    return [finding.message for finding in disagreements("east", KEPT, told)]


def test_both_sides_agree() -> None:
    """A broker has more listeners than the one we came through, and in-sync replicas have no order."""
    partitions = {**KEPT.partitions, ("orders", 0): PartitionRegistration(0, 4, (1, 0))}
    assert messages(replace(TOLD, partitions=partitions)) == []


def test_partitions_that_one_side_alone_knows() -> None:
    """They are told, unless the whole topic may just not be shown to us."""
    first = {("orders", 0): KEPT.partitions["orders", 0]}
    assert messages(replace(TOLD, partitions={}, is_whole=False)) == []
    gone = "partition 1 is there according to ZooKeeper, and not according to the API"
    assert messages(replace(TOLD, partitions=first, is_whole=False)) == [gone]
    assert len(messages(replace(TOLD, partitions={}))) == 2
    (message,) = messages(replace(TOLD, partitions={**KEPT.partitions, ("new", 0): first["orders", 0]}))
    assert message == "partition 0 is there according to the API, and not according to ZooKeeper"
    assert messages(replace(TOLD, partitions={**first, ("orders", 1): PartitionRegistration(1, 2, (1,), (1,))})) == []


def test_assignments_are_compared() -> None:
    """Their order counts, as the first replica is the preferred leader."""
    placed = replace(KEPT, partitions={("orders", 0): PartitionRegistration(0, 4, (0, 1), (0, 1))})
    told = replace(TOLD, partitions={("orders", 0): PartitionRegistration(0, 4, (0, 1), (1, 0))})
    (finding,) = disagreements("east", placed, told)
    assert finding.message == "partition 0: ZooKeeper assigns it to 0, 1, the API to 1, 0"


def test_other_cluster_is_told_and_nothing_else() -> None:
    """Where the ids differ every other difference follows from it."""
    (finding,) = disagreements("east", KEPT, replace(TOLD, cluster_id="xyz", controller=1, brokers={}))
    assert finding.level is Level.ERROR
    assert "/cluster/id is abc, the brokers report xyz" in finding.message


def test_each_disagreement_is_told() -> None:
    """Live brokers, their endpoints, the controller, and leader, epoch and in-sync replicas of each partition."""
    assert messages(replace(TOLD, brokers={0: frozenset({"a:1"})})) == [
        "broker 1 is registered according to ZooKeeper, and not according to the API"
    ]
    assert messages(replace(TOLD, brokers={**TOLD.brokers, 1: frozenset({"c:1"})})) == [
        "clients are sent to broker 1 at c:1, it is registered at b:1"
    ]
    assert messages(replace(TOLD, controller=1)) == ["/controller names broker 0, the brokers name 1"]
    for state in (
        PartitionRegistration(1, 4, (0, 1)),
        PartitionRegistration(0, 5, (0, 1)),
        PartitionRegistration(0, 4, (0,)),
    ):
        (message,) = messages(replace(TOLD, partitions={**KEPT.partitions, ("orders", 0): state}))
        assert message.startswith("partition 0: ZooKeeper has leader 0 in epoch 4 with 0, 1 in sync, the API leader")


def test_epoch_that_is_not_told_disagrees_with_none() -> None:
    """Old brokers answer without leader epochs."""
    untold = {**KEPT.partitions, ("orders", 0): PartitionRegistration(0, -1, (0, 1))}
    assert messages(replace(TOLD, partitions=untold)) == []


def test_changes_are_sentences() -> None:
    """A broker that goes is told first, then the controller, then the partitions it led."""
    after = replace(
        KEPT,
        controller=1,
        brokers={1: frozenset({"b:1"}), 2: frozenset({"c:1"})},
        partitions={("orders", 0): PartitionRegistration(-1, 5, ()), ("new", 0): PartitionRegistration(1, 0, (1,))},
    )
    assert list(changes(KEPT, replace(KEPT, brokers={**KEPT.brokers, 1: frozenset({"d:1"})}))) == [
        "broker 1 is at d:1 and was at b:1"
    ]
    placed, moved = ({("orders", 0): PartitionRegistration(0, 4, (0, 1), replicas)} for replicas in ((0, 1), (0, 2)))
    assert list(changes(replace(KEPT, partitions=placed), replace(KEPT, partitions=moved))) == [
        "orders-0 is assigned to 0, 2 and was to 0, 1"
    ]
    assert list(changes(KEPT, after)) == [
        "broker 0 is gone",
        "broker 2 is there at c:1",
        "broker 1 is the controller",
        "new-0 is led by 1 in epoch 0, in sync are 1",
        "orders-0 is without a leader in epoch 5, in sync are none",
        "orders-1 is gone",
    ]
    assert list(changes(KEPT, KEPT)) == []
