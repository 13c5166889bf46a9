"""Transactions that a follower has as a whole before the source decides them."""

from __future__ import annotations

from typing import NamedTuple

from isthmus.model.transactions import OpenTransaction
from isthmus.model.wording import first_few


class PreparedPart(NamedTuple):
    """A partition of the follower in which such a transaction has all its records, at offsets `[begin, end)`, among
    those of others. Its end stands at `end` or behind it.
    """

    topic: str
    partition: int
    begin: int
    end: int


class PreparedCommit(NamedTuple):
    """A transaction of a producer of the source whose commit a gateway lets through: these are all its partitions that
    a link copies before it is known how it ends.
    """

    producer_id: int
    parts: tuple[PreparedPart, ...]


class MaybeCommitted(NamedTuple):
    """A transaction that is open in a partition, and of which only these topics and partitions may tell that it was
    committed; they have no leader.
    """

    transaction: OpenTransaction
    silent: tuple[tuple[str, int], ...]

    @property
    def silent_in_words(self) -> str:
        """Those that have no leader."""
        return first_few(f"{topic}-{partition}" for topic, partition in self.silent)

    @property
    def in_words(self) -> str:
        """What is not known of one that is aborted, in a sentence."""
        one, silent = self.transaction, self.silent_in_words
        return (
            f"whether the transaction of {one.owner} was committed is not known: it is aborted in "
            f"{one.topic}-{one.partition}, and {silent} may have it, and no leader"
        )


class Unfinished(NamedTuple):
    """Transactions that are open still: those that are committed for sure, and those of which nobody tells."""

    committed: tuple[OpenTransaction, ...] = ()
    unknown: tuple[MaybeCommitted, ...] = ()
