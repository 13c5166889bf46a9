"""Batches that producers of a connection have to send again: no later batch passes before them. Pure.

A leader that does not know a producer accepts any first batch of it. And once librdkafka gets an acknowledgement of a
later batch it counts the earlier one, which it would send again, as acknowledged: that batch would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from isthmus.gateway.frames.walking import BatchWritten
from isthmus.kafka import codes
from isthmus.kafka.log.listoffsets import PartitionKey

_AGAIN: Final = frozenset({codes.NOT_LEADER_OR_FOLLOWER, codes.NOT_ENOUGH_REPLICAS})
_LONGEST_S: Final = 60.0
"""A producer that does not retry within this time has gone on elsewhere."""
_SEQUENCE_MAX: Final = 0x7FFFFFFF


class _Producer(NamedTuple):
    """An idempotent producer in a partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int


class _First(NamedTuple):
    """The first of the batches that have to come again, and when (monotonic s) it was refused."""

    sequence: int
    at_s: float


class ComingAgain:
    """The batches that have to come again, by producer and partition; times are monotonic s."""

    __slots__ = ("_firsts",)

    def __init__(self) -> None:
        self._firsts: dict[_Producer, _First] = {}

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def precedes(self, written: Iterable[BatchWritten], now: float) -> bool:
        """Whether a batch has to come before one of these."""
        firsts = {key: each for key, each in self._firsts.items() if now - each.at_s <= _LONGEST_S}
        self._firsts = firsts
        return any(
            (first := firsts.get(_producer(each))) is not None and _is_behind(each.base_sequence, first.sequence)
            for each in written
        )

    def refuse(self, written: Iterable[BatchWritten], refusals: Mapping[PartitionKey, int], now: float) -> None:
        """Note a refused request: some partitions get these error codes, and all others a retriable one."""
        for each in written:
            key, code = _producer(each), refusals.get((each.topic, each.partition), codes.NOT_LEADER_OR_FOLLOWER)
            first = self._firsts.get(key)
            if each.producer_id < 0 or (first is not None and _is_behind(each.base_sequence, first.sequence)):
                continue
            if code in _AGAIN:
                self._firsts[key] = _First(each.base_sequence, now)
            else:
                self._firsts.pop(key, None)

    def take(self, written: Iterable[BatchWritten]) -> None:
        """Note that a request with these batches passes."""
        for each in written:
            self._firsts.pop(_producer(each), None)


def _producer(each: BatchWritten) -> _Producer:
    return _Producer(each.topic, each.partition, each.producer_id, each.producer_epoch)


def _is_behind(sequence: int, first: int) -> bool:
    """Whether a batch is behind another one of its producer: sequences wrap to 0 after the largest."""
    return 0 < (sequence - first) & _SEQUENCE_MAX <= _SEQUENCE_MAX // 2
