"""Transactions that a follower has completely before the source decides them."""

from __future__ import annotations

from typing import NamedTuple

from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.naming import TargetTopic, TargetTopicPartition
from isthmus.model.text.wording import first_few


class PreparedPart(NamedTuple):
    """A partition of the follower in which such a transaction has all its records, at offsets `[begin, end)`, among
    those of others. Its end marker is at `end` or behind it.
    """

    topic: TargetTopic
    partition: int
    begin: int
    end: int


class PreparedCommit(NamedTuple):
    """A transaction of a producer of the source whose commit a gateway passes: all its partitions that a link copies
    before the outcome is known.
    """

    producer_id: int
    parts: tuple[PreparedPart, ...]


class MaybeCommitted(NamedTuple):
    """A transaction that is open in a partition, and whose outcome only these topics and partitions may show; they have
    no leader.
    """

    transaction: OpenTransaction
    silent: tuple[TargetTopicPartition, ...]

    @property
    def silent_in_words(self) -> str:
        """The partitions without a leader."""
        return first_few(f"{topic}-{partition}" for topic, partition in self.silent)

    @property
    def in_words(self) -> str:
        """Describe in a sentence what is unknown about a transaction that is aborted."""
        one, silent = self.transaction, self.silent_in_words
        return (
            f"whether the transaction of {one.owner} was committed is not known: it is aborted in "
            f"{one.topic}-{one.partition}, and {silent} may have it, and no leader"
        )


class Unfinished(NamedTuple):
    """Transactions that are still open: those that are committed for sure, and those of unknown outcome."""

    committed: tuple[OpenTransaction, ...] = ()
    unknown: tuple[MaybeCommitted, ...] = ()
