"""Commits of transactions and of groups: read the requests, and build our own answers to them. Pure."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.gateway.frames.duties import SyncLink
from isthmus.gateway.frames.layout import MessageCursor, response_body
from isthmus.gateway.frames.messages import END_TXN, OFFSET_COMMIT, is_flexible
from isthmus.kafka import codes
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.gateways.carriedtransactions import CarriedTransaction
from isthmus.model.naming import SourceTopicPartition

_SIZE: Final = struct.Struct(">i")
_REFUSAL: Final = struct.Struct(">ih")
_PRODUCER: Final = struct.Struct(">qh")
_ABORTABLE_FROM: Final = 4
_PRODUCER_FROM: Final = 5


class CommitAsked(NamedTuple):
    """A client's request to commit a transaction, at `begun_at` (monotonic s). `node` is the broker that it goes to and
    `producer_id` its producer, each -1 if unknown: the coordinator may have given the producer another id once its
    epochs were exhausted.
    """

    transactional_id: str
    version: int
    correlation: int
    begun_at: float
    node: int = -1
    producer_id: int = -1


class Span(NamedTuple):
    """The offsets `[begin, end)` of a partition of the source."""

    begin: int
    end: int


class TransactionSeen(NamedTuple):
    """A transaction of a producer as its coordinator has it. Transactions of a client with EndTxn below version 5 share
    one epoch, and differ in when they began (`started_ms`).
    """

    producer_id: int = -1
    producer_epoch: int = -1
    started_ms: int = -1
    is_open: bool = False

    def is_decided_by(self, seen: TransactionSeen) -> bool:
        """Whether the coordinator that reports `seen` knows that this transaction is decided. One that was cut off
        before that still reports it as open, or reports an earlier transaction of the producer.
        """
        if seen.producer_id != self.producer_id:
            return True
        now, then = (seen.producer_epoch, seen.started_ms), (self.producer_epoch, self.started_ms)
        return now > then or (now == then and not seen.is_open)


@dataclass(frozen=True, slots=True)
class CommitOwed:
    """The parts that a commit waits for: the end of its transaction in partitions of the source, or with `is_all` in
    any, as the coordinator no longer reports its partitions; and positions of groups. All its records of a partition
    are within its span in `spans`, and `seen` is the transaction as the coordinator reported it, `None` if it did not.
    Lost links are `untouched` if nothing of the transaction is in their namespaces.
    """

    asked: CommitAsked
    spans: Mapping[SourceTopicPartition, Span] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    is_all: bool = False
    seen: TransactionSeen | None = None
    untouched: Collection[SyncLink] = ()

    @property
    def producer_id(self) -> int:
        """The producer of the transaction, -1 if unknown."""
        return -1 if self.seen is None else self.seen.producer_id


class TransactionEnd(NamedTuple):
    """A request to end the transaction of a producer, by a commit or an abort."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool

    def apply_commit(self, version: int) -> CarriedTransaction:
        """Return the state of the producer at its coordinator after this commit, by the version of EndTxn."""
        epoch = self.producer_epoch + (version >= _PRODUCER_FROM)
        return CarriedTransaction(self.transactional_id, self.producer_id, epoch, is_committed=True)


class PositionsOwed(NamedTuple):
    """The positions that an OffsetCommit commits."""

    group: str
    keys: frozenset[PartitionKey]


class GroupSeen(NamedTuple):
    """A group whose positions are to be committed by a transaction."""

    transactional_id: str
    group: str


class PositionSent(NamedTuple):
    """A position that is to be committed, and where in the payload its leader epoch is, if it has one."""

    key: PartitionKey
    offset: int
    epoch_at: int | None


class PositionTold(NamedTuple):
    """The error code of a position in an answer, and where it is in the frame."""

    key: PartitionKey
    code: int
    code_at: int


