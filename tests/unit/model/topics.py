"""Partitions of topics, as both sides have them."""

from __future__ import annotations

from isthmus.model.kafka.partitions import PartitionState


def partition(
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    number: int = 0,
    min_isr: int | None = 2,
    topic: str = "orders",
) -> PartitionState:
    """A partition of three replicas, all of them in sync."""
    return PartitionState(topic, number, leader, 5, replicas, isr, min_isr, 0, 10, 10)
