"""Transactions that a follower has as a whole before the source decides them."""

from __future__ import annotations

from typing import NamedTuple

from isthmus.model.transactions import OpenTransaction


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


class Unfinished(NamedTuple):
    """Transactions that are open still: those that are committed for sure, and those of which nobody tells."""

    committed: tuple[OpenTransaction, ...] = ()
    unknown: tuple[MaybeCommitted, ...] = ()