def transaction_ended(body: MessageCursor) -> TransactionEnd:
    """Read an EndTxn."""
    return TransactionEnd(body.text() or "", body.int64(), body.int16(), body.int8() != 0)


def positions_committed(body: MessageCursor, version: int) -> tuple[PositionsOwed, list[PositionSent]]:
    """Read the positions of an OffsetCommit."""
    group = body.text() or ""
    if version >= 1:
        body.skip(4)
        body.skip_text()
    if version >= 7:
        body.skip_text()
    if 2 <= version <= 4:
        body.skip(8)
    sent = list(_read_positions(body, has_epochs=version >= 6, has_times=version == 1))
    return PositionsOwed(group, frozenset(each.key for each in sent)), sent


def group_seen(body: MessageCursor) -> GroupSeen:
    """Read the transaction and the group of a TxnOffsetCommit."""
    return GroupSeen(body.text() or "", body.text() or "")


def positions_within(body: MessageCursor, version: int) -> tuple[GroupSeen, list[PositionSent]]:
    """Read the group and the positions of a TxnOffsetCommit."""
    seen = group_seen(body)
    body.skip(10)
    if version >= 3:
        body.skip(4)
        body.skip_text()
        body.skip_text()
    return seen, list(_read_positions(body, has_epochs=version >= 2, has_times=False))


def _read_positions(body: MessageCursor, *, has_epochs: bool, has_times: bool) -> Iterator[PositionSent]:
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            partition, offset, epoch_at = body.int32(), body.int64(), body.at
            body.skip(4 * has_epochs + 8 * has_times)
            yield PositionSent((topic, partition), offset, epoch_at if has_epochs else None)
            body.skip_text()
            body.skip_tags()
        body.skip_tags()


def commit_refused(asked: CommitAsked, code: int | None = None) -> bytes:
    """Build the answer to a commit that is not forwarded. By default it has the client abort the transaction: in
    versions without TRANSACTION_ABORTABLE by INVALID_PRODUCER_ID_MAPPING, for which clients abort as well. A retriable
    code would only keep them until the coordinator aborts the transaction, and fences them.
    """
    if code is None:
        is_known = asked.version >= _ABORTABLE_FROM
        code = codes.TRANSACTION_ABORTABLE if is_known else codes.INVALID_PRODUCER_ID_MAPPING
    return _encode_commit_answer(asked, code, -1, -1)


def commit_told(asked: CommitAsked, commit: CarriedTransaction) -> bytes:
    """Build the answer to a commit that another cluster has decided, with the epoch that the producer has after it."""
    return _encode_commit_answer(asked, codes.NONE, commit.producer_id, commit.producer_epoch)


def _encode_commit_answer(asked: CommitAsked, code: int, producer_id: int, epoch: int) -> bytes:
    tags = b"\0" if is_flexible(END_TXN, asked.version) else b""
    payload = _SIZE.pack(asked.correlation) + tags + _REFUSAL.pack(0, code)
    if asked.version >= _PRODUCER_FROM:
        payload += _PRODUCER.pack(producer_id, epoch)
    payload += tags
    return _SIZE.pack(len(payload)) + payload


def code_of_commit(frame: memoryview, version: int) -> int:
    """Read the error code of an answer to EndTxn."""
    flexible = is_flexible(END_TXN, version)
    body = response_body(frame[_SIZE.size :], flexible=flexible, has_tags=flexible)
    body.skip(4)
    return body.int16()


def positions_told(frame: memoryview, version: int) -> list[PositionTold]:
    """Read the error codes of an answer to OffsetCommit."""
    flexible = is_flexible(OFFSET_COMMIT, version)
    body = response_body(frame[_SIZE.size :], flexible=flexible, has_tags=flexible)
    if version >= 3:
        body.skip(4)
    found = []
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            partition, code_at = body.int32(), _SIZE.size + body.at
            found.append(PositionTold((topic, partition), body.int16(), code_at))
            body.skip_tags()
        body.skip_tags()
    return found
